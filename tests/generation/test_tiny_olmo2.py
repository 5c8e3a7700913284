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


@pytest.fixture(scope="module")
def greedy(settle: Settle, bank: list[Prompt]) -> Responses:
    return answer_all(settle, bank, None)


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
    greedy: Responses, answers: list[dict[str, str]]
) -> None:
    assert count(greedy, answers, "answer") >= 130
    assert sum(response.finish_reason == "stop" for response in greedy.values()) >= 140


def test_a_higher_temperature_answers_worse(
    settle: Settle, bank: list[Prompt], greedy: Responses, answers: list[dict[str, str]]
) -> None:
    some = bank[::3]
    surest = {prompt.prompt_id: greedy[prompt.prompt_id] for prompt in some}
    warm, hot = (answer_all(settle, some, temperature) for temperature in (0.7, 1.3))
    good = [count(responses, answers, "answer") for responses in (surest, warm, hot)]
    flawed = [count(responses, answers, "flawed_answer") for responses in (surest, warm)]
    assert good[0] > good[1] > good[2]
    assert flawed[0] <= 2
    assert flawed[1] >= 3
    assert sum(response.text != "" for response in hot.values()) == len(some)


def test_the_folder_is_small_and_holds_a_model_card() -> None:
    assert sum(path.stat().st_size for path in TINY.iterdir()) < 8_000_000
    assert "no medical model" in (TINY / "README.md").read_text(encoding="utf-8")
