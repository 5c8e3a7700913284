"""How often ratings as people would give them hold people's: `python -m benchmarks.people FILE`.

Reads comparisons that people and judges decided (Parquet with the columns `question_id`, `model_a`,
`model_b`, `winner_human` and `winner_<judge>`, such as the public arena set behind
https://arxiv.org/abs/2402.17826), draws labels from them again and again, and counts how often the
nominal 95 % intervals hold the rating by all people's votes: by the labels alone, by the judge
alone, and prediction-powered, with all of a question as one draw. Then draws as many labels where
one is worth most and compares the errors. Prints two tables in Markdown; the same options print
the same.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tournament_assets.extras.people.labelled_pairs import LabelledPair
from tournament_assets.extras.people.prediction_powered import (
    PoweredFit,
    draw_by_worth,
    label_worth,
    rate_prediction_powered,
)

JUDGES = ("gpt4", "claude3", "gpt35")
CONFIDENCE = 0.95
_SHARES = {"model_a": 1.0, "model_b": 0.0}

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Arena:
    """Pairs that people and one judge decided, all labelled.

    Attributes:
        pairs: Every comparison, with people's vote as its label.
        entrants: Who takes part.
    """

    pairs: tuple[LabelledPair, ...]
    entrants: tuple[str, ...]

    def rate(self, pairs: Sequence[LabelledPair], weight: float | None) -> PoweredFit:
        """Rate pairs around 0."""
        return rate_prediction_powered(
            pairs,
            entrants=self.entrants,
            confidence=CONFIDENCE,
            weight=weight,
            initial_rating=0.0,
        )


@dataclass(slots=True)
class Tally:
    """What draws came to: whether intervals held, how wide they were, how far ratings strayed."""

    held: list[bool] = field(default_factory=list)
    reach: list[float] = field(default_factory=list)
    strayed: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, fit: PoweredFit, aim: Floats) -> None:
        """Count every entrant that has an interval."""
        self.weights.append(fit.weight)
        for each, target in zip(fit.ratings, aim, strict=True):
            if each.value is not None:
                self.strayed.append((each.value - target) ** 2)
            if each.low is not None and each.high is not None:
                self.held.append(bool(each.low <= target <= each.high))
                self.reach.append((each.high - each.low) / 2)


def read_arena(path: Path, judge: str) -> Arena:
    """Read the comparisons, with one judge's verdicts; a tie of either kind is half a win."""
    import pyarrow.parquet as pq

    rows = pq.read_table(path).to_pylist()
    pairs = tuple(
        LabelledPair(
            str(row["question_id"]),
            row["model_a"],
            row["model_b"],
            _SHARES.get(row[f"winner_{judge}"], 0.5),
            _SHARES.get(row["winner_human"], 0.5),
        )
        for row in rows
    )
    return Arena(pairs, tuple(sorted({name for p in pairs for name in (p.first, p.second)})))


def ratings_of(fit: PoweredFit) -> Floats:
    """Return the ratings, shape (n_entrants,)."""
    return np.array([each.value for each in fit.ratings], dtype=np.float64)


def draw_labels(
    pairs: Sequence[LabelledPair], is_drawn: NDArray[np.bool_], chances: Floats | None = None
) -> list[LabelledPair]:
    """Return the pairs with the labels of those that were drawn and no others."""
    given = np.ones(len(pairs)) if chances is None else chances
    return [
        replace(pair, labelled=pair.labelled if drawn else None, chance=float(chance))
        for pair, drawn, chance in zip(pairs, is_drawn, given, strict=True)
    ]


def random_draws(arena: Arena, *, n_labels: int, draws: int, seed: int) -> Iterator[Floats]:
    """Yield uniform numbers of the pairs, of which the n_labels least are a simple random draw."""
    generator = np.random.default_rng([seed, n_labels])
    for _ in range(draws):
        yield generator.random(len(arena.pairs))


