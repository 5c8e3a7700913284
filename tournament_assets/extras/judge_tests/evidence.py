"""What the tables of tests say of the judge, or why they say nothing.

A test counts only if it tested what is rated: pairs judged again with the same requests as the
verdicts, controls with the judge and the rubric of the replies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tournament_assets.audits.agreement import nothing_judged
from tournament_assets.extras.judge_tests.controls import ControlKind
from tournament_assets.extras.judge_tests.outcomes import (
    RepeatedPair,
    SettledControl,
    measure_controls,
    measure_injection,
    measure_repeats,
)
from tournament_assets.extras.judge_tests.rows import RetestRow
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import format_kappa
from tournament_assets.storage.tables import (
    AnyTable,
    LoadedTable,
    judge_models_of,
    rows_of,
    rows_of_all,
    texts_of,
)
from tournament_assets.tournament.asset_rows import MeasureRow, VerdictRow
from tournament_assets.tournament.verdicts import Verdict
from tournament_assets.trust.evidence import agreed
from tournament_assets.trust.panel import Found, JudgeEvidence, with_note

TESTS = "test_judge"
"""The job that makes all of these tables."""


def repeats_of(
    frame: LoadedTable | None, verdicts: AnyTable, *, job: str
) -> Sequence[RepeatedPair] | Estimate:
    """Return the pairs judged again on the first occasion with the same requests as the verdicts.

    Args:
        frame: The table `judge_repeats`; None if there is none.
        verdicts: The table `judge_verdicts`.
        job: The job that makes the table.
    """
    if frame is None:
        return Estimate(note="no pair was judged a second time", remedy=f"the job {job} does it")
    rows = [row for row in rows_of_all(RetestRow, frame) if row.occasion == 1]
    first: dict[tuple[str | None, str | None], tuple[Verdict, Verdict]] = {
        (row.request_key_ab, row.request_key_ba): (row.verdict_ab, row.verdict_ba)
        for row in rows_of(VerdictRow, verdicts)
    }
    pairs = [
        RepeatedPair(row.prompt_id, row.expected, row.outcome)
        for row in rows
        if row.expected is not None
        and first.get((row.request_key_ab, row.request_key_ba))
        == (row.expected_ab, row.expected_ba)
    ]
    if rows and not pairs:
        note = "what was judged a second time is no longer what is rated"
        return Estimate(note=note, remedy=f"run the job {job} again")
    return pairs


def judges_of(
    frame: LoadedTable | None, *, judge_models: set[str], job: str
) -> Mapping[str, Estimate] | Estimate:
    """Return the kappa with every other judge.

    Args:
        frame: The table `judge_agreement`; None if there is none.
        judge_models: Who gave the verdicts.
        job: The job that makes the table.
    """
    if frame is None:
        note = "it was not compared with another judge"
        return Estimate(note=note, remedy=f"the job {job} does it")
    own = ", ".join(sorted(judge_models))
    rows = [row for row in rows_of_all(MeasureRow, frame) if row.subject == own]
    if not rows:
        return Estimate(
            note="no other judge model was asked about the same pairs by the same rubric"
        )
    shares = {(row.other, row.stratum): row for row in rows if row.measure == "agreement"}
    kappas = [row for row in rows if row.measure == "kappa"]
    modes = Counter(row.other for row in kappas)
    return {
        # A model that judged several other modes has a row for each.
        f"{row.other} ({row.stratum})" if modes[row.other] > 1 else str(row.other): agreed(
            row.estimate, shares[row.other, row.stratum].estimate
        )
        for row in kappas
    }


def retest(evidence: JudgeEvidence) -> Estimate:
    """Return the share of pairs settled as before when they are asked again."""
    pairs = repeats_of(
        evidence.tables.get("judge_repeats"), evidence.verdicts, job=evidence.name_job(TESTS)
    )
    if isinstance(pairs, Estimate):
        return pairs
    repeats = measure_repeats(pairs, evidence.resampling)
    if not repeats.agreement.n:
        return nothing_judged(repeats.n_asked, "pair to judge again")
    return with_note(
        repeats.agreement.share,
        f"{format_kappa(repeats.agreement.kappa)}; "
        f"{repeats.reversed.count} of {repeats.reversed.n} wins were reversed",
    )


def judges(evidence: JudgeEvidence) -> Found:
    """Return kappa with every other judge."""
    kappas = judges_of(
        evidence.tables.get("judge_agreement"),
        judge_models=judge_models_of(evidence.verdicts),
        job=evidence.name_job(TESTS),
    )
    return {None: kappas} if isinstance(kappas, Estimate) else dict(sorted(kappas.items()))


def controls(evidence: JudgeEvidence, *, kind: ControlKind) -> Estimate:
    """Return the share of controls of a kind that came out right."""
    return control_share(_controls(evidence), kind, confidence=evidence.confidence)


def injection_controls(evidence: JudgeEvidence) -> Estimate:
    """Return the share of pairs that moved towards a response after it claimed the win."""
    return injection_share(_controls(evidence), confidence=evidence.confidence)


def _controls(evidence: JudgeEvidence) -> Sequence[SettledControl] | Estimate:
    """Return the planted controls given to the judge of the replies with the same rubric."""
    frame, job = evidence.tables.get("judge_controls"), evidence.name_job(TESTS)
    if frame is None:
        return Estimate(note="no control was planted", remedy=f"the job {job} does it")
    replies = evidence.replies
    asked = {*zip(texts_of(replies, "judge_model"), texts_of(replies, "rubric_hash"), strict=True)}
    rows = list(rows_of_all(RetestRow, frame))
    controls = [
        SettledControl(
            kind=ControlKind(row.reason),
            control_id=row.name,
            expected=row.expected,
            outcome=row.outcome,
            verdicts=(row.verdict_ab, row.verdict_ba),
        )
        for row in rows
        if (row.judge_model, row.rubric_hash) in asked
    ]
    if rows and not controls:
        note = "the controls were judged by another model or rubric"
        return Estimate(note=note, remedy=f"run the job {job} again")
    return controls


def control_share(
    controls: Sequence[SettledControl] | Estimate, kind: ControlKind, *, confidence: float
) -> Estimate:
    """Return the share of controls of a kind that came out right, with the counts behind it."""
    if isinstance(controls, Estimate):
        return controls
    measured = measure_controls(controls, confidence=confidence)
    (control,) = (result for result in measured if result.kind is kind)
    if not control.right.n:
        return nothing_judged(control.n_asked, f"{kind.value} control")
    return with_note(
        control.right,
        f"{control.right.count} of {control.right.n} judged controls came out right; "
        f"{control.unjudged} of {control.n_asked} are not judged",
    )


def injection_share(
    controls: Sequence[SettledControl] | Estimate, *, confidence: float
) -> Estimate:
    """Return the share of pairs that moved towards an injected text, with the counts behind it."""
    if isinstance(controls, Estimate):
        return controls
    effect = measure_injection(controls, confidence=confidence)
    if not effect.towards.n:
        return nothing_judged(effect.n_asked, "injection control")
    return with_note(
        effect.towards,
        f"{effect.towards.count} of {effect.towards.n} pairs moved towards the text, "
        f"{effect.away.count} of {effect.away.n} away from it; {effect.silenced} were left "
        "without a verdict",
    )
