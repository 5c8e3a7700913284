"""`elo_ratings.json`: a leaderboard, with the keys that JudgeArena's has and no other.

A run of several dimensions has one such file for each. Earlier versions wrote one file with an
object of leaderboards by dimension, which is still read.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from tournament_assets.adapters.battle_files.files import opened
from tournament_assets.adapters.judgment_rows import load_object
from tournament_assets.tournament.battles import EloReport
from tournament_assets.tournament.errors import InputError


def encode_elo_reports(reports: Mapping[str, EloReport]) -> dict[str, bytes]:
    """Write leaderboards as JSON files, by name.

    The first is `elo_ratings.json`, where other tools look for it; its arena names the dimension.

    Args:
        reports: By dimension, in the order of the tables.
    """
    files = {}
    for number, (dimension, report) in enumerate(reports.items()):
        name = f"elo_ratings_{dimension}.json" if number else "elo_ratings.json"
        text = json.dumps(report.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        files[name] = f"{text}\n".encode()
    return files


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
