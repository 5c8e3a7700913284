"""Reads a run directory's verdict files and the settings of its ratings.

It shares no code with what rated or rendered the run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tournament_assets.tournament.errors import InputError

_NO_WINNER = {"tie", "inconsistent", "same_text"}
_JUDGED = {"a_wins", "b_wins", "tie", "inconsistent"}


@dataclass(frozen=True, slots=True)
class SettledPair:
    """One line of a verdict file.

    Attributes:
        outcome: `a_wins`, `b_wins`, `tie`, `inconsistent`, `same_text` or `unjudged`.
        share: The first entrant's share, from 0 to 1; None if the pair was not settled.
    """

    prompt: str
    sample: int
    source: str
    a: str
    b: str
    outcome: str
    share: float | None
    weight: float

    @property
    def is_judged(self) -> bool:
        """Whether readable replies decided it."""
        return self.outcome in _JUDGED


@dataclass(frozen=True, slots=True)
class RunFolder:
    """What a run directory says about the judging.

    Attributes:
        manifest: The content of `manifest.json`.
        settings: How the battles were rated, according to their files.
        pairs: Every pair by dimension, in the order of the verdict files.
        verdicts: The lines that the pairs are from.
        prompts: The texts of the prompts.
        responses: Each entrant's responses in the pairs, by prompt and sample.
    """

    folder: Path
    manifest: Mapping[str, Any]
    settings: Mapping[str, Any]
    pairs: Mapping[str, Sequence[SettledPair]]
    verdicts: Mapping[str, Sequence[Mapping[str, Any]]]
    prompts: Mapping[str, str]
    responses: Mapping[str, Mapping[tuple[str, int], str]]

    @property
    def entrants(self) -> tuple[str, ...]:
        """All entrants, in the order of the tables."""
        return tuple(self.manifest["entrants"])

    @property
    def stops_early(self) -> bool:
        """Whether judging stopped early, so that claims do not rest on intervals."""
        return "pairs_not_needed" in self.manifest


def read_run(folder: Path) -> RunFolder:
    """Read the verdicts and settings of a finished run.

    Raises:
        InputError: If it is not the directory of a finished run, or a verdict file cannot be read
            or contradicts itself.
    """
    try:
        return _read_run(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder}: its manifest, verdicts, matches or battles cannot be read "
            f"({type(error).__name__}: {error}); expected the files of a finished run"
        ) from None


def _read_run(folder: Path) -> RunFolder:
    manifest = _json_of(folder / "manifest.json")
    if not isinstance(manifest, dict) or "dimensions" not in manifest:
        raise InputError(
            f"{folder / 'manifest.json'}: not the manifest of a run; expected the directory of a "
            "finished run, such as runs/pilot_20261104T101500Z"
        )
    paths = {each: folder / "verdicts" / f"{each}.jsonl" for each in manifest["dimensions"]}
    verdicts = {dimension: _rows_of(path) for dimension, path in paths.items()}
    pairs = {each: _pairs_of(paths[each], rows) for each, rows in verdicts.items()}
    settings = json.loads(pq.read_schema(folder / "battles.parquet").metadata[b"rating_settings"])
    prompts: dict[str, str] = {}
    responses: dict[str, dict[tuple[str, int], str]] = {}
    for row in _rows_of(folder / "matches" / "matches.jsonl"):
        key = row["prompt_id"], row["sample"]
        prompts[row["prompt_id"]] = row["prompt_text"]
        for side in "ab":
            responses.setdefault(row[f"entrant_{side}"], {})[key] = row[f"response_{side}"]
    return RunFolder(folder, manifest, settings, pairs, verdicts, prompts, responses)


def _rows_of(path: Path) -> list[Mapping[str, Any]]:
    with _opened(path) as file:
        return [json.loads(line) for line in file]


def _pairs_of(path: Path, rows: Sequence[Mapping[str, Any]]) -> list[SettledPair]:
    found = []
    for number, row in enumerate(rows, start=1):
        pair = SettledPair(
            row["prompt_id"],
            row["sample"],
            row["source"],
            row["entrant_a"],
            row["entrant_b"],
            row["outcome"],
            row["share"],
            row["weight"],
        )
        if not _agrees(pair, row["winner"]):
            raise InputError(
                f"{path}:{number}: outcome {pair.outcome!r} with share {pair.share!r} and "
                f"winner {row['winner']!r}; expected three that agree"
            )
        found.append(pair)
    return found


def _agrees(pair: SettledPair, winner: str | None) -> bool:
    if pair.outcome == "unjudged":
        return pair.share is None and winner is None
    if pair.share is None:
        return False
    if pair.outcome == "a_wins":
        return winner == pair.a and pair.share > 0.5
    if pair.outcome == "b_wins":
        return winner == pair.b and pair.share < 0.5
    return pair.outcome in _NO_WINNER and winner is None


def _json_of(path: Path) -> Any:
    with _opened(path) as file:
        return json.loads(file.read())


def _opened(path: Path) -> Any:
    try:
        return path.open(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise InputError(
            f"{path}: {type(error).__name__}; expected the directory of a finished run, such as "
            "runs/pilot_20261104T101500Z"
        ) from None
