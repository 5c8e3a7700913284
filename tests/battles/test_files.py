import json
from dataclasses import dataclass, fields

from tournament_assets.battles.files import encode_elo_reports
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


def test_the_classes_of_judgearena_read_every_file() -> None:
    files = encode_elo_reports({"factuality": REPORT, "tone": REPORT})
    assert list(files) == ["elo_ratings.json", "elo_ratings_tone.json"]
    for content in files.values():
        values = json.loads(content)
        entries = [TheirEntry(**row) for row in values.pop("ratings")]
        board = TheirLeaderboard(**values, ratings=entries)
        assert (board.arena, board.seed) == ("demo/pilot/factuality", 0)
        assert [each.rating for each in board.ratings] == [1408.0, None]
        assert list(json.loads(content)) == [field.name for field in fields(TheirLeaderboard)]
