from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from tests.graph.paid_projects import paid_project
from tests.graph.rerun_driver import TICK, Driver, driver
from tournament_assets.graph.automation import scheduled_reruns
from tournament_assets.graph.automation.jobs import Stage
from tournament_assets.graph.automation.reruns import (
    CHOICES,
    Choice,
    PartitionKey,
    RerunIdentity,
    RerunState,
    Scope,
    WorkOfStage,
    request_stage_after,
)
from tournament_assets.graph.automation.scheduled_reruns import continue_reruns
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import Mode

RERUN = "small_pilot_20261123T050000Z_edit"


def choice_of(*, assets: tuple[dg.AssetKey, ...] = (), **by_title: list[PartitionKey]) -> Choice:
    """Choose partitions by a stage's title, as a look at what is out of date would."""

    def choose(
        instance: dg.DagsterInstance,
        plan: TournamentPlan,
        stage: Stage,
        mode: Mode,
    ) -> WorkOfStage:
        assert mode == "pilot"
        return dict.fromkeys(by_title.get(stage.title.replace(" ", "_"), []), assets)

    return choose


def begin(d: Driver, choice: Choice) -> list[dg.RunRequest]:
    identity = RerunIdentity(RERUN, "pilot", "out_of_date", "edit", TICK)
    return request_stage_after(0, identity, d.plan, instance=d.instance, choice=choice)


def tick(d: Driver, choice: Choice | None) -> list[dg.RunRequest]:
    choices: dict[Scope, Choice] = {"all": CHOICES["all"]}
    if choice is not None:
        choices["out_of_date"] = choice
    return list(continue_reruns(d.plan, d.instance, choices=choices).requests)


def test_stages_with_nothing_to_run_are_skipped(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid, driver(paid) as d:
        choice = choice_of(prompt_bank_and_selection=["pilot"], responses=["careful|pilot"])
        (first,) = begin(d, choice)
        assert first.run_key == f"{RERUN}/prompts/pilot"
        assert d.run(first)
        (second,) = tick(d, choice)
        assert second.run_key == f"{RERUN}/responses/careful|pilot"


def test_nothing_begins_where_nothing_is_out_of_date(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid, driver(paid) as d:
        assert begin(d, choice_of()) == []


def test_a_rerun_ends_where_nothing_more_is_out_of_date_and_takes_in_no_later_edit(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path) as paid, driver(paid) as d:
        (first,) = begin(d, choice_of(prompt_bank_and_selection=["pilot"]))
        d.run(first)
        assert [rerun.state for rerun in d.reruns()] == [RerunState.BETWEEN_STAGES]
        assert tick(d, choice_of()) == []
        assert [rerun.state for rerun in d.reruns()] == [RerunState.SUCCEEDED]
        assert tick(d, choice_of(responses=["careful|pilot"])) == []


def test_a_rerun_of_a_scope_that_nobody_knows_stays_where_it_is(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid, driver(paid) as d:
        (first,) = begin(d, choice_of(prompt_bank_and_selection=["pilot"]))
        d.run(first)
        assert tick(d, None) == []
        assert [rerun.state for rerun in d.reruns()] == [RerunState.BETWEEN_STAGES]


def test_a_partition_that_is_requested_again_runs_what_the_rerun_chose_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled_reruns, "BEGINNING_TAKES", timedelta(0))
    with (
        paid_project(tmp_path, dimensions=("factuality", "calibration")) as paid,
        driver(paid) as d,
    ):
        (first,) = begin(d, choice_of(prompt_bank_and_selection=["pilot"]))
        d.note_success(first)
        ratings = dg.AssetKey(["small", "elo_ratings"])
        keys = [
            dg.MultiPartitionKey({"mode": "pilot", "dimension": dimension})
            for dimension in ("factuality", "calibration")
        ]
        requests = tick(d, choice_of(assets=(ratings,), judging_and_ratings=[*keys]))
        assert len(requests) == 2
        d.note_success(requests[0])
        (again,) = tick(d, choice_of())
        assert again == requests[1]
        assert again.asset_selection == [ratings]


def test_the_first_stage_of_a_rerun_knows_when_it_began(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid, driver(paid) as d:
        key = dg.MultiPartitionKey({"mode": "pilot", "dimension": "factuality"})
        (request,) = begin(d, choice_of(judging_and_ratings=[key]))
        config = request.run_config["ops"]["small__judge_replies"]["config"]
        assert config == {"run_began_at": "2026-11-23T05:00:00+00:00"}
