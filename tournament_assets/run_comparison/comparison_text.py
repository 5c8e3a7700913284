"""What a comparison of two runs says, in sentences and tables."""

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
    format_kappa,
    format_rate,
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
"""What inputs are called in a sentence, by their names in a manifest."""
_RUBRICS, _RESPONSES, _REQUESTS = "inputs.rubrics.", "inputs.responses.", "inputs.judge_requests."
_ENTRANTS, _PRICES = "inputs.entrants.", "inputs.price_list."
_LIBRARIES, _COMMIT = "versions.libraries.", "versions.commit"


def grouped_phrases(inputs: InputComparison) -> tuple[list[str], list[InputChange]]:
    """Say what differs that a manifest records in several fields, and return all other changes.

    Rubrics, responses and requests are left out of both: they are said in words of their own.

    Args:
        inputs: What differs.
    """
    answering = inputs.names(_RESPONSES)
    phrases = [
        f"what {name} is (settings, files or weights)"
        for name in inputs.names(_ENTRANTS)
        if name not in answering
    ]
    if any(change.name.startswith(_PRICES) for change in inputs.changes):
        phrases.append("the price list")
    if any(change.name.startswith(_COMMIT) for change in inputs.changes):
        phrases.append("the program's commit")
    libraries = inputs.names(_LIBRARIES)
    if libraries:
        phrases.append(f"the versions of {join_names(libraries)}")
    grouped = (_RUBRICS, _RESPONSES, _REQUESTS, _ENTRANTS, _PRICES, _COMMIT, _LIBRARIES)
    return phrases, [each for each in inputs.changes if not each.name.startswith(grouped)]


def input_sentences(inputs: InputComparison, flips: FlipReport) -> list[str]:
    """Say what differs between the inputs, and what that means for the flips.

    Args:
        inputs: What differs.
        flips: What became of the judgments.
    """
    phrases = [_rubric_phrase(name, inputs) for name in inputs.names(_RUBRICS)]
    answering = inputs.names(_RESPONSES)
    if answering:
        phrases.append(f"the responses of {join_names(answering)}")
    grouped, others = grouped_phrases(inputs)
    phrases += grouped
    for change in others:
        phrase = INPUT_WORDS.get(change.name, change.name)
        if not change.name.startswith("inputs."):
            phrase += f" ({change.then!s}, then {change.now!s})"
        phrases.append(phrase)
    asked = inputs.names(_REQUESTS)
    if not phrases and not asked:
        sentences = ["Nothing differs in the inputs."]
    else:
        sentences = [f"Inputs that differ: {'; '.join(phrases) or 'only what was asked'}."]
    sentences += _asked_sentences(asked, flips)
    # Two entrants that swap responses leave the set of requests as it is, and still flip pairs.
    noisy = [
        str(each.dimension)
        for each in flips.by_dimension
        if each.flips.count
        and each.dimension not in flips.asked_otherwise
        and not each.shown_otherwise
        and not answering
    ]
    if noisy:
        sentences.append(
            f"On {join_names(noisy)} the judge was asked the same, so what flipped there is its "
            "own noise, or was read otherwise."
        )
    return sentences


def _asked_sentences(hashes_differ: Sequence[str], flips: FlipReport) -> list[str]:
    if not flips.pairs:
        return (
            [f"The judge's requests differ on {join_names(hashes_differ)}."]
            if hashes_differ
            else []
        )
    asked = flips.asked_otherwise
    if not asked:
        return (
            ["The judge's requests about the pairs that both runs have are the same."]
            if hashes_differ
            else []
        )
    totals: dict[str, int] = {}
    for pair in flips.pairs:
        totals[pair.dimension] = totals.get(pair.dimension, 0) + 1
    where = [f"{name} ({count} of {_count(totals[name], 'pair')})" for name, count in asked.items()]
    return [f"The judge's requests differ on {join_names(where)}."]


def _rubric_phrase(dimension: str, inputs: InputComparison) -> str:
    texts = {change.name: change for change in inputs.changes}
    version = texts.get(f"{_RUBRICS}{dimension}.version")
    if version is None:
        return f"the rubric of {dimension} (edited; its version line is the same)"
    if version.then is None or version.now is None:
        which = "second" if version.then is None else "first"
        return f"the rubric of {dimension} (only the {which} run has it)"
    return f"the rubric of {dimension} (version {version.then}, then {version.now})"


def flip_sentences(flips: FlipReport, *, confidence: float) -> list[str]:
    """Say how many judgments flipped, and how far the runs agree.

    Args:
        flips: What became of the judgments.
    """
    total, rest = flips.total, flips.rest
    alone = _alone(flips)
    if not total.flips.n and (rest is None or not rest.flips.n):
        return ["No pair was settled in both runs, so nothing can be said of flips.", *alone]
    sentences = [_flip_sentence(flips, confidence=confidence)]
    if rest is not None:
        noise = ", which is the judge's own noise, or was read otherwise"
        sentences.append(
            f"The other {_count(rest.flips.n, 'pair')} that both runs settled had the same "
            f"requests{_copies_clause(flips)}: {rest.flips.count} flipped"
            f"{noise if rest.flips.count else ''}."
        )
    if total.shown_otherwise:
        sentences.append(
            f"{total.shown_otherwise} of these on pairs whose prompt or responses differ: what "
            "flipped there is not the judge's doing alone."
        )
    if any(pair.responses_changed is None for pair in flips.pairs):
        sentences.append(
            "Not every response is in the run directories (matches/matches.jsonl), so it is not "
            "known everywhere whether the judge was shown the same."
        )
    lost, gained = (
        sum(pair.change is change for pair in flips.pairs)
        for change in (Change.LOST, Change.GAINED)
    )
    if lost or gained:
        sentences.append(
            f"Settled only in the first run: {_count(lost, 'pair')}; only in the second: "
            f"{_count(gained, 'pair')}."
        )
    return [*sentences, *alone]


