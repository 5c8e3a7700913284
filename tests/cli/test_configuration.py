import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
import yaml
from click.testing import CliRunner

import tournament_assets as ta
from tests.chat_server import MODEL, chat_server
from tournament_assets.cli import main
from tournament_assets.cli.configuration import render_page
from tournament_assets.foundation.errors import InputError
from tournament_assets.graph.run_options import RunOptions
from tournament_assets.launching import run_tournament
from tournament_assets.ledger import Ledger
from tournament_assets.preparing.estimates import estimate_tournament
from tournament_assets.preparing.existing_work import existing_requests
from tournament_assets.preparing.preflight import refuse_bad_input
from tournament_assets.project.config_files import load_config
from tournament_assets.project.config_schema import SCHEMA_FILE
from tournament_assets.project.new_projects import as_identifier, write_new_project
from tournament_assets.project.plan import TournamentPlan, load_plan
from tournament_assets.tournament.judges import JudgingConfig

DEMO = Path(__file__).parents[2] / "configs" / "demo.yaml"


def test_every_key_of_the_demo_is_on_the_page() -> None:
    page = render_page()

    def check(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key not in ("strata", "dimensions", "families", "names"):
                    check(inner)
                assert f"`{key}`" in page, key
        for inner in value if isinstance(value, list) else ():
            check(inner)

    check(yaml.safe_load(DEMO.read_text()))


def test_a_key_without_a_meaning_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JudgingConfig, "__doc__", "How the judge is asked.")
    with pytest.raises(ValueError, match="domain, instructions"):
        render_page()


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.output


OWN_INSTRUCTIONS = """\
You compare two reviews of one change to code, as the maintainer who has to merge it.

Ask of each review what you would do after reading it, and prefer the one that leads to the better
code. The order in which they are shown is no merit, and neither is length.
"""

_KEYS = ("loader", "base_url", "model")


def plan_of(config: Path) -> TournamentPlan:
    return load_plan(config, {})


def systems_of(plan: TournamentPlan, folder: Path) -> dict[str, str]:
    """Return what the judge is told first, by dimension."""
    with closing(Ledger(f"sqlite:///{folder / 'other.sqlite'}")) as ledger:
        requests = existing_requests(plan, "headline", plan.config.lead("headline"), ledger=ledger)
        return {name: str(each[0].params["system"]) for name, each in requests.items()}


