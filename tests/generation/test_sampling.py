import pytest
import torch
from torch import Tensor

from tournament_assets.generation.vanilla_responding import TokenPicker, draw_tokens, draw_uniforms
from tournament_assets.tournament.errors import GenerationError

LOGITS = torch.tensor([0.0, 1.0, -1.0, 2.0, 0.5, -3.0])
CHI_SQUARE_999_OF_5 = 20.515  # the 99.9 % quantile with five degrees of freedom


def chi_square(tokens: Tensor, probabilities: Tensor) -> float:
    observed = torch.bincount(tokens, minlength=probabilities.numel())
    expected = probabilities * tokens.numel()
    return float(((observed - expected) ** 2 / expected).sum())


def draw_many(temperature: float, n_draws: int = 200_000) -> Tensor:
    uniforms = draw_uniforms([20261122], n_positions=n_draws)[0]
    logits = LOGITS.expand(n_draws, -1)
    return draw_tokens(logits, uniforms=uniforms, temperature=temperature)


def picker(
    logits_shape: tuple[int, int], *, n_tokens: int, temperature: float | None
) -> TokenPicker:
    uniforms = None
    if temperature is not None:
        uniforms = draw_uniforms(range(logits_shape[0]), n_positions=8)
    return TokenPicker(
        n_tokens=n_tokens, prompt_length=4, temperature=temperature, uniforms=uniforms
    )


def test_tokens_are_drawn_with_the_probabilities_of_the_softmax() -> None:
    expected = (LOGITS.double() / 1.3).softmax(dim=0)
    assert chi_square(draw_many(1.3), expected) < CHI_SQUARE_999_OF_5


def test_the_same_check_rejects_a_slightly_different_temperature() -> None:
    expected = (LOGITS.double() / 1.27).softmax(dim=0)
    assert chi_square(draw_many(1.3), expected) > CHI_SQUARE_999_OF_5


def test_a_token_is_the_inverse_of_the_cumulative_distribution() -> None:
    logits = torch.tensor([0.5, 0.3, 0.2]).log().expand(6, -1)
    uniforms = torch.tensor([0.0, 0.49, 0.51, 0.79, 0.81, 0.99], dtype=torch.float64)
    tokens = draw_tokens(logits, uniforms=uniforms, temperature=1.0)
    assert tokens.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_masked_token_is_not_drawn_even_by_the_extreme_numbers() -> None:
    masked = float("-inf")
    logits = torch.tensor([[masked, 0.1, 0.7, masked], [masked, 0.1, 0.7, masked]])
    extremes = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    assert draw_tokens(logits, uniforms=extremes, temperature=1.0).tolist() == [1, 2]


def test_a_vanishing_temperature_draws_the_most_probable_token() -> None:
    for temperature in (1e-2, 1e-308):
        assert set(draw_many(temperature, n_draws=1000).tolist()) == {3}


def test_a_seed_always_gives_the_same_numbers_and_another_gives_others() -> None:
    torch.rand(3)  # what happened to the global generator before must not matter
    first = draw_uniforms([1, 2], n_positions=20)
    again = draw_uniforms([2, 1], n_positions=20)
    assert torch.equal(first, again.flip(0))
    assert not torch.equal(first[0], first[1])
    assert first.dtype == torch.float64


def test_a_longer_response_begins_with_the_numbers_of_a_shorter_one() -> None:
    longest = draw_uniforms([1], n_positions=300)
    for n_positions in (1, 7, 16, 33, 256):
        shorter = draw_uniforms([1], n_positions=n_positions)
        assert torch.equal(shorter, longest[:, :n_positions])


def test_drawing_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    draw_uniforms([1], n_positions=20)
    draw_many(0.7, n_draws=10)
    assert torch.equal(torch.get_rng_state(), before)


def test_ghost_rows_of_the_vocabulary_are_never_picked() -> None:
    scores = torch.zeros(200, 6)
    scores[:, 4:] = 50.0  # the ghosts are by far the most probable
    prompt = torch.zeros(200, 4, dtype=torch.long)
    for temperature in (None, 1.0, 5.0):
        picked = picker((200, 6), n_tokens=4, temperature=temperature)(prompt, scores)
        assert picked.argmax(dim=-1).max() < 4
        assert torch.isneginf(picked[:, 4:]).all()


def test_greedy_decoding_keeps_the_logits_of_real_tokens() -> None:
    scores = LOGITS.expand(2, -1)
    picked = picker((2, 6), n_tokens=5, temperature=None)(torch.zeros(2, 4), scores)
    assert torch.equal(picked[:, :5], scores[:, :5])


def test_each_position_uses_its_own_number() -> None:
    sampler = picker((1, 6), n_tokens=6, temperature=1.0)
    assert sampler.uniforms is not None
    for position in range(8):
        so_far = torch.zeros(1, 4 + position, dtype=torch.long)
        expected = draw_tokens(
            LOGITS[None], uniforms=sampler.uniforms[:, position], temperature=1.0
        )
        picked = sampler(so_far, LOGITS[None])
        assert picked.argmax(dim=-1).tolist() == expected.tolist()
        assert int(picked.isfinite().sum()) == 1


def test_logits_that_are_no_numbers_are_refused() -> None:
    for broken in (float("nan"), float("inf")):
        scores = LOGITS.clone()[None]
        scores[0, 2] = broken
        for temperature in (None, 1.0):
            with pytest.raises(GenerationError, match="hold NaN or infinity"):
                picker((1, 6), n_tokens=6, temperature=temperature)(torch.zeros(1, 4), scores)


def test_sampling_needs_numbers_to_sample_with() -> None:
    with pytest.raises(ValueError, match="both given or both None"):
        TokenPicker(n_tokens=4, prompt_length=4, temperature=1.0, uniforms=None)
