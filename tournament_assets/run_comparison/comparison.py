"""Two finished runs side by side: the differences in their inputs and in their results.

Use it to review a rubric edit: the same prompts and responses, judged by either text.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from difflib import unified_diff
from typing import Any

from tournament_assets.audits.agreement import MANY_RESAMPLES
from tournament_assets.foundation.formatting import format_confidence
from tournament_assets.reports.rendering import render_sentences
from tournament_assets.reports.report_tables import Document, ReportSection
from tournament_assets.run_comparison.comparison_text import (
    changed_inputs,
    changed_table,
    cost_table,
    dollars,
    flip_table,
    input_table,
    move_table,
    noisy_dimensions,
    requests_asked,
    size_caution,
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
from tournament_assets.tournament.verdicts import Outcome

_CONFIDENCE = MANY_RESAMPLES.confidence


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two finished runs side by side.

    Attributes:
        then: The first run.
        now: The second run.
        inputs: The differences between their inputs.
        flips: The changes of the judgments.
        moves: How far ratings and places moved.
        sizes: Settled pairs of either run, by dimension, where the runs settled different pairs.
        rubric_edits: The edits of the rubrics that differ, by dimension: lines of unified diffs.
        verdict: Whether the runs agree.
    """

    then: FinishedRun
    now: FinishedRun
    inputs: InputComparison
    flips: FlipReport
    moves: tuple[RatingMove, ...]
    sizes: Mapping[str, tuple[int, int]]
    rubric_edits: Mapping[str, tuple[str, ...]]
    verdict: SamenessVerdict


def compare_runs(
    then: FinishedRun, now: FinishedRun, *, tolerance: float | None = None
) -> RunComparison:
    """Compare two finished runs.

    Args:
        then: The first run.
        now: The second run.
        tolerance: Largest share of flips that counts as noise; by default the second run's
            `checks.max_drift_rate`, or that option's default.
    """
    if tolerance is None:
        recorded = now.at("thresholds", "max_drift_rate")
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
        rubric_edits={
            name: _diff(then.rubrics[name], now.rubrics[name])
            for name in inputs.names("inputs.rubrics.")
            if name in then.rubrics and name in now.rubrics
        },
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


def _diff(then: str, now: str) -> tuple[str, ...]:
    return tuple(unified_diff(then.splitlines(), now.splitlines(), "then", "now", lineterm=""))


def verdict_line(comparison: RunComparison) -> str:
    """Return whether the runs agree, with the exit code and the reasons."""
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


def summary(comparison: RunComparison) -> list[str]:
    """Return a summary in paragraphs: inputs, flips, places, cost."""
    then, now, moves = comparison.then, comparison.now, comparison.moves
    once = {"first": (True, False), "second": (False, True)}
    known = [move for move in moves if move.difference is not None]
    lines = render_sentences(
        "comparison.jinja",
        partial=[name for name, run in (("first", then), ("second", now)) if run.at("is_partial")],
        changed=changed_inputs(comparison.inputs),
        requests=comparison.inputs.names("inputs.judge_requests."),
        asked=requests_asked(comparison.flips),
        noisy=noisy_dimensions(comparison.inputs, comparison.flips),
        flips=comparison.flips,
        confidence=_CONFIDENCE,
        caution=size_caution(comparison.sizes),
        places=[move for move in moves if move.is_of_place],
        rated_once={
            name: [f"{move.entrant_id} ({move.dimension})" for move in moves if move.rated == rated]
            for name, rated in once.items()
        },
        largest=max(known, key=lambda move: abs(move.difference or 0.0), default=None),
        cost_then=dollars(_total(then)),
        cost_now=dollars(_total(now)),
        shared=sum(shared for *_, shared in _costs(comparison).values()),
        answered=sum(len(requests) for requests in now.requests.values()),
    )
    return [" ".join(part.split()) for part in "\n".join(lines).split("\n\n") if part.strip()]


def _total(run: FinishedRun) -> float | None:
    total = run.at("cost", "total_usd")
    return float(total) if isinstance(total, int | float) else None


def _costs(
    comparison: RunComparison,
) -> dict[str, tuple[Mapping[str, Any], Mapping[str, Any], int]]:
    then, now = comparison.then, comparison.now
    nothing: frozenset[str] = frozenset()
    return {
        dimension: (
            then.at("cost", "by_dimension", dimension) or {},
            now.at("cost", "by_dimension", dimension) or {},
            len(then.requests.get(dimension, nothing) & now.requests.get(dimension, nothing)),
        )
        for dimension in {**then.verdicts, **now.verdicts}
    }


def comparison_document(comparison: RunComparison, *, limit: int) -> Document:
    """Return a comparison as a document: its summary, the rubric edits, then tables.

    Args:
        limit: Most changed judgments to list.
    """
    folders = (f"then: {comparison.then.folder}", f"now: {comparison.now.folder}")
    changed = comparison.flips.changed
    left = len(changed) - limit
    tables = (
        ("Inputs that differ", input_table(comparison.inputs.changes), ""),
        ("Flips by dimension and stratum", flip_table(comparison.flips), ""),
        (
            "Judgments that changed",
            changed_table(changed[:limit]),
            f"{left} more; raise --limit, or print all by --json." if left > 0 else "",
        ),
        ("Ratings and places", move_table(comparison.moves), size_caution(comparison.sizes)),
        ("Cost", cost_table(_costs(comparison)), ""),
    )
    sections = [
        ReportSection("", folders),
        *(ReportSection("", (each,)) for each in (verdict_line(comparison), *summary(comparison))),
        *(
            ReportSection(f"What was edited in the rubric of {name}", command="\n".join(diff))
            for name, diff in comparison.rubric_edits.items()
        ),
        *(
            ReportSection(title, (remark,) if remark else (), (("", table),))
            for title, table, remark in tables
            if table.rows
        ),
        ReportSection("", _notes(), is_note=True),
    ]
    return Document("Two runs compared", sections)


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
        "Each interval is of one run alone. Runs that share prompts share much of that "
        "error, so it is not an interval of the difference.",
    )


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
        "rubric_edits": [
            {"dimension": name, "diff": diff} for name, diff in comparison.rubric_edits.items()
        ],
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
