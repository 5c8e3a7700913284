from collections.abc import Mapping
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tournament_assets.audits.agreement import (
    Agreement,
    LabelPair,
    align_labels,
    measure_agreement,
    measure_proportion,
)
from tournament_assets.tournament.errors import InputError


def table(counts: Mapping[tuple[str | None, str | None], int]) -> list[LabelPair]:
    """As many pairs of labels as counted, each on a prompt of its own."""
    pairs = [pair for pair, count in counts.items() for _ in range(count)]
    return [LabelPair(f"p{number}", *pair) for number, pair in enumerate(pairs)]


LABELS = st.sampled_from(["a_wins", "b_wins", "tie"])
LABEL_PAIRS = st.lists(
    st.builds(
        LabelPair,
        st.sampled_from(["p0", "p1", "p2", "p3", "p4"]),
        st.none() | LABELS,
        st.none() | LABELS,
    ),
    max_size=40,
)


def measure(labels: list[LabelPair], seed: int = 0) -> Agreement:
    return measure_agreement(labels, n_bootstraps=200, seed=seed)


def kappa_slowly(labels: list[LabelPair]) -> float | None:
    """Cohen's kappa, word for word."""
    both = [pair for pair in labels if pair.first and pair.second]
    if not both:
        return None
    observed = sum(pair.first == pair.second for pair in both) / len(both)
    by_chance = (
        sum(
            sum(pair.first == name for pair in both) * sum(pair.second == name for pair in both)
            for name in {pair.first for pair in both}
        )
        / len(both) ** 2
    )
    return None if by_chance == 1 else (observed - by_chance) / (1 - by_chance)


