from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tournament_assets.audits.agreement import (
    LabelPair,
    Reading,
    measure_agreement,
    measure_panel,
)
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.verdicts import Outcome, settle_together

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


def readings(labels_by_thing: Sequence[Sequence[str | None]]) -> list[Reading]:
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
    found = measure_panel(readings(things), order=("A", "tie", "B"), n_bootstraps=100)
    two = measure_agreement(
        [LabelPair(f"p{i}", *each) for i, each in enumerate(things)], n_bootstraps=100
    )
    assert found.fleiss_kappa.value == pytest.approx(two.kappa, abs=2e-3)


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
    with pytest.raises(InputError, match="'maybe' is not in the order"):
        measure_panel(readings([["A", "maybe"]]), order=("A", "tie", "B"))


@pytest.mark.skipif(not ARENA.exists(), reason="the arena's verdicts are not in this checkout")
def test_plurality_of_the_arenas_judges_is_worse_than_the_best_of_them() -> None:
    frame = pd.read_parquet(ARENA)
    said = {"model_a": Outcome.A_WINS, "model_b": Outcome.B_WINS}
    judges = ("gpt4", "claude3", "gpt35")
    columns = {
        name: [said.get(each, Outcome.TIE) for each in frame[f"winner_{name}"]]
        for name in (*judges, "human")
    }

    def kappa(labels: Sequence[Outcome]) -> float | None:
        pairs = zip(frame.question_id, columns["human"], labels, strict=True)
        return measure_agreement([LabelPair(*each) for each in pairs], n_bootstraps=1).kappa

    votes = list(zip(*(columns[name] for name in judges), strict=True))
    equal = [settle_together([(each, 1.0) for each in vote]) for vote in votes]
    gammas = (1.599, 0.970, 0.645)
    weighed = [settle_together(list(zip(vote, gammas, strict=True))) for vote in votes]
    level = {Outcome.INCONSISTENT: Outcome.TIE}
    assert [kappa(columns[name]) for name in judges] == pytest.approx(
        [0.329, 0.211, 0.073], abs=5e-4
    )
    plurality = kappa([level.get(each, each) for each in equal])
    assert plurality == pytest.approx(0.293, abs=5e-4)
    aware = kappa([level.get(each, each) for each in weighed])
    assert aware is not None
    assert plurality is not None
    assert aware > plurality
