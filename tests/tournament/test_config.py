import copy
from typing import Any

import pytest
from pydantic import ValidationError

from tournament_assets.project.config_files import config_problems
from tournament_assets.tournament.config import DimensionConfig, TournamentConfig
from tournament_assets.tournament.entrants import RecordedEntrant, VanillaHfEntrant

VALUES: dict[str, Any] = {
    "tournament_id": "tiny",
    "prompt_bank": {"path": "bank.jsonl"},
    "pilot": {"judge_model": "small", "strata": {"recall": 2}},
    "headline": {"judge_model": "large"},
    "dimensions": {"zeal": {"rubric": "z.txt"}, "accuracy": {"rubric": "a.txt"}},
    "judge": {"service": "loopback"},
    "entrants": [
        {"entrant_id": "ada", "loader": "recorded", "responses": {"path": "ada.jsonl"}},
        {"entrant_id": "bob", "loader": "vanilla_hf", "weights": {"path": "bob"}},
    ],
}


def values(**changed: object) -> dict[str, Any]:
    return {**copy.deepcopy(VALUES), **changed}


def load(**changed: object) -> TournamentConfig:
    return TournamentConfig.model_validate(values(**changed))


def test_the_loader_chooses_the_kind_of_entrant() -> None:
    ada, bob = load().entrants
    assert isinstance(ada, RecordedEntrant)
    assert isinstance(bob, VanillaHfEntrant)


def test_entrants_and_dimensions_keep_the_order_of_the_file() -> None:
    config = load()
    assert config.entrant_ids == ("ada", "bob")
    assert config.dimension_names == ("zeal", "accuracy")


def test_each_mode_has_its_judge() -> None:
    config = load()
    assert [config.judge_model(mode) for mode in config.mode_names] == ["small", "large"]


def test_the_label_says_when_the_judge_is_no_language_model() -> None:
    assert load().judge_label == "loopback (lexical, not a language model)"
    assert load(judge={"service": "anthropic"}).judge_label.startswith("Claude")


def test_the_fingerprint_follows_values_and_not_their_order() -> None:
    backwards = dict(reversed(values().items()))
    assert TournamentConfig.model_validate(backwards).fingerprint == load().fingerprint
    assert load(ratings={"n_permutations": 500}).fingerprint == load().fingerprint  # the default
    assert load(ratings={"n_permutations": 501}).fingerprint != load().fingerprint


def test_the_fingerprint_of_a_config_with_heads_is_what_it_was() -> None:
    heads = {"security": {"folder": {"path": "s"}, "rank": 8}}
    poe = {"entrant_id": "poe", "loader": "custom_poe", "weights": {"path": "w"}, "hydra": heads}
    config = load(entrants=[*VALUES["entrants"], poe])
    assert config.fingerprint == "1c7eb153b6ffe69e698e37b1bc2f7d50a7a09eecb6b9dd9c04c5ad24c95007c7"


def test_lists_of_the_file_become_tuples_that_cannot_change() -> None:
    assert load(ratings={"k_sweep": [2.0, 3]}).ratings.k_sweep == (2.0, 3.0)


def test_loading_leaves_the_values_as_they_were() -> None:
    given = values(ratings={"k_sweep": [1.0]})
    TournamentConfig.model_validate(given)
    assert given == values(ratings={"k_sweep": [1.0]})


def test_a_dimension_that_needs_the_gold_answer_must_show_it() -> None:
    with pytest.raises(ValidationError, match="shows_gold_answer"):
        DimensionConfig(rubric="a.txt", needs_gold_answer=True)
    DimensionConfig(rubric="a.txt", needs_gold_answer=True, shows_gold_answer=True)


@pytest.mark.parametrize(
    "changed",
    [
        {"tournament_id": "Has Spaces"},
        {"dimensions": {}},
        {"dimensions": {"Not-A-Name": {"rubric": "a.txt"}}},
        {"pilot": {"judge_model": "small", "strata": {"recall": -1}}},
        {"pilot": {"judge_model": "small", "strata": {}}},
        {"judge": {"service": "loopback", "max_tokens": 63}},
        {"judge": {"service": "loopback", "max_tokens": "1024"}},
        {"judge": {"service": "loopback", "max_tokens": True}},
        {"ratings": {"k_factor": 0}},
        {"ratings": {"k_sweep": [16.0, 0.0]}},
        {"ratings": {"n_permutations": 0}},
        {"ratings": {"confidence": 1}},
        {"checks": {"max_unjudged_rate": 1.1}},
        {"generation": {"batch_size": 0}},
        {"surprise": 1},
    ],
    ids=str,
)
def test_a_value_that_makes_no_sense_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        load(**changed)


@pytest.mark.parametrize("name", ["domain", "experts"])
def test_what_the_judge_is_told_of_the_domain_is_a_phrase_of_sixty_characters_at_most(
    name: str,
) -> None:
    phrase = "law, tax & é" * 5
    assert getattr(load(judge={"service": "loopback", name: phrase}).judge, name) == phrase
    for wrong in (f"{phrase}x", " law", "law ", "law\n", "law. Be kind"):
        with pytest.raises(ValidationError):
            load(judge={"service": "loopback", name: wrong})


def test_good_values_have_no_further_problems() -> None:
    assert config_problems(values()) == []


def test_an_entrant_listed_twice_is_found_where_it_stands_again() -> None:
    ada, bob = VALUES["entrants"]
    ((path, message),) = config_problems(values(entrants=[ada, bob, ada]))
    assert path == ("entrants", 2, "entrant_id")
    assert "'ada'" in message


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_entrants_are_too_few(count: int) -> None:
    ((path, message),) = config_problems(values(entrants=VALUES["entrants"][:count]))
    assert path == ("entrants",)
    assert f" {count};" in message


@pytest.mark.parametrize("entrants", [None, "ada", {"ada": {}}, [1, None], [{}, {}], [[], ["x"]]])
def test_problems_are_looked_for_in_whatever_was_written(entrants: object) -> None:
    assert config_problems(values(entrants=entrants)) == []


def test_a_family_of_nobody_is_refused() -> None:
    values = {
        "entrants": [{"entrant_id": "ada"}, {"entrant_id": "bob"}],
        "pilot": {"judge_model": "judge-x"},
        "headline": {"judge_model": "judge-y"},
        "families": {"ada": "olmo", "judge-y": "claude", "eve": "gpt"},
    }
    ((where, problem),) = config_problems(values)
    assert where == ("families", "eve")
    assert "'eve'" in problem
