import pytest

from tournament_assets.tournament.answering_models import AnsweringModels
from tournament_assets.tournament.judge_services import SERVICES


def problem(service: str, asked: str, *answering: str | None) -> str | None:
    models = AnsweringModels(SERVICES[service], asked)
    models.counts.update(answering)
    return models.problem


@pytest.mark.parametrize(
    ("service", "asked", "answering"),
    [
        ("anthropic", "claude-x-4", "claude-x-4-20250101"),
        ("anthropic", "claude-x-latest", "claude-x-20250101"),
        ("openai_batch", "gpt-x", "gpt-x-2025-01-01"),
        ("openai_api", "gpt-x", "gpt-x-0613"),
        ("openai_api", "vendor/model", "model"),
        ("openai_api", "gpt-x", "openai/gpt-x-2025-01-01"),
        ("openai_api", "Qwen/Qwen3-8B", "/models/Qwen3-8B"),
        ("openai_api", "qwen3-8b", "/models/qwen3-8b.gguf"),
        ("openai_api", "qwen3", "qwen3:latest"),
        ("openai_api", "vendor/model", "vendor/model:free"),
        ("anthropic", "claude-x", None),
    ],
)
def test_an_alias_may_be_answered_by_what_it_stands_for(
    service: str, asked: str, answering: str | None
) -> None:
    assert problem(service, asked, answering, answering) is None


@pytest.mark.parametrize(
    ("service", "asked", "answering"),
    [
        ("anthropic", "claude-x-4", ["claude-y-4"]),
        ("anthropic", "claude-x-4-20250101", ["claude-x-4-20250202"]),
        ("anthropic", "claude-x", ["claude-x-20250101", "claude-x-20250202"]),
        ("anthropic", "claude-x", ["other/claude-x"]),
        ("openai_api", "gpt-x", ["gpt-x-mini"]),
        ("openai_api", "one/model", ["two/model"]),
        ("openai_api", "qwen3:8b", ["qwen3:4b"]),
        ("openai_api", "gpt-x", ["gpt-x", None, "gpt-y"]),
    ],
)
def test_another_model_or_two_are_named_with_their_counts(
    service: str, asked: str, answering: list[str | None]
) -> None:
    found = problem(service, asked, *answering)
    assert found is not None
    assert repr(answering[-1]) in found
    assert ("name no model" in found) == (None in answering)