def test_kappa_of_the_textbook_table_is_four_tenths() -> None:
    # Two readers of 50 grant proposals: https://en.wikipedia.org/wiki/Cohen%27s_kappa
    agreement = measure(
        table({("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15})
    )
    assert (agreement.n, agreement.n_left_out, agreement.note) == (50, 0, None)
    assert agreement.agreement == pytest.approx(0.7)
    assert agreement.kappa == pytest.approx(0.4)


def test_the_interval_of_kappa_is_as_wide_as_its_standard_error_says() -> None:
    # Fleiss, Cohen and Everitt (1969), equation 13: https://doi.org/10.1037/h0028106
    counts: dict[tuple[str | None, str | None], int] = {
        ("yes", "yes"): 80,
        ("yes", "no"): 20,
        ("no", "yes"): 40,
        ("no", "no"): 60,
    }
    agreed, by_chance, n = 0.7, 0.5, 200
    row, column = {"yes": 0.5, "no": 0.5}, {"yes": 0.6, "no": 0.4}
    variance = -((agreed * by_chance - 2 * by_chance + agreed) ** 2)
    for name in row:
        share = counts[name, name] / n
        variance += share * ((1 - by_chance) - (row[name] + column[name]) * (1 - agreed)) ** 2
    for first, second in (("yes", "no"), ("no", "yes")):
        share = counts[first, second] / n
        variance += (1 - agreed) ** 2 * share * (column[first] + row[second]) ** 2
    error = variance**0.5 / ((1 - by_chance) ** 2 * n**0.5)
    agreement = measure_agreement(table(counts), n_bootstraps=4000, seed=0)
    assert agreement.kappa_low == pytest.approx(0.4 - 1.96 * error, abs=0.015)
    assert agreement.kappa_high == pytest.approx(0.4 + 1.96 * error, abs=0.015)


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_intervals_are_the_published_ones(
    count: int, n: int, low: float, high: float
) -> None:
    # Newcombe, Statistics in Medicine 17 (1998), pages 857 to 872, table I, method 3.
    share = measure_proportion(count, n)
    assert share.rate == count / n
    assert share.low == pytest.approx(low, abs=5e-5)
    assert share.high == pytest.approx(high, abs=5e-5)


@settings(deadline=None)
@given(st.integers(1, 300), st.data(), st.floats(0.01, 0.999))
def test_a_share_lies_in_its_interval_which_mirrors_that_of_the_rest(
    n: int, data: st.DataObject, confidence: float
) -> None:
    count = data.draw(st.integers(0, n))
    share, rest = (
        measure_proportion(value, n, confidence=confidence) for value in (count, n - count)
    )
    assert share.low is not None
    assert share.rate is not None
    assert share.high is not None
    assert rest.high is not None
    assert 0 <= share.low <= share.rate <= share.high <= 1
    assert share.low == pytest.approx(1 - rest.high, abs=1e-12)


def test_no_share_is_made_out_of_nothing() -> None:
    nothing = measure_proportion(0, 0)
    assert (nothing.rate, nothing.low, nothing.high) == (None, None, None)
    for count, n in ((-1, 3), (4, 3)):
        with pytest.raises(InputError, match="expected a number between 0 and 3"):
            measure_proportion(count, n)
    with pytest.raises(InputError, match="confidence"):
        measure_proportion(1, 2, confidence=1.0)


@settings(deadline=None)
@given(LABEL_PAIRS)
def test_agreement_is_that_of_a_slow_computation(labels: list[LabelPair]) -> None:
    agreement = measure(labels)
    both = [pair for pair in labels if pair.first and pair.second]
    assert (agreement.n, agreement.n_left_out) == (len(both), len(labels) - len(both))
    assert agreement.kappa == pytest.approx(kappa_slowly(labels))
    if both:
        same = sum(pair.first == pair.second for pair in both)
        assert agreement.agreement == pytest.approx(same / len(both))
    else:
        assert agreement.agreement is None


@settings(deadline=None)
@given(LABEL_PAIRS, st.randoms(use_true_random=False))
def test_neither_order_nor_names_nor_missing_labels_change_an_agreement(
    labels: list[LabelPair], random: Random
) -> None:
    expected = measure([pair for pair in labels if pair.first and pair.second])
    renamed = {"a_wins": "1", "b_wins": "2", "tie": "3", None: None}
    changed = [
        LabelPair(pair.prompt_id, renamed[pair.second], renamed[pair.first]) for pair in labels
    ]
    random.shuffle(changed)
    found = measure(changed)
    assert found.n_left_out == len(labels) - expected.n
    for name in ("n", "agreement", "agreement_low", "agreement_high", "note"):
        assert getattr(found, name) == getattr(expected, name)
    for name in ("kappa", "kappa_low", "kappa_high"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name))


@settings(deadline=None)
@given(LABEL_PAIRS)
def test_there_is_a_note_exactly_where_something_is_missing(labels: list[LabelPair]) -> None:
    agreement = measure(labels)
    bounds = (agreement.kappa_low, agreement.kappa_high)
    assert (agreement.note is None) == (None not in (agreement.kappa, *bounds))
    if agreement.kappa is None:
        assert bounds == (None, None)
    if agreement.note is None:
        assert agreement.kappa_low is not None
        assert agreement.kappa_high is not None
        assert -1 <= agreement.kappa_low < agreement.kappa_high <= 1


@pytest.mark.parametrize(
    ("counts", "kappa", "note"),
    [
        ({}, None, "nothing has two labels"),
        ({("tie", None): 2, (None, "tie"): 1}, None, "nothing has two labels"),
        ({("tie", "tie"): 9}, None, "only one label occurs"),
        ({("tie", "tie"): 9, ("tie", "a_wins"): 3}, 0.0, "knows only one label"),
        ({("tie", "a_wins"): 3}, 0.0, "knows only one label"),
        ({("tie", "tie"): 9, ("a_wins", "a_wins"): 9}, 1.0, "all labels agree"),
        ({("tie", "tie"): 1, ("a_wins", "b_wins"): 1}, 1 / 3, "too few resamples"),
    ],
)
def test_a_kappa_or_an_interval_that_cannot_be_had_is_missing_with_its_reason(
    counts: dict[tuple[str | None, str | None], int], kappa: float | None, note: str
) -> None:
    agreement = measure(table(counts))
    assert agreement.kappa == pytest.approx(kappa)
    assert (agreement.kappa_low, agreement.kappa_high) == (None, None)
    assert note in str(agreement.note)


def test_one_prompt_gives_kappa_no_interval() -> None:
    labels = [LabelPair("p0", "tie", "tie"), LabelPair("p0", "a_wins", "tie")] * 3
    labels += [LabelPair("p0", "a_wins", "a_wins")]
    agreement = measure(labels)
    assert agreement.kappa is not None
    assert (agreement.kappa_low, agreement.kappa_high) == (None, None)
    assert "one prompt" in str(agreement.note)


def test_labels_on_one_prompt_are_resampled_together() -> None:
    generator = np.random.default_rng(1)
    names = ["a_wins", "b_wins", "tie"]
    labels = [
        LabelPair(f"p{number}", *(names[code] for code in generator.integers(3, size=2)))
        for number in range(20)
    ]
    once, copied = measure(labels), measure(labels * 6)
    assert copied.n == 120
    assert copied.kappa == pytest.approx(once.kappa)
    # Six copies of every prompt's labels tell nothing new about prompts.
    assert copied.kappa_low == pytest.approx(once.kappa_low)
    assert copied.kappa_high == pytest.approx(once.kappa_high)


def test_the_same_seed_gives_the_same_interval_and_another_does_not() -> None:
    labels = table({("x", "x"): 7, ("x", "y"): 3, ("y", "x"): 4, ("y", "z"): 2, ("z", "z"): 9})
    assert measure(labels, seed=3) == measure(labels, seed=3)
    assert len({measure(labels, seed=seed).kappa_low for seed in range(5)}) > 1


def test_options_without_a_meaning_are_refused() -> None:
    with pytest.raises(InputError, match="n_bootstraps"):
        measure_agreement([], n_bootstraps=0)
    with pytest.raises(InputError, match="confidence"):
        measure_agreement([], confidence=0.0)


def test_what_only_one_reading_labels_is_aligned_with_nothing() -> None:
    first = {("p1", "ada"): "tie", ("p2", "ada"): None}
    second = {("p3", "bob"): "a_wins", ("p1", "ada"): "b_wins"}
    assert align_labels(first, second, prompt_of=lambda key: key[0]) == [
        LabelPair("p1", "tie", "b_wins"),
        LabelPair("p2", None, None),
        LabelPair("p3", None, "a_wins"),
    ]
