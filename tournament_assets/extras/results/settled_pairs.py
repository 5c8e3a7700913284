"""Other tools' results as rows of settled pairs, by dimension."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from tournament_assets.battles.files import FormatOptions
from tournament_assets.battles.registry import FORMATS, detect_format, read_battles
from tournament_assets.extras.results.reading import ScoreTable
from tournament_assets.storage.foreign_tables import Row
from tournament_assets.storage.row_files import sample_file
from tournament_assets.tournament.verdicts import Outcome

Pairs = Mapping[str, Sequence[Row]]
"""Every field of a `Judgment` of each pair, by dimension."""
_OUTCOMES = Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE
_WINNERS = {"model_a": Outcome.A_WINS, "model_b": Outcome.B_WINS}


def hold_battles(paths: Sequence[Path]) -> bool:
    """Return whether files, or judges' folders, hold battles."""
    return all(
        path.is_dir()
        or (
            path.suffix != ".eval"
            and any(each.recognises(sample_file(path)) for each in FORMATS.values())
        )
        for path in paths
    )


def battle_pairs(paths: Sequence[Path]) -> Pairs:
    """Return the battles of files; each of several on one prompt is a sample of it."""
    pairs: dict[str, list[Row]] = {}
    for path in paths:
        # Who decided changes no claim, but has to be said where a format does not.
        is_said = getattr(detect_format(path), "source", "") is not None
        options = FormatOptions(source=None if is_said else "llm-judge")
        for battle in read_battles(path, options=options).table.to_pylist():
            dimension = battle["dimension"] or "wins"
            rows = pairs.setdefault(dimension, [])
            number, pref = len(rows) + 1, battle["pref"]
            rows.append(
                {
                    "prompt_id": battle["question_id"] or f"battle {number}",
                    "dimension": dimension,
                    "entrant_a": battle["model_a"],
                    "entrant_b": battle["model_b"],
                    "outcome": _WINNERS.get(battle["winner"], Outcome.TIE),
                    "weight": battle["weight"],
                    "share": None if pref is None else 1 - pref,
                    "sample": number,
                }
            )
    return pairs


def score_pairs(table: ScoreTable) -> Pairs:
    """Return every two systems on every item; each item of a group is a sample of it."""
    rows: list[Row] = []
    for a, b in combinations(range(len(table.systems)), 2):
        lead = table.gains[:, a] - table.gains[:, b]
        # A group weighs as much as its items.
        weight = np.maximum(1, np.bincount(table.groups, ~np.isnan(lead)))[table.groups]
        outcome = np.select([lead > 0, lead < 0, lead == 0], [*_OUTCOMES], Outcome.UNJUDGED)
        rows += [
            {
                "prompt_id": f"group {table.groups[item]}",
                "dimension": table.score,
                "entrant_a": table.systems[a],
                "entrant_b": table.systems[b],
                "outcome": outcome[item],
                "weight": float(weight[item]),
                "share": None if np.isnan(lead[item]) else float(0.5 + lead[item] / 2),
                "sample": item + 1,
            }
            for item in range(len(lead))
        ]
    return {table.score: rows}
