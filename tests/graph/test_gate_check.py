import re
from pathlib import Path

import dagster as dg
import pytest

from tests.projects import make_project
from tests.run_comparison.test_gate import BETTER, EVEN, SETTINGS, WORSE, run
from tournament_assets.foundation.errors import InputError
from tournament_assets.graph.adapter import check_result
from tournament_assets.graph.assets.publishing import gate_check
from tournament_assets.project.config_files import load_config
from tournament_assets.run_comparison.gate import GateSettings, hold_gate
from tournament_assets.run_comparison.run_reading import FinishedRun, read_finished_runs


@pytest.mark.parametrize(
    ("outcomes", "passed", "severity", "exit_code"),
    [
        (BETTER, True, dg.AssetCheckSeverity.WARN, 0),
        (WORSE, False, dg.AssetCheckSeverity.ERROR, 1),
        (EVEN, False, dg.AssetCheckSeverity.WARN, 3),
    ],
)
def test_worse_is_an_error_and_undecided_a_warning(
    outcomes: str, passed: bool, severity: dg.AssetCheckSeverity, exit_code: int
) -> None:
    result = check_result(gate_check(hold_gate(run(outcomes), SETTINGS), where="pilot"))
    assert (result.passed, result.severity) == (passed, severity)
    assert result.metadata["exit_code"].value == exit_code


def test_a_run_is_held_against_the_gate_of_its_config(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    before = load_config(project.config_path).config
    project.edit_config(gate={"candidate": "careful", "baseline": "sloppy", "margin": 30})
    assert load_config(project.config_path).config.fingerprint == before.fingerprint
    summary = project.run()
    (warning,) = [each for each in summary.warnings if "careful" in each and "sloppy" in each]
    assert "Undecided" in warning
    assert " 30 Elo " in warning
    assert len((tmp_path / "runs" / "gate_history.jsonl").read_text().splitlines()) == 2


def test_a_gate_for_nobody_is_refused_with_its_lines(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    gate = {"candidate": "carefull", "baseline": "sloppy", "dimensions": ["factuality", "facts"]}
    project.edit_config(gate=gate)
    with pytest.raises(InputError) as error:
        load_config(project.config_path)
    candidate, dimensions = error.value.problems
    assert re.search(r"\.yaml:\d+: gate\.candidate .*'carefull'.*careful, sloppy", candidate)
    assert re.search(r"\.yaml:\d+: gate\.dimensions\.1: 'facts'.*factuality, cal", dimensions)


def test_nobody_is_held_against_itself(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.edit_config(gate={"candidate": "mixed", "baseline": "mixed"})
    with pytest.raises(InputError, match=r"\.yaml:\d+: gate\.baseline: 'mixed'"):
        load_config(project.config_path)


def test_a_run_says_what_length_gains_whom_where_a_light_on_length_is_red(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    modes = {"pilot": {"judges": ["pilot"], "prewarm": False}, "headline": {"judges": ["headline"]}}
    project.edit_config(checks={"max_longer_wins": 0.0}, modes=modes)
    (finished,) = read_finished_runs([project.run().directory])
    assert {each["longer_wins"] for each in dimension_lights(finished)} == {"red"}
    # Careful's sentences are the longest, sloppy's the shortest, and mixed has both.
    for gains in finished.manifest["length_gains"].values():
        assert {name: {*shorter} for name, shorter in gains.items()} == {
            "careful": {"sloppy", "mixed"},
            "mixed": {"sloppy"},
        }
    for held in hold_gate(finished, GateSettings("careful", "sloppy")).dimensions:
        assert "the trust panel is red: longer_wins" in held.doubts
    project.edit_config(checks={"max_longer_wins": None, "max_length_effect": None})
    (unlit,) = read_finished_runs([project.run().directory])
    assert "length_gains" not in unlit.manifest


def dimension_lights(finished: FinishedRun) -> list[dict[str, str]]:
    return [finished.manifest["trust"][name] for name in ("factuality", "calibration")]
