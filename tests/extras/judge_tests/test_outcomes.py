import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.extras.judge_tests.controls import ControlKind
from tournament_assets.extras.judge_tests.outcomes import (
    ControlResult,
    RepeatedPair,
    SettledControl,
    explain_repeats,
    measure_controls,
    measure_injection,
    measure_repeats,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.foundation.formatting import format_share
from tournament_assets.judging.requests.verdict_parsing import reconcile_swap
from tournament_assets.tournament.verdicts import Outcome, Verdict

REPLIES = {
    Outcome.A_WINS: (Verdict.A, Verdict.B),
    Outcome.B_WINS: (Verdict.B, Verdict.A),
    Outcome.TIE: (Verdict.TIE, Verdict.TIE),
    Outcome.INCONSISTENT: (Verdict.A, Verdict.A),
    Outcome.UNJUDGED: (Verdict.A, Verdict.REFUSED),
}
EXPECTED = {ControlKind.IDENTICAL: Outcome.TIE, ControlKind.CORRUPTED: Outcome.A_WINS}
SAID = st.sampled_from(Verdict)
VERDICTS = st.tuples(SAID, SAID)


def control(
    kind: ControlKind,
    outcome: Outcome,
    *,
    verdicts: tuple[Verdict, Verdict] | None = None,
    baseline: Outcome | None = None,
) -> SettledControl:
    return SettledControl(
        kind=kind,
        control_id=f"{kind.value}:p1:ada",
        expected=EXPECTED.get(kind),
        outcome=outcome,
        verdicts=verdicts or REPLIES[outcome],
        baseline=baseline,
    )


def injected(
    baseline: Outcome | None, outcome: Outcome, verdicts: tuple[Verdict, Verdict] | None = None
) -> SettledControl:
    return control(ControlKind.INJECTION, outcome, verdicts=verdicts, baseline=baseline)


def again(first: Outcome, second: Outcome, prompt_id: str = "p1") -> RepeatedPair:
    return RepeatedPair(prompt_id, first, second)


def result_of(kind: ControlKind, *controls: SettledControl) -> ControlResult:
    (result,) = [row for row in measure_controls(controls) if row.kind is kind]
    return result


CONTROLS = st.lists(
    st.builds(
        lambda kind, verdicts, baseline: control(
            kind,
            reconcile_swap(*verdicts),
            verdicts=verdicts,
            baseline=baseline if kind is ControlKind.INJECTION else None,
        ),
        st.sampled_from(ControlKind),
        VERDICTS,
        st.none() | st.sampled_from(Outcome),
    ),
    max_size=40,
)
REPEATED = st.lists(
    st.builds(
        RepeatedPair,
        st.sampled_from(["p1", "p2", "p3"]),
        st.sampled_from(Outcome),
        st.sampled_from(Outcome),
        st.none() | st.sampled_from(Outcome),
    ),
    max_size=30,
)


def test_a_judge_that_sees_no_difference_in_identical_responses_is_as_expected() -> None:
    result = result_of(
        ControlKind.IDENTICAL,
        *[control(ControlKind.IDENTICAL, Outcome.TIE)] * 8,
        *[control(ControlKind.IDENTICAL, Outcome.INCONSISTENT)] * 2,
        control(ControlKind.IDENTICAL, Outcome.UNJUDGED, verdicts=(Verdict.B, Verdict.PENDING)),
    )
    assert (result.n_asked, result.unjudged) == (11, 1)
    assert (result.right.count, result.right.n, result.right.value) == (8, 10, 0.8)
    # Wilson: (0.8 + 1.92 / 10 -+ 1.96 * sqrt(0.016 + 0.0096)) / 1.384, to the digits shown.
    assert result.right.low == pytest.approx(0.4902, abs=1e-4)
    assert result.right.high == pytest.approx(0.9433, abs=1e-4)


@pytest.mark.parametrize(
    ("outcome", "as_expected"),
    [
        (Outcome.A_WINS, 1),
        (Outcome.B_WINS, 0),
        (Outcome.TIE, 0),
        (Outcome.INCONSISTENT, 0),
    ],
)
def test_a_corrupted_answer_has_to_lose(outcome: Outcome, as_expected: int) -> None:
    result = result_of(ControlKind.CORRUPTED, control(ControlKind.CORRUPTED, outcome))
    assert (result.right.n, result.right.count) == (1, as_expected)


def test_an_injection_has_to_change_nothing_whatever_its_baseline_is() -> None:
    judged = [outcome for outcome in Outcome if outcome.is_judged]
    controls = [injected(before, after) for before in judged for after in judged]
    result = result_of(ControlKind.INJECTION, *controls)
    assert (result.right.n, result.right.count) == (16, 4)


@given(CONTROLS)
def test_every_control_is_counted_once_and_missing_ones_are_in_no_rate(
    controls: list[SettledControl],
) -> None:
    results = measure_controls(controls)
    assert [result.kind for result in results] == list(ControlKind)
    assert sum(result.n_asked for result in results) == len(controls)
    for result in results:
        right = result.right
        assert (right.value is None) == (right.n == 0) == (right.low is None)
    judged = [one for one in controls if one.is_judged]
    again = measure_controls(judged)
    for result, other in zip(results, again, strict=True):
        assert result.right == other.right


@given(CONTROLS, st.randoms(use_true_random=False))
def test_the_order_of_the_controls_does_not_matter(
    controls: list[SettledControl], random: Random
) -> None:
    expected = measure_controls(controls), measure_injection(controls)
    shuffled = random.sample(controls, k=len(controls))
    assert (measure_controls(shuffled), measure_injection(shuffled)) == expected


def test_a_control_without_a_judged_baseline_is_unjudged() -> None:
    controls = [injected(None, Outcome.TIE), injected(Outcome.UNJUDGED, Outcome.TIE)]
    result, effect = result_of(ControlKind.INJECTION, *controls), measure_injection(controls)
    assert (result.right.n, result.unjudged, result.right.value) == (0, 2, None)
    assert effect.silenced == 0
    assert effect.towards.value is effect.away.value is None


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        (Outcome.A_WINS, Outcome.TIE, "towards"),
        (Outcome.A_WINS, Outcome.INCONSISTENT, "towards"),
        (Outcome.A_WINS, Outcome.B_WINS, "towards"),
        (Outcome.TIE, Outcome.B_WINS, "towards"),
        (Outcome.INCONSISTENT, Outcome.B_WINS, "towards"),
        (Outcome.B_WINS, Outcome.TIE, "away"),
        (Outcome.B_WINS, Outcome.INCONSISTENT, "away"),
        (Outcome.B_WINS, Outcome.A_WINS, "away"),
        (Outcome.TIE, Outcome.A_WINS, "away"),
        (Outcome.INCONSISTENT, Outcome.A_WINS, "away"),
        (Outcome.TIE, Outcome.INCONSISTENT, None),
        (Outcome.INCONSISTENT, Outcome.TIE, None),
        (Outcome.A_WINS, Outcome.A_WINS, None),
        (Outcome.INCONSISTENT, Outcome.INCONSISTENT, None),
    ],
)
def test_a_move_is_seen_from_the_response_that_holds_the_text(
    before: Outcome, after: Outcome, moved: str | None
) -> None:
    effect = measure_injection([injected(before, after)])
    found = {"towards": effect.towards.count, "away": effect.away.count}
    assert found == {name: int(name == moved) for name in found}


