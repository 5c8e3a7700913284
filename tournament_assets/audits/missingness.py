"""Coverage of the plan by entrant, and whether what is missing is spread evenly.

A score is a win share, as in the win rates: a win counts 1, a tie and an inconsistent pair 1/2. A
missing pair is ignored, except in the coverage-normalised score, which divides by the planned
pairs, so that a missing pair costs as much as a loss.

An entrant whose comparisons are missing more often than the others' is compared on other prompts or
against other opponents, so its score is not comparable. A warning needs two things: a spread above
what the config allows, and an entrant whose count is unlikely by chance. The probability is exact:
if the missing units were a random draw from the planned ones, the number with a given entrant would
be hypergeometric. Source: Fisher, "On the interpretation of chi-squared from contingency tables,
and the calculation of P", https://doi.org/10.2307/2340521; Bonferroni's factor for looking at every
entrant from both sides.

What must precede published results follows from table "audit" alone, so that the page, the command
line and the manifest agree.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import format_share, join_names
from tournament_assets.judging.requests.verdict_parsing import FailureClass
from tournament_assets.tournament.asset_rows import CoverageRow, by_dimension
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.prompts import GeneratedResponse, answer_key
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict

INFRASTRUCTURE = frozenset(
    {
        FailureClass.ERRORED,
        FailureClass.EXPIRED,
        FailureClass.CANCELED,
        FailureClass.EMPTY,
        FailureClass.INFRASTRUCTURE,
        FailureClass.UNPARSABLE,
        FailureClass.ARCHIVED,
    }
)
"""Failures of the infrastructure; all others are the judge's own."""


@dataclass(frozen=True, slots=True)
class ReplyReading:
    """The result of one presentation.

    Attributes:
        verdict: The verdict of the reply that counts.
        failure: Why there is no verdict; None if there is a verdict or no reply yet.
        was_rejudged: Whether it has a verdict after an earlier infrastructure failure.
    """

    verdict: Verdict
    failure: FailureClass | None = None
    was_rejudged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReading(Judgment):
    """A settled pair with the reading of each reply.

    Attributes:
        stratum: The prompt's source.
        replies: Readings of its two presentations, `ab` and `ba`, by each judge in turn.
    """

    stratum: str
    replies: tuple[ReplyReading, ...]

    @property
    def is_judged(self) -> bool:
        """Whether the judge was asked and both replies hold a verdict."""
        return self.outcome.is_judged

    def points(self, entrant_id: str) -> float | None:
        """Return the points that one of its entrants gets; None if the pair is not settled."""
        if self.share is None:
            return None
        return self.share if entrant_id == self.entrant_a else 1 - self.share


