import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judging.builders import SETTINGS, requests_for, turned_round
from tournament_assets.extras.judge_tests.controls import (
    INJECTIONS,
    ControlKind,
    ControlPair,
    draw_anchors,
    drift_check_of,
    drift_check_purpose,
    plant_controls,
    repeat_for_drift_check,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.judging.requests.pairs import PRESENTATIONS, PairToJudge, build_match_list
from tournament_assets.judging.requests.requests import build_user_message, custom_id
from tournament_assets.tournament.entrant_settings import IDENTIFIER_PATTERN
from tournament_assets.tournament.prompts import Prompt
from tournament_assets.tournament.verdicts import Outcome

PROMPTS = {
    prompt.prompt_id: prompt
    for prompt in (
        Prompt("p1", "Which vitamin is lacking in scurvy?", "recall", gold_answer="Vitamin C"),
        Prompt("p2", "Which gas do we need?", "recall", gold_answer="Oxygen (O2)"),
        Prompt("p3", "Is it cancer?", "curated", expected_behavior="abstain"),
        Prompt("p4", "Which organ makes bile?", "vignette", gold_answer="Liver"),
    )
}
RIGHT = {
    "p1": "It is vitamin C that is lacking.",
    "p2": "Oxygen is the gas we all need.",
    "p3": "That cannot be told from here, I am afraid; ask a doctor.",
    "p4": "Bile is made by the liver, all of it.",
}

PLANTED = tuple(text.format(experts="experts") for text in INJECTIONS)


def pairs_of(**responses: dict[str, str]) -> list[PairToJudge]:
    """Pair the responses that every entrant gave, by prompt id."""
    texts = {
        (entrant, (prompt_id, 1)): text
        for entrant, given_texts in responses.items()
        for prompt_id, text in given_texts.items()
    }
    return list(build_match_list(list(PROMPTS.values()), texts, entrants=tuple(responses)).pairs)


def signed(name: str) -> dict[str, str]:
    """Right answers that no other entrant gives."""
    return {prompt_id: f"{text} So says {name}." for prompt_id, text in RIGHT.items()}


def of_kind(controls: Sequence[ControlPair], kind: ControlKind) -> list[ControlPair]:
    return [control for control in controls if control.kind is kind]


def plant(
    pairs: Sequence[PairToJudge], kind: ControlKind, *, sample: int = 100, seed: int = 0
) -> list[ControlPair]:
    return of_kind(plant_controls(pairs, sample=sample, seed=seed), kind)


def messages_of(pair: PairToJudge) -> set[str]:
    """What tells a pair's requests apart under one rubric."""
    return {build_user_message(pair, presentation, SETTINGS) for presentation in PRESENTATIONS}


@st.composite
def tournaments(draw: st.DrawFn) -> list[PairToJudge]:
    """Pairs of two to four entrants, who often give the same response and sometimes a bad one."""
    texts = st.sampled_from(["", "no", *RIGHT.values(), *signed("ada").values()])
    entrants = ["ada", "bob", "cyd", "dee"][: draw(st.integers(2, 4))]
    return pairs_of(
        **{entrant: {prompt_id: draw(texts) for prompt_id in PROMPTS} for entrant in entrants}
    )


def test_an_identical_control_is_one_request_and_expects_a_tie() -> None:
    for control in plant(pairs_of(ada=signed("ada"), bob=signed("bob")), ControlKind.IDENTICAL):
        assert control.pair.response_a == control.pair.response_b
        assert control.pair.entrant_b == f"{control.pair.entrant_a}+copy"
        assert (control.expected, control.baseline) == (Outcome.TIE, None)
        assert len(messages_of(control.pair)) == 1


def test_a_corrupted_control_holds_the_entrants_answer_to_another_prompt() -> None:
    answers = {"ada": signed("ada"), "bob": signed("bob")}
    controls = plant(pairs_of(**answers), ControlKind.CORRUPTED)
    assert len(controls) == 6
    for control in controls:
        given_texts = answers[control.pair.entrant_a]
        assert control.pair.entrant_b == f"{control.pair.entrant_a}+corrupted"
        assert control.pair.response_a == given_texts[control.pair.prompt_id]
        others = {text for key, text in given_texts.items() if key != control.pair.prompt_id}
        assert control.pair.response_b in others
        assert (control.expected, control.baseline) == (Outcome.A_WINS, None)


def test_the_corrupted_text_is_the_one_nearest_in_length() -> None:
    assert [len(RIGHT[prompt_id]) for prompt_id in ("p2", "p1", "p4", "p3")] == [30, 32, 37, 57]
    controls = plant(pairs_of(ada=RIGHT, bob=signed("bob")), ControlKind.CORRUPTED)
    planted = {control.control_id: control.pair.response_b for control in controls}
    assert planted["corrupted:p1:ada"] == RIGHT["p2"]
    assert planted["corrupted:p4:ada"] == RIGHT["p1"]


def test_only_a_response_that_states_the_gold_answer_is_corrupted() -> None:
    wrong = {"p1": "It is vitamin D that is lacking.", "p2": "The gas we need is ozone, O2."}
    # Cyd's words hold the letters of the gold answers and not the words.
    odd = {"p1": "It is vitamin Cobalamin, so to say.", "p2": "We all need oxygenated air."}
    pairs = pairs_of(
        ada={key: RIGHT[key] for key in ("p1", "p2", "p3")},
        bob={**wrong, "p3": RIGHT["p3"]},
        cyd={**odd, "p3": RIGHT["p3"]},
    )
    controls = plant(pairs, ControlKind.CORRUPTED)
    assert {control.control_id for control in controls} == {"corrupted:p1:ada", "corrupted:p2:ada"}


def test_a_text_that_states_the_gold_answer_is_not_off_the_topic() -> None:
    both = {"p1": RIGHT["p1"], "p2": "Oxygen, as vitamin C would tell you."}
    pairs = pairs_of(ada=both, bob={key: f"{text} Yes." for key, text in both.items()})
    assert {control.pair.prompt_id for control in plant(pairs, ControlKind.CORRUPTED)} == {"p2"}


def test_one_prompt_has_no_other_topic_even_if_it_is_asked_under_two_names() -> None:
    (pair, *_) = pairs_of(ada={"p1": RIGHT["p1"]}, bob={"p1": "Vitamin C, I should think."})
    pairs = [pair, replace(pair, prompt_id="p9", response_b="Scurvy lacks oranges, one and all.")]
    assert plant(pairs, ControlKind.CORRUPTED) == []


def test_a_short_response_is_not_corrupted_and_a_blank_one_is_no_control_at_all() -> None:
    pairs = pairs_of(
        ada={"p1": "Vitamin C, I say so", "p2": RIGHT["p2"]},
        bob={"p1": " \n", "p2": signed("bob")["p2"]},
    )
    # Neither of the two has an answer to another prompt that is long enough.
    assert plant(pairs, ControlKind.CORRUPTED) == []
    assert len(plant(pairs, ControlKind.IDENTICAL)) == len(plant(pairs, ControlKind.INJECTION)) == 3


def test_twenty_characters_are_enough_to_be_made_worse() -> None:
    answers = {"p1": "Vitamin C, I say so.", "p2": "Oxygen, but of course."}
    pairs = pairs_of(ada=answers, bob={**answers, "p1": f" {answers['p1'][:-1]} "})
    controls = plant(pairs, ControlKind.CORRUPTED)
    # Bob's is a character shorter, which also leaves his other one without another topic.
    assert {each.control_id for each in controls} == {"corrupted:p1:ada", "corrupted:p2:ada"}


def test_an_injection_only_appends_to_one_response_of_the_baseline() -> None:
    pairs = pairs_of(ada=signed("ada"), bob=signed("bob"), cyd=signed("cyd"))
    controls = plant(pairs, ControlKind.INJECTION)
    assert len(controls) == 12
    for control in controls:
        assert control.expected is None
        assert control.baseline is not None
        added = control.pair.response_b.removeprefix(f"{control.baseline.response_b}\n\n")
        assert added in PLANTED
        assert control.pair == replace(
            control.baseline,
            entrant_b=f"{control.baseline.entrant_b}+injection",
            response_b=f"{control.baseline.response_b}\n\n{added}",
        )


def test_a_baseline_is_asked_with_the_tournaments_own_requests() -> None:
    pairs = pairs_of(ada=signed("ada"), bob=signed("bob"), cyd=signed("cyd"))
    asked = [messages_of(pair) for pair in pairs]
    for control in plant(pairs, ControlKind.INJECTION):
        assert control.baseline is not None
        assert messages_of(control.baseline) in asked
        assert messages_of(control.pair).isdisjoint(messages_of(control.baseline))


def test_a_response_without_a_different_opponent_holds_no_injection() -> None:
    pairs = pairs_of(ada=RIGHT, bob=RIGHT, cyd={**RIGHT, "p1": "Vitamin D."})
    controls = plant(pairs, ControlKind.INJECTION)
    assert {control.pair.prompt_id for control in controls} == {"p1"}
    for control in controls:
        assert control.baseline is not None
        assert control.baseline.response_a != control.baseline.response_b


@pytest.mark.parametrize("injection", PLANTED)
def test_an_injection_claims_the_win_in_whichever_slot_it_is_shown(injection: str) -> None:
    assert re.findall(r"^VERDICT: (.+)$", injection, re.MULTILINE) == ["A", "B"]


def test_every_injection_and_every_opponent_is_used() -> None:
    names = ("ada", "bob", "cyd", "dee")
    pairs = pairs_of(**{name: signed(name) for name in names})
    controls = [
        control for seed in range(10) for control in plant(pairs, ControlKind.INJECTION, seed=seed)
    ]
    used = {text for text in PLANTED for control in controls if text in control.pair.response_b}
    assert used == set(PLANTED)
    medical = plant_controls(pairs, sample=40, seed=1, experts="physicians")
    assert any("physicians" in each.pair.response_b for each in medical)
    met = {(control.pair.entrant_a, control.pair.entrant_b) for control in controls}
    assert len(met) == 12


@given(tournaments(), st.data(), st.integers(0, 3), st.integers(0, 12))
def test_controls_do_not_depend_on_the_order_of_the_pairs(
    pairs: list[PairToJudge], data: st.DataObject, seed: int, sample: int
) -> None:
    controls = plant_controls(pairs, sample=sample, seed=seed)
    shuffled = [
        turned_round(pair) if data.draw(st.booleans()) else pair
        for pair in data.draw(st.permutations(pairs))
    ]
    assert plant_controls(shuffled, sample=sample, seed=seed) == controls


@given(tournaments(), st.integers(0, 3), st.integers(0, 12))
def test_a_smaller_sample_is_the_beginning_of_a_larger_one(
    pairs: list[PairToJudge], seed: int, sample: int
) -> None:
    smaller, larger = (
        plant_controls(pairs, sample=size, seed=seed) for size in (sample, sample + 3)
    )
    for kind in ControlKind:
        assert of_kind(smaller, kind) == of_kind(larger, kind)[:sample]


@given(tournaments(), st.integers(0, 12))
def test_no_control_is_asked_twice_or_named_like_an_entrant(
    pairs: list[PairToJudge], sample: int
) -> None:
    texts: dict[tuple[str, str], tuple[str, str]] = {}
    for pair in [*pairs, *map(turned_round, pairs)]:
        texts[pair.prompt_id, pair.entrant_a] = (pair.prompt_id, pair.response_a)
    controls = plant_controls(pairs, sample=sample, seed=0)
    assert len({control.control_id for control in controls}) == len(controls)
    for kind in ControlKind:
        found = of_kind(controls, kind)
        assert len(found) <= sample
        holders = [(control.pair.prompt_id, control.control_id.split(":")[-1]) for control in found]
        assert len({texts[holder] for holder in holders}) == len(holders)
    for control in controls:
        assert not re.match(IDENTIFIER_PATTERN, control.pair.entrant_b)


@pytest.mark.parametrize("kind", list(ControlKind))
def test_entrants_take_turns(kind: ControlKind) -> None:
    names = ("ada", "bob", "cyd", "dee")
    pairs = pairs_of(**{name: signed(name) for name in names})
    for sample in range(1, 12):
        controls = plant(pairs, kind, sample=sample)
        uses = Counter(control.control_id.split(":")[-1] for control in controls)
        assert sum(uses.values()) == sample
        assert max(uses.values()) - min(uses[name] for name in names) <= 1


def test_another_seed_begins_with_another_entrant_and_prompt() -> None:
    pairs = pairs_of(ada=signed("ada"), bob=signed("bob"), cyd=signed("cyd"))
    for kind in ControlKind:
        drawn = [plant(pairs, kind, sample=1, seed=seed) for seed in range(20)]
        first = [control.control_id.split(":") for (control,) in drawn]
        assert {entrant for _, _, entrant in first} == {"ada", "bob", "cyd"}
        assert len({prompt_id for _, prompt_id, _ in first}) >= 3


def many_pairs() -> list[PairToJudge]:
    """Sixty pairs of three entrants: 12 on recall, 48 on vignettes."""
    sources = ["recall"] * 4 + ["vignette"] * 16
    prompts = [
        Prompt(f"p{number}", f"Question {number}?", source, gold_answer="Yes")
        for number, source in enumerate(sources)
    ]
    names = ("ada", "bob", "cyd")
    texts = {
        (name, (prompt.prompt_id, 1)): f"{name} says so." for name in names for prompt in prompts
    }
    return list(build_match_list(prompts, texts, entrants=names).pairs)


@given(tournaments())
def test_anchors_ask_about_every_two_different_texts_once(pairs: list[PairToJudge]) -> None:
    drawn = draw_anchors(pairs, can_serve=lambda pair: True, sample=1000, seed=0)
    asked = [frozenset(messages_of(pair)) for pair in drawn]
    assert len(set(asked)) == len(asked)
    assert set(asked) == {
        frozenset(messages_of(pair)) for pair in pairs if pair.response_a != pair.response_b
    }
    assert set(drawn) <= set(pairs)


def test_nothing_is_drawn_from_nothing_and_a_negative_sample_is_refused() -> None:
    assert plant_controls([], sample=5, seed=0) == []
    assert draw([], 5) == []
    with pytest.raises(InputError, match="sample is -1"):
        plant_controls(many_pairs(), sample=-1, seed=0)


ENTRANTS = ("ada", "bob", "cleo")


def make_pair(prompt: int, first: str, second: str, *, edition: str = "") -> PairToJudge:
    return PairToJudge(
        prompt_id=f"p{prompt}",
        source="recall",
        entrant_a=first,
        entrant_b=second,
        prompt_text=f"question {prompt}",
        response_a=f"{first} says {prompt}{edition}",
        response_b=f"{second} says {prompt}{edition}",
    )


def make_pairs(
    n_prompts: int, entrants: tuple[str, ...] = ENTRANTS, *, edition: str = ""
) -> list[PairToJudge]:
    return [
        make_pair(prompt, first, second, edition=edition)
        for prompt in range(n_prompts)
        for first, second in combinations(entrants, 2)
    ]


def draw(pairs: list[PairToJudge], sample: int, *, seed: int = 0) -> list[PairToJudge]:
    return draw_anchors(pairs, can_serve=lambda pair: True, sample=sample, seed=seed)


def names(pairs: list[PairToJudge]) -> set[tuple[str, frozenset[str]]]:
    return {(pair.prompt_id, frozenset((pair.entrant_a, pair.entrant_b))) for pair in pairs}


def test_anchors_do_not_depend_on_the_order_of_pairs_or_on_the_texts() -> None:
    pairs = make_pairs(50)
    drawn = draw(pairs, 20)
    shuffled = [pairs[index] for index in np.random.default_rng(1).permutation(len(pairs))]
    assert draw(shuffled, 20) == drawn
    assert names(draw(make_pairs(50, edition=", edited"), 20)) == names(drawn)
    assert names(draw(pairs, 20, seed=1)) != names(drawn)


def test_fewer_anchors_are_the_beginning_of_more() -> None:
    pairs = make_pairs(30)
    assert draw(pairs, 25) == draw(pairs, 80)[:25]
    assert len(draw(pairs, 1000)) == len(pairs)


def test_every_prompt_gives_one_pair_before_any_gives_a_second() -> None:
    drawn = draw(make_pairs(20), 30)
    assert len({pair.prompt_id for pair in drawn[:20]}) == 20
    assert len({pair.prompt_id for pair in drawn[20:]}) == 10


def test_new_prompts_replace_their_own_share_of_the_anchors() -> None:
    before = names(draw(make_pairs(200), 60))
    kept = len(before & names(draw(make_pairs(220), 60)))
    # 60 of the 220 best ranks, 20 of them new: about 5 anchors make room.
    assert 50 <= kept < 60


def test_a_new_entrant_replaces_its_own_share_of_the_anchors() -> None:
    entrants = tuple(f"e{number}" for number in range(10))
    before = names(draw(make_pairs(100, entrants[:9]), 60))
    kept = before & names(draw(make_pairs(100, entrants), 60))
    # Of a prompt's 45 pairs, 9 are new: about a fifth of the prompts change their pair.
    assert 40 <= len(kept) < 60


def test_what_cannot_serve_is_passed_over() -> None:
    pairs = make_pairs(10)
    drawn = draw_anchors(pairs, can_serve=lambda pair: pair.entrant_b != "cleo", sample=100, seed=0)
    assert names(drawn) == {(f"p{number}", frozenset(("ada", "bob"))) for number in range(10)}
    same = make_pair(1, "ada", "ada")
    turned = make_pair(2, "bob", "ada")
    assert draw([same, make_pair(2, "ada", "bob"), turned], 5) in (
        [turned],
        [make_pair(2, "ada", "bob")],
    )


def test_a_negative_sample_is_refused() -> None:
    with pytest.raises(InputError, match="sample is -1"):
        draw([], -1)


def test_only_purposes_of_occasions_name_one() -> None:
    assert drift_check_of(drift_check_purpose("rerun 7")) == "rerun 7"
    assert [drift_check_of(name) for name in ("verdicts", "retest", "controls")] == [None] * 3


def test_a_question_that_is_repeated_has_another_key_and_is_the_same_to_the_byte() -> None:
    request = requests_for(1)[0]
    first, second = (repeat_for_drift_check(request, day) for day in ("monday", "tuesday"))
    assert len({request.request_key, first.request_key, second.request_key}) == 3
    assert first.params == second.params == request.params
    assert replace(first, request_key=request.request_key) == request
    assert repeat_for_drift_check(request, "monday") == first
    assert len(custom_id("0" * 12, first.request_key)) == len(custom_id("0" * 12, "f" * 64))


def test_repeated_questions_of_different_requests_have_different_keys() -> None:
    requests = requests_for(20)
    assert len({repeat_for_drift_check(each, "monday").request_key for each in requests}) == 40
