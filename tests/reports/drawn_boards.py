"""Tournaments drawn at random, and the leaderboards that they make."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tests.reports.claims_reference import Facts
from tournament_assets.audits.first_place import FirstPlaceSupport
from tournament_assets.ratings.matches import code_judgments, code_samples, pairwise_winrates
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import BRADLEY_TERRY, WIN_SHARE, rating_rows
from tournament_assets.ratings.rating_tables import claimed, elo_rows, trace_elo
from tournament_assets.reports.leaderboard import build_leaderboard
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import EloRow, RatingRow, WinRateRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.verdicts import Judgment, Outcome

Draws = np.random.Generator
DIMENSION = "tone"


@dataclass
class Shape:
    """How a tournament is drawn; each kind below changes some of it.

    Attributes:
        strengths: Of the entrants, in Elo points.
        n_prompts: How many prompts there are.
        n_samples: How many answers to each.
        kept: The share of the pairs that are judged at all.
        ties: The share of the pairs that end without a winner.
        is_soft: Whether verdicts are shares of a win.
        copies: Entrants that write what the one with the number before theirs writes.
        copied: On which share of the prompts they do.
        lost: The share of the pairs that the judge is asked about in vain.
        islands: Entrants meet only those of their own number.
        decided: Who was decided to be above whom; None where all pairs were judged.
    """

    strengths: np.ndarray
    n_prompts: int
    n_samples: int = 1
    kept: float = 1.0
    ties: float = 0.15
    is_soft: bool = False
    copies: frozenset[int] = frozenset()
    copied: float = 1.0
    lost: float = 0.03
    islands: np.ndarray | None = None
    decided: frozenset[tuple[str, str]] | None = None


def _n_entrants(draws: Draws) -> int:
    return int(draws.choice([2, 3, 4, 5, 6, 8, 12], p=[0.15, 0.25, 0.2, 0.16, 0.12, 0.08, 0.04]))


def _plain(draws: Draws) -> Shape:
    spread = float(draws.choice([0.0, 20.0, 100.0, 300.0]))
    return Shape(
        draws.normal(0.0, spread, _n_entrants(draws)),
        int(draws.choice([1, 2, 5, 12, 40])),
        ties=float(draws.choice([0.0, 0.15, 0.6, 1.0], p=[0.3, 0.4, 0.25, 0.05])),
    )


def _sparse(draws: Draws) -> Shape:
    shape = _plain(draws)
    shape.kept = float(draws.choice([0.02, 0.1, 0.3, 0.7]))
    return shape


def _soft(draws: Draws) -> Shape:
    shape = _plain(draws)
    shape.is_soft = True
    return shape


def _samples(draws: Draws) -> Shape:
    shape = _sparse(draws) if draws.random() < 0.5 else _plain(draws)
    shape.n_samples, shape.n_prompts = 2, min(shape.n_prompts, 12)
    return shape


def _with_copies(draws: Draws) -> Shape:
    shape = _sparse(draws) if draws.random() < 0.3 else _plain(draws)
    is_copy = draws.random(shape.strengths.size) < 0.6
    shape.copies = frozenset(each for each in np.flatnonzero(is_copy).tolist() if each)
    shape.copied = float(draws.choice([1.0, 0.4], p=[0.7, 0.3]))
    shape.lost = float(draws.choice([0.03, 1.0], p=[0.8, 0.2]))
    return shape


def _undefeated(draws: Draws) -> Shape:
    shape = _plain(draws)
    extremes = draws.choice([0.0, 5_000.0, -5_000.0], shape.strengths.size, p=[0.5, 0.3, 0.2])
    shape.strengths = shape.strengths + extremes
    shape.ties = 0.0 if draws.random() < 0.7 else 0.3
    return shape


def _apart(draws: Draws) -> Shape:
    shape = _plain(draws)
    shape.islands = draws.integers(0, 3, shape.strengths.size)
    return shape


def _stopped(draws: Draws) -> Shape:
    """Draw decisions at random: they may go in circles, and against the ratings."""
    shape = _sparse(draws)
    names = _names(shape)
    share = float(draws.choice([0.1, 0.4, 0.9]))
    order = draws.permutation(len(names))
    found = set()
    for one, other in combinations(order.tolist(), 2):
        if draws.random() < share:
            turned = draws.random() < 0.15
            found.add((names[other], names[one]) if turned else (names[one], names[other]))
    shape.decided = frozenset(found)
    return shape


def _level(draws: Draws) -> Shape:
    """Draw so many ties that some are equivalent."""
    return Shape(draws.normal(0.0, 3.0, int(draws.integers(2, 5))), 400, ties=0.93)


def _many(draws: Draws) -> Shape:
    n_entrants = int(draws.integers(13, 41))
    return Shape(draws.normal(0.0, 150.0, n_entrants), int(draws.choice([2, 6])), kept=0.5)


KINDS: dict[str, tuple[Callable[[Draws], Shape], float]] = {
    "plain": (_plain, 0.2),
    "sparse": (_sparse, 0.15),
    "soft": (_soft, 0.08),
    "samples": (_samples, 0.08),
    "copies": (_with_copies, 0.13),
    "undefeated": (_undefeated, 0.12),
    "apart": (_apart, 0.08),
    "stopped": (_stopped, 0.13),
    "level": (_level, 0.02),
    "many": (_many, 0.01),
}
"""Every kind of tournament, and how often it is drawn."""


def _names(shape: Shape) -> list[str]:
    return [f"e{index:02d}" for index in range(shape.strengths.size)]


def _judgments(shape: Shape, draws: Draws) -> list[Judgment]:
    names = _names(shape)
    text = list(range(len(names)))
    for each in sorted(shape.copies):
        text[each] = text[each - 1]
    found = []
    for one, other in combinations(range(len(names)), 2):
        if shape.islands is not None and shape.islands[one] != shape.islands[other]:
            continue
        gap = shape.strengths[text[one]] - shape.strengths[text[other]]
        chance = 1 / (1 + 10 ** (-gap / 400))
        for prompt in range(shape.n_prompts):
            for sample in range(shape.n_samples):
                if draws.random() > shape.kept:
                    continue
                outcome, share = _outcome(shape, draws, chance)
                if text[one] == text[other] and prompt < shape.copied * shape.n_prompts:
                    outcome, share = Outcome.SAME_TEXT, None
                found.append(
                    Judgment(
                        prompt_id=f"p{prompt}",
                        dimension=DIMENSION,
                        entrant_a=names[one],
                        entrant_b=names[other],
                        outcome=outcome,
                        share=share,
                        sample=sample + 1,
                    )
                )
    return found


def _outcome(shape: Shape, draws: Draws, chance: float) -> tuple[Outcome, float | None]:
    luck = draws.random()
    if luck < shape.lost:
        return Outcome.UNJUDGED, None
    if luck < shape.lost + (1 - shape.lost) * shape.ties:
        return (Outcome.TIE if draws.random() < 0.6 else Outcome.INCONSISTENT), None
    is_win = draws.random() < chance
    share = None
    if shape.is_soft:
        share = 0.5 + (0.5 if is_win else -0.5) * float(draws.choice([0.2, 0.5, 1.0]))
    return (Outcome.A_WINS if is_win else Outcome.B_WINS), share


@dataclass(frozen=True)
class Board:
    """A drawn tournament's tables."""

    kind: str
    facts: Facts


