"""The measures of the judge on one dimension, each with its number, interval and counts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tournament_assets.audits.agreement import measure_by_prompt
from tournament_assets.audits.judge_consistency import (
    CycleCount,
    JudgedPair,
    PositionBias,
    Transitivity,
    distinct_requests,
    measure_circles,
    measure_longer_wins,
    measure_position_bias,
    measure_transitivity,
)
from tournament_assets.foundation.estimates import Estimate, Resampling
from tournament_assets.foundation.formatting import format_plural, format_share
from tournament_assets.ratings.matches import Matches, code_judgments, code_samples
from tournament_assets.ratings.sandwich import SamplingLuck, sampling_luck
from tournament_assets.storage.tables import AnyTable, LoadedTable
from tournament_assets.tournament.verdicts import Judgment, Outcome

Found = Mapping[str | None, Estimate]
"""Numbers by the entrant or other judge that they are about; None for the judge itself."""


@dataclass(frozen=True, kw_only=True)
class JudgeEvidence:
    """What is known about a judge on one dimension; what was not measured is an empty estimate.

    Attributes:
        pairs: Every planned pair.
        entrants: Everyone who may appear, in the order of the tables.
        resampling: Of the prompts, for the intervals of kappa; its seed also drives the simulations
            of cycles, and its confidence holds for all intervals.
        length: The effect of a typical difference in length, in Elo points.
        verdicts: The table `judge_verdicts`.
        replies: The table `judge_replies`, for measures of what was written or what it took.
        tables: Those tables that measures read besides and that were made, by the asset's name.
        name_job: Returns the full name of a job, for what a note advises to run.
        by_judge: Every pair by each judge of a panel, for measuring position bias; None with one
            judge.
        marked: For each entrant the share of its responses that hold marks of thoughts.
        not_needed: Number of pairs not needed and of planned pairs, where pairs stop early; None
            where every pair is judged.
    """

    pairs: Sequence[JudgedPair]
    entrants: Sequence[str]
    resampling: Resampling
    length: Estimate
    verdicts: AnyTable
    replies: AnyTable
    tables: Mapping[str, LoadedTable] = field(default_factory=dict)
    name_job: Callable[[str], str] = str
    by_judge: Sequence[JudgedPair] | None = None
    marked: Found = field(default_factory=dict)
    not_needed: tuple[int, int] | None = None

    @property
    def confidence(self) -> float:
        """Coverage of the intervals."""
        return self.resampling.confidence

    @cached_property
    def distinct(self) -> Sequence[JudgedPair]:
        """The pairs that the judge was asked about, without repeated requests."""
        return distinct_requests(self.pairs if self.by_judge is None else self.by_judge)

    @cached_property
    def bias(self) -> PositionBias:
        """How the judge treats the slots."""
        return measure_position_bias(self.distinct, confidence=self.confidence)

    @cached_property
    def judgments(self) -> Sequence[Judgment]:
        """How the pairs are settled."""
        return [pair.judgment for pair in self.pairs]

    @cached_property
    def cycles(self) -> Transitivity:
        """Cycles of three."""
        return measure_transitivity(self.coded, seed=self.resampling.seed)

    @cached_property
    def coded(self) -> Matches:
        """The judged pairs as columns."""
        return code_judgments(self.judgments, entrants=self.entrants)


def with_note(estimate: Estimate, note: str, *, without: str = "") -> Estimate:
    """Return an estimate with another note; where it is of nothing, only why, if that is said."""
    return replace(estimate, note=note) if estimate.n or not without else Estimate(note=without)


def first_slot(evidence: JudgeEvidence) -> Estimate:
    """Return the share of replies that prefer the first slot, of those that prefer either."""
    share = evidence.bias.first_slot
    note = f"{share.count} replies prefer the first slot and {share.n - share.count} the other"
    return with_note(share, note, without="no reply prefers a response")


def marked(evidence: JudgeEvidence) -> Estimate | Found:
    """Return the shares of responses with marks of thoughts: of all, or of entrants with some."""
    if not evidence.marked:
        return Estimate(note="no response was judged")
    some = {name: share for name, share in evidence.marked.items() if share.value}
    n = sum(share.n for share in evidence.marked.values())
    return some or Estimate(0.0, 0.0, 0.0, n, "no response holds a mark")


def flips(evidence: JudgeEvidence) -> Estimate:
    """Return the share of pairs that flip to the first slot, of those that flip to either."""
    share, half = evidence.bias.flips_to_first, evidence.bias.half_flips
    more = f"{half} more {'was' if half == 1 else 'were'} a tie in one order only"
    first = f"{share.count} of {share.n} flipped pairs went to the first slot both times"
    without = f"no pair flipped between the responses{f' ({more})' if half else ''}"
    return with_note(share, f"{first}; {more}" if half else first, without=without)


def consistency(evidence: JudgeEvidence) -> Estimate:
    """Return the share of pairs that come out the same in both orders."""
    share = evidence.bias.consistent
    note = f"{share.count} of {share.n} distinct judged pairs came out the same"
    return with_note(share, note, without="no pair has two readable replies")


def longer_wins(evidence: JudgeEvidence) -> Estimate:
    """Return the share of wins of the response with more words."""
    share = measure_longer_wins(evidence.distinct, confidence=evidence.confidence)
    note = f"the response with more words won {share.count} of {share.n} pairs"
    return with_note(share, note, without="no decided pair has responses of different length")


def cycles_within_prompts(evidence: JudgeEvidence) -> Estimate:
    """Return the p-value of cycles of judgments on one prompt."""
    return _cycles(evidence, evidence.cycles.within_prompts, "judgments on one prompt")


def cycles_of_majorities(evidence: JudgeEvidence) -> Estimate:
    """Return the p-value of cycles of majorities, naming one of the cycles."""
    named = evidence.cycles.majority_cycles
    first = f"; the first is {' over '.join((*named[0], named[0][0]))}" if named else ""
    return _cycles(evidence, evidence.cycles.of_majorities, "majorities", first)


def _cycles(evidence: JudgeEvidence, count: CycleCount, of: str, more: str = "") -> Estimate:
    if count.p_value is None:
        return Estimate(note=f"no three {of} are all decided")
    note = (
        f"{count.cycles} of {count.triples} triples of {of} are cycles; chance gives "
        f"{count.expected:.1f} on average over {evidence.cycles.n_simulations} simulations{more}"
    )
    return Estimate(count.p_value, n=count.triples, note=note)


def circles(evidence: JudgeEvidence) -> Found:
    """Return the share of the variance between entrants that runs in circles; nothing for two."""
    if len(evidence.entrants) < 3:
        return {}
    estimate = measure_circles(evidence.coded, evidence.resampling)
    if estimate.value is None:
        return {None: estimate}
    return {None: with_note(estimate, f"over {format_plural(estimate.n, 'prompt')}")}


def unjudged(evidence: JudgeEvidence) -> Found:
    """Return the share of each entrant's pairs that were put to the judge without a judgment."""
    return {entrant: _unjudged(evidence, entrant) for entrant in evidence.entrants}