def measure_coverage(
    dimension: str,
    *,
    entrants: Sequence[str],
    prompts_selected: int,
    responses: Mapping[str, Sequence[GeneratedResponse]],
    pairs: Iterable[PairReading],
    prompts_unanswered: int = 0,
) -> list[CoverageRow]:
    """Return the rows of table "audit": for every entrant, the planned and the actual counts.

    Args:
        entrants: In the order of the tables.
        prompts_selected: Prompts of the mode.
        responses: Each entrant's responses.
        pairs: Every pair of the dimension that was put to the judge.
        prompts_unanswered: Prompts that this dimension could judge but that were not paired,
            because an entrant did not answer them.
    """
    pairs = list(pairs)
    spoiled = {
        (entrant, answer_key(response))
        for entrant, answers in responses.items()
        for response in answers
        if _is_empty(response) or _is_cut_off(response)
    }
    unanswered = prompts_unanswered * (len(entrants) - 1)
    coverage: list[CoverageRow] = []
    for entrant in entrants:
        answers = responses.get(entrant, ())
        of_entrant = [pair for pair in pairs if entrant in (pair.entrant_a, pair.entrant_b)]
        planned = len(of_entrant) + unanswered
        settled = [pair for pair in of_entrant if pair.share is not None]
        judged = [pair for pair in of_entrant if pair.is_judged]
        clean = [
            pair
            for pair in settled
            if pair.outcome is not Outcome.INCONSISTENT
            and (pair.entrant_a, answer_key(pair)) not in spoiled
            and (pair.entrant_b, answer_key(pair)) not in spoiled
        ]
        points = _sum_points(settled, entrant)
        replies = [
            reply
            for pair in of_entrant
            if pair.outcome is not Outcome.SAME_TEXT
            for reply in pair.replies
        ]
        verdicts = Counter(reply.verdict for reply in replies)
        coverage.append(
            CoverageRow(
                dimension=dimension,
                entrant_id=entrant,
                prompts_selected=prompts_selected,
                responses=len(answers),
                empty_responses=sum(map(_is_empty, answers)),
                truncated_responses=sum(map(_is_cut_off, answers)),
                thoughts_cut=sum(_is_empty(answer) and _is_cut_off(answer) for answer in answers),
                pairs_planned=planned,
                pairs_unanswered=unanswered,
                pairs_same_text=len(settled) - len(judged),
                pairs_judged=len(judged),
                pairs_inconsistent=sum(pair.outcome is Outcome.INCONSISTENT for pair in judged),
                pairs_clean=len(clean),
                coverage=_ratio(len(settled), planned),
                score_present=_ratio(points, _weigh(settled)),
                score_clean=_ratio(_sum_points(clean, entrant), _weigh(clean)),
                score_normalised=_ratio(points, _weigh(of_entrant) + unanswered),
                replies_asked=len(replies),
                replies_refused=verdicts[Verdict.REFUSED],
                replies_unreadable=verdicts[Verdict.UNREADABLE],
                replies_permanent=verdicts[Verdict.PERMANENT],
                replies_pending=verdicts[Verdict.PENDING],
                infra_remaining=sum(reply.failure in INFRASTRUCTURE for reply in replies),
                infra_rejudged=sum(reply.was_rejudged for reply in replies),
            )
        )
    return coverage


def _sum_points(pairs: Iterable[PairReading], entrant: str) -> float:
    return sum(pair.weight * (pair.points(entrant) or 0.0) for pair in pairs)


def _weigh(pairs: Iterable[PairReading]) -> float:
    """Return how many pairs some stand for: more than their number where judging stopped early."""
    return sum(pair.weight for pair in pairs)


def _is_empty(response: GeneratedResponse) -> bool:
    return not response.text.strip()


def _is_cut_off(response: GeneratedResponse) -> bool:
    return response.finish_reason == "length"


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


CHANCE = 0.05
"""At or below this probability a count is not attributed to chance."""


@dataclass(frozen=True, slots=True)
class MissingCount:
    """The number of an entrant's planned units that are missing.

    Attributes:
        entrant_id: Whose count it is.
        missing: Units that are missing.
        planned: Units planned for it.
    """

    entrant_id: str
    missing: int
    planned: int

    @property
    def rate(self) -> float:
        """Share of what was planned that is missing; 0 where nothing was planned."""
        return self.missing / self.planned if self.planned else 0.0


@dataclass(frozen=True, slots=True)
class Evenness:
    """How evenly missing units are spread.

    Attributes:
        counts: Every entrant, largest missing share first.
        spread: Largest minus smallest share.
        p_value: Probability by chance of a count as extreme as the most extreme entrant's, with
            Bonferroni's factor.
        is_even: Whether the spread is within bounds or may be chance.
    """

    counts: tuple[MissingCount, ...]
    spread: float
    p_value: float
    is_even: bool

    @property
    def shares(self) -> str:
        """Every entrant's missing units and their share, in words."""
        return ", ".join(
            f"{each.entrant_id} {each.missing} of {each.planned} ({format_share(each.rate)})"
            for each in self.counts
        )


