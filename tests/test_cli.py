import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.projects import FinishedPilot, SmallProject, bank_rows, make_project, write_json_lines
from tournament_assets.cli import main
from tournament_assets.cli.running import ui_command


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
    for words in ("factuality", "mean", "± SEM", "sampling", "order", "decisive", "careful"):
        assert words in output
    report = next(line for line in output.splitlines() if line.startswith("Report: "))
    assert Path(report.removeprefix("Report: ")).is_file()
    assert "dagster dev -m tournament_assets.definitions" in output


def test_bad_input_ends_with_exit_code_2_and_every_problem(project: SmallProject) -> None:
    project.edit_config(judge={"service": "anthropic"}, ratings={"k_facter": 3})
    code, output = run("run", "--config", str(project.config_path), "--mode", "pilot")
    assert code == 2
    assert "1 problem in the input; nothing was spent" in output
    assert "did you mean 'k_factor'" in output


def test_a_tournament_without_weights_says_what_to_get_and_which_variables_to_set() -> None:
    config = Path(__file__).parents[1] / "configs" / "tournament1.yaml"
    code, output = run("run", "--config", str(config), "--mode", "headline")
    assert code == 2
    assert "OLMO2_7B_INSTRUCT is not set" in output
    assert "allenai/OLMo-2-1124-7B-Instruct" in output
    for variable in ("HYDRA_SECURITY", "HYDRA_ROBUSTNESS"):
        assert output.count(f"{variable} is not set") == 1
    assert "get shard_0_lora.pt to shard_8_lora.pt from" in output
    assert "ANTHROPIC_API_KEY is not set" in output


def test_failed_work_ends_with_exit_code_1(project: SmallProject) -> None:
    code, output = run(
        "run", "--config", str(project.config_path), "--mode", "pilot", "--skip-judging"
    )
    assert code == 1
    assert "the work failed" in output
    assert "run without skip_judging" in output


def test_an_unknown_mode_ends_with_exit_code_2(project: SmallProject) -> None:
    code, output = run("run", "--config", str(project.config_path), "--mode", "final")
    assert code == 2
    assert "pilot" in output


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["audit"],
        ["bank"],
        ["bank", "validate"],
        ["bank", "build"],
        ["bank", "import"],
        ["judge-server"],
        [],
    ],
    ids=" ".join,
)
def test_every_command_explains_itself(command: list[str]) -> None:
    code, output = run(*command, "--help")
    assert code == 0
    assert len(output.splitlines()) > 6


