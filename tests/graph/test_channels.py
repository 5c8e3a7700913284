"""Judges are asked in batches or directly, as the config says and the budget allows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.rows import stored_rows
from tournament_assets.verdicts import judge_requests

from .paid_projects import PaidProject
from .test_budget_and_waits import BOTH, budget_trial, launch

FOLDER = ("storage", "small", "judge_verdicts")


def verdicts(paid: PaidProject) -> list[dict[str, Any]]:
    """The verdicts of the pilot."""
    tables = [paid.project.folder.joinpath(*FOLDER, each, "pilot.parquet") for each in BOTH]
    return [row for path in tables for row in stored_rows("judge_verdicts", path)]


@pytest.mark.parametrize("mode_says", [False, True])
@pytest.mark.parametrize("name", ["two dimensions", "two dimensions by OpenAI"])
def test_what_is_asked_directly_waits_for_no_batch_and_is_asked_once_by_either_way(
    tmp_path: Path, name: str, mode_says: bool
) -> None:
    with budget_trial(tmp_path, name, 8.0) as (paid, _):
        keys: dict[str, Any] = {"judging": {"channel": "direct"}}
        if mode_says:
            keys = {"judging": {"channel": "batch"}, "modes": {"pilot": {"channel": "direct"}}}
        paid.project.merge_config(**keys)
        assert launch(paid) == ""
        assert (paid.server.log.requests, paid.server.log.messages) == (0, paid.n_asked)
        assert {row["channel"] for row in paid.rows("judge_replies")} == {"direct"}
        before, asked = verdicts(paid), paid.n_asked
        paid.project.merge_config(judging={"channel": "batch"}, modes={"pilot": {"channel": None}})
        assert launch(paid) == ""
        assert (verdicts(paid), paid.n_asked) == (before, asked)


def never(_: pytest.MonkeyPatch) -> None:
    """Change nothing."""


def few(patch: pytest.MonkeyPatch) -> None:
    """Ask directly where almost nothing is left."""
    patch.setattr(judge_requests, "MOST_DIRECT", 5)


@pytest.mark.parametrize(
    ("share", "limit", "is_direct"), [(8.0, never, True), (1.5, never, False), (8.0, few, False)]
)
def test_auto_asks_directly_what_is_little_and_affordable_and_the_estimate_knows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    share: float,
    limit: Callable[[pytest.MonkeyPatch], None],
    is_direct: bool,
) -> None:
    with budget_trial(tmp_path, "two dimensions", share) as (paid, _):
        in_batches = paid.tables("judging_estimate").metadata["judging_estimate", ""]
        paid.project.merge_config(judging={"channel": "auto"})
        limit(monkeypatch)
        priced = paid.tables("judging_estimate").metadata["judging_estimate", ""]
        if limit is never:
            factor = 2.0 if is_direct else 1.0
            assert priced["usd_no_hits"] == pytest.approx(factor * in_batches["usd_no_hits"])
        heard = launch(paid)
        assert (heard == "") is is_direct
        assert (paid.server.log.requests == 0) is is_direct
