from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.audits.judge_consistency import (
    JudgedPair,
    PositionBias,
    Transitivity,
    distinct_requests,
    measure_circles,
    measure_longer_wins,
    measure_position_bias,
    measure_transitivity,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.judging.requests.verdict_parsing import reconcile_swap
from tournament_assets.ratings.bradley_terry import PromptResamples
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict

A, B, TIE = Verdict.A, Verdict.B, Verdict.TIE
PAIRS = st.lists(st.tuples(st.sampled_from(Verdict), st.sampled_from(Verdict)), max_size=30)


def asked(prompt: str, *verdicts: Verdict, requests: tuple[str, str] | None = None) -> JudgedPair:
    first, second = verdicts
    judgment = Judgment(prompt, "f", "ada", "bob", reconcile_swap(first, second))
    return JudgedPair(judgment, (first, second), requests or (f"{prompt} ab", f"{prompt} ba"))


def measure(pairs: list[tuple[Verdict, Verdict]], *, confidence: float = 0.95) -> PositionBias:
    """Measure pairs that are on a prompt of their own each."""
    return measure_position_bias(
        [asked(f"p{number}", *pair) for number, pair in enumerate(pairs)], confidence=confidence
    )


def judge(
    n_pairs: int, prefers_first: Callable[[np.random.Generator], bool], seed: int = 0
) -> list[tuple[Verdict, Verdict]]:
    """Judge pairs of equal responses by the slot alone, reply by reply."""
    generator = np.random.default_rng(seed)
    return [
        (A if prefers_first(generator) else B, A if prefers_first(generator) else B)
        for _ in range(n_pairs)
    ]


def test_a_judge_that_always_takes_the_first_slot_flips_every_pair_to_it() -> None:
    found = measure([(A, A)] * 40)
    assert (found.first_slot.count, found.first_slot.n) == (80, 80)
    assert (found.flips_to_first.count, found.flips_to_first.n) == (40, 40)
    assert (found.consistent.count, found.consistent.n) == (0, 40)


@pytest.mark.parametrize("bias", [0.2, 0.5, 0.8])
def test_the_rate_and_the_direction_of_flips_are_those_of_the_judge(bias: float) -> None:
    found = measure(judge(4000, lambda generator: generator.random() < bias))
    assert found.first_slot.value == pytest.approx(bias, abs=0.02)
    # Both replies take the first slot with b², the second with (1 - b)².
    direction = bias**2 / (bias**2 + (1 - bias) ** 2)
    assert found.flips_to_first.value == pytest.approx(direction, abs=0.03)
    assert found.consistent.value == pytest.approx(2 * bias * (1 - bias), abs=0.03)


def test_the_interval_holds_the_bias_of_independent_replies_as_often_as_it_says() -> None:
    held = 0
    for seed in range(400):
        rate = measure(judge(50, lambda generator: generator.random() < 0.6, seed))
        assert rate.first_slot.low is not None
        assert rate.first_slot.high is not None
        held += rate.first_slot.low <= 0.6 <= rate.first_slot.high
    assert 0.92 <= held / 400 <= 0.98


def test_a_judge_that_follows_the_responses_has_one_reply_for_each_slot_a_pair() -> None:
    found = measure([(A, B), (B, A), (TIE, TIE)])
    assert found.first_slot.value == 0.5
    assert found.flips_to_first.n == 0
    assert found.flips_to_first.value is None
    assert found.consistent.value == 1.0


def test_a_tie_in_one_order_alone_is_half_a_flip_and_what_is_missing_is_none() -> None:
    found = measure([(A, TIE), (TIE, B), (A, Verdict.REFUSED)])
    assert found.half_flips == 2
    assert (found.consistent.count, found.consistent.n) == (0, 2)
    # The reply beside a missing one stands for one order alone, so it is left out.
    assert (found.first_slot.count, found.first_slot.n) == (1, 2)


@given(PAIRS)
def test_every_readable_pair_is_consistent_flipped_or_half_flipped(
    pairs: list[tuple[Verdict, Verdict]],
) -> None:
    found = measure(pairs)
    readable = sum(first.is_decided and second.is_decided for first, second in pairs)
    assert found.consistent.n == readable
    assert found.consistent.count + found.flips_to_first.n + found.half_flips == readable


@given(PAIRS)
def test_naming_the_slots_the_other_way_round_turns_the_bias_round(
    pairs: list[tuple[Verdict, Verdict]],
) -> None:
    turned = {A: B, B: A}
    found = measure(pairs)
    other = measure(
        [(turned.get(first, first), turned.get(second, second)) for first, second in pairs]
    )
    assert other.first_slot.n == found.first_slot.n
    assert other.first_slot.count == found.first_slot.n - found.first_slot.count
    assert other.flips_to_first.count == found.flips_to_first.n - found.flips_to_first.count
    assert other.consistent == found.consistent


def test_a_confidence_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="confidence"):
        measure([], confidence=1.5)