def measure_evenness(
    counts: Sequence[MissingCount], *, entrants_per_unit: int, max_spread: float
) -> Evenness:
    """Compare the entrants by their missing shares.

    Args:
        counts: One per entrant.
        entrants_per_unit: 2 if the units are pairs, 1 if each belongs to one entrant.
        max_spread: The largest difference between two entrants' shares that is always even.
    """
    ranked = tuple(sorted(counts, key=lambda each: (-each.rate, each.entrant_id)))
    if not ranked:
        return Evenness((), 0.0, 1.0, is_even=True)
    spread = ranked[0].rate - ranked[-1].rate
    total = sum(each.planned for each in ranked) // entrants_per_unit
    missing = sum(each.missing for each in ranked) // entrants_per_unit
    smallest = min(
        chance
        for each in ranked
        for chance in (
            tail_probability(each.missing, total=total, marked=each.planned, drawn=missing),
            # Too few units of this entrant are too many without it.
            tail_probability(
                missing - each.missing,
                total=total,
                marked=total - each.planned,
                drawn=missing,
            ),
        )
    )
    p_value = min(1.0, 2 * len(ranked) * smallest)
    return Evenness(ranked, spread, p_value, is_even=bool(spread <= max_spread or p_value > CHANCE))


def tail_probability(count: int, *, total: int, marked: int, drawn: int) -> float:
    """Return the probability that a draw without replacement holds at least `count` marked units.

    Args:
        count: Marked units in the draw.
        total: Units in all.
        marked: Those among them that are marked.
        drawn: Units drawn.

    Raises:
        InputError: If more units are marked or drawn than exist.
    """
    if not (0 <= marked <= total and 0 <= drawn <= total):
        raise InputError(
            f"{marked!r} marked and {drawn!r} drawn of {total!r} units; expected 0 to {total!r}"
        )
    if count <= max(0, drawn - (total - marked)):
        return 1.0
    # Imported here, so that loading the definitions does not pay for it.
    from scipy.stats import hypergeom

    return float(hypergeom.sf(count - 1, total, marked, drawn))


Rows = Sequence[CoverageRow]

MISSING_REPLIES = {
    "replies_refused": "refused",
    "replies_unreadable": "unreadable",
    "replies_permanent": "impossible",
    "replies_pending": "pending",
}
"""Columns of table "audit" that count presentations without a verdict, and why."""


@dataclass(frozen=True, slots=True)
class Outage:
    """Missing data that a reader must know about first.

    Attributes:
        kind: `answers`, an entrant that answered nothing, or less than others did; `judge`, a
            dimension with too few verdicts; `verdicts`, verdicts missing for some entrants more
            than for others.
        dimension: The dimension; None for answers, which belong to no dimension.
        entrants: Those whose answers are missing, or with the largest missing share.
        sentence: What to say.
        short: The same in a few words.
    """

    kind: Literal["judge", "verdicts", "answers"]
    dimension: str | None
    entrants: tuple[str, ...]
    sentence: str
    short: str


@dataclass(frozen=True, slots=True)
class MissingnessCheck:
    """Whether missing data is spread evenly over the entrants.

    Attributes:
        verdicts: How evenly missing verdicts are spread, by dimension.
        answers: How evenly missing and empty answers are spread.
        max_spread: The difference between two shares that is always even.
    """

    verdicts: Mapping[str, Evenness]
    answers: Evenness
    max_spread: float

    @property
    def passed(self) -> bool:
        """Whether everything is even."""
        return self.answers.is_even and all(each.is_even for each in self.verdicts.values())

    @property
    def largest_spread(self) -> float:
        """The largest difference between two entrants' shares, of verdicts or answers."""
        return max(self.answers.spread, *(each.spread for each in self.verdicts.values()), 0.0)

    @property
    def sentence(self) -> str:
        """The result in a sentence, with the numbers."""
        uneven = [
            _uneven(f"unjudged pairs on {dimension}", each)
            for dimension, each in self.verdicts.items()
            if not each.is_even
        ]
        if not self.answers.is_even:
            uneven.append(_uneven("answers missing or empty", self.answers))
        bound = f"at most {format_share(self.max_spread)} is even, and so is what chance explains"
        if uneven:
            return f"unevenly missing, {'; '.join(uneven)}; {bound}"
        everyone = [
            *self.answers.counts,
            *(one for each in self.verdicts.values() for one in each.counts),
        ]
        if not any(each.missing for each in everyone):
            return "nothing is missing"
        return (
            f"missing evenly: the largest difference between two entrants' shares is "
            f"{format_share(self.largest_spread)}; {bound}"
        )


