import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.projects import SmallProject, make_project
from tournament_assets.definitions import load_project
from tournament_assets.foundation.errors import InputError
from tournament_assets.preparing.preflight import refuse_bad_input
from tournament_assets.project.config_files import load_config
from tournament_assets.project.plan import TournamentPlan, load_plan, select_prompts
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.prompts import Prompt, share_of_each

NIGHTLY: dict[str, Any] = {"judges": ["pilot"], "share": 0.5}
BANK = [
    Prompt(f"{source}-{number}", "?", source)
    for source, count in (("recall", 8), ("curated", 3))
    for number in range(count)
]


@pytest.fixture
def project(tmp_path: Path) -> SmallProject:
    return make_project(tmp_path / "project")


def with_modes(project: SmallProject, **modes: Any) -> TournamentPlan:
    project.merge_config(modes=modes)
    return load_plan(project.config_path, {})


def problems_of(project: SmallProject, **changed: Any) -> list[str]:
    project.edit_config(**changed)
    with pytest.raises(InputError) as caught:
        load_project(project.folder, {}, strict=True)
    return [problem.partition(": ")[2] for problem in caught.value.problems]


def chosen(config: TournamentConfig, mode: str) -> list[str]:
    return [prompt.prompt_id for prompt in select_prompts(config, mode, BANK)]


def test_a_mode_draws_a_share_a_number_or_the_whole_bank(project: SmallProject) -> None:
    one = {"judges": ["pilot"], "strata": {"curated": 1}}
    config = with_modes(project, nightly=NIGHTLY, canary=one, weekly={"judges": ["pilot"]}).config
    assert config.mode_names == ("pilot", "headline", "nightly", "canary", "weekly")
    nightly = chosen(config, "nightly")
    assert [name.split("-")[0] for name in nightly] == ["recall"] * 4 + ["curated"] * 2
    assert nightly == [prompt.prompt_id for prompt in BANK if prompt.prompt_id in nightly]
    assert len(chosen(config, "canary")) == 1
    assert chosen(config, "weekly") == chosen(config, "headline")
    assert len(chosen(config, "headline")) == len(BANK)


def test_a_share_is_rounded_up_and_no_product_of_floats_adds_a_prompt() -> None:
    for count, share, expected in ((10, 0.3, 3), (10, 0.31, 4), (3, 0.01, 1), (7, 1.0, 7)):
        prompts = [Prompt(str(number), "?", "s") for number in range(count)]
        assert share_of_each(prompts, share) == {"s": expected}


def test_a_mode_that_is_not_there_is_named_beside_those_that_are(project: SmallProject) -> None:
    plan = with_modes(project, nightly=NIGHTLY)
    refuse_bad_input(plan, "nightly")
    with pytest.raises(InputError, match=r"'nightl'.*pilot.*headline.*nightly"):
        refuse_bad_input(plan, "nightl")


def test_when_a_mode_runs_is_no_part_of_a_result_and_what_it_draws_is(
    project: SmallProject,
) -> None:
    variants: dict[str, dict[str, Any]] = {
        "plain": {},
        "scheduled": {"schedule": {"cron": "0 3 * * *"}, "rerun_after_edits": True},
        "quarter": {"share": 0.25},
    }
    modes = yaml.safe_load(project.config_path.read_text())["modes"]
    prints = {}
    for name, changed in variants.items():
        project.edit_config(modes={**modes, "nightly": {**NIGHTLY, **changed}})
        prints[name] = load_config(project.config_path).config.fingerprint
    assert prints["plain"] == prints["scheduled"] != prints["quarter"]


def test_each_tournament_has_the_partitions_of_its_own_modes(project: SmallProject) -> None:
    other = project.config_path.with_name("other.yaml")
    other.write_text(project.config_path.read_text().replace("id: small", "id: other"))
    schedule = {"cron": "0 3 * * *", "time_zone": "Europe/Berlin"}
    project.merge_config(
        modes={
            "nightly": {**NIGHTLY, "schedule": schedule},
            "headline": {"schedule": {"cron": "0 6 * * 1"}},
        }
    )
    definitions = load_project(project.folder, {}, strict=True)
    dg.Definitions.validate_loadable(definitions)
    graph = definitions.resolve_asset_graph()

    def partitions(tournament: str, asset: str) -> set[str]:
        node = graph.get(dg.AssetKey([tournament, asset]))
        assert node.partitions_def is not None
        return set(node.partitions_def.get_partition_keys())

    built_in = {"pilot", "headline"}
    assert partitions("other", "leaderboard") == built_in
    assert partitions("small", "leaderboard") == built_in | {"nightly"}
    added = partitions("small", "elo_traces") - partitions("other", "elo_traces")
    assert added == {"factuality|nightly", "calibration|nightly"}
    schedules = {each.name: each for each in definitions.schedules or []}
    assert set(schedules) == {"small_headline_schedule", "small_nightly_schedule"}
    nightly = definitions.resolve_schedule_def("small_nightly_schedule")
    assert (nightly.cron_schedule, nightly.execution_timezone) == tuple(schedule.values())
    assert nightly.default_status is dg.DefaultScheduleStatus.STOPPED


def test_modes_that_cannot_be_are_refused_together(project: SmallProject) -> None:
    problems = problems_of(
        project,
        modes={"pilot": {}, "Night|ly": NIGHTLY, "both": {**NIGHTLY, "strata": {"recall": 1}}},
    )
    assert [re.split(r":| is ", problem)[0] for problem in problems] == [
        "modes.Night|ly.[key]",
        "modes.both",
    ]
    assert re.search(r"strata.*share", problems[1])
    (problem,) = problems_of(project, modes={"pilot": {}, "nightly": NIGHTLY})
    assert problem.startswith("modes: headline is missing")


