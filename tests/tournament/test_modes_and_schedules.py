import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.projects import SmallProject, make_project
from tournament_assets.definitions import build_plan, load_project
from tournament_assets.project.config_files import load_config
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.prompts import Prompt, share_of_each
from tournament_assets.workflows.plan import TournamentPlan, draw_settings, select_prompts
from tournament_assets.workflows.preflight import refuse_bad_input

NIGHTLY: dict[str, Any] = {"judge_model": "loopback-lexical", "share": 0.5}
BANK = [
    Prompt(f"{source}-{number}", "?", source)
    for source, count in (("recall", 8), ("curated", 3))
    for number in range(count)
]


@pytest.fixture
def project(tmp_path: Path) -> SmallProject:
    return make_project(tmp_path / "project")


def with_modes(project: SmallProject, **modes: Any) -> TournamentPlan:
    project.edit_config(modes=modes)
    return build_plan(load_config(project.config_path), {})


def problems_of(project: SmallProject, **changed: Any) -> list[str]:
    project.edit_config(**changed)
    with pytest.raises(InputError) as caught:
        load_project(project.folder, {}, strict=True)
    return [problem.partition(": ")[2] for problem in caught.value.problems]


def chosen(config: TournamentConfig, mode: str) -> list[str]:
    return [prompt.prompt_id for prompt in select_prompts(config, mode, BANK)]


def test_a_mode_draws_a_share_a_number_or_the_whole_bank(project: SmallProject) -> None:
    one = {"judge_model": "j", "strata": {"curated": 1}}
    whole = {"judge_model": "j"}
    config = with_modes(project, nightly=NIGHTLY, canary=one, weekly=whole).config
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


def test_a_tournament_without_modes_of_its_own_is_what_it_was(project: SmallProject) -> None:
    before = build_plan(load_config(project.config_path), {})
    none = with_modes(project)
    assert none.config.fingerprint == before.config.fingerprint
    assert (
        draw_settings(none)
        == draw_settings(before)
        == {
            "strata": before.config.pilot.strata,
            "pilot_seed": before.config.pilot.pilot_seed,
        }
    )


def test_when_a_mode_runs_is_no_part_of_a_result_and_what_it_draws_is(
    project: SmallProject,
) -> None:
    variants: dict[str, dict[str, Any]] = {
        "plain": {},
        "scheduled": {"schedule": {"cron": "0 3 * * *"}},
        "quarter": {"share": 0.25},
    }
    prints = {
        name: with_modes(project, nightly={**NIGHTLY, **changed}).config.fingerprint
        for name, changed in variants.items()
    }
    assert prints["plain"] == prints["scheduled"] != prints["quarter"]


def test_each_tournament_has_the_partitions_of_its_own_modes(project: SmallProject) -> None:
    other = project.config_path.with_name("other.yaml")
    other.write_text(project.config_path.read_text().replace("id: small", "id: other"))
    schedule = {"cron": "0 3 * * *", "time_zone": "Europe/Berlin"}
    project.edit_config(
        modes={"nightly": {**NIGHTLY, "schedule": schedule}},
        automation={"headline_schedule": {"cron": "0 6 * * 1"}, "rerun_modes": ["nightly"]},
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
        modes={"pilot": NIGHTLY, "Night|ly": NIGHTLY, "both": {**NIGHTLY, "strata": {"recall": 1}}},
        automation={"rerun_modes": ["both", "weekly"]},
    )
    assert [re.split(r":| is ", problem)[0] for problem in problems] == [
        "modes.pilot",
        "modes.Night|ly.[key]",
        "modes.both",
        "automation.rerun_modes.1",
    ]
    assert re.search(r"strata.*share", problems[2])


def test_every_cron_that_dagster_cannot_fire_is_named(project: SmallProject) -> None:
    never = {"cron": "0 0 30 2 *"}
    problems = problems_of(
        project,
        modes={"nightly": {**NIGHTLY, "schedule": never}},
        automation={"headline_schedule": never},
    )
    assert [problem.split(" is ")[0] for problem in problems] == [
        "automation.headline_schedule.cron",
        "modes.nightly.schedule.cron",
    ]


@pytest.mark.parametrize(("mode", "needs_budget"), [("pilot", False), ("nightly", True)])
def test_only_a_pilot_may_be_paid_for_without_a_budget(
    project: SmallProject, mode: str, needs_budget: bool
) -> None:
    project.edit_config(
        judge={"service": "anthropic"},
        pilot={"judge_model": "claude-opus-5-5", "strata": {"recall": 2}},
        headline={"judge_model": "claude-opus-5-5"},
        modes={"nightly": {"judge_model": "claude-opus-5-5", "share": 0.1}},
    )
    plan = build_plan(load_config(project.config_path), {"ANTHROPIC_API_KEY": "sk-x"})
    if not needs_budget:
        refuse_bad_input(plan, mode)
        return
    with pytest.raises(InputError, match=r"nightly.*'anthropic'.*budget_usd"):
        refuse_bad_input(plan, mode)