def test_an_empty_folder_becomes_a_tournament_that_runs_with_its_own_instructions(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "merge-review"
    said = CliRunner().invoke(main, ["init", str(folder)], catch_exceptions=False).output
    config = folder / "configs" / "merge_review.yaml"
    assert said.endswith(f"next: tournament run --config {config} --mode headline\n")
    (folder / "judge_instructions.txt").write_text(OWN_INSTRUCTIONS)
    text = config.read_text()
    text = text.replace("  # instructions: judge", "  instructions: judge")
    config.write_text(text.replace("  domain: code review\n", ""))
    summary = run_tournament(
        load_plan(config, {"DAGSTER_HOME": str(folder / ".dagster_home")}),
        RunOptions("pilot"),
        on_start=lambda stage, label: None,
        on_done=lambda stage, label: None,
    )
    assert summary.requests_submitted == 28
    assert set(summary.leaderboard["dimension"]) == {"correctness", "usefulness"}
    (run,) = (folder / "runs").iterdir()
    told = json.loads((run / "manifest.json").read_text())["rubrics"]["usefulness"]
    rubric = (folder / "rubrics" / "usefulness.txt").read_text()
    assert f"{told}\n" == f"{OWN_INSTRUCTIONS}\n{rubric}"


def test_what_is_written_can_be_run_at_once_and_names_its_domain(tmp_path: Path) -> None:
    config = write_new_project(tmp_path).config
    plan = plan_of(config)
    refuse_bad_input(plan, "pilot")
    refuse_bad_input(plan, "headline")
    systems = systems_of(plan, tmp_path)
    assert list(systems) == ["correctness", "usefulness"]
    for text in systems.values():
        assert "code review" in text


def test_no_key_and_no_rubric_of_a_new_project_is_medical(tmp_path: Path) -> None:
    written = write_new_project(tmp_path).files
    for path in (each for each in written if each.name != SCHEMA_FILE):
        found = path.read_text().casefold()
        assert not [word for word in ("medic", "clinic", "patient", "doctor") if word in found], (
            path
        )


def test_the_commented_lines_of_a_new_config_are_keys_that_exist(tmp_path: Path) -> None:
    config = write_new_project(tmp_path).config
    text = config.read_text().replace("  # instructions: judge", "  instructions: judge")
    text = text.replace("  domain: code review\n", "").replace("  # What judging may", "# What may")
    for line in (
        "- service: anthropic",
        "  model: claude",
        "budget: ",
        "- entrant_id: mine",
        *(f"  {key}: " for key in _KEYS),
    ):
        assert f"  # {line}" in text, line
        text = text.replace(f"  # {line}", f"  {line}")
    config.write_text(text)
    values = load_config(config).config
    assert [each.service for each in values.judges] == ["loopback", "anthropic"]
    assert values.judging.budget.usd == 20
    assert values.judging.instructions == "judge_instructions.txt"
    assert values.entrant_ids == ("plain", "with_checklist", "mine")


def test_the_sample_teaches_one_dimension_that_is_told_apart_and_one_that_is_not(
    tmp_path: Path,
) -> None:
    config = write_new_project(tmp_path / "mine").config
    run = ta.load(config, environment={}).run("headline", record=False)
    page = (run.directory / "report.md").read_text()
    assert (
        "with_checklist is best on correctness; plain or with_checklist may be best on usefulness."
        in page
    )
    rated = run.frame.set_index(["dimension", "entrant_id"])["low"]
    assert rated["correctness", "with_checklist"] > 1400 > rated["usefulness", "with_checklist"]


CSV = """\
id;Question;Model A;Model B;gold
1;What is 2 + 2?;The answer is 4.;I do not know.;4
2;"Name a prime,
and say why.";Seven, since nothing divides it.;;Seven
3;Who wrote Emma?;Jane Austen wrote it.;Charles Dickens.;Jane Austen
"""


def test_two_commands_lead_from_a_spreadsheet_to_a_report(tmp_path: Path) -> None:
    (tmp_path / "answers.csv").write_text(CSV, encoding="utf-8-sig")
    folder = tmp_path / "mine"
    code, said = run("init", str(folder), "--from", str(tmp_path / "answers.csv"))
    config = folder / "configs" / "mine.yaml"
    assert code == 0, said
    for words in (
        "a column for each entrant",
        "prompts: 3, 3 with a gold answer",
        "entrants: 2 ('Model A' as Model_A, 'Model B' as Model_B), 2 pairs",
        "missing: 1 of 6 answers (Model_B 1); 2 of 3 prompts are answered by all",
        f"next: tournament run --config {config} --mode headline",
    ):
        assert words in said
    refuse_bad_input(plan_of(config), "headline")
    values = load_config(config).config
    assert values.dimensions["helpfulness"].shows_gold_answer
    assert values.entrants[0].description == "Model A"
    done = ta.load(config, environment={}).run("headline", record=False)
    assert set(done.frame["entrant_id"]) == {"Model_A", "Model_B"}
    assert (done.directory / "report.html").exists()


def test_judge_and_budget_are_filled_in(tmp_path: Path) -> None:
    (tmp_path / "answers.csv").write_text(CSV)
    options = ["--from", str(tmp_path / "answers.csv"), "--judge", "claude-haiku-4-5"]
    code, said = run("init", str(tmp_path / "a"), *options, "--budget", "5")
    assert code == 0, said
    assert said.endswith("--mode headline\n")
    values = load_config(tmp_path / "a" / "configs" / "a.yaml").config
    assert (values.judges[0].service, values.judges[0].model) == ("anthropic", "claude-haiku-4-5")
    assert values.judging.budget.usd == 5
    code, said = run("init", str(tmp_path / "b"), *options)
    assert said.endswith("--mode pilot\n")


GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"


@pytest.mark.parametrize(
    ("judge", "service", "model", "base_url", "key_variable"),
    [
        ("gpt-5-mini", "openai_batch", "gpt-5-mini", None, "OPENAI_API_KEY"),
        ("openai_api:gpt-6-sol", "openai_api", "gpt-6-sol", None, "OPENAI_API_KEY"),
        ("gemini-4-neon", "openai_api", "gemini-4-neon", GEMINI, "GEMINI_API_KEY"),
        ("ollama:qwen3:4b", "openai_api", "qwen3:4b", "http://127.0.0.1:11434/v1", ""),
        ("http://gpu/v1#org/m:x", "openai_api", "org/m:x", "http://gpu/v1", ""),
    ],
)
def test_the_name_of_a_judge_tells_its_service_its_address_and_its_key(
    tmp_path: Path, judge: str, service: str, model: str, base_url: str | None, key_variable: str
) -> None:
    code, said = run("init", str(tmp_path / "a"), "--judge", judge, "--budget", "5")
    assert (code, said.endswith("--mode headline\n")) == (0, True), said
    plan = plan_of(tmp_path / "a" / "configs" / "a.yaml")
    (written,) = plan.config.judges
    assert (written.service, written.model, written.base_url) == (service, model, base_url)
    assert written.key_variable == key_variable
    estimate = estimate_tournament(plan, "headline")
    assert estimate.costs_nothing or estimate.planned_usd


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        ("gpt-5-mimi", "add --price INPUT OUTPUT in US dollars"),
        ("gpt-5-mimi", "did you mean 'gpt-5-mini'?"),
        ("claude-1", "add --price"),
        ("https://api.example.com/v1#m", "add --price"),
        ("oracle-1", "the judge is 'oracle-1'; expected a model whose name tells its service"),
        ("ollama:", "the judge is 'ollama:'; expected"),
        ("anthropic:loopback-1", "expected a served model"),
        ("http://ada:hunter2@gpu/v1#m", "the URL holds a user name"),
    ],
)
def test_a_judge_that_cannot_be_asked_or_priced_is_refused_before_anything_is_written(
    tmp_path: Path, judge: str, words: str
) -> None:
    code, said = run("init", str(tmp_path / "a"), "--judge", judge, "--budget", "5")
    assert (code, (tmp_path / "a").exists()) == (2, False)
    assert words in said
    assert "hunter2" not in said