def test_every_cron_that_dagster_cannot_fire_is_named(project: SmallProject) -> None:
    schedule = {"schedule": {"cron": "0 0 30 2 *"}}
    modes = {"pilot": {}, "headline": schedule, "nightly": schedule}
    problems = problems_of(project, modes={name: {**NIGHTLY, **modes[name]} for name in modes})
    assert [problem.split(" is ")[0] for problem in problems] == [
        "modes.headline.schedule.cron",
        "modes.nightly.schedule.cron",
    ]


@pytest.mark.parametrize(("mode", "needs_budget"), [("pilot", False), ("nightly", True)])
def test_only_a_pilot_may_be_paid_for_without_a_budget(
    project: SmallProject, mode: str, needs_budget: bool
) -> None:
    project.seat({"service": "anthropic", "model": "claude-opus-5-5"})
    project.merge_config(modes={"nightly": {"share": 0.1}}, judging={"budget": {"usd": None}})
    plan = load_plan(project.config_path, {"ANTHROPIC_API_KEY": "sk-x"})
    if not needs_budget:
        refuse_bad_input(plan, mode)
        return
    with pytest.raises(InputError, match=r"nightly.*'anthropic'.*judging\.budget\.usd"):
        refuse_bad_input(plan, mode)


def test_a_mode_is_judged_by_those_alone_that_it_names(project: SmallProject) -> None:
    (free, _) = yaml.safe_load(project.config_path.read_text())["judges"]
    claude = {"service": "anthropic", "model": "claude-opus-5-5", "name": "headline"}
    project.merge_config(judges=[free, claude], modes={"nightly": NIGHTLY})
    plan = load_plan(project.config_path, {})
    (alone,) = plan.config.judges_of("nightly")
    assert (alone.service, alone.model) == ("loopback", "loopback-pilot")
    refuse_bad_input(plan, "nightly")
    with pytest.raises(InputError, match="ANTHROPIC_API_KEY"):
        refuse_bad_input(plan, "headline")


def problem_of(project: SmallProject, **schedule: Any) -> str:
    project.merge_config(modes={"headline": {"schedule": schedule}})
    with pytest.raises(InputError) as caught:
        load_project(project.folder, {}, strict=True)
    (problem,) = caught.value.problems
    return problem.removeprefix(f"{project.config_path}:")


def test_nothing_happens_by_itself_unless_the_config_says_so(project: SmallProject) -> None:
    modes = load_config(project.config_path).config.modes.values()
    assert not [mode for mode in modes if mode.schedule or mode.rerun_after_edits]
    assert list(load_project(project.folder, {}).schedules or []) == []


def test_a_schedule_is_stopped_until_somebody_turns_it_on(project: SmallProject) -> None:
    wanted = {"cron": "0 6 * * 1", "time_zone": "Europe/Berlin"}
    project.merge_config(modes={"headline": {"schedule": wanted}})
    schedule = load_project(project.folder, {}).resolve_schedule_def("small_headline_schedule")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert (schedule.cron_schedule, schedule.execution_timezone) == tuple(wanted.values())
    assert schedule.job_name == "small_run"
    assert "runs of small_run" in (schedule.description or "")


def test_a_cron_without_five_fields_is_refused_with_its_line(project: SmallProject) -> None:
    line, _, message = problem_of(project, cron="6 * *").partition(": ")
    text = project.config_path.read_text().splitlines()[int(line) - 1]
    assert text.strip() == "cron: 6 * *"
    key, _, problem = message.partition(": ")
    assert key == "modes.headline.schedule.cron"
    assert problem.startswith("'6 * *' has 3 ")


@pytest.mark.parametrize("cron", ["61 6 * * 1", "0 6 * * 8", "a b c d e", "0 0 30 2 *"])
def test_a_cron_that_dagster_cannot_fire_is_refused(project: SmallProject, cron: str) -> None:
    problem = problem_of(project, cron=cron)
    assert re.search(rf"modes\.headline\.schedule\.cron.*{re.escape(repr(cron))}", problem)


def test_a_run_refuses_a_schedule_that_cannot_fire_with_its_line(project: SmallProject) -> None:
    project.merge_config(modes={"headline": {"schedule": {"cron": "61 6 * * 1"}}})
    with pytest.raises(InputError, match=r"modes\.headline\.schedule\.cron is '61") as caught:
        project.run_recorded("pilot")
    line, _, _ = str(caught.value).removeprefix(f"{project.config_path}:").partition(":")
    assert "cron: 61 6" in project.config_path.read_text().splitlines()[int(line) - 1]


@pytest.mark.parametrize("name", ["Europe/Berlim", "Europe", "", "../../etc/passwd", "CET+9"])
def test_a_time_zone_that_nobody_knows_is_refused(project: SmallProject, name: str) -> None:
    problem = problem_of(project, cron="0 6 * * 1", time_zone=name)
    assert f"modes.headline.schedule.time_zone: {name!r}" in problem
    assert problem.endswith("'Europe/Berlin'?") == (name == "Europe/Berlim")


def test_an_unknown_key_is_named_beside_the_known_ones(project: SmallProject) -> None:
    problem = problem_of(project, cron="0 6 * * 1", timezone="UTC")
    assert "'modes.headline.schedule.timezone'" in problem
    assert problem.endswith("'time_zone'?")
