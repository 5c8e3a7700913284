"""Judgments for tests, and the pure-Python Elo that the kernels must match."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tournament_assets.ratings.matches import Matches
from tournament_assets.tournament.verdicts import Judgment, Outcome

ENTRANTS = ("ada", "bob", "cyd", "dee")
# https://en.wikipedia.org/wiki/Bradley-Terry_model#Worked_example_of_solution_procedure
PUBLISHED_WINS = {
    ("ada", "bob"): 2,
    ("ada", "dee"): 1,
    ("bob", "ada"): 3,
    ("bob", "cyd"): 5,
    ("cyd", "bob"): 3,
    ("cyd", "dee"): 1,
    ("dee", "ada"): 4,
    ("dee", "cyd"): 3,
}
PUBLISHED_STRENGTHS = (0.640, 1.043, 0.660, 2.270)


def settled(a: str, b: str, outcome: Outcome, prompt_id: str = "p0") -> Judgment:
    return Judgment(prompt_id, "factuality", a, b, outcome)


def win(winner: str, loser: str, prompt_id: str = "p0") -> Judgment:
    return settled(winner, loser, Outcome.A_WINS, prompt_id)


def tie(a: str, b: str, prompt_id: str = "p0") -> Judgment:
    return settled(a, b, Outcome.TIE, prompt_id)


def wins(table: dict[tuple[str, str], int]) -> list[Judgment]:
    """Build wins from how often the first beat the second, each on a prompt of its own."""
    pairs = [pair for pair, count in table.items() for _ in range(count)]
    return [win(*pair, f"p{index}") for index, pair in enumerate(pairs)]


def any_judgments(max_size: int = 40) -> st.SearchStrategy[list[Judgment]]:
    pairs = st.permutations(ENTRANTS).map(lambda names: (names[0], names[1]))
    judgment = st.builds(
        lambda pair, outcome, prompt: settled(pair[0], pair[1], outcome, f"p{prompt}"),
        pairs,
        st.sampled_from(Outcome),
        st.integers(0, 5),
    )
    return st.lists(judgment, max_size=max_size)


def simulate_judgments(
    strengths: Sequence[float], *, n_prompts: int, seed: int, tied_share: float = 0.25
) -> list[Judgment]:
    """Judge every pair on every prompt; `strengths` are logits, in the order of ENTRANTS."""
    generator = np.random.default_rng(seed)
    judgments = []
    for prompt in range(n_prompts):
        skills = np.array(strengths) + generator.normal(size=len(strengths))
        for i in range(len(strengths)):
            for j in range(i):
                a, b = ENTRANTS[i], ENTRANTS[j]
                a_wins = generator.random() < 1 / (1 + np.exp(skills[j] - skills[i]))
                if generator.random() < tied_share:
                    judgments.append(tie(a, b, f"p{prompt}"))
                else:
                    judgments.append(win(*((a, b) if a_wins else (b, a)), f"p{prompt}"))
    return judgments


def matches_at(matches: Matches, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Matches:
    """Take some of the matches; entrants, prompts and judges stay."""
    columns = ("first", "second", "prompt_index", "preference", "weight", "judge_index")
    taken = {name: getattr(matches, name) for name in columns}
    return replace(matches, **{name: column[rows] for name, column in taken.items() if column.size})


def battles_apart(matches: Matches) -> Matches:
    """Put every battle on a prompt of its own."""
    rows = range(matches.n_matches)
    return replace(matches, prompts=tuple(map(str, rows)), prompt_index=np.array(rows, dtype=int))


def code_columns(
    first: Sequence[str],
    second: Sequence[str],
    prompt_ids: Sequence[str],
    preference: Sequence[float],
    *,
    entrants: Sequence[str],
    weight: Sequence[float] | None = None,
) -> Matches:
    """Turn columns of names into matches, in the same order."""
    prompts = tuple(sorted(set(prompt_ids)))
    place_of = {name: place for place, name in enumerate(prompts)}
    return Matches(
        entrants=tuple(entrants),
        prompts=prompts,
        first=np.array([entrants.index(name) for name in first], dtype=np.int64),
        second=np.array([entrants.index(name) for name in second], dtype=np.int64),
        prompt_index=np.array([place_of[name] for name in prompt_ids], dtype=np.int64),
        preference=np.array(preference, dtype=np.float64),
        weight=np.ones(len(first)) if weight is None else np.array(weight, dtype=np.float64),
    )


def outright(
    winners: Sequence[int] | NDArray[np.int64],
    losers: Sequence[int] | NDArray[np.int64],
    prompt_index: Sequence[int] | NDArray[np.int64],
    *,
    entrants: tuple[str, ...],
    prompts: tuple[str, ...],
) -> Matches:
    """Return matches that somebody won."""
    n = len(winners)
    return Matches(
        entrants=entrants,
        prompts=prompts,
        first=np.array(winners, dtype=np.int64),
        second=np.array(losers, dtype=np.int64),
        prompt_index=np.array(prompt_index, dtype=np.int64),
        preference=np.ones(n),
        weight=np.ones(n),
    )


def elo_of_order(
    pairs: Sequence[tuple[int, int]], *, n_entrants: int, k_factor: float, initial_rating: float
) -> list[float]:
    """Textbook Elo over (winner, loser) pairs in the order given."""
    ratings = [initial_rating] * n_entrants
    for winner, loser in pairs:
        expected = 1 / (1 + 10 ** ((ratings[loser] - ratings[winner]) / 400))
        change = k_factor * (1 - expected)
        ratings[winner] += change
        ratings[loser] -= change
    return ratings
