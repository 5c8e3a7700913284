"""Ratings that people would give: published values, a slow reference, and simulated labels."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from tournament_assets.ratings.bradley_terry import ELO_PER_NAT
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.ratings.prediction_powered import (
    LabelledPair,
    PoweredFit,
    rate_prediction_powered,
)
from tournament_assets.ratings.sandwich import SamplingUnit, sandwich_bradley_terry
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.verdicts import Judgment, Outcome

NAMES = ("ada", "bob", "cyd", "dee")
TRUTH = np.array([120.0, 40.0, -30.0, -130.0]) / ELO_PER_NAT
ARENA = Path(__file__).parents[3] / "shared" / "data" / "arena_judged" / "battles.parquet"


def simulate(
    generator: np.random.Generator,
    *,
    prompts: int,
    labelled: float,
    judge: float,
    pairs_per_prompt: int = 3,
) -> list[LabelledPair]:
    """People decide by Bradley-Terry with prompt effects; the judge repeats them or flips a coin.

    Args:
        generator: Draws everything.
        prompts: How many.
        labelled: The chance of a pair to be labelled.
        judge: The chance that the judge repeats what people say.
        pairs_per_prompt: Pairs that were judged on each.
    """
    n = prompts * pairs_per_prompt
    prompt = np.repeat(np.arange(prompts), pairs_per_prompt)
    strengths = TRUTH + 0.5 * generator.standard_normal((prompts, 4))
    first = generator.integers(4, size=n)
    second = (first + generator.integers(1, 4, size=n)) % 4
    share = 1 / (1 + np.exp(strengths[prompt, second] - strengths[prompt, first]))
    people = np.where(generator.random(n) < 0.2, 0.5, generator.random(n) < share)
    noise = generator.integers(3, size=n) / 2
    verdict = np.where(generator.random(n) < judge, people, noise)
    is_labelled = generator.random(n) < labelled
    return [
        LabelledPair(f"p{prompt[i]}", NAMES[first[i]], NAMES[second[i]], verdict[i], label)
        for i, label in enumerate(
            share if given else None for share, given in zip(people, is_labelled, strict=True)
        )
    ]


def rate(pairs: list[LabelledPair], weight: float | None = None) -> PoweredFit:
    return rate_prediction_powered(
        pairs, entrants=NAMES, confidence=0.95, weight=weight, initial_rating=0.0
    )


def values(fit: PoweredFit, name: str) -> np.ndarray:
    return np.array([getattr(each, name) for each in fit.ratings], dtype=np.float64)


@pytest.mark.skipif(not ARENA.is_file(), reason="the arena's verdicts are not here")
def test_the_ratings_of_an_arena_are_those_that_were_published() -> None:
    import pyarrow.parquet as pq

    rows = pq.read_table(ARENA).to_pylist()
    share = {"model_a": 1.0, "model_b": 0.0}
    pairs = [
        LabelledPair(
            str(number),
            row["model_a"],
            row["model_b"],
            share.get(row["winner_gpt4"], 0.5),
            share.get(row["winner_human"], 0.5) if number % 27 == 0 else None,
        )
        for number, row in enumerate(rows)
    ]
    entrants = sorted({name for row in rows for name in (row["model_a"], row["model_b"])})

    def found(weight: float | None = None) -> PoweredFit:
        return rate_prediction_powered(
            pairs, entrants=entrants, confidence=0.95, weight=weight, initial_rating=0.0
        )

    powered = found()
    assert (powered.n_labelled, powered.n_unlabelled) == (997, 25_922)
    assert powered.weight == pytest.approx(0.365917, abs=5e-7)
    expected = {
        "gpt-4": (205.1267, 29.2904),
        "claude-v1": (280.8436, 32.1854),
        "llama-13b": (-256.2687, 44.2532),
    }
    by_name = {each.entrant: each for each in powered.ratings}
    for name, (rating, error) in expected.items():
        assert by_name[name].rating == pytest.approx(rating, abs=5e-5)
        assert by_name[name].standard_error == pytest.approx(error, abs=5e-5)
    for weight, (rating, error) in {0.0: (221.2458, 31.4636), 1.0: (177.5795, 32.1506)}.items():
        (gpt,) = [each for each in found(weight).ratings if each.entrant == "gpt-4"]
        assert gpt.rating == pytest.approx(rating, abs=5e-5)
        assert gpt.standard_error == pytest.approx(error, abs=5e-5)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_ratings_minimise_the_loss_as_it_is_written(weight: float) -> None:
    pairs = simulate(np.random.default_rng(1), prompts=150, labelled=0.3, judge=0.7)
    labelled = [pair for pair in pairs if pair.labelled is not None]
    rest = [pair for pair in pairs if pair.labelled is None]

    def loss(strengths: np.ndarray) -> float:
        def one(pair: LabelledPair, share: float) -> float:
            gap = strengths[NAMES.index(pair.first)] - strengths[NAMES.index(pair.second)]
            return float(np.logaddexp(0, gap) - share * gap)

        judged = sum(one(pair, pair.judged) for pair in rest) / len(rest)
        shares = [(pair, pair.labelled or 0.0) for pair in labelled]
        people = [one(pair, share) - weight * one(pair, pair.judged) for pair, share in shares]
        return weight * judged + sum(people) / len(people)

    slow = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-9}).x
    expected = (slow - slow.mean()) * ELO_PER_NAT
    assert values(rate(pairs, weight), "rating") == pytest.approx(expected, abs=1e-2)


def test_without_a_judge_they_are_bradley_terry_ratings_of_the_labels() -> None:
    pairs = simulate(np.random.default_rng(2), prompts=200, labelled=1.0, judge=0.5)
    outcomes = {1.0: Outcome.A_WINS, 0.0: Outcome.B_WINS, 0.5: Outcome.TIE}
    labels = [
        Judgment(each.prompt_id, "facts", each.first, each.second, outcomes[each.labelled or 0.0])
        for each in pairs
    ]
    people = sandwich_bradley_terry(
        code_judgments(labels, entrants=NAMES),
        unit=SamplingUnit.PROMPT,
        confidence=0.95,
        initial_rating=0.0,
    )
    found = rate(pairs, 0.0)
    expected = [each.rating for each in people.intervals]
    assert values(found, "rating") == pytest.approx(expected, abs=1e-6)
    errors = [each.standard_error for each in people.intervals]
    assert values(found, "standard_error") == pytest.approx(errors, rel=1e-6)


def test_a_judge_of_noise_counts_for_little_and_one_that_is_right_for_all() -> None:
    generator = np.random.default_rng(3)
    noise = simulate(generator, prompts=900, labelled=0.3, judge=0.0)
    assert rate(noise).weight < 0.15
    right = simulate(generator, prompts=900, labelled=0.3, judge=1.0)
    found = rate(right)
    n_pairs = found.n_labelled + found.n_unlabelled
    assert found.weight == pytest.approx(found.n_unlabelled / n_pairs, abs=0.02)
    people = [
        LabelledPair(each.prompt_id, each.first, each.second, each.judged, each.judged)
        for each in right
    ]
    everything = values(rate(people, 0.0), "standard_error")
    assert values(found, "standard_error") == pytest.approx(everything, rel=0.15)
    assert (values(rate(right, 0.0), "standard_error") > 1.5 * everything).all()


def test_intervals_hold_what_all_labels_would_give_with_whole_prompts_drawn() -> None:
    generator = np.random.default_rng(4)
    truth = simulate(generator, prompts=40_000, labelled=1.0, judge=0.6)
    aim = values(rate(truth, 0.0), "rating")
    held = narrower = 0
    for _ in range(150):
        pairs = simulate(generator, prompts=250, labelled=0.4, judge=0.6)
        found, alone = rate(pairs), rate(pairs, 0.0)
        held += int(((values(found, "low") <= aim) & (aim <= values(found, "high"))).sum())
        errors = values(found, "standard_error"), values(alone, "standard_error")
        narrower += int(errors[0].sum() < errors[1].sum())
    assert 0.92 <= held / 600 <= 0.98
    assert narrower >= 140


def test_labels_drawn_with_unequal_chances_aim_at_the_same_ratings() -> None:
    generator = np.random.default_rng(5)
    pairs = simulate(generator, prompts=8_000, labelled=1.0, judge=0.6)
    aim = values(rate(pairs, 0.0), "rating")
    # Labelled where the judge saw no tie and the first won, above all: a biased draw.
    drawn = [
        LabelledPair(p.prompt_id, p.first, p.second, p.judged, p.labelled, chance)
        if generator.random() < (chance := 0.9 if p.judged == 1 else 0.15)
        else LabelledPair(p.prompt_id, p.first, p.second, p.judged, None, chance)
        for p in pairs
    ]
    found = rate(drawn)
    assert np.abs(values(found, "rating") - aim).max() < 12
    blind = [LabelledPair(p.prompt_id, p.first, p.second, p.judged, p.labelled) for p in drawn]
    # Nobody's slot is special here, so the bias must be seen in an entrant that is often first.
    shares = [each.labelled for each in blind if each.labelled is not None]
    assert np.mean(shares) > 0.6


def test_who_is_not_connected_has_no_number_and_a_reason() -> None:
    pairs = simulate(np.random.default_rng(6), prompts=120, labelled=0.5, judge=0.7)
    undefeated = [
        LabelledPair(
            each.prompt_id,
            each.first,
            each.second,
            each.judged,
            each.labelled
            if each.labelled is None or "ada" not in (each.first, each.second)
            else float(each.first == "ada"),
        )
        for each in pairs
    ]
    ada, *others = rate(undefeated).ratings
    assert (ada.rating, ada.low, ada.n_prompts) == (None, None, 0)
    assert "no chain of labelled wins and losses" in str(ada.note)
    assert all(each.rating is not None for each in others)


def test_few_labelled_prompts_give_a_rating_without_an_interval() -> None:
    pairs = simulate(np.random.default_rng(7), prompts=12, labelled=1.0, judge=0.7)
    for each in rate(pairs).ratings:
        assert each.rating is not None
        assert each.low is None
        assert "an interval needs 15" in str(each.note)


def test_what_is_out_of_range_is_refused_all_at_once() -> None:
    pairs = [
        LabelledPair("p1", "ada", "eve", 1.5, 0.5, 0.0),
        LabelledPair("p1", "ada", "ada", 1, 2),
    ]
    with pytest.raises(InputError) as error:
        rate(pairs, weight=2.0)
    assert len(error.value.problems) == 6
    with pytest.raises(InputError, match="none of 1 pairs is labelled"):
        rate([LabelledPair("p1", "ada", "bob", 1.0, None)])
