from itertools import combinations
from typing import Any

import pytest

from tournament_assets.audits.agreement import LabelPair, measure_agreement
from tournament_assets.audits.judge_consistency import JudgedPair
from tournament_assets.audits.judge_tests import RepeatedPair, SettledControl
from tournament_assets.judging.requests.controls import ControlKind
from tournament_assets.judging.requests.verdict_parsing import reconcile_swap
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.estimates import Estimate, Resampling
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict
from tournament_assets.trust.measures import WORDS, is_red, threshold_of
from tournament_assets.trust.panel import (
    TrustEvidence,
    TrustLine,
    TrustState,
    trust_lines,
)

A, B, TIE = Verdict.A, Verdict.B, Verdict.TIE
NAMES = ("ada", "bob", "cyd")
NOTHING: dict[str, Any] = {
    "length": Estimate(None, note="never differs"),
    "repeats": "not asked",
    "controls": "not planted",
    "people": None,
    "judges": "not compared",
}
STRICT = CheckThresholds(
    min_retest_agreement=0.9,
    min_judge_kappa=0.5,
    min_human_kappa=0.5,
    max_length_effect=20,
    min_identical_ties=0.9,
    min_corrupted_wins=0.9,
    max_injection_gain=0.1,
    min_transitivity_p=0.01,
)


def pair(prompt: str, a: str, b: str, *verdicts: Verdict) -> JudgedPair:
    first, second = verdicts
    return JudgedPair(
        Judgment(prompt, "f", a, b, reconcile_swap(first, second)),
        (first, second),
        (f"{prompt} {a} {b}", f"{prompt} {b} {a}"),
    )


def panel(
    pairs: list[JudgedPair], thresholds: CheckThresholds = STRICT, **evidence: Any
) -> dict[tuple[str, str | None], TrustLine]:
    lines = trust_lines(
        TrustEvidence(pairs=pairs, **{**NOTHING, **evidence}),
        entrants=NAMES,
        thresholds=thresholds,
        resampling=Resampling(100),
    )
    return {(line.measure, line.subject): line for line in lines}


def good_pairs(n: int = 20) -> list[JudgedPair]:
    return [
        pair(f"p{number}", a, b, A, B) for number in range(n) for a, b in combinations(NAMES, 2)
    ]


def test_what_was_not_measured_is_never_green_and_says_why() -> None:
    found = panel(good_pairs())
    for measure in ("test_retest", "judge_agreement", "length_effect", "injection_controls"):
        line = found[measure, None]
        assert line.state is TrustState.NOT_MEASURED
        assert line.estimate.value is None
        assert line.estimate.note in {"never differs", *NOTHING.values()}
    assert ("human_agreement", None) not in found
    nothing = panel([])
    assert {line.state for line in nothing.values()} == {TrustState.NOT_MEASURED}


def test_a_judge_without_fault_is_green_where_it_was_measured() -> None:
    agreed = measure_agreement(
        [LabelPair(f"p{n}", word, word) for n, word in enumerate("abab")], Resampling(50)
    )
    found = panel(
        good_pairs(),
        length=Estimate(5.0, -3.0, 13.0, 60, ""),
        repeats=[
            RepeatedPair("p1", Outcome.A_WINS, Outcome.A_WINS),
            RepeatedPair("p2", Outcome.B_WINS, Outcome.B_WINS),
        ],
        controls=[
            SettledControl(ControlKind.IDENTICAL, "1", Outcome.TIE, Outcome.TIE, (TIE, TIE)),
            SettledControl(ControlKind.CORRUPTED, "2", Outcome.A_WINS, Outcome.A_WINS, (A, B)),
            SettledControl(ControlKind.INJECTION, "3", Outcome.A_WINS, Outcome.A_WINS, (A, B)),
        ],
        people=Estimate(0.7, 0.5, 0.9, 30, ""),
        judges={"another": agreed.kappa},
    )
    for measure in ("flip_direction", "longer_wins"):
        assert found.pop((measure, None)).state is TrustState.NOT_MEASURED
    assert {line.state for line in found.values()} == {TrustState.GREEN}
    assert found["judge_agreement", "another"].estimate.value == pytest.approx(1)


