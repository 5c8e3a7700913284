"""Adaptive runs drawn at random, and everything false in what they store and say.

What is true is made from two tables alone: what judging decided (`judging_decisions`), and the
settled pairs with their weights (`judge_verdicts`). No chain of decisions decides anything.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tests.projects import SmallProject, make_project, recorded_entrants, write_json_lines
from tests.ratings.drawn_tournaments import follow
from tournament_assets.audits.prompt_findings import FindingKind
from tournament_assets.extras.stopping.decisions import DecisionRow
from tournament_assets.extras.stopping.mode_keys import AdaptiveConfig, AdaptiveKeys
from tournament_assets.extras.stopping.stopping_tables import stopping_section
from tournament_assets.graph.plain_runs import PlainRun
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.ratings.rating_methods import GAP
from tournament_assets.reports.claims import Statements, against_ratings
from tournament_assets.reports.run.dimension_sections import numbers_section
from tournament_assets.reports.statements import Careful, Equivalent, Undecided, answer
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import (
    CoverageRow,
    LeaderboardRow,
    PromptFindingRow,
    RatingRow,
    WinRateRow,
)
from tournament_assets.tournament.verdicts import Judgment
from tournament_assets.verdicts.table_rows import judgments_of

Draws = np.random.Generator
RowT = TypeVar("RowT")
DIMENSION = "factuality"
_MARK = "against the ratings"
_WORDS = ("amber", "copper", "granite", "juniper", "lantern", "velvet")
"""An answer is as good as the number of these that it names."""
_DICE = ((4, 4, 4, 4, 0, 0), (3, 3, 3, 3, 3, 3), (6, 6, 2, 2, 2, 2), (5, 5, 5, 1, 1, 1))
"""Efron's dice: each beats the next two times in three, and the last the first."""


@dataclass(frozen=True)
class AdaptiveRun:
    """A finished run in which pairs stop.

    Attributes:
        adaptive: How pairs stop.
        tables: All its tables.
    """

    adaptive: AdaptiveKeys
    tables: PlainRun

    def rows(self, row_type: type[RowT], asset: str, name: str = "") -> list[RowT]:
        """Return the rows of a table."""
        return list(rows_of(row_type, self.tables.frame(asset, name)))

    @property
    def decided(self) -> set[tuple[str, str]]:
        """The better and the worse of every two entrants that judging decided."""
        rows = self.rows(DecisionRow, "judging_decisions", DIMENSION)
        last = {(row.entrant_a, row.entrant_b): row.side for row in rows}
        return {
            (side, second if side == first else first)
            for (first, second), side in last.items()
            if side is not None
        }

    @property
    def judgments(self) -> list[Judgment]:
        """The settled pairs."""
        return judgments_of(self.tables.values["judge_verdicts", DIMENSION])


def draw_run(folder: Path, seed: int) -> AdaptiveRun:
    """Draw entrants and their answers, and judge them adaptively; the same seed the same run."""
    draws = np.random.default_rng(seed)
    project = make_project(folder, dimensions=[DIMENSION])
    n_prompts = int(draws.integers(20, 46))
    bank = [
        {
            "prompt_id": f"p{number:02}",
            "text": f"Which words are on list number {number}?",
            "source": f"part {number % 2}",
            "gold_answer": " ".join(_WORDS),
        }
        for number in range(n_prompts)
    ]
    write_json_lines(folder / "bank.jsonl", bank)
    names = [f"m{number}" for number in range(int(draws.integers(3, 7)))]
    _write_answers(project, names, bank, draws)
    adaptive: dict[str, Any] = {
        "goal": str(draws.choice(["bank", "population"], p=[0.8, 0.2])),
        "rounds": int(draws.integers(2, 7)),
        "tail": float(draws.choice([0.1, 0.2, 0.5])),
        "min_prompts": int(draws.choice([5, 8, 12])),
    }
    project.draw(**{"part 0": 2, "part 1": 2})
    project.merge_config(
        modes={"headline": {"adaptive": adaptive, "prewarm": False}},
        ratings={"n_permutations": 5, "n_bootstraps": 100},
        entrants=recorded_entrants(names),
    )
    project.edit_judges(waiting={"poll_initial_seconds": 0.02})
    made = project.tables("report", mode="headline")
    return AdaptiveRun(AdaptiveKeys(adaptive=AdaptiveConfig(**adaptive)), made)


