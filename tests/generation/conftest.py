"""The bundled checkpoint, loaded once, and the demo bank it was trained on."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tournament_assets.generation.loading import LoadedEntrant, build_entrant
from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.tournament.prompts import Prompt, parse_prompt_bank

from .builders import DATA, TINY, Settle, describe


@pytest.fixture(autouse=True, scope="session")
def _one_thread_everywhere() -> None:
    """Compute the same whatever the number of cores; more threads would wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def inference() -> Iterator[None]:
    """Compute without gradients in a whole module; its own fixtures of that scope, too."""
    with torch.inference_mode():
        yield


@pytest.fixture(scope="session")
def tiny() -> LoadedEntrant:
    return build_entrant(describe(), files=EntrantFiles(TINY), device="cpu")


@pytest.fixture(scope="session")
def settle(tiny: LoadedEntrant) -> Settle:
    """The loaded checkpoint under other decoding settings."""
    return lambda spec: replace(tiny, spec=spec)


@pytest.fixture(scope="session")
def bank() -> list[Prompt]:
    lines = (DATA / "prompt_bank.jsonl").read_text(encoding="utf-8").splitlines()
    return parse_prompt_bank([(f"bank:{n}", json.loads(line)) for n, line in enumerate(lines, 1)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the checkpoint that a test may break."""
    return Path(shutil.copytree(TINY, tmp_path / "weights"))
