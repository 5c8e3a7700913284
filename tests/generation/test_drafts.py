"""Scores that are computed part by part, against those of the whole vocabulary at once."""

import pytest
import torch

from tournament_assets.generation.hydra.drafts import score_jury
from tournament_assets.generation.hydra.product_of_experts import pick_heads, sum_verifiers
from tournament_assets.generation.models.base_models import decoding_threads

from .hydra_builders import build_adapters, build_model, put_heads_on, randn


def test_a_large_vocabulary_is_scored_in_parts_as_at_once() -> None:
    n_tokens = 4500  # of 4600, in three parts
    model = build_model(vocab_size=4600)
    hydra = put_heads_on(model, build_adapters(model), n_tokens=n_tokens)
    assert [part.stop for part in hydra.parts] == [2048, 4096, n_tokens]
    hidden = randn(3, 80, 16, generator=torch.Generator().manual_seed(3))
    heads = torch.arange(80) % 3
    with decoding_threads(1), torch.inference_mode():
        logits = model.lm_head(model.model.norm(hidden))[..., :n_tokens]
        jury = score_jury(hydra, hidden, heads=heads)
        torch.testing.assert_close(hydra.logits(hidden), logits)
        votes = logits.argmax(dim=-1).T
        assert {int(vote) // 2048 for vote in votes.flatten()} == {0, 1, 2}
        assert torch.equal(jury.votes, votes)
        torch.testing.assert_close(jury.drawn, pick_heads(logits, heads))
        torch.testing.assert_close(
            jury.verifiers, sum_verifiers(logits, heads=heads), atol=1e-4, rtol=0
        )


def test_of_equally_probable_tokens_the_first_gets_the_vote_whatever_its_part() -> None:
    model = build_model(vocab_size=4600)
    model.lm_head.weight[:] = 0
    hydra = put_heads_on(model, build_adapters(model))
    hidden = randn(3, 2, 16, generator=torch.Generator().manual_seed(3))
    votes = score_jury(hydra, hidden, heads=torch.tensor([0, 1])).votes
    assert votes.shape == (2, 3)
    assert not votes.any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_half_precision_heads_are_scored_in_float32_and_the_base_model_as_generate_does(
    dtype: torch.dtype,
) -> None:
    """Rounded to the weights' precision, logits would move votes."""
    model = build_model(vocab_size=4600, sharpness=1.0).to(dtype)
    hydra = put_heads_on(model, build_adapters(model))
    hidden = randn(3, 400, 16, generator=torch.Generator().manual_seed(3)).to(dtype)
    with decoding_threads(1), torch.inference_mode():
        rounded = model.lm_head(model.model.norm(hidden))
        exact = model.model.norm(hidden).double() @ model.lm_head.weight.double().mT
        jury = score_jury(hydra, hidden, heads=torch.zeros(400, dtype=torch.long))
        assert jury.drawn.dtype == hydra.logits(hidden).dtype == torch.float32
        torch.testing.assert_close(hydra.logits(hidden).double(), exact, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(jury.drawn.double(), exact[0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(jury.verifiers, exact[1:].sum(dim=0), atol=1e-4, rtol=0)
        votes = exact.argmax(dim=-1).T
        assert (jury.votes == votes).float().mean() > 0.999
        assert (votes != rounded.argmax(dim=-1).T).any()  # the rounded would not
        assert hydra.plain_logits(hidden).dtype == dtype
        torch.testing.assert_close(hydra.plain_logits(hidden), rounded)
