"""What must stand before anything else in what is published: where judgments are missing.

Everything here follows from the rows of table "audit" alone, so that the page, the command line
and the manifest say the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tournament_assets.audits.missingness import Evenness, MissingCount, measure_evenness
from tournament_assets.tournament.asset_rows import CoverageRow
from tournament_assets.tournament.formatting import format_share

Rows = Sequence[CoverageRow]

_REASONS = {
    "replies_refused": "refused",
    "replies_unreadable": "unreadable",
    "replies_permanent": "impossible",
    "replies_pending": "pending",
}


@dataclass(frozen=True, slots=True)
class Outage:
    """Something that is missing, and that a reader must know of first.

    Attributes:
        kind: `judge`, a dimension where the judge said too little; `verdicts`, verdicts that are
            missing for some entrants more than for others; `answers`, the same of answers.
        dimension: Where; None for answers, which belong to no dimension.
        entrants: Who misses most.
        sentence: What to say.
    """

    kind: Literal["judge", "verdicts", "answers"]
    dimension: str | None
    entrants: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class MissingnessCheck:
    """Whether nobody misses more than the others.

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
        """The largest difference between two entrants' shares, of whatever."""
        return max(self.answers.spread, *(each.spread for each in self.verdicts.values()), 0.0)

    @property
    def sentence(self) -> str:
        """What was found, with the numbers."""
        uneven = [
            _uneven_verdicts(dimension, each)
            for dimension, each in self.verdicts.items()
            if not each.is_even
        ]
        if not self.answers.is_even:
            uneven.append(_uneven_answers(self.answers))
        bound = f"at most {format_share(self.max_spread)} is even, and so is what chance explains"
        if uneven:
            return f"unevenly missing, {'; '.join(uneven)}; {bound}"
        return (
            f"evenly missing, if at all: the largest difference between two entrants' "
            f"shares is {format_share(self.largest_spread)}; {bound}"
        )


def check_missingness(rows: Rows, *, max_spread: float) -> MissingnessCheck:
    """Say whether what is missing is missing for everybody alike.

    Args:
        rows: Rows of table "audit".
        max_spread: The difference between two entrants' shares that is always even.
    """
    by_dimension = _by_dimension(rows)
    answers = [
        MissingCount(
            row.entrant_id,
            row.prompts_selected - row.responses + row.empty_responses,
            row.prompts_selected,
        )
        for row in next(iter(by_dimension.values()), ())
    ]
    return MissingnessCheck(
        verdicts={
            dimension: measure_evenness(
                [
                    MissingCount(row.entrant_id, asked(row) - row.pairs_judged, asked(row))
                    for row in members
                ],
                entrants_per_unit=2,
                max_spread=max_spread,
            )
            for dimension, members in by_dimension.items()
        },
        answers=measure_evenness(answers, entrants_per_unit=1, max_spread=max_spread),
        max_spread=max_spread,
    )


def find_outages(
    rows: Rows, *, max_unjudged_rate: float, max_missing_spread: float
) -> tuple[Outage, ...]:
    """Return what must be said before any number, most important first.

    Args:
        rows: Rows of table "audit".
        max_unjudged_rate: Share of a dimension's pairs that may lack two readable replies.
        max_missing_spread: The difference between two entrants' shares that is always even.

    Returns:
        Dimensions without enough judgments, then entrants that miss more verdicts than others, by
        dimension, then answers. Empty if all is well.
    """
    found: list[Outage] = []
    by_dimension = _by_dimension(rows)
    for dimension, members in by_dimension.items():
        sentence = _judge_sentence(dimension, members, max_unjudged_rate)
        if sentence is not None:
            found.append(Outage("judge", dimension, (), sentence))
    check = check_missingness(rows, max_spread=max_missing_spread)
    for dimension, evenness in check.verdicts.items():
        if not evenness.is_even:
            found.append(
                Outage(
                    "verdicts",
                    dimension,
                    _worst(evenness),
                    f"Unevenly missing, {_uneven_verdicts(dimension, evenness)}. "
                    "Its ratings do not compare like with like.",
                )
            )
    if not check.answers.is_even:
        found.append(
            Outage(
                "answers",
                None,
                _worst(check.answers),
                f"Unevenly missing, {_uneven_answers(check.answers)}. Prompts that somebody did "
                "not answer are judged for nobody; an empty answer is judged as it is.",
            )
        )
    return tuple(found)


