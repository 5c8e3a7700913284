"""Nothing that an adaptive run claims is more than it decided, whatever was drawn."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tournament_assets.tournament.asset_rows import LeaderboardRow, WinRateRow

from .drawn_adaptive_runs import AdaptiveRun, draw_run, find_falsehoods

N_RUNS = 200 if "FUZZ" in os.environ else 20
"""Runs that are drawn in parts of `PART` (`make fuzz`: the most)."""
PART = 10


@pytest.mark.e2e
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(0, N_RUNS, PART))
def test_drawn_adaptive_runs_say_what_was_decided_and_nothing_else(
    first: int, tmp_path: Path
) -> None:
    falsehoods, seen = {}, Counter[str]()
    for seed in range(first, first + PART):
        run = draw_run(tmp_path / str(seed), seed)
        falsehoods[seed] = list(find_falsehoods(run))
        decided = run.decided
        names = {name for each in run.judgments for name in (each.entrant_a, each.entrant_b)}
        seen["decided"] += len(decided)
        seen["undecided"] += len(names) * (len(names) - 1) // 2 - len(decided)
        # Two steps lead from somebody to another with whom it is undecided.
        seen["open behind two"] += sum(
            here == there and not {(one, other), (other, one)} & decided
            for one, here in decided
            for there, other in decided
        )
        seen["weighed"] += sum(each.weight > 1 for each in run.judgments)
    assert {seed: said for seed, said in falsehoods.items() if said} == {}
    assert min(seen[what] for what in ("decided", "undecided", "weighed")) > 0
    # An open pair behind two decisions is rarer: only the parts that always run must hold one.
    assert first >= 2 * PART or seen["open behind two"] > 0


@dataclass(frozen=True)
class Changed:
    """A run some of whose rows are others."""

    run: AdaptiveRun
    row_type: type[Any]
    changes: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)

    def rows(self, row_type: type[Any], asset: str, name: str = "") -> list[Any]:
        """Return the rows of a table; of one table the first is another."""
        first, *rest = self.run.rows(row_type, asset, name)
        return [replace(first, **self.changes) if row_type is self.row_type else first, *rest]


def mutations(run: AdaptiveRun) -> Iterator[tuple[type, dict[str, Any]]]:
    """Yield rows' changes that make a run's tables say something that it did not decide."""
    first = run.rows(LeaderboardRow, "leaderboard")[0]
    last = run.rows(LeaderboardRow, "leaderboard")[-1]
    pair = run.rows(WinRateRow, "win_rates", "factuality")[0]
    assert first.rank_worst is not None
    assert last.rating is not None
    yield LeaderboardRow, {"rank_worst": first.rank_worst + 1}
    yield LeaderboardRow, {"rank_best": 2}
    yield LeaderboardRow, {"shown_above": first.shown_above[1:]}
    yield LeaderboardRow, {"group": last.group}
    yield LeaderboardRow, {"rank": 9}
    yield LeaderboardRow, {"win_rate": 0.123}
    yield WinRateRow, {"claim": "equivalent"}
    yield WinRateRow, {"claim": {"a_better": "b_better"}.get(str(pair.claim), "a_better")}
    yield WinRateRow, {"difference_low": -3.0}


def test_the_checker_finds_what_was_not_decided(tmp_path: Path) -> None:
    run = draw_run(tmp_path / "project", 2)
    assert list(find_falsehoods(run)) == []
    for row_type, changes in mutations(run):
        changed: Any = Changed(run, row_type, changes)
        assert next(find_falsehoods(changed), None) is not None, (row_type, changes)
