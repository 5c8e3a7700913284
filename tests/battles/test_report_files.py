import json
from dataclasses import dataclass, fields
from pathlib import Path

from tests.battles.builders import problems_of
from tournament_assets.battles.files import encode_elo_reports, read_elo_reports
from tournament_assets.tournament.battles import EloReport, RatingEntry

REPORT = EloReport(
    arena="demo/pilot/factuality",
    judge_model="judge-1",
    n_bootstraps=1000,
    seed=0,
    ratings=(RatingEntry("ada", 1408.0, 1400.0, None, 1), RatingEntry("bob", None, None, None, 0)),
)


@dataclass(frozen=True)
class TheirEntry:
    """The fields of an entry as JudgeArena declares them; none is optional, and none is added."""

    model: str
    rating: float
    ci_low: float
    ci_high: float
    n_battles: int
    source: str


@dataclass
class TheirLeaderboard:
    arena: str
    model: str
    judge_model: str
    n_bootstraps: int
    seed: int
    ratings: list[TheirEntry]


def test_the_classes_of_judgearena_read_every_file(tmp_path: Path) -> None:
    files = encode_elo_reports({"factuality": REPORT, "tone": REPORT})
    assert list(files) == ["elo_ratings.json", "elo_ratings_tone.json"]
    for content in files.values():
        values = json.loads(content)
        entries = [TheirEntry(**row) for row in values.pop("ratings")]
        board = TheirLeaderboard(**values, ratings=entries)
        assert (board.arena, board.seed) == ("demo/pilot/factuality", 0)
        assert [each.rating for each in board.ratings] == [1408.0, None]
        assert list(json.loads(content)) == [field.name for field in fields(TheirLeaderboard)]


def test_reports_come_back(tmp_path: Path) -> None:
    path = tmp_path / "elo_ratings.json"
    path.write_bytes(encode_elo_reports({"factuality": REPORT})["elo_ratings.json"])
    assert read_elo_reports(path) == {"demo/pilot/factuality": REPORT}


def test_a_file_of_an_earlier_version_has_a_report_for_every_dimension(tmp_path: Path) -> None:
    path = tmp_path / "elo_ratings.json"
    path.write_text(json.dumps({"factuality": REPORT.to_dict(), "tone": REPORT.to_dict()}))
    assert read_elo_reports(path) == {"factuality": REPORT, "tone": REPORT}


def test_a_single_report_of_another_tool_is_read_by_its_arena(tmp_path: Path) -> None:
    path = tmp_path / "elo_ratings.json"
    path.write_text(json.dumps({**REPORT.to_dict(), "of_next_year": 1}))
    assert read_elo_reports(path) == {"demo/pilot/factuality": REPORT}


def test_everything_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "elo_ratings.json"
    broken = {**REPORT.to_dict(), "seed": None}
    path.write_text(json.dumps({"factuality": broken, "style": 3}))
    problems = problems_of(lambda: read_elo_reports(path))
    assert "factuality: the report has no seed" in problems[0]
    assert "style: the report is 3" in problems[1]
    path.write_text(json.dumps({"ratings": []}))
    assert "has no arena" in problems_of(lambda: read_elo_reports(path))[0]
