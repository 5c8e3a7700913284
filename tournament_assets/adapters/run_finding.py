"""Finds the finished runs among the directories in a folder, by what their manifests say."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FoundRuns:
    """The runs of one tournament and mode in a folder.

    Attributes:
        directories: Their directories, the one that finished first at the beginning.
        problems: Directories of the mode that do not say whose they are, and why.
    """

    directories: tuple[Path, ...]
    problems: tuple[str, ...]

    def before(self, directory: Path) -> Path | None:
        """Return the run that finished last before another one; None if there is none."""
        if directory not in self.directories:
            return None
        place = self.directories.index(directory)
        return self.directories[place - 1] if place else None


def find_runs(folder: Path, *, tournament_id: str, mode: str) -> FoundRuns:
    """Look for the finished runs of a tournament's mode.

    Args:
        folder: The folder of all runs; it need not exist.
        tournament_id: The tournament.
        mode: `pilot` or `headline`.
    """
    found: list[tuple[datetime, int, str, Path]] = []
    problems = []
    for path in sorted(folder.glob("*/manifest.json")):
        directory = path.parent
        if directory.name.startswith("."):
            # One that is being written.
            continue
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            whose = manifest["tournament"], manifest["mode"]
            if whose != (tournament_id, mode):
                continue
            finished_at = _read_time(manifest["finished_at"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            if directory.name.startswith(f"{mode}_"):
                problems.append(
                    f"{directory.name} has no manifest that can be read "
                    f"({type(error).__name__}: {error}), so it is passed over"
                )
            continue
        # Of two that finished in the same second, the later one got the longer or higher name.
        found.append((finished_at, len(directory.name), directory.name, directory))
    return FoundRuns(tuple(entry[-1] for entry in sorted(found)), tuple(problems))


def _read_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