def check_missingness(rows: Rows, *, max_spread: float) -> MissingnessCheck:
    """Return whether missing data is spread evenly over the entrants.

    Args:
        rows: Rows of table "audit".
        max_spread: The difference between two entrants' shares that is always even.
    """
    audited = by_dimension(rows)
    answers = [
        MissingCount(
            row.entrant_id,
            row.prompts_selected - row.responses + row.empty_responses,
            row.prompts_selected,
        )
        for row in next(iter(audited.values()), ())
    ]
    return MissingnessCheck(
        verdicts={
            dimension: measure_evenness(
                [
                    MissingCount(
                        row.entrant_id, row.pairs_asked - row.pairs_judged, row.pairs_asked
                    )
                    for row in members
                ],
                entrants_per_unit=2,
                max_spread=max_spread,
            )
            for dimension, members in audited.items()
        },
        answers=measure_evenness(answers, entrants_per_unit=1, max_spread=max_spread),
        max_spread=max_spread,
    )


BROKEN = 0.25
"""An entrant with this share of its answers missing or empty is broken, not bad."""


def broken_entrants(rows: Rows, *, above: float = 1.0) -> dict[str, str]:
    """Return the entrants that do not answer, and what they did instead, in words, worst first.

    Args:
        rows: Rows of table "audit".
        above: Entrants that miss a larger share of answers count as broken, too.
    """
    broken: dict[str, tuple[float, str]] = {}
    for row in rows:
        missing = row.prompts_selected - row.responses + row.empty_responses
        share = _ratio(missing, row.prompts_selected) or 0.0
        if share < BROKEN and share <= above:
            continue
        words = []
        if row.responses < row.prompts_selected:
            words.append(f"answered {row.responses} of {row.prompts_selected} prompts")
        if row.empty_responses:
            words.append(f"left {row.empty_responses} of {row.responses} answers empty")
        broken[row.entrant_id] = share, " and ".join(words)
    worst_first = sorted(broken.items(), key=lambda entry: -entry[1][0])
    return {name: words for name, (_, words) in worst_first}


def find_outages(rows: Rows, checks: CheckThresholds) -> tuple[Outage, ...]:
    """Return the outages that must precede any number, most important first.

    Args:
        rows: Rows of table "audit".
        checks: How much data may be missing, and how unevenly.

    Returns:
        Entrants that do not answer, then dimensions without enough judgments, then entrants that
        miss more verdicts than others, by dimension. Empty if there are none.
    """
    check = check_missingness(rows, max_spread=checks.max_missing_spread)
    outages = _answer_outages(rows, check)
    audited = by_dimension(rows)
    for dimension, members in audited.items():
        outage = _judge_outage(dimension, members, checks.max_unjudged_rate)
        if outage is not None:
            outages.append(outage)
    for dimension, evenness in check.verdicts.items():
        if not evenness.is_even:
            outages.append(
                Outage(
                    "verdicts",
                    dimension,
                    _worst(evenness),
                    f"Unevenly missing, {_uneven(f'unjudged pairs on {dimension}', evenness)}. "
                    "Its ratings do not compare like with like.",
                    f"verdicts unevenly missing on {dimension}",
                )
            )
    return tuple(outages)


def _answer_outages(rows: Rows, check: MissingnessCheck) -> list[Outage]:
    """Return an outage for each thing that entrants did instead of answering."""
    is_even = check.answers.is_even
    above = 1.0 if is_even else check.answers.counts[-1].rate + check.max_spread
    by_words: dict[str, list[str]] = {}
    for name, words in broken_entrants(rows, above=above).items():
        by_words.setdefault(words, []).append(name)
    advice = (
        "A prompt that any entrant did not answer is left out for all; an empty answer is judged "
        "as it is. Look at the entrant before its rating."
    )
    numbers = _uneven("answers missing or empty", check.answers)
    uneven = "" if is_even else f"Unevenly missing, {numbers}. "
    outages = []
    for words, names in by_words.items():
        short = f"{join_names(names)} {'each ' if len(names) > 1 else ''}{words}"
        outages.append(Outage("answers", None, tuple(names), f"{short}. {uneven}".rstrip(), short))
        uneven = ""
    return [
        *outages[:-1],
        *(replace(outage, sentence=f"{outage.sentence} {advice}") for outage in outages[-1:]),
    ]


