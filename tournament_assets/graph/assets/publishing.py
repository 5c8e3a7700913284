"""What leaves the graph: the report, and the run directory in the layout other tools know."""

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from tournament_assets.audits.outages import copy_sentences
from tournament_assets.graph.assets.freshness import recorded_of
from tournament_assets.graph.assets.reports import outages_of, rows_by_dimension
from tournament_assets.graph.outputs import Table, table_asset, written_result
from tournament_assets.graph.partitions import (
    asset_key,
    by_mode,
    partition_values,
    partitions_of,
    same_mode,
)
from tournament_assets.graph.resources.services import LedgerResource
from tournament_assets.project.project_files import load_rubric
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.storage.run_directory import run_directory_name, write_run_directory
from tournament_assets.storage.tables import (
    StoredTable,
    content_version,
    iterate_rows,
    table_rows,
    write_table,
)
from tournament_assets.tournament.battles import settings_of_run
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import combine, fingerprint_text, short
from tournament_assets.tournament.judge_services import SERVICES
from tournament_assets.workflows.plan import TournamentPlan, by_partition, mode_of
from tournament_assets.workflows.provenance import (
    Frames,
    LargeTables,
    Recorded,
    ReplySummary,
    cost_lines,
    input_hashes,
    judge_models,
    judging_costs,
    judging_waste,
    limit_warnings,
    pairs_left_out,
    partial_warnings,
    pending_presentations,
    provenance_lines,
    read_versions,
    rerun_command,
    summaries_by_dimension,
    version_values,
)
from tournament_assets.workflows.report_sections import report_sections


class RunArtifactsConfig(dg.Config):
    """Options of one run."""

    output_dir: str | None = None
    """Where run directories go; `runs` in the project folder unless given."""
    started_at: str | None = None
    """When the work began, ISO 8601; the start of this run unless given."""


