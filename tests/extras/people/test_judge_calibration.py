"""How far a judge says what people say: published values, weights, and pairs by hand."""

from collections.abc import Mapping
from dataclasses import astuple, replace

import numpy as np
import pytest

from benchmarks.simulated_raters import OPINIONS, RaterDesign, measure_coverage
from tournament_assets.audits.agreement import (
    LabelPair,
    measure_agreement,
    measure_by_prompt,
    wilson_interval,
)
from tournament_assets.extras.people.judge_calibration import (
    CalibratedPair,
    Labelling,
    Vote,
    calibrate_judge,
)
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.intervals import two_sided_quantile
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.verdicts import Outcome

OUTCOMES = {
    "a": Outcome.A_WINS,
    "b": Outcome.B_WINS,
    "t": Outcome.TIE,
    "i": Outcome.INCONSISTENT,
    "u": Outcome.UNJUDGED,
    "s": Outcome.SAME_TEXT,
}
WORDS: Mapping[str, Vote] = {"a": "a", "b": "b", "t": "tie", "x": "both_bad"}


def pair(
    number: int, judged: str, said: Mapping[str, str] = {}, **changes: object
) -> CalibratedPair:
    labels = tuple(Labelling(name, WORDS[word]) for name, word in said.items())
    made = CalibratedPair(f"p{number}", "one", "ada", "bob", OUTCOMES[judged], labels)
    return replace(made, **changes)  # type: ignore[arg-type]


def calibrate(pairs: list[CalibratedPair]) -> list[MeasureRow]:
    return calibrate_judge(
        pairs, dimension="x", entrants=("ada", "bob"), resampling=Resampling(200)
    )


def of(rows: list[MeasureRow], measure: str, **names: object) -> list[MeasureRow]:
    return [
        row
        for row in rows
        if row.measure == measure and all(getattr(row, k) == v for k, v in names.items())
    ]


def test_everything_is_counted_and_what_was_not_judged_is_in_no_share() -> None:
    rows = calibrate(
        [
            pair(1, "a", {"ann": "a", "ben": "b"}),
            pair(2, "i", {"ann": "x"}),
            pair(3, "u", {"ann": "a"}),
            pair(4, "b"),
            pair(5, "s"),
        ]
    )
    counts = {row.subject: row.n for row in of(rows, "count")}
    assert counts == {
        "pairs": 3,
        "labels": 4,
        "both_bad": 1,
        "inconsistent": 1,
        "unjudged": 1,
        "changed": 0,
    }
    assert {row.subject: row.n for row in of(rows, "rater")} == {"ann": 3, "ben": 1}
    (right,) = of(rows, "right")
    # On one pair Ann is right and Ben is not; on the other the judge flips where Ann sees a tie.
    assert right.n == 3
    assert right.value == pytest.approx(0.25)
    (error,) = of(rows, "error")
    (by_judge,) = of(rows, "error_by_judge")
    assert (error.prompt_id, error.value, by_judge.value, error.n) == ("p1", 0.5, 1.0, 2)
    assert (error.subject, error.other, error.stratum) == ("ada", "bob", "one")


def test_nothing_is_said_where_nobody_was_asked() -> None:
    assert calibrate([pair(1, "a"), pair(2, "t")]) == []
    (pairs, *_) = calibrate_judge([], dimension="x", entrants=(), changed=2)
    assert (pairs.measure, pairs.subject, pairs.n) == ("count", "pairs", 0)


def test_kappa_is_that_of_two_raters_and_of_each_with_the_judge_by_stratum() -> None:
    said = {"a": "aaaabbbb", "n": "aaabbbba"}
    pairs = [
        pair(
            number,
            "a" if number < 4 else "b",
            {"ann": said["a"][number], "ben": said["n"][number]},
            stratum="one" if number % 2 else "two",
        )
        for number in range(8)
    ]
    rows = calibrate(pairs)
    (with_judge,) = of(rows, "kappa", subject="ann", other="judge", stratum=None)
    assert (with_judge.value, with_judge.n) == (1.0, 8)
    (two,) = of(rows, "kappa", subject="ann", other="ben", stratum=None)
    # Six of eight alike, a half by chance.
    assert two.value == pytest.approx((6 / 8 - 1 / 2) / (1 / 2))
    assert {row.stratum for row in of(rows, "agreement", other="ben")} == {None, "one", "two"}


