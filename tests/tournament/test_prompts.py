import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.foundation.errors import InputError
from tournament_assets.tournament.prompts import (
    Prompt,
    draw_stratified,
    parse_prompt_bank,
)

RECALL = {"prompt_id": "r1", "text": "Which vitamin?", "source": "recall", "gold_answer": "C"}
CURATED = {
    "prompt_id": "c1",
    "text": "Is it cancer?",
    "source": "curated",
    "expected_behavior": "hedge",
}


def parse(*rows: Mapping[str, Any]) -> list[Prompt]:
    return parse_prompt_bank([(f"bank.jsonl:{line}", row) for line, row in enumerate(rows, 1)])


def problems_of(
    *rows: Mapping[str, Any], gold_dimensions: Sequence[str] = ("truth",)
) -> tuple[str, ...]:
    numbered = [(f"bank.jsonl:{line}", row) for line, row in enumerate(rows, 1)]
    with pytest.raises(InputError) as caught:
        parse_prompt_bank(numbered, gold_dimensions=gold_dimensions)
    return caught.value.problems


def without(row: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != key}


def bank(**counts: int) -> list[Prompt]:
    """Build a bank whose sources alternate as long as they last."""
    numbered = [(number, source) for source, count in counts.items() for number in range(count)]
    return [Prompt(f"{source}-{number}", "?", source) for number, source in sorted(numbered)]


def test_a_row_becomes_a_prompt_and_keeps_keys_nobody_knows() -> None:
    (prompt,) = parse(
        {**RECALL, "subject": "diet", "category": "easy", "tags": ["x", "y"], "z": 1, "author": "d"}
    )
    assert prompt == Prompt(
        prompt_id="r1",
        text="Which vitamin?",
        source="recall",
        subject="diet",
        gold_answer="C",
        category="easy",
        tags=("x", "y"),
        extra='{"author": "d", "z": 1}',
    )


def test_prompts_stay_in_bank_order() -> None:
    prompts = parse({**RECALL, "prompt_id": "z"}, CURATED, {**RECALL, "prompt_id": "a"})
    assert [prompt.prompt_id for prompt in prompts] == ["z", "c1", "a"]


@pytest.mark.parametrize("key", ["prompt_id", "text", "source"])
def test_a_row_without_what_every_prompt_needs_is_refused(key: str) -> None:
    (problem,) = problems_of(without(RECALL, key))
    assert problem.startswith("bank.jsonl:1: ")
    assert f"'{key}'" in problem


def test_an_id_used_twice_names_both_lines() -> None:
    (problem,) = problems_of(RECALL, CURATED, {**RECALL, "text": "Another?"})
    assert re.match(r"bank\.jsonl:3:.*'r1'.*bank\.jsonl:1;", problem)


def test_a_prompt_needs_a_gold_answer_or_a_behavior_where_a_dimension_needs_gold_answers() -> None:
    open_ended = without(RECALL, "gold_answer")
    first, second = problems_of(
        open_ended,
        without(CURATED, "expected_behavior"),
        {**open_ended, "prompt_id": "r2", "expected_behavior": "hedge"},
        gold_dimensions=("truth", "recall"),
    )
    assert re.match(r"bank\.jsonl:1:.*'recall'.*gold_answer.*truth, recall", first)
    assert re.match(r"bank\.jsonl:2:.*expected_behavior", second)


