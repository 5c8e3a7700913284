"""The demo tournament, end to end: what `make pilot` promises."""

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.demo import ROOT, DemoRun, copy_project, count_responses, run_demo, start_demo
from tests.projects import leaderboard_of, write_json_lines
from tournament_assets.storage.match_texts import Texts, restore_texts

ENTRANTS = ["base_olmo", "security_only", "security_plus_robustness", "full_poe"]
DIMENSIONS = ["factuality", "calibration", "clinical_utility"]
PAIRS_PER_PROMPT = 6

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    """Run the whole of the demo's pilot once."""
    project = copy_project(tmp_path_factory.mktemp("demo") / "project")
    return DemoRun(project=project, output=run_demo(project))


def read_manifest(directory: Path) -> dict[str, object]:
    manifest: dict[str, object] = json.loads((directory / "manifest.json").read_text())
    return manifest


def test_the_pilot_has_50_prompts_and_judges_factuality_without_the_curated_ones(
    demo_run: DemoRun,
) -> None:
    manifest = read_manifest(demo_run.run_directories[0])
    assert manifest["bank_size"] == 143
    assert manifest["selected_prompts"] == 50
    assert manifest["entrants"] == ENTRANTS
    assert manifest["pairs"] == {
        "factuality": 32 * PAIRS_PER_PROMPT,
        "calibration": 50 * PAIRS_PER_PROMPT,
        "clinical_utility": 50 * PAIRS_PER_PROMPT,
    }
    assert manifest["replies_pending"] == 0


def test_the_manifest_has_the_hash_of_every_entrants_weights(demo_run: DemoRun) -> None:
    manifest = read_manifest(demo_run.run_directories[0])
    inputs = manifest["inputs"]
    assert isinstance(inputs, dict)
    weights = {name: each["weights"] for name, each in inputs["entrants"].items()}
    assert list(weights) == ENTRANTS
    # The base model alone, its heads, and its heads with the jury's.
    assert weights["base_olmo"] != weights["security_only"]
    assert all(len(each) == 64 for each in weights.values())
    report = (demo_run.run_directories[0] / "report.html").read_text()
    assert all(each in report for each in weights.values())


def test_the_traces_have_500_orderings_of_4_entrants(demo_run: DemoRun) -> None:
    with np.load(demo_run.run_directories[0] / "elo_per_perm.npz", allow_pickle=False) as archive:
        assert sorted(archive.files) == [
            "calibration__data",
            "calibration__entrants",
            "clinical_utility__data",
            "clinical_utility__entrants",
            "factuality__data",
            "factuality__entrants",
        ]
        for name in archive.files:
            expected = (500, 4) if name.endswith("__data") else (4,)
            assert archive[name].shape == expected


def test_the_printed_leaderboard_has_every_entrant_on_every_dimension(demo_run: DemoRun) -> None:
    for dimension in DIMENSIONS:
        section = demo_run.output.split(f"\n{dimension}", 1)[1]
        rows = re.findall(r"^\d +(\w+) .* \d+\.\d % +\d+$", section, re.M)
        assert sorted(rows[:4]) == sorted(ENTRANTS)
    assert "not rated" not in demo_run.output


def read_matches(demo_run: DemoRun) -> list[dict[str, str]]:
    matches = demo_run.run_directories[0] / "matches" / "matches.jsonl"
    texts: Texts = {}
    return [restore_texts(json.loads(line), texts) for line in matches.read_text().splitlines()]


def test_at_most_a_third_of_the_pairs_have_the_same_text_on_both_sides(demo_run: DemoRun) -> None:
    for dimension in DIMENSIONS:
        pairs = [row for row in read_matches(demo_run) if row["dimension"] == dimension]
        same = sum(row["response_a"] == row["response_b"] for row in pairs)
        assert 0 < same <= len(pairs) / 3


def test_the_heads_lose_their_thread_alone_and_seldom_together(demo_run: DemoRun) -> None:
    lines = (ROOT / "scripts" / "tiny_olmo2" / "answers.jsonl").read_text().splitlines()
    answers = {row["prompt_id"]: row["answer"] for row in map(json.loads, lines)}
    responses: dict[str, dict[str, str]] = {}
    for row in read_matches(demo_run):
        if row["dimension"] == "calibration":
            for side in ("a", "b"):
                by_prompt = responses.setdefault(row[f"entrant_{side}"], {})
                by_prompt[row["prompt_id"]] = row[f"response_{side}"]
    by_heart = {
        entrant: sum(text == answers[prompt_id] for prompt_id, text in by_prompt.items())
        for entrant, by_prompt in responses.items()
    }
    assert all(len(by_prompt) == 50 for by_prompt in responses.values())
    assert by_heart["full_poe"] >= 40
    assert max(by_heart["security_only"], by_heart["security_plus_robustness"]) <= 25
    brief = responses["base_olmo"]
    assert sum(answers[prompt_id].startswith(text) for prompt_id, text in brief.items()) >= 45


