import gc
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from tests.loopback.faults.servers import FaultyServer
from tests.projects import FinishedPilot, SmallProject, make_project
from tournament_assets.cli import main, rare_collections
from tournament_assets.project.plan import load_plan
from tournament_assets.serving.ui_server import browsing_command


def test_cycles_are_collected_as_before_once_a_run_has_ended() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.isenabled()
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_a_command_leaves_no_garbage_to_look_for_at_its_end() -> None:
    program = (
        "import atexit, gc\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
        "from tournament_assets.cli import main\n"
        "main(['configuration'])\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.endswith("\nTrue\n")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallProject:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("OLMO2_7B_INSTRUCT", raising=False)
    made = make_project(tmp_path / "project")
    monkeypatch.setenv("DAGSTER_HOME", made.environment["DAGSTER_HOME"])
    return made


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.output


def test_a_pilot_prints_its_leaderboard_and_where_the_report_is(project: SmallProject) -> None:
    code, output = run("run", "--config", str(project.config_path), "--mode", "pilot")
    assert code == 0
    for words in ("factuality", "rating", "interval", "group", "± SEM (order noise)", "careful"):
        assert words in output
    report = next(line for line in output.splitlines() if line.startswith("Report: "))
    assert Path(report.removeprefix("Report: ")).is_file()
    assert browsing_command(load_plan(project.config_path, {})) in output


def test_what_is_loaded_is_said_before_it_is(project: SmallProject) -> None:
    script = (
        "import sys; from tournament_assets.cli import main\n"
        "sys.modules |= dict.fromkeys(('dagster', 'torch'))\n"
        f"main(['run', '--config', {str(project.config_path)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.startswith("mode: pilot; --mode names another\nloading Dagster")
    assert "halted; None in sys.modules" in done.stderr


@pytest.mark.parametrize("arguments", [["rejudge", "--dry-run"], ["estimate"]], ids=" ".join)
def test_a_config_is_read_once_by_whatever_a_command_does(
    project: SmallProject, arguments: list[str]
) -> None:
    script = (
        "import sys; from tournament_assets.cli import main\n"
        "config, opened = sys.argv[-1], []\n"
        "sys.addaudithook(lambda event, args: opened.append(event)\n"
        "                 if event == 'open' and args[1] and str(args[0]) == config else None)\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print(len(opened), 'dagster' in sys.modules)"
    )
    options = ["--mode", "pilot", "--config", str(project.config_path)]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments, *options], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    n_reads, loads_dagster = done.stdout.splitlines()[-1].split()
    assert n_reads == "1"
    assert loads_dagster == str("rejudge" in arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "demo.yaml and tournament1.yaml"),
        (["run", "--mode"], "'--mode' requires an argument"),
        (["run", "--nonsense"], "'--nonsense'"),
        (["run", "--n-perms", "0"], "'--n-perms'"),
        (["run", "--config", "absent.yaml"], "absent.yaml: the config cannot be read"),
        (["run", "--config", "configs/demo.yaml", "--mode", "final"], "'final'; expected one of"),
        (["rejudge", "--config", "configs/demo.yaml"], "'--mode'"),
        (["estimate"], "tournament1.yaml"),
        (["doctor", "--cofnig", "x"], "'--cofnig'"),
        (["audit", "--limit", "many"], "'many'"),
        (["fair-comparison"], "tournament1.yaml"),
        (["gate"], "'RUN'"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_refused_before_dagster_is_loaded(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    root = Path(__file__).parents[2]
    shutil.copytree(root / "configs", tmp_path / "configs")
    shutil.copytree(root / "rubrics", tmp_path / "rubrics")
    (tmp_path / "configs" / "examples" / "tournament1.yaml").rename(
        tmp_path / "configs" / "tournament1.yaml"
    )
    script = (
        "import sys; from tournament_assets.cli import main\n"
        "heavy = {'dagster', 'torch', 'sqlalchemy'}\n"
        "if sys.argv[1] in ('run', 'estimate', 'doctor') and 'demo' not in str(sys.argv):\n"
        "    heavy |= {'numpy', 'pandas', 'pyarrow'}\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    assert not heavy & {*sys.modules}, heavy & {*sys.modules}"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TOURNAMENT_PROJECT": "", "PYTHONPATH": str(root)},
    )
    assert done.returncode == 2, done.stderr
    assert words in done.stderr


def test_the_only_config_of_a_project_and_its_pilot_need_not_be_named(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    result = CliRunner().invoke(main, ["estimate", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["mode"] == "pilot"
    assert "config: configs/small.yaml" in result.stderr
    assert "mode: pilot" in result.stderr
    named = CliRunner().invoke(main, ["estimate", "--mode", "headline", "--json"])
    assert "mode:" not in named.stderr
    monkeypatch.chdir(project.folder / "rubrics")
    code, output = run("estimate")
    assert code == 2
    assert "holds no .yaml file" in output
    monkeypatch.setenv("TOURNAMENT_PROJECT", str(project.folder))
    assert run("estimate")[0] == 0


def test_help_names_every_command_and_loads_none() -> None:
    script = (
        "import sys; from tournament_assets.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "main(['run', '--help'], standalone_mode=False)\n"
        "assert not {'dagster', 'pandas', 'numpy', 'torch', 'pydantic'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "fair-comparison" in done.stdout


def test_bad_input_ends_with_exit_code_2_and_every_problem(project: SmallProject) -> None:
    project.edit_config(ratings={"k_facter": 3})
    code, output = run("run", "--config", str(project.config_path), "--mode", "pilot")
    assert code == 2
    assert "1 problem " in output
    assert "'k_factor'" in output


def test_a_tournament_without_weights_says_what_to_get_and_which_variables_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = ["ANTHROPIC_API_KEY", "HYDRA_ROBUSTNESS", "HYDRA_SECURITY", "OLMO2_7B_INSTRUCT"]
    for variable in needed:
        monkeypatch.delenv(variable, raising=False)
    config = Path(__file__).parents[2] / "configs" / "examples" / "tournament1.yaml"
    code, output = run("run", "--config", str(config), "--mode", "headline")
    assert code == 2
    unset = re.findall(r"([A-Z0-9_]+) is not set", output)
    assert sorted(set(unset)) == needed
    assert [unset.count(variable) for variable in needed[1:3]] == [1, 1]
    assert "allenai/OLMo-2-1124-7B-Instruct" in output
    assert "shard_8_lora.pt" in output


def test_the_list_of_a_groups_commands_cuts_no_sentence_off() -> None:
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    groups = [name for name, command in commands.items() if isinstance(command, click.Group)]
    assert "battles" in groups
    for group in groups:
        code, output = run(group, "--help")
        assert (code, "..." in output.split("Commands:")[1]) == (0, False)


def test_failed_work_ends_with_exit_code_1(project: SmallProject) -> None:
    code, output = run(
        "run", "--config", str(project.config_path), "--mode", "pilot", "--skip-judging"
    )
    assert code == 1
    assert "skip_judging" in output


def test_an_unknown_mode_ends_with_exit_code_2(project: SmallProject) -> None:
    code, output = run("run", "--config", str(project.config_path), "--mode", "final")
    assert code == 2
    assert "pilot" in output


@pytest.mark.parametrize(
    "command",
    [
        ["audit"],
        ["judge", "serve"],
        [],
    ],
    ids=" ".join,
)
def test_every_command_explains_itself(command: list[str]) -> None:
    code, output = run(*command, "--help")
    assert code == 0
    assert len(output.splitlines()) > 6


def test_an_estimate_needs_neither_weights_nor_key_and_names_the_price(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    shutil.copytree(root / "configs", tmp_path / "configs")
    shutil.copytree(root / "rubrics", tmp_path / "rubrics")
    config = tmp_path / "configs" / "examples" / "tournament1.yaml"
    code, output = run("estimate", "--config", str(config), "--mode", "headline")
    assert code == 0
    assert "claude-opus-5-5" in output
    # 93 prompts with a gold answer, 143 in all; 6 pairs a prompt; 2 presentations a pair.
    assert re.search(r"factuality +1,116 +0 +1,116", output)
    assert re.search(r"calibration +1,716 +0 +1,716", output)
    assert "572 responses" in output
    assert "51 % cache" in output


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("claude-unheard-of", "'claude-unheard-of'; the requests"),
        ("claude-opsu-4-5", "'claude-opsu-4-5'; did you mean 'claude-opus-4-5'?"),
    ],
)
def test_an_estimate_for_a_model_without_a_price_says_so_and_names_a_close_one(
    project: SmallProject, model: str, words: str
) -> None:
    project.seat({"service": "anthropic", "model": "claude-1"})
    code, output = run(
        *("estimate", "--config", str(project.config_path), "--mode", "pilot"),
        *("--judge-model", model),
    )
    assert code == 0
    assert words in " ".join(output.split())


def test_an_estimate_refuses_the_model_of_another_service_as_a_run_does(
    project: SmallProject,
) -> None:
    asked = ("--config", str(project.config_path), "--mode", "pilot", "--judge-model", "claude-x")
    for command in ("estimate", "run"):
        code, output = run(command, *asked)
        assert code == 2
        assert "'claude-x'" in output
        assert "'loopback'" in output


def test_an_estimate_after_a_run_has_nothing_left_to_ask(
    finished_pilot: FinishedPilot, tmp_path: Path
) -> None:
    project = finished_pilot.copy(tmp_path / "project")
    code, output = run("estimate", "--config", str(project.config_path), "--mode", "pilot")
    assert code == 0
    assert re.search(r"factuality +24 +\d+ +0 ", output)
    assert "costs nothing" in output


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tournament_assets", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("Usage: tournament ")


def doctor(project: SmallProject, *options: str, **environment: str) -> Result:
    return CliRunner().invoke(
        main,
        ["doctor", *options],
        env={"TOURNAMENT_PROJECT": str(project.folder), **project.environment, **environment},
    )


def findings(result: Result) -> dict[str, dict[str, Any]]:
    return {each["subject"]: each for each in json.loads(result.stdout)}


BOTH = "small: pilot and headline"


def have_free(monkeypatch: pytest.MonkeyPatch, gib: int) -> None:
    """Let every disk have so much room."""
    free = SimpleNamespace(total=2**50, used=0, free=gib * 2**30)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: free)


def test_a_project_that_could_run_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    have_free(monkeypatch, 100)
    result = doctor(make_project(tmp_path), "--json")
    assert result.exit_code == 0, result.output
    found = findings(result)
    assert found[BOTH]["health"] == found["small: judge"]["health"] == "ok"
    assert found["storage"]["health"] == found["ledger"]["health"] == "ok"
    assert found["daemon"]["health"] == "look"


def test_what_is_broken_is_named_with_what_to_do(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (project.folder / "rubrics" / "factuality.txt").unlink()
    found = doctor(project, "--json")
    assert findings(found)[BOTH]["health"] == "look"
    assert found.exit_code == 0
    named = doctor(project, "--config", str(project.config_path))
    assert named.exit_code == 1
    assert "factuality.txt" in named.output
    (project.folder / "configs" / "torn.yaml").write_text("judge: [")
    assert doctor(project).exit_code == 1


def test_a_service_is_asked_for_its_model_and_for_nothing_else(tmp_path: Path) -> None:
    project = make_project(tmp_path, service="anthropic")
    missing = doctor(project, "--json", ANTHROPIC_API_KEY="")
    assert "ANTHROPIC_API_KEY" in findings(missing)["small: judge"]["said"]
    key = {"ANTHROPIC_API_KEY": "sk-secret"}
    with FaultyServer() as server:
        found = doctor(project, "--json", **key, ANTHROPIC_BASE_URL=server.url)
        assert findings(found)["small: judge"]["health"] == "ok", found.stdout
        assert server.log.batches == server.log.messages == 0
    gone = doctor(project, "--json", **key, ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    assert findings(gone)["small: judge"]["health"] == "broken"
    assert "sk-secret" not in found.output + gone.output


@pytest.mark.parametrize("url", ["sqlite:////proc/nowhere/ledger.sqlite", "nonsense"])
def test_a_ledger_that_does_not_open_is_broken(tmp_path: Path, url: str) -> None:
    found = doctor(make_project(tmp_path), "--json", TOURNAMENT_LEDGER_URL=url)
    assert findings(found)["ledger"]["health"] == "broken"
    assert found.exit_code == 1


def test_a_service_that_does_not_say_what_models_it_has_is_looked_at(tmp_path: Path) -> None:
    project = make_project(tmp_path, service="anthropic")
    with FaultyServer(faults=("model_404:always",)) as server:
        found = doctor(project, "--json", ANTHROPIC_API_KEY="any", ANTHROPIC_BASE_URL=server.url)
    assert findings(found)["small: judge"]["health"] == "look", found.stdout
    assert found.exit_code == 0


@pytest.mark.parametrize(
    ("asked", "health", "said"),
    [
        ("", "look", "on the CPU"),
        ("cpu", "look", "on the CPU"),
        ("cuda", "broken", "without it: on the CPU"),
        ("gpu7", "broken", "TOURNAMENT_DEVICE is 'gpu7'"),
    ],
)
def test_the_device_is_looked_at_where_an_entrant_loads_weights(
    tmp_path: Path, asked: str, health: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    project = make_project(tmp_path)
    needless = findings(doctor(project, "--json", TOURNAMENT_DEVICE=asked))["device"]
    assert needless["health"] == "ok"
    tiny = {
        "entrant_id": "tiny",
        "loader": "vanilla_hf",
        "weights": {"builtin": "tiny_olmo2"},
        "max_new_tokens": 8,
    }
    entrants = yaml.safe_load(project.config_path.read_text())["entrants"]
    project.edit_config(entrants=[*entrants, tiny])
    found = findings(doctor(project, "--json", TOURNAMENT_DEVICE=asked))["device"]
    assert found["health"] == health
    assert said in found["said"]


@pytest.mark.parametrize(
    ("place", "free_gib", "health"),
    [("here", 100, "ok"), ("here", 2, "look"), ("/proc/nowhere", 100, "broken")],
)
def test_a_storage_is_written_to_and_has_to_have_room(
    tmp_path: Path, place: str, free_gib: int, health: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_free(monkeypatch, free_gib)
    project = make_project(tmp_path / "project")
    found = doctor(project, "--json", TOURNAMENT_STORAGE=str(tmp_path / place))
    assert findings(found)["storage"]["health"] == health
    assert found.exit_code == (health == "broken")


def test_what_the_config_wants_to_go_on_by_itself_and_is_off_is_named(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    assert "tournaments" not in findings(doctor(project, "--json"))
    project.merge_config(modes={"pilot": {"rerun_after_edits": True}})
    found = findings(doctor(project, "--json"))["tournaments"]
    assert (found["health"], bool(found["advice"])) == ("look", True)
