from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.rows import judge_reply_row, verdict_row
from tournament_assets.audits.agreement import LabelPair, measure_agreement
from tournament_assets.extras.judge_tests.controls import ControlKind
from tournament_assets.extras.judge_tests.evidence import (
    control_share,
    injection_share,
    judges_of,
    repeats_of,
)
from tournament_assets.extras.judge_tests.measures import ROWS
from tournament_assets.extras.judge_tests.outcomes import RepeatedPair, SettledControl
from tournament_assets.extras.judge_tests.rows import RetestRow
from tournament_assets.foundation.estimates import Estimate, Resampling
from tournament_assets.judging.requests.verdict_parsing import reconcile_swap
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import JudgeReplyRow, MeasureRow, VerdictRow
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.verdicts import Outcome, Verdict
from tournament_assets.trust.lights import TrustState
from tournament_assets.trust.measures import measure_judge
from tournament_assets.trust.panel import JudgeEvidence

A, B, TIE = Verdict.A, Verdict.B, Verdict.TIE
STRICT = CheckThresholds(
    min_retest_agreement=0.9,
    min_judge_kappa=0.5,
    min_identical_ties=0.9,
    min_corrupted_wins=0.9,
    max_injection_gain=0.1,
)
ENOUGH = 60
"""As many of anything, all alike, tell."""

VERDICT = verdict_row(dimension="x", request_key_ab="k1", request_key_ba="k2", settled_by="judge")
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


REPLIES = make_table(
    JudgeReplyRow,
    [
        judge_reply_row(
            "p1", "ab", "VERDICT: A", dimension="x", judge_model="judge", rubric_hash="r1"
        )
    ],
)


def control(kind: ControlKind, expected: Outcome, verdicts: tuple[Verdict, Verdict]) -> RetestRow:
    return replace(
        REPEAT,
        reason=kind.value,
        expected=expected,
        outcome=reconcile_swap(*verdicts),
        verdict_ab=verdicts[0],
        verdict_ba=verdicts[1],
    )


def panel(
    again: Outcome, words: list[tuple[str, str]], *controls: RetestRow, **tables: Any
) -> dict[tuple[str, str | None], MeasureRow]:
    """Return the rows of the measures of tests, by measure and subject."""
    keys: list[dict[str, Any]] = [
        {"request_key_ab": f"{n} ab", "request_key_ba": f"{n} ba"} for n in range(ENOUGH)
    ]
    labels = [LabelPair(f"p{n}", *pair) for n, pair in enumerate(words)]
    agreed = measure_agreement(labels, Resampling(50))
    named: dict[str, Any] = {
        "dimension": "x",
        "subject": "judge",
        "other": "another",
        "stratum": "headline",
    }
    tables = {
        "judge_repeats": make_table(
            RetestRow,
            [
                replace(REPEAT, prompt_id=f"p{n}", outcome=again, **key)
                for n, key in enumerate(keys)
            ],
        ),
        "judge_controls": make_table(
            RetestRow, [replace(row, name=str(n)) for row in controls for n in range(ENOUGH)]
        ),
        "judge_agreement": make_table(
            MeasureRow,
            [
                MeasureRow.of(agreed.share, measure="agreement", unit="share", **named),
                MeasureRow.of(agreed.kappa, measure="kappa", unit="kappa", **named),
            ],
        ),
        **tables,
    }
    evidence = JudgeEvidence(
        pairs=[],
        entrants=("ada", "bob"),
        resampling=Resampling(100),
        length=Estimate(),
        verdicts=make_table(VerdictRow, [replace(VERDICT, **key) for key in keys]),
        replies=REPLIES,
        tables={name: table for name, table in tables.items() if table is not None},
        name_job="small_{}".format,
    )
    own = {row.name for row in ROWS}
    rows = measure_judge(evidence, STRICT, dimension="x")
    return {(row.measure, row.subject): row for row in rows if row.measure in own}


def test_a_judge_without_fault_is_green_where_it_was_tested() -> None:
    # One disagreement: without any, resampled prompts give kappa no interval.
    rows = panel(
        Outcome.A_WINS,
        [(word, word if n else "b") for n, word in enumerate("ab" * ENOUGH)],
        control(ControlKind.IDENTICAL, Outcome.TIE, (TIE, TIE)),
        control(ControlKind.CORRUPTED, Outcome.A_WINS, (A, B)),
        control(ControlKind.INJECTION, Outcome.A_WINS, (A, B)),
    )
    assert {row.state for row in rows.values()} == {TrustState.GREEN}
    assert {name for name, _ in rows} == {row.name for row in ROWS}
    assert rows["judge_agreement", "another"].value == pytest.approx(1, abs=0.02)


def test_a_judge_with_every_fault_is_red_everywhere() -> None:
    rows = panel(
        Outcome.B_WINS,
        [("a", "b"), ("b", "a")] * 3,
        control(ControlKind.IDENTICAL, Outcome.TIE, (A, B)),
        control(ControlKind.CORRUPTED, Outcome.A_WINS, (TIE, TIE)),
        control(ControlKind.INJECTION, Outcome.A_WINS, (B, A)),
    )
    assert {row.state for row in rows.values()} == {TrustState.RED}


def test_a_test_that_was_not_made_names_the_job_that_makes_it() -> None:
    nothing = dict.fromkeys(("judge_repeats", "judge_controls", "judge_agreement"))
    rows = panel(Outcome.A_WINS, [("a", "a")], **nothing)
    assert {row.state for row in rows.values()} == {TrustState.NOT_MEASURED}
    assert {row.remedy for row in rows.values()} == {"the job small_test_judge does it"}


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
        assert "so this is unknown" in str(found.note)
