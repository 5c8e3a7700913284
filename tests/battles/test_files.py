import json
from dataclasses import dataclass, fields

from tournament_assets.foundation.estimates import Resampling
from tournament_assets.tournament.asset_rows import LeaderboardRow
from tournament_assets.tournament.battles import elo_report

REPORT = elo_report(
    [
        LeaderboardRow(dimension="factuality", rank=rank, entrant_id=entrant, rating=rating, n=1)
        for entrant, rank, rating in (("ada", 1, 1408.0), ("bob", None, None))
    ],
    arena="demo/pilot/factuality",
    judge_model="judge-1",
    resampling=Resampling(),
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


def test_the_classes_of_judgearena_read_a_leaderboard() -> None:
    values = json.loads(json.dumps(REPORT))
    assert list(values) == [field.name for field in fields(TheirLeaderboard)]
    entries = [TheirEntry(**row) for row in values.pop("ratings")]
    board = TheirLeaderboard(**values, ratings=entries)
    assert (board.arena, board.seed) == ("demo/pilot/factuality", 0)
    assert [entry.rating for entry in board.ratings] == [1408.0, None]
