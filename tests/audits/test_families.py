import pytest

from tournament_assets.audits.fair_comparison import (
    Families,
    entrant_family,
    judge_family,
    model_family,
)
from tournament_assets.tournament.entrants import (
    OpenAiApiEntrant,
    RecordedEntrant,
    VanillaHfEntrant,
)
from tournament_assets.tournament.places import Location, ResponsesPlace, ServerAddress


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("claude-opus-4-5", "claude"),
        ("gpt-4o-mini", "gpt"),
        ("o3-mini", "gpt"),
        ("gemma-2-9b-it", "gemini"),
        ("Meta-Llama-3.1-8B", "llama"),
        ("Qwen2.5-7B-Instruct", "qwen"),
        ("tiny_olmo2", "olmo"),
        ("phi3", "phi"),
        ("Mixtral-8x7B", "mistral"),
        ("loopback-lexical", "loopback"),
        # Distilled from one into the other: nobody can say which family's taste it has.
        ("DeepSeek-R1-Distill-Qwen-7B", None),
        ("careful", None),
        ("yield", None),
        ("graphics", None),
    ],
)
def test_a_name_tells_one_family_or_none(name: str, family: str | None) -> None:
    assert model_family(name) == family


def test_weights_are_known_by_their_folder_or_by_where_they_come_from() -> None:
    folder = VanillaHfEntrant(
        entrant_id="base", loader="vanilla_hf", weights=Location(path="/models/claude/OLMo-2-7B")
    )
    assert entrant_family(folder, named={}) == "olmo"
    variable = VanillaHfEntrant(
        entrant_id="base",
        loader="vanilla_hf",
        weights=Location(env="BASE_WEIGHTS", source="Qwen/Qwen2.5-7B-Instruct"),
    )
    assert entrant_family(variable, named={}) == "qwen"


def test_what_the_config_says_comes_before_every_name() -> None:
    served = OpenAiApiEntrant(
        entrant_id="mine",
        loader="openai_api",
        base_url=ServerAddress(url="http://127.0.0.1:8000/v1"),
        model="llama-3-tuned",
    )
    assert entrant_family(served, named={}) == "llama"
    assert entrant_family(served, named={"mine": "olmo"}) == "olmo"
    assert judge_family("judge-x", named={"judge-x": "claude"}) == "claude"
    recorded = RecordedEntrant(
        entrant_id="claude_answers", loader="recorded", responses=ResponsesPlace(path="r.jsonl")
    )
    assert entrant_family(recorded, named={}) == "claude"


def test_what_is_not_known_is_neither_kin_nor_stranger() -> None:
    families = Families("claude-x", "claude", {"a": "claude", "b": "gpt", "c": None})
    assert [families.is_shared_with(name) for name in "abc"] == [True, False, None]
    loopback = Families("loopback-x", "loopback", {"a": None, "b": "loopback"})
    assert [loopback.is_shared_with(name) for name in "ab"] == [False, True]