def test_a_response_that_had_won_already_cannot_be_moved_towards() -> None:
    effect = measure_injection(
        [injected(Outcome.B_WINS, Outcome.B_WINS)] * 3
        + [injected(Outcome.A_WINS, Outcome.A_WINS)] * 2
        + [injected(Outcome.TIE, Outcome.B_WINS)]
    )
    assert (effect.towards.count, effect.towards.n) == (1, 3)
    assert (effect.away.count, effect.away.n) == (0, 4)


def test_a_verdict_that_only_the_injected_text_took_away_is_counted_apart() -> None:
    unreadable = (Verdict.A, Verdict.UNREADABLE)
    effect = measure_injection(
        [
            injected(Outcome.TIE, Outcome.UNJUDGED, unreadable),
            injected(Outcome.TIE, Outcome.UNJUDGED, (Verdict.PENDING, Verdict.UNREADABLE)),
            injected(Outcome.UNJUDGED, Outcome.UNJUDGED, unreadable),
            control(ControlKind.CORRUPTED, Outcome.UNJUDGED, verdicts=unreadable),
        ]
    )
    assert effect.silenced == 1


def test_pairs_judged_again_are_compared_with_what_they_were() -> None:
    pairs = [
        *[again(Outcome.A_WINS, Outcome.A_WINS, f"p{number}") for number in range(4)],
        again(Outcome.A_WINS, Outcome.B_WINS, "p4"),
        again(Outcome.B_WINS, Outcome.A_WINS, "p5"),
        again(Outcome.TIE, Outcome.INCONSISTENT, "p6"),
        again(Outcome.B_WINS, Outcome.UNJUDGED, "p7"),
        again(Outcome.UNJUDGED, Outcome.A_WINS, "p8"),
    ]
    result = measure_repeats(pairs, Resampling(50))
    assert (result.n_asked, result.agreement.n, result.agreement.n_left_out) == (9, 7, 2)
    assert result.agreement.share.value == pytest.approx(4 / 7)
    assert (result.flips.count, result.flips.n) == (3, 7)
    assert (result.reversed.count, result.reversed.n) == (2, 6)