def test_a_pair_that_was_asked_about_once_counts_once_and_copies_count_nothing() -> None:
    same = ("first", "second")
    copy = JudgedPair(
        Judgment("p2", "f", "ada", "bob", Outcome.SAME_TEXT), (TIE, TIE), ("both", "both")
    )
    pairs = [
        asked("p1", A, A, requests=same),
        asked("p1", A, A, requests=same[::-1]),
        asked("p3", A, B),
        copy,
    ]
    distinct = distinct_requests(pairs)
    assert distinct == [pairs[0], pairs[2]]
    found = measure_position_bias(distinct)
    assert (found.consistent.count, found.consistent.n) == (1, 2)
    assert (found.first_slot.count, found.first_slot.n) == (3, 4)


def test_pairs_on_one_prompt_do_not_make_the_interval_narrower() -> None:
    alone = measure([(A, A), (B, B)] * 10)
    together = measure_position_bias(
        asked(f"p{number}", *pair, requests=(f"{number} {copy} ab", f"{number} {copy} ba"))
        for copy in range(6)
        for number, pair in enumerate([(A, A), (B, B)] * 10)
    )
    assert (alone.flips_to_first.n, together.flips_to_first.n) == (20, 120)
    assert together.flips_to_first.low == pytest.approx(alone.flips_to_first.low)
    assert together.flips_to_first.high == pytest.approx(alone.flips_to_first.high)
    # Everything alike shows no spread: ten pairs on two prompts are no more than two.
    unanimous = measure_position_bias(
        asked(f"p{n % 2}", A, A, requests=(f"{n} ab", f"{n} ba")) for n in range(10)
    )
    assert unanimous.flips_to_first.low is not None
    assert unanimous.flips_to_first.low < 0.05


def test_the_longer_response_wins_are_counted_where_one_is_longer_and_somebody_won() -> None:
    def pair(prompt: str, outcome: Outcome, longer: Outcome) -> JudgedPair:
        return JudgedPair(
            Judgment(prompt, "f", "ada", "bob", outcome), (A, B), (prompt, f"{prompt} ba"), longer
        )

    found = measure_longer_wins(
        [
            pair("p1", Outcome.A_WINS, Outcome.A_WINS),
            pair("p2", Outcome.B_WINS, Outcome.A_WINS),
            pair("p3", Outcome.A_WINS, Outcome.TIE),
            pair("p4", Outcome.TIE, Outcome.A_WINS),
        ]
    )
    assert (found.count, found.n) == (1, 2)


NAMES = ("ada", "bob", "cyd", "dot", "eve")


def wins(prompt_id: str, *pairs: tuple[str, str]) -> list[Judgment]:
    return [Judgment(prompt_id, "f", a, b, Outcome.A_WINS) for a, b in pairs]


def measure_cycles(judgments: list[Judgment], n: int = 4, n_simulations: int = 199) -> Transitivity:
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
    found = measure_cycles(judgments, n=3)
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
    found = measure_cycles(judgments)
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
    found = measure_cycles(judgments, n=3)
    assert found.of_majorities.triples == 0
    assert found.of_majorities.p_value is None


def test_entrants_who_never_met_are_in_no_triple() -> None:
    found = measure_cycles([*wins("p1", ("ada", "bob")), *wins("p2", ("cyd", "dot"))])
    assert found.within_prompts.triples == 0
    assert found.of_majorities.triples == 0


def test_the_same_seed_gives_the_same_and_the_order_of_the_judgments_leaves_no_trace() -> None:
    judgments = [
        Judgment(f"p{prompt}", "f", a, b, Outcome.A_WINS if (prompt + i) % 3 else Outcome.B_WINS)
        for prompt in range(10)
        for i, (a, b) in enumerate(combinations(NAMES[:4], 2))
    ]
    assert measure_cycles(judgments) == measure_cycles(judgments)
    turned = measure_cycles(judgments[::-1])
    assert turned.within_prompts.cycles == measure_cycles(judgments).within_prompts.cycles


def test_simulations_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="n_simulations"):
        measure_cycles([], n_simulations=0)


RESAMPLING = Resampling(199, 3, 0.95)