def _unjudged(evidence: JudgeEvidence, entrant: str) -> Estimate:
    pairs: Iterable[JudgedPair] = distinct_requests(
        pair
        for pair in evidence.pairs
        if entrant in (pair.judgment.entrant_a, pair.judgment.entrant_b)
    )
    share = measure_by_prompt(
        ((pair.judgment.prompt_id, pair.judgment.outcome is Outcome.UNJUDGED) for pair in pairs),
        confidence=evidence.confidence,
    )
    note = f"{share.count} of its {share.n} distinct pairs are not judged"
    return with_note(share, note, without="the judge was asked about none of its pairs")


def not_needed(evidence: JudgeEvidence) -> Found:
    """Return the share of pairs that were not needed; nothing where every pair is judged."""
    if evidence.not_needed is None:
        return {}
    # A count of decisions, not a sample.
    count, planned = evidence.not_needed
    note = f"{count} of {planned} pairs were not needed"
    return {None: Estimate(count / planned if planned else None, n=planned, note=note)}


def luck(evidence: JudgeEvidence) -> Found:
    """Return the spread between samples of a prompt; nothing where each was answered once."""
    samples = code_samples(evidence.judgments, entrants=evidence.entrants)
    if not samples.sample.size:
        return {}
    return {each.entrant: _luck(each) for each in sampling_luck(samples)}


def _luck(luck: SamplingLuck) -> Estimate:
    if luck.luck is None or not luck.standard_error:
        return Estimate(note="no rating, or no prompt with two judged samples")
    share = format_share((luck.luck / luck.standard_error) ** 2, decimals=0)
    note = (
        f"{share} of the variance behind its standard error of {luck.standard_error:.1f} "
        f"points, from {luck.n_samples} judged samples of {luck.n_prompts} prompts"
    )
    return Estimate(luck.luck, n=luck.n_prompts, note=note)