def _flip_sentence(flips: FlipReport, *, confidence: float) -> str:
    total = flips.total
    if not total.flips.n:
        return "No pair whose requests differ was settled in both runs."
    is_touched = bool(flips.asked_otherwise)
    said = f"{total.flips.count} of {total.flips.n} judgments"
    if is_touched:
        said += " whose requests differ"
    if is_touched and total.questions.n < total.flips.n:
        noun = "question" if total.questions.n == 1 else "different questions"
        said += f" ({total.questions.n} {noun})"
    said += " flipped"
    if not is_touched and not total.flips.count:
        return (
            f"{said}: the judge's requests differ for no pair that both runs have"
            f"{_copies_clause(flips)}."
        )
    return (
        f"{said} ({format_rate(total.flips, confidence=confidence)}); "
        f"{format_kappa(total.agreement.kappa, confidence=confidence)}."
    )


def _copies_clause(flips: FlipReport) -> str:
    if not flips.copies:
        return ""
    return f" (the judge was not asked about {flips.copies} of them: both responses are the same)"


def _alone(flips: FlipReport) -> list[str]:
    counts = sum(flips.only_then.values()), sum(flips.only_now.values())
    if not any(counts):
        return []
    return [
        f"Only the first run has {_count(counts[0], 'pair')}, only the second "
        f"{_count(counts[1], 'pair')}; they are in no number of flips."
    ]


def size_cautions(sizes: Mapping[str, tuple[int, int]]) -> list[str]:
    """Say where ratings cannot be compared because the runs are of different size.

    Args:
        sizes: Settled pairs of either run, by dimension, where the runs are of different size.
    """
    counts = [f"{name} ({then}, then {now})" for name, (then, now) in sizes.items()]
    if not counts:
        return []
    return [
        f"Caution: the runs settled different pairs on {join_names(counts)}. Elo ratings spread "
        "with the number of matches, so a move of a rating there mixes size with strength."
    ]


def move_sentences(
    moves: Sequence[RatingMove], *, sizes: Mapping[str, tuple[int, int]]
) -> list[str]:
    """Say whose place changes, who is rated in one run only, and the largest move of a rating.

    Args:
        moves: Everybody's standings in both runs.
        sizes: Settled pairs of either run, by dimension, where the runs are of different size.
    """
    places = [
        f"on {move.dimension} {move.entrant_id} goes from {move.then.rank} to {move.now.rank}"
        for move in moves
        if move.is_of_place and move.then is not None and move.now is not None
    ]
    sentences = size_cautions(sizes)
    sentences.append(
        f"Places change: {'; '.join(places)}." if places else "No entrant changes place."
    )
    for name, one_sided in (
        ("first", [move for move in moves if _is_rated_in(move, first=True)]),
        ("second", [move for move in moves if _is_rated_in(move, first=False)]),
    ):
        if one_sided:
            listed = join_names([f"{move.entrant_id} ({move.dimension})" for move in one_sided])
            sentences.append(f"Rated in the {name} run only: {listed}.")
    known = [(abs(move.difference), move) for move in moves if move.difference is not None]
    if known:
        size, move = max(known, key=lambda each: each[0])
        if size == 0:
            sentences.append("No rating moves.")
        else:
            sentences.append(
                f"The largest move of a rating is {move.entrant_id}'s on {move.dimension}, "
                f"{move.difference:+.1f} Elo points."
            )
    return sentences


def _is_rated_in(move: RatingMove, *, first: bool) -> bool:
    rated = [each is not None and each.value is not None for each in (move.then, move.now)]
    return rated == ([True, False] if first else [False, True])


def cost_sentence(then: float | None, now: float | None, *, shared: int, requests: int) -> str:
    """Say what the replies behind each run cost.

    Args:
        then: Dollars for the first run's replies; None where a price is not known.
        now: The same of the second run.
        shared: Answered requests of the second run that the first has too.
        requests: Answered requests of the second run.
    """
    return (
        f"The replies behind the first run cost {dollars(then)}, those behind the second "
        f"{dollars(now)}, whenever they were bought; {shared} of the second's {requests} answered "
        "requests are the first's too, and one ledger pays for those once."
    )


def partial_sentences(then: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Say which run was rated before every reply had come.

    Args:
        then: The first run's manifest.
        now: The second run's manifest.
    """
    return [
        f"The {name} run is PARTIAL: it was rated before every reply had come."
        for name, manifest in (("first", then), ("second", now))
        if manifest.get("is_partial")
    ]


def dollars(value: float | None) -> str:
    """Return a price, or that it is not known."""
    return "an unknown price" if value is None else f"${value:.2f}"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


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