def test_a_judge_with_every_fault_is_red_everywhere() -> None:
    # Bob over ada over cyd over bob, by the slot in half of the other pairs.
    pairs = [
        each
        for number in range(20)
        for each in (
            pair(f"p{number}", "ada", "bob", B, A),
            pair(f"p{number}", "ada", "cyd", A, B),
            pair(f"p{number}", "bob", "cyd", B, A),
            *(pair(f"q{number}", a, b, A, A) for a, b in combinations(NAMES, 2)),
            pair(f"r{number}", "ada", "bob", A, Verdict.REFUSED),
            pair(f"r{number}", "bob", "cyd", Verdict.PENDING, A),
        )
    ]
    apart = measure_agreement(
        [
            LabelPair(f"p{n}", word, other)
            for n, (word, other) in enumerate([("a", "b"), ("b", "a")] * 3)
        ],
        Resampling(50),
    )
    found = panel(
        pairs,
        length=Estimate(-50.0, -60.0, -40.0, 60, ""),
        repeats=[RepeatedPair("p1", Outcome.A_WINS, Outcome.B_WINS)],
        controls=[
            SettledControl(ControlKind.IDENTICAL, "1", Outcome.TIE, Outcome.A_WINS, (A, B)),
            SettledControl(ControlKind.CORRUPTED, "2", Outcome.A_WINS, Outcome.TIE, (TIE, TIE)),
            SettledControl(ControlKind.INJECTION, "3", Outcome.A_WINS, Outcome.B_WINS, (B, A)),
        ],
        people=Estimate(0.1, -0.1, 0.3, 30, ""),
        judges={"another": apart.kappa},
    )
    # One triple of majorities says nothing, and nobody counted these responses' words.
    assert found.pop(("transitivity_of_majorities", None)).state is TrustState.GREEN
    assert found.pop(("longer_wins", None)).state is TrustState.NOT_MEASURED
    assert {key: line.state for key, line in found.items()} == dict.fromkeys(found, TrustState.RED)
    assert found["position_bias", None].estimate.value == pytest.approx(180 / 240)
    assert found["unjudged", "bob"].estimate.n == 120
    assert found["unjudged", "bob"].estimate.value == pytest.approx(40 / 120)


def test_without_thresholds_there_is_a_number_and_no_light() -> None:
    found = panel(
        good_pairs(),
        CheckThresholds(max_position_bias=None),
        people=Estimate(0.1, None, None, 9, ""),
    )
    for measure in ("position_bias", "human_agreement", "transitivity_within_prompts"):
        assert found[measure, None].state is TrustState.NO_THRESHOLD
        assert found[measure, None].estimate.value is not None


def test_every_measure_is_red_on_its_own_side_of_the_threshold_and_not_at_it() -> None:
    beyond = {
        "position_bias": (0.35, 0.65),
        "flip_direction": (0.05, 0.95),
        "length_effect": (-21.0, 21.0),
        "longer_wins": (0.95,),
        "injection_controls": (0.11,),
        "unjudged": (0.03,),
        "swap_consistency": (0.6,),
        "test_retest": (0.89,),
        "judge_agreement": (0.49,),
        "human_agreement": (0.49,),
        "identical_controls": (0.89,),
        "corrupted_controls": (0.89,),
        "transitivity_within_prompts": (0.009,),
        "transitivity_of_majorities": (0.009,),
    }
    assert {*beyond, "not_needed", "sampling_luck"} == set(WORDS)  # two are never red
    assert threshold_of("not_needed", STRICT) is None
    for measure, values in beyond.items():
        threshold = threshold_of(measure, STRICT)
        assert threshold is not None
        for value in values:
            assert is_red(measure, value, threshold, low=value - 0.01, high=value + 0.01), measure
        at = 0.5 + threshold if measure in ("position_bias", "flip_direction") else threshold
        assert not is_red(measure, at, threshold, low=at - 0.01, high=at + 0.01), measure


def test_a_direction_that_chance_may_give_is_not_red() -> None:
    for measure, value, neutral in (
        ("position_bias", 1.0, 0.5),
        ("flip_direction", 1.0, 0.5),
        ("longer_wins", 1.0, 0.5),
        ("length_effect", 200.0, 0.0),
    ):
        threshold = threshold_of(measure, CheckThresholds())
        assert threshold is not None
        assert is_red(measure, value, threshold, low=neutral + 0.01, high=value)
        assert not is_red(measure, value, threshold, low=neutral - 0.01, high=value)
        assert not is_red(measure, value, threshold)


def test_every_measure_has_a_meaning_and_an_advice_in_one_sentence_each() -> None:
    for words in WORDS.values():
        for text in (words.meaning, words.advice):
            assert text.endswith(".")
            assert text.count(". ") == 0
