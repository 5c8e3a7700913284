from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tournament_assets.audits.agreement import (
    Agreement,
    Label,
    LabelPair,
    Reading,
    measure_agreement,
    measure_effective_votes,
    measure_panel,
    measure_proportion,
    same_vote,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Estimate, Resampling
from tournament_assets.tournament.verdicts import Outcome


def table(counts: Mapping[tuple[Label | None, Label | None], int]) -> list[LabelPair]:
    """As many pairs of labels as counted, each on a prompt of its own."""
    pairs = [pair for pair, count in counts.items() for _ in range(count)]
    return [LabelPair(f"p{number}", *pair) for number, pair in enumerate(pairs)]


FLIP = ("a_wins", "b_wins")
LABELS = st.sampled_from(["a_wins", "b_wins", "tie", FLIP])
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
    return measure_agreement(labels, Resampling(200, seed))


def votes(labels: list[LabelPair]) -> list[tuple[str, str]]:
    """Every pair of labels four times, those of two words half as each of them."""
    return [
        (first[copy % len(first)], second[copy // 2 % len(second)])
        for pair in labels
        if pair.first and pair.second
        for first, second in [
            [each if isinstance(each, tuple) else (each,) for each in (pair.first, pair.second)]
        ]
        for copy in range(4)
    ]


def kappa_slowly(labels: list[LabelPair]) -> float | None:
    """Cohen's kappa, word for word, of votes that are counted one by one."""
    both = votes(labels)
    if not both:
        return None
    observed = sum(first == second for first, second in both) / len(both)
    by_chance = (
        sum(
            sum(first == name for first, _ in both) * sum(second == name for _, second in both)
            for name in {first for first, _ in both}
        )
        / len(both) ** 2
    )
    return None if by_chance == 1 else (observed - by_chance) / (1 - by_chance)


def test_kappa_of_the_textbook_table_is_four_tenths() -> None:
    # Two readers of 50 grant proposals: https://en.wikipedia.org/wiki/Cohen%27s_kappa
    agreement = measure(
        table({("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15})
    )
    assert (agreement.n, agreement.n_left_out, agreement.kappa.note) == (50, 0, None)
    assert agreement.share.value == pytest.approx(0.7)
    assert agreement.kappa.value == pytest.approx(0.4)


def test_the_interval_of_kappa_is_as_wide_as_its_standard_error_says() -> None:
    # Fleiss, Cohen and Everitt (1969), equation 13: https://doi.org/10.1037/h0028106
    counts: dict[tuple[Label | None, Label | None], int] = {
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
    agreement = measure_agreement(table(counts), Resampling(4000))
    assert agreement.kappa.low == pytest.approx(0.4 - 1.96 * error, abs=0.015)
    assert agreement.kappa.high == pytest.approx(0.4 + 1.96 * error, abs=0.015)


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
    assert share.value == count / n
    assert share.low == pytest.approx(low, abs=5e-5)
    assert share.high == pytest.approx(high, abs=5e-5)


@given(st.integers(1, 300), st.data(), st.floats(0.01, 0.999))
def test_a_share_lies_in_its_interval_which_mirrors_that_of_the_rest(
    n: int, data: st.DataObject, confidence: float
) -> None:
    count = data.draw(st.integers(0, n))
    share, rest = (
        measure_proportion(value, n, confidence=confidence) for value in (count, n - count)
    )
    assert share.low is not None
    assert share.value is not None
    assert share.high is not None
    assert rest.high is not None
    assert 0 <= share.low <= share.value <= share.high <= 1
    assert share.low == pytest.approx(1 - rest.high, abs=1e-9)


def test_no_share_is_made_out_of_nothing() -> None:
    nothing = measure_proportion(0, 0)
    assert (nothing.value, nothing.low, nothing.high) == (None, None, None)
    for count, n in ((-1, 3), (4, 3)):
        with pytest.raises(InputError, match="between 0 and 3"):
            measure_proportion(count, n)
    with pytest.raises(InputError, match="confidence"):
        measure_proportion(1, 2, confidence=1.0)


@given(LABEL_PAIRS)
def test_agreement_is_that_of_a_slow_computation(labels: list[LabelPair]) -> None:
    agreement = measure(labels)
    both = [pair for pair in labels if pair.first and pair.second]
    assert (agreement.n, agreement.n_left_out) == (len(both), len(labels) - len(both))
    assert agreement.kappa.value == pytest.approx(kappa_slowly(labels))
    if both:
        same = sum(first == second for first, second in votes(labels))
        assert agreement.share.value == pytest.approx(same / len(both) / 4)
    else:
        assert agreement.share.value is None


@given(LABEL_PAIRS, st.randoms(use_true_random=False))
def test_neither_order_nor_names_nor_missing_labels_change_an_agreement(
    labels: list[LabelPair], random: Random
) -> None:
    expected = measure([pair for pair in labels if pair.first and pair.second])
    renamed: dict[Label | None, Label | None] = {
        "a_wins": "1",
        "b_wins": "2",
        "tie": "3",
        FLIP: ("2", "1"),
        None: None,
    }
    changed = [
        LabelPair(pair.prompt_id, renamed[pair.second], renamed[pair.first]) for pair in labels
    ]
    random.shuffle(changed)
    found = measure(changed)
    assert found.n_left_out == len(labels) - expected.n
    assert (found.n, found.kappa.note) == (expected.n, expected.kappa.note)
    for one, other in ((found.share, expected.share), (found.kappa, expected.kappa)):
        for name in ("value", "low", "high"):
            assert getattr(one, name) == pytest.approx(getattr(other, name))


def test_a_verdict_that_flips_is_half_a_vote_for_each_and_none_for_a_tie() -> None:
    # The textbook table, whose ten disagreements of one kind are halves of twenty flips.
    flips = measure(
        table({("yes", "yes"): 10, (("yes", "no"), "yes"): 20, ("yes", "no"): 5, ("no", "no"): 15})
    )
    assert flips.share.value == pytest.approx(0.7)
    assert flips.kappa.value == pytest.approx(0.4)
    # As a tie it would never be right.
    assert same_vote(FLIP, "tie") == 0
    # Two that flip may do so in opposite directions.
    assert (same_vote(FLIP, "a_wins"), same_vote(FLIP, FLIP)) == (0.5, 0.5)
    # A judge that goes by the slot alone says nothing about people.
    slot = [LabelPair(f"p{n}", FLIP, "a_wins" if n % 3 else "b_wins") for n in range(60)]
    assert measure(slot).kappa.value == pytest.approx(0.0)


@given(LABEL_PAIRS)
def test_there_is_a_note_exactly_where_something_is_missing(labels: list[LabelPair]) -> None:
    agreement = measure(labels)
    bounds = (agreement.kappa.low, agreement.kappa.high)
    assert (agreement.kappa.note is None) == (None not in (agreement.kappa.value, *bounds))
    if agreement.kappa.value is None:
        assert bounds == (None, None)
    if agreement.kappa.note is None:
        assert agreement.kappa.low is not None
        assert agreement.kappa.high is not None
        assert -1 <= agreement.kappa.low < agreement.kappa.high <= 1


@pytest.mark.parametrize(
    ("counts", "kappa", "note"),
    [
        ({}, None, "nothing has two labels"),
        ({("tie", None): 2, (None, "tie"): 1}, None, "nothing has two labels"),
        ({("tie", "tie"): 9}, None, "only one label occurs"),
        ({("tie", "tie"): 9, ("tie", "a_wins"): 3}, 0.0, "uses only one label"),
        ({("tie", "a_wins"): 3}, 0.0, "uses only one label"),
        ({("tie", "tie"): 9, ("a_wins", "a_wins"): 9}, 1.0, "all labels agree"),
        ({("tie", "tie"): 1, ("a_wins", "b_wins"): 1}, 1 / 3, "too few resamples"),
    ],
)
def test_a_kappa_or_an_interval_that_cannot_be_had_is_missing_with_its_reason(
    counts: dict[tuple[Label | None, Label | None], int], kappa: float | None, note: str
) -> None:
    agreement = measure(table(counts))
    assert agreement.kappa.value == pytest.approx(kappa)
    assert (agreement.kappa.low, agreement.kappa.high) == (None, None)
    assert note in str(agreement.kappa.note)


def test_one_prompt_gives_kappa_no_interval() -> None:
    labels = [LabelPair("p0", "tie", "tie"), LabelPair("p0", "a_wins", "tie")] * 3
    labels += [LabelPair("p0", "a_wins", "a_wins")]
    agreement = measure(labels)
    assert agreement.kappa.value is not None
    assert (agreement.kappa.low, agreement.kappa.high) == (None, None)
    assert "one prompt" in str(agreement.kappa.note)


def test_labels_on_one_prompt_are_resampled_together() -> None:
    generator = np.random.default_rng(1)
    names = ["a_wins", "b_wins", "tie"]
    labels = [
        LabelPair(f"p{number}", *(names[code] for code in generator.integers(3, size=2)))
        for number in range(20)
    ]
    once, copied = measure(labels), measure(labels * 6)
    assert copied.n == 120
    assert copied.kappa.value == pytest.approx(once.kappa.value)
    # Six copies of every prompt's labels tell nothing new about prompts.
    assert copied.kappa.low == pytest.approx(once.kappa.low)
    assert copied.kappa.high == pytest.approx(once.kappa.high)


def test_the_same_seed_gives_the_same_interval_and_another_does_not() -> None:
    labels = table({("x", "x"): 7, ("x", "y"): 3, ("y", "x"): 4, ("y", "z"): 2, ("z", "z"): 9})
    assert measure(labels, seed=3) == measure(labels, seed=3)
    assert len({measure(labels, seed=seed).kappa.low for seed in range(5)}) > 1


def test_options_without_a_meaning_are_refused() -> None:
    with pytest.raises(InputError, match="n_bootstraps"):
        measure_agreement([], Resampling(0))
    with pytest.raises(InputError, match="confidence"):
        measure_agreement([], Resampling(confidence=0.0))


ARENA = Path(__file__).parents[3] / "shared" / "data" / "arena_judged" / "battles.parquet"

FLEISS = """
0 0 0 0 14
0 2 6 4 2
0 0 3 5 6
0 3 9 2 0
2 2 8 1 1
7 7 0 0 0
3 2 6 3 0
2 5 3 2 2
6 5 2 1 0
0 2 2 3 7
"""

KRIPPENDORFF = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


def readings(labels_by_thing: Sequence[Sequence[Label | None]]) -> list[Reading]:
    return [
        Reading(f"p{index}", {f"judge_{place}": label for place, label in enumerate(labels)})
        for index, labels in enumerate(labels_by_thing)
    ]


def test_kappa_of_several_is_that_of_a_worked_example() -> None:
    """Ten subjects by fourteen raters; https://en.wikipedia.org/wiki/Fleiss%27_kappa."""
    things = [
        [label for label, count in enumerate(counts) for _ in range(int(count))]
        for counts in rows(FLEISS)
    ]
    found = measure_panel(
        readings([[str(each) for each in thing] for thing in things]), order="01234"
    )
    assert found.fleiss_kappa.value == pytest.approx(0.210, abs=5e-4)
    assert found.fleiss_kappa.low is not None


def test_alpha_of_ordered_labels_is_that_of_a_worked_example_with_gaps() -> None:
    """Krippendorff's four observers of twelve units: 0.815 where the labels have an order."""
    units = zip(*rows(KRIPPENDORFF), strict=True)
    things = [[None if label == "." else label for label in unit] for unit in units]
    found = measure_panel(readings(things), order="12345")
    assert found.krippendorff_alpha.value == pytest.approx(0.815, abs=5e-4)


def test_two_readers_without_gaps_have_nearly_the_kappa_of_two() -> None:
    generator = np.random.default_rng(0)
    truth = generator.choice(["A", "tie", "B"], 4000)
    noisy = np.where(generator.random(4000) < 0.5, generator.choice(["A", "tie", "B"], 4000), truth)
    things = [(str(a), str(b)) for a, b in zip(truth, noisy, strict=True)]
    found = measure_panel(readings(things), order=("A", "tie", "B"), resampling=Resampling(100))
    two = measure_agreement(
        [LabelPair(f"p{i}", *each) for i, each in enumerate(things)], Resampling(100)
    )
    assert found.fleiss_kappa.value == pytest.approx(two.kappa.value, abs=2e-3)


def test_several_with_half_votes_agree_as_those_who_say_each_half_in_turn() -> None:
    order, flip = ("A", "tie", "B"), ("A", "B")
    things: list[list[Label]] = [
        ["A", "A", flip],
        ["B", flip, "tie"],
        ["tie", "A", "B"],
        ["B", "B", "B"],
        ["A", "A", "B"],
    ]
    found = measure_panel(readings(things), order=order, resampling=Resampling(50))
    # Each thing once for either half of its flip: the coincidences are the same.
    halves: list[list[Label]] = [
        [half if label == flip else label for label in thing] for thing in things for half in flip
    ]
    slow = measure_panel(readings(halves), order=order, resampling=Resampling(50))
    assert found.fleiss_kappa.value == pytest.approx(slow.fleiss_kappa.value)
    # A vote that is split agrees with no other one for sure.
    alike = measure_panel(readings([["A", "A", "A"], [flip, flip, flip]]), order=order)
    assert (alike.unanimous.count, alike.unanimous.n) == (1, 2)


def test_two_of_three_who_answer_alike_are_not_unanimous() -> None:
    found = measure_panel(
        readings([["A", "A", None], ["A", "A", "A"], ["B", "tie", "B"]]), order=("A", "tie", "B")
    )
    assert (found.n, found.n_silent) == (3, 1)
    assert (found.unanimous.count, found.unanimous.n) == (1, 3)


def test_who_was_not_asked_is_in_no_denominator() -> None:
    found = measure_panel(readings([["A", "A"], ["A"], ["A", "A", "A"]]), order=("A", "tie", "B"))
    assert (found.unanimous.count, found.unanimous.n) == (2, 2)
    assert found.fleiss_kappa.value is None
    assert found.krippendorff_alpha.value is None


def test_opposite_verdicts_disagree_more_than_a_verdict_and_a_tie() -> None:
    order = ("A", "tie", "B")
    shared = [["A", "A"], ["B", "B"], ["tie", "tie"]] * 5
    near = measure_panel(readings([*shared, *[["A", "tie"], ["tie", "B"]] * 3]), order=order)
    far = measure_panel(readings([*shared, *[["A", "B"], ["tie", "tie"]] * 3]), order=order)
    assert near.krippendorff_alpha.value is not None
    assert far.krippendorff_alpha.value is not None
    assert near.krippendorff_alpha.value > far.krippendorff_alpha.value


def test_labels_outside_the_order_are_refused() -> None:
    with pytest.raises(InputError, match="'maybe'"):
        measure_panel(readings([["A", "maybe"]]), order=("A", "tie", "B"))


@pytest.mark.skipif(not ARENA.exists(), reason="the arena's verdicts are not in this checkout")
def test_the_arenas_judges_together_are_worse_than_the_best_of_them() -> None:
    frame = pd.read_parquet(ARENA)
    said = {"model_a": Outcome.A_WINS, "model_b": Outcome.B_WINS}
    judges = ("gpt4", "claude3", "gpt35")
    columns = {
        name: [said.get(each, Outcome.TIE) for each in frame[f"winner_{name}"]]
        for name in (*judges, "human")
    }

    def kappa(labels: Sequence[Outcome]) -> float | None:
        pairs = zip(frame.question_id, columns["human"], labels, strict=True)
        return measure_agreement([LabelPair(*each) for each in pairs], Resampling(1)).kappa.value

    votes = list(zip(*(columns[name] for name in judges), strict=True))

    def together(weights: Sequence[float]) -> list[Outcome]:
        leads = [
            sum(
                weight * ((each.share or 0) - 0.5)
                for each, weight in zip(vote, weights, strict=True)
            )
            for vote in votes
        ]
        return [
            Outcome.A_WINS if lead > 0 else Outcome.B_WINS if lead < 0 else Outcome.TIE
            for lead in leads
        ]

    assert [kappa(columns[name]) for name in judges] == pytest.approx(
        [0.329, 0.211, 0.073], abs=5e-4
    )
    equal, aware = kappa(together((1.0, 1.0, 1.0))), kappa(together((1.599, 0.970, 0.645)))
    assert equal is not None
    assert aware is not None
    assert equal < aware < 0.329


@given(st.integers(2, 5), st.integers(0, 99))
def test_effective_votes_are_all_where_voters_are_independent_and_one_where_they_are_alike(
    n_voters: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    names = [f"p{number}" for number in range(400)]
    alone, lean = rng.choice([0, 0.5, 1], (400, n_voters)), rng.integers(0, 2, 400) / 3

    def effective(shares: NDArray[np.float64]) -> Estimate:
        votes = zip(names, lean, shares.tolist(), strict=True)
        return measure_effective_votes(votes, Resampling(100, seed))

    apart = effective(alone + lean[:, None])
    assert apart.value == pytest.approx(n_voters, rel=0.35)
    assert (apart.low or 0) < (apart.value or 0) < (apart.high or 0)
    same = effective(np.repeat(alone[:, :1], n_voters, axis=1))
    assert same.value == pytest.approx(1)
    # The half of the votes is one voter's: the variance of the mean says how many they are.
    mixed = np.where(rng.random((400, n_voters)) < 0.5, alone[:, :1], alone)
    spread = mixed - np.array([mixed[lean == each].mean(axis=0) for each in lean])
    expected = spread.var(axis=0).mean() / spread.mean(axis=1).var()
    assert effective(mixed).value == pytest.approx(expected)
    assert measure_effective_votes([], Resampling(100)).value is None
