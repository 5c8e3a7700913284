from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.audits.agreement import measure_by_prompt
from tournament_assets.audits.judge_consistency import JudgedPair
from tournament_assets.foundation.estimates import Estimate, Resampling
from tournament_assets.judging.requests.verdict_parsing import reconcile_swap
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import JudgeReplyRow, MeasureRow, VerdictRow
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.verdicts import Judgment, Verdict
from tournament_assets.trust.lights import TrustState
from tournament_assets.trust.measures import ALL_DIMENSIONS, MEASURES, lights_of, measure_judge
from tournament_assets.trust.panel import JudgeEvidence

A, B, TIE = Verdict.A, Verdict.B, Verdict.TIE
NAMES = ("ada", "bob", "cyd")
NOTHING: dict[str, Any] = {
    "length": Estimate(None, note="never differs"),
}
STRICT = CheckThresholds(
    max_length_effect=20,
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
    """Return the rows of the measures that these tests know, by measure and subject."""
    evidence_of_judge = JudgeEvidence(
        pairs=pairs,
        entrants=NAMES,
        resampling=Resampling(100),
        verdicts=make_table(VerdictRow, []),
        replies=make_table(JudgeReplyRow, []),
        **{**NOTHING, **evidence},
    )
    rows = measure_judge(evidence_of_judge, thresholds, dimension="f")
    known = {*BEYOND, *NEVER_LIT}
    return {(row.measure, row.subject): row for row in rows if row.measure in known}


BEYOND: dict[str, tuple[float, ...]] = {
    "position_bias": (0.35, 0.65),
    "flip_direction": (0.05, 0.95),
    "length_effect": (-21.0, 21.0),
    "longer_wins": (0.95,),
    "unjudged": (0.03,),
    "swap_consistency": (0.6,),
    "transitivity_within_prompts": (0.009,),
    "transitivity_of_majorities": (0.009,),
}
"""Values beyond the thresholds of `STRICT`, for the measures that these tests know."""
NEVER_LIT = ("not_needed", "sampling_luck", "circular_share")
"""Measures without a threshold, which they know, too."""
ENOUGH = 60
"""As many of anything, all alike, tell."""


def good_pairs(n: int = 20) -> list[JudgedPair]:
    return [
        pair(f"p{number}", a, b, A, B) for number in range(n) for a, b in combinations(NAMES, 2)
    ]


def test_what_was_not_measured_is_never_green_and_says_why() -> None:
    found = panel(good_pairs())
    line = found["length_effect", None]
    assert line.state == TrustState.NOT_MEASURED
    assert line.value is None
    assert line.estimate in NOTHING.values()
    assert ("human_agreement", None) not in found
    nothing = panel([])
    assert {line.state for line in nothing.values()} == {TrustState.NOT_MEASURED}


def test_a_judge_without_fault_is_green_where_it_was_measured() -> None:
    found = panel(
        good_pairs(),
        length=Estimate(5.0, -3.0, 13.0, 60, ""),
    )
    for measure in ("flip_direction", "longer_wins"):
        assert found.pop((measure, None)).state == TrustState.NOT_MEASURED
    assert found.pop(("circular_share", None)).state == TrustState.NO_THRESHOLD
    assert {line.state for line in found.values()} == {TrustState.GREEN}


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
    found = panel(
        pairs,
        length=Estimate(-50.0, -60.0, -40.0, 60, ""),
    )
    # One triple of majorities says nothing, and nobody counted these responses' words.
    assert found.pop(("transitivity_of_majorities", None)).state == TrustState.GREEN
    circles = found.pop(("circular_share", None))
    assert circles.value is not None
    assert circles.value > 0.9
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
    assert {MEASURES[name].threshold(STRICT) for name in NEVER_LIT} == {None}
    for measure, values in BEYOND.items():
        threshold = MEASURES[measure].threshold(STRICT)
        assert threshold is not None

        def state(value: float, named: str = measure, limit: float = threshold) -> TrustState:
            found = Estimate(value, value - 0.001, value + 0.001, n=ENOUGH)
            return MEASURES[named].state_of(found, limit)

        assert {*map(state, values)} == {TrustState.RED}, measure
        at = 0.5 + threshold if measure in ("position_bias", "flip_direction") else threshold
        assert state(at) is not TrustState.RED, measure


LIT = sorted(name for name, each in MEASURES.items() if each.threshold(STRICT) is not None)


@given(
    measure=st.sampled_from(LIT),
    distances=st.tuples(*[st.floats(-1.5, 1.5)] * 3).map(sorted),
)
def test_a_light_is_green_inside_its_limits_red_outside_and_amber_where_both_are_possible(
    measure: str, distances: list[float]
) -> None:
    found, limit = MEASURES[measure], MEASURES[measure].threshold(STRICT)
    assert limit is not None
    middle, scale = found.neutral or 0.0, limit if found.unit == "points" else 1.0
    low, value, high = (middle + scale * each for each in distances)
    state = found.state_of(Estimate(value, low, high, ENOUGH), limit)
    lowest, highest = found.limits(limit)
    is_inside = lowest <= low and high <= highest
    is_outside = high < lowest or low > highest
    exceptions = {
        "number": not lowest <= value <= highest,
        "lean": not lowest <= value <= highest and not low <= middle <= high,
        "interval": False,
    }
    if found.is_exact:
        assert (state is TrustState.GREEN) is (lowest <= value <= highest)
        assert state is not TrustState.AMBER
        return
    assert (state is TrustState.GREEN) is is_inside
    assert (state is TrustState.RED) is (is_outside or exceptions[found.red_by])
    unbounded = found.state_of(Estimate(value, None, None, ENOUGH), limit)
    assert unbounded is (
        TrustState.RED if exceptions["number"] and found.red_by == "number" else TrustState.AMBER
    )


def test_the_lights_that_do_not_go_by_the_whole_interval_are_these() -> None:
    red_by = {name: MEASURES[name].red_by for name in BEYOND}
    assert {name: rule for name, rule in red_by.items() if rule != "interval"} == {
        "flip_direction": "lean",
        "longer_wins": "lean",
        "swap_consistency": "number",
    }
    assert {name for name in BEYOND if MEASURES[name].is_exact} == {
        "transitivity_within_prompts",
        "transitivity_of_majorities",
        "unjudged",
    }


def test_a_judge_that_tosses_a_coin_is_red_by_its_consistency() -> None:
    coin = Estimate(0.58, 0.47, 0.68, 36)
    assert MEASURES["swap_consistency"].state_of(coin, 0.65) is TrustState.RED


def test_a_wide_effect_of_length_is_amber_on_either_side() -> None:
    for sign in (1, -1):
        low, high = sorted((-60.0 * sign, 440.0 * sign))
        wide = Estimate(190.0 * sign, low, high, 30)
        assert MEASURES["length_effect"].state_of(wide, 100) is TrustState.AMBER


AT_LEAST = replace(MEASURES["swap_consistency"], red_by="interval")
"""A share that is to be at least so large, by its interval."""


def share(n: int, right: int) -> Estimate:
    """So many of every ten prompts."""
    return measure_by_prompt([(f"p{k}", k % 10 < right) for k in range(n)])


def test_as_many_more_as_are_named_tell() -> None:
    flips, retest = MEASURES["flip_direction"], AT_LEAST
    assert flips.state_of(share(6, 10), 0.4) is TrustState.AMBER
    assert flips.needed(share(6, 10), 0.4) == 1
    assert flips.state_of(share(7, 10), 0.4) is TrustState.RED
    for right, told in ((7, TrustState.RED), (9, TrustState.GREEN), (10, TrustState.GREEN)):
        few = share(10, right)
        more = retest.needed(few, 0.8)
        assert more is not None
        assert retest.state_of(few, 0.8) is TrustState.AMBER
        assert retest.state_of(share(10 + more // 2, right), 0.8) is TrustState.AMBER
        assert retest.state_of(share(round(10 + more + 9, -1), right), 0.8) is told
    length = MEASURES["length_effect"]
    for value in (0.0, 200.0):
        wide = Estimate(value, value - 200, value + 200, 30)
        assert length.needed(wide, 100) == pytest.approx(90, abs=1)


def test_no_number_is_named_that_nobody_could_know() -> None:
    for found in (
        Estimate(0.8, 0.7, 0.9, 50),
        Estimate(0.799, 0.7, 0.9, 50),
        Estimate(0.81, None, None, 1),
    ):
        assert AT_LEAST.needed(found, 0.8) is None


def flips(dimension: str, n: int, first: int | None = None) -> MeasureRow:
    found = measure_by_prompt([(f"p{k}", k < (n if first is None else first)) for k in range(n)])
    return MEASURES["flip_direction"].light(found, 0.4, dimension=dimension)


def pooled(*rows: MeasureRow) -> list[MeasureRow]:
    return lights_of([make_table(MeasureRow, [row]) for row in rows])


@pytest.mark.parametrize(
    ("first", "state"), [((5, 5, 6), "red"), ((7, 7, 7), "red"), ((2, 2), "amber")]
)
def test_flips_of_all_dimensions_are_one_light(first: tuple[int, ...], state: str) -> None:
    rows = [flips(f"d{place}", n) for place, n in enumerate(first)]
    *own, together = pooled(*rows)
    assert {row.state for row in own} == {TrustState.POOLED}
    assert [(row.dimension, row.value, row.n) for row in own] == [
        (row.dimension, row.value, row.n) for row in rows
    ]
    assert (together.dimension, together.state) == (ALL_DIMENSIONS, state)
    assert (together.value, together.n) == (1.0, sum(first))
    assert str(together.note).startswith(f"{sum(first)} of {sum(first)} ")


def test_pooled_flips_are_worth_what_the_intervals_of_the_dimensions_are() -> None:
    rows = [flips("d", 40, 15), flips("e", 60, 36)]
    *_, together = pooled(*rows)
    assert together.value == pytest.approx(51 / 100)
    # With many prompts Student's t is near the normal quantile: the interval of 51 of 100.
    alone = measure_by_prompt([(f"p{k}", k < 51) for k in range(100)])
    assert together.low == pytest.approx(alone.low, abs=0.01)
    assert together.high == pytest.approx(alone.high, abs=0.01)
    *_, none = pooled(flips("d", 6, 0), flips("e", 6, 0))
    assert none.value == none.low == 0
    assert none.high == pytest.approx(0.355, abs=0.001)
    assert none.state == TrustState.RED


def test_a_dimension_that_tells_otherwise_than_all_together_keeps_its_light() -> None:
    opposed = [flips("d", 20), flips("e", 20, 0)]
    assert {row.state for row in opposed} == {TrustState.RED}
    assert pooled(*opposed) == opposed
    alone = [flips("d", 6), flips("e", 0)]
    assert pooled(*alone) == alone


def test_what_a_number_says_of_the_judge_follows_its_sign() -> None:
    length = MEASURES["length_effect"]
    assert length.lean_of(150.0) == "rewards length"
    assert length.lean_of(-150.0) == "penalises length"
    assert MEASURES["flip_direction"].lean_of(0.0) == "prefers the second slot"
    assert MEASURES["position_bias"].lean_of(0.8) == "prefers the first slot"
    assert MEASURES["position_bias"].lean_of(0.5) == ""
    assert MEASURES["swap_consistency"].lean_of(0.8) == ""
    assert "rewards" not in length.advice


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
