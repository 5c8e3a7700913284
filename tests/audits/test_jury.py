from typing import Any

import pytest

from tournament_assets.tournament.prompts import (
    GeneratedResponse,
    count_heads,
    mean_p_correct,
    summarise_juries,
)


def response(prompt_id: str, **diagnostics: Any) -> GeneratedResponse:
    return GeneratedResponse(
        prompt_id=prompt_id, text="x", finish_reason="stop", diagnostics=diagnostics
    )


def jury(*entropy: float, resampled: int = 0) -> dict[str, Any]:
    n_tokens = len(entropy)
    return {
        "entropy": list(entropy),
        "overlap": [0.5] * n_tokens,
        "suppression": [0.25] * n_tokens,
        "margin": [9] * n_tokens,
        "stability_radius": [4] * n_tokens,
        "validity_radius": [0] * n_tokens,
        "resampled": [{"position": n} for n in range(resampled)],
    }


VERIFIED = [
    response("a", head=1, jury=jury(1.0, resampled=1), p_correct=0.5),
    response("b", head=0, jury=jury(2.0, 2.0, 3.0, resampled=2), p_correct=0.7),
    response("c", head=1, jury=jury(2.0), p_correct=None),
]


def test_means_are_over_tokens_and_not_over_responses() -> None:
    summary = summarise_juries(VERIFIED)
    assert summary is not None
    assert summary.verified_tokens == 5
    assert summary.resampled_tokens == 3
    assert summary.responses_resampled == 2
    assert summary.acceptance_rate == pytest.approx(2 / 5)
    assert summary.mean_entropy == pytest.approx(2.0)
    assert (summary.mean_suppression, summary.mean_margin) == (0.25, 9)
    assert (summary.mean_stability_radius, summary.mean_validity_radius) == (4, 0)


def test_without_a_jury_there_is_nothing_to_sum_up() -> None:
    assert summarise_juries([response("a"), response("b", head=2)]) is None


def test_drawn_heads_are_counted() -> None:
    assert count_heads([*VERIFIED, response("d"), response("e", head=None)]) == {0: 1, 1: 2}


def test_an_estimate_that_is_missing_is_not_a_zero() -> None:
    assert mean_p_correct(VERIFIED) == pytest.approx(0.6)
    assert mean_p_correct([response("a", p_correct=None), response("b")]) is None