def test_raters_are_put_beside_one_another_on_unjudged_pairs_too() -> None:
    rows = calibrate(
        [pair(1, "a", {"ann": "a", "ben": "a"}), pair(2, "u", {"ann": "b", "ben": "a"})]
    )
    (two,) = of(rows, "agreement", subject="ann", other="ben")
    (with_judge,) = of(rows, "agreement", subject="ann", other="judge")
    assert (two.n, two.value) == (2, 0.5)
    assert (with_judge.n, with_judge.value) == (1, 1.0)


def test_wins_are_corrected_by_what_the_judge_gets_wrong() -> None:
    # Of 20 labelled pairs that the judge gives to ada people give her 15, of 20 others 4.
    labelled = [pair(n, "a", {"ann": "a" if n < 15 else "b"}) for n in range(20)]
    labelled += [pair(20 + n, "b", {"ann": "a" if n < 4 else "t"}) for n in range(20)]
    rest = [pair(40 + n, "a" if n < 376 else "b") for n in range(950)]
    # Nobody was asked about two copies of one text, and nothing is known of what is unjudged.
    rest += [pair(1000 + n, "s" if n < 300 else "u") for n in range(500)]
    rows = calibrate([*labelled, *rest])
    (ada, bob) = of(rows, "wins")
    assert told(rows, "ada") == pytest.approx((0.75, 0.2, 396 / 990))
    assert ada.value == pytest.approx(0.4 * 0.75 + 0.6 * 0.2)
    # A tie is no win of either.
    assert bob.value == pytest.approx(0.4 * 0.25)
    assert (ada.n, bob.n) == (40, 40)
    (unknown, _) = of(calibrate([pair(1, "a", {"ann": "a"}), pair(2, "b")]), "wins")
    assert unknown.value is None
    assert "no pair that the judge says it won" in str(unknown.note)


def told(rows: list[MeasureRow], entrant: str) -> tuple[float, ...]:
    """Return how often people say so where the judge does and does not, and how often it does."""
    found = [of(rows, name, subject=entrant) for name in TOLD]
    return tuple(row.value for (row,) in found if row.value is not None)


TOLD = ("wins_where_judge_says_so", "wins_where_judge_does_not", "wins_by_judge")


def drawn(n: int, n_labels: int, judge: float) -> list[CalibratedPair]:
    """Return pairs of which people give ada three in five, and the judge says so or tosses."""
    generator = np.random.default_rng(1)
    says = generator.random(n) < 0.6
    is_judged = np.where(generator.random(n) < judge, says, generator.random(n) < 0.5)
    labelled = generator.permutation(n) < n_labels
    return [
        pair(at, "a" if is_judged[at] else "b", {"ann": "a" if says[at] else "b"})
        if labelled[at]
        else pair(at, "a" if is_judged[at] else "b")
        for at in range(n)
    ]


@pytest.mark.parametrize("judge", [0.0, 0.3, 0.8, 1.0])
def test_wins_are_as_sure_as_two_draws_of_one_bank_leave_them(judge: float) -> None:
    pairs = drawn(20_000, 4_000, judge)
    (ada, _) = of(calibrate(pairs), "wins")
    assert ada.low is not None
    assert ada.high is not None
    # Tenenbein (1970): K is the squared correlation of judge and people on the labelled pairs.
    said = np.array(
        [[each.judged == "a", each.labels[0].word == "a"] for each in pairs if each.labels]
    )
    people, k = said[:, 1].mean(), np.corrcoef(said.T)[0, 1] ** 2
    variance = people * (1 - people) * ((1 - k) / 4_000 + k / 20_000)
    assert (ada.high - ada.low) / 2 == pytest.approx(1.96 * variance**0.5, rel=0.02)