def test_validating_a_bank_counts_what_is_in_it(tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    write_json_lines(bank, bank_rows())
    code, output = run("bank", "validate", str(bank))
    assert code == 0
    assert "12 prompts, all valid" in output
    assert "by source: curated 4, recall 8" in output


def test_validating_a_broken_bank_names_the_line(tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    write_json_lines(bank, [*bank_rows(), {"text": "no id", "source": "recall"}])
    code, output = run("bank", "validate", str(bank))
    assert code == 2
    assert "bank.jsonl:13: the row has no 'prompt_id'" in output


def medqa_rows(count: int) -> list[dict[str, object]]:
    return [
        {
            "question": f"A {20 + number}-year-old patient has sign number {number} on the left "
            "arm after a long walk. What is the most likely diagnosis?",
            "answer": f"Condition {number}",
            "options": {"A": f"Condition {number}", "B": "Another one", "C": "A third", "D": "X y"},
            "answer_idx": "A",
            "meta_info": "step1",
        }
        for number in range(count)
    ]


def test_a_bank_is_imported_from_a_file_of_another_tool(tmp_path: Path) -> None:
    source, out = tmp_path / "x.csv", tmp_path / "bank.jsonl"
    source.write_text("question,answer\nWhy?,So.\nHow?,\n")
    mapped = ("--map", "text=question", "--map", "gold_answer=answer", "--set", "source=wild")
    code, output = run("bank", "import", str(source), *mapped, "--out", str(out))
    assert (code, f"{out}: 2 prompts (columns)" in output) == (0, True)
    assert run("bank", "validate", str(out))[0] == 0
    code, output = run("bank", "import", str(source), "--map", "question", "--out", str(out))
    assert (code, "'question' is given; expected FIELD=VALUE" in output) == (2, True)


def test_building_a_bank_twice_gives_the_same_file_and_never_overwrites_one(
    tmp_path: Path,
) -> None:
    source = tmp_path / "medqa.jsonl"
    write_json_lines(source, medqa_rows(9))
    outputs = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for out in outputs:
        code, output = run(
            "bank", "build", "--medqa", str(source), "--medqa-count", "4", "--out", str(out)
        )
        assert code == 0, output
        assert "medqa: 9 read" in output
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert run("bank", "validate", str(outputs[0]))[0] == 0
    code, output = run(
        "bank", "build", "--medqa", str(source), "--medqa-count", "4", "--out", str(outputs[0])
    )
    assert code == 2
    assert "the file is there already" in output


def test_an_estimate_needs_neither_weights_nor_key_and_names_the_price(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    shutil.copytree(root / "configs", tmp_path / "configs")
    shutil.copytree(root / "rubrics", tmp_path / "rubrics")
    config = tmp_path / "configs" / "tournament1.yaml"
    code, output = run("estimate", "--config", str(config), "--mode", "headline")
    assert code == 0
    assert "Judging by claude-opus-5-5" in output
    # 93 prompts with a gold answer, 143 in all; 6 pairs a prompt; 2 presentations a pair.
    assert re.search(r"factuality +1,116 +0 +1,116", output)
    assert re.search(r"calibration +1,716 +0 +1,716", output)
    assert "without prompt caching" in output
    assert "572 responses do not exist yet" in output
    assert "caching pays from 51 % cache hits" in output


def test_an_estimate_for_a_model_without_a_price_says_so(
    project: SmallProject,
) -> None:
    project.edit_config(judge={"service": "anthropic"})
    code, output = run(
        *("estimate", "--config", str(project.config_path), "--mode", "pilot"),
        *("--judge-model", "claude-unheard-of"),
    )
    assert code == 0
    assert "does not name 'claude-unheard-of'" in output


def test_an_estimate_refuses_the_model_of_another_service_as_a_run_does(
    project: SmallProject,
) -> None:
    asked = ("--config", str(project.config_path), "--mode", "pilot", "--judge-model", "claude-x")
    for command in ("estimate", "run"):
        code, output = run(command, *asked)
        assert code == 2
        assert "the judge model is 'claude-x' and judge.service is 'loopback'" in output


def test_nothing_advises_make_where_there_is_no_makefile(tmp_path: Path) -> None:
    assert ui_command(tmp_path).endswith("dagster dev -m tournament_assets.definitions")
    (tmp_path / "Makefile").write_text("all:\n\nui:\n\tserve\n")
    assert ui_command(tmp_path) == "make ui"


def test_an_estimate_after_a_run_has_nothing_left_to_ask(
    finished_pilot: FinishedPilot, tmp_path: Path
) -> None:
    project = finished_pilot.copy(tmp_path / "project")
    code, output = run("estimate", "--config", str(project.config_path), "--mode", "pilot")
    assert code == 0
    assert re.search(r"factuality +24 +\d+ +0 ", output)
    assert "this judge costs nothing" in output


def test_the_earlier_name_of_a_command_works_with_a_word() -> None:
    result = CliRunner().invoke(main, ["report", "--config", "nowhere.yaml", "--mode", "pilot"])
    assert result.exit_code == 2
    assert "use fair-comparison" in result.stderr
    listed = CliRunner().invoke(main, ["--help"]).stdout
    assert "fair-comparison" in listed
    assert "\n  report " not in listed
