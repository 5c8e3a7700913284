"""Small tables with numbers that can be checked by hand, for the tests of the reports."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from tests.rows import table_of
from tests.tournament.test_config import load
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    ELO,
    SANDWICH,
    WIN_SHARE,
    compared_methods,
)
from tournament_assets.reports.battle_pages import BattleTables
from tournament_assets.reports.leaderboard import build_leaderboard
from tournament_assets.reports.report_tables import ReportSection
from tournament_assets.reports.run.page import iterate_pages
from tournament_assets.reports.run.section_table import SECTIONS
from tournament_assets.reports.sections import Page, SectionRow, in_order
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import (
    CoverageRow,
    EloRow,
    JudgeReplyRow,
    LeaderboardRow,
    MatchRow,
    RatingRow,
    ResponseRow,
    VerdictRow,
    WinRateRow,
)
from tournament_assets.tournament.verdicts import Outcome

LOOPBACK = "loopback (lexical, not a language model)"
CLAUDE = "Claude through the Message Batches API"

Interval = tuple[float | None, float | None]


def leader_row(
    entrant_id: str,
    rating: float | None,
    *,
    interval: Interval = (None, None),
    bar: Interval | None = None,
    rank: int | None = 1,
    dimension: str = "factuality",
    n: int = 100,
    win_rate: float | None = 0.5,
    elo: float | None = None,
    elo_sem: float | None = None,
    above: Sequence[str] = (),
    places: tuple[int, int] | None = None,
    group: str | None = None,
    note: str | None = None,
    same_answers_as: Sequence[str] = (),
    lead_rests_on: Sequence[str] = (),
    lead_rests_on_at_least: int | None = None,
) -> LeaderboardRow:
    """Build a row of table "leaderboard"; `above` are the entrants that it is better than.

    The comparison bar is the interval unless given.
    """
    bar_low, bar_high = interval if bar is None else bar
    return LeaderboardRow(
        dimension=dimension,
        rank=rank,
        entrant_id=entrant_id,
        rating=rating,
        low=interval[0],
        high=interval[1],
        bar_low=bar_low,
        bar_high=bar_high,
        rank_best=places and places[0],
        rank_worst=places and places[1],
        shown_above=tuple(above),
        group=group,
        win_rate=win_rate,
        n=n,
        elo=elo,
        elo_sem=elo_sem,
        note=note,
        same_answers_as=tuple(same_answers_as),
        lead_rests_on=tuple(lead_rests_on),
        lead_rests_on_at_least=lead_rests_on_at_least,
        judge_model="judge-1",
        judge=LOOPBACK,
    )


def elo_table(
    means: Mapping[str, float],
    *,
    dimension: str = "factuality",
    k_factors: Sequence[float] = (8.0, 16.0, 32.0),
) -> pd.DataFrame:
    """Build table "elo_ratings" with K = 16 as the primary; a larger K spreads the means."""
    rows = []
    for k_factor in k_factors:
        spread = (k_factor / 16) ** 0.25
        rated = {name: 1400 + (mean - 1400) * spread for name, mean in means.items()}
        for rank, (name, mean) in enumerate(
            sorted(rated.items(), key=lambda item: -item[1]), start=1
        ):
            rows.append(
                {
                    "dimension": dimension,
                    "k_factor": k_factor,
                    "is_primary": k_factor == 16.0,
                    "rank": rank,
                    "entrant_id": name,
                    "mean": mean,
                    "sem": 0.03 * k_factor,
                    "order_low": mean - 0.7 * k_factor,
                    "order_high": mean + 0.7 * k_factor,
                    "n_decisive_matches": 600,
                    "n_entrant_matches": 300,
                }
            )
    return table_of(EloRow, rows)


def ratings_table(
    means: Mapping[str, float], *, dimension: str = "factuality", half_width: float = 30.0
) -> pd.DataFrame:
    """Build table "ratings" of methods that agree; equals tie in a third of their battles.

    By Bradley-Terry everyone is better than those who are rated lower, whatever the intervals.
    """
    best_first = sorted(means.items(), key=lambda item: -item[1])
    rows = [rating_row("ties", "ties", 1.0, None, dimension=dimension)]
    for method in (*compared_methods(), SANDWICH):
        for rank, (name, mean) in enumerate(best_first, start=1):
            below = tuple(lower for lower, _ in best_first[rank:])
            row = rating_row(name, method, mean, rank, dimension=dimension)
            if method == SANDWICH:
                row = replace(row, standard_error=10.0, low=mean - 20, high=mean + 20)
            if method == BRADLEY_TERRY:
                row = replace(
                    row,
                    low=mean - half_width,
                    high=mean + half_width,
                    rank_best=rank,
                    rank_worst=rank,
                    group=chr(ord("a") + rank - 1),
                )
            if method in (ELO, BRADLEY_TERRY):
                row = replace(row, shown_above=below)
            rows.append(row)
    return make_table(RatingRow, rows)


def win_shares(pairs: Sequence[WinRateRow]) -> pd.DataFrame:
    """Build the rows of table "ratings" that hold everyone's share of its pairs."""
    won: defaultdict[str, float] = defaultdict(float)
    n: defaultdict[str, int] = defaultdict(int)
    for row in pairs:
        share = 0.5 if row.win_rate_a is None else row.win_rate_a
        for name, own in ((row.entrant_a, share), (row.entrant_b, 1 - share)):
            won[name] += own * row.judged
            n[name] += row.judged
    dimension = pairs[0].dimension if pairs else ""
    return make_table(
        RatingRow,
        [
            rating_row(
                name,
                WIN_SHARE,
                won[name] / met if met else None,
                1,
                dimension=dimension,
            )
            for name, met in n.items()
        ],
    )