def circling(share: float, seed: int, *, n_prompts: int = 40, n: int = 4) -> Matches:
    """Draw verdicts of whose log odds, all of one size, a share of the variance runs in circles.

    Args:
        share: Of the variance.
        seed: Of the draws.
    """
    generator = np.random.default_rng([11, seed])
    pairs = np.array(list(combinations(range(n), 2)))
    incidence = np.zeros((len(pairs), n))
    incidence[np.arange(len(pairs)), pairs[:, 0]] = 1
    incidence[np.arange(len(pairs)), pairs[:, 1]] = -1
    scale = incidence @ np.linspace(1.0, -1.0, n)
    loose = np.linspace(1.0, -1.0, len(pairs)) ** 2 - 0.4
    circle = loose - incidence @ np.linalg.lstsq(incidence, loose, rcond=None)[0]
    odds = np.sqrt(1 - share) * scale / np.linalg.norm(scale)
    odds += np.sqrt(share) * circle / np.linalg.norm(circle)
    chance = 1 / (1 + np.exp(-1.5 * odds))
    wins = generator.random((n_prompts, len(pairs))) < chance
    return Matches(
        entrants=NAMES[:n],
        prompts=tuple(f"p{number}" for number in range(n_prompts)),
        first=np.tile(pairs[:, 0], n_prompts),
        second=np.tile(pairs[:, 1], n_prompts),
        prompt_index=np.repeat(np.arange(n_prompts), len(pairs)),
        preference=wins.astype(np.float64).ravel(),
        weight=np.ones(wins.size),
    )


def slow_circles(matches: Matches, resampling: Resampling) -> float:
    """Split the log odds pair by pair and resample by resample, by weighted least squares."""
    wins = matches.wins
    pairs = [(a, b) for a, b in combinations(range(len(wins)), 2) if wins[a, b] + wins[b, a] > 0]
    weights = [1 / (1 / (wins[a, b] + 0.5) + 1 / (wins[b, a] + 0.5)) for a, b in pairs]
    rows = np.zeros((len(pairs), len(wins)))
    for place, (a, b) in enumerate(pairs):
        rows[place, a], rows[place, b] = 1, -1
    roots = np.sqrt(weights)

    def odds(table: np.ndarray) -> np.ndarray:
        return np.array([np.log((table[a, b] + 0.5) / (table[b, a] + 0.5)) for a, b in pairs])

    def parts(odds: np.ndarray) -> tuple[float, float]:
        ratings = np.linalg.lstsq(rows * roots[:, None], odds * roots, rcond=None)[0]
        rest = odds - rows @ ratings
        return float(weights @ rest**2), float(weights @ (rows @ ratings) ** 2)

    drawn = [
        odds(table) for table in PromptResamples(matches, seed=resampling.seed).draw(resampling.n)
    ]
    middle = np.mean(drawn, axis=0)
    noise = np.mean([parts(each - middle) for each in drawn], axis=0)
    circles, scale = np.maximum(np.array(parts(odds(wins))) - noise, 0)
    return float(circles / (circles + scale))


@pytest.mark.parametrize("seed", range(5))
def test_circles_are_what_least_squares_leaves_of_the_log_odds(seed: int) -> None:
    matches = circling(0.1 * (seed + 1), seed, n=4 + seed % 2, n_prompts=80)
    found = measure_circles(matches, RESAMPLING)
    assert found.value == pytest.approx(slow_circles(matches, RESAMPLING), abs=1e-9)
    assert found == measure_circles(matches, RESAMPLING)
    other = measure_circles(matches, replace(RESAMPLING, seed=4))
    assert other != found


def test_no_share_of_the_noise_is_counted_as_circles() -> None:
    for share in (0.0, 0.5, 1.0):
        found = [measure_circles(circling(share, seed), RESAMPLING).value for seed in range(60)]
        known = [each for each in found if each is not None]
        assert np.mean(known) == pytest.approx(share, abs=0.12)


def test_the_interval_of_circles_holds_their_share() -> None:
    for share in (0.3, 0.7):
        found = [measure_circles(circling(share, seed), RESAMPLING) for seed in range(60)]
        held = [(each.low or 0.0) <= share <= (each.high or 0.0) for each in found]
        assert np.mean(held) > 0.87


def test_circles_take_three_that_met_and_more_than_noise() -> None:
    assert measure_circles(circling(0.0, 0, n=2), RESAMPLING).value is None
    level = coins(0, n=3, n_prompts=4)
    even = replace(level, preference=np.full(level.n_matches, 0.5))
    assert measure_circles(even, RESAMPLING).value is None