def test_a_mode_that_brings_its_judge_is_judged_by_it_alone(project: SmallProject) -> None:
    project.edit_config(
        judge={"service": "anthropic", "domain": "legal", "budget_usd": 3.0},
        pilot={"judge_model": "claude-opus-5-5", "strata": {"recall": 2}},
        headline={"judge_model": "claude-opus-5-5"},
        modes={"nightly": {**NIGHTLY, "judge": {"service": "loopback"}}},
    )
    plan = build_plan(load_config(project.config_path), {})
    here = plan.in_mode("nightly").config
    assert (here.judge.service, here.judge.domain, here.judge.budget_usd) == (
        "loopback",
        "legal",
        3,
    )
    assert here.judge_of("nightly").service == "loopback"
    assert plan.in_mode("headline") == plan
    refuse_bad_input(plan, "nightly")
    with pytest.raises(InputError, match="ANTHROPIC_API_KEY"):
        refuse_bad_input(plan, "headline")


def test_a_mode_with_its_own_judge_needs_no_seat_on_the_panel(project: SmallProject) -> None:
    panel = [{"service": "anthropic", "model": name} for name in ("claude-a", "claude-b")]
    project.edit_config(
        judge={"service": "anthropic", "panel": panel},
        pilot={"judge_model": "claude-a", "strata": {"recall": 2}},
        headline={"judge_model": "claude-b"},
        modes={"nightly": {**NIGHTLY, "judge": {"service": "loopback"}}},
    )
    config = load_config(project.config_path).config
    assert len(config.in_mode("headline").judges_of("headline")) == 2
    (alone,) = config.in_mode("nightly").judges_of("nightly")
    assert (alone.service, alone.model) == ("loopback", "loopback-lexical")
    project.edit_config(modes={"nightly": NIGHTLY})
    with pytest.raises(InputError, match=r"modes\.nightly\.judge_model.*'loopback-lexical'"):
        load_config(project.config_path)


def problem_of(project: SmallProject, **schedule: Any) -> str:
    project.edit_config(automation={"headline_schedule": schedule})
    with pytest.raises(InputError) as caught:
        load_project(project.folder, {}, strict=True)
    (problem,) = caught.value.problems
    return problem.removeprefix(f"{project.config_path}:")


def test_nothing_happens_by_itself_unless_the_config_says_so(project: SmallProject) -> None:
    automation = load_config(project.config_path).config.automation
    assert automation.headline_schedule is None
    assert not automation.rerun_after_edits
    assert automation.rerun_modes == ("pilot",)
    assert list(load_project(project.folder, {}).schedules or []) == []


def test_a_schedule_is_stopped_until_somebody_turns_it_on(project: SmallProject) -> None:
    wanted = {"cron": "0 6 * * 1", "time_zone": "Europe/Berlin"}
    project.edit_config(automation={"headline_schedule": wanted})
    schedule = load_project(project.folder, {}).resolve_schedule_def("small_headline_schedule")
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert (schedule.cron_schedule, schedule.execution_timezone) == tuple(wanted.values())
    assert schedule.job_name == "small_0_observe_inputs"
    link = "/runs?q[0]=tag%3Atournament%3Dsmall&q[1]=tag%3Atournament%2Freason%3Dschedule"
    assert link in (schedule.description or "")


def test_what_happens_by_itself_is_no_part_of_a_result(project: SmallProject) -> None:
    before = load_config(project.config_path).config.fingerprint
    project.edit_config(
        automation={"rerun_after_edits": True, "rerun_modes": ["pilot", "headline"]}
    )
    after = load_config(project.config_path).config
    assert after.automation.rerun_modes == ("pilot", "headline")
    assert after.fingerprint == before


def test_a_cron_without_five_fields_is_refused_with_its_line(project: SmallProject) -> None:
    line, _, message = problem_of(project, cron="6 * *").partition(": ")
    text = project.config_path.read_text().splitlines()[int(line) - 1]
    assert text.strip() == "cron: 6 * *"
    key, _, problem = message.partition(": ")
    assert key == "automation.headline_schedule.cron"
    assert problem.startswith("'6 * *' has 3 ")


@pytest.mark.parametrize("cron", ["61 6 * * 1", "0 6 * * 8", "a b c d e", "0 0 30 2 *"])
def test_a_cron_that_dagster_cannot_fire_is_refused(project: SmallProject, cron: str) -> None:
    problem = problem_of(project, cron=cron)
    assert re.search(rf"automation\.headline_schedule\.cron.*{re.escape(repr(cron))}", problem)


@pytest.mark.parametrize("name", ["Europe/Berlim", "Europe", "", "../../etc/passwd", "CET+9"])
def test_a_time_zone_that_nobody_knows_is_refused(project: SmallProject, name: str) -> None:
    problem = problem_of(project, cron="0 6 * * 1", time_zone=name)
    assert f"automation.headline_schedule.time_zone: {name!r}" in problem
    assert problem.endswith("'Europe/Berlin'?") == (name == "Europe/Berlim")


def test_an_unknown_key_is_named_beside_the_known_ones(project: SmallProject) -> None:
    problem = problem_of(project, cron="0 6 * * 1", timezone="UTC")
    assert "'automation.headline_schedule.timezone'" in problem
    assert problem.endswith("'time_zone'?")


def test_the_modes_of_edits_are_known_ones(project: SmallProject) -> None:
    project.edit_config(automation={"rerun_modes": ["pilots"]})
    with pytest.raises(InputError, match=r"automation\.rerun_modes\.0.*'pilots'"):
        load_config(project.config_path)
    project.edit_config(automation={"rerun_modes": []})
    with pytest.raises(InputError, match=r"automation.rerun_modes"):
        load_config(project.config_path)