def test_a_price_given_with_the_judge_is_written(tmp_path: Path) -> None:
    options = ("--judge", "gpt-5-mimi", "--budget", "5", "--price", "2", "8.5")
    assert run("init", str(tmp_path / "a"), *options)[0] == 0
    price = load_config(tmp_path / "a" / "configs" / "a.yaml").config.judging.prices["gpt-5-mimi"]
    assert (price.input, price.output) == (2.0, 8.5)


def test_a_project_whose_judge_is_a_url_runs(tmp_path: Path) -> None:
    with chat_server() as server:
        server.reply = lambda _body: "Alike.\nVERDICT: A"
        code, said = run("init", str(tmp_path / "a"), "--judge", f"{server.url}#{MODEL}")
        assert code == 0, said
        config = tmp_path / "a" / "configs" / "a.yaml"
        ta.load(config, environment={}).run("headline", record=False)
    assert {each.body["model"] for each in server.asked} == {MODEL}
    assert n_replies(tmp_path / "a") == len(server.asked)


def n_replies(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "ledger" / "ledger.sqlite")) as ledger:
        return int(ledger.execute("SELECT count(*) FROM judge_replies").fetchone()[0])


def test_answers_of_a_frame_are_compared_in_one_call_and_paid_for_once(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"prompt": ["What is 2 + 2?", "Who wrote Emma?"], "a": ["4", "Austen"], "b": ["5", None]}
    )
    folder = tmp_path / "answers"

    def compare(rubric: str | None) -> ta.Run:
        return ta.compare_answers(
            frame, judge="loopback-lexical", rubric=rubric, folder=folder, environment={}
        )

    first = compare(None)
    assert set(first.frame["dimension"]) == {"helpfulness"}
    assert first.battles["question_id"].tolist() == ["prompt-1"]
    assert compare("The shorter answer is better.").frame["dimension"].unique() == ["quality"]
    before = n_replies(folder)
    compare(None)
    assert n_replies(folder) == before == 4
    (folder / "configs" / "answers.yaml").write_text("# mine")
    with pytest.raises(InputError, match="the file is there already"):
        compare(None)


def test_nothing_is_overwritten_and_nothing_written_beside_it(tmp_path: Path) -> None:
    (tmp_path / "rubrics").mkdir()
    (tmp_path / "rubrics" / "usefulness.txt").write_text("mine")
    (tmp_path / "prompts.jsonl").write_text("mine")
    (tmp_path / ".gitignore").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError) as caught:
        write_new_project(tmp_path)
    assert [problem.split(": ")[0] for problem in caught.value.problems] == [
        str(tmp_path / "prompts.jsonl"),
        str(tmp_path / "rubrics" / "usefulness.txt"),
    ]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_gitignore_of_ones_own_stays(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine")
    assert tmp_path / ".gitignore" not in write_new_project(tmp_path).files
    assert (tmp_path / ".gitignore").read_text() == "mine"


def test_a_tournament_is_called_after_its_folder_as_far_as_can_be() -> None:
    assert as_identifier("Code Review (2)") == "code_review_2"
    assert as_identifier("2026") == "tournament_2026"
    assert as_identifier("\N{GREEK SMALL LETTER ALPHA}") == "tournament"


def test_threads_of_a_command_and_of_what_it_starts_do_not_spin_unless_somebody_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for said, found in ((None, "passive"), ("active", "active")):
        monkeypatch.setenv("OMP_WAIT_POLICY", said or "")
        if said is None:
            monkeypatch.delenv("OMP_WAIT_POLICY")
        assert CliRunner().invoke(main, ["configuration"]).exit_code == 0
        assert os.environ["OMP_WAIT_POLICY"] == found