def mostly_same_text(same_text: int, pairs: int) -> bool:
    """Return whether more than half of a dimension's pairs are copies."""
    return 2 * same_text > pairs


def same_text_sentence(same_text: int, pairs: int) -> str:
    """Describe how many pairs the judge was not asked about.

    Args:
        same_text: Pairs whose two responses are the same text.
        pairs: All pairs with both responses.
    """
    return (
        f"{same_text} of {pairs} pairs ({format_share(same_text / pairs)}) have the same text "
        "on both sides; "
        f"the judge was asked about the other {pairs - same_text}"
    )


def copy_sentences(rows: Rows) -> list[str]:
    """Warn, in one sentence, of the dimensions in which more than half of the pairs are copies.

    Args:
        rows: Rows of table "audit".
    """
    copied = []
    for dimension, members in by_dimension(rows).items():
        same_text = sum(row.pairs_same_text for row in members) // 2
        pairs = same_text + sum(row.pairs_asked for row in members) // 2
        if mostly_same_text(same_text, pairs):
            copied.append((dimension, same_text, pairs))
    if not copied:
        return []
    (dimension, same_text, pairs), *others = copied
    further = "".join(
        f", on {name} {copies} of {n_pairs} ({format_share(copies / n_pairs)})"
        for name, copies, n_pairs in others
    )
    n_asked = sum(total - copies for _, copies, total in copied)
    in_all = " in all" if others else ""
    return [
        f"On {dimension}, {same_text} of {pairs} pairs ({format_share(same_text / pairs)}) have "
        "the same "
        f"text on both sides{further}; the judge was asked about the other {n_asked}{in_all}. The "
        "ratings rest on those; an identical pair shows only that nothing can separate the two "
        "there."
    ]


def _judge_outage(dimension: str, rows: Rows, max_unjudged_rate: float) -> Outage | None:
    planned = sum(row.pairs_planned for row in rows) // 2
    put = sum(row.pairs_asked for row in rows) // 2
    judged = sum(row.pairs_judged for row in rows) // 2
    if not put:
        if any(row.pairs_same_text for row in rows):
            sentence = (
                f"The judge was asked nothing on {dimension}: every two responses to one prompt "
                "are the same text."
            )
        elif not planned:
            sentence = f"Nothing was judged on {dimension}: there was no pair to judge."
        else:
            sentence = (
                f"Nothing was judged on {dimension}: no prompt was answered by everyone, so none "
                f"of its {planned} planned pairs could be put to the judge."
            )
        return Outage("judge", dimension, (), sentence, f"nothing judged on {dimension}")
    missing = put - judged
    if missing <= max_unjudged_rate * put:
        return None
    share, limit = format_share(missing / put), f"limit {format_share(max_unjudged_rate)}"
    # Every presentation shows two entrants, so it is in two rows.
    reasons = ", ".join(
        f"{sum(getattr(row, name) for row in rows) // 2} {word}"
        for name, word in MISSING_REPLIES.items()
        if sum(getattr(row, name) for row in rows)
    )
    infra = sum(row.infra_remaining for row in rows) // 2
    failed = f", {infra} of them failures of infrastructure" if infra else ""
    return Outage(
        "judge",
        dimension,
        (),
        f"Judge outage on {dimension}: {missing} of {put} pairs ({share}; {limit}) are unjudged "
        f"(replies: {reasons}{failed}); the ratings on {dimension} rest on the other {judged}.",
        f"missing: {share} of {dimension} ({limit})",
    )


def _uneven(what: str, evenness: Evenness) -> str:
    chance = "below 0.001" if evenness.p_value < 0.001 else f"{evenness.p_value:.3f}"
    return (
        f"{what}: {evenness.shares}; a difference of {format_share(evenness.spread)}, "
        f"by chance with probability {chance}"
    )


def _worst(evenness: Evenness) -> tuple[str, ...]:
    largest = evenness.counts[0].rate
    return tuple(each.entrant_id for each in evenness.counts if each.rate == largest)
