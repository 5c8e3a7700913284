"""Generation on this machine: what is kept, and what is given back."""

import gc
import os
import weakref
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.generation.builders import TINY
from tests.generation.hydra_projects import describe_hydra, write_heads
from tournament_assets.foundation.errors import GenerationError, InputError
from tournament_assets.generation.devices import (
    Card,
    forget_peak,
    lease_cards,
    taken_bytes,
)
from tournament_assets.generation.models.base_models import RESIDENCE
from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.ledger import Ledger
from tournament_assets.responses.local_responses import (
    CompletedResponses,
    Generator,
    ModelPlace,
    captured_on,
    complete_responses,
    find_place,
    release_models,
)
from tournament_assets.tournament.config import GenerationConfig
from tournament_assets.tournament.hydra_entrants import CustomPoeEntrant
from tournament_assets.tournament.prompts import Prompt

PROMPTS = [Prompt(prompt_id=f"p{n}", text=f"What is number {n}?", source="test") for n in range(3)]

ON_CPU = Generator(device="cpu")


@pytest.fixture
def heads(tmp_path: Path) -> Path:
    write_heads(tmp_path / "heads")
    return tmp_path / "heads"


def complete(
    folder: Path,
    entrant: CustomPoeEntrant,
    prompts: list[Prompt],
    *,
    generator: Generator = ON_CPU,
) -> CompletedResponses:
    from tournament_assets.project.project_files import Project, find_entrant_files

    ledger = Ledger(f"sqlite:///{folder.parent / 'ledger.sqlite'}")
    try:
        return complete_responses(
            entrant,
            files=find_entrant_files(entrant, Project(folder=folder, environment={})),
            prompts=prompts,
            ledger=ledger,
            config=GenerationConfig(batch_size=2, execution="captured"),
            log=lambda message: None,
            generator=generator,
            kernels=folder.parent / "kernels",
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


def test_a_prompt_beyond_the_context_is_left_out_with_its_reason_unless_no_prompt_fits(
    heads: Path,
) -> None:
    entrant = describe_hydra(max_new_tokens=4)
    long = Prompt(prompt_id="long", text="a " * 600, source="test")
    for generated in (2, 0):
        answers = complete(heads, entrant, [PROMPTS[0], long, PROMPTS[1]])
        assert [response.prompt_id for response in answers.responses] == ["p0", "p1"]
        assert answers.generated == generated
        assert list(answers.reasons) == ["long"]
        assert "512" in answers.reasons["long"]
        assert not answers.settings
    with pytest.raises(InputError, match="512"):
        complete(heads, entrant, [long])


def test_a_device_that_is_none_is_refused_before_a_model_is_loaded(heads: Path) -> None:
    with pytest.raises(InputError, match="'foo'"):
        complete(heads, describe_hydra(max_new_tokens=4), PROMPTS, generator=Generator("foo"))


def test_another_shard_is_another_entrant(heads: Path) -> None:
    entrant = describe_hydra(max_new_tokens=4)
    complete(heads, entrant, PROMPTS)
    shard = heads / "security" / "shard_1.safetensors"
    (heads / "security" / "shard_0.safetensors").write_bytes(shard.read_bytes())
    assert complete(heads, entrant, PROMPTS).generated == len(PROMPTS)


def test_what_generating_took_is_told_in_numbers_that_can_be_plotted(heads: Path) -> None:
    entrant = describe_hydra(max_new_tokens=4)
    first = complete(heads, entrant, PROMPTS).figures
    assert first["batch_size"] == 2
    assert first["tokens_per_second"] > 0
    assert first["peak_memory_gb"] > 0.05
    found = complete(heads, entrant, PROMPTS)
    share = sum(response.diagnostics["seconds"] for response in found.responses)
    assert 0 < share <= first["generation_seconds"] + 0.01
    again = found.figures
    assert again == {"generation_seconds": 0.0, "batch_size": 2}


def test_the_generators_settings_come_before_the_configs(heads: Path) -> None:
    wanted = Generator(device="cpu", batch_size=1, dtype="bfloat16")
    found = complete(heads, describe_hydra(max_new_tokens=4), PROMPTS, generator=wanted)
    told = [response.diagnostics for response in found.responses]
    assert {(each["batch_size"], each["dtype"]) for each in told} == {(1, "bfloat16")}


def test_an_entrant_of_two_precisions_is_refused_and_one_that_names_its_own_is_another(
    heads: Path,
) -> None:
    entrant = describe_hydra(max_new_tokens=4)
    half = Generator(device="cpu", dtype="bfloat16")
    complete(heads, entrant, PROMPTS[:2])
    with pytest.raises(InputError, match=r"in float32, and 1 more .* in bfloat16; .*'float32'"):
        complete(heads, entrant, PROMPTS, generator=half)
    named = entrant.model_copy(update={"dtype": "float32"})
    assert named.fingerprint("") != entrant.fingerprint("")
    found = complete(heads, named, PROMPTS, generator=half)
    assert found.generated == len(PROMPTS)
    assert {each.diagnostics["dtype"] for each in found.responses} == {"float32"}
    assert not found.warnings


def test_kept_responses_of_two_precisions_are_told(heads: Path) -> None:
    entrant = describe_hydra(max_new_tokens=4)
    complete(heads, entrant, PROMPTS[:2])
    complete(heads, entrant, PROMPTS[2:], generator=Generator(device="cpu", dtype="bfloat16"))
    (warning,) = complete(heads, entrant, PROMPTS).warnings
    assert "float32 (2) and bfloat16 (1)" in warning


def test_settings_that_are_none_are_refused_together(heads: Path) -> None:
    wrong = Generator(device="foo", dtype="int8", batch_size=0, memory_share=1.5)
    with pytest.raises(InputError) as caught:
        complete(heads, describe_hydra(max_new_tokens=4), PROMPTS, generator=wrong)
    assert len(caught.value.problems) == 4


def test_rounds_are_captured_on_cuda_alone_and_their_kernels_kept_in_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    variable, wanted = "TORCHINDUCTOR_CACHE_DIR", GenerationConfig()
    monkeypatch.setenv(variable, "")  # so that it is restored
    monkeypatch.delenv(variable)
    assert captured_on("cpu", wanted, tmp_path) is None
    assert captured_on("cuda:1", GenerationConfig(execution="eager"), tmp_path) is None
    assert variable not in os.environ
    assert captured_on("cuda:1", wanted, tmp_path / "kernels") is not None
    assert cache_dir() == str(tmp_path / "kernels")
    assert captured_on("cuda:1", wanted, tmp_path / "another") is not None
    assert cache_dir() == str(tmp_path / "kernels")


def cards_of(*gigabytes: float) -> list[Card]:
    return [Card(f"c{n}", int(each * 1e9), "T4") for n, each in enumerate(gigabytes)]


def place(folder: Path, device: str, *gigabytes: float) -> ModelPlace:
    return find_place(
        Generator(device=device),
        EntrantFiles(TINY),
        dtype="float16",
        log=lambda message: None,
        look=lambda: cards_of(*gigabytes),
        folder=folder,
    )


def test_a_process_keeps_its_card_until_its_model_is_released(tmp_path: Path) -> None:
    other = lease_cards(
        cards_of(16, 16, 16), needed_bytes=1, folder=tmp_path, log=lambda message: None
    )
    try:
        found = place(tmp_path, "auto", 16, 16, 16)
        assert found.device == "cuda:1"
        assert "T4 (cuda:1, 16 GB)" in found.sentence
        assert place(tmp_path, "cuda", 16, 16, 16).device == "cuda:1"
        assert place(tmp_path, "cuda:2", 16, 16, 16).device == "cuda:2"
        assert place(tmp_path, "auto", 16, 16, 16).device == "cuda:2"
    finally:
        release_models()
        other.give_back()
    assert place(tmp_path, "auto", 16, 16, 16).device == "cuda:0"
    release_models()


def test_a_model_larger_than_a_card_is_shared_by_several(tmp_path: Path) -> None:
    # The tiny model has 1.5 million parameters: 2.9 MB in float16.
    found = place(tmp_path, "auto", 0.002, 0.002, 0.002)
    release_models()
    assert found.device == "cuda:0"
    assert found.max_memory == {0: 1_800_000, 1: 1_800_000}
    assert "2 cards" in found.sentence
    with pytest.raises(GenerationError, match="room"):
        place(tmp_path, "cuda:1", 0.002, 0.002)


def test_cards_that_share_a_model_give_it_what_is_free_on_each(tmp_path: Path) -> None:
    found = find_place(
        Generator(device="auto"),
        EntrantFiles(TINY),
        dtype="float16",
        log=lambda message: None,
        look=lambda: [Card(f"c{n}", 3_000_000, look=partial(int, 2_000_000 - n)) for n in range(3)],
        folder=tmp_path,
    )
    release_models()
    assert found.max_memory == {0: 1_800_000, 1: 1_799_999}


def test_peak_memory_is_of_one_entrant(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = {0: 7, 1: 5}
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(peaks))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", peaks.__getitem__)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda card: peaks.update({card: 1}))
    assert taken_bytes("cuda:0") == 12
    forget_peak("cpu")
    assert taken_bytes("cuda:0") == 12
    forget_peak("cuda:0")
    assert taken_bytes("cuda:0") == 2


def test_no_card_means_the_cpu_unless_a_card_is_asked_for(tmp_path: Path) -> None:
    assert place(tmp_path, "cpu", 16).device == "cpu"
    with pytest.raises(InputError, match="'cuda:1'"):
        place(tmp_path, "cuda:1")


def test_released_models_leave_the_memory() -> None:
    model = weakref.ref(RESIDENCE.load(TINY, device="cpu", name="tiny").model)
    assert model() is not None
    release_models()
    gc.collect()
    assert model() is None
