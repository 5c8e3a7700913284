"""Two finished runs side by side: what differs in the inputs, and what came of it.

This is how one reviews a rubric edit: the same prompts and responses, judged by either text.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tournament_assets.adapters.run_reading import FinishedRun
from tournament_assets.audits.flips import FlipReport, compare_judgments
from tournament_assets.audits.input_changes import InputComparison, compare_inputs
from tournament_assets.audits.rating_moves import RatingMove, compare_standings
from tournament_assets.reports.formatting import format_confidence
from tournament_assets.reports.rendering import ReportTable, render_template
from tournament_assets.reports.run_comparison_tables import (
    changed_table,
    cost_table,
    flip_table,
    input_table,
    move_table,
)
from tournament_assets.reports.run_comparison_words import (
    cost_sentence,
    flip_sentences,
    input_sentences,
    move_sentences,
    partial_sentences,
)
from tournament_assets.reports.terminal import print_table

if TYPE_CHECKING:
    from rich.console import Console

_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two finished runs side by side.

    Attributes:
        then: The first run.
        now: The second run.
        inputs: What differs between their inputs.
        flips: What became of the judgments.
        moves: How far ratings and places moved.
    """

    then: FinishedRun
    now: FinishedRun
    inputs: InputComparison
    flips: FlipReport
    moves: tuple[RatingMove, ...]


def compare_runs(then: FinishedRun, now: FinishedRun) -> RunComparison:
    """Compare two finished runs.

    Args:
        then: The first run.
        now: The second run.
    """
    return RunComparison(
        then=then,
        now=now,
        inputs=compare_inputs(then.manifest, now.manifest),
        flips=compare_judgments(then.pairs, now.pairs, confidence=_CONFIDENCE),
        moves=compare_standings(then.standings, now.standings),
    )


def summary(comparison: RunComparison) -> list[str]:
    """Return paragraphs that say it in plain words: inputs, flips, places, cost."""
    then, now = comparison.then, comparison.now
    costs = _costs(comparison)
    paragraphs = [
        [
            *partial_sentences(then.manifest, now.manifest),
            *input_sentences(
                comparison.inputs,
                comparison.flips,
                knows_requests=all(
                    _mapping(_mapping(run.manifest, "inputs"), "judge_requests")
                    for run in (then, now)
                ),
            ),
        ],
        flip_sentences(comparison.flips, confidence=_CONFIDENCE),
        move_sentences(comparison.moves),
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
    nothing: frozenset[tuple[str, str]] = frozenset()
    return {
        dimension: (
            _mapping(old, dimension),
            _mapping(new, dimension),
            len(then.requests.get(dimension, nothing) & now.requests.get(dimension, nothing)),
        )
        for dimension in {**then.verdicts, **now.verdicts}
    }


def _sections(comparison: RunComparison, limit: int) -> list[tuple[str, ReportTable, str]]:
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
        ("Ratings and places", move_table(comparison.moves), ""),
        ("Cost", cost_table(_costs(comparison)), ""),
    ]
    return [section for section in sections if section[1].rows]


def _notes() -> tuple[str, ...]:
    share = format_confidence(_CONFIDENCE)
    return (
        "flipped: both runs settled the pair, differently: reversed, to or from a tie, or to "
        "or from inconsistent (two verdicts that disagree). "
        "lost, gained: only the first, only the second run settled it.",
        "other texts: flips of pairs whose prompt or responses differ between the runs.",
        f"kappa: agreement corrected for chance; {share} interval, whole prompts resampled. The "
        "interval of the share of flips takes pairs as independent, so it is rather too narrow.",
        "Each sampling interval is of one run alone. Runs that share prompts share much of that "
        "error, so it is no interval of the difference.",
    )


def comparison_markdown(comparison: RunComparison, *, limit: int) -> str:
    """Return the comparison as a Markdown page.

    Args:
        comparison: Two runs side by side.
        limit: The most changed judgments to list.
    """
    return render_template(
        "run_comparison.md.jinja",
        then=str(comparison.then.folder),
        now=str(comparison.now.folder),
        paragraphs=summary(comparison),
        sections=_sections(comparison, limit),
        notes=_notes(),
    )


def print_comparison(comparison: RunComparison, console: "Console", *, limit: int) -> None:
    """Print the comparison: first in words, then as tables.

    Args:
        comparison: Two runs side by side.
        console: Where to print.
        limit: The most changed judgments to list.
    """
    from rich.text import Text  # loading the definitions does not pay for it

    console.print(Text(f"then: {comparison.then.folder}\nnow:  {comparison.now.folder}"))
    for paragraph in summary(comparison):
        console.print()
        console.print(Text(paragraph))
    for title, cells, remark in _sections(comparison, limit):
        print_table(title, cells, console)
        if remark:
            console.print(Text(remark))
    console.print()
    for note in _notes():
        console.print(Text(note, style="dim"))


def comparison_values(comparison: RunComparison) -> dict[str, Any]:
    """Return every number of the comparison, for JSON."""
    flips = comparison.flips
    return {
        "then": str(comparison.then.folder),
        "now": str(comparison.now.folder),
        "summary": summary(comparison),
        "inputs": asdict(comparison.inputs),
        "flips": {
            "total": asdict(flips.total),
            "by_dimension": [asdict(each) for each in flips.by_dimension],
            "by_stratum": [asdict(each) for each in flips.by_stratum],
            "changed": [{**asdict(pair), "change": pair.change} for pair in flips.changed],
            "only_then": dict(flips.only_then),
            "only_now": dict(flips.only_now),
        },
        "ratings": [{**asdict(move), "difference": move.difference} for move in comparison.moves],
        "cost": {
            "then_usd": _total(comparison.then),
            "now_usd": _total(comparison.now),
            "by_dimension": {
                dimension: {"then": dict(then), "now": dict(now), "requests_in_both": shared}
                for dimension, (then, now, shared) in _costs(comparison).items()
            },
        },
    }
