"""Heads on one copy of the base weights, against whole models with merged weights."""

import math
import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, Olmo2ForCausalLM

from benchmarks.decoded_batches import decode
from tournament_assets.foundation.errors import GenerationError, InputError
from tournament_assets.generation.hydra.hydra_model import (
    HydraModel,
    answer_ids,
    estimate_p_correct,
)
from tournament_assets.generation.hydra.shards import (
    HeadSelection,
    HeadShape,
    HeadShards,
    head_shape,
)

from .hydra_builders import (
    RAGGED,
    build_adapters,
    build_model,
    build_shards,
    poe_settings,
    put_heads_on,
)
from .reference_decoder import merge_heads

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7], [0, 0, 1, 2, 11, 22, 4]])
SHAPES: list[dict[str, int]] = [
    {"n_layers": 3, "heads_depth": 1},
    {"n_layers": 4, "heads_depth": 3},
    {"n_layers": 2, "heads_depth": 2},  # no whole layer is left to the trunk
    {"n_layers": 3, "heads_depth": 2, "n_kv_heads": 2},
]


pytestmark = pytest.mark.usefixtures("inference")


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
def test_heads_with_zero_lora_are_the_plain_model(shape: dict[str, int]) -> None:
    for n_heads in (1, 9):
        plain, _, hydra = build(shape, n_heads=n_heads, size=0.0)
        expected = plain(IDS).logits
        for n_adapters in (1, 2):
            jury = read(hydra, IDS, hydra.jury(n_adapters))
            assert jury.shape == (n_heads, *expected.shape)
            torch.testing.assert_close(jury, expected.expand_as(jury), atol=1e-5, rtol=0)
            heads = torch.tensor([n_heads - 1, 0, n_heads // 2])
            drawn = read(hydra, IDS, hydra.drawn(heads, n_adapters))
            torch.testing.assert_close(drawn[0], expected, atol=1e-5, rtol=0)


def test_the_base_model_speaks_through_trained_heads() -> None:
    plain, _, hydra = build(SHAPES[1])
    got = read(hydra, IDS, HeadSelection())[0]
    torch.testing.assert_close(got, plain(IDS).logits, atol=1e-5, rtol=0)


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
    torch.testing.assert_close(logits, whole[..., :19], atol=1e-5, rtol=0)


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
    assert re.search(r"GPT2LMHeadModel;.* Olmo2ForCausalLM\b", refusal(model=other))


def test_an_attention_that_takes_no_boolean_mask_is_refused() -> None:
    model = build_model()
    model.set_attn_implementation("eager")
    assert re.search(r"'eager'; .*'sdpa'", refusal(model=model))


def test_heads_are_no_deeper_than_the_model() -> None:
    for depth in (0, 4):
        assert re.findall(r"\d+", refusal(heads_depth=depth))[:3] == [str(depth), "1", "3"]


def test_shards_of_other_sizes_are_refused() -> None:
    shape = HeadShape(hidden_size=16, intermediate_size=32, heads_depth=1)
    assert f"expected {shape}" in refusal(heads_depth=1)


def test_a_tokenizer_that_knows_more_than_the_model_is_refused() -> None:
    assert re.findall(r"\d+", refusal(n_tokens=24)) == ["24", "23"]
    assert re.findall(r"\d+", refusal(n_tokens=0)) == ["0", "23"]


def test_there_is_one_uncertainty_head() -> None:
    shape = head_shape(build_model(), heads_depth=2)
    several = build_shards(shape, n_heads=2, rank=4)
    assert "2 shards;" in refusal(uncertainty=several)


def test_voices_that_were_never_loaded_cannot_speak() -> None:
    hydra = HydraModel(build_model(), n_tokens=23, heads_depth=2)
    assert (hydra.n_heads, hydra.n_adapters) == (0, 0)
    with pytest.raises(InputError, match="expected adapters;"):
        hydra.jury(1)
    with pytest.raises(InputError, match="expected adapters;"):
        hydra.drawn(torch.tensor([0]), 1)
    with pytest.raises(InputError, match="uncertainty head;"):
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
            for kept, seen in ((remembered.keys, read.keys), (remembered.values, read.values)):
                torch.testing.assert_close(kept[layer], seen[layer], atol=1e-5, rtol=0)
            assert read.keys[layer].abs().sum() > 0


TWO = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


YES, NO = 11, 12
SECOND = [(9, 9, 1), (4, 2, 7, 7, 7), (0,), (3, 1)]


def build_unsure(heads_depth: int) -> tuple[Olmo2ForCausalLM, HeadShards, HydraModel]:
    model = build_model()
    shape = head_shape(model, heads_depth=heads_depth)
    uncertainty = build_shards(shape, n_heads=1, rank=4, seed=9)
    hydra = HydraModel(
        model,
        n_tokens=20,
        heads_depth=heads_depth,
        adapters=build_adapters(model, heads_depth=heads_depth),
        uncertainty=uncertainty,
    )
    return model, uncertainty, hydra


def ask_slowly(
    head: Olmo2ForCausalLM, ids: Sequence[int], witness: Tensor, *, n_trunk: int
) -> float:
    """Read one prompt layer by layer, adding the witness between trunk and head."""
    layers = head.model
    positions = torch.arange(len(ids))[None]
    hidden = layers.embed_tokens(torch.tensor([ids]))
    rotary = layers.rotary_emb(hidden, position_ids=positions)
    for number, layer in enumerate(layers.layers):
        if number == n_trunk:
            hidden[0, -1] += witness
        hidden = layer(hidden, attention_mask=None, position_embeddings=rotary)
    logits = head.lm_head(layers.norm(hidden))[0, -1]
    return 1 / (1 + math.exp(float(logits[NO] - logits[YES])))


@pytest.mark.parametrize("heads_depth", [1, 2, 3])
def test_p_correct_equals_a_second_pass_of_the_merged_uncertainty_head(heads_depth: int) -> None:
    model, uncertainty, hydra = build_unsure(heads_depth)
    batch = decode(hydra, RAGGED, poe_settings(), n_rows=4, prompt_length=8)
    (head,) = merge_heads(model, [uncertainty])
    got = estimate_p_correct(
        hydra, SECOND, witnesses=batch.witnesses, answer_ids=(YES, NO), prompt_length=6
    )
    expected = [
        ask_slowly(head, ids, witness, n_trunk=3 - heads_depth)
        for ids, witness in zip(SECOND, batch.witnesses, strict=True)
    ]
    assert got == pytest.approx(expected, abs=1e-5)
    assert max(got) - min(got) > 0.01
    unaware = estimate_p_correct(
        hydra,
        SECOND,
        witnesses=torch.zeros_like(batch.witnesses),
        answer_ids=(YES, NO),
        prompt_length=6,
    )
    assert unaware != pytest.approx(expected, abs=1e-3)


def test_swapping_the_answers_gives_the_complement() -> None:
    _, _, hydra = build_unsure(2)
    witnesses = torch.ones(4, 16)
    yes, no = (
        estimate_p_correct(hydra, SECOND, witnesses=witnesses, answer_ids=ids, prompt_length=6)
        for ids in ((YES, NO), (NO, YES))
    )
    assert [a + b for a, b in zip(yes, no, strict=True)] == pytest.approx([1.0] * 4)


def unsure_refusal(**changes: Any) -> str:
    arguments: dict[str, Any] = {
        "model": build_unsure(2)[2],
        "prompts": SECOND,
        "witnesses": torch.zeros(4, 16),
        "answer_ids": (YES, NO),
        "prompt_length": 6,
        **changes,
    }
    with pytest.raises(InputError) as raised:
        estimate_p_correct(**arguments)
    return str(raised.value)


def test_correctness_prompts_that_do_not_fit_are_refused() -> None:
    assert re.search(r" \[3, 5, 1, 2\] .* 4 .* 1 to 4\b", unsure_refusal(prompt_length=4))
    assert re.search(r" 4 .* 3 witnesses;", unsure_refusal(witnesses=torch.zeros(3, 16)))
    assert "[0, 1, 1, 1]" in unsure_refusal(prompts=[(), (1,), (1,), (1,)])


def test_without_an_uncertainty_head_there_is_no_p_correct() -> None:
    model = build_model()
    hydra = HydraModel(model, n_tokens=20, heads_depth=2, adapters=build_adapters(model))
    assert "uncertainty head;" in unsure_refusal(model=hydra)


def test_a_broken_uncertainty_head_is_an_error() -> None:
    _, _, hydra = build_unsure(2)
    with pytest.raises(GenerationError, match=r"uncertainty head.*NaN"):
        estimate_p_correct(
            hydra,
            SECOND,
            witnesses=torch.full((4, 16), float("nan")),
            answer_ids=(YES, NO),
            prompt_length=6,
        )


class SpellingTokenizer:
    """Writes every letter as so many tokens."""

    def __init__(self, n_tokens: int) -> None:
        self.n_tokens = n_tokens

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(text)] * self.n_tokens


def test_the_answers_are_one_token_each() -> None:
    assert answer_ids(SpellingTokenizer(1)) == (65, 66)
    with pytest.raises(InputError, match=r"'A' .*\b2 .*'B' .*\b2;"):
        answer_ids(SpellingTokenizer(2))
