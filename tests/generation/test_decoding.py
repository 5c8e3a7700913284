"""Batches decoded with caches, against one prompt at a time decoded without."""

import math
import random
from collections.abc import Iterator

import pytest
import torch
from transformers import Olmo2ForCausalLM

from tournament_assets.generation.hydra.decoded import Decoded, DecodingMode, DecodingSettings
from tournament_assets.generation.hydra.decoding import decode
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.models.base_models import decoding_threads

from .hydra_builders import (
    RAGGED,
    answer,
    ask,
    build_adapters,
    build_model,
    poe_settings,
    put_heads_on,
    repeat_first_head,
    solo_settings,
)
from .reference_decoder import SlowResponse, decode_slowly, merge_heads, speak_slowly

N_TOKENS = 20  # of 23 rows in the vocabulary


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with decoding_threads(1), torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def plain() -> Olmo2ForCausalLM:
    return build_model()


@pytest.fixture(scope="module")
def hydra(plain: Olmo2ForCausalLM) -> HydraModel:
    return put_heads_on(plain, build_adapters(plain), n_tokens=N_TOKENS)


@pytest.fixture(scope="module")
def merged(plain: Olmo2ForCausalLM) -> list[Olmo2ForCausalLM]:
    return merge_heads(plain, build_adapters(plain))


@pytest.fixture(scope="module")
def untrained(plain: Olmo2ForCausalLM) -> HydraModel:
    """Nine heads whose LoRA is zero."""
    return put_heads_on(plain, build_adapters(plain, n_heads=9, size=0.0))


def assert_same(fast: Decoded, slow: SlowResponse) -> None:
    assert fast.verified is not None
    assert fast.head == slow.head
    assert list(fast.token_ids) == slow.tokens
    assert [token.token for token in fast.verified] == slow.tokens
    assert [token.draft for token in fast.verified] == slow.drafts
    assert [token.resampled for token in fast.verified] == slow.resampled
    assert [token.votes for token in fast.verified] == slow.votes
    assert [token.entropy for token in fast.verified] == pytest.approx(slow.entropies, abs=1e-4)
    assert [token.overlap for token in fast.verified] == pytest.approx(slow.overlaps, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.98, 0.5, None])
@pytest.mark.parametrize("beta", [1.0, 1 / 8])
def test_ragged_batches_equal_the_slow_decoder_token_by_token(
    hydra: HydraModel,
    merged: list[Olmo2ForCausalLM],
    beta: float,
    temperature: float | None,
) -> None:
    settings = poe_settings(beta=beta, temperature=temperature)
    for fast, prompt in zip(answer(hydra, RAGGED, settings), RAGGED, strict=True):
        slow = decode_slowly(
            merged,
            prompt,
            n_tokens=N_TOKENS,
            max_new_tokens=8,
            temperature=temperature,
            beta=beta,
        )
        assert_same(fast, slow)


def test_those_comparisons_see_rejected_and_accepted_drafts(hydra: HydraModel) -> None:
    responses = answer(hydra, RAGGED, poe_settings())
    n_resampled = sum(len(response.resampled_positions) for response in responses)
    assert 5 < n_resampled < 25  # of 32
    assert len({response.head for response in responses}) > 1


