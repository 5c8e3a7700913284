import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tournament_assets.generation.hydra.product_of_experts import (
    accept_drafts,
    draft_probabilities,
    draw,
    entropies,
    jury_probabilities,
    overlaps,
    pick_heads,
    sum_verifiers,
    suppressions,
    surplus,
)

from .hydra_builders import randn
from .reference_decoder import jury_distribution, softmax
from .statistics_of_draws import p_value


def law(*probabilities: float) -> Tensor:
    return torch.tensor([probabilities], dtype=torch.float64)


def judge(logits: Tensor, *, heads: Tensor, beta: float, temperature: float | None) -> Tensor:
    """P, from the logits of all heads."""
    verifiers = sum_verifiers(logits, heads=heads)
    return jury_probabilities(verifiers, beta=beta, temperature=temperature)


def uniforms(n: int, seed: int = 0) -> Tensor:
    return torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(
    seed=st.integers(0, 10**6),
    n_heads=st.integers(2, 9),
    beta=st.sampled_from([0.125, 0.5, 1.0, 2.0]),
    temperature=st.sampled_from([None, 0.3, 0.98, 2.0]),
    size=st.sampled_from([0.1, 1.0, 20.0]),
)
def test_the_jury_equals_a_product_written_out_over_single_probabilities(
    seed: int, n_heads: int, beta: float, temperature: float | None, size: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = randn(n_heads, 2, 7, generator=generator, size=size)
    heads = torch.randint(n_heads, (2,), generator=generator)
    p = judge(logits, heads=heads, beta=beta, temperature=temperature)
    q = draft_probabilities(pick_heads(logits, heads), temperature=temperature)
    assert p.dtype == q.dtype == torch.float64
    for row, drawn in enumerate(heads.tolist()):
        by_head = logits[:, row].tolist()
        expected = jury_distribution(by_head, drawn=drawn, beta=beta, temperature=temperature)
        assert p[row].tolist() == pytest.approx(expected, abs=1e-9)
        expected = softmax(by_head[drawn], temperature)
        assert q[row].tolist() == pytest.approx(expected, abs=1e-9)


def test_the_drawn_head_does_not_verify_its_own_draft() -> None:
    logits = torch.zeros(3, 1, 4)
    logits[1] = torch.tensor([9.0, 0.0, 0.0, 0.0])
    uniform = judge(logits, heads=torch.tensor([1]), beta=1.0, temperature=1.0)
    assert uniform.tolist() == [[0.25] * 4]


def test_eight_heads_that_agree_on_unsure_tokens_accept_them() -> None:
    logits = torch.zeros(9, 1, 50)  # every head: p = .02 for each of 50 tokens
    heads = torch.tensor([0])
    p = judge(logits, heads=heads, beta=1.0, temperature=0.98)
    q = draft_probabilities(logits[0], temperature=0.98)
    drafts = torch.tensor([17])
    assert overlaps(surplus(p, q)).item() == pytest.approx(1.0)
    assert suppressions(p, q, drafts=drafts).item() == pytest.approx(0.0, abs=1e-9)
    assert entropies(p).item() == pytest.approx(math.log(50))  # 3.9 nats
    # Multiplying probabilities, and dividing by their sum plus a small number, loses all of it.
    products = torch.full((50,), 0.02**8)
    naive = products / (products.sum() + 1e-10)  # the constant that such code adds
    assert float(naive[17]) / 0.02 == pytest.approx(0.013, abs=5e-4)
    assert torch.special.entr(naive).sum().item() == pytest.approx(0.105, abs=5e-3)


def test_eight_agreeing_verifiers_are_as_sharp_as_one_head_at_an_eighth_of_the_temperature() -> (
    None
):
    one = randn(1, 1, 12, generator=torch.Generator().manual_seed(3))
    logits = one.expand(9, -1, -1)
    p = judge(logits, heads=torch.tensor([4]), beta=1.0, temperature=0.98)
    cold = draft_probabilities(one[0], temperature=0.98 / 8)
    torch.testing.assert_close(p, cold)


def test_identical_heads_with_beta_one_eighth_define_what_is_drafted_from() -> None:
    logits = randn(1, 5, 1000, generator=torch.Generator().manual_seed(4)).expand(9, -1, -1)
    heads = torch.tensor([0, 3, 8, 5, 5])
    p = judge(logits, heads=heads, beta=1 / 8, temperature=0.98)
    q = draft_probabilities(logits[0], temperature=0.98)
    torch.testing.assert_close(p, q, rtol=1e-9, atol=0)


def test_greedy_means_that_all_probability_is_on_one_token() -> None:
    logits = torch.tensor([[[0.0, 2.0, 1.0]], [[5.0, 0.0, 0.0]], [[0.0, 0.0, 9.0]]])
    heads = torch.tensor([0])
    q = draft_probabilities(pick_heads(logits, heads), temperature=None)
    p = judge(logits, heads=heads, beta=1.0, temperature=None)
    assert q.tolist() == [[0.0, 1.0, 0.0]]
    assert p.tolist() == [[0.0, 0.0, 1.0]]
    for extreme in (0.0, 1 - 2**-53):
        uniform = torch.tensor([extreme], dtype=torch.float64)
        drafts = draw(q, uniform)
        assert drafts.tolist() == [1]
        assert accept_drafts(p, q, drafts=drafts, uniforms=uniform).tolist() == [False]
        assert draw(surplus(p, q), uniform).tolist() == [2]
        assert accept_drafts(q, q, drafts=drafts, uniforms=uniform).tolist() == [True]
    assert entropies(p).tolist() == [0.0]
    assert overlaps(surplus(p, q)).tolist() == [0.0]
    assert suppressions(p, q, drafts=torch.tensor([1])).tolist() == [1.0]


def test_a_vanishing_temperature_becomes_greedy() -> None:
    logits = randn(4, 3, 9, generator=torch.Generator().manual_seed(5))
    heads = torch.tensor([0, 1, 2])
    for temperature in (1e-4, 1e-308):  # the least that a division survives
        cold = judge(logits, heads=heads, beta=1.0, temperature=temperature)
        greedy = judge(logits, heads=heads, beta=1.0, temperature=None)
        torch.testing.assert_close(cold, greedy)


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [None, 0.98])
def test_a_law_from_logits_that_are_no_numbers_is_nan_everywhere_and_no_other_law_is(
    broken: float, temperature: float | None
) -> None:
    logits = torch.zeros(3, 2, 4)
    logits[1, 1, 2] = broken
    heads = torch.tensor([0, 0])
    q = draft_probabilities(logits[1], temperature=temperature)
    p = judge(logits, heads=heads, beta=1.0, temperature=temperature)
    for law in (p, q):
        assert law.isnan().tolist() == [[False] * 4, [True] * 4]
    assert entropies(p).isnan().tolist() == [False, True]
    assert draw(q, torch.tensor([0.5, 0.5]).double())[1] < 4  # of use to nobody, yet a token


