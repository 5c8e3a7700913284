from collections.abc import Mapping
from dataclasses import replace

from tournament_assets.audits.judge_tests import RepeatedPair
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import MeasureRow, RetestRow, VerdictRow
from tournament_assets.tournament.estimates import Estimate
from tournament_assets.tournament.verdicts import Outcome, Verdict
from tournament_assets.trust.evidence import judges_of, repeats_of

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
        assert isinstance(found, str)
        assert "job" in found


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

    def judges(*modes: str) -> Mapping[str, Estimate] | str:
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
    assert list(judges("headline", "nightly")) == ["large (headline)", "large (nightly)"]
    assert isinstance(judges(), str)
