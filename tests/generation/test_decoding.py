"""Batches decoded with caches, against one prompt at a time decoded without."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from transformers import Olmo2ForCausalLM

from benchmarks.decoded_batches import decode
from tournament_assets.generation.hydra import rounds
from tournament_assets.generation.hydra.decoded import Decoded, DecodingMode, DecodingSettings
from tournament_assets.generation.hydra.decoding import CapturedRounds, RandomNumbers, draw_numbers
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.loading import LoadedEntrant
from tournament_assets.generation.responding import generate_responses
from tournament_assets.tournament.prompts import Prompt

from .builders import Settle, describe
from .hydra_builders import (
    RAGGED,
    CountingRecorder,
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
from .statistics_of_draws import p_value

N_TOKENS = 20  # of 23 rows in the vocabulary
QUANTISED = SimpleNamespace(is_compileable=False)


pytestmark = pytest.mark.usefixtures("inference")


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


@pytest.mark.parametrize(
    "settings",
    [
        poe_settings(),
        poe_settings(eos_ids=(6, 7)),
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


def test_in_bfloat16_too_a_response_is_the_same_whatever_shares_its_batch() -> None:
    """But for rounding: some kernels of MKL (MKL_CBWR=COMPATIBLE) round a row by its place."""

    def told(responses: Sequence[Decoded]) -> list[tuple[object, ...]]:
        return [
            (response.token_ids, response.head, token.draft, token.resampled, token.votes)
            for response in responses
            for token in response.verified or ()
        ]

    def entropies(responses: Sequence[Decoded]) -> list[float]:
        return [token.entropy for response in responses for token in response.verified or ()]

    model = build_model().bfloat16()
    hydra = put_heads_on(model, build_adapters(model), n_tokens=N_TOKENS)
    together = answer(hydra, RAGGED, poe_settings(), n_rows=5)
    backwards = answer(hydra, RAGGED[::-1], poe_settings(), n_rows=5)[::-1]
    alone = [answer(hydra, [prompt], poe_settings(), n_rows=5)[0] for prompt in RAGGED]
    for others in (backwards, alone):
        assert told(others) == told(together)
        assert entropies(others) == pytest.approx(entropies(together), abs=1e-7)


def test_a_longer_cap_continues_a_response_and_changes_nothing_before(hydra: HydraModel) -> None:
    longest = answer(hydra, RAGGED, poe_settings(max_new_tokens=12))
    for cap in (1, 5, 11):
        shorter = answer(hydra, RAGGED, poe_settings(max_new_tokens=cap))
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
def test_stopping_at_an_end_token_is_truncating_a_run_without_it(
    hydra: HydraModel, mode: DecodingMode
) -> None:
    def settings(*eos_ids: int) -> DecodingSettings:
        if mode is DecodingMode.FULL_POE:
            return poe_settings(eos_ids=eos_ids)
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
    assert tuple(token.token for token in response.verified) == response.token_ids
    assert all(response.verified[n].draft != response.token_ids[n] for n in resampled)
    for token in response.verified:
        assert 0 <= token.entropy <= math.log(N_TOKENS)
        assert 0 <= token.overlap <= 1 + 1e-9
        assert 0 <= token.suppression <= 1
        assert token.resampled <= (token.suppression > 0)
        assert len(token.votes) == 3


def test_witnesses_are_what_the_drawn_heads_pass_to_the_final_norm(
    hydra: HydraModel, merged: list[Olmo2ForCausalLM]
) -> None:
    for settings in (
        poe_settings(),
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
        assert response.resampled_positions == ()


def test_the_same_head_is_drawn_with_and_without_its_jury(hydra: HydraModel) -> None:
    alone = answer(hydra, RAGGED, solo_settings(DecodingMode.BYPASS_JURY))
    verified = answer(hydra, RAGGED, poe_settings())
    assert [one.head for one in alone] == [one.head for one in verified]


def test_the_base_model_uses_no_lora_and_draws_no_head(
    plain: Olmo2ForCausalLM, hydra: HydraModel
) -> None:
    settings = solo_settings(DecodingMode.BASE)
    for response, prompt in zip(answer(hydra, RAGGED, settings), RAGGED, strict=True):
        slow = speak_slowly(
            plain, prompt, n_tokens=N_TOKENS, max_new_tokens=8, temperature=0.98, is_head=False
        )
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


@pytest.mark.parametrize("temperature", [None, 0.7, 1.5])
def test_a_plain_olmo2_answers_in_captured_rounds_as_generate_answers(
    tiny: LoadedEntrant,
    settle: Settle,
    bank: list[Prompt],
    temperature: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "_STEP", 256)  # as on CUDA
    entrant = settle(describe(temperature=temperature, max_new_tokens=40))
    recorders: list[CountingRecorder] = []

    def recorder(device: torch.device) -> CountingRecorder:
        recorders.append(CountingRecorder(device))
        return recorders[-1]

    captured = CapturedRounds(recorder, compiler="eager")
    prompts = [
        replace(prompt, text=" ".join([prompt.text] * (1 + n % 2)))
        for n, prompt in enumerate(bank[:20])
    ]
    answers = [
        sorted((each for batch in batches for each in batch), key=lambda each: each.prompt_id)
        for batches in (
            generate_responses(entrant, prompts, batch_size=4),
            generate_responses(entrant, prompts, batch_size=4, captured=captured, warn=pytest.fail),
        )
    ]
    # Two padded lengths, and rows that change hands: one memory, in which one round was recorded.
    assert [each.n_recorded for each in recorders] == [1]
    assert answers[1] == [
        replace(each, diagnostics={**each.diagnostics, "compiled": True}) for each in answers[0]
    ]
    assert {each.finish_reason for each in answers[0]} >= {"stop"}


@pytest.mark.parametrize(
    "settings",
    [{"stop": ["ab"]}, {"top_k": 5}, {"repetition_penalty": 1.5}, "spread", "quantised"],
    ids=str,
)
def test_what_only_generate_knows_is_left_to_it(
    tiny: LoadedEntrant,
    bank: list[Prompt],
    settings: dict[str, object] | str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes = settings if isinstance(settings, dict) else {}
    spec = describe(temperature=0.7, max_new_tokens=4).model_copy(update=changes)
    if settings == "quantised":
        monkeypatch.setattr(tiny.model, "hf_quantizer", QUANTISED, raising=False)
    base = replace(tiny.base, is_spread=settings == "spread")
    captured = CapturedRounds(CountingRecorder, compiler="eager")
    ((response,),) = generate_responses(
        replace(tiny, spec=spec, base=base), bank[:1], batch_size=1, captured=captured
    )
    assert "compiled" not in response.diagnostics


def test_a_prompt_always_gets_the_same_numbers_and_another_seed_gets_others() -> None:
    torch.rand(3)  # what happened to the global generator before must not matter
    first = draw_numbers([7, 8], n_positions=5)
    again = draw_numbers([8, 7], n_positions=5)
    assert torch.equal(first.heads, again.heads.flip(0))
    assert torch.equal(first.positions, again.positions.flip(0))
    assert not torch.equal(first.positions[0], first.positions[1])
    assert first.positions.shape == (2, 5, 3)
    assert first.positions.dtype == first.heads.dtype == torch.float64


def test_a_longer_response_begins_with_the_numbers_of_a_shorter_one() -> None:
    longest = draw_numbers([3], n_positions=300)
    for n_positions in (1, 5, 17, 256):
        shorter = draw_numbers([3], n_positions=n_positions)
        assert torch.equal(shorter.heads, longest.heads)
        assert torch.equal(shorter.positions, longest.positions[:, :n_positions])


def test_drawing_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    draw_numbers([3], n_positions=20)
    assert torch.equal(torch.get_rng_state(), before)


def test_every_head_is_drawn_as_often_as_any_other() -> None:
    heads = draw_numbers(range(20_000), n_positions=1).pick_heads(9)
    assert p_value(torch.bincount(heads), torch.ones(9) / 9) > 1e-3


def test_the_largest_number_draws_the_last_head() -> None:
    extremes = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    for n_heads in range(1, 20):
        drawn = RandomNumbers(heads=extremes, positions=torch.empty(2, 0, 3)).pick_heads(n_heads)
        assert drawn.tolist() == [0, n_heads - 1]
