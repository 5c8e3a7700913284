"""Two finished runs side by side: what differs in the inputs, and what came of it.

This is how one reviews a rubric edit: the same prompts and responses, judged by either text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import unified_diff
from typing import Any

from tournament_assets.audits.agreement import MANY_RESAMPLES
from tournament_assets.reports.rendering import render_template
from tournament_assets.reports.report_tables import Console, ReportTable, print_table, print_text
from tournament_assets.run_comparison.comparison_text import (
    INPUT_WORDS,
    changed_table,
    cost_sentence,
    cost_table,
    flip_sentences,
    flip_table,
    grouped_phrases,
    input_sentences,
    input_table,
    move_sentences,
    move_table,
    partial_sentences,
    size_cautions,
)
from tournament_assets.run_comparison.differences import (
    ComparedPair,
    FlipReport,
    InputComparison,
    PairKey,
    RatingMove,
    Sameness,
    SamenessVerdict,
    compare_inputs,
    compare_judgments,
    compare_standings,
    judge_sameness,
)
from tournament_assets.run_comparison.run_reading import FinishedRun
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.formatting import format_confidence, join_names
from tournament_assets.tournament.verdicts import Outcome

_CONFIDENCE = MANY_RESAMPLES.confidence


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two finished runs side by side.

    Attributes:
        then: The first run.
        now: The second run.
        inputs: What differs between their inputs.
        flips: What became of the judgments.
        moves: How far ratings and places moved.
        sizes: Settled pairs of either run, by dimension, where the runs settled different pairs.
        rubric_edits: What was edited in the rubrics that differ.
        verdict: Whether the runs come to the same.
    """

    then: FinishedRun
    now: FinishedRun
    inputs: InputComparison
    flips: FlipReport
    moves: tuple[RatingMove, ...]
    sizes: Mapping[str, tuple[int, int]]
    rubric_edits: tuple["RubricEdit", ...]
    verdict: SamenessVerdict


@dataclass(frozen=True, slots=True)
class RubricEdit:
    """What was edited in one rubric.

    Attributes:
        dimension: Whose rubric.
        diff: The lines of a unified diff.
    """

    dimension: str
    diff: tuple[str, ...]


def compare_runs(
    then: FinishedRun, now: FinishedRun, *, tolerance: float | None = None
) -> RunComparison:
    """Compare two finished runs.

    Args:
        then: The first run.
        now: The second run.
        tolerance: Share of flips up to which judgments count as repeated; the second run's
            `checks.max_drift_rate` unless given, or that of a config that does not set it.
    """
    if tolerance is None:
        recorded = _mapping(now.manifest, "thresholds").get("max_drift_rate")
        standard = CheckThresholds().max_drift_rate
        tolerance = float(recorded) if isinstance(recorded, int | float) else standard
    inputs = compare_inputs(then.manifest, now.manifest)
    flips = compare_judgments(then.pairs, now.pairs)
    moves = compare_standings(then.standings, now.standings)
    return RunComparison(
        then=then,
        now=now,
        inputs=inputs,
        flips=flips,
        moves=moves,
        sizes=_sizes(then, now),
        rubric_edits=tuple(
            _rubric_edit(name, then.rubrics[name], now.rubrics[name])
            for name in inputs.names("inputs.rubrics.")
            if name in then.rubrics and name in now.rubrics
        ),
        verdict=judge_sameness(
            flips,
            tolerance=tolerance,
            places_changed=sum(move.is_of_place for move in moves),
            ratings_moved=sum(bool(move.difference) for move in moves),
        ),
    )


def _sizes(then: FinishedRun, now: FinishedRun) -> dict[str, tuple[int, int]]:
    sizes: dict[str, tuple[int, int]] = {}
    for dimension in then.verdicts:
        if dimension in now.verdicts:
            first, second = _settled(then, dimension), _settled(now, dimension)
            if first != second:
                sizes[dimension] = len(first), len(second)
    return sizes


def _settled(run: FinishedRun, dimension: str) -> set[PairKey]:
    return {pair.key for pair in run.verdicts[dimension] if pair.outcome is not Outcome.UNJUDGED}


def _rubric_edit(dimension: str, then: str, now: str) -> RubricEdit:
    lines = unified_diff(then.splitlines(), now.splitlines(), "then", "now", lineterm="")
    return RubricEdit(dimension, tuple(lines))


def verdict_line(comparison: RunComparison) -> str:
    """Say whether the runs come to the same, with the exit code and what it rests on."""
    verdict = comparison.verdict
    words = {
        Sameness.SAME: "The same",
        Sameness.DIFFERS: "Differs",
        Sameness.UNDECIDED: "Undecided",
    }
    return (
        f"{words[verdict.sameness]} (exit code {verdict.sameness.exit_code}): "
        f"{'; '.join(verdict.reasons)}. "
        f"Flips of up to {format_confidence(verdict.tolerance)} count as noise."
    )


