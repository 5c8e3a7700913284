"""Generation on this machine: what is kept, and what is given back."""

import gc
import weakref
from pathlib import Path

import pytest

from tests.generation.builders import TINY
from tests.generation.hydra_projects import describe_hydra, write_heads
from tournament_assets.generation.models.base_models import RESIDENCE
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.config import GenerationConfig
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.hydra_entrants import CustomPoeEntrant
from tournament_assets.tournament.prompts import Prompt
from tournament_assets.workflows.local_responses import (
    CompletedResponses,
    complete_responses,
    release_models,
)

PROMPTS = [Prompt(prompt_id=f"p{n}", text=f"What is number {n}?", source="test") for n in range(3)]


@pytest.fixture
def heads(tmp_path: Path) -> Path:
    write_heads(tmp_path / "heads")
    return tmp_path / "heads"


def complete(
    folder: Path, entrant: CustomPoeEntrant, prompts: list[Prompt], *, device: str = "cpu"
) -> CompletedResponses:
    from tournament_assets.project.project_files import Project, find_entrant_files

    ledger = Ledger(f"sqlite:///{folder.parent / 'ledger.sqlite'}")
    try:
        return complete_responses(
            entrant,
            files=find_entrant_files(entrant, Project(folder=folder, environment={})),
            prompts=prompts,
            ledger=ledger,
            config=GenerationConfig(batch_size=2, cuda_graphs=True),
            log=lambda message: None,
            device=device,
        )
    finally:
        ledger.close()


def test_only_what_the_ledger_lacks_is_generated(heads: Path) -> None:
    entrant = describe_hydra(max_new_tokens=4)
    first = complete(heads, entrant, PROMPTS[:2])
    again = complete(heads, entrant.model_copy(update={"entrant_id": "renamed"}), PROMPTS)
    assert (first.generated, again.generated) == (2, 1)
    assert list(again.responses[:2]) == first.responses
    assert again.responses[0].diagnostics["jury"]["entropy"]


def test_a_device_that_is_none_is_refused_before_a_model_is_loaded(heads: Path) -> None:
    with pytest.raises(InputError, match="the generator's device is 'foo'; expected auto"):
        complete(heads, describe_hydra(max_new_tokens=4), PROMPTS, device="foo")


def test_another_shard_is_another_entrant(heads: Path) -> None:
    entrant = describe_hydra(max_new_tokens=4)
    complete(heads, entrant, PROMPTS)
    shard = heads / "security" / "shard_1.safetensors"
    (heads / "security" / "shard_0.safetensors").write_bytes(shard.read_bytes())
    assert complete(heads, entrant, PROMPTS).generated == len(PROMPTS)


def test_released_models_leave_the_memory() -> None:
    model = weakref.ref(RESIDENCE.load(TINY, device="cpu", name="tiny").model)
    assert model() is not None
    release_models()
    gc.collect()
    assert model() is None
