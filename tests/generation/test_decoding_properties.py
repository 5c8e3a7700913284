"""Random small models under random settings, against the slow decoder."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tournament_assets.generation.hydra.decoded import DecodingMode
from tournament_assets.generation.models.base_models import decoding_threads
from tournament_assets.generation.models.chat_prompts import EncodedPrompt

from .hydra_builders import (
    answer,
    build_adapters,
    build_model,
    poe_settings,
    put_heads_on,
    solo_settings,
)
from .reference_decoder import (
    decode_slowly,
    jury_distribution,
    merge_heads,
    next_logits,
    softmax,
    speak_slowly,
)
from .statistics_of_draws import p_value

VOCABULARY = 13
TOKENS = st.integers(0, VOCABULARY - 1)
PROMPTS = st.lists(
    st.builds(
        EncodedPrompt,
        ids=st.lists(TOKENS, min_size=1, max_size=6).map(tuple),
        seed=st.integers(0, 2**32 - 1),
    ),
    min_size=1,
    max_size=3,
)


@given(
    model_seed=st.integers(0, 10**6),
    n_heads=st.integers(1, 9),
    heads_depth=st.integers(1, 3),
    beta=st.sampled_from([1.0, 0.125, 0.4]),
    temperature=st.sampled_from([None, 0.98, 0.3]),
    max_new_tokens=st.integers(1, 6),
    eos_ids=st.sets(TOKENS, max_size=3).map(tuple),
    n_ghosts=st.integers(0, 2),
    n_dummies=st.integers(0, 2),
    prompts=PROMPTS,
)
def test_any_batch_of_any_model_is_decoded_as_slowly_one_by_one(
    model_seed: int,
    n_heads: int,
    heads_depth: int,
    beta: float,
    temperature: float | None,
    max_new_tokens: int,
    eos_ids: tuple[int, ...],
    n_ghosts: int,
    n_dummies: int,
    prompts: list[EncodedPrompt],
) -> None:
    model = build_model(
        n_layers=3, hidden_size=8, vocab_size=VOCABULARY + n_ghosts, seed=model_seed
    )
    adapters = build_adapters(model, n_heads=n_heads, heads_depth=heads_depth)
    hydra = put_heads_on(model, adapters, n_tokens=VOCABULARY)
    if n_heads > 1:
        chosen = poe_settings(
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            beta=beta,
            eos_ids=eos_ids,
        )
    else:
        chosen = solo_settings(
            DecodingMode.BYPASS_JURY,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            eos_ids=eos_ids,
        )
    with decoding_threads(1), torch.inference_mode():
        heads = merge_heads(model, adapters)
        responses = answer(hydra, prompts, chosen, n_rows=len(prompts) + n_dummies, prompt_length=6)
        assert len(responses) == len(prompts)
        for response, prompt in zip(responses, prompts, strict=True):
            if n_heads == 1:
                tokens = speak_slowly(
                    heads[0],
                    prompt,
                    n_tokens=VOCABULARY,
                    max_new_tokens=max_new_tokens,
                    temperature=temperature,
                )
                end = next((n for n, token in enumerate(tokens) if token in eos_ids), None)
                assert list(response.token_ids) == tokens[: None if end is None else end + 1]
                continue
            slow = decode_slowly(
                heads,
                prompt,
                n_tokens=VOCABULARY,
                max_new_tokens=max_new_tokens,
                temperature=temperature,
                beta=beta,
                eos_ids=eos_ids,
            )
            assert response.verified is not None
            assert response.head == slow.head
            assert list(response.token_ids) == slow.tokens
            assert [token.resampled for token in response.verified] == slow.resampled
            assert [token.draft for token in response.verified] == slow.drafts
            assert [token.entropy for token in response.verified] == pytest.approx(
                slow.entropies, abs=1e-3
            )
            stopped = slow.tokens[-1] in eos_ids
            assert response.finish_reason == ("stop" if stopped else "length")


N_DRAWS = 60_000
N_HEADS = 3
N_TOKENS = 4
LENGTH = 3
PROMPT = (2, 0, 3)
TEMPERATURE = 0.98
CELLS = (N_HEADS, *[N_TOKENS] * LENGTH)


@pytest.fixture(scope="module")
def laws() -> tuple[Tensor, Tensor]:
    """The joint law of drawn head and three tokens: the jury's and the drafts', each of CELLS."""
    model = build_model(vocab_size=N_TOKENS, hidden_size=8, n_layers=2, sharpness=0.12)
    heads = merge_heads(model, build_adapters(model, n_heads=N_HEADS, heads_depth=1))
    jury, drafts = torch.ones(CELLS).double() / N_HEADS, torch.ones(CELLS).double() / N_HEADS
    with torch.inference_mode():
        for length in range(LENGTH):
            for prefix in product(range(N_TOKENS), repeat=length):
                logits = [next_logits(head, [*PROMPT, *prefix], N_TOKENS) for head in heads]
                for drawn in range(N_HEADS):
                    p = jury_distribution(logits, drawn=drawn, beta=1.0, temperature=TEMPERATURE)
                    q = softmax(logits[drawn], TEMPERATURE)
                    for law, distribution in ((jury, p), (drafts, q)):
                        for token in range(N_TOKENS):
                            law[(drawn, *prefix, token)] *= distribution[token]
    return jury, drafts


def count_responses() -> tuple[Tensor, float]:
    """Decode one prompt under many seeds; return the counts and the share of replaced drafts."""
    model = build_model(vocab_size=N_TOKENS, hidden_size=8, n_layers=2, sharpness=0.12)
    adapters = build_adapters(model, n_heads=N_HEADS, heads_depth=1)
    prompts = [EncodedPrompt(ids=PROMPT, seed=seed) for seed in range(N_DRAWS)]
    settings = poe_settings(max_new_tokens=LENGTH, temperature=TEMPERATURE)
    responses = answer(put_heads_on(model, adapters), prompts, settings, prompt_length=len(PROMPT))
    counts = torch.zeros(CELLS, dtype=torch.long)
    cells = torch.tensor([[response.head or 0, *response.token_ids] for response in responses])
    counts.index_put_(tuple(cells.T), torch.tensor(1), accumulate=True)
    n_resampled = sum(len(response.resampled_positions) for response in responses)
    return counts, n_resampled / (N_DRAWS * LENGTH)


def test_three_tokens_have_the_joint_law_of_the_jury_and_not_that_of_the_drafts(
    laws: tuple[Tensor, Tensor],
) -> None:
    jury, drafts = laws
    for law in laws:
        assert float(law.sum()) == pytest.approx(1)
    counts, resampled = count_responses()
    assert int(counts.sum()) == N_DRAWS
    assert 0.1 < resampled < 0.9
    assert p_value(counts.flatten(), jury.flatten()) > 0.01
    assert p_value(counts.flatten(), drafts.flatten()) < 1e-9
    by_head = counts.sum(dim=(1, 2, 3))
    assert p_value(by_head, torch.ones(N_HEADS) / N_HEADS) > 1e-3