def _edit_lines(comparison: RunComparison) -> list[tuple[str, str]]:
    return [
        (f"What was edited in the rubric of {edit.dimension}", "\n".join(edit.diff))
        for edit in comparison.rubric_edits
    ]


def summary(comparison: RunComparison) -> list[str]:
    """Return paragraphs that say it in plain words: inputs, flips, places, cost."""
    then, now = comparison.then, comparison.now
    costs = _costs(comparison)
    paragraphs = [
        [
            *partial_sentences(then.manifest, now.manifest),
            *input_sentences(comparison.inputs, comparison.flips),
        ],
        flip_sentences(comparison.flips, confidence=_CONFIDENCE),
        move_sentences(comparison.moves, sizes=comparison.sizes),
        [
            cost_sentence(
                _total(then),
                _total(now),
                shared=sum(shared for *_, shared in costs.values()),
                requests=sum(len(requests) for requests in now.requests.values()),
            )
        ],
    ]
    return [" ".join(sentences) for sentences in paragraphs]


def _total(run: FinishedRun) -> float | None:
    total = _mapping(run.manifest, "cost").get("total_usd")
    return float(total) if isinstance(total, int | float) else None


def _mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}


def _costs(
    comparison: RunComparison,
) -> dict[str, tuple[Mapping[str, Any], Mapping[str, Any], int]]:
    then, now = comparison.then, comparison.now
    old, new = (_mapping(_mapping(run.manifest, "cost"), "by_dimension") for run in (then, now))
    nothing: frozenset[str] = frozenset()
    return {
        dimension: (
            _mapping(old, dimension),
            _mapping(new, dimension),
            len(then.requests.get(dimension, nothing) & now.requests.get(dimension, nothing)),
        )
        for dimension in {**then.verdicts, **now.verdicts}
    }


def comparison_sections(
    comparison: RunComparison, *, limit: int
) -> list[tuple[str, ReportTable, str]]:
    """Return the tables of a comparison, each with its title and a remark, which may be empty.

    Args:
        limit: The most changed judgments to list.
    """
    changed = comparison.flips.changed
    left = len(changed) - limit
    sections = [
        ("Inputs that differ", input_table(comparison.inputs.changes), ""),
        ("Flips by dimension and stratum", flip_table(comparison.flips), ""),
        (
            "Judgments that changed",
            changed_table(changed[:limit]),
            f"{left} more; raise --limit, or print all by --json." if left > 0 else "",
        ),
        (
            "Ratings and places",
            move_table(comparison.moves),
            " ".join(size_cautions(comparison.sizes)),
        ),
        ("Cost", cost_table(_costs(comparison)), ""),
    ]
    return [section for section in sections if section[1].rows]


def _notes() -> tuple[str, ...]:
    share = format_confidence(_CONFIDENCE)
    return (
        "flipped: both runs settled the pair, differently: reversed, to or from a tie, or to "
        "or from inconsistent (two verdicts that disagree). "
        "lost, gained: only the first, only the second run settled it.",
        "Flips are counted over the pairs whose requests differ, where there are any; the rest is "
        "all others.",
        "other texts: flips of pairs whose prompt or responses differ between the runs.",
        f"kappa: agreement corrected for chance; {share} interval, whole prompts resampled. The "
        "interval of the share of flips takes pairs as independent, so it is rather too narrow.",
        "Each sampling interval is of one run alone. Runs that share prompts share much of that "
        "error, so it is not an interval of the difference.",
    )


def comparison_markdown(comparison: RunComparison, *, limit: int) -> str:
    """Return the comparison as a Markdown page.

    Args:
        limit: The most changed judgments to list.
    """
    return render_template(
        "run_comparison.md.jinja",
        then=str(comparison.then.folder),
        now=str(comparison.now.folder),
        paragraphs=[verdict_line(comparison), *summary(comparison)],
        edits=_edit_lines(comparison),
        sections=comparison_sections(comparison, limit=limit),
        notes=_notes(),
    )


def print_comparison(comparison: RunComparison, console: Console, *, limit: int) -> None:
    """Print the comparison: first in words, then as tables.

    Args:
        limit: The most changed judgments to list.
    """
    print_text(f"then: {comparison.then.folder}\nnow:  {comparison.now.folder}", console)
    for paragraph in (verdict_line(comparison), *summary(comparison)):
        console.print()
        print_text(paragraph, console)
    for title, diff in _edit_lines(comparison):
        console.print()
        print_text(title, console, style="bold")
        print_text(diff, console)
    for title, cells, remark in comparison_sections(comparison, limit=limit):
        print_table(title, cells, console)
        if remark:
            print_text(remark, console)
    console.print()
    for note in _notes():
        print_text(note, console, style="dim")


