"""Other tools' results as a finished run, which a gate can be held on."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from tournament_assets.extras.results.reading import (
    ResultOptions,
    ScoreTable,
    hold_battles,
    open_battles,
    read_results,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import hint_at
from tournament_assets.run_comparison.differences import SettledPair
from tournament_assets.run_comparison.run_reading import FinishedRun
from tournament_assets.tournament.asset_rows import by_dimension
from tournament_assets.tournament.verdicts import Outcome

_SHARES = {"model_a": 1.0, "model_b": 0.0}


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
        every = [pair for path in paths for pair in _battle_pairs(path)]
    else:
        every = [*_score_pairs(read_results(paths, ResultOptions(**reading)))]
    pairs = {name: tuple(of) for name, of in by_dimension(every).items()}
    entrants = {name for pair in every for name in (pair.entrant_a, pair.entrant_b)}
    manifest = {"entrants": sorted(entrants), "trust": {name: {} for name in pairs}}
    return FinishedRun(paths[0], manifest, pairs, {}, {})


def _battle_pairs(path: Path) -> Iterator[SettledPair]:
    for number, battle in enumerate(open_battles(path).table.to_pylist(), start=1):
        share, pref = _SHARES.get(battle["winner"], 0.5), battle["pref"]
        yield _pair(
            (battle["dimension"] or "wins", battle["model_a"], battle["model_b"]),
            prompt=battle["question_id"] or f"{path.name} {number}",
            share=share if pref is None else 1 - pref,
            weight=battle["weight"],
            sample=battle["sample"],
        )


def _score_pairs(table: ScoreTable) -> Iterator[SettledPair]:
    """Yield every two systems on every item; each item of a group is a sample of it."""
    prompts = [f"group {group}" for group in table.groups]
    for a, b in combinations(range(len(table.systems)), 2):
        shares = 0.5 + (table.gains[:, a] - table.gains[:, b]) / 2
        # A group weighs as much as its items.
        weights = np.maximum(1.0, np.bincount(table.groups, ~np.isnan(shares)))[table.groups]
        for item, (share, weight) in enumerate(zip(shares.tolist(), weights.tolist(), strict=True)):
            yield _pair(
                (table.score, table.systems[a], table.systems[b]),
                prompt=prompts[item],
                share=None if np.isnan(share) else share,
                weight=weight,
                sample=item + 1,
            )


def _pair(
    names: tuple[str, str, str], *, prompt: str, share: float | None, weight: float, sample: int
) -> SettledPair:
    """Return a pair on a dimension, of which the first of two got a share of the win."""
    row = dict(zip(("dimension", "entrant_a", "entrant_b"), names, strict=True))
    about = {"share": share, "weight": weight, "sample": sample}
    return SettledPair.of({**row, "prompt_id": prompt, "outcome": Outcome.of_share(share), **about})


ROWS = (run_of_results,)
"""The functions by which this extra reads other tools' files as a run."""