def build_publishing_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `report` and `run_artifacts` for one tournament."""
    tournament = plan.config
    group = plan.group("5_report")

    def all_of_mode(name: str) -> dg.AssetIn:
        return partitions_of(asset_key(plan, name), same_mode())

    @table_asset(
        plan,
        "report",
        stage="5_report",
        ins={
            "leaderboard": dg.AssetIn(key=asset_key(plan, "leaderboard")),
            "audit": dg.AssetIn(key=asset_key(plan, "audit")),
            "prompt_audit": dg.AssetIn(key=asset_key(plan, "prompt_audit")),
            "fair": dg.AssetIn(key=asset_key(plan, "fair_comparison")),
            "trust": all_of_mode("trust_panel"),
            "selected": dg.AssetIn(key=asset_key(plan, "selected_prompts")),
            "responses": all_of_mode("entrant_responses"),
            "matches": all_of_mode("match_list"),
            "replies": all_of_mode("judge_replies"),
            "verdicts": all_of_mode("judge_verdicts"),
            "elo": all_of_mode("elo_ratings"),
            "models": all_of_mode("model_comparison"),
            "win_rates": all_of_mode("win_rates"),
        },
        partitions_def=by_mode(),
        kinds={"html", "markdown"},
    )
    def report(
        context: dg.AssetExecutionContext,
        leaderboard: pd.DataFrame,
        audit: pd.DataFrame,
        prompt_audit: pd.DataFrame,
        fair: pd.DataFrame,
        trust: Frames,
        selected: pd.DataFrame,
        responses: Frames,
        matches: LargeTables,
        replies: LargeTables,
        verdicts: LargeTables,
        elo: Frames,
        models: Frames,
        win_rates: Frames,
    ) -> Table:
        """The page people read, as Markdown and as one HTML file, with every battle in it.

        Many battles get pages of their own, which stand beside it in the run directory.
        """
        from tournament_assets.reports.battle_pages import BattleTables
        from tournament_assets.reports.run.page import iterate_pages, render_markdown
        from tournament_assets.reports.run.report_contents import ReportContents
        from tournament_assets.reports.trust_tables import red_sentences

        mode = mode_of(partition_values(context))
        lights = [
            row for rows in rows_by_dimension(plan, "trust_panel", trust).values() for row in rows
        ]
        summaries = summaries_by_dimension(plan, replies)
        inputs = input_hashes(
            plan,
            selected=selected,
            responses=responses,
            replies=summaries,
            answered=answers_recorded(plan, mode, context.instance),
        )
        versions = read_versions(plan.project.folder)
        left_out = pairs_left_out(plan, selected=selected, responses=responses, replies=summaries)
        names = tournament.dimension_names
        costs = judging_costs(plan, summaries)
        contents = ReportContents(
            tournament_id=tournament.tournament_id,
            description=tournament.description,
            mode=mode,
            judge_model=judge_models(summaries),
            judge_label=tournament.judge_label,
            judge_is_language_model=SERVICES[tournament.judge.service].is_language_model,
            leaderboard=leaderboard,
            elo_ratings=by_partition(elo, names),
            model_comparison=by_partition(models, names),
            win_rates=by_partition(win_rates, names),
            audit=audit,
            costs=cost_lines(costs),
            provenance=provenance_lines(plan, inputs, versions),
            command=made_again_by(
                plan, mode, summaries=summaries, left_out=left_out, instance=context.instance
            ),
            versions=str(versions),
            confidence=tournament.ratings.confidence,
            further_warnings=[
                *outages_of(plan, table_rows("audit", audit)),
                *partial_warnings(pending_presentations(summaries)),
                *limit_warnings(left_out),
            ],
            cautions=[*red_sentences(lights), *copy_sentences(table_rows("audit", audit))],
            prices={dimension: cost["cost_usd"] for dimension, cost in costs.items()},
            battles=BattleTables(
                match_lists=by_partition(matches, names),
                verdicts=by_partition(verdicts, names),
                replies=by_partition(replies, names),
                responses=by_partition(responses, tournament.entrant_ids),
            ),
            sections=report_sections(
                plan,
                trust=lights,
                audit=table_rows("audit", audit),
                prompt_audit=table_rows("prompt_audit", prompt_audit),
                fair=table_rows("fair_comparison", fair),
            ),
        )
        markdown = render_markdown(contents)

        def documents() -> Iterator[dict[str, str]]:
            pages = iterate_pages(contents)
            yield {"format": "html", "content": next(pages)[1]}
            yield {"format": "markdown", "content": markdown}
            for name, page in pages:
                yield {"format": name, "content": page}

        return written_result(
            write_table("report", documents()), metadata={"report": dg.MetadataValue.md(markdown)}
        )

    @dg.asset(
        key=asset_key(plan, "run_artifacts"),
        ins={
            "report": dg.AssetIn(key=asset_key(plan, "report")),
            "leaderboard": dg.AssetIn(key=asset_key(plan, "leaderboard")),
            "battles": dg.AssetIn(key=asset_key(plan, "battles")),
            "audit": dg.AssetIn(key=asset_key(plan, "audit")),
            "bank": dg.AssetIn(key=asset_key(plan, "prompt_bank")),
            "selected": dg.AssetIn(key=asset_key(plan, "selected_prompts")),
            "responses": all_of_mode("entrant_responses"),
            "matches": all_of_mode("match_list"),
            "replies": all_of_mode("judge_replies"),
            "verdicts": all_of_mode("judge_verdicts"),
            "elo": all_of_mode("elo_ratings"),
            "traces": all_of_mode("elo_traces"),
            "win_rates": all_of_mode("win_rates"),
        },
        partitions_def=by_mode(),
        group_name=group,
        kinds={"json", "parquet", "html"},
    )
    def run_artifacts(
        context: dg.AssetExecutionContext,
        config: RunArtifactsConfig,
        report: StoredTable,
        leaderboard: pd.DataFrame,
        battles: StoredTable,
        audit: pd.DataFrame,
        bank: pd.DataFrame,
        selected: pd.DataFrame,
        responses: Frames,
        matches: LargeTables,
        replies: LargeTables,
        verdicts: LargeTables,
        elo: Frames,
        traces: dict[str, EloTraces],
        win_rates: Frames,
        ledger: LedgerResource,
    ) -> dg.MaterializeResult[None]:
        """The run's own directory: `runs/<mode>_<time>/`, which exists whole or not at all.

        Every materialisation makes a new one; an earlier run is never overwritten.
        """
        from tournament_assets.reports.run.run_files import RunTables, build_run_files

        mode = mode_of(partition_values(context))
        names = tournament.dimension_names
        finished_at = datetime.now(UTC).replace(microsecond=0)
        summaries = summaries_by_dimension(plan, replies)
        traces_by_dimension = by_partition(traces, names)
        inputs = input_hashes(
            plan,
            selected=selected,
            responses=responses,
            replies=summaries,
            answered=answers_recorded(plan, mode, context.instance),
        )
        versions = read_versions(plan.project.folder)
        left_out = pairs_left_out(plan, selected=selected, responses=responses, replies=summaries)
        costs = judging_costs(plan, summaries)
        pending = pending_presentations(summaries)
        with ledger.open() as opened:
            waste = judging_waste(opened.waste_of(tournament.tournament_id, mode))
        prices = [cost["cost_usd"] for cost in costs.values()]
        manifest = {
            "tournament": tournament.tournament_id,
            "mode": mode,
            "config": plan.config_path.as_posix(),
            "judge": tournament.judge_label,
            "judge_model": judge_models(summaries),
            "entrants": list(tournament.entrant_ids),
            "dimensions": list(names),
            "bank_size": len(bank),
            "selected_prompts": len(selected),
            "pairs": {dimension: each.pairs for dimension, each in summaries.items()},
            "pairs_left_out_by_limit": left_out,
            "replies_pending": sum(pending.values()),
            "is_partial": any(pending.values()),
            "outages": outages_of(plan, table_rows("audit", audit)),
            "n_perms": next(iter(traces_by_dimension.values())).ratings.shape[0],
            "shuffle_seed": tournament.ratings.shuffle_seed,
            "pilot_seed": tournament.pilot.pilot_seed,
            "bootstrap_seed": tournament.ratings.bootstrap_seed,
            "n_bootstraps": tournament.ratings.n_bootstraps,
            "started_at": config.started_at or _run_start(context).isoformat(),
            "finished_at": finished_at.isoformat(),
            "versions": version_values(versions),
            "project_commit": None
            if versions.project_commit is None
            else asdict(versions.project_commit),
            "thresholds": tournament.checks.model_dump(),
            "inputs": {"prompt_bank": content_version("prompt_bank", bank), **inputs},
            "cost": {
                "total_usd": None if None in prices else round(sum(prices), 6),
                "by_dimension": costs,
                "waste": waste,
            },
            "command": made_again_by(
                plan, mode, summaries=summaries, left_out=left_out, instance=context.instance
            ),
        }
        files = build_run_files(
            RunTables(
                match_lists=by_partition(matches, names),
                replies=by_partition(replies, names),
                verdicts=by_partition(verdicts, names),
                elo_ratings=by_partition(elo, names),
                elo_traces=traces_by_dimension,
                win_rates=by_partition(win_rates, names),
                battles=battles,
                leaderboard=leaderboard,
                report=report,
                rubrics=rubric_texts(plan, mode, inputs, context.instance),
            ),
            manifest=manifest,
            settings=settings_of_run(tournament, mode=mode, n_permutations=manifest["n_perms"]),
        )
        parent = plan.project.folder / Path(config.output_dir or "runs").expanduser()
        written = write_run_directory(parent, run_directory_name(mode, finished_at), files)
        directory = written.folder
        # The manifest tells the time, so two runs with the same results would differ by it.
        version = combine(
            fingerprint
            for name, fingerprint in sorted(written.fingerprints.items())
            if name != "manifest.json"
        )
        return dg.MaterializeResult(
            data_version=dg.DataVersion(version),
            metadata={
                "directory": dg.MetadataValue.path(str(directory)),
                "report": dg.MetadataValue.path(str(directory / "report.html")),
                "files": len(written.fingerprints),
                "bytes": written.n_bytes,
                "cost_usd": manifest["cost"]["total_usd"] or 0.0,
                "content_hash": short(version),
                "summary": dg.MetadataValue.md(
                    next(
                        row["content"]
                        for row in iterate_rows("report", report)
                        if row["format"] == "markdown"
                    )
                ),
            },
        )

    return [report, run_artifacts]


def _run_start(context: dg.AssetExecutionContext) -> datetime:
    stats = context.instance.get_run_stats(context.run_id)
    started = getattr(stats, "start_time", None)
    moment = datetime.fromtimestamp(started, UTC) if started else datetime.now(UTC)
    return moment.replace(microsecond=0)


def made_again_by(
    plan: TournamentPlan,
    mode: Mode,
    *,
    summaries: Mapping[str, ReplySummary],
    left_out: Mapping[str, int],
    instance: dg.DagsterInstance,
) -> str:
    """Return the command that makes these results again, with what the run was told besides.

    Args:
        plan: The tournament.
        mode: Its mode.
        summaries: What is said of the replies, by dimension.
        left_out: Pairs that a limit left out, by dimension.
        instance: Where materialisations are recorded.
    """
    command = rerun_command(plan, mode)
    models = {model for each in summaries.values() for model in each.judge_models}
    if len(models) == 1 and models != {plan.config.judge_model(mode)}:
        command += f" --judge-model {shlex.quote(*models)}"
    recorded = recorded_of(plan, "elo_traces", f"{plan.config.dimension_names[0]}|{mode}", instance)
    permutations = (recorded or {}).get("permutations")
    if permutations not in (None, plan.config.ratings.n_permutations):
        command += f" --n-perms {permutations}"
    limits = [summaries[dimension].pairs for dimension, n in left_out.items() if n]
    return command + (f" --limit-pairs {max(limits)}" if limits else "")


def answers_recorded(
    plan: TournamentPlan, mode: Mode, instance: dg.DagsterInstance
) -> dict[str, Recorded]:
    """Return what is recorded of each entrant's responses in a mode."""
    return {
        entrant: recorded_of(plan, "entrant_responses", f"{entrant}|{mode}", instance) or {}
        for entrant in plan.config.entrant_ids
    }


def rubric_texts(
    plan: TournamentPlan, mode: Mode, inputs: Mapping[str, Any], instance: dg.DagsterInstance
) -> dict[str, str]:
    """Return the texts that the dimensions were judged by, where they are still known.

    The file may have been edited since, and replies of an earlier version of this program do not
    hold the text; what has another hash than the judge's rubric is not taken for it.

    Args:
        plan: The tournament.
        mode: Its mode.
        inputs: What `input_hashes` returned.
        instance: Where materialisations are recorded.
    """
    texts: dict[str, str] = {}
    for dimension, rubric in inputs["rubrics"].items():
        recorded = recorded_of(plan, "judge_replies", f"{dimension}|{mode}", instance) or {}
        known = [str(recorded.get("rubric_text", ""))]
        with contextlib.suppress(InputError):
            known.append(load_rubric(plan.config, plan.project, dimension).text)
        for text in known:
            if fingerprint_text(text) == rubric["hash"]:
                texts[dimension] = text
    return texts
