from datetime import timedelta
from pathlib import Path
from typing import Protocol, cast

import dagster as dg
import pytest

from tests.graph.paid_projects import paid_project
from tests.graph.rerun_driver import TICK, Driver, driver
from tournament_assets.graph.automation import reruns, scheduled_reruns
from tournament_assets.graph.automation.jobs import Stage
from tournament_assets.graph.automation.reruns import (
    PartitionKey,
    RerunIdentity,
    RerunState,
    Scope,
    WorkOfStage,
    request_stage_after,
)
from tournament_assets.graph.automation.scheduled_reruns import continue_reruns
from tournament_assets.graph.recipe_book import RecipeBook
from tournament_assets.tournament.config import Mode

RERUN = "small_pilot_20261123T050000Z_edit"


class Choose(Protocol):
    """Says which partitions are out of date, by a stage's title."""

    def __call__(
        self, *, assets: tuple[dg.AssetKey, ...] = (), **by_title: list[PartitionKey]
    ) -> None: ...


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Choose:
    def set_out_of_date(
        *, assets: tuple[dg.AssetKey, ...] = (), **by_title: list[PartitionKey]
    ) -> None:
        def find(_book: RecipeBook, stage: Stage, mode: Mode) -> WorkOfStage:
            assert mode == "pilot"
            return dict.fromkeys(by_title.get(stage.title.replace(" ", "_"), []), assets)

        monkeypatch.setattr(reruns, "find_out_of_date", find)

    return set_out_of_date


def begin(d: Driver, scope: Scope = "out_of_date") -> list[dg.RunRequest]:
    identity = RerunIdentity(RERUN, "pilot", scope, "edit", TICK)
    return request_stage_after(0, identity, d.plan, instance=d.instance)


def tick(d: Driver) -> list[dg.RunRequest]:
    return list(continue_reruns(d.plan, d.instance).requests)


def test_stages_with_nothing_to_run_are_skipped(choose: Choose, d: Driver) -> None:
    choose(prompt_bank_and_selection=["pilot"], responses=["careful|pilot"])
    (first,) = begin(d)
    assert first.run_key == f"{RERUN}/prompts/pilot"
    assert d.run(first)
    (second,) = tick(d)
    assert second.run_key == f"{RERUN}/responses/careful|pilot"


def test_nothing_begins_where_nothing_is_out_of_date(choose: Choose, d: Driver) -> None:
    choose()
    assert begin(d) == []


def test_a_rerun_ends_where_nothing_more_is_out_of_date_and_takes_in_no_later_edit(
    choose: Choose, d: Driver
) -> None:
    choose(prompt_bank_and_selection=["pilot"])
    (first,) = begin(d)
    d.run(first)
    assert [rerun.state for rerun in d.reruns()] == [RerunState.BETWEEN_STAGES]
    choose()
    assert tick(d) == []
    assert [rerun.state for rerun in d.reruns()] == [RerunState.SUCCEEDED]
    choose(responses=["careful|pilot"])
    assert tick(d) == []


def test_a_rerun_of_a_scope_that_nobody_knows_stays_where_it_is(choose: Choose, d: Driver) -> None:
    choose(prompt_bank_and_selection=["pilot"], responses=["careful|pilot"])
    (first,) = begin(d, cast("Scope", "what a later version knows"))
    d.run(first)
    assert tick(d) == []
    assert [rerun.state for rerun in d.reruns()] == [RerunState.BETWEEN_STAGES]


def test_a_partition_that_is_requested_again_runs_what_the_rerun_chose_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choose: Choose
) -> None:
    monkeypatch.setattr(scheduled_reruns, "BEGINNING_TAKES", timedelta(0))
    with (
        paid_project(tmp_path, dimensions=("factuality", "calibration")) as paid,
        driver(paid) as d,
    ):
        choose(prompt_bank_and_selection=["pilot"])
        (first,) = begin(d)
        d.note_success(first)
        ratings = dg.AssetKey(["small", "elo_ratings"])
        keys = [
            dg.MultiPartitionKey({"mode": "pilot", "dimension": dimension})
            for dimension in ("factuality", "calibration")
        ]
        choose(assets=(ratings,), judging_and_ratings=[*keys])
        requests = tick(d)
        assert len(requests) == 2
        d.note_success(requests[0])
        choose()
        (again,) = tick(d)
        assert again == requests[1]
        assert again.asset_selection == [ratings]


def test_the_first_stage_of_a_rerun_knows_when_it_began(choose: Choose, d: Driver) -> None:
    key = dg.MultiPartitionKey({"mode": "pilot", "dimension": "factuality"})
    choose(judging_and_ratings=[key])
    (request,) = begin(d)
    config = request.run_config["ops"]["small__judge_replies"]["config"]
    assert config == {"run_began_at": "2026-11-23T05:00:00+00:00"}
