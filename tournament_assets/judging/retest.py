"""Pairs drawn to be judged a second time, to see whether the judge repeats itself."""

from collections.abc import Sequence

import numpy as np

from tournament_assets.judging.controls import identify, require_sample
from tournament_assets.judging.pairing import PairToJudge


def draw_retest(pairs: Sequence[PairToJudge], *, sample: int, seed: int) -> list[PairToJudge]:
    """Draw pairs to be judged a second time.

    Every source and every two entrants have their proportional share, so that the agreement
    found is the tournament's. Pairs of identical responses are left out, which the tournament
    does not ask about, and so is a pair whose two texts were drawn with other entrants' names.

    Args:
        pairs: The tournament's pairs on one dimension, in any order.
        sample: The most pairs to draw.
        seed: Seeds the draw; a smaller sample is the beginning of a larger one.

    Raises:
        InputError: If `sample` is negative.
    """
    require_sample(sample)
    generator = np.random.default_rng(seed)
    cells: dict[tuple[str, str, str], list[PairToJudge]] = {}
    for pair in sorted(pairs, key=identify):
        if pair.response_a != pair.response_b:
            low, high = sorted((pair.entrant_a, pair.entrant_b))
            cells.setdefault((pair.source, low, high), []).append(pair)
    ranked: list[tuple[float, PairToJudge]] = []
    for _, members in sorted(cells.items()):
        # Each cell's pairs are spread evenly over 0 to 1: any part of that line holds the same
        # share of every cell.
        offset = generator.random()
        ranked.extend(
            ((place + offset) / len(members), members[pick])
            for place, pick in enumerate(generator.permutation(len(members)))
        )
    drawn: dict[tuple[str, frozenset[str]], PairToJudge] = {}
    for _, pair in sorted(ranked, key=lambda entry: (entry[0], identify(entry[1]))):
        drawn.setdefault((pair.prompt_id, frozenset((pair.response_a, pair.response_b))), pair)
    return list(drawn.values())[:sample]
