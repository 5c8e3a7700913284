"""Reads finished run directories.

`matches/matches.jsonl` may be missing, because it holds every prompt and response, which people may
not want to keep or share; then it is unknown whether the responses of two runs differ.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.estimates import Rating
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.foundation.fingerprints import fingerprint, fingerprint_text
from tournament_assets.foundation.json_lines import numbered_lines, parse_object
from tournament_assets.reports.csv_tables import read_csv_table
from tournament_assets.run_comparison.differences import SettledPair
from tournament_assets.storage.match_texts import Texts, restore_texts
from tournament_assets.storage.run_directory import read_manifest
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import LeaderboardRow, by_dimension
from tournament_assets.tournament.verdicts import Outcome

_MATCHES = "matches/matches.jsonl"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run directory, read.

    Attributes:
        manifest: The contents of `manifest.json`.
        verdicts: Settled pairs by dimension.
        requests: The answered requests by dimension: the key, followed by a space and the attempt
            if that is not the first.
        standings: The leaderboard's ratings and ranks by dimension, best entrant first.
        rubrics: The rubrics' texts, by dimension.
    """

    folder: Path
    manifest: Mapping[str, Any]
    verdicts: Mapping[str, tuple[SettledPair, ...]]
    requests: Mapping[str, frozenset[str]]
    standings: Mapping[str, tuple[Rating, ...]]
    rubrics: Mapping[str, str] = field(default_factory=dict)

    def at(self, *keys: str) -> Any:
        """Return the manifest's value under keys that lead into objects; None if it has none."""
        value: Any = self.manifest
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    @property
    def pairs(self) -> list[SettledPair]:
        """The settled pairs of all dimensions."""
        return [pair for pairs in self.verdicts.values() for pair in pairs]


_Hashes = Mapping[tuple[str, str, int, str], str]
"""Fingerprints by dimension, prompt and entrant; without an entrant, of the question.

Each is kept once, since a large run has a million pairs.
"""


def read_finished_runs(folders: Sequence[Path]) -> list[FinishedRun]:
    """Read run directories.

    Args:
        folders: The directories.

    Returns:
        The runs, in the same order.

    Raises:
        InputError: If any file is missing, unreadable or invalid; it lists all of them.
    """
    problems = Problems()
    runs = [_Reader(folder, problems).read() for folder in folders]
    problems.raise_if_any()
    return [run for run in runs if run is not None]


RunReader = Callable[[Sequence[Path], Mapping[str, Any]], FinishedRun]
"""Reads other tools' files as a run, given how."""


def read_run(paths: Sequence[Path], reading: Mapping[str, Any]) -> FinishedRun:
    """Read one run directory, or the results in other tools' files as a run.

    Args:
        reading: How to read such results, where their columns do not show it.

    Raises:
        InputError: With everything that is wrong with the files.
    """
    are_files = all(path.is_file() for path in paths)
    readers: Sequence[RunReader] = added_rows("run_readers") if are_files else ()
    for read in readers:
        return read(paths, reading)
    if len(paths) > 1:
        raise InputError(f"found {len(paths)} paths; expected one run directory, or files alone")
    return read_finished_runs(paths)[0]


