"""Ratings from a file of battles alone: no ledger, no graph, the same numbers as the run's.

Rows are those of the tables "elo_ratings" and "ratings", in the same order.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tournament_assets.battles.columns import Preferences, code_battles, of_dimension
from tournament_assets.battles.counts import MANY_DRAWS, BattleCounts, BattlePool
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import list_first
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.ratings.bradley_terry import ResampledWins
from tournament_assets.ratings.matches import Matches, rows_of_pairs
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    ELO,
    METHODS,
    STYLE,
    compared_methods,
    rating_rows,
)
from tournament_assets.ratings.rating_tables import (
    anchor_shift,
    claimed,
    elo_rows,
    trace_elo,
)
from tournament_assets.tournament.asset_rows import EloRow, RatingRow, WinRateRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.prompts import AnswerKey

USUAL_METHODS = ("elo", "bradley-terry")
Responses = Mapping[tuple[str, AnswerKey], str]
"""What each model wrote, by model and prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BattleRatings:
    """The ratings of one dimension.

    Attributes:
        dimension: The quality that was judged; None where the battles name none.
        elo: Rows of table "elo_ratings", by K-factor and then best first.
        ratings: Rows of table "ratings", by method and then best first.
        win_rates: Share of its battles that each model won, ties as halves, by name.
        pairs: How each two that met fared, and which of them is better, if either is; nothing
            unless asked for.
        counts: Battles, those that somebody won, ties, inconsistent ones, and prompts.
        notes: Caveats for the reader of the numbers.
    """

    dimension: str | None
    counts: Mapping[str, int]
    elo: tuple[EloRow, ...]
    ratings: tuple[RatingRow, ...]
    win_rates: Mapping[str, float] = field(default_factory=dict)
    pairs: tuple[WinRateRow, ...] = ()
    notes: tuple[str, ...]

    def by(self, method: str) -> list[RatingRow]:
        """Return the rows of one method."""
        return [row for row in self.ratings if row.method == method]

    def to_dict(self) -> JsonObject:
        """Return them as JSON values."""
        values = asdict(self)
        for name in ("elo", "ratings", "pairs"):
            values[name] = [row | {"dimension": self.dimension} for row in values[name]]
        return values


def battle_methods() -> dict[str, str]:
    """Return the rating methods that battles can be rated by, by the names that people use."""
    return {name.replace("_", "-"): name for name in compared_methods()}


def need_every_battle(methods: Iterable[str]) -> bool:
    """Return whether some of the methods cannot rate by counts of battles alone."""
    names = battle_methods()
    return not all(METHODS[names[word]].from_counts for word in methods)


def rate_table(
    table: pa.Table, *, settings: RatingSettings, preferences: Preferences = "share", **how: Any
) -> list[BattleRatings]:
    """Rate the battles of a table, drawing prompts however many they are; see `rate_battles`."""
    pool = BattlePool(settings.resampling, preferences)
    pool.add(table, begins_file=True)
    return rate_battles(pool, settings=settings, **how)


def rate_battles(
    pool: BattlePool,
    *,
    settings: RatingSettings,
    dimensions: Sequence[str] = (),
    methods: Sequence[str] = USUAL_METHODS,
    pairs: bool = False,
    responses: Responses | None = None,
) -> list[BattleRatings]:
    """Rate the battles of every dimension.

    Args:
        pool: The battles, in the order in which the run rated them; kept where
            `need_every_battle` or responses are given.
        settings: How.
        dimensions: Only these; all if empty.
        methods: Which ratings, by the names of `battle_methods`.
        pairs: Compare each two models, too.
        responses: What was written; with it everyone is also rated at equal style.
    """
    named = [name for name in (*settings.dimensions, *pool.tallies) if name is not None]
    has_unnamed = None in pool.tallies or not named
    all_dimensions: list[str | None] = [*dict.fromkeys(named), *([None] if has_unnamed else [])]
    if unknown := sorted({*dimensions} - {*named}):
        listed = ", ".join(dict.fromkeys(named)) or "none"
        raise InputError(
            f"no battle is on the dimension {name!r}; the battles have {listed}" for name in unknown
        )
    table = pool.table
    names = {name for word, name in battle_methods().items() if word in methods}
    if responses is not None:
        names.add(STYLE)
    return [
        _rate(
            pool,
            table if table is None else of_dimension(table, each),
            each,
            settings,
            methods=[name for name in METHODS if name in names],
            pairs=pairs,
            responses=responses,
        )
        for each in all_dimensions
        if not dimensions or each in dimensions
    ]