def _write_answers(
    project: SmallProject, names: Sequence[str], bank: Sequence[dict[str, Any]], draws: Draws
) -> None:
    """Let everyone answer: by strength, or by a die of its own, so that some run in circles."""
    spread, is_cyclic = float(draws.choice([0.0, 0.5, 1.5])), draws.random() < 0.5
    for number, name in enumerate(names):
        strength = draws.normal(3.0, spread)
        rows = []
        for prompt in bank:
            n_words = strength + draws.normal(0.0, 1.5)
            if is_cyclic and number < len(_DICE):
                n_words = draws.choice(_DICE[number])
            said = _WORDS[: int(np.clip(round(float(n_words)), 0, len(_WORDS)))]
            text = f"The list has these words: {' '.join(said) or 'none'}, says {name}."
            rows.append({"prompt_id": prompt["prompt_id"], "response": text})
        write_json_lines(project.folder / f"responses_{name}.jsonl", rows)


def find_falsehoods(run: AdaptiveRun) -> Iterator[str]:
    """Yield everything that a run claims and did not decide, and what it counts wrongly."""
    board = run.rows(LeaderboardRow, "leaderboard")
    pairs = run.rows(WinRateRow, "win_rates", DIMENSION)
    placed = {row.entrant_id: row for row in board if row.rank is not None}
    decided = {pair for pair in run.decided if {*pair} <= placed.keys()}
    yield from _of_claims(pairs, placed, decided)
    for row in placed.values():
        yield from _of_place(row, placed, decided)
    for one, other in combinations(placed, 2):
        shares = {*(placed[one].group or "").split()} & {*(placed[other].group or "").split()}
        if bool(shares) == bool({(one, other), (other, one)} & decided):
            yield f"{one} and {other}: the letters say something else than the decisions"
    yield from _of_statements(board, pairs, decided)
    yield from _of_marks(run, board, pairs, decided)
    yield from _of_weights(run, board)


def _of_claims(
    pairs: Sequence[WinRateRow],
    placed: dict[str, LeaderboardRow],
    decided: set[tuple[str, str]],
) -> Iterator[str]:
    for row in pairs:
        if not {row.entrant_a, row.entrant_b} <= placed.keys():
            continue
        expected = "undecided"
        if (row.entrant_a, row.entrant_b) in decided:
            expected = "a_better"
        elif (row.entrant_b, row.entrant_a) in decided:
            expected = "b_better"
        if row.claim != expected:
            yield f"{row.entrant_a} and {row.entrant_b} are {row.claim}, and {expected}"
        if (row.difference_low, row.difference_high) != (None, None):
            yield f"{row.entrant_a} and {row.entrant_b} have an interval that nobody made"


def _of_place(
    row: LeaderboardRow, placed: dict[str, LeaderboardRow], decided: set[tuple[str, str]]
) -> Iterator[str]:
    name = row.entrant_id
    above = {one for one, other in decided if other == name}
    below = {other for one, other in decided if one == name}
    others = placed.keys() - {name}
    places = row.rank_best, row.rank_worst
    if places != (1 + len(above), len(placed) - len(below)) or {*row.shown_above} != below:
        yield f"{name} has places {places}: {sorted(above)} are above it, {sorted(below)} below"
    if places == (1, 1) and below != others:
        yield f"{name} is first, and undecided with {sorted(others - below)}"
    if not 1 + len(above) <= (row.rank or 0) <= len(placed) - len(below):
        yield f"{name} has rank {row.rank} outside of its places"
    for other in below:
        is_later = (placed[other].rank or 0) > (row.rank or 0)
        if not is_later and name not in follow(other, decided):
            yield f"{name} stands behind {other}, which it was decided to be better than"