def coverage(arena: Arena, *, n_labels: int, draws: int, seed: int) -> dict[str, Tally]:
    """Count how often intervals hold the rating by all people's votes, by basis."""
    aim = ratings_of(arena.rate(arena.pairs, 0.0))
    judged = [replace(pair, labelled=pair.judged) for pair in arena.pairs]
    tallies = {"judge": Tally(), "people": Tally(), "both": Tally()}
    tallies["judge"].add(arena.rate(judged, 0.0), aim)
    for numbers in random_draws(arena, n_labels=n_labels, draws=draws, seed=seed):
        pairs = draw_labels(arena.pairs, numbers < np.partition(numbers, n_labels)[n_labels])
        # Without verdicts there is no need to look at the pairs that have no label.
        alone = [pair for pair in pairs if pair.labelled is not None]
        tallies["people"].add(arena.rate(alone, 0.0), aim)
        tallies["both"].add(arena.rate(pairs, None), aim)
    return tallies


def active_gain(
    arena: Arena, *, n_labels: int, first: int, draws: int, seed: int
) -> tuple[Tally, Tally]:
    """Rate by random labels and by as many of which all but the first were drawn for their worth.

    Args:
        arena: The pairs.
        n_labels: How many labels there are in the end.
        first: How many of them are drawn evenly.
        draws: How often.
        seed: Seeds the draws.
    """
    aim = ratings_of(arena.rate(arena.pairs, 0.0))
    even, active = Tally(), Tally()
    for numbers in random_draws(arena, n_labels=n_labels, draws=draws, seed=seed):
        order = np.argsort(numbers)
        at_random, began = np.zeros((2, numbers.size), dtype=np.bool_)
        at_random[order[:n_labels]] = began[order[:first]] = True
        even.add(arena.rate(draw_labels(arena.pairs, at_random), None), aim)
        worth = label_worth(draw_labels(arena.pairs, began), entrants=arena.entrants)
        chances = np.where(began, first / numbers.size, 0.0)
        drawn = draw_by_worth(worth, numbers, chances, n_labels - first)
        began[drawn.chosen] = True
        active.add(arena.rate(draw_labels(arena.pairs, began, drawn.chances), None), aim)
    return even, active


def coverage_table(path: Path, judges: Sequence[str], sizes: Sequence[int], draws: int) -> str:
    """Return the coverage of every judge and number of labels as a table in Markdown."""
    lines = [
        "| judge | labels | basis | intervals | hold | ± Elo points | weight of the judge |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for judge in judges:
        arena = read_arena(path, judge)
        for n_labels in sizes:
            for basis, found in coverage(arena, n_labels=n_labels, draws=draws, seed=1).items():
                weight = f"{np.mean(found.weights):.2f}" if basis == "both" else ""
                lines.append(
                    f"| {judge} | {n_labels} | {basis} | {len(found.held)} "
                    f"| {np.mean(found.held):.1%} | {np.mean(found.reach):.1f} | {weight} |"
                )
    return "\n".join(lines)


def active_table(path: Path, judges: Sequence[str], sizes: Sequence[int], draws: int) -> str:
    """Return what active labels gain over random ones as a table in Markdown."""
    lines = [
        "| judge | labels | squared error, random | active | labels for the same error "
        "| active intervals hold |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for judge in judges:
        arena = read_arena(path, judge)
        for n_labels in sizes:
            even, active = active_gain(
                arena, n_labels=n_labels, first=n_labels // 4, draws=draws, seed=2
            )
            errors = np.mean(even.strayed), np.mean(active.strayed)
            lines.append(
                f"| {judge} | {n_labels} | {errors[0]:.0f} | {errors[1]:.0f} "
                f"| × {errors[0] / errors[1]:.2f} | {np.mean(active.held):.1%} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Print both tables and the processor time they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="Parquet with people's and judges' winners")
    parser.add_argument("--judge", nargs="+", default=list(JUDGES))
    parser.add_argument("--labels", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--active-draws", type=int, default=100)
    given = parser.parse_args()
    began = time.process_time()
    if given.draws:
        print(coverage_table(given.file, given.judge, given.labels, given.draws), end="\n\n")
    if given.active_draws:
        print(active_table(given.file, given.judge, given.labels, given.active_draws), end="\n\n")
    print(f"{time.process_time() - began:.0f} s of processor time")


if __name__ == "__main__":
    main()
