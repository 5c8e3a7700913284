from pathlib import Path

import pytest

from tests.projects import make_project
from tournament_assets.cli.configuration import render_page
from tournament_assets.extras.stopping.mode_keys import adaptive_of
from tournament_assets.foundation.errors import InputError
from tournament_assets.graph.table import rows_of
from tournament_assets.project.config_files import load_config
from tournament_assets.project.plan import load_plan
from tournament_assets.verdicts.rounds import follow_rounds, goal_of_rounds


def test_pairs_stop_early_only_in_the_mode_that_says_so(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    assert "judging_decisions" not in rows_of(load_plan(project.config_path, {}))
    nightly = {"strata": {"recall": 1}, "adaptive": {"rounds": 1}}
    modes = {"headline": {"adaptive": {"goal": "population"}}, "nightly": nightly}
    project.merge_config(modes=modes)
    plan = load_plan(project.config_path, {})
    assert "judging_decisions" in rows_of(plan)
    by_mode = plan.config.modes.items()
    assert {name for name, mode in by_mode if adaptive_of(mode)} == {"headline", "nightly"}
    # A single round judges everything.
    assert {name: goal for name, mode in by_mode if (goal := goal_of_rounds(mode))} == {
        "headline": "population"
    }
    assert [name for name, mode in by_mode if follow_rounds(mode)] == ["headline"]


def test_a_mistake_in_a_key_of_a_mode_is_named_with_its_place(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.merge_config(modes={"headline": {"adaptive": {"gaol": "bank"}}})
    with pytest.raises(InputError, match=r"modes.headline.adaptive.gaol.*did you mean 'goal'"):
        load_config(project.config_path)


def test_the_page_of_the_configuration_has_the_key_of_a_mode_behind_the_others() -> None:
    section = render_page().partition("### ModeConfig")[2].partition("###")[0]
    keys = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
    assert keys[0] == "judges"
    assert keys[-1] == "adaptive"
    assert "judge in rounds" in section.lower()
