"""Changes between two runs: flipped judgments, agreement, inputs, ratings and places.

A judgment flips when both runs settled a pair and settled it differently. A pair that only one of
them settled is lost or gained, and excluded from all rates.

An edit can affect only the pairs whose requests to the judge changed, so flips are counted over
these; all other pairs are the rest. If no request changed, flips are counted over all pairs.

Inputs are compared by the manifests: settings, and the hash of every input.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

from tournament_assets.audits.agreement import (
    MANY_RESAMPLES,
    Agreement,
    LabelPair,
    measure_agreement,
    measure_by_prompt,
    measure_proportion,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Estimate, Rating, Resampling
from tournament_assets.foundation.fingerprints import canonical_json, short
from tournament_assets.foundation.formatting import Display, format_ends, format_share
from tournament_assets.tournament.asset_rows import by_dimension
from tournament_assets.tournament.verdicts import Judgment, Outcome

PairKey = tuple[str, str, int, str, str]
"""Dimension, prompt and the two entrants, in alphabetical order."""

_HASH_LENGTH = 64
_TURNED = {Outcome.A_WINS: Outcome.B_WINS, Outcome.B_WINS: Outcome.A_WINS}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledPair(Judgment):
    """A pair as settled by one run, with fingerprints of what the judge saw.

    Attributes:
        source: The prompt's source, which is its stratum; None if the run does not say.
        question: Fingerprint of the prompt's text and its notes on good answers; None, like the
            next two, if the run does not say.
        response_a: Fingerprint of the first entrant's response.
        response_b: Fingerprint of the second entrant's response.
        requests: Distinct keys of the requests that settled it, sorted; none for two copies of one
            response.
    """

    source: str | None = None
    question: str | None = None
    response_a: str | None = None
    response_b: str | None = None
    requests: tuple[str, ...] = ()

    @property
    def key(self) -> PairKey:
        """The key that identifies the pair across runs."""
        first, second = self.entrant_a, self.entrant_b
        if second < first:
            first, second = second, first
        return self.dimension, self.prompt_id, self.sample, first, second


class Change(StrEnum):
    """How a judgment changed, most serious first."""

    REVERSED = "reversed"
    """The winner became the loser."""
    TIE = "tie"
    """A win became a tie, or a tie a win."""
    INCONSISTENT = "inconsistent"
    """In one of the two runs the two verdicts disagree."""
    LOST = "lost"
    """Only the first run settled the pair."""
    GAINED = "gained"
    """Only the second run settled the pair."""
    NONE = "none"
    """Both settled it alike, or neither did."""

    @property
    def is_flip(self) -> bool:
        """Whether both runs settled the pair, but differently."""
        return self in (Change.REVERSED, Change.TIE, Change.INCONSISTENT)


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """A pair that both runs have.

    Attributes:
        source: The prompt's source, from the second run or else the first; None if neither says.
        entrant_a: The first entrant, in the first run's order.
        then: How the first run settled it.
        now: How the second run settled it, for the entrants in the same order.
        responses_changed: Whether one of the responses differs, so that a flip is not the judge's;
            None if a run does not say.
        question_changed: The same for the prompt.
        requests: The requests of both runs. Pairs with the same requests are one question: two
            entrants gave the same response, and the judge was asked once.
        weight: Number of prompts it represents, of those judged in both runs. One hash draws both
            tails, so a pair is in both with the smaller of its two probabilities.
        sample: Which of their answers to the prompt were compared, from 1.
    """

    dimension: str
    prompt_id: str
    source: str | None
    entrant_a: str
    entrant_b: str
    then: Outcome
    now: Outcome
    responses_changed: bool | None
    question_changed: bool | None
    requests: tuple[tuple[str, ...], tuple[str, ...]]
    weight: float = 1.0
    sample: int = 1

    @property
    def requests_changed(self) -> bool:
        """Whether the requests to the judge changed."""
        return self.requests[0] != self.requests[1]

    @property
    def is_copy(self) -> bool:
        """Whether neither run asked, because both responses are the same."""
        return not any(self.requests)

    @property
    def change(self) -> Change:
        """What became of the judgment."""
        both = (self.then, self.now)
        if self.then is self.now:
            return Change.NONE
        if Outcome.UNJUDGED in both:
            return Change.GAINED if self.then is Outcome.UNJUDGED else Change.LOST
        if Outcome.INCONSISTENT in both:
            return Change.INCONSISTENT
        if all(outcome.is_tie for outcome in both):
            return Change.NONE
        return Change.TIE if any(outcome.is_tie for outcome in both) else Change.REVERSED


@dataclass(frozen=True, slots=True)
class FlipCount:
    """The flips of one group of pairs.

    Attributes:
        dimension: The group's dimension; None for all.
        source: The prompts' source; None for all.
        flips: The share of judgments that flipped, of the pairs that both runs settled; a pair
            counts by its weight.
        flipped: How many of these pairs flipped.
        questions: The share of flips among distinct questions: pairs with the same requests count
            once, and copies, about which the judge was not asked, do not count. Unweighted, because
            it describes the judge, not the bank.
        changes: Numbers of changed pairs, by change.
        shown_otherwise: Flips of pairs whose prompt or responses differ, so that they are not the
            judge's alone.
        agreement: How far the runs agree on the pairs that both settled, with kappa.
    """

    dimension: str | None
    source: str | None
    flips: Estimate
    flipped: int
    questions: Estimate
    changes: Mapping[Change, int]
    shown_otherwise: int
    agreement: Agreement


@dataclass(frozen=True, slots=True)
class FlipReport:
    """How the judgments of one run changed in another.

    Attributes:
        pairs: Pairs that both runs have, in the order of the first.
        total: The flips of the pairs that an edit could affect: those with changed requests, or all
            pairs if there are none.
        by_dimension: The same by dimension, in the order of the pairs.
        by_stratum: The same by dimension and source; prompts without a source are left out.
        rest: The flips of all other pairs; None if there is none.
        only_then: Pairs that only the first run has, by dimension.
        only_now: Pairs that only the second run has, by dimension.
    """

    pairs: tuple[ComparedPair, ...]
    total: FlipCount
    by_dimension: tuple[FlipCount, ...]
    by_stratum: tuple[FlipCount, ...]
    rest: FlipCount | None
    only_then: Mapping[str, int]
    only_now: Mapping[str, int]

    @property
    def copies(self) -> int:
        """Pairs about which neither run asked, because both responses are the same."""
        return sum(pair.is_copy for pair in self.pairs)

    def count(self, change: str) -> int:
        """Return the number of pairs with this change."""
        return sum(pair.change == change for pair in self.pairs)

    @property
    def asked_otherwise(self) -> dict[str, int]:
        """Number of pairs with changed requests, by dimension, without zeros."""
        return dict(Counter(pair.dimension for pair in self.pairs if pair.requests_changed))

    @property
    def changed(self) -> tuple[ComparedPair, ...]:
        """The pairs that flipped, were lost or gained, most serious first."""
        order = list(Change)
        return tuple(
            sorted(
                (pair for pair in self.pairs if pair.change is not Change.NONE),
                key=lambda pair: order.index(pair.change),
            )
        )


def compare_judgments(
    then: Sequence[SettledPair],
    now: Sequence[SettledPair],
    resampling: Resampling = MANY_RESAMPLES,
) -> FlipReport:
    """Compare two runs' judgments of the same pairs.

    Args:
        then: The first run's pairs.
        now: The second run's pairs; an entrant may stand on the other side of a pair.
        resampling: Of the prompts, for the intervals of kappa; its confidence holds for all
            intervals.
    """
    pairs, only_then, only_now = _match(then, now)
    has_touched = any(pair.requests_changed for pair in pairs)
    rest = [pair for pair in pairs if has_touched and not pair.requests_changed]

    count = partial(_count_flips, resampling)

    def touched(members: Sequence[ComparedPair]) -> list[ComparedPair]:
        return [pair for pair in members if pair.requests_changed or not has_touched]

    dimensions = by_dimension(pairs)
    return FlipReport(
        pairs=pairs,
        total=count(touched(pairs)),
        by_dimension=tuple(count(touched(members), name) for name, members in dimensions.items()),
        by_stratum=tuple(
            count(touched(group), name, source)
            for name, members in dimensions.items()
            for source in sorted({pair.source for pair in members if pair.source})
            for group in ([pair for pair in members if pair.source == source],)
        ),
        rest=count(rest) if rest else None,
        only_then=Counter(dimension for dimension, *_ in only_then),
        only_now=Counter(dimension for dimension, *_ in only_now),
    )


def _match(
    then: Iterable[SettledPair], now: Iterable[SettledPair]
) -> tuple[tuple[ComparedPair, ...], Iterable[PairKey], Iterable[PairKey]]:
    """Return the pairs that both runs have, and the keys of those in only one."""
    # A large run has a million pairs: use one index, and remove pairs as they are found.
    waiting: dict[PairKey, SettledPair | None] = {}
    for pair in now:
        if pair.key in waiting:
            raise _twice(pair)
        waiting[pair.key] = pair
    both: list[ComparedPair] = []
    only_then: dict[PairKey, None] = {}
    for pair in then:
        key = pair.key
        other = waiting.get(key)
        if (other is None and key in waiting) or key in only_then:
            raise _twice(pair)
        if other is None:
            only_then[key] = None
        else:
            both.append(_compare(pair, other))
            waiting[key] = None
    only_now = [key for key, pair in waiting.items() if pair is not None]
    return tuple(both), only_then, only_now


def _twice(pair: SettledPair) -> InputError:
    return InputError(
        f"the pair of {pair.entrant_a!r} and {pair.entrant_b!r} on prompt "
        f"{pair.prompt_id!r}, {pair.dimension}, is there twice; expected it once"
    )


def _compare(then: SettledPair, now: SettledPair) -> ComparedPair:
    is_turned = then.entrant_a != now.entrant_a
    responses = (now.response_b, now.response_a) if is_turned else (now.response_a, now.response_b)
    return ComparedPair(
        dimension=then.dimension,
        prompt_id=then.prompt_id,
        source=then.source if now.source is None else now.source,
        entrant_a=then.entrant_a,
        entrant_b=then.entrant_b,
        then=then.outcome,
        now=_TURNED.get(now.outcome, now.outcome) if is_turned else now.outcome,
        responses_changed=_differ((then.response_a, then.response_b), responses),
        question_changed=_differ((then.question,), (now.question,)),
        requests=(then.requests, now.requests),
        weight=max(then.weight, now.weight),
        sample=then.sample,
    )


def _differ(then: tuple[str | None, ...], now: tuple[str | None, ...]) -> bool | None:
    return None if None in then or None in now else then != now


def _count_flips(
    resampling: Resampling,
    pairs: Sequence[ComparedPair],
    dimension: str | None = None,
    source: str | None = None,
) -> FlipCount:
    labels = [
        LabelPair(pair.prompt_id, _label(pair.then), _label(pair.now), pair.weight)
        for pair in pairs
    ]
    agreement, confidence = measure_agreement(labels, resampling), resampling.confidence
    became = Counter(pair.change for pair in pairs)
    settled = [pair for pair in pairs if Outcome.UNJUDGED not in (pair.then, pair.now)]
    flipped = [pair for pair in settled if pair.change.is_flip]
    return FlipCount(
        dimension=dimension,
        source=source,
        flips=_share_of_flips(settled, confidence=confidence),
        flipped=len(flipped),
        questions=_flips_of_questions(settled, confidence=confidence),
        changes={change: became[change] for change in Change if change is not Change.NONE},
        shown_otherwise=sum(
            bool(pair.responses_changed or pair.question_changed) for pair in flipped
        ),
        agreement=agreement,
    )


def _share_of_flips(settled: Sequence[ComparedPair], *, confidence: float) -> Estimate:
    weights = [pair.weight for pair in settled]
    if len(set(weights)) < 2:
        flipped = sum(pair.change.is_flip for pair in settled)
        return measure_proportion(flipped, len(settled), confidence=confidence)
    return measure_by_prompt(
        ((pair.prompt_id, pair.change.is_flip) for pair in settled),
        confidence=confidence,
        weights=weights,
    )


def _flips_of_questions(settled: Sequence[ComparedPair], *, confidence: float) -> Estimate:
    """Return the share of flips among different questions.

    Questions about several samples of a prompt are much alike, so that prompts are then taken as
    independent and not the questions; one prompt alone bounds nothing.
    """
    questions = [pair for pair in settled if not pair.is_copy]
    flipped: dict[tuple[object, ...], tuple[str, bool]] = {}
    for pair in questions:
        key = pair.dimension, pair.requests
        prompt_id, was_flip = flipped.get(key, (pair.prompt_id, False))
        flipped[key] = prompt_id, was_flip or pair.change.is_flip
    n_flips = sum(is_flip for _, is_flip in flipped.values())
    if all(pair.sample == 1 for pair in questions):
        return measure_proportion(n_flips, len(flipped), confidence=confidence)
    if len({prompt_id for prompt_id, _ in flipped.values()}) == 1:
        return Estimate(n_flips / len(flipped), 0.0, 1.0, len(flipped))
    return measure_by_prompt(flipped.values(), confidence=confidence)


def _label(outcome: Outcome) -> str | None:
    if outcome.is_tie:
        return Outcome.TIE.value
    return None if outcome is Outcome.UNJUDGED else outcome.value


class Sameness(StrEnum):
    """Whether two runs agree, as far as their judgments show."""

    SAME = "same"
    """The same pairs, and no more flips than count as noise."""
    DIFFERS = "differs"
    """More flips than count as noise."""
    UNDECIDED = "undecided"
    """Neither can be said."""

    @property
    def exit_code(self) -> int:
        """Exit code of `tournament compare`; 2 is for unreadable directories."""
        return {Sameness.SAME: 0, Sameness.DIFFERS: 1, Sameness.UNDECIDED: 3}[self]


@dataclass(frozen=True, slots=True)
class SamenessVerdict:
    """Whether two runs agree, and why.

    Attributes:
        tolerance: Largest share of flips that counts as noise.
        reasons: The reasons, a clause each.
    """

    sameness: Sameness
    tolerance: float
    reasons: tuple[str, ...]


def judge_sameness(
    flips: FlipReport, *, tolerance: float, places_changed: int, ratings_moved: int
) -> SamenessVerdict:
    """Return whether two runs agree.

    They differ if the whole interval of a share of flips lies above the tolerance, for any
    dimension of the pairs that an edit could affect or for the rest. Pairs with the same requests
    count once. They are the same if every upper end is within the tolerance, or no request changed
    and nothing flipped, and if both have the same pairs and places.

    Args:
        flips: What became of the judgments.
        tolerance: Largest share of flips that counts as noise.
        places_changed: Number of entrants whose place changed.
        ratings_moved: Number of ratings that changed.
    """
    shares = [(_share(where, count), count.questions) for where, count in _compared_groups(flips)]
    doubts = [share for share, questions in shares if (questions.high or 0.0) > tolerance]
    doubts += _doubts(flips, places_changed=places_changed, ratings_moved=ratings_moved)
    sameness = Sameness.UNDECIDED
    if reasons := [share for share, questions in shares if (questions.low or 0.0) > tolerance]:
        sameness = Sameness.DIFFERS
    elif not (flips.total.flips.n or (flips.rest and flips.rest.flips.n)):
        reasons = ["no pair was settled in both runs"]
    elif doubts:
        reasons = doubts
    else:
        sameness, reasons = Sameness.SAME, [share for share, _ in shares]
    reasons = reasons or ["no judgment flipped and all requests are the same"]
    return SamenessVerdict(sameness, tolerance, tuple(reasons))


def _compared_groups(flips: FlipReport) -> Iterator[tuple[str, FlipCount]]:
    """Yield the groups of pairs whose flips decide; without an edit, those that flipped alone."""
    for count in flips.by_dimension:
        if count.flips.n and (count.flipped or flips.asked_otherwise):
            yield f"on {count.dimension}", count
    if flips.rest is not None and flips.rest.flipped:
        yield "of the pairs asked the same", flips.rest


def _doubts(flips: FlipReport, *, places_changed: int, ratings_moved: int) -> Iterator[str]:
    """Yield the reasons, apart from flips, why two runs may not be the same."""
    one_sided = sum((*flips.only_then.values(), *flips.only_now.values()))
    one_sided += flips.count(Change.LOST) + flips.count(Change.GAINED)
    if one_sided:
        yield f"pairs that only one run settled: {one_sided}"
    if places_changed:
        yield f"entrants whose place changes: {places_changed}"
    has_flips = any(pair.change.is_flip for pair in flips.pairs)
    if ratings_moved and not (has_flips or one_sided):
        yield f"ratings that move although no judgment flipped: {ratings_moved}"


def _share(where: str, count: FlipCount) -> str:
    flips = count.questions
    if flips.low is None or flips.high is None:
        return f"nothing was asked {where}"
    return (
        f"{flips.count} of {flips.n} different questions flipped {where} "
        f"({format_ends(flips.low, flips.high, format_share)})"
    )


_NO_INPUTS = frozenset(
    {
        "started_at",
        "finished_at",
        "cost",
        "command",
        "rerun",
        "pairs",
        "replies_pending",
        "project_commit",
        "trust",
        "missing",
        "length_gains",
        "prompts_planned",
        "economies",
        "first_screen",
        "rubrics",
    }
)
"""Manifest fields about the run itself and its results; commits and rubrics have their hashes."""


def _format_input(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, list):
        return ", ".join(map(str, value))
    text = str(value)
    return short(text) if len(text) == _HASH_LENGTH and text.isalnum() else text


@dataclass(frozen=True, slots=True)
class InputChange:
    """Something that differs between two runs.

    Attributes:
        name: Its path in the manifest, such as `inputs.rubrics.factuality.hash`.
        then: The first run's value; None if it has none.
        now: The second run's value; None if it has none.
    """

    name: Annotated[str, Display("input")]
    then: Annotated[Any, Display("then", _format_input)]
    now: Annotated[Any, Display("now", _format_input)]


@dataclass(frozen=True, slots=True)
class InputComparison:
    """The differences between the inputs of two runs.

    Attributes:
        changes: The differences, in the order of the manifests.
    """

    changes: tuple[InputChange, ...]

    def names(self, beginning: str) -> list[str]:
        """Return the parts of the changes' names that follow a prefix, up to the next dot."""
        return list(
            dict.fromkeys(
                change.name.removeprefix(beginning).split(".")[0]
                for change in self.changes
                if change.name.startswith(beginning)
            )
        )


