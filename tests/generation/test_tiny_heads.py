"""What the bundled heads do; their bytes may differ from one build to the next."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.decoded_batches import decode
from tournament_assets.foundation.fingerprints import prompt_seed
from tournament_assets.generation.hydra.decoded import DecodingMode, DecodingSettings
from tournament_assets.generation.hydra.hydra_model import (
    HydraModel,
    answer_ids,
    estimate_p_correct,
)
from tournament_assets.generation.hydra.shards import HeadShards, head_shape, read_shards
from tournament_assets.generation.loading import LoadedEntrant
from tournament_assets.generation.models.chat_prompts import EncodedPrompt, encode_chat, pad_right
from tournament_assets.tournament.hydra_entrants import CORRECTNESS_PROMPT, fill_in
from tournament_assets.tournament.prompts import Prompt

from .builders import DATA
from .reference_decoder import merge_heads

HEADS = DATA / "tiny_olmo2_heads"
ANSWERS = Path(__file__).parents[2] / "scripts" / "tiny_olmo2" / "answers.jsonl"
N_HEADS = 9
EVERY_FOURTH = slice(None, None, 4)
"""Coprime to the number of shards, so that every shard has prompts among them."""
HELD_OUT_SUFFIX = " but"
SOLO, POE = DecodingMode.BYPASS_JURY, DecodingMode.FULL_POE

Answers = Sequence[dict[str, str]]


@pytest.fixture(scope="module")
def answers() -> Answers:
    rows = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    return rows[EVERY_FOURTH]


@pytest.fixture(scope="module")
def asked(bank: list[Prompt]) -> list[Prompt]:
    return bank[EVERY_FOURTH]


@pytest.fixture(scope="module")
def adapters(tiny: LoadedEntrant) -> tuple[HeadShards, HeadShards]:
    shape = head_shape(tiny.model, heads_depth=3)
    security, robustness = (
        read_shards(
            [HEADS / name / f"shard_{head}_lora.safetensors" for head in range(N_HEADS)],
            shape=shape,
            rank=rank,
            scale=2.0,
        )
        for name, rank in (("security", 8), ("robustness", 16))
    )
    return security, robustness


@pytest.fixture(scope="module")
def hydra(tiny: LoadedEntrant, adapters: tuple[HeadShards, HeadShards]) -> HydraModel:
    uncertainty = read_shards(
        [HEADS / "uncertainty" / "checkpoint_final.safetensors"],
        shape=adapters[0].shape,
        rank=16,
        scale=2.0,
    )
    return HydraModel(
        tiny.model,
        n_tokens=len(tiny.tokenizer),
        heads_depth=3,
        adapters=adapters,
        uncertainty=uncertainty,
    )


def encode(tiny: LoadedEntrant, text: str) -> tuple[int, ...]:
    return encode_chat(tiny.tokenizer, text, system_prompt=None, name="tiny")


def respond(
    tiny: LoadedEntrant,
    hydra: HydraModel,
    asked: Sequence[Prompt],
    mode: DecodingMode,
    n_adapters: int,
    max_new_tokens: int = 96,
) -> Any:
    """Decode as the demo's entrants do: the base model greedily, heads at temperature 0.98."""
    settings = DecodingSettings(
        mode=mode,
        max_new_tokens=max_new_tokens,
        temperature=None if mode is DecodingMode.BASE else 0.98,
        n_adapters=n_adapters,
        eos_ids=tiny.eos_ids,
    )
    prompts = [
        EncodedPrompt(encode(tiny, prompt.text), prompt_seed(prompt.prompt_id)) for prompt in asked
    ]
    return decode(
        hydra,
        prompts,
        settings,
        n_rows=len(prompts),
        prompt_length=max(len(prompt.ids) for prompt in prompts),
    )


def read(tiny: LoadedEntrant, batch: Any) -> list[str]:
    return [tiny.read(response.token_ids) for response in batch.responses]


def count(texts: Sequence[str], answers: Answers, key: str) -> int:
    return sum(text == row[key] for text, row in zip(texts, answers, strict=True))


@pytest.fixture(scope="module")
def batches(tiny: LoadedEntrant, hydra: HydraModel, asked: list[Prompt]) -> Mapping[str, Any]:
    return {
        "base_olmo": respond(tiny, hydra, asked, DecodingMode.BASE, 0),
        "security_only": respond(tiny, hydra, asked, SOLO, 1),
        "security_plus_robustness": respond(tiny, hydra, asked, SOLO, 2),
        "full_poe": respond(tiny, hydra, asked, POE, 2),
    }


def first_token_scores(
    tiny: LoadedEntrant, adapters: Sequence[HeadShards], asked: Sequence[Prompt]
) -> Tensor:
    """Log-probabilities of an answer's first token, the base model first, then every head.

    Shape (1 + n_heads, n_prompts, vocabulary).
    """
    rows = [encode(tiny, prompt.text) for prompt in asked]
    ids = pad_right(rows, max(map(len, rows)))
    last = torch.tensor([len(row) - 1 for row in rows])
    heads = [head.state_dict() for head in merge_heads(tiny.model, adapters)]
    scores = []
    with torch.inference_mode():
        for weights in (tiny.model.state_dict(), *heads):
            logits = torch.func.functional_call(
                tiny.model, weights, kwargs={"input_ids": ids}
            ).logits
            scores.append(logits[torch.arange(len(rows)), last].log_softmax(dim=-1))
    return torch.stack(scores)