@pytest.mark.parametrize("gamma", [2, 3, 4, 8])
@pytest.mark.parametrize("beta", [1.0, 1 / 8])
def test_drafting_ahead_changes_no_token_and_no_flag(
    hydra: HydraModel, beta: float, gamma: int
) -> None:
    prompts = [*RAGGED, *ask((4, 4), (1, 2, 3, 4, 5, 6, 7, 8), seed=7)]
    settings = poe_settings(beta=beta, max_new_tokens=11, eos_ids=(6,))
    lockstep = answer(hydra, prompts, settings)
    ahead = answer(
        hydra, prompts, poe_settings(beta=beta, max_new_tokens=11, eos_ids=(6,), gamma=gamma)
    )
    assert {response.finish_reason for response in lockstep} == {"stop", "length"}
    for one, several in zip(lockstep, ahead, strict=True):
        assert one.verified is not None
        assert several.verified is not None
        assert one.token_ids == several.token_ids
        assert one.finish_reason == several.finish_reason
        for in_lockstep, drafted in zip(one.verified, several.verified, strict=True):
            assert in_lockstep.draft == drafted.draft
            assert in_lockstep.resampled == drafted.resampled
            assert in_lockstep.votes == drafted.votes
            assert in_lockstep.entropy == pytest.approx(drafted.entropy, abs=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        poe_settings(),
        poe_settings(gamma=3, eos_ids=(6, 7)),
        solo_settings(DecodingMode.BYPASS_JURY),
        solo_settings(DecodingMode.BASE),
    ],
)
def test_a_response_is_bit_equal_whatever_shares_its_batch(
    hydra: HydraModel, settings: DecodingSettings
) -> None:
    prompts = [*RAGGED, *ask((4, 4), (1, 2, 3), seed=7)]
    together = dict(zip(prompts, answer(hydra, prompts, settings, n_rows=7), strict=True))
    for seed in range(4):
        some = random.Random(seed).sample(prompts, 3 + seed % 3)
        assert answer(hydra, some, settings, n_rows=7) == tuple(together[one] for one in some)
    for prompt in prompts:
        assert answer(hydra, [prompt], settings, n_rows=7) == (together[prompt],)


def test_in_bfloat16_too_a_response_is_bit_equal_whatever_shares_its_batch() -> None:
    model = build_model().bfloat16()
    hydra = put_heads_on(model, build_adapters(model), n_tokens=N_TOKENS)
    together = answer(hydra, RAGGED, poe_settings(), n_rows=5)
    assert answer(hydra, RAGGED[::-1], poe_settings(), n_rows=5) == together[::-1]
    for prompt, response in zip(RAGGED, together, strict=True):
        assert answer(hydra, [prompt], poe_settings(), n_rows=5) == (response,)


def test_a_longer_cap_continues_a_response_and_changes_nothing_before(hydra: HydraModel) -> None:
    longest = answer(hydra, RAGGED, poe_settings(max_new_tokens=12))
    for cap in (1, 5, 11):
        for gamma in (1, 4):
            shorter = answer(hydra, RAGGED, poe_settings(max_new_tokens=cap, gamma=gamma))
            for short, long in zip(shorter, longest, strict=True):
                assert short.token_ids == long.token_ids[:cap]
                assert short.finish_reason == "length"


def test_identical_heads_with_beta_one_eighth_never_reject_and_sample_as_one_head(
    plain: Olmo2ForCausalLM,
) -> None:
    adapters = [repeat_first_head(shards) for shards in build_adapters(plain, n_heads=9)]
    hydra = put_heads_on(plain, adapters)
    (one_head,) = merge_heads(plain, build_adapters(plain, n_heads=9))[:1]
    prompts = [*RAGGED, *ask(*[(3, n) for n in range(20)], seed=500)]
    responses = answer(hydra, prompts, poe_settings(beta=1 / 8))
    alone = answer(hydra, prompts, solo_settings(DecodingMode.BYPASS_JURY))
    for response, bypassed, prompt in zip(responses, alone, prompts, strict=True):
        assert response.resampled_positions == ()
        assert response.token_ids == bypassed.token_ids
        slow = speak_slowly(one_head, prompt, n_tokens=23, max_new_tokens=8, temperature=0.98)
        assert list(response.token_ids) == slow
    sharper = answer(hydra, prompts, poe_settings(beta=1.0))
    assert any(response.resampled_positions for response in sharper)


@pytest.mark.parametrize("temperature", [None, 1e-4])
def test_without_temperature_heads_with_zero_lora_write_what_generate_writes(
    plain: Olmo2ForCausalLM, untrained: HydraModel, temperature: float | None
) -> None:
    settings = [
        poe_settings(temperature=temperature),
        poe_settings(temperature=temperature, gamma=4),
        solo_settings(DecodingMode.BYPASS_JURY, temperature=temperature),
        solo_settings(DecodingMode.BASE, temperature=temperature),
    ]
    for prompt in RAGGED:
        ids = torch.tensor([prompt.ids])
        written = plain.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=8,
            pad_token_id=0,
        )[0, ids.shape[1] :].tolist()
        for each in settings:
            (response,) = answer(untrained, [prompt], each)
            assert list(response.token_ids) == written
            assert response.resampled_positions == ()


