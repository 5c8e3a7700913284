"""What is refused before anything is computed, and what cannot be decoded."""

import re
from typing import Any

import pytest

from benchmarks.decoded_batches import decode
from tournament_assets.foundation.errors import GenerationError, InputError
from tournament_assets.generation.hydra.decoded import DecodingMode, DecodingSettings
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.models.chat_prompts import EncodedPrompt

from .hydra_builders import (
    RAGGED,
    answer,
    build_adapters,
    build_model,
    poe_settings,
    put_heads_on,
    solo_settings,
)


def build_hydra(*, n_heads: int = 3) -> HydraModel:
    model = build_model()
    return put_heads_on(model, build_adapters(model, n_heads=n_heads), n_tokens=20)


def settings_refusal(**changes: Any) -> str:
    arguments = {
        "mode": DecodingMode.FULL_POE,
        "max_new_tokens": 4,
        "temperature": 1.0,
        "n_adapters": 2,
        **changes,
    }
    with pytest.raises(InputError) as raised:
        DecodingSettings(**arguments)
    return str(raised.value)


def decoding_refusal(*prompts: EncodedPrompt, **changes: Any) -> str:
    arguments: dict[str, Any] = {
        "model": build_hydra(),
        "prompts": prompts or RAGGED,
        "settings": poe_settings(),
        "n_rows": 4,
        "prompt_length": 8,
        **changes,
    }
    with pytest.raises(InputError) as raised:
        decode(**arguments)
    return str(raised.value)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens is 0;"),
        ({"temperature": 0.0}, "temperature is 0.0;"),
        ({"temperature": float("nan")}, "temperature is nan;"),
        ({"beta": 0.0}, "beta is 0.0;"),
        (
            {"mode": DecodingMode.BASE, "n_adapters": 0, "beta": 0.125},
            "beta is 0.125 with mode 'base'; expected 1",
        ),
        ({"mode": DecodingMode.BASE}, "n_adapters is 2 with mode 'base'"),
        ({"n_adapters": 0}, "n_adapters is 0 with mode 'full_poe'"),
        ({"n_adapters": -1}, "n_adapters is -1 with mode 'full_poe'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], problem: str) -> None:
    assert problem in settings_refusal(**changes)


def test_all_problems_of_settings_are_listed_together() -> None:
    refusal = settings_refusal(max_new_tokens=0, temperature=-1.0, beta=-1.0)
    assert len(refusal.splitlines()) == 3


def test_prompts_that_do_not_fit_are_all_named() -> None:
    refusal = decoding_refusal(
        EncodedPrompt(ids=(), seed=0),
        EncodedPrompt(ids=(1,) * 9, seed=0),
        EncodedPrompt(ids=(1, 20, -1), seed=0),
    ).splitlines()
    assert [re.findall(r"\d+", problem) for problem in refusal] == [
        ["0", "0", "1", "8"],  # which prompt, its tokens, at least, at most
        ["1", "9", "1", "8"],
        ["2", "20", "0", "19"],  # which prompt, a token of it, the first and the last there is
    ]


def test_a_response_has_to_fit_into_the_context() -> None:
    prompt = EncodedPrompt(ids=(1,) * 8, seed=0)
    refusal = decoding_refusal(prompt, settings=poe_settings(max_new_tokens=121))
    assert re.findall(r"\d+", refusal) == ["0", "8", "129", "128"]
    answer(build_hydra(), [prompt], poe_settings(max_new_tokens=120, eos_ids=tuple(range(20))))


def test_adapters_that_were_not_loaded_are_missed() -> None:
    refusal = decoding_refusal(settings=poe_settings(n_adapters=3))
    assert re.findall(r"n_adapters|\d+", refusal) == ["n_adapters", "3", "2"]


def test_a_jury_of_one_has_nobody_to_verify() -> None:
    alone = build_hydra(n_heads=1)
    refusal = decoding_refusal(model=alone)
    assert re.findall(r"'\w+'|\b\d+", refusal)[:3] == ["'full_poe'", "1", "2"]
    (response,) = answer(alone, RAGGED[:1], solo_settings(DecodingMode.BYPASS_JURY))
    assert response.head == 0


@pytest.mark.parametrize(
    "settings",
    [
        poe_settings(),
        poe_settings(temperature=None),
        solo_settings(DecodingMode.BASE),
        solo_settings(DecodingMode.BYPASS_JURY, temperature=None),
    ],
)
def test_logits_that_are_no_numbers_are_an_error(settings: DecodingSettings) -> None:
    model = build_model()
    hydra = put_heads_on(model, build_adapters(model))
    model.lm_head.weight[3, 5] = float("nan")
    with pytest.raises(GenerationError, match="NaN"):
        answer(hydra, RAGGED, settings)


def test_a_broken_verifier_is_an_error_although_it_drafts_nothing() -> None:
    model = build_model()
    adapters = build_adapters(model)
    (drawn,) = answer(put_heads_on(model, adapters), RAGGED[:1], poe_settings(max_new_tokens=1))
    verifier = (0, 1, 2)[drawn.head != 0]
    assert drawn.head != verifier
    adapters[0].layers[1]["down_proj"].b[verifier, 0, 0] = float("inf")
    with pytest.raises(GenerationError, match="NaN"):
        answer(put_heads_on(model, adapters), RAGGED[:1], poe_settings(max_new_tokens=1))