def _rate(
    pool: BattlePool,
    table: pa.Table | None,
    dimension: str | None,
    settings: RatingSettings,
    *,
    methods: Sequence[str],
    pairs: bool,
    responses: Responses | None,
) -> BattleRatings:
    counts, tally = pool.of(dimension), pool.tallies.get(dimension, Counter())
    if table is not None:
        code = partial(code_battles, table, entrants=settings.entrants)
        winners = code(preferences="winner")
        apart = code(preferences="share") if pool.shares_wins(tally) else winners
    else:
        apart = winners = (counts or BattleCounts(pool.resampling)).matches()
    matches = apart.averaged_over_samples()
    resampled = ResampledWins.of(matches, settings.resampling)
    if counts is not None:
        resampled = counts.resampled(settings.confidence)
    # The rows of a table have a dimension; where battles name none, nobody is shown the empty one.
    label = dimension or ""
    elo: list[EloRow] = []
    if ELO in methods:
        played = _as_often_as_they_weigh(matches)
        elo = elo_rows(played, trace_elo(played, settings), dimension=label, settings=settings)
    evidence = Evidence(
        matches=matches,
        settings=settings,
        tables=resampled,
        outcomes=winners.weighed_by_sample(),
        samples=apart,
        responses=responses,
        # Where weights say that pairs stopped early, resampling ignores when they did.
        tells_apart=not tally["stopped"],
    )
    ratings = rating_rows(evidence, [name for name in methods if name != ELO], dimension=label)
    if table is not None:
        apart, winners = (
            replace(each, weight=np.ones(each.n_matches)) for each in (apart, winners)
        )
    fared = rows_of_pairs(
        apart.entrants,
        won=winners.outright_wins,
        ties=winners.ties,
        gained=apart.wins,
        dimension=label,
    )
    met, gained = winners.wins + winners.wins.T, apart.wins.sum(axis=1)
    return BattleRatings(
        dimension=dimension,
        elo=tuple(elo),
        ratings=tuple(ratings),
        counts={
            "battles": tally["battles"],
            "decisive": tally["battles"] - tally["ties"],
            "ties": tally["ties"],
            "inconsistent": tally["inconsistent"],
            "prompts": resampled.n_prompts,
        },
        notes=(
            *_notes(tally, matches, pool.preferences),
            *_rank_notes(elo, ratings, met, n_ties=tally["ties"]),
            *([] if counts is None else _count_notes(counts)),
        ),
        win_rates={
            name: float(gain / n)
            for name, gain, n in zip(apart.entrants, gained, met.sum(axis=1), strict=True)
            if n
        },
        pairs=tuple(claimed(fared, evidence.standings) if evidence.tells_apart else fared)
        if pairs
        else (),
    )


_MOST_PLAYED = 20_000_000


def _as_often_as_they_weigh(matches: Matches) -> Matches:
    """Repeat matches by their weights for Elo, which has no weights, as a run does with its own.

    Weights below 1 or of many millions cannot be played: then each match is itself, once.
    """
    weight = matches.weight
    is_playable = bool((weight >= 1).all()) and float(weight.sum()) <= _MOST_PLAYED
    return matches.repeated() if is_playable else matches


