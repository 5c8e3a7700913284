"""Battles that other tools wrote, as rows of settled pairs."""

from collections.abc import Sequence
from pathlib import Path

from tournament_assets.battles.files import BattleFile, FormatOptions
from tournament_assets.battles.registry import FORMATS, detect_format, read_battles
from tournament_assets.storage.foreign_tables import Row
from tournament_assets.storage.row_files import sample_file
from tournament_assets.tournament.verdicts import Outcome

_SHARES = {"model_a": 1.0, "model_b": 0.0}


def hold_battles(paths: Sequence[Path]) -> bool:
    """Return whether files, or judges' folders, hold battles."""
    if any(path.suffix in (".eval", ".gz") for path in paths):
        return False
    samples = [sample_file(path) for path in paths if not path.is_dir()]
    return all(any(each.recognises(of) for each in FORMATS.values()) for of in samples)


def open_battles(path: Path) -> BattleFile:
    """Open a file of battles, whether or not it says who decided, which changes no claim."""
    is_said = getattr(detect_format(path), "source", "") is not None
    return read_battles(path, options=FormatOptions(source=None if is_said else "llm-judge"))


def battle_rows(paths: Sequence[Path]) -> dict[str, list[Row]]:
    """Return the battles of files by dimension, in their order."""
    rows: dict[str, list[Row]] = {}
    for path in paths:
        for battle in open_battles(path).table.to_pylist():
            dimension = battle["dimension"] or "wins"
            of_dimension, pref = rows.setdefault(dimension, []), battle["pref"]
            share = _SHARES.get(battle["winner"], 0.5) if pref is None else 1 - pref
            names = dimension, battle["model_a"], battle["model_b"]
            prompt = battle["question_id"] or f"battle {len(of_dimension) + 1}"
            numbers = share, battle["weight"], battle["sample"]
            of_dimension.append(pair_row(*names, prompt, *numbers))
    return rows


def pair_row(
    dimension: str, a: str, b: str, prompt: str, share: float | None, weight: float, sample: int
) -> Row:
    """Return every field of a settled pair, of which `a` got a share of the win."""
    outcome = Outcome.UNJUDGED
    if share is not None:
        outcome = Outcome.TIE if share == 0.5 else [Outcome.B_WINS, Outcome.A_WINS][share > 0.5]
    return {
        "prompt_id": prompt,
        "dimension": dimension,
        "entrant_a": a,
        "entrant_b": b,
        "outcome": outcome,
        "weight": weight,
        "share": share,
        "sample": sample,
    }