def wins_width(*, won_by: int = 1, missed_by: int = 1, rest_by: int = 1) -> float:
    """Return how wide ada's interval is with so many pairs of a kind on one prompt."""
    pairs = [
        pair(n // won_by, "a", {"ann": "b" if n // 4 % 4 == 0 else "a"}) for n in range(40)
    ] + [
        pair(100 + n // missed_by, "b", {"ann": "a" if n // 4 % 4 == 0 else "b"}) for n in range(40)
    ]
    pairs += [pair(1000 + n // rest_by, "a" if n // 4 % 2 else "b") for n in range(200)]
    rows = calibrate(pairs)
    (ada, _) = of(rows, "wins")
    assert ada.low is not None
    assert ada.high is not None
    assert told(rows, "ada")[:2] == pytest.approx((0.7, 0.3))
    return ada.high - ada.low


def test_pairs_of_one_prompt_tell_less_of_wins_than_those_of_as_many_prompts() -> None:
    alone = wins_width()
    assert wins_width(won_by=4) > alone
    assert wins_width(missed_by=4) > alone
    assert wins_width(rest_by=4) > alone


def test_labels_weigh_what_their_chance_leaves_out() -> None:
    # Errors were drawn four times as often.
    pairs = [
        pair(n, "a", {"ann": "a" if n < 10 else "b"}, chance=0.1 if n < 10 else 0.4)
        for n in range(20)
    ]
    rows = calibrate(pairs)
    (right,) = of(rows, "right")
    assert right.value == pytest.approx(100 / 125)
    (agreement,) = of(rows, "agreement", subject="ann", other="judge")
    assert agreement.value == pytest.approx(100 / 125)
    assert told(rows, "ada")[0] == pytest.approx(100 / 125)
    units = [(f"p{n}", n < 10) for n in range(20)]
    even = measure_by_prompt(units, weights=[3.0] * 20)
    assert astuple(even)[:3] == pytest.approx(astuple(measure_by_prompt(units))[:3])
    pairs_of_labels = [LabelPair(f"p{n}", "a" if n % 3 else "b", "a") for n in range(9)]
    twice = [replace(p, weight=2.0 if p.first == "a" else 1.0) for p in pairs_of_labels]
    repeated = [*pairs_of_labels, *(p for p in pairs_of_labels if p.first == "a")]
    weighted = measure_agreement(twice, Resampling(50))
    assert weighted.share.value == pytest.approx(measure_agreement(repeated).share.value)
    assert weighted.kappa.value == pytest.approx(
        measure_agreement(repeated, Resampling(50)).kappa.value
    )


def test_wins_are_as_sure_as_weighted_labels_and_no_surer() -> None:
    won = [pair(n, "a", {"ann": "a" if n < 18 else "b"}) for n in range(20)]
    # Ten labels on others stand for two pairs each, ten for ten; people say ada won four and two.
    other = [
        pair(
            20 + n,
            "b",
            {"ann": "a" if n < 4 or n >= 18 else "b"},
            chance=0.5 if n < 10 else 0.1,
        )
        for n in range(20)
    ]
    rest = [pair(40 + n, "a" if n < 376 else "b") for n in range(950)]
    (ada, _) = of(calibrate([*won, *other, *rest]), "wins")
    rate = (4 * 2 + 2 * 10) / 120
    squares = 4 * (4 * (1 - rate) ** 2 + 6 * rate**2) + 100 * (2 * (1 - rate) ** 2 + 8 * rate**2)
    # Twenty labels, and by their weights worth fourteen.
    n_other = rate * (1 - rate) / (20 / 19 * squares / 120**2)
    assert n_other == pytest.approx(14.2426, abs=5e-5)
    # n prompts of equal weight are known as n - 1 independent ones would be.
    variance, middle = 0.4 * 0.6 * (0.9 - rate) ** 2 / 989, 0.0
    for part, share, n in ((0.4, 0.9, 19), (0.6, rate, n_other)):
        own = (share * n + 1) / (n + 2)
        variance += part**2 * own * (1 - own) / (n + 2)
        middle += part * own
    reach = two_sided_quantile(0.95, degrees_of_freedom=39) * variance**0.5
    assert ada.value == pytest.approx(0.4 * 0.9 + 0.6 * rate)
    assert (ada.low, ada.high) == pytest.approx((middle - reach, middle + reach))


def test_intervals_of_a_judge_hold_whose_opinion_is_meant_or_are_refused() -> None:
    for n_raters in (1, 2, 3, 6, 12):
        found = measure_coverage(
            RaterDesign(n_raters, n_labels=240, n_pairs=480),
            opinions=OPINIONS,
            n_draws=30,
            seed=n_raters,
        )
        for (measure, opinion), held in found.items():
            assert bool(held) == (opinion == "these_raters" or n_raters >= 5)
            assert not held or np.mean(held) >= 0.86, (n_raters, measure, opinion)


def by_raters(n_raters: int) -> list[CalibratedPair]:
    """Return 240 labels of raters of whom every other one always says what the judge says."""
    return [
        pair(
            n,
            "ab"[n // 2 % 2],
            {f"r{n % n_raters}": "ab"[(n // 2 + n % n_raters % 2 * (n // 4)) % 2]},
        )
        for n in range(240)
    ]


def test_an_interval_about_people_is_as_wide_as_their_raters_differ() -> None:
    rows, of_people = (
        calibrate_judge(by_raters(6), dimension="x", entrants=("ada",), about=about)
        for about in OPINIONS
    )
    (own,), (wide,) = (of(each, "right") for each in (rows, of_people))
    # A kappa is about the two that it names.
    assert of(rows, "kappa") == of(of_people, "kappa")
    # Three raters are right always, three in half of their labels.
    assert own.value == wide.value == 0.75
    n = 0.75 * 0.25 / (6 / 5 * 6 * (40 / 240 * 0.25) ** 2)
    by_labels = 0.75 * 0.25 / 239
    variance = 0.75 * 0.25 / n + by_labels - 240 * 0.75 * 0.25 / 240**2
    assert (wide.high or 0) - (wide.low or 0) > 2 * ((own.high or 0) - (own.low or 0))
    freedom = variance**2 / (by_labels**2 / 239 + (0.75 * 0.25 / n) ** 2 / 5)
    t = two_sided_quantile(0.95, degrees_of_freedom=int(freedom))
    assert (wide.low, wide.high) == pytest.approx(
        wilson_interval(0.75, 0.75 * 0.25 / variance, t), rel=1e-3
    )


def test_wins_as_people_would_count_them_are_as_unsure_as_their_tastes_differ() -> None:
    # Of six raters three give everything to ada, and three say what the judge says.
    pairs = [
        pair(n, "ab"[n // 6 % 2], {f"r{n % 6}": "a" if n % 2 else "ab"[n // 6 % 2]})
        for n in range(240)
    ]
    own, people = (
        of(calibrate_judge(pairs, dimension="x", entrants=("ada",), about=about), "wins")[0]
        for about in OPINIONS
    )
    assert own.value == people.value == 0.75
    # Their shares are 1/2 and 1, so that the mean of six has an error of 0.11, and t is 2.6.
    error = (6 / 5 * 0.25**2 / 6) ** 0.5
    reach = 2.6 * error
    assert ((people.high or 0) - (people.low or 0)) / 2 == pytest.approx(reach, rel=0.15)
    assert ((own.high or 0) - (own.low or 0)) / 2 < reach / 3


def test_an_interval_about_people_is_refused_below_five_raters_with_what_to_do() -> None:
    few, enough = (
        calibrate_judge(by_raters(n), dimension="x", entrants=("ada",), about="people")
        for n in (4, 5)
    )
    for measure in ("right", "wins"):
        (refused,), (given,) = of(few, measure), of(enough, measure)
        assert (refused.low, refused.high) == (None, None)
        assert refused.value is not None
        assert "labels of 4 known people" in str(refused.note)
        assert given.low is not None
        assert given.note is None


def test_a_verdict_that_flips_is_half_right_where_people_name_a_winner() -> None:
    said = ["a", "b", "t", "a"]
    rows = calibrate([pair(n, "i", {"ann": word}) for n, word in enumerate(said)])
    (right,), (agreement,), (kappa,) = (of(rows, name) for name in ("right", "agreement", "kappa"))
    assert right.value == agreement.value == 3 / 8
    assert right.n == agreement.n == 4
    # Half a vote each: a judge that always flips agrees with people as often as by chance.
    assert kappa.value == pytest.approx(0.0)


def test_ten_pairs_to_read_are_the_worst_and_each_prompt_comes_once_first() -> None:
    pairs = [pair(n, "a", {"ann": "b" if n < 12 else "t"}) for n in range(14)]
    twin = [replace(pairs[0], entrant_b="cy"), pair(90, "a", {"ann": "b", "ben": "b"})]
    errors = of(calibrate([*pairs, *twin]), "error")
    assert len(errors) == 10
    assert errors[0].prompt_id == "p90"
    assert all(row.value == 0.0 for row in errors)
    assert len({row.prompt_id for row in errors}) == 10
