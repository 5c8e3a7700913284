"""Ratings from a file of battles alone: no ledger, no graph, the same numbers as the run's.

Rows are those of the tables "elo_ratings" and "ratings", in the same order.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Annotated, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tournament_assets.battles.columns import (
    CodedBattles,
    Preferences,
    code_battles,
    different_names,
    of_dimension,
)
from tournament_assets.battles.counts import (
    MANY_BATTLES,
    BattleCounts,
    CountedBattles,
    UncountableError,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import (
    Display,
    format_confidence,
    format_share,
    list_first,
)
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.ratings.bradley_terry import ResampledWins, rate_resamples
from tournament_assets.ratings.matches import Matches
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    ELO,
    METHODS,
    STYLE,
    compared_methods,
    placed_rows,
    rating_rows,
)
from tournament_assets.ratings.rating_tables import (
    anchor_shift,
    elo_rows,
    trace_elo,
)
from tournament_assets.ratings.significance import shares_above
from tournament_assets.ratings.standings import stand_entrants
from tournament_assets.tournament.asset_rows import EloRow, RatingRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.prompts import AnswerKey

USUAL_METHODS = ("elo", "bradley-terry")
COUNTED_METHOD = "bradley-terry"
"""The method that needs nothing but counts."""
Responses = Mapping[tuple[str, AnswerKey], str]
"""What each model wrote, by model and prompt."""


@dataclass(frozen=True, slots=True)
class PairOrder:
    """How two models fared against each other, and how surely the first is above the second."""

    model_a: Annotated[str, Display("A")]
    model_b: Annotated[str, Display("B")]
    wins_a: Annotated[int, Display("A wins")]
    wins_b: Annotated[int, Display("B wins")]
    ties: Annotated[int, Display("ties")]
    win_rate_a: Annotated[float, Display("A's win rate", format_share)]
    p_a_above_b: Annotated[float | None, Display("P(A above B)", format_share)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BattleRatings:
    """The ratings of one dimension.

    Attributes:
        dimension: The quality that was judged; None where the battles name none.
        elo: Rows of table "elo_ratings", by K-factor and then best first.
        ratings: Rows of table "ratings", by method and then best first.
        win_rates: Share of its battles that each model won, ties as halves, by name.
        pairs: For each two that met: wins, ties, win rate, and in which share of the resamples the
            first rates above the second by Bradley-Terry; nothing unless asked for.
        counts: Battles, those that somebody won, ties, inconsistent ones, and prompts.
        notes: Caveats for the reader of the numbers.
    """

    dimension: str | None
    counts: Mapping[str, int]
    elo: tuple[EloRow, ...]
    ratings: tuple[RatingRow, ...]
    win_rates: Mapping[str, float] = field(default_factory=dict)
    pairs: tuple[PairOrder, ...] = ()
    notes: tuple[str, ...]

    def by(self, method: str) -> list[RatingRow]:
        """Return the rows of one method."""
        return [row for row in self.ratings if row.method == method]

    def to_dict(self) -> JsonObject:
        """Return them as JSON values."""
        values = asdict(self)
        for name in ("elo", "ratings"):
            values[name] = [row | {"dimension": self.dimension} for row in values[name]]
        return values


def battle_methods() -> dict[str, str]:
    """Return the rating methods that battles can be rated by, by the names that people use."""
    return {name.replace("_", "-"): name for name in compared_methods()}


def rate_battles(
    battles: pa.Table | CountedBattles,
    *,
    settings: RatingSettings,
    dimensions: Sequence[str] = (),
    methods: Sequence[str] = USUAL_METHODS,
    preferences: Preferences = "share",
    pairs: bool = False,
    responses: Responses | None = None,
) -> list[BattleRatings]:
    """Rate the battles of every dimension.

    Args:
        battles: In the order in which the run rated them; or counted, which only Bradley-Terry
            can use.
        settings: How.
        dimensions: Only these; all if empty.
        methods: Which ratings, by the names of `battle_methods`.
        preferences: Whether a preference shares a win, where a battle has one, or is ignored.
        pairs: Compare each two models, too.
        responses: What was written; with it everyone is also rated at equal style.
    """
    all_dimensions = _dimensions(battles, settings)
    if unknown := sorted(set(dimensions) - set(all_dimensions)):
        listed = ", ".join(str(each) for each in all_dimensions if each is not None) or "none"
        raise InputError(
            f"no battle is on the dimension {name!r}; the battles have {listed}" for name in unknown
        )
    chosen = [each for each in all_dimensions if not dimensions or each in dimensions]
    if isinstance(battles, CountedBattles):
        by_dimension = battles.by_dimension
        return [_rate_counts(each, by_dimension[each], settings, pairs=pairs) for each in chosen]
    counted = _counted(battles, settings, preferences)
    return [
        _rate(
            of_dimension(battles, each),
            each,
            settings,
            counts=counted.by_dimension.get(each) if counted else None,
            methods=methods,
            preferences=preferences,
            pairs=pairs,
            responses=responses,
        )
        for each in chosen
    ]


def _counted(
    table: pa.Table, settings: RatingSettings, preferences: Preferences
) -> CountedBattles | None:
    """Count many battles, as a file of them would be, unless a run has rated them otherwise."""
    if table.num_rows <= MANY_BATTLES or settings.entrants:
        return None
    counted = CountedBattles(settings.resampling, preferences)
    parts = table.to_batches(max_chunksize=MANY_BATTLES)
    try:
        counted.add_all((place == 0, pa.table(part)) for place, part in enumerate(parts))
    except UncountableError:
        return None
    return counted


def require_resamples(settings: RatingSettings) -> None:
    """Refuse fewer resamples than an interval can stand on."""
    needed = math.ceil(2 / (1 - settings.confidence) - 1e-9)
    if settings.n_bootstraps < needed:
        raise InputError(
            f"{settings.n_bootstraps} resamples cannot support an interval of "
            f"{format_confidence(settings.confidence)}; expected at least {needed}; ask for "
            "more resamples "
            "(n_bootstraps) or for less confidence"
        )


def _dimensions(battles: pa.Table | CountedBattles, settings: RatingSettings) -> list[str | None]:
    if isinstance(battles, CountedBattles):
        return sorted(battles.by_dimension, key=lambda name: (name is None, name))
    of_battles = different_names(battles, "dimension")
    named: list[str | None] = list(dict.fromkeys([*settings.dimensions, *of_battles]))
    return [*named, None] if battles.column("dimension").null_count or not named else named


@dataclass(frozen=True, slots=True, eq=False)
class _Tally:
    """What is reported of the battles of a dimension beside the ratings.

    Attributes:
        met: How often each two met, symmetric, shape (n, n).
        gained: The row's model's shares of them, shape (n, n).
        won: How often the row's model won, shape (n, n).
    """

    entrants: tuple[str, ...]
    met: NDArray[np.float64]
    gained: NDArray[np.float64]
    won: NDArray[np.float64]
    n_battles: int
    n_ties: int
    n_inconsistent: int
    n_prompts: int

    @property
    def counts(self) -> dict[str, int]:
        """The numbers that everybody is shown."""
        return {
            "battles": self.n_battles,
            "decisive": self.n_battles - self.n_ties,
            "ties": self.n_ties,
            "inconsistent": self.n_inconsistent,
            "prompts": self.n_prompts,
        }

    @property
    def win_rates(self) -> dict[str, float]:
        """Each model's share of its battles, ties as halves."""
        points, battles = self.gained.sum(axis=1), self.met.sum(axis=1)
        return {
            name: float(points[index] / battles[index])
            for index, name in enumerate(self.entrants)
            if battles[index]
        }


