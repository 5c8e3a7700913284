"""Battles to time the rating engines on: random pairs of entrants of random strength."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.matches import Matches

WINNERS = ("model_a", "model_b", "tie")


@dataclass(frozen=True, slots=True, eq=False)
class NamedBattles:
    """Battles as a file holds them: every cell a string of its own.

    Attributes:
        model_a: The first model of each battle.
        model_b: The second.
        winner: `model_a`, `model_b` or `tie`; a quarter are ties.
        question_id: The prompt of each battle.
    """

    model_a: list[str]
    model_b: list[str]
    winner: list[str]
    question_id: list[str]


def draw_matches(*, n_entrants: int, n_matches: int) -> Matches:
    """Draw decisive matches, each on a prompt of its own."""
    a, b, a_wins, _ = _draw(n_entrants, n_matches)
    return Matches(
        entrants=tuple(f"entrant_{index}" for index in range(n_entrants)),
        prompts=tuple(f"prompt_{index}" for index in range(n_matches)),
        first=np.where(a_wins, a, b),
        second=np.where(a_wins, b, a),
        prompt_index=np.arange(n_matches),
        preference=np.ones(n_matches),
        weight=np.ones(n_matches),
    )


def draw_battles(*, n_entrants: int, n_battles: int, n_prompts: int) -> NamedBattles:
    """Draw battles with ties, evenly spread over the prompts."""
    a, b, a_wins, is_tie = _draw(n_entrants, n_battles)
    winner = np.where(is_tie, 2, np.where(a_wins, 0, 1))
    return NamedBattles(
        model_a=[f"organisation/model-{code:03}-instruct" for code in a.tolist()],
        model_b=[f"organisation/model-{code:03}-instruct" for code in b.tolist()],
        winner=[WINNERS[code] for code in winner.tolist()],
        question_id=[f"question-{index % n_prompts:07}" for index in range(n_battles)],
    )


def _draw(
    n_entrants: int, n_battles: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    generator = np.random.default_rng(0)
    strengths = generator.normal(size=n_entrants)
    a = generator.integers(n_entrants, size=n_battles)
    b = (a + generator.integers(1, n_entrants, size=n_battles)) % n_entrants
    a_wins = generator.random(n_battles) < 1 / (1 + np.exp(strengths[b] - strengths[a]))
    return a, b, a_wins, generator.random(n_battles) < 0.25


def code_names(
    *columns: Sequence[str],
) -> tuple[tuple[str, ...], tuple[NDArray[np.int64], ...]]:
    """Replace names by their places in one sorted list of them.

    Args:
        columns: Names, in any number of columns of any lengths.

    Returns:
        The names, sorted, and the codes of each column.
    """
    place_of = _Places()
    coded = [
        np.fromiter(map(place_of.__getitem__, column), dtype=np.int64, count=len(column))
        for column in columns
    ]
    names = sorted(place_of)
    rank = np.empty(len(names), dtype=np.int64)
    rank[[place_of[name] for name in names]] = np.arange(len(names))
    return tuple(names), tuple(rank[codes] for codes in coded)


class _Places(dict[str, int]):
    """Numbers every name when it is first asked for: one look-up a name, and no second pass."""

    def __missing__(self, name: str) -> int:
        self[name] = place = len(self)
        return place