def rating_row(
    entrant_id: str,
    method: str,
    rating: float | None,
    rank: int | None,
    *,
    dimension: str = "factuality",
    note: str | None = None,
    shown_above: Sequence[str] = (),
) -> RatingRow:
    """Build a row of table "ratings"."""
    return RatingRow(
        dimension=dimension,
        entrant_id=entrant_id,
        method=method,
        rating=rating,
        rank=rank,
        note=note,
        shown_above=tuple(shown_above),
    )


def pair_row(
    entrant_a: str,
    entrant_b: str,
    *,
    wins_a: int = 0,
    wins_b: int = 0,
    ties: int = 0,
    inconsistent: int = 0,
    same_text: int = 0,
    unjudged: int = 0,
    dimension: str = "factuality",
    claim: str | None = None,
    difference: tuple[float | None, float | None, float | None] = (None, None, None),
) -> WinRateRow:
    """Build a row of table "win_rates" from its counts.

    Args:
        claim: What is claimed of the two, in the words of the table.
        difference: Of the ratings, with the lower and the upper end of its joint interval.
    """
    judged = wins_a + wins_b + ties + inconsistent
    settled = judged + same_text
    return WinRateRow(
        dimension=dimension,
        entrant_a=entrant_a,
        entrant_b=entrant_b,
        wins_a=wins_a,
        wins_b=wins_b,
        ties=ties,
        inconsistent=inconsistent,
        same_text=same_text,
        unjudged=unjudged,
        judged=judged,
        win_rate_a=(wins_a + (ties + inconsistent + same_text) / 2) / settled if settled else None,
        claim=claim,
        difference=difference[0],
        difference_low=difference[1],
        difference_high=difference[2],
    )


def audit_row(
    entrant_id: str,
    *,
    dimension: str = "factuality",
    pairs: int = 100,
    **counts: int | float | None,
) -> CoverageRow:
    """Build a row of table "audit" in which nothing is missing but what `counts` says."""
    row: dict[str, Any] = {
        "dimension": dimension,
        "entrant_id": entrant_id,
        "prompts_selected": 50,
        "responses": 50,
        "empty_responses": 0,
        "truncated_responses": 0,
        "pairs_planned": pairs,
        "pairs_unanswered": 0,
        "pairs_same_text": 0,
        "pairs_judged": pairs,
        "pairs_inconsistent": 0,
        "pairs_clean": pairs,
        "replies_refused": 0,
        "replies_unreadable": 0,
        "replies_permanent": 0,
        "replies_pending": 0,
        "infra_remaining": 0,
        "infra_rejudged": 0,
    }
    row |= counts
    put = row["pairs_planned"] - row["pairs_unanswered"] - row["pairs_same_text"]
    return CoverageRow(**({"replies_asked": 2 * put} | row))


