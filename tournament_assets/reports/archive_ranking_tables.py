"""The tables of the fair comparison of an archive's models."""

from collections.abc import Mapping, Sequence

from tournament_assets.audits.archive_conditions import ConditionAudit
from tournament_assets.audits.archive_models import ModelAudit
from tournament_assets.audits.archive_ranking import CommonSupport, Gap
from tournament_assets.reports.archive_tables import format_score
from tournament_assets.reports.formatting import ABSENT, format_share, join_names
from tournament_assets.reports.rendering import ReportTable


def ranking_table(ranked: Sequence[ModelAudit]) -> ReportTable:
    """The models by clean mean, with what else orders them."""
    by_normalised = sorted(ranked, key=lambda model: (-model.normalised, model.model_id))
    places = {model.model_id: place for place, model in enumerate(by_normalised, start=1)}
    headers = (
        *("#", "model", "clean mean", "judge-only", "at the ceiling", "archived", "coverage"),
        *("mean of all", "normalised", "its #"),
    )
    rows = [
        (
            str(place),
            model.label,
            format_score(model.clean_mean, decimals=4),
            format_score(model.judge_mean),
            f"{model.at_ceiling} of {model.archived}",
            f"{model.archived} of {model.planned}",
            format_share(model.coverage),
            format_score(model.mean, decimals=4),
            format_score(model.normalised, decimals=4),
            str(places[model.model_id]),
        )
        for place, model in enumerate(ranked, start=1)
    ]
    return ReportTable(headers, tuple(rows), n_labels=2)


def gap_table(gaps: Sequence[Gap], labels: Mapping[str, str]) -> ReportTable:
    """Pairs of models, and whether they differ by more than noise."""
    headers = ("ahead", "of", "difference", "low", "high", "reading")
    rows = [
        (
            labels[gap.higher],
            labels[gap.lower],
            f"{gap.difference:+.4f}",
            ABSENT if gap.low is None else f"{gap.low:+.4f}",
            ABSENT if gap.high is None else f"{gap.high:+.4f}",
            _reading(gap),
        )
        for gap in gaps
    ]
    return ReportTable(headers, tuple(rows), n_labels=2)


def _reading(gap: Gap) -> str:
    if gap.is_separated:
        return "separated"
    return "within noise" if gap.is_within_noise else "cannot be told"


def common_table(support: CommonSupport, labels: Mapping[str, str]) -> ReportTable:
    """The models by their mean on what every model has."""
    headers = ("#", "model", "mean", "clean mean")
    rows = [
        (
            str(place),
            labels[score.model_id],
            format_score(score.mean, decimals=4),
            format_score(score.clean_mean, decimals=4),
        )
        for place, score in enumerate(support.scores, start=1)
    ]
    return ReportTable(headers, tuple(rows), n_labels=2)


def condition_table(conditions: Sequence[ConditionAudit], labels: Mapping[str, str]) -> ReportTable:
    """What was to be the same for all, and what the files say."""
    rows = [
        (audit.name, audit.sameness.value, _condition_text(audit, labels)) for audit in conditions
    ]
    return ReportTable(("condition", "result", "value"), tuple(rows), n_labels=3)


def _condition_text(audit: ConditionAudit, labels: Mapping[str, str]) -> str:
    if audit.stated:
        return audit.stated
    texts = list(audit.values)
    if len(texts) > 1:
        texts = [
            f"{value} ({join_names([labels[model] for model in models])})"
            for value, models in audit.values.items()
        ]
    if audit.silent:
        texts.append(f"{audit.silent} runs do not say")
    return "; ".join(texts) or ABSENT


def coverage_detail_table(models: Sequence[ModelAudit]) -> ReportTable:
    """What is archived, missing and judged again of every model."""
    headers = (
        *("model", "archived", "missing", "of these unusable", "zero score", "judged again"),
        "judging failed",
    )
    rows = [
        (
            model.label,
            f"{model.archived} of {model.planned}",
            str(model.missing),
            str(model.broken),
            str(model.zero),
            str(model.rejudged),
            str(model.judge_failed),
        )
        for model in models
    ]
    return ReportTable(headers, tuple(rows))


def tier_tables(models: Sequence[ModelAudit]) -> tuple[tuple[str, ReportTable], ...]:
    """The models' means in every tier: of all runs, and of the clean ones."""
    if not models:
        return ()
    headers = ("model", *(tier.tier for tier in models[0].tiers))
    of_all = [(model.label, *(format_score(tier.mean) for tier in model.tiers)) for model in models]
    clean = [
        (model.label, *(format_score(tier.clean_mean) for tier in model.tiers)) for model in models
    ]
    return (
        ("Mean of all archived runs", ReportTable(headers, tuple(of_all))),
        ("Clean mean", ReportTable(headers, tuple(clean))),
    )