def compare_inputs(then: Mapping[str, Any], now: Mapping[str, Any]) -> InputComparison:
    """Compare the manifests of two runs, except for times, costs and results.

    Args:
        then: The first run's manifest.
        now: The second run's manifest.
    """
    first, second = (
        _flatten({name: value for name, value in manifest.items() if name not in _NO_INPUTS})
        for manifest in (then, now)
    )
    return InputComparison(
        changes=tuple(
            InputChange(name, first.get(name), second.get(name))
            for name in {**first, **second}
            if canonical_json(first.get(name)) != canonical_json(second.get(name))
        )
    )


def _flatten(values: Mapping[str, Any], beginning: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{beginning}{name}.")
        else:
            flat[f"{beginning}{name}"] = value
    return flat


@dataclass(frozen=True, slots=True)
class RatingMove:
    """An entrant's standing in two runs, on one dimension.

    Attributes:
        then: The standing in the first run; None if the entrant is not in it.
        now: The standing in the second run; None if the entrant is not in it.
    """

    dimension: str
    entrant_id: str
    then: Rating | None
    now: Rating | None

    @property
    def _values(self) -> list[float | None]:
        return [None if rating is None else rating.value for rating in (self.then, self.now)]

    @property
    def difference(self) -> float | None:
        """Increase of the mean in Elo points; None unless known in both runs."""
        first, second = self._values
        return None if first is None or second is None else second - first

    @property
    def rated(self) -> tuple[bool, bool]:
        """Whether the entrant is rated in the first run, and in the second."""
        first, second = self._values
        return first is not None, second is not None

    @property
    def is_of_place(self) -> bool:
        """Whether the entrant has different places in the two runs."""
        ranks = (self.then and self.then.rank, self.now and self.now.rank)
        return None not in ranks and ranks[0] != ranks[1]


def compare_standings(
    then: Mapping[str, Sequence[Rating]], now: Mapping[str, Sequence[Rating]]
) -> tuple[RatingMove, ...]:
    """Put the standings of two runs side by side, by dimension, the second run's best first.

    Args:
        then: The first run's standings by dimension.
        now: The second run's standings by dimension; a dimension of one run alone is left out.
    """
    moves = []
    for dimension in then:
        if dimension not in now:
            continue
        first, second = (
            {standing.entrant: standing for standing in standings}
            for standings in (then[dimension], now[dimension])
        )
        compared = [
            RatingMove(dimension, name, first.get(name), second.get(name))
            for name in {**second, **first}
        ]
        moves += sorted(compared, key=_place)
    return tuple(moves)


def _place(move: RatingMove) -> tuple[float, str]:
    # Entrants without a place come last.
    rank = None if move.now is None else move.now.rank
    return float("inf") if rank is None else rank, move.entrant_id
