"""One head per prompt, without a jury: a drawn head or the base model."""

from collections.abc import Iterator

import pytest
import torch
from transformers import Olmo2ForCausalLM

from tournament_assets.generation.hydra.decoded import DecodingMode
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.loading import LoadedEntrant
from tournament_assets.generation.models.base_models import decoding_threads
from tournament_assets.generation.models.chat_prompts import EncodedPrompt
from tournament_assets.generation.responding import generate_responses
from tournament_assets.tournament.prompts import Prompt, prompt_seed

from .hydra_builders import (
    RAGGED,
    answer,
    ask,
    build_adapters,
    build_model,
    poe_settings,
    put_heads_on,
    solo_settings,
)
from .reference_decoder import merge_heads, speak_slowly

N_TOKENS = 20  # of 23 rows in the vocabulary


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with decoding_threads(1), torch.inference_mode():
        yield


@pytest.fixture
def plain() -> Olmo2ForCausalLM:
    return build_model()


@pytest.fixture
def hydra(plain: Olmo2ForCausalLM) -> HydraModel:
    return put_heads_on(plain, build_adapters(plain), n_tokens=N_TOKENS)


@pytest.mark.parametrize("n_adapters", [1, 2])
def test_a_bypassed_jury_lets_one_drawn_head_speak_alone(
    plain: Olmo2ForCausalLM, hydra: HydraModel, n_adapters: int
) -> None:
    heads = merge_heads(plain, build_adapters(plain)[:n_adapters])
    settings = solo_settings(DecodingMode.BYPASS_JURY, n_adapters=n_adapters)
    for response, prompt in zip(answer(hydra, RAGGED, settings), RAGGED, strict=True):
        assert response.head is not None
        slow = speak_slowly(
            heads[response.head], prompt, n_tokens=N_TOKENS, max_new_tokens=8, temperature=0.98
        )
        assert list(response.token_ids) == slow
        assert response.verified is None
        assert response.mean_entropy is None
        assert response.resampled_positions == ()
        assert response.replacements == ()


def test_the_same_head_is_drawn_with_and_without_its_jury(hydra: HydraModel) -> None:
    alone = answer(hydra, RAGGED, solo_settings(DecodingMode.BYPASS_JURY))
    verified = answer(hydra, RAGGED, poe_settings())
    assert [one.head for one in alone] == [one.head for one in verified]


def test_the_base_model_uses_no_lora_and_draws_no_head(
    plain: Olmo2ForCausalLM, hydra: HydraModel
) -> None:
    settings = solo_settings(DecodingMode.BASE)
    for response, prompt in zip(answer(hydra, RAGGED, settings), RAGGED, strict=True):
        slow = speak_slowly(plain, prompt, n_tokens=N_TOKENS, max_new_tokens=8, temperature=0.98)
        assert list(response.token_ids) == slow
        assert response.head is None


def test_a_model_without_heads_still_speaks_as_the_base_model(plain: Olmo2ForCausalLM) -> None:
    hydra = HydraModel(plain, n_tokens=N_TOKENS, heads_depth=1)
    (response,) = answer(hydra, RAGGED[:1], solo_settings(DecodingMode.BASE))
    assert len(response.token_ids) == 8


def test_ghost_tokens_are_never_written(plain: Olmo2ForCausalLM) -> None:
    weights = plain.lm_head.weight.clone()
    plain.lm_head.weight[N_TOKENS:] = 50 * weights[:3]
    try:
        loud = put_heads_on(plain, build_adapters(plain), n_tokens=N_TOKENS)
        whole = put_heads_on(plain, build_adapters(plain))
        prompts = ask(*[(n,) for n in range(N_TOKENS)])
        for settings in (poe_settings(), solo_settings(DecodingMode.BASE, temperature=None)):
            written = {t for r in answer(loud, prompts, settings) for t in r.token_ids}
            assert max(written) < N_TOKENS
            written = {t for r in answer(whole, prompts, settings) for t in r.token_ids}
            assert max(written) >= N_TOKENS  # they would have been written
    finally:
        plain.lm_head.weight.copy_(weights)


def test_the_bundled_checkpoint_answers_as_it_does_as_a_plain_entrant(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    plain = {
        response.prompt_id: response
        for batch in generate_responses(tiny, bank[:6], batch_size=6)
        for response in batch
    }
    prompts = [
        EncodedPrompt(
            ids=tuple(
                tiny.tokenizer.apply_chat_template(
                    [{"role": "user", "content": prompt.text}],
                    add_generation_prompt=True,
                    return_dict=True,
                )["input_ids"]
            ),
            seed=prompt_seed(prompt.prompt_id),
        )
        for prompt in bank[:6]
    ]
    hydra = HydraModel(tiny.model, n_tokens=len(tiny.tokenizer), heads_depth=3)
    settings = solo_settings(
        DecodingMode.BASE, temperature=None, max_new_tokens=96, eos_ids=tiny.eos_ids
    )
    for prompt, response in zip(
        bank, answer(hydra, prompts, settings, prompt_length=64), strict=False
    ):
        text = tiny.tokenizer.decode(response.token_ids, skip_special_tokens=True).strip()
        expected = plain[prompt.prompt_id]
        assert (text, response.finish_reason) == (expected.text, expected.finish_reason)
        assert len(response.token_ids) == expected.response_tokens