def _pair_values(pair: ComparedPair) -> dict[str, Any]:
    values = asdict(pair)
    del values["requests"]  # keys of requests, which are in the verdict files
    return {**values, "requests_changed": pair.requests_changed, "change": pair.change}


def comparison_values(comparison: RunComparison) -> dict[str, Any]:
    """Return every number of the comparison, for JSON."""
    flips = comparison.flips
    return {
        "then": str(comparison.then.folder),
        "now": str(comparison.now.folder),
        "verdict": {
            **asdict(comparison.verdict),
            "exit_code": comparison.verdict.sameness.exit_code,
        },
        "summary": summary(comparison),
        "rubric_edits": [asdict(edit) for edit in comparison.rubric_edits],
        "inputs": asdict(comparison.inputs),
        "flips": {
            "asked_otherwise": flips.asked_otherwise,
            "copies": flips.copies,
            "rest": None if flips.rest is None else asdict(flips.rest),
            "total": asdict(flips.total),
            "by_dimension": [asdict(each) for each in flips.by_dimension],
            "by_stratum": [asdict(each) for each in flips.by_stratum],
            "changed": [_pair_values(pair) for pair in flips.changed],
            "only_then": dict(flips.only_then),
            "only_now": dict(flips.only_now),
        },
        "ratings": [
            {
                **asdict(move),
                "difference": move.difference,
                "same_pairs": move.dimension not in comparison.sizes,
            }
            for move in comparison.moves
        ],
        "cost": {
            "then_usd": _total(comparison.then),
            "now_usd": _total(comparison.now),
            "by_dimension": {
                dimension: {"then": dict(then), "now": dict(now), "requests_in_both": shared}
                for dimension, (then, now, shared) in _costs(comparison).items()
            },
        },
    }


_PARTIAL = "is_partial"
_RUBRICS, _RESPONSES, _REQUESTS = "inputs.rubrics.", "inputs.responses.", "inputs.judge_requests."


def verdict_sentences(comparison: RunComparison) -> str:
    """Say what came of what changed, and whose place; no run that is PARTIAL passes for whole."""
    flips = comparison.flips.total.flips
    asked = "whose requests differ " if comparison.flips.asked_otherwise else ""
    if not flips.n and asked:
        said = "No pair whose requests differ was settled in both runs"
    elif not flips.n:
        said = "No pair was settled in both runs, so no judgment can be said to have flipped"
    else:
        said = f"{flips.count} of {flips.n} judgments {asked}flipped"
    causes = _causes(comparison.inputs)
    if causes:
        said += f" after {'; '.join(causes)}"
    else:
        said += ", and nothing differs in the inputs"
    partial = partial_sentences(comparison.then.manifest, comparison.now.manifest)
    cautions = size_cautions(comparison.sizes)
    return " ".join([f"{said}.", *cautions, _place_sentence(comparison.moves), *partial])


def _place_sentence(moves: Sequence[RatingMove]) -> str:
    places = [move for move in moves if move.is_of_place]
    if not places:
        return "No entrant changes place."
    changed = "; ".join(
        f"{move.entrant_id} from {move.then.rank} to {move.now.rank} on {move.dimension}"
        for move in places
        if move.then is not None and move.now is not None
    )
    return f"Places change: {changed}."


def _causes(inputs: InputComparison) -> list[str]:
    causes = [_rubric_cause(name, inputs) for name in inputs.names(_RUBRICS)]
    answering = inputs.names(_RESPONSES)
    if answering:
        causes.append(f"the responses of {join_names(answering)} changed")
    grouped, changes = grouped_phrases(inputs)
    others = grouped + [
        INPUT_WORDS.get(change.name, change.name) for change in changes if change.name != _PARTIAL
    ]
    if others:
        causes.append(f"{join_names(others)} changed")
    asked = inputs.names(_REQUESTS)
    if asked and not causes:
        causes.append(f"the judge's requests differ on {join_names(asked)}")
    return causes


def _rubric_cause(dimension: str, inputs: InputComparison) -> str:
    version = next(
        (each for each in inputs.changes if each.name == f"{_RUBRICS}{dimension}.version"), None
    )
    if version is None:
        return f"{dimension}'s rubric was edited (its version line is the same)"
    if version.then is None:
        return f"{dimension}'s rubric was added"
    if version.now is None:
        return f"{dimension}'s rubric was taken out"
    return f"{dimension}'s rubric went from version {version.then} to version {version.now}"
