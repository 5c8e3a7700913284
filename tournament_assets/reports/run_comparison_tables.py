"""The tables of a comparison of two runs, as text for Markdown and terminal alike."""

from collections.abc import Mapping, Sequence
from typing import Any

from tournament_assets.audits.agreement import Agreement
from tournament_assets.audits.flips import Change, ComparedPair, FlipCount, FlipReport
from tournament_assets.audits.input_changes import InputChange
from tournament_assets.audits.rating_moves import RatingMove, Standing
from tournament_assets.reports.formatting import ABSENT, format_interval, format_share
from tournament_assets.reports.rendering import ReportTable
from tournament_assets.tournament.fingerprints import short
from tournament_assets.tournament.verdicts import Outcome

_HASH_LENGTH = 64


def input_table(changes: Sequence[InputChange]) -> ReportTable:
    """Return what differs between the inputs, a row each; hashes are shortened."""
    return ReportTable(
        headers=("input", "then", "now"),
        rows=tuple((each.name, _value(each.then), _value(each.now)) for each in changes),
        n_labels=3,
    )


def _value(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, list):
        return ", ".join(map(str, value))
    text = str(value)
    return short(text) if len(text) == _HASH_LENGTH and text.isalnum() else text


def flip_table(flips: FlipReport) -> ReportTable:
    """Return the flips by dimension and stratum, a row each, and those of the rest.

    Without a stratum a row is its dimension's total. Where an edit could touch nothing is no row.
    """
    counts = []
    for total in flips.by_dimension:
        strata = [each for each in flips.by_stratum if each.dimension == total.dimension]
        counts += [each for each in (*strata, total) if each.flips.n or any(each.changes.values())]
    return ReportTable(
        headers=(
            "dimension",
            "stratum",
            "flipped",
            "share",
            "reversed",
            "tie",
            "inconsistent",
            "lost /\ngained",
            "other\ntexts",
            "kappa",
        ),
        rows=(
            *(_flip_cells(count) for count in counts),
            *([("the rest", "all", *_flip_cells(flips.rest)[2:])] if flips.rest else []),
        ),
        n_labels=2,
    )


def _flip_cells(count: FlipCount) -> tuple[str, ...]:
    changes = count.changes
    return (
        count.dimension or "all",
        count.source or "all",
        f"{count.flips.count} of {count.flips.n}",
        format_share(count.flips.rate),
        str(changes[Change.REVERSED]),
        str(changes[Change.TIE]),
        str(changes[Change.INCONSISTENT]),
        f"{changes[Change.LOST]} / {changes[Change.GAINED]}",
        str(count.shown_otherwise),
        _kappa(count.agreement),
    )


def _kappa(agreement: Agreement) -> str:
    if agreement.kappa is None:
        return "none"
    if agreement.kappa_low is None or agreement.kappa_high is None:
        return f"{agreement.kappa:.2f}"
    return f"{agreement.kappa:.2f} ({agreement.kappa_low:.2f} to {agreement.kappa_high:.2f})"


def changed_table(pairs: Sequence[ComparedPair]) -> ReportTable:
    """Return pairs that flipped, were lost or gained, a row each."""
    return ReportTable(
        headers=("dimension", "prompt", "stratum", "pair", "then", "now", "shown"),
        rows=tuple(
            (
                pair.dimension,
                pair.prompt_id,
                pair.source or ABSENT,
                f"{pair.entrant_a}, {pair.entrant_b}",
                _outcome(pair, pair.then),
                _outcome(pair, pair.now),
                _shown(pair),
            )
            for pair in pairs
        ),
        n_labels=7,
    )


def _outcome(pair: ComparedPair, outcome: Outcome) -> str:
    winners = {Outcome.A_WINS: pair.entrant_a, Outcome.B_WINS: pair.entrant_b}
    return f"{winners[outcome]} wins" if outcome in winners else outcome.value


def _shown(pair: ComparedPair) -> str:
    if pair.responses_changed is None or pair.question_changed is None:
        return "not known"
    changed = [
        name
        for name, is_changed in (
            ("prompt", pair.question_changed),
            ("responses", pair.responses_changed),
        )
        if is_changed
    ]
    return f"other {' and '.join(changed)}" if changed else "the same"


def move_table(moves: Sequence[RatingMove]) -> ReportTable:
    """Return everybody's rating and place in both runs, a row each."""
    return ReportTable(
        headers=(
            "dimension",
            "entrant",
            "rank\nthen",
            "rank\nnow",
            "mean\nthen",
            "mean\nnow",
            "difference",
            "sampling\ninterval then",
            "sampling\ninterval now",
        ),
        rows=tuple(
            (
                move.dimension,
                move.entrant_id,
                _rank(move.then),
                _rank(move.now),
                _mean(move.then),
                _mean(move.now),
                _difference(move),
                _interval(move.then),
                _interval(move.now),
            )
            for move in moves
        ),
        n_labels=2,
    )


def _difference(move: RatingMove) -> str:
    if move.difference is None:
        return ABSENT
    return f"{move.difference:+.1f}" if move.difference else "0.0"


def _rank(standing: Standing | None) -> str:
    return ABSENT if standing is None or standing.rank is None else str(standing.rank)


def _mean(standing: Standing | None) -> str:
    if standing is None:
        return "not in it"
    return "not rated" if standing.mean is None else f"{standing.mean:.1f}"


def _interval(standing: Standing | None) -> str:
    if standing is None or standing.mean is None:
        return ABSENT
    return format_interval(standing.sampling_low, standing.sampling_high, absent="unbounded")


def cost_table(
    costs: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], int]],
) -> ReportTable:
    """Return what the replies on each dimension cost, a row each.

    Args:
        costs: By dimension: what each manifest says, and how many answered requests are in both.
    """
    return ReportTable(
        headers=(
            "dimension",
            "requests\nthen",
            "requests\nnow",
            "in\nboth",
            "cost\nthen",
            "cost\nnow",
        ),
        rows=tuple(
            (
                dimension,
                *(str(cost.get("requests", ABSENT)) for cost in (then, now)),
                str(shared),
                *(_price(cost) for cost in (then, now)),
            )
            for dimension, (then, now, shared) in costs.items()
        ),
    )


def _price(cost: Mapping[str, Any]) -> str:
    price = cost.get("cost_usd")
    return ABSENT if price is None else f"${price:.2f}"
