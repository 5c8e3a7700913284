"""Heads on one copy of the base weights, against whole models with merged weights."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, Olmo2ForCausalLM

from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.hydra.shards import HeadSelection, HeadShards, head_shape
from tournament_assets.generation.models.base_models import decoding_threads
from tournament_assets.tournament.errors import InputError

from .hydra_builders import build_adapters, build_model, build_shards, put_heads_on
from .reference_decoder import merge_heads

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7], [0, 0, 1, 2, 11, 22, 4]])
SHAPES: list[dict[str, int]] = [
    {"n_layers": 3, "heads_depth": 1},
    {"n_layers": 4, "heads_depth": 3},
    {"n_layers": 2, "heads_depth": 2},  # no whole layer is left to the trunk
    {"n_layers": 3, "heads_depth": 2, "n_kv_heads": 2},
]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with decoding_threads(1), torch.inference_mode():
        yield


def build(
    shape: dict[str, int], *, n_heads: int = 3, size: float = 0.7
) -> tuple[Olmo2ForCausalLM, Sequence[HeadShards], HydraModel]:
    sizes = {name: value for name, value in shape.items() if name != "heads_depth"}
    model = build_model(**sizes, sharpness=0.15)
    adapters = build_adapters(model, n_heads=n_heads, heads_depth=shape["heads_depth"], size=size)
    return model, adapters, put_heads_on(model, adapters)


def read(
    model: HydraModel, ids: Tensor, selection: HeadSelection, *, chunks: Sequence[int] = ()
) -> Tensor:
    """Return logits, (copies, n_prompts, n_tokens, vocabulary), read in chunks of some sizes."""
    n_prompts, n_tokens = ids.shape
    caches = model.new_caches(n_prompts=n_prompts, copies=selection.copies, n_slots=n_tokens)
    positions = torch.arange(n_tokens).expand_as(ids)
    read_so_far = []
    sizes = list(chunks) or [n_tokens]
    parts = zip(torch.split(ids, sizes, dim=1), torch.split(positions, sizes, dim=1), strict=True)
    for part, where in parts:
        places = caches.locate(where)
        hidden = model.enter_heads(model.trunk(part, places, caches.trunk), places, caches.trunk)
        read_so_far.append(model.logits(model.heads(hidden, places, caches.heads, selection)))
    return torch.cat(read_so_far, dim=2)


@pytest.mark.parametrize("shape", SHAPES)
def test_heads_with_zero_lora_are_bit_equal_to_the_plain_model(shape: dict[str, int]) -> None:
    for n_heads in (1, 9):
        plain, _, hydra = build(shape, n_heads=n_heads, size=0.0)
        expected = plain(IDS).logits
        for n_adapters in (1, 2):
            jury = read(hydra, IDS, hydra.jury(n_adapters))
            assert jury.shape == (n_heads, *expected.shape)
            for by_one_head in jury:
                assert torch.equal(by_one_head, expected)
            heads = torch.tensor([n_heads - 1, 0, n_heads // 2])
            drawn = read(hydra, IDS, hydra.drawn(heads, n_adapters))
            assert torch.equal(drawn[0], expected)


def test_the_base_model_speaks_through_trained_heads_bit_for_bit() -> None:
    plain, _, hydra = build(SHAPES[1])
    assert torch.equal(read(hydra, IDS, HeadSelection())[0], plain(IDS).logits)


@pytest.mark.parametrize("shape", SHAPES)
def test_factored_heads_equal_merged_models_for_every_choice_of_adapters(
    shape: dict[str, int],
) -> None:
    plain, adapters, hydra = build(shape)
    for n_adapters in (1, 2):
        merged = merge_heads(plain, adapters[:n_adapters])
        expected = torch.stack([head(IDS).logits for head in merged])
        jury = read(hydra, IDS, hydra.jury(n_adapters))
        torch.testing.assert_close(jury, expected, atol=1e-5, rtol=0)
        heads = torch.tensor([2, 0, 2])
        drawn = read(hydra, IDS, hydra.drawn(heads, n_adapters))[0]
        torch.testing.assert_close(drawn, expected[heads, torch.arange(3)], atol=1e-5, rtol=0)
        assert (expected[0] - expected[1]).abs().max() > 0.1  # the heads do differ


@pytest.mark.parametrize("shape", SHAPES)
def test_reading_token_by_token_equals_reading_at_once(shape: dict[str, int]) -> None:
    _, _, hydra = build(shape)
    for selection in (HeadSelection(), hydra.jury(2), hydra.drawn(torch.tensor([1, 0, 2]), 1)):
        at_once = read(hydra, IDS, selection)
        for chunks in ([1] * 7, [4, 1, 2]):
            in_parts = read(hydra, IDS, selection, chunks=chunks)
            torch.testing.assert_close(in_parts, at_once, atol=1e-5, rtol=0)


def test_the_attention_that_heads_begin_with_is_kept_once_per_prompt() -> None:
    _, _, hydra = build({"n_layers": 5, "heads_depth": 3}, n_heads=9)
    caches = hydra.new_caches(n_prompts=4, copies=9, n_slots=6)
    assert list(caches.trunk.keys) == [0, 1, 2]
    assert list(caches.heads.keys) == [3, 4]
    assert {tuple(keys.shape) for keys in caches.trunk.keys.values()} == {(4, 4, 6, 4)}
    assert {tuple(values.shape) for values in caches.heads.values.values()} == {(36, 4, 6, 4)}


def test_the_base_weights_are_used_and_not_copied() -> None:
    plain, _, hydra = build(SHAPES[1], n_heads=9)
    before = plain(IDS).logits
    read(hydra, IDS, hydra.jury(2))
    assert torch.equal(plain(IDS).logits, before)
    plain.lm_head.weight.mul_(2)
    torch.testing.assert_close(read(hydra, IDS, HeadSelection())[0], 2 * before)


def test_ghost_rows_of_the_vocabulary_have_no_logits() -> None:
    plain, adapters, _ = build(SHAPES[0])
    hydra = put_heads_on(plain, adapters, n_tokens=19)
    logits = read(hydra, IDS.clamp(max=18), hydra.jury(2))
    assert logits.shape[-1] == 19
    whole = read(put_heads_on(plain, adapters), IDS.clamp(max=18), hydra.jury(2))
    assert torch.equal(logits, whole[..., :19])


def test_in_bfloat16_scaled_factors_stay_near_the_merged_model() -> None:
    plain, adapters, _ = build(SHAPES[1])
    expected = merge_heads(plain, adapters)[1](IDS).logits
    plain.bfloat16()
    hydra = put_heads_on(plain, adapters)
    got = read(hydra, IDS, hydra.jury(2))[1]
    assert (hydra.dtype, got.dtype) == (torch.bfloat16, torch.float32)
    error = (got.float() - expected).abs().mean()
    assert error < 0.05 * expected.abs().mean()


def test_a_single_head_is_a_jury_of_one() -> None:
    plain, adapters, hydra = build(SHAPES[1], n_heads=1)
    expected = merge_heads(plain, adapters)[0](IDS).logits
    torch.testing.assert_close(read(hydra, IDS, hydra.jury(2))[0], expected, atol=1e-5, rtol=0)


def refusal(**changes: Any) -> str:
    model = build_model()
    arguments: dict[str, Any] = {
        "model": model,
        "n_tokens": 23,
        "heads_depth": 2,
        "adapters": build_adapters(model),
        **changes,
    }
    with pytest.raises(InputError) as raised:
        HydraModel(arguments.pop("model"), **arguments)
    return str(raised.value)


def test_heads_go_on_olmo2_only() -> None:
    other = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=23))
    assert refusal(model=other) == (
        "the model is a GPT2LMHeadModel; expected an Olmo2ForCausalLM, "
        "the only one that heads can be put on"
    )


def test_an_attention_that_takes_no_boolean_mask_is_refused() -> None:
    model = build_model()
    model.set_attn_implementation("eager")
    assert "attention is 'eager'; expected 'sdpa'" in refusal(model=model)


def test_heads_are_no_deeper_than_the_model() -> None:
    for depth in (0, 4):
        assert f"heads_depth is {depth}; expected 1 to 3" in refusal(heads_depth=depth)


def test_shards_of_other_sizes_are_refused() -> None:
    assert "expected HeadShape(hidden_size=16, intermediate_size=32, heads_depth=1)" in refusal(
        heads_depth=1
    )


def test_a_tokenizer_that_knows_more_than_the_model_is_refused() -> None:
    assert "knows 24 tokens and the model 23" in refusal(n_tokens=24)
    assert "knows 0 tokens" in refusal(n_tokens=0)


def test_there_is_one_uncertainty_head() -> None:
    shape = head_shape(build_model(), heads_depth=2)
    several = build_shards(shape, n_heads=2, rank=4)
    assert "uncertainty head has 2 shards; expected one" in refusal(uncertainty=several)


def test_voices_that_were_never_loaded_cannot_speak() -> None:
    hydra = HydraModel(build_model(), n_tokens=23, heads_depth=2)
    assert (hydra.n_heads, hydra.n_adapters) == (0, 0)
    with pytest.raises(InputError, match="no LoRA shards; expected adapters; name the files"):
        hydra.jury(1)
    with pytest.raises(InputError, match="no LoRA shards; expected adapters"):
        hydra.drawn(torch.tensor([0]), 1)
    with pytest.raises(InputError, match="no LoRA shards; expected an uncertainty head"):
        hydra.uncertainty()


@pytest.mark.parametrize("shape", SHAPES)
def test_reading_for_the_caches_alone_leaves_the_same_keys_and_values(
    shape: dict[str, int],
) -> None:
    _, _, model = build(shape)
    selection = model.jury(2)
    n_prompts, n_tokens = IDS.shape
    full, alone = (
        model.new_caches(n_prompts=n_prompts, copies=selection.copies, n_slots=n_tokens)
        for _ in range(2)
    )
    places = full.locate(torch.arange(n_tokens).expand_as(IDS))
    entered = model.enter_heads(model.trunk(IDS, places, full.trunk), places, full.trunk)
    model.heads(entered, places, full.heads, selection)
    model.remember(IDS, places, alone, selection)
    for read, remembered in ((full.trunk, alone.trunk), (full.heads, alone.heads)):
        assert read.keys.keys() == remembered.keys.keys()
        for layer in read.keys:
            assert torch.allclose(remembered.keys[layer], read.keys[layer], atol=1e-6)
            assert torch.allclose(remembered.values[layer], read.values[layer], atol=1e-6)
            assert read.keys[layer].abs().sum() > 0
