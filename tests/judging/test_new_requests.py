from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tournament_assets.judging.costs.estimates import measure_workload
from tournament_assets.judging.requests.new_requests import count_new_requests
from tournament_assets.judging.requests.pairs import (
    EveryPair,
    build_match_list,
    draw_share,
    split_identical,
)
from tournament_assets.judging.requests.requests import JudgeRequests, RequestSettings
from tournament_assets.tournament.completions import break_marks
from tournament_assets.tournament.judges import Judge
from tournament_assets.tournament.prompts import Prompt, answer_key

from .builders import RUBRIC, SETTINGS, count_requests
from .prices import OPUS, PRICES

# Some are the same once marks are broken, or once they can be printed.
TEXTS = (
    *("", "a", "b", "ab" * 40, "\N{GREEK SMALL LETTER BETA}", '"\\\n'),
    *("<think>", break_marks("<think>", of_templates=True), "<|im_start|>"),
    *("\ud800", "\udc00", "\N{REPLACEMENT CHARACTER}"),
)
texts = st.sampled_from(TEXTS)
prompts = st.lists(
    st.builds(
        Prompt,
        prompt_id=st.sampled_from("pqr"),
        sample=st.integers(1, 2),
        text=texts,
        source=st.sampled_from(("curated", "recall")),
        gold_answer=st.none() | texts,
        expected_behavior=st.none() | st.sampled_from(("hedge", "answer")),
    ),
    max_size=5,
    unique_by=answer_key,
)


@st.composite
def every_pair(draw: st.DrawFn) -> EveryPair:
    """Draw some prompts and entrants' responses to them, of which many are the same."""
    bank, entrants = draw(prompts), "abcd"[: draw(st.integers(0, 4))]
    responses = {
        (entrant, answer_key(prompt)): draw(texts) for entrant in entrants for prompt in bank
    }
    return build_match_list(bank, responses, entrants=entrants).pairs


def same_to_a_judge() -> EveryPair:
    """Two prompts, and two responses to each, that look the same once marks are broken."""
    marks = ("<think>", break_marks("<think>", of_templates=True))
    bank = [Prompt(f"p{number}", text, "recall") for number, text in enumerate(marks)]
    responses = {
        (entrant, answer_key(prompt)): text
        for prompt in bank
        for entrant, text in zip("abc", (*marks, "\N{GREEK SMALL LETTER BETA}"), strict=True)
    }
    return build_match_list(bank, responses, entrants="abc").pairs


@example(
    same_to_a_judge(),
    replace(SETTINGS, judge_model="opus"),
    {"prices": PRICES, "has_trial": True},
    1.0,
    True,
)
@given(
    every_pair(),
    st.builds(
        replace,
        st.just(SETTINGS),
        judge_model=st.sampled_from(("opus", "nobody's")),
        reply_format=st.sampled_from(("line", "json_schema")),
        breaks_templates=st.booleans(),
        shows_gold_answer=st.booleans(),
        shows_expected_behavior=st.booleans(),
    ),
    st.fixed_dictionaries(
        {
            "prices": st.sampled_from(
                (None, PRICES, replace(PRICES, models={"opus": replace(OPUS, max_prompt_tokens=1)}))
            ),
            "channel": st.sampled_from(("batch", "direct")),
            "has_trial": st.booleans(),
            "tokens_per_reply": st.floats(1, 1000),
        }
    ),
    st.sampled_from((1.0, 0.6, None)),
    st.booleans(),
)
def test_new_requests_cost_what_they_cost_one_by_one(
    pairs: EveryPair,
    settings: RequestSettings,
    terms: dict[str, Any],
    share: float | None,
    ties_identical: bool,
) -> None:
    judge = Judge(service="anthropic", model="claude", share=share or 1.0)
    judge = judge.asking(settings.judge_model)
    judge = judge.in_turn([judge.model, "another"]) if share is None else judge
    asked = draw_share(pairs, judge)
    asked, identical = split_identical(asked) if ties_identical else (asked, [])
    terms["model"] = settings.judge_model
    plain = count_requests(JudgeRequests(asked, RUBRIC, settings))
    n_identical = 2 * len(identical)
    plain = replace(plain, presentations=plain.presentations + n_identical, identical=n_identical)
    one_by_one = measure_workload([plain], **terms)
    counted = measure_workload(
        count_new_requests(pairs, RUBRIC, settings, judge=judge, ties_identical=ties_identical),
        **terms,
    )
    if one_by_one.most_usd is not None:
        assert counted.most_usd == pytest.approx(one_by_one.most_usd, rel=1e-9)
        counted = replace(counted, most_usd=one_by_one.most_usd)
    assert counted == one_by_one


def test_pairs_are_reached_one_by_one_and_in_slices() -> None:
    bank = [Prompt(f"p{number}", "?", "recall") for number in range(3)]
    responses = {(each, answer_key(prompt)): each for each in "abc" for prompt in bank}
    pairs = build_match_list(bank, responses, entrants="abc").pairs
    assert [pairs[place] for place in range(-9, 9)] == 2 * [*pairs]
    assert pairs[2:8:2] == [*pairs][2:8:2]
    with pytest.raises(IndexError):
        pairs[9]
