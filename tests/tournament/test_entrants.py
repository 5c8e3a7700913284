import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.chat_server import api_entrant
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.fingerprints import prompt_seed
from tournament_assets.tournament.entrants import (
    AnthropicApiEntrant,
    AnyEntrant,
    OpenAiApiEntrant,
    RecordedEntrant,
    VanillaHfEntrant,
    get_entrant,
)
from tournament_assets.tournament.places import Location, ResponsesPlace, ServerAddress

HERE = Location(path="weights")
GREEDY = VanillaHfEntrant(entrant_id="greedy", loader="vanilla_hf", weights=HERE)
WARM = GREEDY.model_copy(update={"entrant_id": "warm", "temperature": 0.7})
RECORDED = RecordedEntrant(entrant_id="old", loader="recorded", responses=ResponsesPlace(env="OLD"))

SERVED = OpenAiApiEntrant(
    entrant_id="served",
    loader="openai_api",
    base_url=ServerAddress(url="http://127.0.0.1:8000/v1"),
    model="base",
)


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "..", "a\u200bb"])
def test_an_entrant_id_that_could_not_name_a_file_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="entrant_id"):
        VanillaHfEntrant(entrant_id=name, loader="vanilla_hf", weights=HERE)


def test_an_entrant_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        GREEDY.temperature = 1.0


def test_renaming_or_moving_an_entrant_does_not_generate_anything_again() -> None:
    renamed = GREEDY.model_copy(
        update={"entrant_id": "other", "description": "x", "weights": Location(env="W")}
    )
    assert renamed.fingerprint("content") == GREEDY.fingerprint("content")


@pytest.mark.parametrize(
    "changed",
    [
        {"temperature": 0.7},
        {"max_new_tokens": 20},
        {"system_prompt": "Be brief."},
        {"seed": 0},
        {"top_p": 0.9},
        {"top_k": 5},
        {"min_p": 0.1},
        {"repetition_penalty": 1.1},
        {"stop": ("###",)},
        {"template_arguments": {"enable_thinking": False}},
    ],
)
def test_what_changes_a_response_changes_the_fingerprint(changed: dict[str, object]) -> None:
    assert GREEDY.model_copy(update=changed).fingerprint("content") != GREEDY.fingerprint("content")


@pytest.mark.parametrize(
    ("entrant", "known"),
    [
        (
            GREEDY.model_copy(update={"max_new_tokens": 96}),
            "6c49e4414e51c5d7f7983141a2380244caec3cd598604dd6cc3e64fec33ca1da",
        ),
        (
            WARM.model_copy(update={"max_new_tokens": 96, "system_prompt": "Be brief."}),
            "72c2af61911dd96a2cdabdea66e4fffc64dee94af6ba0448d3025d506a0f37b5",
        ),
        (
            SERVED.model_copy(update={"model": "m", "temperature": 0.5}),
            "d4897821dc91c1aa1745b1bcf8ed44fed4bd1c6de0b28f3293a362b089b86c2d",
        ),
    ],
)
def test_stored_responses_are_still_found(entrant: AnyEntrant, known: str) -> None:
    assert entrant.fingerprint("0" * 64) == known


def test_other_weights_change_the_fingerprint() -> None:
    assert GREEDY.fingerprint("content") != GREEDY.fingerprint("other content")


def test_a_recorded_file_is_known_by_its_content_alone() -> None:
    moved = RECORDED.model_copy(update={"responses": Location(path="elsewhere.jsonl")})
    assert moved.fingerprint("content") == RECORDED.fingerprint("content")
    assert moved.fingerprint("other") != RECORDED.fingerprint("content")


def identity(entrant: OpenAiApiEntrant | AnthropicApiEntrant) -> str:
    return entrant.fingerprint(entrant.content_hash)


@pytest.mark.parametrize(
    "changed",
    [
        {"entrant_id": "other", "description": "x"},
        {"base_url": ServerAddress(env="ELSEWHERE"), "api_key_env": "KEY"},
        {"max_concurrency": 64, "max_retries": 0, "timeout_seconds": 1.0},
        {"max_tokens_field": "max_tokens"},
    ],
)
def test_where_and_how_a_server_is_asked_is_not_its_identity(changed: dict[str, object]) -> None:
    assert identity(SERVED.model_copy(update=changed)) == identity(SERVED)


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "large"},
        {"revision": "2026-09"},
        {"temperature": 0.7},
        {"max_new_tokens": 20},
        {"system_prompt": "Be brief."},
        {"top_p": 0.9},
        {"stop": ("###",)},
        {"seed": 1},
        {"extra_body": {"top_k": 20}},
    ],
)
def test_what_changes_a_servers_response_changes_the_fingerprint(
    changed: dict[str, object],
) -> None:
    assert identity(SERVED.model_copy(update=changed)) != identity(SERVED)


@pytest.mark.parametrize("name", ["model", "stream", "n", "max_tokens", "temperature"])
def test_a_further_field_of_a_request_is_none_that_the_entrant_gives(name: str) -> None:
    with pytest.raises(ValidationError, match=rf"extra_body\n.*\b{name}\b"):
        OpenAiApiEntrant.model_validate({**SERVED.model_dump(), "extra_body": {name: 1}})


def test_tables_show_every_setting_that_is_given_but_the_names() -> None:
    assert WARM.display_settings == {
        "loader": "vanilla_hf",
        "weights": {"path": "weights"},
        "temperature": 0.7,
        "max_new_tokens": 256,
    }


def test_an_entrant_is_found_by_its_id() -> None:
    entrants: list[AnyEntrant] = [GREEDY, WARM, RECORDED]
    assert get_entrant(entrants, "warm") is WARM
    with pytest.raises(InputError, match=r"'hot'.*greedy.*warm.*old"):
        get_entrant(entrants, "hot")


@given(st.text())
def test_a_prompts_seed_is_its_hash_modulo_two_to_the_32(prompt_id: str) -> None:
    last_bytes = hashlib.sha256(prompt_id.encode()).digest()[-4:]
    assert prompt_seed(prompt_id) == int.from_bytes(last_bytes, "big")


def test_the_seed_of_a_known_hash() -> None:
    assert prompt_seed("abc") == 0xF20015AD  # the end of the SHA-256 in FIPS 180-2, B.1


def claude(**changes: Any) -> AnthropicApiEntrant:
    settings = {"entrant_id": "claude", "loader": "anthropic_api", "model": "claude-opus-5-5"}
    return AnthropicApiEntrant(**{**settings, **changes})


def test_a_models_name_and_description_are_not_its_identity() -> None:
    assert identity(claude(entrant_id="other", description="x")) == identity(claude())


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
    assert len({identity(claude(**changed)) for changed in changes}) == len(changes)


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


def test_a_served_model_cannot_bear_the_name_of_the_free_judge() -> None:
    with pytest.raises(ValueError, match=r"'loopback-x'.*'loopback'"):
        api_entrant(model="loopback-x")