def _rate_counts(
    dimension: str | None, counts: BattleCounts, settings: RatingSettings, *, pairs: bool
) -> BattleRatings:
    """Rate counted battles by Bradley-Terry, the one method that needs nothing but counts."""
    resampled = counts.resampled(settings.confidence)
    standings = stand_entrants(
        resampled,
        equivalent_within=settings.equivalent_within,
        initial_rating=settings.initial_rating,
    )
    tables = counts.tables()
    tally = _Tally(
        tables.models,
        *(tables.met, tables.points, tables.won),
        n_battles=counts.tally["battles"],
        n_ties=counts.tally["ties"],
        n_inconsistent=counts.tally["inconsistent"],
        n_prompts=counts.n_prompts,
    )
    notes = [*_prompt_notes(counts.tally["without_prompt"])]
    if not counts.knows_prompts:
        notes.append(f"the number of prompts, {counts.n_prompts}, is right to a part in a thousand")
    if counts.tally["soft"]:
        notes.append(_soft_note(counts.tally["soft"], "winner"))
    return BattleRatings(
        dimension=dimension,
        elo=(),
        ratings=tuple(replace(row, dimension=dimension or "") for row in placed_rows(standings)),
        counts=tally.counts,
        notes=(*notes, COUNTED),
        win_rates=tally.win_rates,
        pairs=tuple(_pair_rows(tally, resampled)) if pairs else (),
    )