def mostly_same_text(same_text: int, pairs: int) -> bool:
    """Say whether more than half of a dimension's pairs are copies, which no judge told apart."""
    return 2 * same_text > pairs


def same_text_sentence(same_text: int, pairs: int) -> str:
    """Say how many pairs the judge was not asked about.

    Args:
        same_text: Pairs whose two responses are the same text.
        pairs: All pairs that there is something to judge of.
    """
    return (
        f"{same_text} of {pairs} pairs ({format_share(same_text / pairs)}) have the same text "
        "on both sides; "
        f"the judge was asked about the other {pairs - same_text}"
    )


def copy_sentences(rows: Rows) -> list[str]:
    """Warn of the dimensions more than half of whose pairs are copies, in one sentence.

    Args:
        rows: Rows of table "audit".
    """
    found = []
    for dimension, members in _by_dimension(rows).items():
        same_text = sum(row.pairs_same_text for row in members) // 2
        pairs = same_text + sum(map(asked, members)) // 2
        if mostly_same_text(same_text, pairs):
            found.append((dimension, same_text, pairs))
    if not found:
        return []
    (dimension, same_text, pairs), *others = found
    further = "".join(
        f", on {name} {copies} of {n_pairs} ({format_share(copies / n_pairs)})"
        for name, copies, n_pairs in others
    )
    n_asked = sum(total - copies for _, copies, total in found)
    in_all = " in all" if others else ""
    return [
        f"On {dimension}, {same_text} of {pairs} pairs ({format_share(same_text / pairs)}) have "
        "the same "
        f"text on both sides{further}; the judge was asked about the other {n_asked}{in_all}. The "
        "ratings rest on those; a pair of one text shows only that nothing can separate the two "
        "there."
    ]


def asked(row: CoverageRow) -> int:
    """Return how many of an entrant's pairs were put to the judge."""
    return row.pairs_planned - row.pairs_unanswered - row.pairs_same_text


def _judge_sentence(dimension: str, rows: Rows, max_unjudged_rate: float) -> str | None:
    planned = sum(row.pairs_planned for row in rows) // 2
    put = sum(map(asked, rows)) // 2
    judged = sum(row.pairs_judged for row in rows) // 2
    if not put:
        if any(row.pairs_same_text for row in rows):
            return (
                f"The judge was asked nothing on {dimension}: every two responses to one prompt "
                "are the same text."
            )
        if not planned:
            return f"Nothing was judged on {dimension}: there was no pair to judge."
        return (
            f"Nothing was judged on {dimension}: no prompt was answered by everyone, so none of "
            f"its {planned} planned pairs could be put to the judge."
        )
    missing = put - judged
    if missing <= max_unjudged_rate * put:
        return None
    # Every presentation shows two entrants, so it stands in two rows.
    reasons = ", ".join(
        f"{sum(getattr(row, name) for row in rows) // 2} {word}"
        for name, word in _REASONS.items()
        if sum(getattr(row, name) for row in rows)
    )
    infra = sum(row.infra_remaining for row in rows) // 2
    failed = f", {infra} of them failures of infrastructure" if infra else ""
    return (
        f"Judge outage on {dimension}: {missing} of {put} pairs ({format_share(missing / put)}) "
        "have no two "
        f"readable replies (replies: {reasons}{failed}); the ratings on {dimension} rest on the "
        f"other {judged}."
    )


def _uneven_verdicts(dimension: str, evenness: Evenness) -> str:
    return f"pairs without two readable replies on {dimension}: {_numbers(evenness)}"


def _uneven_answers(evenness: Evenness) -> str:
    return f"answers missing or empty: {_numbers(evenness)}"


def _numbers(evenness: Evenness) -> str:
    shares = ", ".join(
        f"{each.entrant_id} {each.missing} of {each.planned} ({format_share(each.rate)})"
        for each in evenness.counts
    )
    return (
        f"{shares}; a difference of {format_share(evenness.spread)}, "
        f"by chance with probability {_probability(evenness.p_value)}"
    )


def _probability(p_value: float) -> str:
    return "below 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _worst(evenness: Evenness) -> tuple[str, ...]:
    largest = evenness.counts[0].rate
    return tuple(each.entrant_id for each in evenness.counts if each.rate == largest)


def _by_dimension(rows: Rows) -> dict[str, list[CoverageRow]]:
    groups: dict[str, list[CoverageRow]] = {}
    for row in rows:
        groups.setdefault(row.dimension, []).append(row)
    return groups
