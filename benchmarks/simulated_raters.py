"""How often intervals hold what raters say: `python -m benchmarks.simulated_raters`.

Draws raters and their labels, and counts how often ratings by them, the share of right verdicts and
the share of wins hold those raters' opinion, and people's. Prints tables in Markdown; the same
options print the same.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray

from benchmarks.simulated_tournaments import STRENGTHS
from tournament_assets.extras.people.config_keys import Opinion
from tournament_assets.extras.people.judge_calibration import (
    CalibratedPair,
    Labelling,
    calibrate_judge,
)
from tournament_assets.extras.people.labelled_pairs import LabelledPair
from tournament_assets.extras.people.prediction_powered import rate_prediction_powered
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.tournament.verdicts import Outcome

CONFIDENCE = 0.95
RATERS = (1, 2, 3, 5, 6, 12)
ENTRANTS = tuple(f"entrant_{index}" for index in range(len(STRENGTHS)))
_PAIRS = tuple(combinations(range(len(STRENGTHS)), 2))
_GAPS = np.array([STRENGTHS[first] - STRENGTHS[second] for first, second in _PAIRS])
_PROMPT_SIGMA = 0.5
"""Logits by which the gap of two entrants varies from prompt to prompt."""
_NODES, _WEIGHTS = hermegauss(60)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RaterDesign:
    """How labels are drawn.

    Attributes:
        n_raters: How many raters; everyone labels as many pairs.
        n_labels: Labels in all, one a pair.
        sigma: Standard deviation of a rater's own preference for one entrant over another, in
            logits, apart for each two entrants.
        n_pairs: Pairs that the judge settled, three a prompt; it repeats what its rater says in 60
            of 100, and otherwise tosses a coin.
    """

    n_raters: int
    n_labels: int
    sigma: float = 0.6
    n_pairs: int = 1500


def _aim(tastes: Floats) -> Floats:
    """Ratings by the mean opinion of raters whose tastes have shape (n_raters, n_pairs)."""
    spread = (_GAPS + tastes)[:, :, None] + _PROMPT_SIGMA * _NODES
    share = ((1 / (1 + np.exp(-spread))) @ (_WEIGHTS / _WEIGHTS.sum())).mean(axis=0)
    pairs = [
        LabelledPair(str(at), ENTRANTS[first], ENTRANTS[second], float(won), float(won))
        for at, ((first, second), won) in enumerate(zip(_PAIRS, share, strict=True))
    ]
    fit = rate_prediction_powered(pairs, entrants=ENTRANTS, confidence=CONFIDENCE, weight=0.0)
    return np.array([each.value for each in fit.ratings], dtype=np.float64)


def _draw(
    design: RaterDesign, tastes: Floats, generator: np.random.Generator
) -> list[LabelledPair]:
    n = design.n_pairs
    which, rater = generator.integers(len(_PAIRS), size=n), np.arange(n) % design.n_raters
    gaps = _GAPS[which] + _PROMPT_SIGMA * generator.standard_normal(n) + tastes[rater, which]
    says = (generator.random(n) < 1 / (1 + np.exp(-gaps))).astype(np.float64)
    judged = np.where(generator.random(n) < 0.6, says, generator.integers(2, size=n))
    drawn = generator.permutation(n) < design.n_labels
    return [
        LabelledPair(
            f"prompt_{at // 3}",
            ENTRANTS[_PAIRS[which[at]][0]],
            ENTRANTS[_PAIRS[which[at]][1]],
            judged=float(judged[at]),
            labelled=float(says[at]) if drawn[at] else None,
            raters=((f"rater_{rater[at]}", float(says[at])),) if drawn[at] else (),
        )
        for at in range(n)
    ]


def rater_coverage(
    design: RaterDesign, *, opinions: Sequence[Opinion], n_draws: int, seed: int
) -> dict[Opinion, list[float]]:
    """Return the share of entrants whose interval holds their rating, draw by draw.

    The aim is the rating by these raters' mean opinion on all prompts, or by that of 20,000 people
    of whom the raters are a random draw.

    Args:
        design: How labels are drawn.
        opinions: Whose opinion is estimated.
        n_draws: How many times raters and labels are drawn.
        seed: Seeds everything.

    Returns:
        Shares by opinion; an opinion that is refused an interval has none.
    """
    generator = np.random.default_rng(seed)
    of_people = _aim(design.sigma * generator.standard_normal((20_000, len(_PAIRS))))
    held: dict[Opinion, list[float]] = {opinion: [] for opinion in opinions}
    for _ in range(n_draws):
        tastes = design.sigma * generator.standard_normal((design.n_raters, len(_PAIRS)))
        pairs = _draw(design, tastes, generator)
        for opinion in opinions:
            fit = rate_prediction_powered(
                pairs, entrants=ENTRANTS, confidence=CONFIDENCE, about=opinion
            )
            aim = of_people if opinion == "people" else _aim(tastes)
            found = [
                each.low <= target <= each.high
                for each, target in zip(fit.ratings, aim, strict=True)
                if each.low is not None and each.high is not None
            ]
            if found:
                held[opinion].append(float(np.mean(found)))
    return held


MEASURES = ("right", "wins")
"""What labels estimate of a judge: verdicts that are right, and wins of an entrant."""
_WON = (0.8, 1.0)
"""Mean and standard deviation, over prompts, of the logit with which the judge names the first."""
_SAYS = (-0.4, 1.0)
"""Logits with which people name the first where the judge names the second, and the first."""


def _opinion(tastes: Floats) -> dict[str, float]:
    """Return the measures by raters whose tastes have shape (n_raters, 2), after each verdict."""
    weights = _WEIGHTS / _WEIGHTS.sum()
    won = float(weights @ (1 / (1 + np.exp(-(_WON[0] + _WON[1] * _NODES)))))
    logits = np.array(_SAYS)[:, None] + _PROMPT_SIGMA * _NODES + tastes[..., None]
    lost, kept = ((1 / (1 + np.exp(-logits))) @ weights).mean(axis=0)
    return {
        "right": won * kept + (1 - won) * (1 - lost),
        "wins": won * kept + (1 - won) * lost,
    }


def _draw_labels(
    design: RaterDesign, tastes: Floats, generator: np.random.Generator
) -> list[CalibratedPair]:
    n = design.n_pairs
    prompts, rater = np.arange(n) // 3, np.arange(n) % design.n_raters
    of_prompt, noise = generator.standard_normal((2, prompts[-1] + 1))[:, prompts]
    won = generator.random(n) < 1 / (1 + np.exp(-(_WON[0] + _WON[1] * of_prompt)))
    logits = np.array(_SAYS)[won.astype(int)] + _PROMPT_SIGMA * noise
    says = generator.random(n) < 1 / (1 + np.exp(-(logits + tastes[rater, won.astype(int)])))
    drawn = generator.permutation(n) < design.n_labels
    return [
        CalibratedPair(
            f"prompt_{prompts[at]}",
            "",
            ENTRANTS[0],
            ENTRANTS[1],
            Outcome.A_WINS if won[at] else Outcome.B_WINS,
            (Labelling(f"rater_{rater[at]}", "a" if says[at] else "b"),) if drawn[at] else (),
        )
        for at in range(n)
    ]


def measure_coverage(
    design: RaterDesign, *, opinions: Sequence[Opinion], n_draws: int, seed: int
) -> dict[tuple[str, Opinion], list[float]]:
    """Return, draw by draw, whether the interval of each measure holds it, as 1 or 0.

    A rater's own preference differs between pairs that the judge gives to the first and to the
    second, so raters differ in what they prefer and in how often they say what the judge says. The
    arguments are those of `rater_coverage`; a measure that is refused an interval has none.
    """
    generator = np.random.default_rng(seed)
    of_people = _opinion(design.sigma * generator.standard_normal((20_000, 2)))
    held: dict[tuple[str, Opinion], list[float]] = {
        (measure, opinion): [] for measure in MEASURES for opinion in opinions
    }
    for _ in range(n_draws):
        tastes = design.sigma * generator.standard_normal((design.n_raters, 2))
        pairs = _draw_labels(design, tastes, generator)
        for opinion in opinions:
            aims = of_people if opinion == "people" else _opinion(tastes)
            rows = calibrate_judge(
                pairs,
                dimension="",
                entrants=ENTRANTS[:1],
                about=opinion,
                resampling=Resampling(1, confidence=CONFIDENCE),
            )
            for row in rows:
                if row.measure in aims and row.low is not None and row.high is not None:
                    is_held = row.low <= aims[row.measure] <= row.high
                    held[row.measure, opinion].append(float(is_held))
    return held


def _cell(held: Sequence[float]) -> str:
    if not held:
        return "refused"
    return f"{100 * np.mean(held):.1f} ± {100 * np.std(held) / math.sqrt(len(held)):.1f} %"


OPINIONS: tuple[Opinion, ...] = ("these_raters", "people")


def print_raters(*, n_draws: int, seed: int) -> None:
    """Measure how often intervals hold raters' opinion, and people's, and print one table."""
    sigma = RaterDesign(1, 1).sigma
    print(f"\n{n_draws} draws of raters and labels; raters differ by {sigma} logits\n")
    kinds = [f"{what}, {opinion}" for what in ("ratings", *MEASURES) for opinion in OPINIONS]
    print("| raters | labels |", " | ".join(kinds), "|\n|" + "---:|" * (2 + len(kinds)))
    for n_raters in RATERS:
        for n_labels in (300, 1000):
            design = RaterDesign(n_raters, n_labels)
            ratings = rater_coverage(design, opinions=OPINIONS, n_draws=n_draws, seed=seed)
            measures = measure_coverage(design, opinions=OPINIONS, n_draws=n_draws, seed=seed)
            cells = [_cell(held) for held in (*ratings.values(), *measures.values())]
            print(f"| {n_raters} | {n_labels} |", " | ".join(cells), "|", flush=True)


def main() -> None:
    """Measure every number of raters and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400, help="of raters and labels, per row")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print_raters(n_draws=options.draws, seed=options.seed)


if __name__ == "__main__":
    main()