def page_of(
    standings: Mapping[str, Mapping[str, float]],
    *,
    audit: Iterable[CoverageRow] | None = None,
    judge_is_language_model: bool = True,
    half_widths: Mapping[str, float] | None = None,
    tables: Mapping[str, Any] | None = None,
    battles: BattleTables | None = None,
    sections: Sequence[SectionRow] = (),
    named: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Page:
    """Build a page from the mean rating of every entrant on every dimension.

    Args:
        standings: Mean ratings.
        audit: Rows of table "audit"; nothing is missing unless given.
        judge_is_language_model: Whether the judge is one.
        half_widths: Half of the ratings' intervals, by dimension.
        tables: Tables that stand in for those made here, or beside them.
        battles: What the battle browser shows.
        sections: Rows besides those of every page.
        named: Keys of the config that need not be as a config has to name them.
        changes: Fields of the page.
    """
    ratings, pairs, leaders = {}, {}, []
    for dimension, means in standings.items():
        width = (half_widths or {}).get(dimension, 30.0)
        ratings[dimension] = ratings_table(means, dimension=dimension, half_width=width)
        met = _pairs(means, dimension=dimension)
        pairs[dimension] = make_table(WinRateRow, met)
        ratings[dimension] = pd.concat([ratings[dimension], win_shares(met)])
        leaders += build_leaderboard(
            elo_ratings=elo_table(means, dimension=dimension),
            ratings=ratings[dimension],
            win_rates=pairs[dimension],
            judge_model="judge-1",
            judge_label=CLAUDE if judge_is_language_model else LOOPBACK,
        )
    if audit is None:
        audit = [audit_row(name, dimension=d) for d, means in standings.items() for name in means]
    shown: dict[str, Any] = {
        "leaderboard": make_table(LeaderboardRow, leaders),
        "ratings": ratings,
        "win_rates": pairs,
        "audit": make_table(CoverageRow, list(audit)),
    }
    if battles is not None:
        shown |= {
            "match_list": battles.match_list,
            "judge_verdicts": battles.judge_verdicts,
            "judge_replies": battles.judge_replies,
            "entrant_responses": battles.entrant_responses,
        }
    judge = (
        ("anthropic", "judge-1") if judge_is_language_model else ("loopback", "loopback-lexical")
    )
    config = load(
        tournament_id="demo",
        description="four ways to decode one model",
        judges=[dict(zip(("service", "model"), judge, strict=True))],
        modes={"pilot": {}, "headline": {}},
    )
    given: dict[str, Any] = {
        "sections": in_order([*SECTIONS, *sections]),
        "tables": shown | dict(tables or {}),
        "config": config.model_copy(update=dict(named or {})),
        "mode": "pilot",
        "judge_models": {"judge-1"},
        "costs": [("judge", "$1.25"), ("total", "$1.25")],
        "provenance": [("config", "ab" * 32), ("prompt bank", "cd" * 32)],
        "command": "tournament run --config configs/demo.yaml --mode pilot",
    }
    return Page(**(given | changes))


def section_row(name: str, section: ReportSection) -> SectionRow:
    """Build the row of a section that reads no table, after the win grid."""
    return SectionRow(name, lambda: section, after="win-grid")


def render_pages(page: Page) -> dict[str, str]:
    """Return the HTML files of a report by name."""
    return {name: text for name, text in iterate_pages(page) if name.endswith(".html")}


def render_html(page: Page) -> str:
    """Return `report.html`."""
    return render_pages(page)["report.html"]


def render_markdown(page: Page) -> str:
    """Return `report.md`."""
    return dict(iterate_pages(page))["report.md"]


def _pairs(means: Mapping[str, float], *, dimension: str) -> list[WinRateRow]:
    names = sorted(means)
    rows = []
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            expected = 1 / (1 + 10 ** ((means[other] - means[one]) / 400))
            wins = round(80 * expected)
            gap = means[one] - means[other]
            rows.append(
                pair_row(
                    one,
                    other,
                    wins_a=wins,
                    wins_b=80 - wins,
                    ties=8,
                    inconsistent=11,
                    unjudged=1,
                    dimension=dimension,
                    claim="a_better" if gap > 0 else "b_better",
                    difference=(gap, gap - abs(gap) / 2, gap + abs(gap) / 2),
                )
            )
    return rows


def battle_tables(
    outcomes: Sequence[tuple[str, str, str]],
    *,
    dimensions: Sequence[str] = ("factuality",),
    prompts: Sequence[str] = ("p-1",),
    text: str = "It is the lens.",
    diagnostics: Mapping[str, Any] | None = None,
    alike: Sequence[str] = (),
) -> BattleTables:
    """Build what the battle browser shows.

    Args:
        outcomes: First entrant, second entrant and outcome of every pair, on every prompt.
        dimensions: The qualities that were judged.
        prompts: Ids of the prompts.
        text: What an entrant answers, after its own name.
        diagnostics: What the decoder noted of every response.
        alike: Entrants that answer without their name, so that their answers are the same.
    """

    def answer(name: str) -> str:
        return text if name in alike else f"{name}: {text}"

    matches: dict[str, pd.DataFrame] = {}
    verdicts: dict[str, pd.DataFrame] = {}
    replies: dict[str, pd.DataFrame] = {}
    said = {"a_wins": ("A", "B"), "b_wins": ("B", "A"), "tie": ("TIE", "TIE")}
    said |= {"inconsistent": ("A", "A"), "unjudged": ("refused", "B")}
    for dimension in dimensions:
        pairs = [
            {
                "prompt_id": prompt,
                "source": prompt.split("-")[0],
                "dimension": dimension,
                "entrant_a": one,
                "entrant_b": other,
            }
            for prompt in prompts
            for one, other, _ in outcomes
        ]
        outcome_of = {(one, other): outcome for one, other, outcome in outcomes}
        keys = [f"{dimension}/{i}" for i in range(len(pairs))]
        matches[dimension] = table_of(
            MatchRow,
            [
                pair
                | {
                    "prompt_text": f"What is {pair['prompt_id']}?",
                    "response_a": answer(pair["entrant_a"]),
                    "response_b": answer(pair["entrant_b"]),
                    "gold_answer": "lens",
                    "expected_behavior": None,
                }
                for pair in pairs
            ],
        )
        verdict_rows, reply_rows = [], []
        for pair, key in zip(pairs, keys, strict=True):
            outcome = outcome_of[pair["entrant_a"], pair["entrant_b"]]
            row: dict[str, Any] = {**pair, "outcome": outcome, "settled_by": "judge-1"}
            row["share"] = Outcome(outcome).share
            row["winner"] = {"a_wins": pair["entrant_a"], "b_wins": pair["entrant_b"]}.get(outcome)
            for side, verdict in zip(("ab", "ba"), said[outcome], strict=True):
                is_said = verdict in ("A", "B", "TIE")
                row |= {
                    f"verdict_{side}": verdict,
                    f"reason_{side}": None if is_said else "the judge declined",
                    f"request_key_{side}": f"{key}/{side}",
                    f"attempt_{side}": 1,
                }
                reply_rows.append(
                    {
                        **pair,
                        "presentation": side,
                        "request_key": f"{key}/{side}",
                        "attempt": 1,
                        "judge_model": "judge-1",
                        "rubric_version": "1",
                        "rubric_hash": "ab",
                        "result_type": "succeeded",
                        "reply": f"{text} VERDICT: {verdict}" if is_said else None,
                    }
                )
            verdict_rows.append(row)
        verdicts[dimension] = table_of(VerdictRow, verdict_rows)
        replies[dimension] = table_of(JudgeReplyRow, reply_rows)
    names = sorted({name for one, other, _ in outcomes for name in (one, other)})
    responses = {
        name: table_of(
            ResponseRow,
            [
                {
                    "entrant_id": name,
                    "prompt_id": prompt,
                    "response": answer(name),
                    "finish_reason": "stop",
                    "prompt_tokens": 5,
                    "response_tokens": 7,
                    "diagnostics": json.dumps(diagnostics or {}),
                }
                for prompt in prompts
            ],
        )
        for name in names
    }
    return BattleTables(matches, verdicts, replies, responses)
