import copy
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import ValidationError

from tournament_assets.graph import settings
from tournament_assets.graph.table import ASSETS
from tournament_assets.project.config_files import config_problems
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.project_files import Project
from tournament_assets.tournament.config import (
    DimensionConfig,
    ModeConfig,
    RatingsConfig,
    TournamentConfig,
)
from tournament_assets.tournament.entrants import RecordedEntrant, VanillaHfEntrant
from tournament_assets.tournament.judges import Judge
from tournament_assets.tournament.places import FROM_LIST

VALUES: dict[str, Any] = {
    "tournament_id": "tiny",
    "prompt_bank": {"path": "bank.jsonl"},
    "modes": {
        "pilot": {"judges": ["small"], "strata": {"recall": 2}},
        "headline": {"judges": ["large"]},
    },
    "dimensions": {"zeal": {"rubric": "z.txt"}, "accuracy": {"rubric": "a.txt"}},
    "judges": [
        {"name": name, "service": "loopback", "model": f"loopback-{name}"}
        for name in ("small", "large")
    ],
    "entrants": [
        {"entrant_id": "ada", "loader": "recorded", "responses": {"path": "ada.jsonl"}},
        {"entrant_id": "bob", "loader": "vanilla_hf", "weights": {"path": "bob"}},
    ],
}


def plan_of(config: TournamentConfig) -> TournamentPlan:
    return TournamentPlan(config, Path("tiny.yaml"), Project(Path(), {}))


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
    assert [config.lead(mode).name for mode in config.mode_names] == ["small", "large"]
    assert config.lead("pilot").model == "loopback-small"


def test_the_label_says_when_the_judge_is_no_language_model() -> None:
    assert load().label_of("pilot") == "loopback (lexical, not a language model)"
    claude = load(
        judges=[{"service": "anthropic", "model": "claude-1"}], modes={"pilot": {}, "headline": {}}
    )
    assert claude.label_of("pilot").startswith("Claude")


def test_the_fingerprint_follows_values_and_not_their_order() -> None:
    backwards = dict(reversed(values().items()))
    assert TournamentConfig.model_validate(backwards).fingerprint == load().fingerprint
    assert load(ratings={"n_permutations": 500}).fingerprint == load().fingerprint  # the default
    assert load(ratings={"n_permutations": 501}).fingerprint != load().fingerprint


class _NewerJudge(Judge):
    patience: float = 0.5


class _NewerMode(ModeConfig):
    extent: str = "whole"


class _NewerEntrant(RecordedEntrant):
    trimmed: bool = False


class _NewerRatings(RatingsConfig):
    spread: float | None = None


class _NewerConfig(TournamentConfig):
    colour: str = "plain"
    judges: Annotated[tuple[_NewerJudge, ...], FROM_LIST]
    modes: dict[str, _NewerMode]  # type: ignore[assignment]
    ratings: _NewerRatings = _NewerRatings()
    entrants: Annotated[tuple[_NewerEntrant, ...], FROM_LIST]


def test_a_key_that_is_added_with_a_default_changes_no_hash() -> None:
    ada = VALUES["entrants"][0]
    given = values(entrants=[ada, {**ada, "entrant_id": "bob", "format": "alpaca-eval"}])
    older, newer = TournamentConfig.model_validate(given), _NewerConfig.model_validate(given)
    assert newer.fingerprint == older.fingerprint
    for row in ASSETS:
        if row.settings is not None:
            assert row.settings(plan_of(newer)) == row.settings(plan_of(older)), row.name
    for before, after in zip(older.entrants, newer.entrants, strict=True):
        assert after.fingerprint("content") == before.fingerprint("content")
    changed = newer.model_copy(update={"colour": "bright"})
    assert changed.fingerprint != older.fingerprint


@pytest.mark.parametrize(
    "changed",
    [
        {"judging": {"budget": {"usd": 5.0}, "prices": {"m": {"input": 1.0, "output": 2.0}}}},
        {"generation": {"budget": {"usd": 5.0}}},
        {"owners": ["team:evaluation"]},
        {"gate": {"candidate": "ada", "baseline": "bob"}},
        {"report": {"title": "Ada or Bob", "question": "Who is better?"}},
        {"report": {"labels": {"ada": "Ada, tuned"}}},
    ],
    ids=str,
)
def test_what_work_may_cost_and_who_looks_at_it_is_part_of_no_result(changed: Any) -> None:
    assert load(**changed).fingerprint == load().fingerprint


def test_a_title_and_labels_decide_what_the_report_says_and_nothing_else() -> None:
    titled = load(report={"title": "Ada or Bob", "labels": {"ada": "Ada, tuned"}})
    assert (titled.title, load().title) == ("Ada or Bob", "tiny")
    others = [name for name in dir(settings) if name.endswith("_settings")]
    moved = [
        name
        for name in others
        if getattr(settings, name)(plan_of(titled)) != getattr(settings, name)(plan_of(load()))
    ]
    assert moved == ["reporting_settings"]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"adda": "Ada"}, "adda.*did you mean 'ada'"),
        ({"ada": "bob"}, "'bob', which another entrant is called"),
        ({"ada": "x", "bob": "x"}, "'x', which another entrant is called"),
        ({"ada": "x" * 25}, "report.labels.ada"),
        ({"ada": " x"}, "labels.ada"),
        ({"ada": "x\ny"}, "labels.ada"),
    ],
)
def test_labels_are_short_and_each_names_one_entrant(labels: dict[str, str], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        load(report={"labels": labels})


def test_how_a_judge_is_reached_and_waited_for_is_part_of_no_result() -> None:
    claude = {"service": "anthropic", "model": "claude-1"}
    modes: dict[str, Any] = {"pilot": {}, "headline": {}}
    ways = {"base_url": "https://g.example", "max_in_flight": 9, "waiting": {"max_rounds": 1}}
    here = load(judges=[claude], modes=modes)
    assert load(judges=[{**claude, **ways}], modes=modes).fingerprint == here.fingerprint
    other = load(judges=[{**claude, "max_tokens": 512}], modes=modes)
    assert other.fingerprint != here.fingerprint


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
        {"modes": {"pilot": {"strata": {"recall": -1}}, "headline": {}}},
        {"modes": {"pilot": {"strata": {}}, "headline": {}}},
        {"modes": {"pilot": {}}},
        {"modes": {"pilot": {}, "headline": {}, "Night|ly": {}}},
        {"judges": []},
        {"judges": [{"service": "loopback", "model": "loopback", "max_tokens": 63}]},
        {"judges": [{"service": "loopback", "model": "loopback", "max_tokens": "1024"}]},
        {"judges": [{"service": "loopback", "model": "loopback", "max_tokens": True}]},
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
    assert getattr(load(judging={name: phrase}).judging, name) == phrase
    for wrong in (f"{phrase}x", " law", "law ", "law\n", "law. Be kind"):
        with pytest.raises(ValidationError):
            load(judging={name: wrong})


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
        "judges": [{"model": "judge-x"}, {"model": "judge-y"}],
        "families": {"ada": "olmo", "judge-y": "claude", "eve": "gpt"},
    }
    ((where, problem),) = config_problems(values)
    assert where == ("families", "eve")
    assert "'eve'" in problem
