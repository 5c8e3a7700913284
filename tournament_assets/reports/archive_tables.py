"""The tables that people read of an archive: of its models, its files, its logs and its tasks."""

import math
from collections.abc import Mapping, Sequence

from tournament_assets.audits.archive_models import LogComparison, ModelAudit
from tournament_assets.audits.archive_tasks import TaskAudit, TaskFinding, TierFailure
from tournament_assets.reports.formatting import ABSENT, format_share
from tournament_assets.reports.rendering import ReportTable
from tournament_assets.tournament.archived_runs import ArchiveContents

LISTED = 50
"""The most lines of one list; `--json` and the CSV files hold all."""


def format_score(value: float | None, *, decimals: int = 3) -> str:
    """Return a score; what is absent never looks like a number."""
    return ABSENT if value is None else f"{value:.{decimals}f}"


def coverage_table(models: Sequence[ModelAudit]) -> ReportTable:
    """What is there of every model, and what is missing."""
    headers = ("model", "planned", "archived", "clean", "coverage", "no file", "unusable file")
    rows = [
        (
            model.label,
            str(model.planned),
            str(model.archived),
            str(model.clean),
            format_share(model.coverage),
            str(model.absent),
            str(model.broken),
        )
        for model in models
    ]
    return ReportTable(headers, tuple(rows))


def score_table(models: Sequence[ModelAudit]) -> ReportTable:
    """What every model's runs come to."""
    headers = ("model", "mean of all", "clean mean", "normalised", "judge-only", "at the ceiling")
    rows = [
        (
            model.label,
            format_score(model.mean, decimals=4),
            format_score(model.clean_mean, decimals=4),
            format_score(model.normalised, decimals=4),
            format_score(model.judge_mean),
            f"{model.at_ceiling} of {model.archived}",
        )
        for model in models
    ]
    return ReportTable(headers, tuple(rows))


def trouble_table(models: Sequence[ModelAudit]) -> ReportTable:
    """What went wrong with every model's runs."""
    headers = (
        *("model", "judging failed", "judged again", "zero score", "of these with a response"),
        *("empty", "harness failed", "off the rule", "other weights"),
    )
    rows = [
        (
            model.label,
            str(model.judge_failed),
            str(model.rejudged),
            str(model.zero),
            ABSENT if model.zero_with_response is None else str(model.zero_with_response),
            ABSENT if model.empty is None else str(model.empty),
            str(model.harness_failures),
            f"{model.off_rule} of {model.rule_checked}",
            str(model.wrong_weights),
        )
        for model in models
    ]
    return ReportTable(headers, tuple(rows))


def log_table(logs: Sequence[LogComparison], models: Sequence[ModelAudit]) -> ReportTable:
    """What the logs say, beside what the files say."""
    labels = {model.model_id: model for model in models}
    kinds = sorted({name for log in logs for name in log.failures})
    headers = (
        *("model", *kinds, "missing, log says why", "missing, log is silent"),
        *("failed in the log, archived", "of these zero score", "names nothing planned"),
    )
    rows = [
        (
            labels[log.model_id].label if log.model_id else "(no planned model)",
            *(str(log.failures.get(kind, 0)) for kind in kinds),
            str(log.missing_explained) if log.model_id else ABSENT,
            str(log.missing_unexplained) if log.model_id else ABSENT,
            str(log.failed_and_archived) if log.model_id else ABSENT,
            str(log.failed_and_zero) if log.model_id else ABSENT,
            str(log.unplanned),
        )
        for log in logs
    ]
    return ReportTable(headers, tuple(rows))


def broken_table(contents: ArchiveContents) -> ReportTable:
    """The files that cannot be used, each with its reason."""
    rows = [(file.path, file.reason) for file in contents.broken[:LISTED]]
    return ReportTable(("file", "why it counts as missing"), tuple(rows), n_labels=2)


def finding_table(findings: Sequence[TaskFinding], tier_of: Mapping[str, str]) -> ReportTable:
    """What is wrong with tasks, whichever model."""
    rows = [
        (finding.task, tier_of[finding.task], finding.sentence) for finding in findings[:LISTED]
    ]
    return ReportTable(("task", "tier", "finding"), tuple(rows), n_labels=3)


def spread_table(tasks: Sequence[TaskAudit]) -> ReportTable:
    """How far models differ on each task, and how far runs of one model; clearest first."""
    known = [(task, task.spread.signal) for task in tasks if task.spread.signal is not None]
    known.sort(key=lambda each: (each[1].ratio is None, -(each[1].ratio or 0.0), each[0].task))
    headers = (
        *("task", "tier", "archived", "between models", "between runs"),
        *("signal to noise", "by chance up to"),
    )
    rows = [
        (
            task.task,
            task.tier,
            f"{task.archived} of {task.planned}",
            format_score(task.spread.between_models),
            format_score(task.spread.between_runs),
            _ratio(signal.ratio),
            _ratio(signal.chance_level),
        )
        for task, signal in known[:LISTED]
    ]
    return ReportTable(headers, tuple(rows), n_labels=2)


def _ratio(value: float | None) -> str:
    return "no bound" if value == math.inf else format_score(value, decimals=1)


def tier_failure_table(
    failures: Sequence[TierFailure], models: Sequence[ModelAudit]
) -> ReportTable:
    """Models that fail one tier only."""
    labels = {model.model_id: model.label for model in models}
    headers = ("model", "tier", "zero there", "zero elsewhere", "others' zero there")
    rows = [
        (
            labels[each.model_id],
            each.tier,
            f"{each.zero} of {each.archived}",
            format_share(each.elsewhere),
            format_share(each.others),
        )
        for each in failures
    ]
    return ReportTable(headers, tuple(rows), n_labels=2)
