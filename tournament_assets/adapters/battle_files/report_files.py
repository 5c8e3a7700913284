"""`elo_ratings.json`: the leaderboards of a run, one for each dimension."""

import json
from collections.abc import Mapping
from pathlib import Path

from tournament_assets.adapters.battle_files.files import opened
from tournament_assets.adapters.judgment_rows import load_object
from tournament_assets.tournament.battles import EloReport
from tournament_assets.tournament.errors import InputError


def encode_elo_reports(reports: Mapping[str, EloReport]) -> bytes:
    """Write leaderboards as JSON, an object with one report under the name of each dimension."""
    values = {dimension: report.to_dict() for dimension, report in reports.items()}
    return (json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_elo_reports(path: Path) -> dict[str, EloReport]:
    """Read leaderboards, by dimension; a file with a single report has it under its arena.

    Keys that this version does not know are ignored.

    Raises:
        InputError: With everything that is missing.
    """
    with opened(path) as file:
        values = load_object(file.read(), str(path))
    by_name = {str(values.get("arena")): values} if "ratings" in values else values
    problems: list[str] = []
    reports: dict[str, EloReport] = {}
    for name, report in by_name.items():
        try:
            if not isinstance(report, dict):
                raise InputError(f"the report is {report!r:.60}; expected a JSON object")
            reports[name] = EloReport.from_dict(report)
        except InputError as error:
            problems.extend(f"{path}: {name}: {problem}" for problem in error.problems)
    if problems:
        raise InputError(problems)
    return reports
