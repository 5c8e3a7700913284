"""A run beside the one before it: what `tournament compare` says, in the graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from tournament_assets.graph.outputs import Table, table_asset, table_result
from tournament_assets.graph.partitions import asset_key, by_mode, partition_values
from tournament_assets.storage.run_directory import find_runs
from tournament_assets.tournament.errors import InputError
from tournament_assets.workflows.plan import TournamentPlan, mode_of

_LISTED_JUDGMENTS = 20


@dataclass(frozen=True, slots=True)
class _Review:
    rows: Sequence[Mapping[str, Any]]
    metadata: Mapping[str, Any]


def build_run_comparison_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `run_comparison` for one tournament."""

    @table_asset(
        plan,
        "run_comparison",
        stage="5_report",
        deps=[dg.AssetDep(asset_key(plan, "run_artifacts"))],
        partitions_def=by_mode(),
        kinds={"parquet", "markdown"},
    )
    def run_comparison(context: dg.AssetExecutionContext) -> Table:
        """This run beside the one before it: what differs, what flipped, what moved, what it cost.

        It reads the two run directories and nothing else, for information: nothing follows from
        it. `tournament compare` does the same for any two.
        """
        mode = mode_of(partition_values(context))
        now = _newest_directory(context, plan, mode)
        if now is None:
            return _nothing("No run directory is recorded for this mode: run run_artifacts first.")
        found = find_runs(now.parent, tournament_id=plan.tournament_id, mode=mode)
        then = found.before(now)
        if now not in found.directories:
            return _nothing(
                f"{now} cannot be found here any more, or its manifest cannot be read.",
                found.problems,
            )
        if then is None:
            return _nothing(
                f"{now.name} is the first run of this mode in {now.parent}: there is nothing to "
                "compare with yet.",
                found.problems,
            )
        try:
            review = _review(then, now)
        except InputError as error:
            return _nothing(
                f"{now.name} cannot be compared with {then.name}: {error}", found.problems
            )
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            # A directory of another version can hold anything under the names that are known.
            context.log.warning(f"{then} and {now} cannot be compared", exc_info=True)
            return _nothing(
                f"{now.name} cannot be compared with {then.name}: a file is not as this version "
                f"writes it ({type(error).__name__}: {error}).",
                found.problems,
            )
        return table_result(
            "run_comparison",
            review.rows,
            metadata={**review.metadata, **_passed_over(found.problems)},
        )

    return [run_comparison]


def _newest_directory(
    context: dg.AssetExecutionContext, plan: TournamentPlan, mode: str
) -> Path | None:
    """Return what `run_artifacts` wrote last, wherever it was told to."""
    records = context.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=asset_key(plan, "run_artifacts"), asset_partitions=[mode]),
        limit=1,
    ).records
    materialization = records[0].asset_materialization if records else None
    if materialization is None:
        return None
    directory = materialization.metadata.get("directory")
    return None if directory is None else Path(str(directory.value))


def _nothing(sentence: str, problems: Sequence[str] = ()) -> Table:
    return table_result(
        "run_comparison", [], metadata={"verdict": sentence, **_passed_over(problems)}
    )


def _passed_over(problems: Sequence[str]) -> dict[str, str]:
    return {"passed_over": "; ".join(problems)} if problems else {}


def _review(then: Path, now: Path) -> _Review:
    from tournament_assets.run_comparison.comparison import (
        compare_runs,
        comparison_markdown,
        comparison_values,
        verdict_line,
        verdict_sentences,
    )
    from tournament_assets.run_comparison.differences import Change
    from tournament_assets.run_comparison.run_reading import read_finished_runs

    comparison = compare_runs(*read_finished_runs([then, now]))
    flips = comparison.flips
    both = [count for count in (flips.total, flips.rest) if count is not None]
    rows = [
        {
            "then": then.name,
            "now": now.name,
            "dimension": count.dimension,
            "source": count.source,
            "settled_in_both": count.flips.n,
            "flipped": count.flips.count,
            "flip_rate": count.flips.rate,
            "flip_rate_low": count.flips.low,
            "flip_rate_high": count.flips.high,
            **{change.value: n for change, n in count.changes.items()},
            "other_texts": count.shown_otherwise,
            "kappa": count.agreement.kappa,
            "kappa_low": count.agreement.kappa_low,
            "kappa_high": count.agreement.kappa_high,
        }
        for total in flips.by_dimension
        for count in (
            *(each for each in flips.by_stratum if each.dimension == total.dimension),
            total,
        )
    ]
    differences = [abs(move.difference) for move in comparison.moves if move.difference is not None]
    cost = comparison_values(comparison)["cost"]
    numbers = {
        "flip_rate": flips.total.flips.rate,
        "kappa": flips.total.agreement.kappa,
        "largest_rating_move": max(differences, default=None),
        "cost_then_usd": cost["then_usd"],
        "cost_now_usd": cost["now_usd"],
    }
    return _Review(
        rows,
        {
            "verdict": verdict_sentences(comparison),
            "comes_to_the_same": verdict_line(comparison),
            "comparison": dg.MetadataValue.md(
                comparison_markdown(comparison, limit=_LISTED_JUDGMENTS)
            ),
            "judgments_flipped": flips.total.flips.count,
            "judgments_settled_in_both": flips.total.flips.n,
            "pairs_asked_otherwise": sum(flips.asked_otherwise.values()),
            "judgments_lost": sum(count.changes[Change.LOST] for count in both),
            "judgments_gained": sum(count.changes[Change.GAINED] for count in both),
            "places_changed": sum(move.is_of_place for move in comparison.moves),
            **{name: value for name, value in numbers.items() if value is not None},
            "then": dg.MetadataValue.path(str(then)),
            "now": dg.MetadataValue.path(str(now)),
        },
    )
