import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Olmo2ForCausalLM

from tournament_assets.generation.hydra.decoding import decode
from tournament_assets.generation.hydra.hydra_model import (
    HydraModel,
    answer_ids,
    estimate_p_correct,
)
from tournament_assets.generation.hydra.shards import HeadShards, head_shape
from tournament_assets.generation.models.base_models import decoding_threads
from tournament_assets.tournament.errors import GenerationError, InputError

from .hydra_builders import RAGGED, build_adapters, build_model, build_shards, poe_settings
from .reference_decoder import merge_heads

YES, NO = 11, 12
SECOND = [(9, 9, 1), (4, 2, 7, 7, 7), (0,), (3, 1)]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with decoding_threads(1), torch.inference_mode():
        yield


def build(heads_depth: int) -> tuple[Olmo2ForCausalLM, HeadShards, HydraModel]:
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
    model, uncertainty, hydra = build(heads_depth)
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
    _, _, hydra = build(2)
    witnesses = torch.ones(4, 16)
    yes, no = (
        estimate_p_correct(hydra, SECOND, witnesses=witnesses, answer_ids=ids, prompt_length=6)
        for ids in ((YES, NO), (NO, YES))
    )
    assert [a + b for a, b in zip(yes, no, strict=True)] == pytest.approx([1.0] * 4)


def refusal(**changes: Any) -> str:
    arguments: dict[str, Any] = {
        "model": build(2)[2],
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
    assert "of [3, 5, 1, 2] tokens for 4 witnesses; expected one each, of 1 to 4" in refusal(
        prompt_length=4
    )
    assert "there are 4 correctness prompts" in refusal(witnesses=torch.zeros(3, 16))
    assert "of [0, 1, 1, 1] tokens" in refusal(prompts=[(), (1,), (1,), (1,)])


def test_without_an_uncertainty_head_there_is_no_p_correct() -> None:
    model = build_model()
    hydra = HydraModel(model, n_tokens=20, heads_depth=2, adapters=build_adapters(model))
    assert "expected an uncertainty head; name the files" in refusal(model=hydra)


def test_a_broken_uncertainty_head_is_an_error() -> None:
    _, _, hydra = build(2)
    with pytest.raises(GenerationError, match="uncertainty head's logits hold NaN or infinity"):
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
    with pytest.raises(InputError, match="writes 'A' as 2 tokens and 'B' as 2; expected one each"):
        answer_ids(SpellingTokenizer(2))
