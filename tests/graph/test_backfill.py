"""What the UI's button begins: one backfill over everything of a tournament that can be run."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.asset_graph_view.asset_graph_view import AssetGraphView
from dagster._core.definitions.temporal_context import TemporalContext
from dagster._core.execution.asset_backfill import (
    AssetBackfillData,
    execute_asset_backfill_iteration_inner,
)
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.remote_representation.code_location import InProcessCodeLocation
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.workspace import (
    CodeLocationEntry,
    CodeLocationLoadStatus,
    CurrentWorkspace,
    DefinitionsSource,
)

from tests.projects import make_project
from tournament_assets.definitions import load_project
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.graph.table import ASSETS
from tournament_assets.project.project_files import prepare_dagster_home

from .paid_projects import PaidProject, paid_project

DIMENSIONS = ("factuality", "calibration")
ON_REQUEST = {row.name for row in ASSETS if row.on_request}


class Backfill:
    """The daemon's side of a backfill, in one process.

    Attributes:
        ran: What ran, in order: the partition and the assets of each run.
        failed: The partitions of runs that failed.
    """

    def __init__(self, paid: PaidProject, instance: dg.DagsterInstance) -> None:
        self._definitions, self._instance = paid.definitions(), instance
        self._backfill_id = f"button_{instance.get_runs_count()}"
        self._graph = loaded_graph(paid, instance)
        self.ran: list[tuple[str | None, set[str]]] = []
        self.failed: list[str | None] = []

    def run(self, mode: str, *, until: str = "", **tags: str) -> None:
        """Materialise all of it in a mode, as the dialog asks for it, or until an asset ran."""
        graph = self._graph
        data = AssetBackfillData.from_asset_partitions(
            asset_graph=graph,
            partition_names=[mode],
            asset_selection=sorted(graph.materializable_asset_keys),
            dynamic_partitions_store=self._instance,
            all_partitions=False,
            backfill_start_timestamp=0.0,
        )
        while True:
            view = AssetGraphView(
                temporal_context=TemporalContext(
                    effective_dt=data.backfill_start_datetime, last_event_id=None
                ),
                instance=self._instance,
                asset_graph=graph,
            )
            result = execute_asset_backfill_iteration_inner(
                backfill_id=self._backfill_id,
                asset_backfill_data=data,
                asset_graph_view=view,
                backfill_start_timestamp=0.0,
                logger=logging.getLogger("backfill"),
                run_config=None,
            )
            if not result.run_requests or place(self.ran, until):
                return
            data = result.backfill_data.with_run_requests_submitted(
                result.run_requests, asset_graph_view=view
            ).with_requested_runs_for_target_roots(True)
            for request in result.run_requests:
                self._execute(request, tags)

    def _execute(self, request: dg.RunRequest, tags: dict[str, str]) -> None:
        assets = list(request.asset_selection or [])
        self.ran.append((request.partition_key, {key.path[-1] for key in assets}))
        job = self._definitions.resolve_implicit_job_def_def_for_assets(assets)
        assert job is not None
        done = job.execute_in_process(
            instance=self._instance,
            partition_key=request.partition_key,
            asset_selection=assets,
            tags={**request.tags, "dagster/backfill": self._backfill_id, **tags},
            raise_on_error=False,
        )
        if not done.success:
            self.failed.append(request.partition_key)


def loaded_graph(paid: PaidProject, instance: dg.DagsterInstance) -> Any:
    """Return the graph as the daemon has it of a code location."""
    target = LoadableTargetOrigin(module_name="tournament_assets.definitions")
    origin = InProcessCodeLocationOrigin(target, location_name="tournament_assets")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TOURNAMENT_PROJECT", str(paid.project.folder))
        location = InProcessCodeLocation(origin, instance)
    entry = CodeLocationEntry(
        origin=origin,
        code_location=location,
        load_error=None,
        load_status=CodeLocationLoadStatus.LOADED,
        display_metadata={},
        update_timestamp=0.0,
        version_key="1",
        definitions_source=DefinitionsSource.CODE_SERVER,
    )
    return CurrentWorkspace({"tournament_assets": entry}).asset_graph


@contextmanager
def button(paid: PaidProject) -> Iterator[Backfill]:
    home = prepare_dagster_home(paid.project.folder, paid.environment["DAGSTER_HOME"])
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield Backfill(paid, instance)


def place(ran: list[tuple[str | None, set[str]]], asset: str) -> list[int]:
    return [index for index, (_, assets) in enumerate(ran) if asset in assets]


def test_the_button_runs_a_mode_in_order_to_the_report_and_nothing_on_request(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path, dimensions=DIMENSIONS) as paid, button(paid) as backfill:
        backfill.run("pilot")
        assert backfill.failed == []
        in_order = (
            "prompt_bank",
            "selected_prompts",
            "entrant_responses",
            "match_list",
            "judging_estimate",
            "judge_requests",
            "judge_replies",
            "measures",
            "report",
            "run_comparison",
        )
        places = {name: place(backfill.ran, name) for name in in_order}
        first = [min(each) for each in places.values()]
        assert first == sorted(first)
        assert len(places["judge_replies"]) == len(DIMENSIONS)
        # One run may hold both, which asks nothing before the price is known and allowed.
        assert max(places["judging_estimate"]) <= min(places["judge_requests"])
        assert max(places["judge_requests"]) < min(places["judge_replies"])
        assert max(places["measures"]) < min(places["report"])
        assert not ON_REQUEST & set().union(*(assets for _, assets in backfill.ran))
        assert {str(key).rpartition("|")[2] for key, _ in backfill.ran} == {"pilot"}
        (run,) = (paid.project.folder / "runs").iterdir()
        assert (run / "report.html").is_file()


def test_a_price_beyond_the_budget_ends_it_before_the_judge_is_asked(tmp_path: Path) -> None:
    with paid_project(tmp_path, dimensions=DIMENSIONS) as paid:
        paid.project.merge_config(judging={"budget": {"usd": 0.000001}})
        with button(paid) as backfill:
            backfill.run("pilot")
        assert backfill.failed == ["pilot"]
        partition, assets = backfill.ran[-1]
        assert partition == "pilot"
        assert {"judging_estimate", "judge_requests"} <= assets
        assert "judge_replies" not in assets
        assert paid.server.log.requests == 0


@pytest.mark.parametrize("tag", ["unbudgeted", "collects", "no_budget", "budget"])
def test_no_tag_lets_a_headline_without_a_budget_be_judged(tmp_path: Path, tag: str) -> None:
    with paid_project(tmp_path, dimensions=("factuality",)) as paid:
        paid.project.merge_config(judging={"budget": {"usd": None}})
        with button(paid) as backfill:
            backfill.run("headline", until="judge_requests", **{f"tournament/{tag}": "yes"})
            assert backfill.failed == ["headline"]
        assert paid.n_asked == 0
        paid.project.merge_config(judging={"budget": {"usd": "unlimited"}})
        with button(paid) as backfill:
            backfill.run("headline", until="judge_requests")
        assert paid.n_asked > 0


def test_what_runs_on_request_alone_comes_from_outside_the_graph(tmp_path: Path) -> None:
    graph = load_project(make_project(tmp_path / "p").folder, {}).resolve_asset_graph()
    outside = {key.path[-1] for key in graph.external_asset_keys}
    assert outside == ON_REQUEST | {
        *("entrants", "price_list", "prompt_file", "rubrics"),
        *(row.name for row in added_rows("assets") if row.stored_as == "file"),
    }
    run = graph.materializable_asset_keys
    roots = [key for key in run if not graph.get(key).parent_keys & run]
    assert [graph.get(key).partitions_def for key in roots] == [
        dg.StaticPartitionsDefinition(["pilot", "headline"])
    ]
