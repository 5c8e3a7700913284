from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tournament_assets.audits.judge_consistency import Transitivity, measure_transitivity
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.verdicts import Judgment, Outcome

NAMES = ("ada", "bob", "cyd", "dot", "eve")


def wins(prompt_id: str, *pairs: tuple[str, str]) -> list[Judgment]:
    return [Judgment(prompt_id, "f", a, b, Outcome.A_WINS) for a, b in pairs]


def measure(judgments: list[Judgment], n: int = 4, n_simulations: int = 199) -> Transitivity:
    return measure_transitivity(
        code_judgments(judgments, entrants=NAMES[:n]), n_simulations=n_simulations, seed=3
    )


def coins(seed: int, *, n: int = 4, n_prompts: int = 15) -> Matches:
    generator = np.random.default_rng([7, seed])
    judgments = [
        Judgment(
            f"p{prompt}",
            "f",
            a,
            b,
            Outcome.A_WINS if generator.random() < 0.5 else Outcome.B_WINS,
        )
        for prompt in range(n_prompts)
        for a, b in combinations(NAMES[:n], 2)
    ]
    return code_judgments(judgments, entrants=NAMES[:n])


def slow_cycles(matches: Matches) -> tuple[int, int]:
    """Count triples and cycles on every prompt, one after another."""
    matches = matches.decisive()
    beats = set(
        zip(
            matches.prompt_index.tolist(),
            matches.first.tolist(),
            matches.second.tolist(),
            strict=True,
        )
    )
    triples = cycles = 0
    for prompt in range(len(matches.prompts)):
        for three in combinations(range(len(matches.entrants)), 3):
            decided = sum((prompt, a, b) in beats for a, b in permutations(three, 2))
            triples += decided == 3
            cycles += any(
                {(prompt, a, b), (prompt, b, c), (prompt, c, a)} <= beats
                for a, b, c in permutations(three)
            )
    return triples, cycles


def test_a_planted_cycle_is_found_and_named() -> None:
    judgments = [
        each
        for prompt in range(12)
        for each in wins(f"p{prompt}", ("ada", "bob"), ("bob", "cyd"), ("cyd", "ada"))
    ]
    found = measure(judgments, n=3)
    assert (found.within_prompts.triples, found.within_prompts.cycles) == (12, 12)
    # Equals make a cycle of a quarter of the triples, and 12 of 12 never.
    assert found.within_prompts.expected == pytest.approx(3, abs=0.5)
    assert found.within_prompts.p_value == pytest.approx(1 / 200)
    assert found.majority_cycles == (("ada", "bob", "cyd"),)
    assert (found.of_majorities.triples, found.of_majorities.cycles) == (1, 1)


def test_a_judge_with_one_scale_makes_no_cycle() -> None:
    judgments = [
        each for prompt in range(12) for each in wins(f"p{prompt}", *combinations(NAMES[:4], 2))
    ]
    found = measure(judgments)
    assert (found.within_prompts.triples, found.within_prompts.cycles) == (48, 0)
    assert found.within_prompts.p_value == 1.0
    assert found.majority_cycles == ()


def test_coins_are_beyond_chance_no_more_often_than_the_level_says() -> None:
    n_judges, level = 300, 0.1
    p_values = [
        measure_transitivity(coins(seed), n_simulations=99, seed=seed).within_prompts.p_value
        for seed in range(n_judges)
    ]
    beyond = sum(value is not None and value <= level for value in p_values) / n_judges
    # Three standard errors of a share of 0.1 among 300; counts are whole, so fewer is right too.
    assert 0.04 <= beyond <= level + 3 * (level * (1 - level) / n_judges) ** 0.5


def test_equals_make_a_cycle_of_a_quarter_of_the_triples() -> None:
    found = measure_transitivity(coins(1, n=5, n_prompts=400), n_simulations=20)
    assert found.within_prompts.triples == 4000
    assert found.within_prompts.cycles / 4000 == pytest.approx(0.25, abs=0.03)
    assert found.within_prompts.expected / 4000 == pytest.approx(0.25, abs=0.01)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(list(combinations(range(5), 2))),
            st.sampled_from(Outcome),
        ),
        unique_by=lambda row: row[:2],
    )
)
def test_triples_and_cycles_are_those_counted_one_by_one(
    rows: list[tuple[int, tuple[int, int], Outcome]],
) -> None:
    judgments = [
        Judgment(f"p{prompt}", "f", NAMES[a], NAMES[b], outcome) for prompt, (a, b), outcome in rows
    ]
    matches = code_judgments(judgments, entrants=NAMES)
    found = measure_transitivity(matches, n_simulations=5).within_prompts
    assert (found.triples, found.cycles) == slow_cycles(matches)
    assert (found.p_value is None) == (found.triples == 0)


def test_majorities_of_equally_many_wins_decide_nothing() -> None:
    judgments = [
        *wins("p1", ("ada", "bob"), ("bob", "cyd"), ("cyd", "ada")),
        *wins("p2", ("bob", "ada"), ("bob", "cyd"), ("cyd", "ada")),
    ]
    found = measure(judgments, n=3)
    assert found.of_majorities.triples == 0
    assert found.of_majorities.p_value is None


def test_entrants_who_never_met_are_in_no_triple() -> None:
    found = measure([*wins("p1", ("ada", "bob")), *wins("p2", ("cyd", "dot"))])
    assert found.within_prompts.triples == 0
    assert found.of_majorities.triples == 0


def test_the_same_seed_gives_the_same_and_the_order_of_the_judgments_leaves_no_trace() -> None:
    judgments = [
        Judgment(f"p{prompt}", "f", a, b, Outcome.A_WINS if (prompt + i) % 3 else Outcome.B_WINS)
        for prompt in range(10)
        for i, (a, b) in enumerate(combinations(NAMES[:4], 2))
    ]
    assert measure(judgments) == measure(judgments)
    turned = measure(judgments[::-1])
    assert turned.within_prompts.cycles == measure(judgments).within_prompts.cycles


def test_simulations_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="n_simulations"):
        measure([], n_simulations=0)
