"""The sentences and tables of a comparison of two runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tournament_assets.reports.report_tables import ReportTable
from tournament_assets.run_comparison.differences import (
    Change,
    ComparedPair,
    FlipCount,
    FlipReport,
    InputChange,
    InputComparison,
    RatingMove,
)
from tournament_assets.tournament.estimates import Rating
from tournament_assets.tournament.fingerprints import short
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_estimate,
    format_interval,
    format_plural,
    format_share,
    join_names,
)
from tournament_assets.tournament.verdicts import Outcome

INPUT_WORDS = {
    "config": "the file of the configuration",
    "inputs.config": "the configuration",
    "inputs.prompt_bank": "the prompt bank",
    "inputs.selected_prompts": "the selected prompts",
    "judge_model": "the judge's model",
    "versions.program": "the version of this program",
    "versions.python": "the version of Python",
}
"""Names of inputs in sentences, by their names in a manifest."""
_RUBRICS, _RESPONSES, _REQUESTS = "inputs.rubrics.", "inputs.responses.", "inputs.judge_requests."
_ENTRANTS, _PRICES = "inputs.entrants.", "inputs.price_list."
_LIBRARIES, _COMMIT = "versions.libraries.", "versions.commit"


def changed_inputs(inputs: InputComparison) -> list[str]:
    """Return the changed inputs, a phrase each, except for the judge's requests."""
    answering = inputs.names(_RESPONSES)
    phrases = [_rubric_phrase(name, inputs) for name in inputs.names(_RUBRICS)]
    if answering:
        phrases.append(f"the responses of {join_names(answering)}")
    phrases += [
        f"what {name} is (settings, files or weights)"
        for name in inputs.names(_ENTRANTS)
        if name not in answering
    ]
    if inputs.names(_PRICES):
        phrases.append("the price list")
    if inputs.names(_COMMIT):
        phrases.append("the program's commit")
    if libraries := inputs.names(_LIBRARIES):
        phrases.append(f"the versions of {join_names(libraries)}")
    grouped = (_RUBRICS, _RESPONSES, _REQUESTS, _ENTRANTS, _PRICES, _COMMIT, _LIBRARIES)
    for change in inputs.changes:
        if not change.name.startswith(grouped):
            values = f" ({change.then!s}, then {change.now!s})"
            is_hash = change.name.startswith("inputs.")
            phrases.append(INPUT_WORDS.get(change.name, change.name) + ("" if is_hash else values))
    return phrases


def _rubric_phrase(dimension: str, inputs: InputComparison) -> str:
    texts = {change.name: change for change in inputs.changes}
    version = texts.get(f"{_RUBRICS}{dimension}.version")
    if version is None:
        return f"the rubric of {dimension} (edited; its version line is the same)"
    if version.then is None or version.now is None:
        which = "second" if version.then is None else "first"
        return f"the rubric of {dimension} (only the {which} run has it)"
    return f"the rubric of {dimension} (version {version.then}, then {version.now})"


def requests_asked(flips: FlipReport) -> list[str]:
    """Return the dimensions with changed requests to the judge, with the number of pairs."""
    totals = Counter(pair.dimension for pair in flips.pairs)
    return [
        f"{name} ({count} of {format_plural(totals[name], 'pair')})"
        for name, count in flips.asked_otherwise.items()
    ]


def noisy_dimensions(inputs: InputComparison, flips: FlipReport) -> list[str]:
    """Return the dimensions on which judgments flipped although the requests were the same."""
    # Two entrants that swap responses leave the set of requests unchanged, but flip pairs.
    return [
        str(each.dimension)
        for each in flips.by_dimension
        if each.flipped
        and each.dimension not in flips.asked_otherwise
        and not each.shown_otherwise
        and not inputs.names(_RESPONSES)
    ]


def size_caution(sizes: Mapping[str, tuple[int, int]]) -> str:
    """Describe where ratings may move because the runs settled different pairs.

    Args:
        sizes: Settled pairs of either run, by dimension, where the runs settled different pairs.
    """
    if not sizes:
        return ""
    counts = join_names([f"{name} ({then}, then {now})" for name, (then, now) in sizes.items()])
    return (
        f"Caution: the runs settled different pairs on {counts}; that alone may move a rating "
        "there."
    )


def dollars(value: float | None) -> str:
    """Return a price as text, also if it is unknown."""
    return "an unknown price" if value is None else f"${value:.2f}"


_HASH_LENGTH = 64


def input_table(changes: Sequence[InputChange]) -> ReportTable:
    """Return the changed inputs, a row each; hashes are shortened."""
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

    A row without a stratum is its dimension's total. Groups that an edit cannot affect have no row.
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
        f"{count.flipped} of {count.flips.n}",
        format_share(count.flips.value),
        str(changes[Change.REVERSED]),
        str(changes[Change.TIE]),
        str(changes[Change.INCONSISTENT]),
        f"{changes[Change.LOST]} / {changes[Change.GAINED]}",
        str(count.shown_otherwise),
        format_estimate(count.agreement.kappa),
    )


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
    """Return every entrant's rating and place in both runs, a row each."""
    return ReportTable(
        headers=(
            "dimension",
            "entrant",
            "rank\nthen",
            "rank\nnow",
            "mean\nthen",
            "mean\nnow",
            "difference",
            "interval\nthen",
            "interval\nnow",
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


def _rank(standing: Rating | None) -> str:
    return ABSENT if standing is None or standing.rank is None else str(standing.rank)


def _mean(standing: Rating | None) -> str:
    if standing is None:
        return "not in it"
    return "not rated" if standing.value is None else f"{standing.value:.1f}"


def _interval(standing: Rating | None) -> str:
    if standing is None or standing.value is None:
        return ABSENT
    return format_interval(standing.low, standing.high, absent="unbounded")


def cost_table(
    costs: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], int]],
) -> ReportTable:
    """Return the cost of the replies on each dimension, a row each.

    Args:
        costs: By dimension: the costs in each manifest, and the number of answered requests in
            both.
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
