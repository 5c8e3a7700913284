"""The rating methods, as rows of one table: each one's name, and how it rates the pairs.

They answer somewhat different questions. Elo leaves ties out and forgets what came early in an
ordering; Bradley-Terry counts a tie as half a win; Davidson gives ties a rate of their own. Where
two methods rank a pair differently, the battles say little about it, or the order depends on what a
tie means.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.davidson import fit_davidson
from tournament_assets.ratings.elo import elo_standing, summarise_elo
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.ratings.intervals import two_sided_quantile
from tournament_assets.ratings.matches import Matches
from tournament_assets.ratings.sandwich import SamplingUnit, sandwich_bradley_terry
from tournament_assets.ratings.standings import Standing, Standings, stand_entrants
from tournament_assets.ratings.style_control import control_style, judged_differences
from tournament_assets.tournament.asset_rows import RatingRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.estimates import Estimate, Rating
from tournament_assets.tournament.formatting import format_share
from tournament_assets.tournament.prompts import AnswerKey

ELO, BRADLEY_TERRY, SANDWICH, DAVIDSON, STYLE = (
    "elo",
    "bradley_terry",
    "sandwich",
    "davidson",
    "style",
)
TIES, EFFECT = "ties", "style_effect"
"""Numbers that are not ratings of entrants: Davidson's v, and the effects of style features."""

_LEVEL = 1e-6
"""Elo points. Fits stop within a small part of this, so smaller differences are ignored."""