def test_a_draft_is_accepted_with_the_ratio_of_the_probabilities() -> None:
    p, q = law(0.2, 0.5, 0.3), law(0.4, 0.5, 0.1)
    for token, ratio in ((0, 0.5), (1, 1.0), (2, 1.0)):
        drafts = torch.tensor([token])
        for uniform in (0.0, 0.49, 0.51, 0.99):
            accepted = accept_drafts(p, q, drafts=drafts, uniforms=torch.tensor([uniform]).double())
            assert accepted.item() == (uniform < ratio)
        assert suppressions(p, q, drafts=drafts).item() == pytest.approx(1 - ratio)
    assert overlaps(surplus(p, q)).item() == pytest.approx(0.2 + 0.5 + 0.1)


def test_a_replacement_comes_from_what_the_jury_wants_more_than_the_draft() -> None:
    p, q = law(0.1, 0.4, 0.3, 0.2), law(0.4, 0.3, 0.0, 0.3)
    many = uniforms(40_000)
    drawn = draw(surplus(p, q).expand(40_000, -1), many)
    assert p_value(torch.bincount(drawn, minlength=4), torch.tensor([0, 0.25, 0.75, 0])) > 1e-3


def test_laws_are_made_without_changing_what_they_are_made_of() -> None:
    logits = randn(4, 3, 9, generator=torch.Generator().manual_seed(6)).double()
    before = logits.clone()
    draft_probabilities(logits[0], temperature=0.5)
    judge(logits, heads=torch.tensor([0, 1, 2]), beta=1.0, temperature=0.5)
    jury_probabilities(logits[0], beta=1.0, temperature=0.5)
    assert torch.equal(logits, before)


@given(seed=st.integers(0, 10**6), sharpness=st.sampled_from([0.1, 3.0, 100.0]))
def test_what_the_jury_wants_more_is_what_it_does_not_share(seed: int, sharpness: float) -> None:
    scores = randn(2, 5, 40, generator=torch.Generator().manual_seed(seed), size=sharpness)
    p, q = scores.double().softmax(dim=-1)
    shared = torch.minimum(p, q).sum(dim=-1)
    torch.testing.assert_close(overlaps(surplus(p, q)), shared, atol=1e-9, rtol=0)


def test_a_token_is_the_first_whose_running_sum_exceeds_the_number() -> None:
    numbers = torch.tensor([0.0, 0.49, 0.51, 0.79, 0.81, 1 - 2**-53], dtype=torch.float64)
    weights = law(0.0, 5.0, 3.0, 2.0, 0.0).expand(6, -1)  # not normalised
    assert draw(weights, numbers).tolist() == [1, 1, 2, 2, 3, 3]
    assert draw(weights.reshape(2, 3, 5), numbers.reshape(2, 3)).tolist() == [[1, 1, 2], [2, 3, 3]]


def test_what_stands_is_drawn_from_the_jury_whatever_was_drafted_from() -> None:
    n = 200_000
    p, q = law(0.05, 0.35, 0.4, 0.2), law(0.5, 0.1, 0.15, 0.25)
    many_p, many_q = p.expand(n, -1), q.expand(n, -1)
    drafts = draw(many_q, uniforms(n, seed=1))
    accepted = accept_drafts(many_p, many_q, drafts=drafts, uniforms=uniforms(n, seed=2))
    replacements = draw(surplus(many_p, many_q), uniforms(n, seed=3))
    standing = torch.bincount(torch.where(accepted, drafts, replacements), minlength=4)
    assert p_value(standing, p[0]) > 1e-3
    assert p_value(standing, q[0]) < 1e-9
    assert accepted.double().mean().item() == pytest.approx(
        overlaps(surplus(p, q)).item(), abs=0.005
    )


def test_entropy_is_that_of_the_textbook() -> None:
    assert entropies(law(0.5, 0.25, 0.25, 0.0)).item() == pytest.approx(1.5 * math.log(2))
    assert entropies(law(1.0, 0.0)).item() == 0.0
