"""Edits of the demo, and exactly what each of them runs and asks."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.demo import ROOT, DemoRun, count_responses
from tests.edit_driver import EditDriver, edit, edit_driver
from tests.projects import write_json_lines
from tests.rows import table_rows
from tournament_assets.foundation.errors import WorkError
from tournament_assets.graph.assets import observed_inputs as inputs
from tournament_assets.judging.requests import verdict_parsing as parsing
from tournament_assets.storage.tables import decode_parquet
from tournament_assets.tournament.asset_rows import JudgeReplyRow

DIMENSIONS = ("factuality", "calibration", "clinical_utility")
AFTER_REPLIES = [
    "elo_ratings",
    "elo_traces",
    "people_measures",
    "judge_verdicts",
    "people_ratings",
    "ratings",
    "measures",
    "win_rates",
]
PAIRED = ["match_list", "judge_replies"]
REPORTED = [
    "audit",
    "battles",
    "fair_comparison",
    "leaderboard",
    "prompt_audit",
    "report",
    "run_artifacts",
    "run_comparison",
]
ENTRANTS = ("base_olmo", "security_only", "security_plus_robustness", "full_poe")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def demo(short_demo_run: DemoRun, tmp_path: Path) -> Iterator[EditDriver]:
    """The demo after its pilot on few prompts, with reruns after edits turned on."""
    project = tmp_path / "project"
    shutil.copytree(short_demo_run.project, project)
    config_path = project / "configs" / "demo.yaml"
    edit(config_path, "  pilot:\n", "  pilot:\n    rerun_after_edits: true\n")
    environment = {"DAGSTER_HOME": str(project / ".dagster_home")}
    with edit_driver(config_path, environment) as driver:
        yield driver


def in_order(ran: dict[str, list[str]]) -> dict[str, list[str]]:
    return {partition: sorted(assets) for partition, assets in sorted(ran.items())}


def asked_rows(demo: EditDriver, dimension: str) -> list[dict[str, Any]]:
    """The presentations of the pilot that were asked, as they are stored."""
    folder = demo.project / "storage" / "demo" / "judge_replies" / dimension
    rows = table_rows(
        JudgeReplyRow, decode_parquet(JudgeReplyRow, (folder / "pilot.parquet").read_bytes())
    )
    return [row for row in rows if row["result_type"] == "succeeded"]


def distinct(rows: Iterable[dict[str, Any]]) -> int:
    return len({row["request_key"] for row in rows})


def test_a_rubric_reruns_its_dimension_in_the_pilot_and_its_undoing_asks_nothing(
    demo: EditDriver,
) -> None:
    assert demo.settle() == {}
    assert demo.skipped.startswith("demo: pilot: ")
    before = demo.requests_seen()
    runs_before = len(list((demo.project / "runs").iterdir()))
    rubric = demo.project / "rubrics" / "factuality.txt"
    old = rubric.read_text()
    edit(rubric, old.splitlines()[0], "# version: 99")
    expected = {
        "factuality|pilot": sorted(["judge_replies", *AFTER_REPLIES]),
        "pilot": sorted(["judging_estimate", "judge_requests", *REPORTED]),
    }
    assert in_order(demo.settle()) == expected
    asked = demo.requests_seen() - before
    assert asked == distinct(asked_rows(demo, "factuality")) > 0
    assert len(list((demo.project / "runs").iterdir())) == runs_before + 1
    assert demo.settle() == {}
    rubric.write_bytes(old.replace("\n", "\r\n").encode() + b"\r\n")
    assert in_order(demo.settle()) == expected
    assert demo.requests_seen() - before == asked
    assert demo.settle() == {}


def own_bank(demo: EditDriver) -> Path:
    """Let the demo read a copy of its bank, which is no edit."""
    bank = demo.project / "bank.jsonl"
    shutil.copy(ROOT / "tournament_assets" / "data" / "prompt_bank.jsonl", bank)
    edit(demo.config_path, "builtin: prompt_bank.jsonl", "path: bank.jsonl")
    assert demo.settle() == {}
    return bank


def edit_prompt(bank: Path, prompt_id: str, key: str, added: str) -> None:
    prompts = [json.loads(line) for line in bank.read_text().splitlines()]
    for prompt in prompts:
        if prompt["prompt_id"] == prompt_id:
            prompt[key] += added
    write_json_lines(bank, prompts)


EVERYTHING_AFTER_THE_BANK = {
    **{f"{entrant}|pilot": ["entrant_responses"] for entrant in ENTRANTS},
    **{f"{name}|pilot": [*PAIRED, *AFTER_REPLIES] for name in DIMENSIONS},
    "pilot": ["prompt_bank", "selected_prompts", "judging_estimate", "judge_requests", *REPORTED],
}


def asked_about(demo: EditDriver, prompt_id: str, dimensions: Iterable[str]) -> int:
    rows = (row for dimension in dimensions for row in asked_rows(demo, dimension))
    return distinct(row for row in rows if row["prompt_id"] == prompt_id)


def test_a_gold_answer_and_a_text_ask_only_for_the_pairs_of_their_prompts(
    demo: EditDriver,
) -> None:
    bank = own_bank(demo)
    better, reworded = sorted({row["prompt_id"] for row in asked_rows(demo, "factuality")})[:2]
    before, answered = demo.requests_seen(), count_responses(demo.project)
    edit_prompt(bank, better, "gold_answer", ", as every textbook says")
    edit_prompt(bank, reworded, "text", " Answer in one sentence.")
    assert in_order(demo.settle()) == in_order(EVERYTHING_AFTER_THE_BANK)
    assert count_responses(demo.project) - answered == len(ENTRANTS)
    # Clinical utility is judged without the gold answer.
    expected = (
        asked_about(demo, better, ("factuality", "calibration")),
        asked_about(demo, reworded, DIMENSIONS),
    )
    assert min(expected) > 0
    assert demo.requests_seen() - before == sum(expected)
    assert demo.settle() == {}


def test_a_new_entrant_asks_only_for_its_own_pairs(demo: EditDriver) -> None:
    prompts = [
        json.loads(line)
        for line in (ROOT / "tournament_assets" / "data" / "prompt_bank.jsonl")
        .read_text()
        .splitlines()
    ]
    write_json_lines(
        demo.project / "newcomer.jsonl",
        [
            {"prompt_id": each["prompt_id"], "response": f"It depends: {each['text']}"}
            for each in prompts
        ],
    )
    edit(
        demo.config_path,
        "generation:\n",
        "  - entrant_id: newcomer\n    loader: recorded\n"
        "    responses: {path: newcomer.jsonl}\n\ngeneration:\n",
    )
    before = demo.requests_seen()
    ran = in_order(demo.settle())
    assert ran == in_order(
        {
            "newcomer|pilot": ["entrant_responses"],
            **{f"{name}|pilot": [*PAIRED, *AFTER_REPLIES] for name in DIMENSIONS},
            "pilot": ["judging_estimate", "judge_requests", *REPORTED],
        }
    )
    expected = distinct(
        row
        for dimension in DIMENSIONS
        for row in asked_rows(demo, dimension)
        if "newcomer" in (row["entrant_a"], row["entrant_b"])
    )
    assert demo.requests_seen() - before == expected > 0
    assert demo.settle() == {}


def test_a_price_list_and_a_corrected_parser_ask_nothing(
    demo: EditDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = demo.requests_seen()
    monkeypatch.setattr(inputs, "newest_prices_hash", lambda: "another")
    assert demo.settle() == {"pilot": ["judging_estimate"]}
    monkeypatch.setattr(parsing, "READING_VERSION", "another")
    assert in_order(demo.settle()) == in_order(
        {f"{dimension}|pilot": AFTER_REPLIES for dimension in DIMENSIONS}
    )
    assert demo.requests_seen() == before
    assert demo.settle() == {}


def test_what_failed_is_not_begun_again_for_the_same_edit(demo: EditDriver) -> None:
    assert demo.settle() == {}
    rubric = demo.project / "rubrics" / "factuality.txt"
    edit(rubric, rubric.read_text().splitlines()[0], "# version: 99")
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(
            "tournament_assets.graph.assets.judging.ask_together",
            failing("the judge is away"),
        )
        assert demo.settle() == {"pilot": ["judging_estimate"]}
        assert demo.settle() == {}
    assert "is failed; the same is not begun twice" in demo.skipped
    edit(rubric, "# version: 99", "# version: 100")
    assert "run_artifacts" in demo.settle()["pilot"]


def failing(message: str) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise WorkError(message)

    return fail