def _rank_notes(
    elo: Sequence[EloRow],
    ratings: Sequence[RatingRow],
    met: NDArray[np.float64],
    *,
    n_ties: int,
) -> list[str]:
    """Describe where Elo and Bradley-Terry rank two models differently, and which to trust."""
    means = {row.entrant_id: row.mean for row in elo if row.is_primary and row.mean is not None}
    strengths = {
        row.entrant_id: row.rating
        for row in ratings
        if row.method == BRADLEY_TERRY and row.rating is not None
    }
    both = [name for name in means if name in strengths]
    turned = [
        f"{one} above {other}"
        for index, one in enumerate(both)
        for other in both[index + 1 :]
        if means[one] > means[other] and strengths[one] < strengths[other] - 1e-6
    ]
    if not turned:
        return []
    counts = met[np.triu_indices(len(met), 1)]
    tied = f"{n_ties} ties, which Elo leaves out and Bradley–Terry counts as half wins"
    if counts.min() == counts.max():
        which = (
            f"every two met equally often, so what differs is {tied}: trust Bradley–Terry for who "
            "is preferred, Elo only for who wins when somebody wins"
        )
    else:
        which = (
            "trust Bradley–Terry: models did not meet equally often, and Elo depends on who met "
            "whom and when" + (f"; there are {tied}" if n_ties else "")
        )
    return [f"Elo and Bradley–Terry rank differently: Elo puts {list_first(turned)}; {which}"]


def _count_notes(counts: BattleCounts) -> list[str]:
    notes = [
        f"more than {MANY_DRAWS:,} battles in all resamples, or counts: a resample gives each "
        "prompt a Poisson weight instead of drawing prompts"
    ]
    if counts.has_more_prompts:
        notes.append(f"there are more than {counts.n_prompts:,} prompts, which are not told apart")
    return notes


def _notes(tally: Mapping[str, int], matches: Matches, preferences: str) -> list[str]:
    notes = []
    if n_without := tally["without_prompt"]:
        notes.append(
            f"{n_without} battles name no prompt: each counts as a prompt of its own, so the "
            "sampling intervals are too narrow if several were on one; where a column of the file "
            "names the prompt, call it question_id, or name it by --prompt-column"
        )
    if n_weighted := tally["weighted"]:
        is_played = _as_often_as_they_weigh(matches) is not matches
        notes.append(
            f"{n_weighted} battles have a weight: Bradley-Terry counts it, Elo "
            + ("plays each as often as it weighs" if is_played else "counts each of them once")
            + "; where judging stopped early, a run's places are what it decided, and not what "
            "resamples say here"
        )
    if n_soft := tally["soft"]:
        is_shared = preferences == "share"
        notes.append(
            f"{n_soft} battles have a preference finer than their winner: "
            + ("it shares the win (Davidson's model knows only the winner)" if is_shared else "")
            + ("" if is_shared else "it is not used")
        )
    return notes


_ELO_POINTS = ("mean", "order_low", "order_high")
_RATING_POINTS = ("rating", "low", "high")

MovedRow = TypeVar("MovedRow", EloRow, RatingRow)


def anchor_ratings(ratings: BattleRatings, *, model: str, rating: float) -> BattleRatings:
    """Put a model at a given rating, by Elo at every K-factor and by every other method.

    Each table is moved as a whole: differences, widths of intervals and ranks stay as they are.

    Args:
        ratings: The ratings of one dimension.
        model: Who is to have the rating.
        rating: In Elo points.
    """
    try:
        elo = _moved(ratings.elo, attrgetter("k_factor"), _ELO_POINTS, model, rating)
        by_method = attrgetter("method")
        rows = [
            row
            for method, table in groupby(ratings.ratings, by_method)
            for row in (
                table
                if METHODS[method].beside
                else _moved(table, by_method, _RATING_POINTS, model, rating)
            )
        ]
    except InputError as error:
        where = "" if ratings.dimension is None else f"on {ratings.dimension}, "
        raise InputError(f"{where}{problem}" for problem in error.problems) from error
    note = f"all ratings are moved so that {model} has {rating:g}"
    return replace(ratings, elo=tuple(elo), ratings=tuple(rows), notes=(*ratings.notes, note))


def _moved(
    rows: Iterable[MovedRow],
    table_of: Callable[[MovedRow], object],
    columns: tuple[str, ...],
    model: str,
    rating: float,
) -> list[MovedRow]:
    """Add the same to some columns of all rows of a table; the first is the rating."""
    moved: list[MovedRow] = []
    for _, group in groupby(rows, table_of):
        table = list(group)
        points = {row.entrant_id: getattr(row, columns[0]) for row in table}
        shift = anchor_shift(points, model=model, rating=rating)
        for row in table:
            values = {name: getattr(row, name) for name in columns}
            sums = {name: value + shift for name, value in values.items() if value is not None}
            moved.append(replace(row, **sums))
    return moved
