"""The parts of the report that have an asset of their own."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tournament_assets.audits.fair_comparison import Families
from tournament_assets.audits.missingness import (
    MissingnessCheck,
    Outage,
    check_missingness,
    copy_sentences,
    find_outages,
)
from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.costs.prices import PriceList, load_newest_prices
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.reports.audit_tables import audit_sections
from tournament_assets.reports.fair_tables import fair_section
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.reports.jury_tables import jury_section
from tournament_assets.reports.report_tables import ReportSection
from tournament_assets.reports.run.report_contents import Doubt
from tournament_assets.reports.stopping_tables import stopping_section
from tournament_assets.reports.trust_tables import red_sentences, red_summary, trust_section
from tournament_assets.runs.provenance import limit_warnings, partial_warnings
from tournament_assets.storage.tables import AnyTable, rows_of
from tournament_assets.tournament.asset_rows import (
    CoverageRow,
    DecisionRow,
    MeasureRow,
    PromptFindingRow,
    RatingRow,
)
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.entrants import (
    AnyEntrant,
    ApiEntrant,
    get_entrant,
)
from tournament_assets.tournament.formatting import join_names
from tournament_assets.tournament.judge_services import SERVICES
from tournament_assets.tournament.prompts import TIME

Row = Mapping[str, Any]

Rows = Sequence[Mapping[str, Any]]


def report_sections(
    plan: TournamentPlan,
    mode: Mode,
    *,
    trust: Sequence[MeasureRow],
    audit: Sequence[CoverageRow],
    prompt_audit: Sequence[PromptFindingRow],
    fair: Sequence[RatingRow],
    families: Mapping[str, Families],
    jury: Sequence[MeasureRow] = (),
    decisions: Sequence[DecisionRow] = (),
    prices: Mapping[str, float | None] | None = None,
) -> dict[str, ReportSection]:
    """Return the sections on trust, what is missing, equal terms and prompts that decide.

    Args:
        trust: Rows of the table `measures`, all dimensions.
        audit: Rows of the table `audit`.
        prompt_audit: Rows of the table `prompt_audit`.
        fair: Rows of the table `fair_comparison`.
        families: Who judged and who answered, by dimension.
        jury: Rows of the tables `jury` and `measures` on several judges, all dimensions; none where
            one judges.
        decisions: Rows of the table `judging_decisions`, all dimensions; none where every pair is
            judged on every prompt.
        prices: US dollars that judging cost, by dimension; None where no price is known.
    """
    confidence = plan.config.ratings.confidence
    missing, strata = audit_sections(audit, prompt_audit, check=missingness_of(plan, audit))
    judges = {}
    adaptive = plan.config.mode(mode).adaptive
    if decisions and adaptive is not None:
        judges["stopping"] = stopping_section(
            decisions, confidence=adaptive.confidence, prices=prices or {}
        )
    if jury:
        judges["jury"] = jury_section(jury, families=plan.config.families, confidence=confidence)
    return {
        **judges,
        "trust": trust_section(trust, confidence=confidence),
        "audit": missing,
        "fair_comparison": fair_section(
            fair, families, confidence=confidence, strata_by=("source",)
        ),
        "strata": strata,
    }


_TOGETHER = {
    "judge_aware": "the mean of theirs, each with the weight that its verdicts earn",
    "equal": "the mean of theirs",
}


def judge_sentence(config: TournamentConfig, mode: Mode, models: Collection[str]) -> str:
    """Say who the judge is whose verdicts stand beside people's: a model, or several together.

    Args:
        config: Who judges, and how the verdicts of several become one.
        models: The models that replied.
    """
    panel = [each.model for each in config.judges_of(mode)]
    others = sorted(set(models).difference(panel))
    names = join_names([*(model for model in panel if model in models), *others])
    if len(models) < 2 or not config.has_jury(mode):
        return f"The judge is {names}."
    together = _TOGETHER[config.aggregation(mode)]
    return f"The judge is the jury of {names}: its verdict on a pair is {together}."


_OUTAGES = {
    "judge": "too little judged on {}",
    "verdicts": "verdicts unevenly missing on {}",
    "answers": "answers unevenly missing",
}


def report_doubts(
    plan: TournamentPlan,
    *,
    trust: Sequence[MeasureRow],
    audit: Sequence[CoverageRow],
    pending: Mapping[str, int],
    left_out: Mapping[str, int],
) -> "list[Doubt]":
    """Return what speaks against a result: outages, replies to come, limits, red lights, copies.

    Args:
        trust: Rows of the table `measures`, all dimensions.
        audit: Rows of the table `audit`.
        pending: Presentations without a reply yet, by dimension.
        left_out: Pairs that a limit left out, by dimension.
    """
    said = [
        *(
            (_OUTAGES[each.kind].format(each.dimension), each.sentence, "audit", True)
            for each in _find_outages(plan, audit)
        ),
        *(
            ("PARTIAL: replies are still to come", each, "audit", True)
            for each in partial_warnings(pending)
        ),
        *(
            ("limited to the first pairs", each, "audit", False)
            for each in limit_warnings(left_out)
        ),
        *(
            (red_summary(trust), " ".join(found), "trust", True)
            for found in [red_sentences(trust)]
            if found
        ),
        *(("most pairs are of one text", each, "audit", False) for each in copy_sentences(audit)),
    ]
    return [Doubt(short, sentence, section, is_red) for short, sentence, section, is_red in said]


@dataclass(frozen=True, slots=True)
class _Work:
    prompt_tokens: int | None
    response_tokens: int | None
    diagnostics: str


def entrant_economies(
    config: TournamentConfig, responses: Mapping[str, AnyTable]
) -> list[EntrantEconomy]:
    """Return what each entrant costs and how fast it writes, where its responses say so.

    Args:
        responses: Table `entrant_responses` of each entrant.

    Returns:
        An entrant each, in the order of the config. Responses whose tokens nobody counted, or that
        nobody timed, count neither way; tables from before responses were timed have no speed.
    """
    prices = load_newest_prices(config.judging.prices)
    return [
        EntrantEconomy(name, usd=_usd(entrant, rows, prices), speed=_speed(rows))
        for name, table in responses.items()
        for entrant in [get_entrant(config.entrants, name)]
        for rows in [list(rows_of(_Work, table))]
    ]


def _usd(entrant: AnyEntrant, rows: Sequence[_Work], prices: PriceList) -> float | None:
    """Return US dollars for 1,000 responses; None where tokens or the price are not known."""
    if not isinstance(entrant, ApiEntrant):
        return None
    channel = SERVICES[entrant.service].channel
    used = [
        TokenUsage(row.prompt_tokens, row.response_tokens)
        for row in rows
        if row.prompt_tokens is not None and row.response_tokens is not None
    ]
    if not used:
        return None
    dollars = prices.cost_usd(entrant.model, sum(used, TokenUsage()), channel=channel)
    return None if dollars is None else 1000 * dollars / len(used)


def _speed(rows: Sequence[_Work]) -> float | None:
    timed = [
        (row.response_tokens, seconds)
        for row in rows
        if row.response_tokens is not None
        and (seconds := json.loads(row.diagnostics).get(TIME)) is not None
    ]
    whole = sum(seconds for _, seconds in timed)
    return sum(tokens for tokens, _ in timed) / whole if whole else None


def missingness_of(plan: TournamentPlan, rows: Sequence[CoverageRow]) -> MissingnessCheck:
    """Return what the check `even_missingness` says of the rows of table "audit"."""
    return check_missingness(rows, max_spread=plan.config.checks.max_missing_spread)


def outages_of(plan: TournamentPlan, audit: Sequence[CoverageRow]) -> list[str]:
    """Return the sentences that must stand first on anything published.

    Args:
        audit: Rows of table "audit".
    """
    return [outage.sentence for outage in _find_outages(plan, audit)]


def _find_outages(plan: TournamentPlan, audit: Sequence[CoverageRow]) -> tuple[Outage, ...]:
    return find_outages(
        audit,
        max_unjudged_rate=plan.config.checks.max_unjudged_rate,
        max_missing_spread=plan.config.checks.max_missing_spread,
    )