_ORDER_NOISE = 0.95
"""Mean Elo ratings differ where this interval of their difference, over orderings, excludes 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The data from which the entrants of a dimension are rated.

    Attributes:
        matches: Who met whom; a tie, or a preference, is a share of a win.
        outcomes: The same for Davidson, which takes only wins, losses and ties, if different from
            the matches.
        samples: The same with one match per sample of a prompt, if different from the matches.
        traces: Elo ratings of many orderings of the matches.
        responses: Every response, by entrant and what it answers.
        tells_apart: Whether Bradley-Terry reports who is better than whom.
        decided: Who was decided to be above whom while judging, where pairs stopped early.
    """

    matches: Matches
    outcomes: Matches | None = None
    samples: Matches | None = None
    traces: EloTraces | None = None
    responses: Mapping[tuple[str, AnswerKey], str] | None = None
    tells_apart: bool = False
    decided: Collection[tuple[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class RatingMethod:
    """One way to rate.

    Attributes:
        title: Its display name.
        rate: Returns its rows, in Elo points, given the evidence and the settings.
        counts: What it does with pairs without a winner, to follow its title. Methods that say so
            need nothing but the matches, and stand side by side.
    """

    title: str
    rate: Callable[[Evidence, RatingSettings], Iterable[RatingRow]]
    counts: str = ""

    def __str__(self) -> str:
        return f"{self.title} {self.counts}"


def rating_rows(
    evidence: Evidence, methods: Sequence[str], *, dimension: str, settings: RatingSettings
) -> list[RatingRow]:
    """Return the rows of table "ratings" by some methods for one dimension.

    Args:
        evidence: What they are rated by.
        methods: Names of `METHODS`.

    Returns:
        By method, and within one best first, those without a rating last.

    Raises:
        InputError: If the evidence lacks what a method needs, or a judged response is missing.
        RatingError: If a likelihood could not be maximised.
    """
    return [
        replace(row, dimension=dimension)
        for method in methods
        for row in METHODS[method].rate(evidence, settings)
    ]


def rows_of_ratings(ratings: Iterable[Rating], method: str) -> list[RatingRow]:
    """Return rows best first, those without a rating last; equal ratings share the better rank."""
    listed = list(ratings)
    known = [each.value for each in listed if each.value is not None]
    rows = [
        RatingRow(
            dimension="",
            method=method,
            entrant_id=each.entrant,
            rating=each.value,
            standard_error=each.standard_error,
            low=each.low,
            high=each.high,
            rank=None
            if each.value is None
            else 1 + sum(other > each.value + _LEVEL for other in known),
            n=each.n,
            note=each.note,
        )
        for each in listed
    ]
    return sorted(rows, key=lambda row: (row.rating is None, -(row.rating or 0.0)))


def _elo(evidence: Evidence, settings: RatingSettings) -> list[RatingRow]:
    """Return mean ratings over orderings, and who is above whom beyond the order noise."""
    if evidence.traces is None:
        raise InputError("there are no Elo traces; expected those of the matches")
    traces, notes = evidence.traces, elo_standing(evidence.matches).notes
    found = summarise_elo(traces, confidence=settings.confidence)
    above = _beyond_order_noise(traces.ratings)
    compares = np.array([note is None for note in notes], dtype=np.bool_)
    above &= compares[:, None] & compares
    names = np.array(traces.entrants)
    below = {name: tuple(names[row].tolist()) for name, row in zip(names, above, strict=True)}
    ratings = [
        Rating(each.value if note is None else None, n=each.n, note=note, entrant=each.entrant)
        for each, note in zip(found, notes, strict=True)
    ]
    rows = rows_of_ratings(ratings, ELO)
    return [replace(row, shown_above=below[row.entrant_id]) for row in rows]


def _beyond_order_noise(ratings: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether the row's mean rating is above the column's by more than order noise."""
    n_permutations = ratings.shape[0]
    mean = ratings.mean(axis=0)
    reach = np.zeros((mean.size, mean.size))
    if n_permutations > 1:
        covariance = np.atleast_2d(np.cov(ratings, rowvar=False))
        variance = np.diagonal(covariance)
        spread = variance[:, None] + variance[None, :] - 2 * covariance
        error = np.sqrt(np.maximum(spread, 0.0) / n_permutations)
        reach = error * two_sided_quantile(_ORDER_NOISE, degrees_of_freedom=n_permutations - 1)
    above: NDArray[np.bool_] = mean[:, None] - mean[None, :] > reach + _LEVEL
    return above


def _bradley_terry(evidence: Evidence, settings: RatingSettings) -> list[RatingRow]:
    """Return ratings; where the evidence tells entrants apart, with ranks, places and letters."""
    found = stand(evidence.matches, settings, decided=evidence.decided).entrants
    if not evidence.tells_apart:
        return rows_of_ratings(found, BRADLEY_TERRY)
    return rows_of_standings(found)


def rows_of_standings(found: Iterable[Standing]) -> list[RatingRow]:
    """Return rows of Bradley-Terry with ranks, places and letters, best first."""
    standings = {each.entrant: each for each in found}
    rows = [
        replace(
            row,
            rank=own.rank,
            rank_best=own.best,
            rank_worst=own.worst,
            shown_above=own.shown_above,
            group=own.group,
        )
        for row in rows_of_ratings(standings.values(), BRADLEY_TERRY)
        for own in (standings[row.entrant_id],)
    ]
    # The sort is stable, so rows of equal rank stay best first.
    return sorted(rows, key=lambda row: (row.rank is None, row.rank))


def stand(
    matches: Matches,
    settings: RatingSettings,
    *,
    decided: Collection[tuple[str, str]] | None = None,
) -> Standings:
    """Rate, order and compare the entrants as the settings say; see `stand_entrants`."""
    return stand_entrants(
        matches,
        resampling=settings.resampling,
        equivalent_within=settings.equivalent_within,
        initial_rating=settings.initial_rating,
        decided=decided,
    )


def _sandwich(evidence: Evidence, settings: RatingSettings) -> list[RatingRow]:
    found = sandwich_bradley_terry(
        evidence.matches,
        unit=SamplingUnit.PROMPT,
        confidence=settings.confidence,
        initial_rating=settings.initial_rating,
    )
    return rows_of_ratings((replace(each, n=found.n_units) for each in found.ratings), SANDWICH)


def _davidson(evidence: Evidence, settings: RatingSettings) -> list[RatingRow]:
    """Return ratings, then the tie parameter."""
    matches = evidence.matches if evidence.outcomes is None else evidence.outcomes
    if not matches.is_hard:
        reason = "knows only wins, losses and ties"
        unrated = (Rating(note=reason, entrant=name) for name in matches.entrants)
        return rows_of_ratings(unrated, DAVIDSON)
    fit = fit_davidson(matches, initial_rating=settings.initial_rating)
    rows = rows_of_ratings(
        (replace(each, n=len(matches.prompts)) for each in fit.ratings), DAVIDSON
    )
    n_prompts = len(matches.prompts)
    return [*rows, _effect(TIES, TIES, Estimate(fit.tie_parameter, n=n_prompts))]


def _style(evidence: Evidence, settings: RatingSettings) -> list[RatingRow]:
    """Return ratings at equal style, then the features' effects, those without one last."""
    if evidence.responses is None:
        raise InputError("there are no responses; expected the text of every judged one")
    samples = evidence.matches if evidence.samples is None else evidence.samples
    found = control_style(
        samples.weighed_by_sample(),
        judged_differences(samples, evidence.responses),
        penalty=0.0,
        confidence=settings.confidence,
        initial_rating=settings.initial_rating,
    )
    n_prompts = len(samples.prompts)
    rows = rows_of_ratings((replace(each, n=n_prompts) for each in found.ratings), STYLE)
    for each in found.effects:
        size = format_share(each.scale, decimals=0)
        note = (
            f"a usual difference is {size} of the {_in_words(each.name)} of both responses together"
        )
        if each.standard_error is None:
            note += "; no spread between prompts, so the error cannot be measured"
        effect = replace(each, n=n_prompts, note=note)
        rows.append(_effect(EFFECT, each.name, effect, each.standard_error))
    for refused in found.refused:
        rows.append(_effect(EFFECT, refused.name, Estimate(n=n_prompts, note=refused.reason)))
    return rows


def _in_words(feature: str) -> str:
    return feature.replace("_", " ")


def _effect(
    method: str, name: str, found: Estimate, standard_error: float | None = None
) -> RatingRow:
    return RatingRow(
        dimension="",
        method=method,
        entrant_id=name,
        rating=found.value,
        standard_error=standard_error,
        low=found.low,
        high=found.high,
        n=found.n,
        note=found.note,
    )


METHODS: Mapping[str, RatingMethod] = {
    BRADLEY_TERRY: RatingMethod(
        "Bradley-Terry",
        _bradley_terry,
        counts="counts a pair without a winner as half a win for each",
    ),
    SANDWICH: RatingMethod("Bradley-Terry sandwich", _sandwich),
    ELO: RatingMethod(
        "Elo", _elo, counts="leaves out pairs without a winner and moves at most K points a match"
    ),
    DAVIDSON: RatingMethod(
        "Davidson",
        _davidson,
        counts="gives ties a rate of their own and goes by wins against losses",
    ),
    STYLE: RatingMethod("Bradley-Terry at equal style", _style),
}
"""All rating methods, by name, in the order of table "ratings"."""


def compared_methods() -> list[str]:
    """Return the names of the methods that stand side by side: Elo, then those of the table."""
    return sorted(
        (name for name, each in METHODS.items() if each.counts), key=lambda name: name != ELO
    )
