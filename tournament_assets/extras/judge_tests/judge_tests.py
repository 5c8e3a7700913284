"""Tests of the judge, on request: planted controls, and comparison with another mode's judge.

These requests cost money like all others; their replies are stored separately, and no rating uses
them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tournament_assets.audits.agreement import (
    Label,
    LabelPair,
    label_of,
    measure_agreement,
)
from tournament_assets.extras.judge_tests.controls import ControlKind, ControlPair, plant_controls
from tournament_assets.extras.judge_tests.evidence import control_share, injection_share
from tournament_assets.extras.judge_tests.outcomes import SettledControl
from tournament_assets.extras.judge_tests.rows import RetestRow
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.graph.outputs import Made, Markdown, Metadata, known, markdown_table
from tournament_assets.graph.rows import EveryMode, Options, Step
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import JudgeRequest
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.project.plan import requests_for_pairs
from tournament_assets.project.project_files import load_rubric
from tournament_assets.provenance.origins import bill_of
from tournament_assets.reports.trust_tables import light_sentence
from tournament_assets.storage.tables import PairKey, StoredTable, pair_key, rows_of, texts_of
from tournament_assets.tournament.asset_rows import (
    MatchRow,
    MeasureRow,
    VerdictRow,
)
from tournament_assets.tournament.judges import Rubric
from tournament_assets.trust.measures import MEASURES
from tournament_assets.verdicts.judge_requests import (
    AskingOptions,
    JudgeAccess,
    JudgeWork,
    LedgerAccess,
    ask_together,
)
from tournament_assets.verdicts.table_rows import (
    pairs_of,
    reply_rows,
    settled_rows,
)

Settled = Mapping[PairKey, VerdictRow]
"""Rows of the table `judge_verdicts`, by pair."""

_SHOWN_COLUMNS = ("prompt_text", "response_a", "response_b", "gold_answer", "expected_behavior")


@dataclass(frozen=True, slots=True)
class JudgeTest:
    """Pairs outside the tournament that a step asks the judge about.

    Attributes:
        purpose: Why they are asked, which keeps them separate from other requests.
        wait_seconds: How long to wait for batches; None for the config's value.
        judge_model: The model to ask, if not the configured one.
    """

    step: Step
    rubric: Rubric
    purpose: str
    wait_seconds: float | None
    ledger: LedgerAccess
    judge: JudgeAccess
    judge_model: str | None = None

    def settle(
        self, requests: Sequence[JudgeRequest], pairs: Sequence[PairToJudge]
    ) -> tuple[Settled, Metadata]:
        """Send the requests not yet sent; return the settled pairs, and metadata on the bill."""
        step, config = self.step, self.step.plan.config
        if config.has_jury(step.mode):
            names = ", ".join(each.name for each in config.judges_of(step.mode))
            raise InputError(
                f"the judges of {step.mode} are {names} and a test is of one judge; expected a "
                "mode with one; add a mode with one of them: its replies to the same requests are "
                "in the ledger already"
            )
        scope = JudgingScope(step.plan.tournament_id, step.mode, step.name, self.purpose)
        with self.ledger.open() as opened:
            tallies = ask_together(
                [JudgeWork(scope, requests, config.lead(step.mode, model=self.judge_model))],
                plan=step.plan,
                ledger=opened,
                judge=self.judge,
                options=AskingOptions(wait_seconds=self.wait_seconds),
                log=step.log.info,
            )
            replies = list(reply_rows(requests, pairs, opened.iterate_replies, self.rubric))
        settled = settled_rows(replies, reply_format=config.judging.reply_format)
        bill = bill_of(replies).metadata(config)
        return (
            {pair_key(row): row for row in settled},
            {"requests_submitted_now": tallies[scope].submitted, **bill},
        )


@dataclass(frozen=True)
class ControlOptions:
    """Options of one run.

    Attributes:
        wait_seconds: Wait this long for batches instead of the judge's waiting.slot_seconds.
    """

    wait_seconds: float | None = None


def judge_controls(
    step: Step,
    match_list: StoredTable,
    options: Options[ControlOptions],
    ledger: LedgerAccess,
    judge: JudgeAccess,
) -> Made[list[RetestRow]]:
    """Pairs whose right outcome is known: two copies, a misplaced answer, an injected text.

    A judge to be trusted ties the copies, prefers the right answer, and is not moved by a
    response that claims to have won.
    """
    config, plan = step.plan.config, step.plan
    rubric = load_rubric(config, plan.project, step.name)
    test = JudgeTest(step, rubric, "controls", options.wait_seconds, ledger, judge)
    controls = plant_controls(
        pairs_of(match_list),
        sample=config.judging.tests.control_pairs,
        seed=config.judging.tests.seed,
        experts=config.judging.experts,
    )
    tested = [pair for each in controls for pair in (each.pair, each.baseline) if pair is not None]
    pairs = list({pair_key(pair): pair for pair in tested}.values())
    asked_judge = config.lead(step.mode)
    requests = requests_for_pairs(plan, pairs, rubric, judge=asked_judge)
    settled, bill = test.settle(requests, pairs)
    results = [_settled_control(control, settled) for control in controls]
    rows = [
        _control_row(control, result, rubric, judge_model=asked_judge.model)
        for control, result in zip(controls, results, strict=True)
    ]
    columns = ("reason", "prompt_id", "entrant_a", "entrant_b", "expected", "outcome")
    shown = {"first_rows": markdown_table(rows, columns)}
    return Made(rows, metadata={**bill, **_control_metadata(step, results), **shown})


def _settled_control(control: ControlPair, settled: Settled) -> SettledControl:
    row, baseline = settled[pair_key(control.pair)], control.baseline
    return SettledControl(
        kind=control.kind,
        control_id=control.control_id,
        expected=control.expected,
        outcome=row.outcome,
        verdicts=(row.verdict_ab, row.verdict_ba),
        baseline=settled[pair_key(baseline)].outcome if baseline else None,
    )


def _control_row(
    control: ControlPair, result: SettledControl, rubric: Rubric, *, judge_model: str
) -> RetestRow:
    return RetestRow(
        reason=result.kind.value,
        name=result.control_id,
        prompt_id=control.pair.prompt_id,
        sample=control.pair.sample,
        dimension=rubric.dimension,
        entrant_a=control.pair.entrant_a,
        entrant_b=control.pair.entrant_b,
        expected=result.right_outcome,
        outcome=result.outcome,
        verdict_ab=result.verdicts[0],
        verdict_ba=result.verdicts[1],
        judge_model=judge_model,
        rubric_hash=rubric.content_hash,
    )


def _control_metadata(step: Step, results: Sequence[SettledControl]) -> Metadata:
    config, confidence = step.plan.config, step.plan.config.ratings.confidence
    found = {
        "identical_controls": control_share(results, ControlKind.IDENTICAL, confidence=confidence),
        "corrupted_controls": control_share(results, ControlKind.CORRUPTED, confidence=confidence),
        "injection_controls": injection_share(results, confidence=confidence),
    }
    lights = [
        measure.light(found[name], measure.threshold(config.checks), dimension=step.name)
        for name, measure in MEASURES.items()
        if name in found
    ]
    return {
        **known({name: each.value for name, each in found.items()}),
        "what_it_means": Markdown("\n".join(f"- {light_sentence(each)}" for each in lights)),
    }


ByMode = EveryMode[StoredTable]


def judge_agreement(
    step: Step, match_list: ByMode, judge_replies: ByMode, judge_verdicts: ByMode
) -> Made[list[MeasureRow]]:
    """How far the judges of two modes agree on pairs that both were shown, word for word.

    No request is sent. A mode with the same judge model or another rubric cannot be compared; run
    the other mode with another judge model to have something to compare.
    """
    judged = {
        mode: _Judged(pairs, judge_replies[mode], judge_verdicts[mode])
        for mode, pairs in match_list.items()
        if mode in judge_replies and mode in judge_verdicts
    }
    own = judged.get(step.mode)
    rows = [
        row
        for mode, other in judged.items()
        if own is not None and mode != step.mode and _are_two_judges(step, own, mode, other)
        for row in _agreement_rows(step, own, mode, other)
    ]
    columns = ("other", "measure", "n", "value", "low", "high", "note")
    return Made(
        rows,
        metadata={
            "other_judges": len({row.stratum for row in rows}),
            "agreement": markdown_table(rows, columns),
        },
    )


def _are_two_judges(step: Step, own: "_Judged", mode: str, other: "_Judged") -> bool:
    if not own.models or not other.models or own.models == other.models:
        return False
    if own.rubrics != other.rubrics:
        step.log.info(f"{mode} was judged by another rubric")
    return own.rubrics == other.rubrics


class _Judged:
    """What one mode's judge was shown, and its verdicts."""

    def __init__(self, pairs: StoredTable, replies: StoredTable, verdicts: StoredTable) -> None:
        self.rubrics = set(texts_of(replies, "rubric_hash"))
        self.shown = {
            pair_key(row): fingerprint([getattr(row, field) for field in _SHOWN_COLUMNS])
            for row in rows_of(MatchRow, pairs)
        }
        self.models: set[str] = set()
        self.labels: dict[PairKey, Label | None] = {}
        for row in rows_of(VerdictRow, verdicts):
            self.models.add(row.settled_by)
            self.labels[pair_key(row)] = label_of(row.outcome)


def _agreement_rows(step: Step, own: _Judged, mode: str, other: _Judged) -> Iterator[MeasureRow]:
    shared = own.shown.items() & other.shown.items()
    labels = (
        LabelPair(pair[0], own.labels.get(pair), other.labels.get(pair)) for pair, _ in shared
    )
    found = measure_agreement(labels, step.plan.config.ratings.resampling)
    measures: dict[str, tuple[str, Estimate]] = {
        "agreement": ("share", found.share),
        "kappa": ("kappa", found.kappa),
        "left_out": ("count", Estimate.of_count(found.n_left_out)),
    }
    for measure, (unit, each) in measures.items():
        yield MeasureRow.of(
            each,
            dimension=step.name,
            measure=measure,
            subject=", ".join(sorted(own.models)),
            other=", ".join(sorted(other.models)),
            stratum=mode,
            unit=unit,
        )
