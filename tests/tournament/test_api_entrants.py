from typing import Any

import pytest
from pydantic import ValidationError

from tournament_assets.tournament.entrants import AnthropicApiEntrant


def claude(**changes: Any) -> AnthropicApiEntrant:
    settings = {"entrant_id": "claude", "loader": "anthropic_api", "model": "claude-opus-5-5"}
    return AnthropicApiEntrant(**{**settings, **changes})


def identity(**changes: Any) -> str:
    entrant = claude(**changes)
    return entrant.fingerprint(entrant.content_hash)


def test_a_models_name_and_description_are_not_its_identity() -> None:
    assert identity(entrant_id="other", description="x") == identity()


def test_whatever_changes_a_response_changes_the_identity() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"model": "claude-sonnet-5-5"},
        {"revision": "2026-09"},
        {"temperature": 1.0},
        {"temperature": 0.0},
        {"max_new_tokens": 20},
        {"system_prompt": "Be brief."},
    ]
    assert len({identity(**changed) for changed in changes}) == len(changes)


@pytest.mark.parametrize(
    ("model", "service"),
    [
        ("loopback", "loopback"),
        ("loopback-echo", "loopback"),
        ("claude-opus-5-5", "anthropic"),
        ("my-loopback", "anthropic"),
    ],
)
def test_the_models_name_says_who_answers(model: str, service: str) -> None:
    assert claude(model=model).service == service


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": ""},
        {"temperature": 1.5},
        {"temperature": -0.1},
        {"max_new_tokens": 0},
        {"system_prompt": ""},
        {"api_key": "sk-1"},
    ],
)
def test_what_the_service_would_refuse_is_refused_first(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        claude(**wrong)
