"""How far a judge says what people say: published values, weights, and pairs by hand."""

from collections.abc import Mapping
from dataclasses import astuple, replace

import numpy as np
import pytest

from tournament_assets.audits.agreement import LabelPair, measure_agreement, measure_by_prompt
from tournament_assets.extras.people.judge_calibration import (
    CalibratedPair,
    Labelling,
    calibrate_judge,
    correct_share,
)
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.estimates import Resampling
from tournament_assets.tournament.verdicts import Outcome

OUTCOMES = {
    "a": Outcome.A_WINS,
    "b": Outcome.B_WINS,
    "t": Outcome.TIE,
    "i": Outcome.INCONSISTENT,
    "u": Outcome.UNJUDGED,
    "s": Outcome.SAME_TEXT,
}
WORDS = {"a": "a", "b": "b", "t": "tie", "x": "tie"}


def pair(
    number: int, judged: str, said: Mapping[str, str] = {}, **changes: object
) -> CalibratedPair:
    labels = tuple(Labelling(name, WORDS[word], word == "x") for name, word in said.items())
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


def test_a_corrected_share_is_the_published_one_with_both_uncertainties() -> None:
    found = correct_share(
        0.4, 1000, specificity=0.7, sensitivity=0.9, n_negative=200, n_positive=200
    )
    assert found.value == pytest.approx(0.166667, abs=5e-7)
    assert found.low == pytest.approx(0.056351, abs=5e-7)
    assert found.high == pytest.approx(0.262733, abs=5e-7)


def test_a_corrected_share_stays_a_share_and_a_judge_of_chance_corrects_nothing() -> None:
    below = correct_share(0.1, 100, specificity=0.8, sensitivity=0.8, n_negative=20, n_positive=20)
    assert (below.value, below.low) == (0.0, 0.0)
    coin = correct_share(0.5, 100, specificity=0.5, sensitivity=0.5, n_negative=20, n_positive=20)
    assert (coin.value, coin.low, coin.high) == (None, None, None)
    with pytest.raises(InputError, match="of each"):
        correct_share(0.5, 100, specificity=0.9, sensitivity=0.9, n_negative=0, n_positive=9)


def test_corrected_shares_hold_the_truth() -> None:
    generator = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        truth = generator.random(1200) < 0.3
        said = np.where(truth, generator.random(1200) < 0.85, generator.random(1200) < 0.25)
        known, yes = truth[:200], said[:200]
        found = correct_share(
            said[200:].mean(),
            1000,
            specificity=float((~yes[~known]).mean()),
            sensitivity=float(yes[known].mean()),
            n_negative=float((~known).sum()),
            n_positive=float(known.sum()),
        )
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.3 <= found.high
    assert held / 400 >= 0.93


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
    # Ann is right twice, Ben is not; the two on one pair count half each.
    assert right.n == 3
    assert right.value == pytest.approx(0.75)
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
    # Of 20 labelled wins of ada the judge sees 18, of 20 others it calls 6 a win of hers.
    labelled = [pair(n, "a" if n < 18 else "b", {"ann": "a"}) for n in range(20)]
    labelled += [pair(20 + n, "a" if n < 6 else "b", {"ann": "b"}) for n in range(20)]
    rest = [pair(40 + n, "a" if n < 376 else "b") for n in range(960)]
    # Nobody was asked about two copies of one text, and nothing is known of what is unjudged.
    rest += [pair(1000 + n, "s" if n < 300 else "u") for n in range(500)]
    rows = calibrate([*labelled, *rest])
    (ada, bob) = of(rows, "wins")
    assert told(rows, "ada") == pytest.approx((0.9, 0.7, 0.4))
    assert ada.value == pytest.approx(0.166667, abs=5e-7)
    assert bob.value == pytest.approx(1 - 0.166667, abs=5e-7)
    (unknown, _) = of(calibrate([pair(1, "a", {"ann": "a"})]), "wins")
    assert unknown.value is None
    assert "no win" in str(unknown.note)


def told(rows: list[MeasureRow], entrant: str) -> tuple[float, ...]:
    """Return the sensitivity, the specificity, and the share of wins that the judge says."""
    found = [of(rows, name, subject=entrant) for name in TOLD]
    return tuple(row.value for (row,) in found if row.value is not None)


TOLD = ("sensitivity", "specificity", "wins_by_judge")


def wins_width(*, won_by: int = 1, missed_by: int = 1, rest_by: int = 1) -> float:
    """Return how wide ada's interval is with so many pairs of a kind on one prompt."""
    pairs = [
        pair(n // won_by, "b" if n // 4 % 4 == 0 else "a", {"ann": "a"}) for n in range(40)
    ] + [
        pair(100 + n // missed_by, "a" if n // 4 % 4 == 0 else "b", {"ann": "b"}) for n in range(40)
    ]
    pairs += [pair(1000 + n // rest_by, "a" if n // 4 % 2 else "b") for n in range(200)]
    rows = calibrate(pairs)
    (ada, _) = of(rows, "wins")
    assert ada.low is not None
    assert ada.high is not None
    assert told(rows, "ada")[:2] == pytest.approx((0.7, 0.7))
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
    # Of ten wins of ada that the judge saw, each stands for ten pairs.
    mixed = [pair(90, "b", {"ann": "a"}, chance=0.4), *(pair(91 + n, "b") for n in range(3))]
    assert told(calibrate([*pairs, *mixed]), "ada")[0] == pytest.approx(100 / 102.5)
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
    won = [pair(n, "a" if n < 18 else "b", {"ann": "a"}) for n in range(20)]
    # Ten of ada's losses stand for two pairs each, ten for ten; the judge misses four and two.
    missed = [
        pair(
            20 + n,
            "a" if n < 4 or n >= 18 else "b",
            {"ann": "b"},
            chance=0.5 if n < 10 else 0.1,
        )
        for n in range(20)
    ]
    rest = [pair(40 + n, "a" if n < 376 else "b") for n in range(960)]
    ada, bob = of(calibrate([*won, *missed, *rest]), "wins")
    right = (6 * 2 + 8 * 10) / 120
    squares = 4 * (6 * (1 - right) ** 2 + 4 * right**2)
    squares += 100 * (8 * (1 - right) ** 2 + 2 * right**2)
    # Twenty labels, and by their weights worth fourteen.
    n_missed = right * (1 - right) / (20 / 19 * squares / 120**2)
    assert n_missed == pytest.approx(14.2426, abs=5e-5)
    # n prompts of equal weight are known as n - 1 independent ones would be.
    hers = correct_share(
        0.4, 999, specificity=right, sensitivity=0.9, n_negative=n_missed, n_positive=19
    )
    his = correct_share(
        0.6, 999, specificity=0.9, sensitivity=right, n_negative=19, n_positive=n_missed
    )
    for row, expected in ((ada, hers), (bob, his)):
        assert row.n == 40
        assert row.value == pytest.approx(expected.value)
        assert row.low == pytest.approx(expected.low)
        assert row.high == pytest.approx(expected.high)


def test_ten_pairs_to_read_are_the_worst_and_each_prompt_comes_once_first() -> None:
    pairs = [pair(n, "a", {"ann": "b" if n < 12 else "t"}) for n in range(14)]
    twin = [replace(pairs[0], entrant_b="cy"), pair(90, "a", {"ann": "b", "ben": "b"})]
    errors = of(calibrate([*pairs, *twin]), "error")
    assert len(errors) == 10
    assert errors[0].prompt_id == "p90"
    assert all(row.value == 0.0 for row in errors)
    assert len({row.prompt_id for row in errors}) == 10