def draw_board(seed: int) -> Board:
    """Draw a tournament and build its tables as a run does; the same seed gives the same one."""
    draws = np.random.default_rng(seed)
    kinds, shares = [*KINDS], [share for _, share in KINDS.values()]
    kind = kinds[int(draws.choice(len(kinds), p=shares))]
    shape = KINDS[kind][0](draws)
    return Board(kind, board_of(_judgments(shape, draws), _names(shape), shape, draws))


def board_of(judgments: list[Judgment], names: list[str], shape: Shape, draws: Draws) -> Facts:
    """Build the tables of some judgments."""
    settings = RatingSettings(n_permutations=2, n_bootstraps=60, k_sweep=(16.0,))
    matches = code_judgments(judgments, entrants=names)
    evidence = Evidence(
        matches=matches,
        settings=settings,
        samples=code_samples(judgments, entrants=names),
        tells_apart=True,
        decided=shape.decided,
    )
    ratings = rating_rows(evidence, [BRADLEY_TERRY, WIN_SHARE], dimension=DIMENSION)
    win_rates = claimed(pairwise_winrates(judgments), evidence.standings)
    elo = elo_rows(
        matches.repeated(),
        trace_elo(matches.repeated(), settings),
        dimension=DIMENSION,
        settings=settings,
    )
    prompts = tuple(f"p{index}" for index in range(int(draws.integers(0, 6))))
    at_least = int(draws.integers(1, len(prompts) + 1)) if prompts else 0
    rows = build_leaderboard(
        elo_ratings=make_table(EloRow, elo),
        ratings=make_table(RatingRow, ratings),
        win_rates=make_table(WinRateRow, win_rates),
        judge_model="judge-1",
        judge_label="judge",
        stops=None if shape.decided is None else "all",
        support=FirstPlaceSupport(prompts, at_least),
    )
    return Facts(rows, win_rates, DIMENSION)
