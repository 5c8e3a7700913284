"""Drawn runs hold what other code computes from what their judges said."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.oracle.comparison import Oracle, find_differences
from tests.oracle.doors import find_falsehoods
from tests.oracle.drawn_runs import KINDS, draw_run
from tournament_assets.foundation.estimates import Rating
from tournament_assets.graph.assets import ratings as rating_assets
from tournament_assets.graph.assets import reports
from tournament_assets.judging.requests import verdict_parsing
from tournament_assets.ratings import standings
from tournament_assets.reports import leaderboard, statements
from tournament_assets.reports.run import page
from tournament_assets.reports.statements import Statement
from tournament_assets.run_comparison import gate
from tournament_assets.run_comparison.gate import GatedDimension, Passage
from tournament_assets.tournament.asset_rows import WinRateRow
from tournament_assets.tournament.verdicts import Outcome

ALWAYS = 2
"""Drawn in every run of the tests; the others end to end."""
N_RUNS = 300 if "FUZZ" in os.environ else 30
"""Drawn runs in all (`make fuzz`: the most), of each kind as many."""
SILENT, JURY = KINDS.index("silent"), KINDS.index("jury")


def prove(seed: int, folder: Path) -> None:
    """Draw a run, and compare its tables and doors with what the oracle computes."""
    drawn = draw_run(seed, folder)
    wrong = [*find_differences(drawn), *find_falsehoods(Oracle(drawn))]
    assert wrong == [], f"draw {seed} ({drawn.kind}): {len(wrong)} differences or falsehoods"


@pytest.mark.parametrize("seed", range(ALWAYS))
def test_a_drawn_run_holds_what_its_judges_said(seed: int, tmp_path: Path) -> None:
    prove(seed, tmp_path / "run")


@pytest.mark.e2e
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(ALWAYS, N_RUNS))
def test_every_kind_of_drawn_run_holds_what_its_judges_said(seed: int, tmp_path: Path) -> None:
    prove(seed, tmp_path / "run")


def _a_win_more(rows: Sequence[WinRateRow]) -> list[WinRateRow]:
    return [replace(rows[0], win_rate_a=(rows[0].win_rate_a or 0.0) + 1e-6), *rows[1:]]


def _a_place_less(placed: Sequence[standings.Standing]) -> tuple[standings.Standing, ...]:
    return tuple(replace(each, worst=each.rank) for each in placed)


def _a_hair_higher(rated: Sequence[Rating]) -> tuple[Rating, ...]:
    return tuple(replace(each, value=(each.value or 0.0) + 1e-5) for each in rated)


def _a_tie_for_indecision(outcome: Outcome) -> Outcome:
    return Outcome.TIE if outcome is Outcome.INCONSISTENT else outcome


@pytest.mark.parametrize(
    ("module", "name", "change", "cell"),
    [
        (rating_assets, "pairwise_winrates", _a_win_more, "win_rate_a"),
        (standings, "_standings", _a_place_less, "rank_worst"),
        (standings, "rate_wins", _a_hair_higher, "rating"),
        (verdict_parsing, "reconcile_swap", _a_tie_for_indecision, "outcome"),
    ],
)
def test_a_function_that_is_wrong_by_little_is_noticed(
    module: ModuleType,
    name: str,
    change: Callable[[Any], Any],
    cell: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given, **named: change(right(*given, **named)))
    wrong = find_differences(draw_run(SILENT, tmp_path / "run"))
    assert [each for each in wrong if f" {cell}: " in each]


def _nobody_beaten(outcome: Statement) -> Statement:
    return replace(outcome, names=outcome.names[::-1])


def _other_words(said: object) -> Any:
    return ("About 7 more prompts would show who is best.",)


def _never_undecided(decided: Sequence[GatedDimension]) -> list[GatedDimension]:
    return [replace(each, passage=Passage.NOT_WORSE) for each in decided]


@pytest.mark.parametrize(
    ("module", "name", "change", "door"),
    [
        (statements, "_outcome", _nobody_beaten, "statements"),
        (page, "next_steps", _other_words, "first screen"),
        (page, "render", lambda said: said[:-2], "first screen"),
        (leaderboard, "verdict_sentence", lambda said: said[3:], "console"),
        (reports, "verdict_sentence", lambda said: said[3:], "catalogue"),
        (gate, "_decide", _never_undecided, "gate"),
        (gate, "gate_sentences", lambda said: said[1:], "gate"),
    ],
)
def test_a_door_that_says_something_else_is_noticed(
    module: ModuleType,
    name: str,
    change: Callable[[Any], Any],
    door: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given, **named: change(right(*given, **named)))
    oracle = Oracle(draw_run(JURY, tmp_path / "run"))
    assert [each for each in find_falsehoods(oracle) if each.startswith(door)]
