from itertools import combinations
from typing import Any

import pytest

from tournament_assets.audits.agreement import LabelPair, measure_agreement
from tournament_assets.audits.judge_consistency import JudgedPair
from tournament_assets.audits.judge_tests import RepeatedPair, SettledControl
from tournament_assets.judging.requests.controls import ControlKind
from tournament_assets.judging.requests.verdict_parsing import reconcile_swap
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import JudgeReplyRow, MeasureRow
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.estimates import Estimate, Resampling
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict
from tournament_assets.trust.lights import TrustState
from tournament_assets.trust.measures import MEASURES, lights_of, measure_judge
from tournament_assets.trust.panel import JudgeEvidence, control_share, injection_share

A, B, TIE = Verdict.A, Verdict.B, Verdict.TIE
NAMES = ("ada", "bob", "cyd")
NOTHING: dict[str, Any] = {
    "length": Estimate(None, note="never differs"),
    "repeats": "not asked",
    "controls": "not planted",
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
) -> dict[tuple[str, str | None], MeasureRow]:
    found = JudgeEvidence(
        pairs=pairs,
        entrants=NAMES,
        resampling=Resampling(100),
        replies=make_table(JudgeReplyRow, []),
        **{**NOTHING, **evidence},
    )
    rows = measure_judge(found, thresholds, dimension="f")
    return {(row.measure, row.subject): row for row in rows}


def good_pairs(n: int = 20) -> list[JudgedPair]:
    return [
        pair(f"p{number}", a, b, A, B) for number in range(n) for a, b in combinations(NAMES, 2)
    ]


def test_what_was_not_measured_is_never_green_and_says_why() -> None:
    found = panel(good_pairs())
    for measure in ("test_retest", "judge_agreement", "length_effect", "injection_controls"):
        line = found[measure, None]
        assert line.state == TrustState.NOT_MEASURED
        assert line.value is None
        assert line.note in {"never differs", *NOTHING.values()}
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
        judges={"another": agreed.kappa},
    )
    for measure in ("flip_direction", "longer_wins"):
        assert found.pop((measure, None)).state == TrustState.NOT_MEASURED
    assert {line.state for line in found.values()} == {TrustState.GREEN}
    assert found["judge_agreement", "another"].value == pytest.approx(1)


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
        judges={"another": apart.kappa},
    )
    # One triple of majorities says nothing, and nobody counted these responses' words.
    assert found.pop(("transitivity_of_majorities", None)).state == TrustState.GREEN
    assert found.pop(("longer_wins", None)).state == TrustState.NOT_MEASURED
    assert {key: line.state for key, line in found.items()} == dict.fromkeys(found, TrustState.RED)
    assert found["position_bias", None].value == pytest.approx(180 / 240)
    assert found["unjudged", "bob"].n == 120
    assert found["unjudged", "bob"].value == pytest.approx(40 / 120)


def test_without_thresholds_there_is_a_number_and_no_light() -> None:
    found = panel(good_pairs(), CheckThresholds(max_position_bias=None))
    for measure in ("position_bias", "transitivity_within_prompts"):
        assert found[measure, None].state == TrustState.NO_THRESHOLD
        assert found[measure, None].value is not None


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
    assert {*beyond, "not_needed", "sampling_luck"} == set(MEASURES)  # two are never red
    assert MEASURES["not_needed"].threshold(STRICT) is None
    for measure, values in beyond.items():
        threshold = MEASURES[measure].threshold(STRICT)
        assert threshold is not None

        def is_red(value: float, named: str = measure, limit: float = threshold) -> bool:
            return MEASURES[named].is_red(Estimate(value, value - 0.01, value + 0.01), limit)

        assert all(map(is_red, values)), measure
        at = 0.5 + threshold if measure in ("position_bias", "flip_direction") else threshold
        assert not is_red(at), measure


def test_a_direction_that_chance_may_give_is_not_red() -> None:
    for measure, value, neutral in (
        ("position_bias", 1.0, 0.5),
        ("flip_direction", 1.0, 0.5),
        ("longer_wins", 1.0, 0.5),
        ("length_effect", 200.0, 0.0),
    ):
        threshold = MEASURES[measure].threshold(CheckThresholds())
        assert threshold is not None
        is_red = MEASURES[measure].is_red
        assert is_red(Estimate(value, neutral + 0.01, value), threshold)
        assert not is_red(Estimate(value, neutral - 0.01, value), threshold)
        assert not is_red(Estimate(value), threshold)


def test_every_measure_has_a_meaning_and_an_advice_in_one_sentence_each() -> None:
    for words in MEASURES.values():
        for text in (words.meaning, words.advice):
            assert text.endswith(".")
            assert text.count(". ") == 0


def test_lights_are_in_the_order_of_the_panel_and_other_measures_have_none() -> None:
    def row(measure: str, dimension: str, state: str | None) -> MeasureRow:
        return MeasureRow.of(
            Estimate(0.5), dimension=dimension, measure=measure, unit="share", state=state
        )

    tables = [
        make_table(MeasureRow, [row("unjudged", "f", "green"), row("silent", "f", None)]),
        make_table(MeasureRow, [row("unjudged", "g", "red")]),
        make_table(MeasureRow, [row("swap_consistency", "f", "red"), row("wins", "f", None)]),
    ]
    assert [(each.measure, each.dimension) for each in lights_of(tables)] == [
        ("swap_consistency", "f"),
        ("unjudged", "f"),
        ("unjudged", "g"),
    ]


def test_where_no_control_is_judged_nothing_is_known() -> None:
    unread = SettledControl(
        ControlKind.CORRUPTED, "1", Outcome.A_WINS, Outcome.UNJUDGED, (A, Verdict.REFUSED)
    )
    for found in (
        control_share([], ControlKind.IDENTICAL, confidence=0.95),
        control_share([unread], ControlKind.CORRUPTED, confidence=0.95),
        injection_share([unread], confidence=0.95),
    ):
        assert found.value is None
        assert "nothing is known" in str(found.note)
