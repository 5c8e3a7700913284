"""Runs that stop judging two entrants once it is known who of them is ahead."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.torture.rounds import ADAPTIVE, N_PROMPTS, ask_in_rounds, make_larger
from tournament_assets.definitions import build_plan, default_ledger_url
from tournament_assets.project.config_files import load_config
from tournament_assets.reports.cost_estimate import estimate_json, rounds_sentences
from tournament_assets.storage.tables import StoredTable, decode_parquet, table_rows
from tournament_assets.tournament.errors import BudgetError, InputError
from tournament_assets.workflows.estimates import estimate_judging

from .paid_projects import PaidProject, paid_project

PRICES = {"claude-headline": {"input": 4.0, "output": 20.0}}
STREAMED = ("match_list", "judge_replies", "judge_verdicts")


@contextmanager
def larger_project(folder: Path, **judge: Any) -> Iterator[PaidProject]:
    """A project of 60 prompts, on which `careful` is far ahead and the others are close."""
    with paid_project(folder) as paid:
        make_larger(paid.project, prices=PRICES, **judge)
        paid.let_length_win()
        yield paid


def table(paid: PaidProject, name: str) -> list[dict[str, Any]]:
    path = paid.project.folder / "storage" / "small" / name / "factuality" / "headline.parquet"
    if name in STREAMED:
        return table_rows(name, StoredTable(name, path))
    return table_rows(name, decode_parquet(name, path.read_bytes()))


def pair_of(row: dict[str, Any]) -> tuple[str, str]:
    return row["entrant_a"], row["entrant_b"]


def estimate(paid: PaidProject) -> tuple[str, dict[str, Any]]:
    plan = build_plan(load_config(paid.project.config_path), paid.environment)
    with paid.ledger() as ledger:
        found = estimate_judging(plan, "headline", ledger=ledger)
    return " ".join(rounds_sentences(found)), estimate_json(found)


def test_an_adaptive_headline_asks_less_says_so_and_asks_nothing_again(tmp_path: Path) -> None:
    with larger_project(tmp_path, adaptive=ADAPTIVE) as paid:
        before, numbers = estimate(paid)
        assert "330 requests" in before
        assert "What to expect is known once the pilot is judged" in before
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
        report = (summary.directory / "report.md").read_text()
        assert "who would win if every prompt of this bank were judged" in report
        assert f"{2 * n_saved} of 330" in report
        assert "presentations were not needed, about " in report
        assert "--limit-pairs" not in report
        assert "limited to the first pairs" not in report
        assert "(decided while judging, all pairs together)" in report
        assert "prompts resampled)" not in report.split("## Where judging stopped")[0]
        assert "PARTIAL" not in report
        asked, files = paid.n_asked, paid.project.stored_files()
        paid.run(mode="headline")
        assert paid.n_asked == asked
        assert paid.project.stored_files() == files
        assert estimate(paid)[1]["rounds"]["to_ask_at_most"] == 0


def test_one_round_stores_what_a_run_without_the_key_does(tmp_path: Path) -> None:
    stored = {}
    for name, changes in {"off": {}, "one": {"adaptive": {"rounds": 1}}}.items():
        with paid_project(tmp_path / name) as paid:
            paid.configure_judge(**changes)
            paid.let_length_win()
            headline = {"judge_model": "claude-headline", "prewarm": False}
            paid.project.edit_config(headline=headline)
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
        paid.configure_judge(prices={"claude-headline": {"input": 4.0, "output": 0.0}})
        most = estimate(paid)[1]["rounds"]
        place = {
            "config": str(paid.project.config_path),
            "ledger_url": default_ledger_url(paid.project.folder),
            "judge_url": paid.server.url,
        }
        # Room for the first round and not for the second.
        paid.configure_judge(budget_usd=round(most["usd_now"] * 1.25, 6))
        with pytest.raises(BudgetError):
            ask_in_rounds(**place)
        first = paid.n_asked
        assert most["to_ask_now"] <= first < most["to_ask_at_most"]
        paid.configure_judge(budget_usd=50.0)
        ask_in_rounds(**place)
        asked = paid.n_asked
        assert first < asked < most["to_ask_at_most"]
        ask_in_rounds(**place)
        assert paid.n_asked == asked
        accounts = paid.server.log
        assert accounts.requests + accounts.messages == asked


def test_several_judges_and_people_are_refused(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid:
        config = yaml.safe_load(paid.project.config_path.read_text())
        panel = [{"model": "claude-pilot"}, {"model": "claude-headline"}]
        paid.configure_judge(adaptive=ADAPTIVE, panel=panel)
        with pytest.raises(InputError, match="adaptive is given with a panel of judges; expected"):
            load_config(paid.project.config_path)
        paid.project.edit_config(
            judge={**config["judge"], "adaptive": ADAPTIVE},
            human_battles={"file": {"path": "votes.jsonl"}},
        )
        with pytest.raises(InputError, match="adaptive and human_battles are given"):
            load_config(paid.project.config_path)
