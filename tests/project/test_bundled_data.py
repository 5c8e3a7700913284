"""What ships with the project: the bank, the configs, the rubrics and the judge's instructions."""

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from tournament_assets.judging.requests.requests import build_system_message
from tournament_assets.project.config_files import ConfigFile, load_config
from tournament_assets.project.plan import select_prompts
from tournament_assets.project.project_files import Project, load_prompt_bank, load_rubrics
from tournament_assets.recorded.recorded_responses import OUTSIDE, load_recorded_responses
from tournament_assets.tournament.entrants import RecordedEntrant
from tournament_assets.tournament.hydra_entrants import CustomPoeEntrant
from tournament_assets.tournament.prompts import CURATED_SOURCE, Prompt

ROOT = Path(__file__).parents[2]
CONFIGS = sorted(
    path for folder in ("configs", "configs/examples") for path in (ROOT / folder).glob("*.yaml")
)
MEDICAL = ("factuality", "calibration", "clinical_utility")
GENERAL = ("correctness", "helpfulness")


@pytest.fixture(scope="module")
def demo() -> ConfigFile:
    return load_config(ROOT / "configs" / "demo.yaml")


@pytest.fixture(scope="module")
def bank(demo: ConfigFile) -> list[Prompt]:
    location = demo.config.prompt_bank
    return load_prompt_bank(Project(demo.project, {}).resolve(location, what="the bank"))


def test_the_bank_has_143_prompts(bank: list[Prompt]) -> None:
    assert Counter(prompt.source for prompt in bank) == {
        "recall": 24,
        "vignette": 69,
        "curated": 50,
    }


def test_curated_prompts_ask_to_answer_to_hedge_and_to_abstain(bank: list[Prompt]) -> None:
    behaviors = Counter(
        prompt.expected_behavior for prompt in bank if prompt.source == CURATED_SOURCE
    )
    assert behaviors.keys() == {"answer", "hedge", "abstain"}
    assert abs(behaviors["answer"] - 20) <= 2
    assert abs(behaviors["hedge"] - 20) <= 2
    assert abs(behaviors["abstain"] - 10) <= 2


def test_only_curated_prompts_have_a_behavior_and_only_the_others_a_gold_answer(
    bank: list[Prompt],
) -> None:
    for prompt in bank:
        assert (prompt.expected_behavior is not None) is (prompt.source == CURATED_SOURCE), (
            prompt.prompt_id
        )
        assert (prompt.gold_answer is None) is (prompt.source == CURATED_SOURCE), prompt.prompt_id


def test_no_two_prompts_are_alike(bank: list[Prompt]) -> None:
    words = {prompt.prompt_id: set(re.findall(r"\w+", prompt.text.lower())) for prompt in bank}
    alike = [
        (first, second)
        for first, second in combinations(words, 2)
        if len(words[first] & words[second]) / len(words[first] | words[second]) >= 0.5
    ]
    assert alike == []


def test_no_prompt_gives_its_answer_away(bank: list[Prompt]) -> None:
    given_away = [
        prompt.prompt_id
        for prompt in bank
        if prompt.gold_answer and prompt.gold_answer.lower() in prompt.text.lower()
    ]
    assert given_away == []


def test_the_pilot_of_the_demo_draws_50_prompts(demo: ConfigFile, bank: list[Prompt]) -> None:
    drawn = select_prompts(demo.config, "pilot", bank)
    assert len(drawn) == 50
    assert Counter(prompt.source for prompt in drawn) == demo.config.mode("pilot").strata


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_loads_and_its_pilot_can_be_drawn(path: Path) -> None:
    config = load_config(path).config
    assert config.tournament_id == path.stem
    assert config.dimension_names == (GENERAL if path.stem == "real_small" else MEDICAL)
    bank = Project(ROOT, {}).resolve(config.prompt_bank, what="the bank")
    assert select_prompts(config, "pilot", load_prompt_bank(bank))


def test_the_configs_are_the_demo_the_real_ones_and_an_ablation() -> None:
    names = {path.stem for path in CONFIGS}
    assert {"ablation", "demo", "demo_entrants", "demo_jury", "real_small", "tournament1"} <= names


def test_the_teachers_answers_are_one_to_each_prompt_and_one_to_no_prompt(
    bank: list[Prompt],
) -> None:
    config = load_config(ROOT / "configs" / "examples" / "demo_entrants.yaml").config
    (teacher,) = (each for each in config.entrants if isinstance(each, RecordedEntrant))
    path = Project(ROOT, {}).resolve(teacher.responses, what="the answers")
    recorded = load_recorded_responses(path, teacher, prompts=bank)
    assert recorded.format == "alpaca-eval"
    assert recorded.left_out == {OUTSIDE: 1}
    lines = (ROOT / "scripts" / "tiny_olmo2" / "answers.jsonl").read_text("utf-8").splitlines()
    taught = {row["prompt_id"]: row["answer"] for row in map(json.loads, lines)}
    assert {each.prompt_id: each.text for each in recorded.responses} == taught


def test_the_ablation_shares_its_responses_with_the_real_one() -> None:
    by_name = {path.stem: load_config(path).config for path in CONFIGS}
    prints = {
        name: {entrant.fingerprint("weights") for entrant in by_name[name].entrants}
        for name in ("ablation", "tournament1")
    }
    assert len(prints["ablation"] & prints["tournament1"]) == 2
    sharpness = {
        entrant.entrant_id: (entrant.temperature, entrant.beta)
        for entrant in by_name["ablation"].entrants
        if isinstance(entrant, CustomPoeEntrant)
    }
    assert sharpness == {
        "one_head": (0.98, 1.0),
        "one_head_t012": (0.12, 1.0),
        "full_poe_beta_eighth": (0.98, 0.125),
        "full_poe": (0.98, 1.0),
    }


def test_the_demo_asks_for_no_key_no_variable_and_no_network(demo: ConfigFile) -> None:
    assert [each.service for each in demo.config.judges] == ["loopback"]
    assert "'env': '" not in str(demo.config.model_dump())


@pytest.mark.parametrize("dimension", MEDICAL)
def test_the_judges_prefix_is_long_enough_to_be_cached_and_short_enough_to_be_read(
    demo: ConfigFile, dimension: str
) -> None:
    rubrics = load_rubrics(demo.config, Project(demo.project, {}))
    tokens = len(build_system_message(rubrics[dimension])) / 4  # the usual estimate
    assert 512 < tokens < 4096
    assert f"# dimension: {dimension}\n" in rubrics[dimension].text
