"""The law of whole responses, over tens of thousands of seeds."""

from itertools import product

import pytest
import torch
from torch import Tensor

from tournament_assets.generation.models.chat_prompts import EncodedPrompt

from .hydra_builders import answer, build_adapters, build_model, poe_settings, put_heads_on
from .reference_decoder import jury_distribution, merge_heads, next_logits, softmax
from .statistics_of_draws import p_value

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
    assert p_value(counts.flatten(), drafts.flatten()) < 1e-12
    by_head = counts.sum(dim=(1, 2, 3))
    assert p_value(by_head, torch.ones(N_HEADS) / N_HEADS) > 1e-3