def _of_statements(
    board: Sequence[LeaderboardRow], pairs: Sequence[WinRateRow], decided: set[tuple[str, str]]
) -> Iterator[str]:
    said = Statements.of(board, pairs, dimension=DIMENSION)
    outcome, *_ = answer(said, equivalent_within=0.0)
    names = outcome.names
    ranked = {row.entrant_id for row in said.placed}
    copies = {row.entrant_id: {*row.same_answers_as} for row in said.placed}
    beaten = {other for _, other in decided}
    for name in said.best:
        if rest := {x for x in ranked - {name} - copies[name] if (name, x) not in decided}:
            yield f"{name} is called best, and undecided with {sorted(rest)}"
    if isinstance(outcome, Careful):
        if ranked - beaten:
            yield f"nobody is called first, and nobody is better than {sorted(ranked - beaten)}"
        if not {*outcome.pairs} <= decided:
            yield f"{outcome.pairs} do not go in a circle"
    if isinstance(outcome, Equivalent):
        yield f"{names} are called equivalent"
    if isinstance(outcome, Undecided) and names and {*names} != ranked - beaten:
        yield f"{names} are called undecided; nobody is better than {sorted(ranked - beaten)}"


def _of_marks(
    run: AdaptiveRun,
    board: Sequence[LeaderboardRow],
    pairs: Sequence[WinRateRow],
    decided: set[tuple[str, str]],
) -> Iterator[str]:
    """Compare marks with the ratings on the page, wherever a decision is printed."""
    rating = {row.entrant_id: row.rating for row in board}
    against = {
        (one, other)
        for one, other in decided
        if None not in (rating[one], rating[other])
        and (rating[one] or 0.0) < (rating[other] or 0.0) - 1e-6
    }
    if {*against_ratings(board)} != against:
        yield f"{against} stand against the ratings, and {against_ratings(board)} are said to"
    rows = run.rows(DecisionRow, "judging_decisions", DIMENSION)
    by_name = {DIMENSION: board}
    section = stopping_section(rows, by_name, mode_config=run.adaptive, prices={})
    if section is not None:
        table = section.tables[0][1]
        for row in table.rows:
            pair = (*str(row[0]).split(" : "),)
            is_against = bool({pair, pair[::-1]} & against)
            if (_MARK in str(row[1])) != is_against:
                yield f"{pair} are {row[1]!r} where judging stopped"
    ((_, numbers),) = numbers_section(
        statements={DIMENSION: Statements.of(board, pairs, dimension=DIMENSION)},
        families=None,
        confidence=0.95,
        equivalent_within=0.0,
    ).tables
    (place,) = (
        number for number, header in enumerate(numbers.headers) if header.startswith("difference")
    )
    names = [row.entrant_id for row in board if row.rank is not None]
    for (one, other), row in zip(pairwise(names), numbers.rows, strict=False):
        if (_MARK in str(row[place])) != bool({(one, other), (other, one)} & against):
            yield f"{one} and {other} are {row[place]!r} on the ladder"
        if "unbounded" in str(row[place]):
            yield f"{one} and {other}: {row[place]!r}, where no interval was made"
    for gap in run.rows(RatingRow, "ratings", DIMENSION):
        if gap.method == GAP and ((gap.low, gap.high) != (None, None) or not gap.note):
            yield f"the gap below {gap.entrant_id} does not say that it has no interval"


def _of_weights(run: AdaptiveRun, board: Sequence[LeaderboardRow]) -> Iterator[str]:
    """Compare the audits with the settled pairs and their weights."""
    shares = {row.entrant_id: row.win_rate for row in board}
    for covered in run.rows(CoverageRow, "audit"):
        if not _are_near(covered.score_present, shares[covered.entrant_id], 1e-9):
            yield f"{covered.entrant_id} has a score {covered.score_present} in the audit"
    names = [*shares]
    judgments = run.judgments

    def rate(*, without: str | None) -> dict[str, float | None]:
        others = [each for each in judgments if each.prompt_id != without]
        fit = fit_bradley_terry(code_judgments(others, entrants=names))
        return {each.entrant: each.value for each in fit}

    whole = rate(without=None)
    for finding in run.rows(PromptFindingRow, "prompt_audit"):
        if finding.kind not in (FindingKind.MOVES_RATING, FindingKind.DECIDES_ORDER):
            continue
        less = rate(without=finding.prompt_id)
        moves = {
            name: (less[name] or 0.0) - (whole[name] or 0.0)
            for name in names
            if None not in (whole[name], less[name])
        }
        largest = max(abs(move) for move in moves.values())
        if not _are_near(abs(finding.value or 0.0), largest, 0.06):
            yield f"{finding.prompt_id} moves {finding.value} in the audit, and {largest}"


def _are_near(one: float | None, other: float | None, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, abs_tol=tolerance, rel_tol=0.0)
