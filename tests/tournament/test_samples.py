"""Several answers to a prompt: their names, what a config may ask for, who is asked how often."""

from pathlib import Path
from typing import Any

import pytest

from tests.projects import SmallProject, make_project
from tournament_assets.foundation.fingerprints import fingerprint, prompt_seed
from tournament_assets.graph.settings import draw_settings
from tournament_assets.project.plan import TournamentPlan, load_plan, select_prompts
from tournament_assets.responses.api_responses import (
    build_response_requests,
)
from tournament_assets.tournament.entrants import (
    AnthropicApiEntrant,
    OpenAiApiEntrant,
    RecordedEntrant,
    VanillaHfEntrant,
)
from tournament_assets.tournament.hydra_entrants import CustomPoeEntrant
from tournament_assets.tournament.prompts import (
    GeneratedResponse,
    Prompt,
    answer_key,
    draw_samples,
    first_samples,
    repeat_for_samples,
)

JUDGED = {"judges": ["pilot"]}
BANK = [
    Prompt(name, f"What is {name}?", "recall") for name in ("salt", "tin", "q~sample", "~sample3x")
]


@pytest.fixture
def project(tmp_path: Path) -> SmallProject:
    return make_project(tmp_path / "project")


def plan_of(project: SmallProject, **changes: Any) -> TournamentPlan:
    project.edit_config(**changes)
    return load_plan(project.config_path, {})


def test_the_first_sample_is_the_prompt_and_every_other_has_a_name_and_a_seed_of_its_own() -> None:
    samples = draw_samples(BANK, 12)
    assert [each for each in samples if each.sample == 1] == BANK
    assert [answer_key(each) for each in samples] == [
        (each.prompt_id, number) for each in BANK for number in range(1, 13)
    ]
    assert {each.name for each in BANK} == {each.prompt_id for each in BANK}
    for distinct in (
        {each.name for each in samples},
        {each.fingerprint for each in samples},
        {prompt_seed(each.name) for each in samples},
    ):
        assert len(distinct) == len(samples)
    assert first_samples(samples) == BANK
    assert first_samples(samples[1:]) == BANK
    assert draw_samples(BANK, 1) == BANK


def test_a_prompt_whose_id_reads_as_a_sample_shares_no_paid_answer_with_that_sample() -> None:
    ids = ("p", "p~sample2", "p~sample2~sample1", "p~sample2~sample2", "p~sample02", "~sample2")
    samples = draw_samples([Prompt(each, "What is salt?", "recall") for each in ids], 12)
    assert len({each.fingerprint for each in samples}) == len(samples)
    assert len({prompt_seed(each.name) for each in samples}) == len(samples)


def test_a_tournament_that_answers_once_is_what_it_was(project: SmallProject) -> None:
    before = plan_of(project)
    once = plan_of(project, generation={"n_samples": 1})
    assert once.config.fingerprint == before.config.fingerprint
    assert draw_settings(once) == draw_settings(before)
    twice = plan_of(project, generation={"n_samples": 2})
    assert twice.config.fingerprint != before.config.fingerprint
    assert draw_settings(twice) != draw_settings(before)
    assert len(select_prompts(twice.config, "headline", BANK)) == 2 * len(BANK)


def test_who_has_one_answer_is_asked_once() -> None:
    local = {"entrant_id": "e", "loader": "vanilla_hf", "weights": {"path": "w"}}
    served = {"entrant_id": "e", "loader": "openai_api", "base_url": "http://h/v1"}
    bought = {"entrant_id": "e", "loader": "anthropic_api", "model": "claude-opus-5-5"}
    recorded = {"entrant_id": "e", "loader": "recorded", "responses": {"path": "r.jsonl"}}
    hot = {"temperature": 0.7}
    assert RecordedEntrant.model_validate(recorded).answers_once
    assert VanillaHfEntrant.model_validate(local).answers_once
    assert OpenAiApiEntrant.model_validate({**served, "model": "m"}).answers_once
    assert AnthropicApiEntrant.model_validate({**bought, "temperature": 0.0}).answers_once
    assert not AnthropicApiEntrant.model_validate(bought).answers_once
    assert not VanillaHfEntrant.model_validate({**local, **hot}).answers_once
    assert not OpenAiApiEntrant.model_validate({**served, "model": "m", **hot}).answers_once
    # A product of experts draws its heads even where it takes the most probable token.
    assert not CustomPoeEntrant.model_construct(temperature=None).answers_once


def test_one_answer_is_the_answer_in_every_sample_and_none_is_in_none() -> None:
    answer = GeneratedResponse("tin", "a metal", "stop", response_tokens=2)
    repeated = repeat_for_samples([answer], draw_samples(BANK[:2], 3))
    assert [answer_key(each) for each in repeated] == [("tin", number) for number in (1, 2, 3)]
    assert {(each.text, each.response_tokens) for each in repeated} == {("a metal", 2)}


def test_every_sample_of_a_bought_or_served_model_is_a_request_of_its_own() -> None:
    bought = AnthropicApiEntrant.model_validate(
        {"entrant_id": "e", "loader": "anthropic_api", "model": "claude-opus-5-5"}
    )
    served = OpenAiApiEntrant.model_validate(
        {
            "entrant_id": "e",
            "loader": "openai_api",
            "model": "m",
            "base_url": "http://h/v1",
            "temperature": 0.7,
        }
    )
    samples = draw_samples([*BANK, Prompt("again", BANK[0].text, "recall")], 3)
    requests = build_response_requests(bought, samples)
    # Two prompts of one text stay one request, in each sample.
    assert len(requests) == 3 * len(BANK)
    assert list(build_response_requests(bought, BANK)) == [
        key for key, each in requests.items() if each.prompts[0].sample == 1
    ]
    assert len(build_response_requests(served, samples)) == len(samples)
    # A prompt that is answered once has the key that ledgers hold of it.
    for key, request in build_response_requests(bought, BANK).items():
        asked = {"response_of": bought.fingerprint(bought.content_hash), "params": request.params}
        assert key == fingerprint(asked)