class _Reader:
    """Reads one directory and collects its problems."""

    def __init__(self, folder: Path, problems: Problems) -> None:
        self._folder = folder
        self._problems = problems

    def read(self) -> FinishedRun | None:
        try:
            manifest = read_manifest(self._folder)
        except InputError as error:
            self._problems.extend(error.problems)
            return None
        dimensions = manifest.get("dimensions", [])
        if not isinstance(dimensions, list) or not all(
            isinstance(name, str) and Path(name).name == name for name in dimensions
        ):
            self._note("manifest.json", f"names the dimensions {dimensions!r}; expected names")
            return None
        hashes = self._read_hashes()
        verdicts, requests = {}, {}
        standings = self._read_standings(dimensions)
        for name in dimensions:
            verdicts[name], requests[name] = self._read_verdicts(name, hashes)
        return FinishedRun(
            self._folder,
            manifest,
            verdicts,
            requests,
            standings,
            self._read_rubrics(dimensions, manifest),
        )

    def _read_rubrics(self, dimensions: list[str], manifest: Mapping[str, Any]) -> dict[str, str]:
        texts = {}
        for name in dimensions:
            try:
                hash_ = manifest["inputs"]["rubrics"][name]["hash"]
                texts[name] = str(manifest["rubrics"][name])
            except (KeyError, TypeError):
                continue  # nothing was judged on it, or its text is not known
            if fingerprint_text(texts[name]) != hash_:
                self._note(
                    "manifest.json",
                    f"the rubric {name!r} is not the text that the judge had, by its hash in "
                    "`inputs`; expected it unedited",
                )
        return texts

    def _note(self, file: str, problem: str) -> None:
        self._problems.add(f"{self._folder / file}: {problem}")

    def _read_rows(self, file: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        # A line at a time: the texts of a large run would fill the memory.
        path = self._folder / file
        if not path.exists():
            self._note(file, "the file is missing; expected it, as in every finished run")
            return
        try:
            for where, line in numbered_lines(path):
                yield f"{file}:{where.rpartition(':')[2]}", parse_object(line, where, strict=False)
        except InputError as error:
            # Problems with lines give the file's name, problems with files its path.
            self._problems.extend(
                problem if problem.startswith(str(path)) else f"{path.parent / problem}"
                for problem in error.problems
            )

    def _read_hashes(self) -> _Hashes:
        if not (self._folder / _MATCHES).exists():
            return {}
        hashes: dict[tuple[str, str, int, str], str] = {}
        texts: Texts = {}
        for place, record in self._read_rows(_MATCHES):
            try:
                row = restore_texts(record, texts)
                dimension, prompt_id = (
                    sys.intern(str(row[name])) for name in ("dimension", "prompt_id")
                )
                where = dimension, prompt_id, int(row["sample"])
                question = [
                    row["prompt_text"],
                    row.get("gold_answer"),
                    row.get("expected_behavior"),
                ]
                hashes[*where, ""] = sys.intern(fingerprint(question))
                for side in ("a", "b"):
                    entrant = sys.intern(str(row[f"entrant_{side}"]))
                    text = str(row[f"response_{side}"])
                    hashes[*where, entrant] = sys.intern(fingerprint_text(text))
            except KeyError as error:
                self._note(place, f"has no {error}; expected a pair's texts")
                return {}
        return hashes

    def _read_verdicts(
        self, dimension: str, hashes: _Hashes
    ) -> tuple[tuple[SettledPair, ...], frozenset[str]]:
        file = f"verdicts/{dimension}.jsonl"
        pairs: list[SettledPair] = []
        keys: set[tuple[str, int, str, str]] = set()
        requests: set[str] = set()
        for place, row in self._read_rows(file):
            try:
                a, b, sample = str(row["entrant_a"]), str(row["entrant_b"]), int(row["sample"])
                where = dimension, str(row["prompt_id"]), sample
                key = (where[1], sample, min(a, b), max(a, b))
                pair = SettledPair.of(
                    {**row, "dimension": dimension, "sample": sample},
                    source=None if row.get("source") is None else sys.intern(str(row["source"])),
                    question=hashes.get((*where, "")),
                    response_a=hashes.get((*where, a)),
                    response_b=hashes.get((*where, b)),
                    requests=_requests(row),
                )
                requests.update(_answered(row))
            except KeyError as error:
                self._note(place, f"has no {error}; expected a settled pair")
                break
            except ValueError as error:
                self._note(place, f"{error}; expected one of {[*map(str, Outcome)]}")
                break
            if key in keys:
                self._note(place, f"has the pair of {a!r} and {b!r} a second time")
                break
            keys.add(key)
            pairs.append(pair)
        return tuple(pairs), frozenset(requests)

    def _read_standings(self, dimensions: Sequence[str]) -> dict[str, tuple[Rating, ...]]:
        standings: dict[str, tuple[Rating, ...]] = {}
        with self._problems.collected():
            standings = read_standings(self._folder)
        return {name: standings.get(name, ()) for name in dimensions}


def read_standings(folder: Path) -> dict[str, tuple[Rating, ...]]:
    """Read the leaderboard of a run directory: ratings by dimension, best entrant first.

    Raises:
        InputError: If the file cannot be read, or is not the table of this version.
    """
    table = read_csv_table(LeaderboardRow, folder / "leaderboard.csv")
    boards = by_dimension(rows_of(LeaderboardRow, table))
    return {dimension: tuple(map(_standing, rows)) for dimension, rows in boards.items()}


def _answered(row: Mapping[str, Any]) -> Iterator[str]:
    for side in ("ab", "ba"):
        if row[f"reply_{side}"] is not None:
            key, attempt = sys.intern(str(row[f"request_key_{side}"])), row[f"attempt_{side}"]
            yield key if attempt == 1 else f"{key} {attempt}"


def _requests(row: Mapping[str, Any]) -> tuple[str, ...]:
    if row["outcome"] == Outcome.SAME_TEXT:
        return ()
    return tuple(sorted({sys.intern(str(row[f"request_key_{side}"])) for side in ("ab", "ba")}))


def _standing(row: LeaderboardRow) -> Rating:
    return Rating(
        row.rating, row.low, row.high, entrant=row.entrant_id, rank=row.rank, group=row.group
    )