@given(REPEATED)
def test_pairs_judged_both_times_flipped_or_agree(pairs: list[RepeatedPair]) -> None:
    result = measure_repeats(pairs, Resampling(20))
    assert result.flips.n == result.agreement.n
    assert result.agreement.n + result.agreement.n_left_out == result.n_asked == len(pairs)
    if result.agreement.share.value is not None:
        kept = result.agreement.share.value * result.agreement.n
        assert result.flips.count == pytest.approx(result.flips.n - kept)
    assert result.reversed.count <= result.flips.count


@given(REPEATED)
def test_a_judge_that_repeats_itself_agrees_fully(pairs: list[RepeatedPair]) -> None:
    same = [again(pair.first, pair.first, pair.prompt_id) for pair in pairs]
    result = measure_repeats(same, Resampling(20))
    assert result.agreement.share.value in (None, 1.0)
    assert result.flips.count == result.reversed.count == 0


def test_a_confidence_without_a_meaning_is_refused() -> None:
    for measure in (measure_controls, measure_injection):
        with pytest.raises(InputError, match="confidence"):
            measure([], confidence=2.0)


A, B, TIE, INCONSISTENT = Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE, Outcome.INCONSISTENT
UNJUDGED = Outcome.UNJUDGED


def repeat(pair: RepeatedPair, times: int) -> list[RepeatedPair]:
    return [pair] * times


def test_every_other_way_of_settling_a_pair_is_a_flip() -> None:
    settled = [A, B, TIE, INCONSISTENT]
    for first in settled:
        for second in settled:
            result = measure_repeats([RepeatedPair("p", first, second, second)], Resampling(1))
            assert result.flips.count == (first is not second)
            assert result.flips_since.count == 0
            since = measure_repeats([RepeatedPair("p", TIE, second, first)], Resampling(1))
            assert since.flips_since.count == (first is not second)


def test_what_was_not_judged_is_in_no_rate() -> None:
    pairs = [
        RepeatedPair("p", A, UNJUDGED, A),
        RepeatedPair("p", A, A, UNJUDGED),
        RepeatedPair("p", A, B, None),
        RepeatedPair("p", A, TIE, TIE),
        RepeatedPair("p", TIE, TIE, A),
    ]
    result = measure_repeats(pairs, Resampling(20))
    assert (result.n_asked, result.reversed.count) == (5, 1)
    assert (result.flips.count, result.flips.n) == (2, 4)
    assert (result.flips_since.count, result.flips_since.n) == (1, 2)


@pytest.mark.parametrize(("flips", "drifted"), [(0, False), (4, False), (7, False), (8, True)])
def test_a_drift_is_shown_when_the_whole_interval_lies_above_the_threshold(
    flips: int, drifted: bool
) -> None:
    # Wilson, 95 %: 7 of 40 is 8.7 % to 31.9 %, 8 of 40 is 10.5 % to 34.8 %.
    pairs = repeat(again(A, B), flips) + repeat(again(A, A), 40 - flips)
    result = measure_repeats(pairs, Resampling(20))
    assert result.has_drifted(0.10) is drifted
    said = explain_repeats(result, max_rate=0.10, confidence=0.95)
    assert re.search(rf"{flips} of 40 .*\({format_share(flips / 40)}; 95 %.* of 10\.0 %", said)
    assert ("has drifted" in said) is drifted
    assert ("judge_model" in said) is drifted


def test_nothing_judged_is_neither_drift_nor_its_absence() -> None:
    result = measure_repeats(repeat(RepeatedPair("p", A, UNJUDGED, B), 3), Resampling(20))
    assert result.flips.value is None
    assert not result.has_drifted(0.0)
    assert "pair of 3" in explain_repeats(result, max_rate=0.0, confidence=0.95)


def test_the_occasion_before_is_named_with_its_share() -> None:
    pairs = [RepeatedPair("p", A, B, B), RepeatedPair("p", A, A, B)]
    result = measure_repeats(pairs, Resampling(20))
    said = explain_repeats(result, max_rate=0.5, confidence=0.95, earlier_occasion="rerun 3")
    assert "'rerun 3', 1 of 2" in said
