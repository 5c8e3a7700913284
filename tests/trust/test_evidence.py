from collections.abc import Mapping
from dataclasses import replace

import pytest

from tournament_assets.audits.judge_tests import RepeatedPair
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import MatchRow, MeasureRow, RetestRow, VerdictRow
from tournament_assets.tournament.verdicts import Outcome, Verdict
from tournament_assets.trust.evidence import judges_of, length_gains, repeats_of

VERDICT = VerdictRow(
    prompt_id="p1",
    source="s",
    dimension="x",
    entrant_a="ada",
    entrant_b="bob",
    verdict_ab=Verdict.A,
    verdict_ba=Verdict.B,
    outcome=Outcome.A_WINS,
    share=1.0,
    winner="ada",
    request_key_ab="k1",
    request_key_ba="k2",
    attempt_ab=1,
    attempt_ba=1,
    settled_by="judge",
)
REPEAT = RetestRow(
    reason="repeat",
    name="monday",
    prompt_id="p1",
    dimension="x",
    entrant_a="ada",
    entrant_b="bob",
    expected=Outcome.A_WINS,
    outcome=Outcome.TIE,
    expected_ab=Verdict.A,
    expected_ba=Verdict.B,
    verdict_ab=Verdict.TIE,
    verdict_ba=Verdict.TIE,
    request_key_ab="k1",
    request_key_ba="k2",
    judge_model="judge",
    rubric_hash="r1",
)


def test_a_test_and_its_retest_are_the_verdicts_and_the_first_occasion() -> None:
    later = replace(REPEAT, occasion=2, name="tuesday", outcome=Outcome.B_WINS)
    found = repeats_of(
        make_table(RetestRow, [REPEAT, later]),
        make_table(VerdictRow, [VERDICT]),
        job="job",
    )
    assert found == [RepeatedPair("p1", Outcome.A_WINS, Outcome.TIE)]


def test_what_is_no_longer_rated_is_no_retest() -> None:
    for rated in (replace(VERDICT, request_key_ab="k3"), replace(VERDICT, verdict_ab=Verdict.TIE)):
        found = repeats_of(
            make_table(RetestRow, [REPEAT]), make_table(VerdictRow, [rated]), job="job"
        )
        assert isinstance(found, Estimate)
        assert "job" in (found.remedy or "")


def test_a_model_that_judged_two_other_modes_has_a_kappa_for_each() -> None:
    def row(measure: str, unit: str, mode: str, value: float) -> MeasureRow:
        return MeasureRow.of(
            Estimate(value, n=8),
            dimension="x",
            measure=measure,
            unit=unit,
            subject="judge",
            other="large",
            stratum=mode,
        )

    def judges(*modes: str) -> Mapping[str, Estimate] | Estimate:
        rows = [
            each
            for place, mode in enumerate(modes)
            for each in (row("agreement", "share", mode, 0.75), row("kappa", "kappa", mode, place))
        ]
        frame = make_table(MeasureRow, rows)
        return judges_of(frame, judge_models={"judge"}, job="job")

    assert judges("headline") == {
        "large": Estimate(0.0, n=8, note="the same in 75.0 % of 8 pairs"),
    }
    several = judges("headline", "nightly")
    assert isinstance(several, Mapping)
    assert list(several) == ["large (headline)", "large (nightly)"]
    nobody = judges()
    assert isinstance(nobody, Estimate)
    assert (nobody.value, nobody.remedy) == (None, None)


def words(*counts: int, pair: tuple[str, str], first: int = 0) -> list[MatchRow]:
    """Matches of two entrants on a prompt each; of a words against three, b always has three."""
    return [
        MatchRow(
            prompt_id=f"p{number}",
            source="s",
            dimension="x",
            entrant_a=pair[0],
            entrant_b=pair[1],
            prompt_text="?",
            response_a=" ".join(["word"] * count),
            response_b="one two three",
        )
        for number, count in enumerate(counts, start=first)
    ]


def gains_of(rows: list[MatchRow], effect: Estimate) -> dict[str, dict[str, float]]:
    return length_gains(make_table(MatchRow, rows), effect, confidence=0.95)


def test_length_gains_the_effect_s_far_end_where_every_difference_is_typical() -> None:
    alike = [*words(*[7] * 9, pair=("ada", "bob"))]
    rewarded = gains_of(alike, Estimate(150.0, 110.0, 190.0))
    assert rewarded == {"ada": {"bob": pytest.approx(190.0)}}
    penalised = gains_of(alike, Estimate(-150.0, -190.0, -110.0))
    assert penalised == {"ada": {"bob": pytest.approx(-190.0)}}


def test_who_differs_in_length_by_chance_alone_gains_nothing() -> None:
    chance = words(7, 1, 7, 1, 7, 1, 3, 3, pair=("ada", "bob"))
    longer = words(7, 9, 7, 8, 7, 9, 7, 9, pair=("cyd", "bob"))
    gains = gains_of([*chance, *longer], Estimate(100.0, 100.0, 100.0))
    assert gains.keys() == {"cyd"}
    # Half the words of a typical pair differ; the interval's far end is beyond that.
    assert 100 < gains["cyd"]["bob"] < 150


def test_the_samples_of_a_prompt_are_one_prompt() -> None:
    once = words(7, 9, 5, 8, 4, pair=("ada", "bob"))
    again = [replace(row, sample=sample) for row in once for sample in (1, 2, 3)]
    effect = Estimate(100.0, 90.0, 120.0)
    assert gains_of(again, effect) == {
        "ada": {"bob": pytest.approx(gains_of(once, effect)["ada"]["bob"])}
    }


def test_no_pair_and_a_single_prompt_say_nothing_of_length() -> None:
    effect = Estimate(100.0, 90.0, 120.0)
    assert gains_of([], effect) == gains_of(words(9, pair=("ada", "bob")), effect) == {}
