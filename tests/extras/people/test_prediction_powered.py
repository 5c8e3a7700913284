"""Ratings that people would give: published values, a slow reference, and simulated labels."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from benchmarks.simulated_raters import RaterDesign, rater_coverage
from tournament_assets.extras.people.config_keys import Opinion
from tournament_assets.extras.people.labelled_pairs import LabelledPair
from tournament_assets.extras.people.prediction_powered import (
    PoweredFit,
    draw_by_worth,
    label_worth,
    powered_rows,
    rate_on_every_basis,
    rate_prediction_powered,
    separate_powered,
)
from tournament_assets.foundation.errors import InputError, RatingError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.ratings.sandwich import sandwich_bradley_terry
from tournament_assets.tournament.battles import RatingSettings
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


def rate(
    pairs: list[LabelledPair], weight: float | None = None, about: Opinion = "these_raters"
) -> PoweredFit:
    return rate_prediction_powered(
        pairs, entrants=NAMES, confidence=0.95, weight=weight, about=about, initial_rating=0.0
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
    assert powered.weight == pytest.approx(0.365917, abs=5e-7)
    expected = {
        "gpt-4": (205.1267, 29.2904),
        "claude-v1": (280.8436, 32.1854),
        "llama-13b": (-256.2687, 44.2532),
    }
    by_name = {each.entrant: each for each in powered.ratings}
    for name, (rating, error) in expected.items():
        assert by_name[name].value == pytest.approx(rating, abs=5e-5)
        assert by_name[name].standard_error == pytest.approx(error, abs=5e-5)
    for weight, (rating, error) in {0.0: (221.2458, 31.4636), 1.0: (177.5795, 32.1506)}.items():
        (gpt,) = [each for each in found(weight).ratings if each.entrant == "gpt-4"]
        assert gpt.value == pytest.approx(rating, abs=5e-5)
        assert gpt.standard_error == pytest.approx(error, abs=5e-5)


def decided_pairs() -> list[LabelledPair]:
    """600 pairs that everybody decides, by formulas; every fifth is labelled."""
    pairs = []
    for number in range(600):
        first = number % 4
        second = (first + 1 + (number // 4) % 3) % 4
        label = float(
            (3 * number**2 + 7 * number + first) % 11 / 11 < 0.62 + 0.12 * (second - first)
        )
        is_right = (5 * number**2 + number + 3 * second) % 13 / 13 < 0.75
        pairs.append(
            LabelledPair(
                f"p{number}",
                NAMES[first],
                NAMES[second],
                label if is_right else 1 - label,
                label if number % 5 == 0 else None,
            )
        )
    return pairs


# What `ppi_logistic_pointestimate` of ppi_py 0.2.3 prints for these pairs, centred, in Elo points.
PPI_PY = {
    0.3: (90.68889093, 49.29558312, -48.11471105, -91.86976299),
    0.7: (115.29864089, 42.08924623, -65.04349375, -92.34439337),
}


@pytest.mark.parametrize("weight", PPI_PY)
def test_the_ratings_are_those_of_ppi_py(weight: float) -> None:
    found = values(rate(decided_pairs(), weight), "value")
    assert found == pytest.approx(PPI_PY[weight], abs=1e-4)


@pytest.mark.parametrize("weight", PPI_PY)
def test_ppi_py_says_so_where_it_is_installed(weight: float) -> None:
    ppi = pytest.importorskip("ppi_py.ppi", reason="ppi_py is not here; its figures stand above")
    pairs = decided_pairs()
    labelled = [pair for pair in pairs if pair.labelled is not None]
    rest = [pair for pair in pairs if pair.labelled is None]

    def design(some: list[LabelledPair]) -> np.ndarray:
        each = np.eye(4)
        rows = [each[NAMES.index(p.first)] - each[NAMES.index(p.second)] for p in some]
        return np.array(rows)[:, :3]

    strengths = ppi.ppi_logistic_pointestimate(
        design(labelled),
        np.array([pair.labelled for pair in labelled]),
        np.array([pair.judged for pair in labelled]),
        design(rest),
        np.array([pair.judged for pair in rest]),
        lam=weight,
        # Where the peer stops.
        optimizer_options={"gtol": 1e-12, "ftol": 1e-16, "maxiter": 10_000},
    )
    expected = np.append(strengths, 0.0)
    centred = (expected - expected.mean()) * ELO_PER_NAT
    assert centred == pytest.approx(PPI_PY[weight], abs=1e-4)


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
    assert values(rate(pairs, weight), "value") == pytest.approx(expected, abs=1e-2)


def test_without_a_judge_they_are_bradley_terry_ratings_of_the_labels() -> None:
    pairs = simulate(np.random.default_rng(2), prompts=200, labelled=1.0, judge=0.5)
    outcomes = {1.0: Outcome.A_WINS, 0.0: Outcome.B_WINS, 0.5: Outcome.TIE}
    labels = [
        Judgment(each.prompt_id, "facts", each.first, each.second, outcomes[each.labelled or 0.0])
        for each in pairs
    ]
    people = sandwich_bradley_terry(
        code_judgments(labels, entrants=NAMES),
        confidence=0.95,
        initial_rating=0.0,
    )
    found = rate(pairs, 0.0)
    expected = [each.value for each in people.ratings]
    assert values(found, "value") == pytest.approx(expected, abs=1e-6)
    errors = [each.standard_error for each in people.ratings]
    assert values(found, "standard_error") == pytest.approx(errors, rel=1e-6)


def test_a_judge_of_noise_counts_for_little_and_one_that_is_right_for_all() -> None:
    generator = np.random.default_rng(3)
    noise = simulate(generator, prompts=900, labelled=0.3, judge=0.0)
    assert rate(noise).weight < 0.15
    right = simulate(generator, prompts=900, labelled=0.3, judge=1.0)
    found = rate(right)
    n_unlabelled = sum(each.labelled is None for each in right)
    assert found.weight == pytest.approx(n_unlabelled / len(right), abs=0.02)
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
    aim = values(rate(truth, 0.0), "value")
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
    aim = values(rate(pairs, 0.0), "value")
    # Labelled where the judge saw no tie and the first won, above all: a biased draw.
    drawn = [
        LabelledPair(p.prompt_id, p.first, p.second, p.judged, p.labelled, chance)
        if generator.random() < (chance := 0.9 if p.judged == 1 else 0.15)
        else LabelledPair(p.prompt_id, p.first, p.second, p.judged, None, chance)
        for p in pairs
    ]
    found = rate(drawn)
    assert np.abs(values(found, "value") - aim).max() < 12
    blind = [LabelledPair(p.prompt_id, p.first, p.second, p.judged, p.labelled) for p in drawn]
    # Nobody's slot is special here, so the bias must be seen in an entrant that is often first.
    shares = [each.labelled for each in blind if each.labelled is not None]
    assert np.mean(shares) > 0.6


def with_raters(pairs: list[LabelledPair], shares: dict[str, float | None]) -> list[LabelledPair]:
    """Give every label to raters in turn; one who has a share says it whatever the pair."""
    names, found, number = [*shares], [], 0
    for pair in pairs:
        if pair.labelled is None:
            found.append(pair)
            continue
        own = shares[name := names[number % len(names)]]
        share = pair.labelled if own is None else own
        found.append(replace(pair, labelled=share, raters=((name, share),)))
        number += 1
    return found


def test_intervals_hold_the_opinion_of_these_raters_however_few() -> None:
    for n_raters in (1, 2, 3, 6, 12):
        design = RaterDesign(n_raters, n_labels=400, n_pairs=800)
        found = rater_coverage(design, opinions=["these_raters"], n_draws=40, seed=n_raters)
        assert 0.9 <= np.mean(found["these_raters"]) <= 0.99, n_raters


def test_intervals_hold_the_opinion_of_people_or_are_refused() -> None:
    for n_raters in (1, 2, 3, 4, 6, 12):
        design = RaterDesign(n_raters, n_labels=400, n_pairs=800)
        held = rater_coverage(design, opinions=["people"], n_draws=40, seed=n_raters)["people"]
        assert bool(held) == (n_raters >= 5)
        assert not held or 0.9 <= np.mean(held) <= 0.99, n_raters


def test_an_interval_of_people_is_refused_with_what_to_do() -> None:
    pairs = simulate(np.random.default_rng(16), prompts=200, labelled=0.5, judge=0.6)
    few = with_raters(pairs, dict.fromkeys("abcd"))
    unknown = [replace(each, raters=()) for each in with_raters(pairs, dict.fromkeys("abcdef"))]
    for given, n in ((few, 4), (unknown, 0)):
        fit = rate(given, about="people")
        assert all(each.value is not None and each.low is None for each in fit.ratings)
        assert f"labels of {n} known people" in str(fit.ratings[0].note)
        assert "labels.about" in str(fit.ratings[0].note)
        assert separate_powered(fit, resampling=Resampling(100, 0, 0.95)).ranks == ()
        assert rate(given).ratings[0].low is not None
    fits = rate_on_every_basis(few, entrants=NAMES, confidence=0.95, about="people")
    assert [fits[name].ratings[0].low is None for name in ("people", "judge", "both")] == [
        True,
        False,
        True,
    ]


def test_places_of_people_are_as_unsure_as_few_raters_leave_them() -> None:
    pairs = simulate(np.random.default_rng(10), prompts=900, labelled=0.4, judge=0.8)
    fit = rate(with_raters(pairs, dict.fromkeys("abcdef")), about="people")
    many = replace(fit, degrees_of_freedom=fit.n_prompts - 1)
    assert 5 <= fit.degrees_of_freedom < many.degrees_of_freedom
    reach, by_prompts = (
        separate_powered(each, resampling=Resampling(2000, 0, 0.95)).differences.high[0, 3]
        - (fit.ratings[0].value or 0)
        + (fit.ratings[3].value or 0)
        for each in (fit, many)
    )
    assert reach > 1.1 * by_prompts


def test_raters_who_see_alike_change_no_interval_and_those_who_do_not_widen_it() -> None:
    pairs = simulate(np.random.default_rng(8), prompts=400, labelled=0.5, judge=0.6)
    alone = with_raters(pairs, {"ann": None})
    assert values(rate(alone), "low") == pytest.approx(values(rate(pairs), "low"))
    thirty = with_raters(pairs, dict.fromkeys(map(str, range(30))))
    alike = values(rate(thirty, about="people"), "standard_error")
    assert values(rate(thirty), "low") == pytest.approx(values(rate(pairs), "low"))
    assert (alike >= values(rate(pairs), "standard_error")).all()
    assert alike.mean() == pytest.approx(values(rate(pairs), "standard_error").mean(), rel=0.15)
    # Half the raters call for whoever comes first in the alphabet, the others for the last.
    partial = [
        replace(pair, first=min(pair.first, pair.second), second=max(pair.first, pair.second))
        for pair in pairs
    ]
    apart = with_raters(partial, {"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0, "e": None, "f": None})
    known = rate([replace(pair, raters=()) for pair in apart])
    spread, by_prompt = (
        values(each, "standard_error") for each in (rate(apart, about="people"), known)
    )
    assert values(rate(apart), "value") == pytest.approx(values(known, "value"))
    assert (spread[[0, 3]] > 1.5 * by_prompt[[0, 3]]).all()


def test_intervals_hold_what_other_raters_would_say_where_raters_differ() -> None:
    generator = np.random.default_rng(9)
    held = 0
    for _ in range(60):
        pairs = simulate(generator, prompts=150, labelled=1.0, judge=0.6)
        tastes = generator.normal(0, 0.25, (12, 4))
        found = []
        for number, pair in enumerate(pairs):
            rater = number % 12
            taste = tastes[rater, NAMES.index(pair.first)] - tastes[rater, NAMES.index(pair.second)]
            share = float(generator.random() < np.clip(0.5 + taste, 0, 1))
            found.append(replace(pair, labelled=share, raters=((f"r{rater}", share),)))
        fit = rate(found, 0.0, about="people")
        held += int(((values(fit, "low") <= 0) & (values(fit, "high") >= 0)).sum())
    # People as a whole like nobody better; by prompts alone under 70 % of the intervals hold that.
    assert held / 240 >= 0.88


def test_places_and_letters_follow_from_the_ratings_together() -> None:
    pairs = simulate(np.random.default_rng(10), prompts=900, labelled=0.4, judge=0.8)
    fit = rate(pairs)
    found = separate_powered(fit, resampling=Resampling(2000, 0, 0.95))
    assert [place.entrant for place in found.ranks] == list(NAMES)
    assert [(place.best, place.worst) for place in found.ranks] == [(n, n) for n in (1, 2, 3, 4)]
    # Tukey's quantile of four means with so many degrees of freedom is 3.63 / sqrt(2).
    gap = fit.ratings[0].value - fit.ratings[1].value  # type: ignore[operator]
    variance = fit.covariance[0, 0] + fit.covariance[1, 1] - 2 * fit.covariance[0, 1]
    reach = (found.differences.high[0, 1] - found.differences.low[0, 1]) / 2
    assert reach / np.sqrt(variance) == pytest.approx(3.63 / np.sqrt(2), rel=0.04)
    middle = (found.differences.high[0, 1] + found.differences.low[0, 1]) / 2
    assert middle == pytest.approx(gap, abs=3)
    few = rate(pairs[:36])
    nobody = separate_powered(few, resampling=Resampling(100, 0, 0.95))
    assert nobody.ranks == ()


PLACES = ("rank", "rank_best", "rank_worst", "group", "shown_above")


def test_every_basis_is_rated_by_what_it_is_called() -> None:
    pairs = simulate(np.random.default_rng(11), prompts=300, labelled=0.3, judge=0.7)
    fits = rate_on_every_basis(pairs, entrants=NAMES, confidence=0.95, initial_rating=0.0)
    assert list(fits) == ["people", "judge", "both"]
    assert values(fits["people"], "value") == pytest.approx(values(rate(pairs, 0.0), "value"))
    assert fits["people"].n_prompts == fits["both"].n_prompts < fits["judge"].n_prompts
    rows = powered_rows(fits, dimension="x", settings=RatingSettings())
    # One judge has one set of letters, the leaderboard's: another method's differ in one of eight.
    places = [{row.basis for row in rows if getattr(row, name)} for name in PLACES]
    assert places == [{"people", "both"}] * len(PLACES)
    unlabelled = [replace(pair, labelled=None) for pair in pairs]
    assert list(rate_on_every_basis(unlabelled, entrants=NAMES, confidence=0.95)) == ["judge"]
    assert rate_on_every_basis([], entrants=NAMES, confidence=0.95) == {}


def test_a_label_is_worth_more_where_it_moves_ratings_and_verdicts_say_little() -> None:
    pairs = simulate(np.random.default_rng(12), prompts=500, labelled=0.3, judge=0.9)
    rare = [replace(pair, second="dee") for pair in pairs[:20] if pair.first != "dee"]
    pairs = [pair for pair in pairs[20:] if "dee" not in (pair.first, pair.second)] + rare
    worth = label_worth(pairs, entrants=NAMES)
    assert worth.sum() == pytest.approx(1)
    assert worth[-len(rare) :].min() > 3 * np.median(worth)
    # People keep to verdicts that name a winner, and toss a coin over the others.
    told = [
        replace(
            pair,
            judged=(index % 3) / 2,
            labelled=None
            if index % 2
            else (index % 3) / 2
            if index % 3 != 1
            else float(index % 4 == 0),
        )
        for index, pair in enumerate(
            simulate(np.random.default_rng(13), prompts=300, labelled=1.0, judge=1.0)
        )
    ]
    by_kind = label_worth(told, entrants=NAMES)
    ties = np.array([pair.judged == 0.5 for pair in told])
    assert by_kind.sum() == pytest.approx(1)
    assert by_kind[ties].mean() > 0


def test_a_quarter_of_the_worth_is_everybodys() -> None:
    sure = [LabelledPair(f"p{n}", "ada", "bob", float(n > 0), None) for n in range(300)]
    open_ = [LabelledPair(f"q{n}", "bob", "cy", float(n % 2), None) for n in range(4000)]
    worth = label_worth([*sure, *open_], entrants=("ada", "bob", "cy")) * 4300
    assert worth.sum() == pytest.approx(4300)
    assert 0.25 < worth.min() < 0.4


def test_a_draw_by_worth_weighs_sums_without_bias_and_keeps_what_was_drawn() -> None:
    generator = np.random.default_rng(14)
    n, first, more = 400, 40, 60
    worth = generator.uniform(0.2, 4.0, n)
    worth /= worth.sum()
    things = generator.normal(2.0, 1.0, n) * worth**0.5
    sums = []
    for _ in range(1500):
        numbers = generator.random(n)
        began = np.zeros(n)
        began[np.argsort(numbers)[:first]] = first / n
        drawn = draw_by_worth(worth, numbers, began, more)
        assert drawn.chosen.size == more
        assert not began[drawn.chosen].any()
        inside = began > 0
        inside[drawn.chosen] = True
        assert (drawn.chances >= began).all()
        sums.append((things / drawn.chances)[inside].sum())
    error = np.std(sums) / np.sqrt(len(sums))
    assert np.mean(sums) == pytest.approx(things.sum(), abs=4 * error)
    assert error < 0.01 * things.sum()
    everything = draw_by_worth(worth, numbers, began, n)
    assert everything.chosen.size == n - first
    assert (everything.chances == 1).all()


def test_labels_drawn_by_worth_aim_at_the_same_ratings_with_intervals_that_hold_them() -> None:
    generator = np.random.default_rng(15)
    held = n = 0
    strayed = []
    truth = simulate(generator, prompts=500, labelled=1.0, judge=0.6)
    aim = values(rate(truth, 0.0), "value")
    for _ in range(60):
        numbers = generator.random(len(truth))
        chances = np.zeros(len(truth))
        chances[np.argsort(numbers)[:80]] = 80 / len(truth)
        began = [
            replace(pair, labelled=pair.labelled if chance else None)
            for pair, chance in zip(truth, chances, strict=True)
        ]
        drawn = draw_by_worth(label_worth(began, entrants=NAMES), numbers, chances, 120)
        chances[drawn.chosen] = 1
        pairs = [
            replace(pair, labelled=pair.labelled if is_in else None, chance=float(chance))
            for pair, is_in, chance in zip(truth, chances, drawn.chances, strict=True)
        ]
        found = rate(pairs)
        strayed.append(values(found, "value") - aim)
        held += int(((values(found, "low") <= aim) & (aim <= values(found, "high"))).sum())
        n += 4
    assert np.abs(np.mean(strayed, axis=0)).max() < 4 * np.std(strayed) / np.sqrt(60)
    assert held / n >= 0.92


@pytest.mark.skipif(not ARENA.is_file(), reason="the arena's verdicts are not here")
def test_intervals_of_few_labels_hold_the_ratings_of_all_people_of_an_arena() -> None:
    from benchmarks.people import coverage, read_arena

    found = coverage(read_arena(ARENA, "claude3"), n_labels=1000, draws=6, seed=3)
    assert sum(found["judge"].held) <= 12
    assert np.mean(found["both"].held) >= 0.88
    assert np.mean(found["both"].reach) < np.mean(found["people"].reach)


def test_labels_that_correct_the_judge_too_far_leave_a_rating_with_a_smaller_weight() -> None:
    # Where people were asked the judge said ada in 12 of 20 and they in 18; elsewhere it said so in
    # 36 of 40. Corrected in full, ada would win 0.9 + 0.9 - 0.6 of the pairs.
    unlabelled = [LabelledPair(f"u{n}", "ada", "bob", float(n < 36), None) for n in range(40)]
    labelled = [
        LabelledPair(f"l{n}", "ada", "bob", float(n < 12), float(n < 18)) for n in range(20)
    ]
    pairs, entrants = [*unlabelled, *labelled], ("ada", "bob")
    with pytest.raises(RatingError, match="no minimum"):
        rate_prediction_powered(pairs, entrants=entrants, confidence=0.95, weight=1.0)
    found = rate_prediction_powered(pairs, entrants=entrants, confidence=0.95)
    assert 0 <= found.weight < 1
    assert all(each.low is not None for each in found.ratings)


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
    assert (ada.value, ada.low, ada.n) == (None, None, 0)
    assert "labelled wins" in str(ada.note)
    assert all(each.value is not None for each in others)


def test_few_labelled_prompts_give_a_rating_without_an_interval() -> None:
    pairs = simulate(np.random.default_rng(7), prompts=12, labelled=1.0, judge=0.7)
    for each in rate(pairs).ratings:
        assert each.value is not None
        assert each.low is None
        assert "needs 15" in str(each.note)


def test_what_is_out_of_range_is_refused_all_at_once() -> None:
    pairs = [
        LabelledPair("p1", "ada", "eve", 1.5, 0.5, 0.0),
        LabelledPair("p1", "ada", "ada", 1, 2),
    ]
    with pytest.raises(InputError) as error:
        rate(pairs, weight=2.0)
    assert len(error.value.problems) == 6
    with pytest.raises(InputError, match="none of 1"):
        rate([LabelledPair("p1", "ada", "bob", 1.0, None)])
