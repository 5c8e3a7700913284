"""The estimated price of judging, as tables and sentences."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tournament_assets.foundation.formatting import format_share, format_usd
from tournament_assets.judging.costs.estimates import JudgingEstimate
from tournament_assets.reports.rendering import render_part
from tournament_assets.reports.report_tables import Document, ReportSection, ReportTable
from tournament_assets.tournament.asset_rows import RequestsRow


def estimate_rows(estimate: JudgingEstimate) -> list[RequestsRow]:
    """Return a row for each judge and dimension; unknown prices are None."""
    return [
        RequestsRow(
            asked=own.judge_model,
            dimension=dimension,
            presentations=workload.presentations,
            identical=workload.identical,
            requests=workload.distinct,
            answered=workload.answered,
            under_way=workload.under_way,
            to_ask=workload.to_ask,
            prefix_tokens=workload.prefix_tokens,
            message_tokens=workload.message_tokens,
            output_tokens=workload.output_tokens,
            usd_uncached=own.usd(workload, None),
            usd_no_hits=own.usd(workload, 0.0),
            usd_observed=None if observed is None else own.usd(workload, observed),
            usd_all_hits=own.usd(workload, 1.0),
        )
        for own in estimate.by_judge
        for dimension, workload in own.workloads.items()
        for observed in (own.observed_hit_rate,)
    ]


_COUNTS = {
    "presentations": "presentations",
    "identical": "identical",
    "requests": "distinct",
    "answered": "in the ledger",
    "under_way": "under way",
    "to_ask": "to ask",
    "message_tokens": "message",
    "output_tokens": "reply",
}
"""Integer columns that are summed over dimensions, and their display names."""


def _total(rows: Sequence[RequestsRow], name: str) -> int:
    return sum(getattr(row, name) for row in rows)


def estimate_totals(estimate: JudgingEstimate) -> dict[str, float | None]:
    """Return the totals over all dimensions; unknown ones are None."""
    rows = estimate_rows(estimate)
    observed, budget = estimate.observed_hit_rate, estimate.budget
    return {
        **{name: _total(rows, name) for name in _COUNTS},
        "usd_uncached": estimate.total_usd(None),
        "usd_no_hits": estimate.total_usd(0.0),
        "usd_observed": None if observed is None else estimate.total_usd(observed),
        "usd_all_hits": estimate.total_usd(1.0),
        "usd_at_max_tokens": estimate.most_usd,
        "waits": estimate.waits,
        "observed_hit_rate": observed,
        "usd_spent_this_month": None if estimate.month.unpriced else estimate.month.usd,
        "usd_budget": None if budget is None else budget.limit_usd,
        "usd_budget_left": None if budget is None or budget.unpriced else budget.left_usd,
    }


def estimate_json(estimate: JudgingEstimate) -> dict[str, Any]:
    """Return the whole estimate as JSON values, for scripts."""
    return {
        "mode": estimate.mode,
        "judge_model": estimate.judge_model,
        "prices_of": estimate.prices_of,
        "price_source": estimate.price_source,
        "tokens_counted_by": (
            "the service"
            if any(workload.counted for workload in estimate.workloads.values())
            else "characters"
        ),
        "is_within_budget": estimate.budget_problem is None,
        "total": estimate_totals(estimate),
        "dimensions": [asdict(row) for row in estimate_rows(estimate)],
        "responses": [
            {
                "entrant_id": each.entrant_id,
                "model": each.model,
                "to_ask": each.workload.to_ask,
                "usd_expected": each.planned_usd,
                "usd_at_max_tokens": each.workload.most_usd,
            }
            for each in estimate.responses
        ],
        "are_responses_within_budget": estimate.response_problem is None,
        **_rounds_json(estimate),
        "anchors": {"to_ask": estimate.anchor_requests, "usd_expected": estimate.anchor_usd},
        "warnings": estimate_warnings(estimate),
    }


def _rounds_json(estimate: JudgingEstimate) -> dict[str, Any]:
    if estimate.rounds is None:
        return {}
    now = estimate.rounds.now
    return {
        "rounds": {
            "to_ask_at_most": estimate.to_ask,
            "usd_at_most": estimate.planned_usd,
            "expected_shares": dict(estimate.rounds.expected_shares),
            "usd_expected": estimate.expected_usd,
            "to_ask_now": now.to_ask,
            "usd_now": now.planned_usd,
        }
    }


def cost_sentences(part: str, estimate: JudgingEstimate) -> list[str]:
    """Return one part of what is said of the price of judging.

    Args:
        part: `rounds`: the greatest and the expected cost of judging in rounds, and the next round;
            `anchors`; `responses`: those of API entrants that are missing, and the budget for them;
            `budget`: what was spent, the budget, what the plan leaves of it, and how it is sent;
            `caching_problems`: why the prompt cache is useless, or cost more than it saved;
            `caching`: the share of cache hits from which caching pays, and the share so far;
            `unpriced`; or `notes`: the assumptions behind the figures.
    """
    lengths = [each.tokens_per_reply for each in estimate.workloads.values()]
    return render_part("judging_cost.jinja", part, estimate, max(lengths, default=0.0))


def price_rows(estimate: JudgingEstimate) -> list[tuple[str, str]]:
    """Return scenarios of prompt caching, and the total cost in each."""
    rows: list[tuple[str, float | None]] = [
        ("without prompt caching", None),
        ("0 % hits: every request writes the prefix", 0.0),
        ("100 % hits: only the first one writes it", 1.0),
    ]
    observed = estimate.observed_hit_rate
    if observed is not None:
        rows.insert(2, (f"{format_share(observed, decimals=0)} hits, as observed so far", observed))
    return [(words, format_usd(estimate.total_usd(rate))) for words, rate in rows]


def estimate_document(estimate: JudgingEstimate) -> Document:
    """Return the planned requests by dimension, their cost, and notes on both."""
    names = ", ".join(each.judge_model for each in estimate.by_judge)
    title = f"Judging by {names} ({estimate.mode})"
    tables = [(title, _workload_table(estimate))]
    if estimate.costs_nothing:
        sentences = ["Nothing to pay: this judge costs nothing."]
    else:
        sentences = cost_sentences("budget", estimate)
        if estimate.price is not None:
            prices = ReportTable(("prompt cache", "US dollars"), tuple(price_rows(estimate)))
            tables.append((f"Prices of {estimate.prices_of}, in batches", prices))
    for part in ("rounds", "anchors", "responses"):
        sentences += cost_sentences(part, estimate)
    return Document(
        "",
        [
            ReportSection("", tables=tuple(tables)),
            ReportSection("", tuple(sentences)),
            ReportSection("", tuple(cost_sentences("notes", estimate)), is_note=True),
        ],
        [f"warning: {each}" for each in estimate_warnings(estimate)],
    )


def _workload_table(estimate: JudgingEstimate) -> ReportTable:
    """Return the planned requests, one row per dimension, without empty columns."""
    columns, rows = dict(_COUNTS), estimate_rows(estimate)
    for name in ("identical", "under_way"):
        if not _total(rows, name):
            del columns[name]
    if _total(rows, "requests") == _total(rows, "presentations") - _total(rows, "identical"):
        del columns["requests"]
    lines = [
        (
            f"{row.dimension}, {row.asked}" if estimate.others else str(row.dimension),
            *(f"{getattr(row, name):,}" for name in columns),
        )
        for row in rows
    ]
    if len(rows) > 1:
        lines.append(("all", *(f"{_total(rows, name):,}" for name in columns)))
    return ReportTable(("dimension", *columns.values()), tuple(lines))


def estimate_warnings(estimate: JudgingEstimate) -> list[str]:
    """Return what to check before paying anything."""
    of_budgets = (estimate.budget_problem, estimate.response_problem)
    warnings = [problem for problem in of_budgets if problem is not None]
    warnings += estimate.cautions
    return [*warnings, *(line for judge in estimate.by_judge for line in _price_warnings(judge))]


def _price_warnings(estimate: JudgingEstimate) -> list[str]:
    if estimate.is_free:
        return []
    if estimate.price is None:
        return cost_sentences("unpriced", estimate)
    is_observed = estimate.observed_hit_rate is not None
    problems = cost_sentences("caching_problems", estimate)
    return problems or ([] if is_observed else cost_sentences("caching", estimate))