def test_a_bank_without_gold_answers_loads_where_no_dimension_needs_them() -> None:
    rows = [without({**RECALL, "source": source}, "gold_answer") for source in ("diff", "design")]
    rows = [{**row, "prompt_id": f"p{number}"} for number, row in enumerate(rows)]
    prompts = parse_prompt_bank([("bank.jsonl:1", row) for row in rows])
    assert [(prompt.source, prompt.gold_answer) for prompt in prompts] == [
        ("diff", None),
        ("design", None),
    ]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("text", "  ", "text is '  '; expected a non-empty text"),
        ("text", 7, "text is 7; expected a non-empty text"),
        ("gold_answer", ["C"], "gold_answer is ['C']; expected a non-empty text"),
        ("expected_behavior", "shrug", "expected_behavior is 'shrug'; expected one of answer, "),
        ("tags", "diet", "tags is 'diet'; expected a list of texts"),
        ("tags", [1], "tags is [1]; expected a list of texts"),
        ("tags", 5, "tags is 5; expected a list of texts"),
        ("tags", {"diet": 1}, "tags is {'diet': 1}; expected a list of texts"),
    ],
)
def test_a_value_of_the_wrong_kind_is_shown(key: str, value: object, expected: str) -> None:
    (problem,) = problems_of({**RECALL, key: value})
    assert problem.startswith(f"bank.jsonl:1: {expected}")


def test_every_problem_of_every_row_is_told_at_once() -> None:
    problems = problems_of({"prompt_id": "a"}, RECALL, RECALL)
    assert [problem.split(": ")[0] for problem in problems] == [
        "bank.jsonl:1",
        "bank.jsonl:1",
        "bank.jsonl:3",
    ]


def test_an_empty_bank_is_refused() -> None:
    assert len(problems_of()) == 1


def test_the_fingerprint_follows_what_a_response_depends_on() -> None:
    prompt = Prompt("r1", "Which vitamin?", "recall", gold_answer="C")
    assert Prompt("r1", "Which vitamin?", "vignette").fingerprint == prompt.fingerprint
    assert Prompt("r2", "Which vitamin?", "recall").fingerprint != prompt.fingerprint
    assert Prompt("r1", "Which vitamin ?", "recall").fingerprint != prompt.fingerprint


sizes = st.fixed_dictionaries({"recall": st.integers(0, 8), "vignette": st.integers(0, 8)})


@given(sizes, st.data(), st.integers(0, 1000))
def test_a_draw_has_the_counts_asked_for_and_keeps_bank_order(
    available: dict[str, int], data: st.DataObject, seed: int
) -> None:
    prompts = bank(**available)
    strata = {name: data.draw(st.integers(0, size)) for name, size in available.items()}
    drawn = draw_stratified(prompts, strata=strata, seed=seed)
    assert drawn == [prompt for prompt in prompts if prompt in drawn]
    assert Counter(prompt.source for prompt in drawn) == Counter(strata)


@given(st.permutations(["recall", "vignette", "curated"]), st.integers(0, 1000))
def test_a_draw_does_not_depend_on_the_order_of_the_strata(names: list[str], seed: int) -> None:
    prompts = bank(recall=6, vignette=6, curated=6)
    expected = draw_stratified(
        prompts, strata={"curated": 3, "recall": 2, "vignette": 4}, seed=seed
    )
    counts = {"recall": 2, "vignette": 4, "curated": 3}
    strata = {name: counts[name] for name in names}
    assert draw_stratified(prompts, strata=strata, seed=seed) == expected


def test_another_seed_draws_other_prompts() -> None:
    prompts = bank(recall=50)
    draws = {
        tuple(prompt.prompt_id for prompt in draw_stratified(prompts, strata={"recall": 5}, seed=s))
        for s in range(5)
    }
    assert len(draws) == 5


def test_a_source_that_no_stratum_names_is_not_drawn() -> None:
    drawn = draw_stratified(bank(recall=3, vignette=3), strata={"recall": 3}, seed=0)
    assert [prompt.source for prompt in drawn] == ["recall"] * 3


def test_every_stratum_that_is_too_small_is_named() -> None:
    with pytest.raises(InputError) as caught:
        draw_stratified(
            bank(recall=3, vignette=3), strata={"vignette": 4, "typo": 1, "recall": 3}, seed=0
        )
    said = [re.findall(r"'\w+'|\d+", problem)[:3] for problem in caught.value.problems]
    assert said == [["'typo'", "1", "0"], ["'vignette'", "4", "3"]]
