"""Runs that stop judging two entrants once it is known who of them is ahead."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.graph.paid_projects import PaidProject, paid_project
from tests.graph.test_plain_runs import compare_engines
from tests.projects import ENTRANTS, make_project
from tests.rows import stored_rows
from tests.torture.rounds import ADAPTIVE, N_PROMPTS, ask_in_rounds, make_larger
from tournament_assets.cli.battles import battles_group
from tournament_assets.definitions import default_ledger_url
from tournament_assets.foundation.errors import BudgetError
from tournament_assets.graph.plain_runs import PlainRun
from tournament_assets.preparing.estimates import estimate_judging
from tournament_assets.project.plan import load_plan
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import STYLE, rating_rows
from tournament_assets.reports.cost_estimate import cost_sentences, estimate_json
from tournament_assets.storage.tables import StoredTable
from tournament_assets.tournament.asset_rows import VerdictRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.verdicts import Judgment, Outcome
from tournament_assets.verdicts.table_rows import judgments_of

PRICES = {"claude-headline": {"input": 4.0, "output": 20.0}}


@contextmanager
def larger_project(folder: Path, *, adaptive: Any) -> Iterator[PaidProject]:
    """A project of 60 prompts, on which `careful` is far ahead and the others are close."""
    with paid_project(folder) as paid:
        make_larger(paid.project, adaptive=adaptive)
        paid.project.merge_config(judging={"prices": PRICES})
        paid.let_length_win()
        yield paid


def table(paid: PaidProject, name: str) -> list[dict[str, Any]]:
    path = paid.project.folder / "storage" / "small" / name / "factuality" / "headline.parquet"
    return stored_rows(name, path)


def mode_table(paid: PaidProject, name: str) -> list[dict[str, Any]]:
    path = paid.project.folder / "storage" / "small" / name / "headline.parquet"
    return stored_rows(name, path)


def directory_of(made: PlainRun) -> Path:
    return Path(made.metadata["run_artifacts", ""]["directory"])


def points(judgment: Judgment, entrant: str) -> float:
    if judgment.outcome is Outcome.A_WINS:
        return float(entrant == judgment.entrant_a)
    if judgment.outcome is Outcome.B_WINS:
        return float(entrant == judgment.entrant_b)
    return 0.5


def bradley_terry(judgments: Sequence[Judgment]) -> dict[str, float | None]:
    fits = fit_bradley_terry(code_judgments(judgments, entrants=ENTRANTS), initial_rating=1400.0)
    return {each.entrant: each.value for each in fits}


def at_equal_style(paid: PaidProject, judgments: Sequence[Judgment]) -> dict[str, float | None]:
    responses = {
        (entrant, (row["prompt_id"], 1)): row["response"]
        for entrant in ENTRANTS
        for line in (paid.project.folder / f"responses_{entrant}.jsonl").read_text().splitlines()
        for row in [json.loads(line)]
    }
    matches = code_judgments(judgments, entrants=ENTRANTS)
    evidence = Evidence(matches=matches, settings=RatingSettings(), responses=responses)
    rows = rating_rows(evidence, (STYLE,), dimension="factuality")
    return {row.entrant_id: row.rating for row in rows if row.method == STYLE}


def pair_of(row: dict[str, Any]) -> tuple[str, str]:
    return row["entrant_a"], row["entrant_b"]


def estimate(paid: PaidProject) -> tuple[str, dict[str, Any]]:
    plan = load_plan(paid.project.config_path, paid.environment)
    with paid.ledger() as ledger:
        found = estimate_judging(plan, "headline", ledger=ledger)
    return " ".join(cost_sentences("rounds", found)), estimate_json(found)


def test_an_adaptive_headline_asks_less_says_so_and_asks_nothing_again(tmp_path: Path) -> None:
    with larger_project(tmp_path, adaptive=ADAPTIVE) as paid:
        before, numbers = estimate(paid)
        assert "330 requests" in before
        # 14 prompts of 3 pairs, of which one prompt is of one text.
        assert 72 <= numbers["rounds"]["to_ask_now"] <= 84
        summary = paid.run(mode="headline")
        verdicts = table(paid, "judge_verdicts")
        decisions = {pair_of(row): row for row in table(paid, "judging_decisions")}
        assert len(decisions) == 3
        for pair, row in decisions.items():
            own = [each for each in verdicts if pair_of(each) == pair]
            assert row["prompts"] == N_PROMPTS == len(own) + row["not_needed"]
        stopped = decisions["careful", "sloppy"]
        assert stopped["side"] == "careful"
        assert stopped["decided_at"] <= stopped["looked_at"] < N_PROMPTS / 2
        n_saved = sum(row["not_needed"] for row in decisions.values())
        assert paid.n_asked == 330 - 2 * n_saved
        weights = Counter(row["weight"] for row in verdicts)
        assert weights[5.0] == sum(len(row["tail"]) for row in decisions.values()) > 0
        assert set(weights) == {1.0, 5.0}
        report = (summary.directory / "report.html").read_text()
        assert "who would win if every prompt of this bank were judged" in report
        assert f"{2 * n_saved} of 330" in report
        # What is decided while judging has an interval of its own, and nothing was limited.
        assert "prompts resampled" not in report.partition('class="contents"')[0]
        assert "--limit-pairs" not in report
        assert "PARTIAL" not in report
        asked, files = paid.n_asked, paid.project.stored_files()
        paid.run(mode="headline")
        assert paid.n_asked == asked
        assert paid.project.stored_files() == files
        assert estimate(paid)[1]["rounds"]["to_ask_at_most"] == 0


@pytest.fixture(scope="module")
def population(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[PaidProject, PlainRun]]:
    """A finished adaptive run that asks who is better on prompts such as these."""
    adaptive = {**ADAPTIVE, "goal": "population"}
    with larger_project(tmp_path_factory.mktemp("population"), adaptive=adaptive) as paid:
        yield paid, paid.tables(mode="headline")


def test_a_population_s_answer_is_decided_accounted_for_and_named(
    population: tuple[PaidProject, PlainRun],
) -> None:
    paid, made = population
    decisions = {pair_of(row): row for row in table(paid, "judging_decisions")}
    assert {row["goal"] for row in decisions.values()} == {"population"}
    stopped = decisions["careful", "sloppy"]
    assert stopped["side"] == "careful"
    close = decisions["sloppy", "mixed"]
    assert (close["looked_at"], close["side"], close["not_needed"]) == (N_PROMPTS, None, 0)
    # Even the whole bank leaves doubt about other prompts.
    assert close["low"] < close["share"] < close["high"]
    checks = made.checks["judge_verdicts", "factuality"]
    (accounting,) = (each.metadata for each in checks if each.name == "accounting")
    n_saved = 2 * sum(row["not_needed"] for row in decisions.values())
    assert (accounting["planned"], accounting["not_needed"]) == (6 * N_PROMPTS, n_saved)
    assert 0 < paid.n_asked == 330 - n_saved
    parts = ("verdicts", "same_text", "not_needed", "unreadable", "refused", "pending")
    assert accounting["planned"] == sum(accounting.get(name, 0) for name in parts)
    assert accounting["pending"] == 0
    assert not any("PARTIAL" in each or "limited" in each for each in made.warnings)
    report = (directory_of(made) / "report.html").read_text()
    assert "who is better on prompts such as these" in report
    assert "if every prompt" not in report
    assert f"{n_saved} of 330" in report


def test_places_and_claims_of_an_adaptive_run_are_what_judging_decided(
    population: tuple[PaidProject, PlainRun],
) -> None:
    paid, _ = population
    decided = {
        (row["side"], *({*pair_of(row)} - {row["side"]}))
        for row in table(paid, "judging_decisions")
        if row["side"] is not None
    }
    board = mode_table(paid, "leaderboard")
    assert decided
    assert {(row["entrant_id"], each) for row in board for each in row["shown_above"]} == decided
    ranks = {row["entrant_id"]: row["rank"] for row in board}
    assert all(ranks[better] < ranks[worse] for better, worse in decided)
    for row in table(paid, "win_rates"):
        side = {"a_better": row["entrant_a"], "b_better": row["entrant_b"]}.get(row["claim"])
        assert row["claim"] != "equivalent"
        assert (side is not None) == bool({pair_of(row), pair_of(row)[::-1]} & decided)
        # Resampling ignores when a pair stopped, so no interval and no number of prompts is named.
        assert (row["difference_low"], row["difference_high"]) == (None, None)


def test_what_a_stop_makes_needless_is_nowhere_missing(
    population: tuple[PaidProject, PlainRun],
) -> None:
    paid, made = population
    manifest = json.loads((directory_of(made) / "manifest.json").read_text())
    n_saved = sum(row["not_needed"] for row in table(paid, "judging_decisions"))
    assert manifest["pairs_not_needed"] == {"factuality": n_saved}
    assert manifest["pairs_left_out_by_limit"] == {"factuality": 0}
    assert not manifest["outages"]
    for row in mode_table(paid, "audit"):
        assert row["coverage"] == 1.0
        assert row["pairs_unanswered"] == row["replies_pending"] == 0
    (counted,) = (row for row in table(paid, "measures") if row["measure"] == "not_needed")
    assert f"{n_saved} of {3 * N_PROMPTS}" in counted["note"]


def test_every_rating_counts_a_verdict_of_the_tail_for_what_it_stands_for(
    population: tuple[PaidProject, PlainRun],
) -> None:
    paid, _ = population
    verdicts = table(paid, "judge_verdicts")
    path = paid.project.folder / "storage/small/judge_verdicts/factuality/headline.parquet"
    judgments = list(judgments_of(StoredTable(VerdictRow, path)))
    assert [each.weight for each in judgments] == [row["weight"] for row in verdicts]
    # The reference: each verdict as many times as it weighs.
    repeated = [replace(each, weight=1.0) for each in judgments for _ in range(round(each.weight))]
    once = [replace(each, weight=1.0) for each in judgments]
    rated = table(paid, "ratings")
    stored = {row["entrant_id"]: row["rating"] for row in rated if row["method"] == "bradley_terry"}
    assert stored == pytest.approx(bradley_terry(repeated), abs=0.01)
    assert stored != pytest.approx(bradley_terry(once), abs=1)
    for row in table(paid, "win_rates"):
        own = [each for each in repeated if {each.entrant_a, each.entrant_b} == {*pair_of(row)}]
        assert row["win_rate_a"] == pytest.approx(
            sum(points(each, row["entrant_a"]) for each in own) / len(own)
        )
    for row in rated:
        if row["method"] == "win_share":
            own = [
                each for each in repeated if row["entrant_id"] in (each.entrant_a, each.entrant_b)
            ]
            # The share is weighed, and its count is of what was judged.
            assert row["n"] == sum(
                row["entrant_id"] in (each.entrant_a, each.entrant_b) for each in once
            )
            gained = sum(points(each, row["entrant_id"]) for each in own)
            assert row["rating"] == pytest.approx(gained / len(own))
    style = {row["entrant_id"]: row["rating"] for row in rated if row["method"] == STYLE}
    assert style == pytest.approx(at_equal_style(paid, repeated), abs=0.001)
    assert style != pytest.approx(at_equal_style(paid, once), abs=0.1)


def test_the_ratings_of_an_adaptive_run_come_back_from_its_battles(
    population: tuple[PaidProject, PlainRun],
) -> None:
    paid, made = population
    path = directory_of(made) / "battles.parquet"
    result = CliRunner().invoke(
        battles_group, ["rate", str(path), "--json"], catch_exceptions=False
    )
    (rated,) = json.loads(result.stdout)["ratings"]
    stored = {
        row["entrant_id"]: row for row in table(paid, "ratings") if row["method"] == "bradley_terry"
    }
    assert len(rated["ratings"]) == len(stored)
    for ours in rated["ratings"]:
        theirs = stored[ours["entrant_id"]]
        # The file does not hold the decisions, from which order and places of the run follow.
        assert (ours["group"], ours["shown_above"]) == (None, [])
        for name in ("rating", "standard_error", "low", "high", "n", "note"):
            assert ours[name] == pytest.approx(theirs[name])
    names = ("entrant_id", "k_factor", "mean", "sem", "order_low", "order_high")
    by_file, by_run = (
        {(row["entrant_id"], row["k_factor"]): row for row in rows if row["mean"]}
        for rows in (rated["elo"], table(paid, "elo_ratings"))
    )
    assert by_file.keys() == by_run.keys()
    for key, row in by_file.items():
        assert [row[name] for name in names] == pytest.approx([by_run[key][name] for name in names])


def test_another_rubric_begins_with_the_first_round_again(
    population: tuple[PaidProject, PlainRun],
) -> None:
    paid, _ = population
    rubric = paid.project.folder / "rubrics" / "factuality.txt"
    text = rubric.read_text()
    assert estimate(paid)[1]["rounds"]["to_ask_at_most"] == 0
    rubric.write_text(text.replace("# version: 1", "# version: 2") + "Prefer what is true.\n")
    try:
        again = estimate(paid)[1]["rounds"]
    finally:
        rubric.write_text(text)
    # 14 prompts of 3 pairs, of which one prompt is of one text.
    assert 72 <= again["to_ask_now"] <= 84
    assert again["to_ask_at_most"] == 330


def test_one_round_stores_what_a_run_without_the_key_does(tmp_path: Path) -> None:
    stored = {}
    for name, changes in {"off": {}, "one": {"adaptive": {"rounds": 1}}}.items():
        with paid_project(tmp_path / name) as paid:
            paid.let_length_win()
            paid.project.merge_config(modes={"headline": {"prewarm": False, **changes}})
            paid.run(mode="headline")
            stored[name] = paid.project.stored_files()
    decisions = [name for name in stored["one"] if "/judging_decisions/" in name]
    assert stored["one"].keys() - stored["off"].keys() == set(decisions)
    # The report names its config.
    differing = {name for name in stored["off"] if stored["off"][name] != stored["one"][name]}
    assert not {name for name in differing if "/report/" not in name}


def test_the_budget_holds_for_every_round_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    with larger_project(tmp_path, adaptive=ADAPTIVE) as paid:
        # A bill that is known beforehand: it does not depend on how long the replies are.
        paid.project.merge_config(
            judging={"prices": {"claude-headline": {"input": 4.0, "output": 0.0}}}
        )
        most = estimate(paid)[1]["rounds"]
        place = {
            "config": str(paid.project.config_path),
            "ledger_url": default_ledger_url(paid.project.folder),
            "judge_url": paid.server.url,
        }
        # Room for the first round and not for the second.
        paid.project.merge_config(judging={"budget": {"usd": round(most["usd_now"] * 1.25, 6)}})
        with pytest.raises(BudgetError):
            ask_in_rounds(**place)
        first = paid.n_asked
        assert most["to_ask_now"] <= first < most["to_ask_at_most"]
        paid.project.merge_config(judging={"budget": {"usd": 50.0}})
        ask_in_rounds(**place)
        asked = paid.n_asked
        assert first < asked < most["to_ask_at_most"]
        ask_in_rounds(**place)
        assert paid.n_asked == asked
        accounts = paid.server.log
        assert accounts.requests + accounts.messages == asked


def test_both_engines_store_the_same_bytes_where_pairs_stop(tmp_path: Path) -> None:
    project = make_project(tmp_path / "plain", dimensions=("factuality",))
    make_larger(project, adaptive=ADAPTIVE)
    compare_engines(project, "headline")
