"""The sentences and tables of a comparison of two runs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tournament_assets.foundation.estimates import Rating
from tournament_assets.foundation.formatting import (
    format_estimate,
    format_interval,
    format_plural,
    format_share,
    join_names,
)
from tournament_assets.reports.report_tables import ReportTable, select_columns
from tournament_assets.run_comparison.differences import (
    Change,
    ComparedPair,
    FlipReport,
    InputChange,
    InputComparison,
    RatingMove,
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
_INSTALLED, _COMMIT = ("versions.extensions.", "versions.libraries."), "versions.commit"


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
    if installed := [name for prefix in _INSTALLED for name in inputs.names(prefix)]:
        phrases.append(f"the versions of {join_names(installed)}")
    grouped = (_RUBRICS, _RESPONSES, _REQUESTS, _ENTRANTS, _PRICES, _COMMIT, *_INSTALLED)
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


def input_table(changes: Sequence[InputChange]) -> ReportTable:
    """Return the changed inputs, a row each; hashes are shortened."""
    return ReportTable.of(changes, select_columns(InputChange, "name", "then", "now"), n_labels=3)


def flip_table(flips: FlipReport) -> ReportTable:
    """Return the flips by dimension and stratum, a row each, and those of the rest.

    A row without a stratum is its dimension's total, which stands alone where there is one stratum.
    Groups that an edit cannot affect have no row.
    """
    counts = []
    for total in flips.by_dimension:
        strata = [each for each in flips.by_stratum if each.dimension == total.dimension]
        shown = (*strata, total) if len(strata) > 1 else (total,)
        counts += [each for each in shown if each.flips.n or any(each.changes.values())]
    rest = flips.rest
    return ReportTable.of(
        [*counts, *([rest] if rest else [])],
        {
            "dimension": lambda each: "the rest" if each is rest else each.dimension or "all",
            "stratum": lambda each: each.source or "all",
            "flipped": lambda each: f"{each.flipped} of {each.flips.n}",
            "share": lambda each: format_share(each.flips.value),
            "reversed": lambda each: each.changes[Change.REVERSED],
            "tie": lambda each: each.changes[Change.TIE],
            "inconsistent": lambda each: each.changes[Change.INCONSISTENT],
            "lost /\ngained": lambda each: (
                f"{each.changes[Change.LOST]} / {each.changes[Change.GAINED]}"
            ),
            "other\ntexts": lambda each: each.shown_otherwise,
            "kappa": lambda each: format_estimate(each.agreement.kappa),
        },
        n_labels=2,
    )


def changed_table(pairs: Sequence[ComparedPair]) -> ReportTable:
    """Return pairs that flipped, were lost or gained, a row each."""
    return ReportTable.of(
        pairs,
        {
            "dimension": lambda pair: pair.dimension,
            "prompt": lambda pair: pair.prompt_id,
            "stratum": lambda pair: pair.source or None,
            "pair": lambda pair: f"{pair.entrant_a}, {pair.entrant_b}",
            "then": lambda pair: _outcome(pair, pair.then),
            "now": lambda pair: _outcome(pair, pair.now),
            "shown": _shown,
        },
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
    return ReportTable.of(
        moves,
        {
            "dimension": lambda move: move.dimension,
            "entrant": lambda move: move.entrant_id,
            "rank\nthen": lambda move: None if move.then is None else move.then.rank,
            "rank\nnow": lambda move: None if move.now is None else move.now.rank,
            "mean\nthen": lambda move: _mean(move.then),
            "mean\nnow": lambda move: _mean(move.now),
            "difference": _difference,
            "interval\nthen": lambda move: _interval(move.then),
            "interval\nnow": lambda move: _interval(move.now),
        },
        n_labels=2,
    )


def _difference(move: RatingMove) -> str | None:
    if move.difference is None:
        return None
    return f"{move.difference:+.1f}" if move.difference else "0.0"


def _mean(standing: Rating | None) -> str:
    if standing is None:
        return "not in it"
    return "not rated" if standing.value is None else f"{standing.value:.1f}"


def _interval(standing: Rating | None) -> str | None:
    if standing is None or standing.value is None:
        return None
    return format_interval(standing.low, standing.high, absent="unbounded")


def cost_table(
    costs: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], int]],
) -> ReportTable:
    """Return the cost of the replies on each dimension, a row each.

    Args:
        costs: By dimension: the costs in each manifest, and the number of answered requests in
            both.
    """
    return ReportTable.of(
        costs,
        {
            "dimension": lambda name: name,
            "requests\nthen": lambda name: costs[name][0].get("requests"),
            "requests\nnow": lambda name: costs[name][1].get("requests"),
            "in\nboth": lambda name: costs[name][2],
            "cost\nthen": lambda name: _price(costs[name][0]),
            "cost\nnow": lambda name: _price(costs[name][1]),
        },
    )


def _price(cost: Mapping[str, Any]) -> str | None:
    price = cost.get("cost_usd")
    return None if price is None else f"${price:.2f}"
