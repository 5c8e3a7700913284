"""What the bundled checkpoint does; its bytes may differ from one build to the next."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tournament_assets.generation.responding import generate_responses
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

from .builders import TINY, Settle, describe

ANSWERS = Path(__file__).parents[2] / "scripts" / "tiny_olmo2" / "answers.jsonl"
Responses = Mapping[str, GeneratedResponse]


@pytest.fixture(scope="module")
def answers() -> list[dict[str, str]]:
    return [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]


def answer_all(settle: Settle, bank: list[Prompt], temperature: float | None) -> Responses:
    entrant = settle(describe(temperature=temperature))
    batches = generate_responses(entrant, bank, batch_size=32)
    return {response.prompt_id: response for batch in batches for response in batch}


def count(responses: Responses, answers: list[dict[str, str]], key: str) -> int:
    return sum(
        responses[row["prompt_id"]].text == row[key]
        for row in answers
        if row["prompt_id"] in responses
    )


def test_greedy_decoding_gives_the_good_answer_to_nearly_every_prompt(
    settle: Settle, bank: list[Prompt], answers: list[dict[str, str]]
) -> None:
    responses = answer_all(settle, bank, None)
    assert count(responses, answers, "answer") >= 130
    assert sum(response.finish_reason == "stop" for response in responses.values()) >= 140


def test_a_higher_temperature_answers_worse(
    settle: Settle, bank: list[Prompt], answers: list[dict[str, str]]
) -> None:
    some = bank[::3]
    greedy, warm, hot = (answer_all(settle, some, t) for t in (None, 0.7, 1.3))
    good = [count(responses, answers, "answer") for responses in (greedy, warm, hot)]
    flawed = [count(responses, answers, "flawed_answer") for responses in (greedy, warm, hot)]
    assert good[0] > good[1] > good[2]
    assert flawed[0] <= 1
    assert flawed[1] >= 3
    assert sum(response.text != "" for response in hot.values()) == len(some)


def test_the_folder_is_small_and_holds_a_model_card() -> None:
    assert sum(path.stat().st_size for path in TINY.iterdir()) < 8_000_000
    assert "no medical model" in (TINY / "README.md").read_text(encoding="utf-8")
