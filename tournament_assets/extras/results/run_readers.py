"""Other tools' results as a finished run, which a gate can be held on."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from tournament_assets.extras.results.battle_rows import battle_rows, hold_battles, pair_row
from tournament_assets.extras.results.reading import ResultOptions, read_results
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import hint_at
from tournament_assets.run_comparison.differences import SettledPair
from tournament_assets.run_comparison.run_reading import FinishedRun


def run_of_results(paths: Sequence[Path], reading: Mapping[str, Any]) -> FinishedRun:
    """Return files of results as a run.

    Args:
        reading: How to read scores, by the fields of `ResultOptions`.
    """
    names = [name for name in ResultOptions.__slots__ if name != "where"]
    if unknown := [name for name in reading if name not in names]:
        raise InputError(
            f"results cannot be read by {name!r}; expected one of {', '.join(names)}"
            f"{hint_at(name, names)}"
            for name in unknown
        )
    if not reading and hold_battles(paths):
        pairs = {name: tuple(map(SettledPair.of, of)) for name, of in battle_rows(paths).items()}
    else:
        pairs = _score_pairs(paths, ResultOptions(**reading))
    every = [pair for of in pairs.values() for pair in of]
    entrants = {name for pair in every for name in (pair.entrant_a, pair.entrant_b)}
    manifest = {"entrants": sorted(entrants), "trust": {name: {} for name in pairs}}
    return FinishedRun(paths[0], manifest, pairs, {}, {})


def _score_pairs(
    paths: Sequence[Path], options: ResultOptions
) -> dict[str, tuple[SettledPair, ...]]:
    """Return every two systems on every item; each item of a group is a sample of it."""
    table = read_results(paths, options)
    rows = []
    for a, b in combinations(range(len(table.systems)), 2):
        share = 0.5 + (table.gains[:, a] - table.gains[:, b]) / 2
        # A group weighs as much as its items.
        weight = np.maximum(1.0, np.bincount(table.groups, ~np.isnan(share)))[table.groups]
        names = table.score, table.systems[a], table.systems[b]
        rows += [
            pair_row(*names, f"group {group}", None if np.isnan(each) else each, of, number)
            for number, (group, each, of) in enumerate(
                zip(table.groups.tolist(), share.tolist(), weight.tolist(), strict=True), start=1
            )
        ]
    return {table.score: tuple(map(SettledPair.of, rows))}


ROWS = (run_of_results,)
"""The functions by which this extra reads other tools' files as a run."""