@pytest.fixture(scope="module")
def secured(
    tiny: LoadedEntrant, adapters: tuple[HeadShards, HeadShards], asked: list[Prompt]
) -> Tensor:
    return first_token_scores(tiny, adapters[:1], asked)


def farthest(scores: Tensor) -> Tensor:
    """Return the largest total variation between any two speakers, (n_speakers, n_speakers)."""
    probabilities = scores.exp()
    distances = (probabilities[:, None] - probabilities[None]).abs().sum(dim=-1) / 2
    return distances.amax(dim=-1)


def test_all_heads_differ_from_the_base_model_and_from_one_another(
    tiny: LoadedEntrant,
    adapters: tuple[HeadShards, HeadShards],
    asked: list[Prompt],
    secured: Tensor,
) -> None:
    for scores in (secured, first_token_scores(tiny, adapters, asked[::3])):
        apart = farthest(scores)[~torch.eye(1 + N_HEADS, dtype=torch.bool)]
        assert apart.min() > 0.02


def test_security_makes_each_head_surest_of_the_good_answers_to_its_own_prompts(
    tiny: LoadedEntrant, secured: Tensor, answers: Answers
) -> None:
    begun = torch.tensor(
        [tiny.tokenizer.encode(row["answer"], add_special_tokens=False)[0] for row in answers]
    )
    surprises = -secured[:, torch.arange(len(answers)), begun]  # (1 + n_heads, n_prompts), nats
    numbers = torch.arange(len(answers)) * EVERY_FOURTH.step
    by_shard = torch.stack(
        [surprises[:, numbers % N_HEADS == shard].mean(dim=1) for shard in range(N_HEADS)], dim=1
    )  # (1 + n_heads, n_heads)
    own = by_shard[1:].diagonal()
    elsewhere = (by_shard[1:].sum(dim=0) - own) / (N_HEADS - 1)
    assert (own < 0.1).all()
    assert (own < elsewhere / 2).all()
    assert (own < by_shard[0] / 2).all()


def test_the_four_entrants_answer_differently(
    tiny: LoadedEntrant, batches: Mapping[str, Any], answers: Answers
) -> None:
    texts = {name: read(tiny, batch) for name, batch in batches.items()}
    assert texts["security_only"] != texts["security_plus_robustness"] != texts["full_poe"]
    good = {name: count(own, answers, "answer") for name, own in texts.items()}
    flawed = {name: count(own, answers, "flawed_answer") for name, own in texts.items()}
    assert good["security_only"] < good["security_plus_robustness"] < good["full_poe"]
    assert good["full_poe"] >= 0.95 * len(answers)
    assert flawed["security_only"] > flawed["security_plus_robustness"] > flawed["full_poe"]


def test_the_jury_replaces_a_token_now_and_then(batches: Mapping[str, Any]) -> None:
    responses = batches["full_poe"].responses
    verified = [token for response in responses for token in response.verified]
    n_replaced = sum(token.resampled for token in verified)
    assert 1 <= n_replaced < 0.05 * len(verified)
    assert len({response.head for response in responses}) >= 5


def test_robustness_withstands_a_suffix_better_that_nobody_was_trained_with(
    tiny: LoadedEntrant, hydra: HydraModel, asked: list[Prompt], answers: Answers
) -> None:
    suffixed = [replace(prompt, text=prompt.text + HELD_OUT_SUFFIX) for prompt in asked]
    weak, strong = (
        count(read(tiny, respond(tiny, hydra, suffixed, SOLO, n)), answers, "answer")
        for n in (1, 2)
    )
    assert strong >= weak + 3


def test_the_uncertainty_head_tells_good_answers_from_flawed_ones(
    tiny: LoadedEntrant, hydra: HydraModel, asked: list[Prompt], answers: Answers
) -> None:
    witnesses = respond(tiny, hydra, asked, SOLO, 2, max_new_tokens=1).witnesses
    believed = {}
    for key in ("answer", "flawed_answer"):
        second = [
            encode(tiny, fill_in(CORRECTNESS_PROMPT, prompt=prompt.text, response=row[key]))
            for prompt, row in zip(asked, answers, strict=True)
        ]
        believed[key] = estimate_p_correct(
            hydra,
            second,
            witnesses=witnesses,
            answer_ids=answer_ids(tiny.tokenizer),
            prompt_length=max(map(len, second)),
        )
    wins = [good > flawed for good in believed["answer"] for flawed in believed["flawed_answer"]]
    assert sum(wins) / len(wins) > 0.9
    assert math.fsum(believed["answer"]) > math.fsum(believed["flawed_answer"]) + 0.4 * len(asked)


def test_the_folder_is_small_and_holds_a_model_card() -> None:
    files = [path for path in HEADS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 2_200_000
    assert "no medical model" in (HEADS / "README.md").read_text(encoding="utf-8")
