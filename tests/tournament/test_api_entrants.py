from typing import Any

import pytest
from pydantic import ValidationError

from tests.chat_server import api_entrant
from tournament_assets.tournament.entrants import AnthropicApiEntrant
from tournament_assets.tournament.places import is_private


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


@pytest.mark.parametrize(
    ("url", "is_ours"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://localhost/v1", True),
        ("http://10.1.2.3/v1", True),
        ("http://192.168.0.7/v1", True),
        ("http://gpu-node-7:8000/v1", True),
        ("http://vllm.internal/v1", True),
        ("http://2130706433/v1", True),  # 127.0.0.1 as one number
        ("http://134744072/v1", False),  # 8.8.8.8 as one number
        ("http://0x08.8.8.8/v1", False),
        ("http://8.8.8.8/v1", False),
        ("http://[::ffff:8.8.8.8]/v1", False),
        ("http://[::ffff:10.0.0.1]/v1", True),
        ("https://api.openai.com/v1", False),
        ("https://localhost.example.com/v1", False),
        ("https://127.0.0.1.example.com/v1", False),
        ("", False),
    ],
)
def test_only_this_machine_and_private_networks_are_ones_own(url: str, is_ours: bool) -> None:
    assert is_private(url) == is_ours


def test_a_served_model_cannot_bear_the_name_of_the_free_judge() -> None:
    with pytest.raises(ValueError, match="'loopback-x' begins with 'loopback'"):
        api_entrant(model="loopback-x")
