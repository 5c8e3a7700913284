"""How far everybody's rating and place moved from one run to another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """An entrant's rating in one run, on one dimension.

    Attributes:
        entrant_id: Who.
        rank: The place, 1 for the best; None without a decisive match, as is the mean.
        mean: Mean rating over the orderings, in Elo points.
        sampling_low: Lower end of its sampling interval, in Elo points; None if there is none.
        sampling_high: Upper end of that interval.
    """

    entrant_id: str
    rank: int | None
    mean: float | None
    sampling_low: float | None
    sampling_high: float | None


@dataclass(frozen=True, slots=True)
class RatingMove:
    """An entrant's standing in two runs, on one dimension.

    Attributes:
        dimension: The quality that was judged.
        entrant_id: Who.
        then: The standing in the first run; None if the entrant is not in it.
        now: The standing in the second run; None if the entrant is not in it.
    """

    dimension: str
    entrant_id: str
    then: Standing | None
    now: Standing | None

    @property
    def difference(self) -> float | None:
        """Elo points by which the mean rose; None if it is not known in both runs."""
        if self.then is None or self.now is None or self.then.mean is None or self.now.mean is None:
            return None
        return self.now.mean - self.then.mean

    @property
    def is_of_place(self) -> bool:
        """Whether the entrant has a place in both runs, and not the same."""
        ranks = (self.then and self.then.rank, self.now and self.now.rank)
        return None not in ranks and ranks[0] != ranks[1]


def compare_standings(
    then: Mapping[str, Sequence[Standing]], now: Mapping[str, Sequence[Standing]]
) -> tuple[RatingMove, ...]:
    """Put the standings of two runs side by side, by dimension, the second run's best first.

    Args:
        then: The first run's standings by dimension.
        now: The second run's standings by dimension; a dimension of one run alone is left out.
    """
    moves = []
    for dimension in then:
        if dimension not in now:
            continue
        first, second = (
            {standing.entrant_id: standing for standing in standings}
            for standings in (then[dimension], now[dimension])
        )
        compared = [
            RatingMove(dimension, name, first.get(name), second.get(name))
            for name in {**second, **first}
        ]
        moves += sorted(compared, key=_place)
    return tuple(moves)


def _place(move: RatingMove) -> tuple[float, str]:
    # Who has no place comes last.
    rank = None if move.now is None else move.now.rank
    return float("inf") if rank is None else rank, move.entrant_id