def _rate(
    table: pa.Table,
    dimension: str | None,
    settings: RatingSettings,
    *,
    counts: BattleCounts | None,
    methods: Sequence[str],
    preferences: Preferences,
    pairs: bool,
    responses: Responses | None,
) -> BattleRatings:
    coded = code_battles(table, entrants=settings.entrants, preferences=preferences)
    # The rows of a table have a dimension; where battles name none, nobody is shown the empty one.
    named = dimension or ""
    played = _as_often_as_they_weigh(coded.matches)
    elo: list[EloRow] = []
    if "elo" in methods:
        traces = trace_elo(played, settings)
        elo = elo_rows(played, traces, dimension=named, settings=settings)
    met, gained = _met(coded.apart)
    tally = _Tally(
        coded.matches.entrants,
        *(met, gained, coded.winners.decisive().table()),
        n_battles=coded.apart.n_matches,
        n_ties=coded.n_ties,
        n_inconsistent=coded.n_inconsistent,
        n_prompts=len(coded.matches.prompts),
    )
    resampled = ResampledWins.of(coded.matches, settings.resampling)
    if counts is not None:
        drawn = counts.resampled(settings.confidence)
        resampled = replace(drawn, n_prompts=tally.n_prompts)
    evidence = Evidence(
        matches=coded.matches,
        settings=settings,
        tables=resampled,
        outcomes=coded.winners.weighed_by_sample(),
        samples=coded.apart,
        responses=responses,
        # Where weights say that pairs stopped early, resampling ignores when they did.
        tells_apart=bool((coded.matches.weight == 1).all()),
    )
    names = {name for word, name in battle_methods().items() if word in methods and name != ELO}
    if responses is not None:
        names.add(STYLE)
    in_order = [name for name in METHODS if name in names]
    ratings = rating_rows(evidence, in_order, dimension=named)
    return BattleRatings(
        dimension=dimension,
        elo=tuple(elo),
        ratings=tuple(ratings),
        counts=tally.counts,
        notes=(
            *_notes(coded, preferences),
            *_rank_notes(elo, ratings, tally),
            *([COUNTED] if counts is not None else []),
        ),
        win_rates=tally.win_rates,
        pairs=tuple(_pair_rows(tally, resampled)) if pairs else (),
    )


_MOST_PLAYED = 20_000_000


def _as_often_as_they_weigh(matches: Matches) -> Matches:
    """Repeat matches by their weights for Elo, which has no weights, as a run does with its own.

    Weights below 1 or of many millions cannot be played: then each match is itself, once.
    """
    weight = matches.weight
    is_playable = bool((weight >= 1).all()) and float(weight.sum()) <= _MOST_PLAYED
    return matches.repeated() if is_playable else matches