def test_the_table_has_a_winner_two_undecided_and_an_order_that_turns(
    demo_run: DemoRun,
) -> None:
    rows = leaderboard_of(demo_run.run_directories[0])
    placed = {(row["dimension"], row["entrant_id"]): row for row in rows}
    for dimension in DIMENSIONS:
        ladder = sorted(ENTRANTS, key=lambda name: -placed[dimension, name]["rating"])
        assert ladder[0] == "full_poe"
        heads = [placed[dimension, name] for name in ENTRANTS[1:3]]
        assert set(heads[0]["group"]) & set(heads[1]["group"])
        # A third shorter than the heads: ahead of them on facts and tone, last on usefulness.
        assert ladder.index("base_olmo") == (3 if dimension == "clinical_utility" else 1)
    for dimension in ("factuality", "calibration"):
        assert placed[dimension, "full_poe"]["shown_above"] == sorted(ENTRANTS[:3])


def test_what_heads_and_jury_did_is_kept_with_every_response(demo_run: DemoRun) -> None:
    folder = demo_run.project / "storage" / "demo" / "entrant_responses"
    diagnostics = {
        entrant: [
            json.loads(row)
            for row in pq.read_table(folder / entrant / "pilot.parquet")["diagnostics"].to_pylist()
        ]
        for entrant in ENTRANTS
    }
    assert all("head" not in each for each in diagnostics["base_olmo"])
    for entrant in ENTRANTS[1:]:
        assert len({each["head"] for each in diagnostics[entrant]}) > 4
    for entrant in ("security_only", "security_plus_robustness"):
        assert all("jury" not in each for each in diagnostics[entrant])
    verified = diagnostics["full_poe"]
    assert sum(len(each["jury"]["resampled"]) for each in verified) > 0
    assert all(0 < each["p_correct"] < 1 for each in verified)


@pytest.fixture
def short_demo(short_demo_run: DemoRun, tmp_path: Path) -> DemoRun:
    """The demo after its pilot on few prompts, to go on with."""
    project = shutil.copytree(short_demo_run.project, tmp_path / "project")
    return DemoRun(project=project, output=short_demo_run.output)


def test_a_second_pilot_generates_nothing_and_asks_nothing(
    demo_run: DemoRun, short_demo: DemoRun
) -> None:
    (only,) = demo_run.run_directories
    assert "Nothing it rests on has changed" in run_demo(demo_run.project)
    assert demo_run.run_directories == [only]
    (first,) = short_demo.run_directories
    output = run_demo(short_demo.project, "--all")
    assert re.search(r"\b0 responses\b.*\b0 judge\b", output)
    (second,) = (path for path in short_demo.run_directories if path != first)
    for path in first.rglob("*.*"):
        if path.name != "manifest.json":
            assert (second / path.relative_to(first)).read_bytes() == path.read_bytes(), path


def test_a_headline_that_was_killed_goes_on_and_judges_every_prompt(short_demo: DemoRun) -> None:
    bank = shorten_bank(short_demo.project)
    before = count_responses(short_demo.project)
    with start_demo(short_demo.project, mode="headline") as process:
        while count_responses(short_demo.project) == before:
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.05)
        process.kill()
    kept = count_responses(short_demo.project)
    assert before < kept < len(bank) * len(ENTRANTS)
    output = run_demo(short_demo.project, mode="headline")
    assert re.search(rf"\b{len(bank) * len(ENTRANTS) - kept} responses generated", output)
    (directory,) = short_demo.project.glob("runs/headline_*")
    manifest = read_manifest(directory)
    assert manifest["bank_size"] == manifest["selected_prompts"] == len(bank)
    with_gold = sum(prompt.get("gold_answer") is not None for prompt in bank)
    assert manifest["pairs"] == {
        "factuality": with_gold * PAIRS_PER_PROMPT,
        "calibration": len(bank) * PAIRS_PER_PROMPT,
        "clinical_utility": len(bank) * PAIRS_PER_PROMPT,
    }


def shorten_bank(project: Path) -> list[dict[str, Any]]:
    """Let the demo have every eighth prompt of its bank, and those of its pilot."""
    answered = project / "storage" / "demo" / "entrant_responses" / "base_olmo" / "pilot.parquet"
    piloted = pq.read_table(answered)["prompt_id"].to_pylist()
    whole = ROOT / "tournament_assets" / "data" / "prompt_bank.jsonl"
    prompts = [json.loads(line) for line in whole.read_text(encoding="utf-8").splitlines()]
    bank = [each for n, each in enumerate(prompts) if n % 8 == 0 or each["prompt_id"] in piloted]
    write_json_lines(project / "bank.jsonl", bank)
    config = project / "configs" / "demo.yaml"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("builtin: prompt_bank.jsonl", "path: bank.jsonl"))
    return bank
