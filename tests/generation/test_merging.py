from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tournament_assets.generation.hydra.hydra_model import export_merged_head, merged_weights
from tournament_assets.generation.loading import LoadedEntrant, build_entrant
from tournament_assets.generation.models.base_models import (
    decoding_threads,
    transformers_logging_off,
)
from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.tournament.errors import InputError

from .builders import describe
from .hydra_builders import build_adapters, build_model
from .reference_decoder import merge_heads

IDS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with decoding_threads(1), torch.inference_mode():
        yield


@pytest.mark.parametrize("n_adapters", [1, 2])
def test_an_exported_head_is_a_plain_model_that_transformers_loads(
    tmp_path: Path, n_adapters: int
) -> None:
    model = build_model()
    adapters = build_adapters(model)[:n_adapters]
    before = model(IDS).logits
    for head, expected in enumerate(merge_heads(model, adapters)):
        folder = tmp_path / f"head{head}"
        export_merged_head(model, folder, adapters=adapters, head=head)
        with transformers_logging_off():
            loaded = AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, use_safetensors=True
            )
        torch.testing.assert_close(loaded(IDS).logits, expected(IDS).logits, atol=1e-5, rtol=0)
        assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}
    assert torch.equal(model(IDS).logits, before)


def test_weights_that_a_head_does_not_change_are_shared_with_the_model() -> None:
    model = build_model()
    weights = merged_weights(model, build_adapters(model), head=1)
    own = model.state_dict()
    assert weights.keys() == own.keys()
    changed = {key for key, weight in weights.items() if weight.data_ptr() != own[key].data_ptr()}
    assert changed == {
        f"model.layers.{layer}.mlp.{projection}.weight"
        for layer in (1, 2)
        for projection in ("gate_proj", "up_proj", "down_proj")
    }


def test_changes_are_added_in_float32_and_rounded_once() -> None:
    model = build_model()
    adapters = build_adapters(model, size=0.01)
    exact = merged_weights(model, adapters, head=0)["model.layers.2.mlp.up_proj.weight"]
    model.bfloat16()
    rounded = model.state_dict()["model.layers.2.mlp.up_proj.weight"].float()
    change = exact - build_model().state_dict()["model.layers.2.mlp.up_proj.weight"]
    merged = merged_weights(model, adapters, head=0)["model.layers.2.mlp.up_proj.weight"]
    assert merged.dtype == torch.bfloat16
    torch.testing.assert_close(merged, (rounded + change).bfloat16())


def test_an_exported_head_of_the_bundled_checkpoint_is_an_entrant(
    tmp_path: Path, tiny: LoadedEntrant
) -> None:
    adapters = build_adapters(tiny.model, heads_depth=3)
    export_merged_head(
        tiny.model, tmp_path / "head", adapters=adapters, head=2, tokenizer=tiny.tokenizer
    )
    entrant = build_entrant(describe(), files=EntrantFiles(tmp_path / "head"), device="cpu")
    assert entrant.eos_ids == tiny.eos_ids
    expected = merge_heads(tiny.model, adapters)[2]
    torch.testing.assert_close(entrant.model(IDS).logits, expected(IDS).logits, atol=1e-4, rtol=0)


def test_a_folder_that_holds_anything_is_refused(tmp_path: Path) -> None:
    model = build_model()
    (tmp_path / "config.json").write_text("{}")
    for folder in (tmp_path, tmp_path / "config.json"):
        with pytest.raises(InputError, match="is not empty; expected a new folder"):
            export_merged_head(model, folder, adapters=build_adapters(model), head=0)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_only_heads_that_exist_can_be_merged() -> None:
    model = build_model()
    for head in (-1, 3):
        with pytest.raises(InputError, match=f"there is no head {head}; expected 0 to 2"):
            merged_weights(model, build_adapters(model), head=head)
    with pytest.raises(InputError, match="there is no adapter to merge; expected at least one"):
        merged_weights(model, [], head=0)
    with pytest.raises(InputError, match=r"LoRA shards are for HeadShape\(hidden_size=8"):
        merged_weights(model, build_adapters(build_model(hidden_size=8)), head=0)
