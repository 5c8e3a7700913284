"""Other tools' results as a finished run, which a gate can be held on."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from tournament_assets.extras.results.reading import ResultOptions, number_of, read_results
from tournament_assets.extras.results.settled_pairs import battle_pairs, hold_battles, score_pairs
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import hint_at
from tournament_assets.run_comparison.differences import SettledPair
from tournament_assets.run_comparison.run_reading import FinishedRun


def run_of_results(paths: Sequence[Path], reading: Mapping[str, Any]) -> FinishedRun:
    """Return files of results as a run.

    Args:
        reading: How to read scores, by the fields of `ResultOptions`.
    """
    kinds = {each.name: type(each.default) for each in fields(ResultOptions)}
    if unknown := sorted(reading.keys() - kinds):
        raise InputError(
            f"results cannot be read by {name!r}; expected one of {', '.join(kinds)}"
            f"{hint_at(name, kinds)}"
            for name in unknown
        )
    values = {
        name: bool(number_of(value)) if kinds[name] is bool else value
        for name, value in reading.items()
    }
    if not reading and hold_battles(paths):
        rows = battle_pairs(paths)
    else:
        rows = score_pairs(read_results(paths, ResultOptions(**values)))
    pairs = {name: tuple(map(SettledPair.of, of)) for name, of in rows.items()}
    entrants = {
        row[side] for of in rows.values() for row in of for side in ("entrant_a", "entrant_b")
    }
    manifest = {"entrants": sorted(entrants), "trust": {name: {} for name in rows}}
    return FinishedRun(paths[0], manifest, pairs, {}, {})


ROWS = (run_of_results,)
"""The functions by which this extra reads other tools' files as a run."""
