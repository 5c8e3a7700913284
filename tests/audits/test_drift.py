import pytest

from tournament_assets.audits.judge_tests import JudgedAnchor, explain_drift, measure_drift
from tournament_assets.tournament.formatting import format_share
from tournament_assets.tournament.verdicts import Outcome

A, B, TIE, INCONSISTENT = Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE, Outcome.INCONSISTENT
UNJUDGED = Outcome.UNJUDGED


def repeat(anchor: JudgedAnchor, times: int) -> list[JudgedAnchor]:
    return [anchor] * times


def test_every_other_way_of_settling_a_pair_is_a_flip() -> None:
    settled = [A, B, TIE, INCONSISTENT]
    for first in settled:
        for second in settled:
            assert JudgedAnchor(first, second).flipped is (first is not second)
            assert JudgedAnchor(TIE, second, first).flipped_since is (first is not second)


def test_what_was_not_judged_is_in_no_rate() -> None:
    anchors = [
        JudgedAnchor(A, UNJUDGED, A),
        JudgedAnchor(A, A, UNJUDGED),
        JudgedAnchor(A, B, None),
        JudgedAnchor(A, TIE, TIE),
        JudgedAnchor(TIE, TIE, A),
    ]
    result = measure_drift(anchors, max_rate=0.1)
    assert (result.asked, result.unjudged, result.reversals) == (5, 1, 1)
    assert (result.flips.count, result.flips.n) == (2, 4)
    assert (result.flips_since.count, result.flips_since.n) == (1, 2)


@pytest.mark.parametrize(("flips", "drifted"), [(0, False), (4, False), (7, False), (8, True)])
def test_a_drift_is_shown_when_the_whole_interval_lies_above_the_threshold(
    flips: int, drifted: bool
) -> None:
    # Wilson, 95 %: 7 of 40 is 8.7 % to 31.9 %, 8 of 40 is 10.5 % to 34.8 %.
    anchors = repeat(JudgedAnchor(A, B), flips) + repeat(JudgedAnchor(A, A), 40 - flips)
    result = measure_drift(anchors, max_rate=0.10)
    assert result.has_drifted is drifted
    said = explain_drift(result, confidence=0.95)
    assert f"{flips} of 40 anchor pairs ({format_share(flips / 40)}; 95 % interval" in said
    assert "threshold of 10.0 %" in said
    assert ("the judge has drifted" in said) is drifted
    assert ("another judge_model" in said) is drifted


def test_nothing_judged_is_neither_drift_nor_its_absence() -> None:
    result = measure_drift(repeat(JudgedAnchor(A, UNJUDGED, B), 3), max_rate=0.0)
    assert result.flips.rate is None
    assert not result.has_drifted
    assert "Not one anchor pair of 3 is judged" in explain_drift(result, confidence=0.95)


def test_the_occasion_before_is_named_with_its_share() -> None:
    result = measure_drift([JudgedAnchor(A, B, B), JudgedAnchor(A, A, B)], max_rate=0.5)
    said = explain_drift(result, confidence=0.95, earlier_occasion="rerun 3")
    assert "since the occasion 'rerun 3', 1 of 2 anchor pairs (50.0 %" in said