def _met(matches: Matches) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Count matches of each two and sum the row's model's shares of them, shape (n, n) each."""
    met, gained = matches.table(), matches.table(matches.preference)
    return met + met.T, gained + (met - gained).T


def _pair_rows(tally: _Tally, resampled: ResampledWins) -> Iterator[PairOrder]:
    met, won = tally.met, tally.won
    shares = shares_above(rate_resamples(resampled))
    for a, b in zip(*np.nonzero(np.triu(met, 1)), strict=True):
        n_ties = int(met[a, b] - won[a, b] - won[b, a])
        above = shares[a, b]
        yield PairOrder(
            model_a=tally.entrants[a],
            model_b=tally.entrants[b],
            wins_a=int(won[a, b]),
            wins_b=int(won[b, a]),
            ties=n_ties,
            win_rate_a=float(tally.gained[a, b] / met[a, b]),
            p_a_above_b=None if np.isnan(above) else float(above),
        )


def _rank_notes(
    elo: Sequence[EloRow],
    ratings: Sequence[RatingRow],
    tally: _Tally,
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
    counts = tally.met[np.triu_indices(len(tally.met), 1)]
    tied = f"{tally.n_ties} ties, which Elo leaves out and Bradley–Terry counts as half wins"
    if counts.min() == counts.max():
        which = (
            f"every two met equally often, so what differs is {tied}: trust Bradley–Terry for who "
            "is preferred, Elo only for who wins when somebody wins"
        )
    else:
        which = (
            "trust Bradley–Terry: models did not meet equally often, and Elo depends on who met "
            "whom and when" + (f"; there are {tied}" if tally.n_ties else "")
        )
    return [f"Elo and Bradley–Terry rank differently: Elo puts {list_first(turned)}; {which}"]


COUNTED = (
    f"more than {MANY_BATTLES:,} battles, or their counts: a resample gives each prompt a Poisson "
    "weight instead of drawing prompts, and repeated battles are not looked for"
)


def _prompt_notes(n_without_prompt: int) -> list[str]:
    if not n_without_prompt:
        return []
    return [
        f"{n_without_prompt} battles name no prompt: each counts as a prompt of its own, so the "
        "sampling intervals are too narrow if several were on one; where a column of the file "
        "names the prompt, call it question_id, or name it by --prompt-column"
    ]


def _soft_note(n_soft: int, preferences: Preferences) -> str:
    return f"{n_soft} battles have a preference finer than their winner: " + (
        "it shares the win (Davidson's model knows only the winner)"
        if preferences == "share"
        else "it is not used"
    )


def _notes(coded: CodedBattles, preferences: Preferences) -> list[str]:
    notes = _prompt_notes(coded.n_without_prompt)
    if coded.n_repeated:
        notes.append(
            f"{coded.n_repeated} battles repeat the prompt, pair and judge of another one; all "
            "of them count"
        )
    if coded.n_weighted:
        is_played = _as_often_as_they_weigh(coded.matches) is not coded.matches
        notes.append(
            f"{coded.n_weighted} battles have a weight: Bradley-Terry counts it, Elo "
            + ("plays each as often as it weighs" if is_played else "counts each of them once")
            + "; where judging stopped early, a run's places are what it decided, and not what "
            "resamples say here"
        )
    if coded.n_soft:
        notes.append(_soft_note(coded.n_soft, preferences))
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
    where = "" if ratings.dimension is None else f"on {ratings.dimension}, "
    try:
        elo = [
            row
            for _, rows in groupby(ratings.elo, key=lambda row: row.k_factor)
            for row in _moved(list(rows), _ELO_POINTS, model=model, rating=rating)
        ]
        rows = [
            row
            for method, own in groupby(ratings.ratings, key=lambda row: row.method)
            for row in (
                own
                if METHODS[method].beside
                else _moved(own, _RATING_POINTS, model=model, rating=rating)
            )
        ]
    except InputError as error:
        raise InputError(f"{where}{problem}" for problem in error.problems) from error
    note = f"all ratings are moved so that {model} has {rating:g}"
    return replace(
        ratings,
        elo=tuple(elo),
        ratings=tuple(rows),
        notes=(*ratings.notes, note),
    )


def _moved(
    rows: Iterable[MovedRow], columns: tuple[str, ...], *, model: str, rating: float
) -> list[MovedRow]:
    """Add the same to some columns of all rows; the first is the rating."""
    listed = list(rows)
    if not listed:
        return []
    shift = anchor_shift(
        {row.entrant_id: getattr(row, columns[0]) for row in listed},
        model=model,
        rating=rating,
    )
    return [
        replace(
            row,
            **{
                name: value + shift for name in columns if (value := getattr(row, name)) is not None
            },
        )
        for row in listed
    ]