def test_greedy_entropy_is_zero_and_every_disagreement_is_replaced(hydra: HydraModel) -> None:
    responses = answer(hydra, RAGGED, poe_settings(temperature=None))
    tokens = [token for response in responses for token in response.verified or ()]
    assert {token.entropy for token in tokens} == {0.0}
    assert any(token.resampled for token in tokens)
    for token in tokens:
        assert token.resampled == (token.token != token.draft)
        assert (token.overlap, token.suppression) == ((0, 1) if token.resampled else (1, 0))


@pytest.mark.parametrize(
    "mode", [DecodingMode.BASE, DecodingMode.BYPASS_JURY, DecodingMode.FULL_POE]
)
@pytest.mark.parametrize("gamma", [1, 4])
def test_stopping_at_an_end_token_is_truncating_a_run_without_it(
    hydra: HydraModel, mode: DecodingMode, gamma: int
) -> None:
    def settings(*eos_ids: int) -> DecodingSettings:
        if mode is DecodingMode.FULL_POE:
            return poe_settings(gamma=gamma, eos_ids=eos_ids)
        return solo_settings(mode, eos_ids=eos_ids)

    endless = answer(hydra, RAGGED, settings())
    assert {response.finish_reason for response in endless} == {"length"}
    for end in {token for response in endless for token in response.token_ids}:
        for stopped, whole in zip(answer(hydra, RAGGED, settings(end, 21)), endless, strict=True):
            if end not in whole.token_ids:
                assert stopped == whole
                continue
            length = whole.token_ids.index(end) + 1
            assert stopped.token_ids == whole.token_ids[:length]
            assert stopped.finish_reason == "stop"
            if whole.verified is not None:
                assert stopped.verified == whole.verified[:length]


def test_a_response_tells_what_its_jury_made_of_it(hydra: HydraModel) -> None:
    (response,) = answer(hydra, RAGGED[:1], poe_settings())
    assert response.verified is not None
    resampled = [n for n, token in enumerate(response.verified) if token.resampled]
    assert list(response.resampled_positions) == resampled != []
    assert response.replacements == tuple(
        (response.verified[n].draft, response.token_ids[n]) for n in resampled
    )
    assert all(draft != replacement for draft, replacement in response.replacements)
    entropies = [token.entropy for token in response.verified]
    assert response.mean_entropy == pytest.approx(sum(entropies) / len(entropies))
    assert response.p_correct is None
    for token in response.verified:
        assert 0 <= token.entropy <= math.log(N_TOKENS)
        assert 0 <= token.overlap <= 1 + 1e-12
        assert 0 <= token.suppression <= 1
        assert token.resampled <= (token.suppression > 0)
        assert len(token.votes) == 3
        assert token.stability_radius == token.margin // 2
        assert (token.validity_radius == 0) <= (token.token in token.votes)


def test_witnesses_are_what_the_drawn_heads_pass_to_the_final_norm(
    hydra: HydraModel, merged: list[Olmo2ForCausalLM]
) -> None:
    for settings in (
        poe_settings(),
        poe_settings(gamma=2),
        solo_settings(DecodingMode.BYPASS_JURY),
    ):
        batch = decode(hydra, RAGGED, settings, n_rows=6, prompt_length=8)
        assert batch.witnesses.shape == (4, 16)
        for prompt, response, witness in zip(RAGGED, batch.responses, batch.witnesses, strict=True):
            assert response.head is not None
            head = merged[response.head].model
            seen: list[torch.Tensor] = []
            hook = head.norm.register_forward_pre_hook(
                lambda _, args, seen=seen: seen.append(args[0])
            )
            head(torch.tensor([prompt.ids]))
            hook.remove()
            torch.testing.assert_close(witness, seen[0][0, -1], atol=1e-5, rtol=0)
