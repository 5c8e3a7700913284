"""The estimated price of judging, as tables and sentences."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tournament_assets.judging.costs.estimates import (
    ASSUMED_OUTPUT_TOKENS,
    JudgingEstimate,
)
from tournament_assets.judging.costs.prices import format_usd
from tournament_assets.reports.report_tables import Document, ReportSection, ReportTable
from tournament_assets.tournament.asset_rows import RequestsRow
from tournament_assets.tournament.formatting import ABSENT, format_share, join_names


def estimate_rows(estimate: JudgingEstimate) -> list[RequestsRow]:
    """Return a row for each judge and dimension; unknown prices are None."""
    return [row for each in estimate.by_judge for row in _own_rows(each)]


def _own_rows(estimate: JudgingEstimate) -> list[RequestsRow]:
    observed = estimate.observed_hit_rate
    return [
        RequestsRow(
            asked=estimate.judge_model,
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
            usd_uncached=estimate.usd(workload, None),
            usd_no_hits=estimate.usd(workload, 0.0),
            usd_observed=None if observed is None else estimate.usd(workload, observed),
            usd_all_hits=estimate.usd(workload, 1.0),
        )
        for dimension, workload in estimate.workloads.items()
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


def rounds_sentences(estimate: JudgingEstimate) -> list[str]:
    """Describe the greatest and the expected cost of an adaptive run, and what comes next."""
    if estimate.rounds is None:
        return []
    now, shares = estimate.rounds.now, estimate.rounds.expected_shares
    known = {
        name: workload.to_ask * share
        for name, workload in estimate.workloads.items()
        for share in [shares.get(name) if workload.to_ask else 0.0]
        if share is not None
    }
    sentence = (
        f"Pairs stop early, so the table and the prices are the most: {estimate.to_ask:,} requests "
        f"({_dollars(estimate.planned_usd)}) if none stops. "
    )
    if len(known) == len(estimate.workloads):
        sentence += (
            f"Expected: about {round(sum(known.values())):,} ({_dollars(estimate.expected_usd)}), "
            "if the pairs are as in the pilot. "
        )
    else:
        sentence += "What to expect is known once the pilot is judged. "
    return [
        f"{sentence}The next round asks {now.to_ask:,} ({_dollars(now.planned_usd)}); the budget "
        "has to hold it, and is looked at before each round."
    ]


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
    return [(words, _dollars(estimate.total_usd(rate))) for words, rate in rows]


def _dollars(amount: float | None) -> str:
    return ABSENT if amount is None else format_usd(amount)


def estimate_document(estimate: JudgingEstimate) -> Document:
    """Return the planned requests by dimension, their cost, and notes on both."""
    names = ", ".join(each.judge_model for each in estimate.by_judge)
    title = f"Judging by {names} ({estimate.mode})"
    tables = [(title, workload_table(estimate))]
    said = [*rounds_sentences(estimate), *response_sentences(estimate)]
    if estimate.costs_nothing:
        said.insert(0, "Nothing to pay: this judge costs nothing.")
    else:
        said.insert(0, budget_sentence(estimate))
        if estimate.price is not None:
            prices = ReportTable(("prompt cache", "US dollars"), tuple(price_rows(estimate)))
            tables.append((f"Prices of {estimate.prices_of}, in batches", prices))
    return Document(
        "",
        [
            ReportSection("", tables=tuple(tables)),
            ReportSection("", tuple(said)),
            ReportSection("", tuple(estimate_notes(estimate)), is_note=True),
        ],
        [f"warning: {each}" for each in estimate_warnings(estimate)],
    )


def workload_table(estimate: JudgingEstimate) -> ReportTable:
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


def budget_sentence(estimate: JudgingEstimate) -> str:
    """Describe what was spent, the budget, and what the plan would leave of it."""
    if estimate.costs_nothing:
        return "this judge costs nothing"
    spent = f"Spent this month (UTC): {format_usd(estimate.month.usd)}"
    if estimate.month.unpriced:
        spent += f" and what {join_names(estimate.month.unpriced)} cost, whose price is not known"
    budget = estimate.budget
    if budget is None:
        return f"{spent}. No budget is set (judging.budget.usd)."
    return (
        f"{spent}. Budget: {format_usd(budget.limit_usd)} a {budget.period}, of which "
        f"{format_usd(budget.spent_usd)} is spent, {format_usd(budget.committed_usd)} under way "
        f"and {format_usd(budget.left_usd)} left.{_slices_sentence(estimate, budget.left_usd)}"
    )


def _slices_sentence(estimate: JudgingEstimate, left_usd: float) -> str:
    """Describe whether the budget allows sending everything at once, with replies of full length.

    Requests under way count at their expected cost.
    """
    most = estimate.most_usd
    if not most:
        return ""
    if most <= left_usd:
        return f" At max_tokens it costs up to {format_usd(most)}, so it can be sent at once."
    first = int(estimate.to_ask * left_usd / most)
    slices = (
        f"it is sent in slices that fit at max_tokens, about {first:,} of {estimate.to_ask:,} "
        "requests first, and each further slice when it is known what the last one cost"
        if first
        else "there is no room for a single request at max_tokens"
    )
    return f" At max_tokens it would cost {format_usd(most)}: {slices}."


def response_sentences(estimate: JudgingEstimate) -> list[str]:
    """Describe the cost of missing responses of API entrants, and the budget for them."""
    sentences = [
        f"Responses of {each.entrant_id} ({each.model}): {each.workload.to_ask:,} to ask, "
        + (
            "which costs nothing."
            if each.is_free
            else f"{_dollars(each.planned_usd)} expected, "
            f"{_dollars(each.workload.most_usd)} at max_new_tokens."
        )
        for each in estimate.responses
        if each.workload.to_ask
    ]
    budget = estimate.response_budget
    if sentences and budget is not None:
        sentences.append(
            f"Budget for responses: {format_usd(budget.limit_usd)} a {budget.period}, of which "
            f"{format_usd(budget.left_usd)} is left; what does not fit at max_new_tokens goes out "
            "in slices."
        )
    return sentences


def estimate_notes(estimate: JudgingEstimate) -> list[str]:
    """Return the assumptions behind the figures."""
    prefixes = ", ".join(
        f"{dimension} {workload.prefix_tokens:,}"
        for dimension, workload in estimate.workloads.items()
    )
    observation = estimate.observation
    reply = (
        f"at {ASSUMED_OUTPUT_TOKENS:.0f}, which is assumed"
        if observation is None
        else f"at {observation.output_tokens_per_reply:.0f}, the mean of "
        f"{observation.n_replies:,} replies in the ledger"
    )
    notes = [f"{_counting_sentence(estimate)}; a reply {reply}. Prefix, in tokens: {prefixes}."]
    if estimate.price_source and estimate.price is not None and not estimate.is_free:
        notes.append(f"Prices from {estimate.price_source}.")
    if estimate.assumed_responses:
        notes.append(
            f"{estimate.assumed_responses:,} responses do not exist yet and are counted at their "
            "token cap: expect less."
        )
    return notes


def _counting_sentence(estimate: JudgingEstimate) -> str:
    """Describe how the tokens of requests were counted."""
    counted = [
        f"{dimension} {workload.counted} requests, \N{MULTIPLICATION SIGN}{workload.correction:.2f}"
        for dimension, workload in estimate.workloads.items()
        if workload.counted
    ]
    if not counted:
        return (
            "Tokens are counted at 4 characters each, which newer models can exceed by a third "
            "(--count-tokens asks the service)"
        )
    return (
        "Tokens are counted by the service for a sample of each dimension, and the others at 4 "
        f"characters each, corrected by what it says ({'; '.join(counted)})"
    )


def caching_problems(estimate: JudgingEstimate) -> list[str]:
    """Return why the prompt cache is useless, or cost more than it saved."""
    price, observed = estimate.price, estimate.observed_hit_rate
    if estimate.is_free or price is None:
        return []
    problems = [
        f"the prefix of {dimension} has about {workload.prefix_tokens:,} tokens and "
        f"{estimate.judge_model} caches nothing below {price.min_cacheable_tokens:,}: every "
        "request pays it in full"
        for dimension, workload in estimate.workloads.items()
        if workload.distinct and workload.prefix_tokens < price.min_cacheable_tokens
    ]
    if observed is not None and observed < price.break_even_hit_rate:
        problems.append(
            f"caching has cost more than it saved: {format_share(observed, decimals=0)} of the "
            "requests to "
            f"{estimate.judge_model} found their prefix in the cache, and it pays from "
            f"{format_share(price.break_even_hit_rate, decimals=0)}"
        )
    return problems


def caching_sentence(estimate: JudgingEstimate) -> str:
    """Describe the share of cache hits from which caching pays, and the share so far."""
    if estimate.is_free:
        return "this judge costs nothing"
    if estimate.price is None:
        return f"the price of {estimate.judge_model} is not known"
    pays = (
        f"caching pays from {format_share(estimate.price.break_even_hit_rate, decimals=0)} "
        "cache hits"
    )
    if estimate.observed_hit_rate is None:
        return (
            f"{pays}; below that it costs more than none, and hits within a batch are not "
            "guaranteed"
        )
    return f"{pays}; {format_share(estimate.observed_hit_rate, decimals=0)} were observed"


def estimate_warnings(estimate: JudgingEstimate) -> list[str]:
    """Return what to check before paying anything."""
    of_budgets = (estimate.budget_problem, estimate.response_problem)
    warnings = [problem for problem in of_budgets if problem is not None]
    return [*warnings, *(each for own in estimate.by_judge for each in _price_warnings(own))]


def _price_warnings(estimate: JudgingEstimate) -> list[str]:
    if estimate.is_free:
        return []
    if estimate.price is None:
        return [
            f"the price list of {estimate.prices_of} does not name {estimate.judge_model!r}; "
            "the requests are counted, their price is not known: write it into the config, such as "
            f"judging: {{prices: {{{estimate.judge_model}: {{input: 4.0, output: 20.0}}}}}}",
        ]
    problems = caching_problems(estimate)
    if not problems and estimate.observed_hit_rate is None:
        problems.append(caching_sentence(estimate))
    return problems
