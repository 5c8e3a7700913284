"""The rating methods, as rows of one table: each one's name, and how it rates the pairs.

They answer somewhat different questions. Elo leaves ties out and forgets what came early in an
ordering; Bradley-Terry counts a tie as half a win; Davidson gives ties a rate of their own. Where
two methods rank a pair differently, the battles say little about it, or the order depends on what a
tie means.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.estimates import Rating
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.foundation.formatting import format_share
from tournament_assets.ratings.davidson import fit_davidson
from tournament_assets.ratings.elo import elo_standing, summarise_elo
from tournament_assets.ratings.intervals import two_sided_quantile
from tournament_assets.ratings.rating_evidence import Evidence, RatingMethod
from tournament_assets.ratings.rating_tables import LEVEL, row_of_rating, rows_of_ratings
from tournament_assets.ratings.sandwich import sandwich_bradley_terry
from tournament_assets.ratings.standings import Claim, Standings
from tournament_assets.ratings.style_control import control_style, judged_differences
from tournament_assets.tournament.asset_rows import RatingRow

ELO, BRADLEY_TERRY, SANDWICH, DAVIDSON, STYLE = (
    "elo",
    "bradley_terry",
    "sandwich",
    "davidson",
    "style",
)
WIN_SHARE, GAP = "win_share", "gap"
TIES, EFFECT = "ties", "style_effect"

_ORDER_NOISE = 0.95
"""Mean Elo ratings differ where this interval of their difference, over orderings, excludes 0."""


def rating_rows(evidence: Evidence, methods: Sequence[str], *, dimension: str) -> list[RatingRow]:
    """Return the rows of table "ratings" by some methods for one dimension.

    Args:
        methods: Names of `METHODS`.

    Returns:
        By method, and within one best first, those without a rating last.
    """
    return [
        replace(row, dimension=dimension)
        for method in methods
        for row in METHODS[method].rows(evidence)
    ]


def _elo(evidence: Evidence) -> list[RatingRow] | None:
    """Return mean ratings over orderings, and who is above whom beyond the order noise."""
    traces, notes = evidence.traces, elo_standing(evidence.matches).notes
    if traces is None:
        return None
    means = summarise_elo(traces, confidence=evidence.settings.confidence)
    above = _beyond_order_noise(traces.ratings)
    compares = np.array([note is None for note in notes], dtype=np.bool_)
    above &= compares[:, None] & compares
    names = np.array(traces.entrants)
    below = {name: tuple(names[row].tolist()) for name, row in zip(names, above, strict=True)}
    ratings = [
        Rating(mean.value if note is None else None, n=mean.n, note=note, entrant=mean.entrant)
        for mean, note in zip(means, notes, strict=True)
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
    above: NDArray[np.bool_] = mean[:, None] - mean[None, :] > reach + LEVEL
    return above


def _bradley_terry(evidence: Evidence) -> list[RatingRow]:
    """Return ratings; where the evidence tells entrants apart, with ranks, places and letters."""
    if evidence.tells_apart:
        return placed_rows(evidence.standings)
    return rows_of_ratings(evidence.standings.entrants, BRADLEY_TERRY)


def placed_rows(entrants: Standings) -> list[RatingRow]:
    """Return everyone's row by Bradley-Terry, with its rank, places and letters."""
    standings = {standing.entrant: standing for standing in entrants.entrants}
    rows = rows_of_ratings(standings.values(), BRADLEY_TERRY)
    placed = [
        replace(
            row,
            rank=standing.rank,
            rank_best=standing.best,
            rank_worst=standing.worst,
            shown_above=standing.shown_above,
            group=standing.group,
        )
        for row in rows
        for standing in (standings[row.entrant_id],)
    ]
    # The sort is stable, so rows of equal rank stay best first.
    return sorted(placed, key=lambda row: (row.rank is None, row.rank))


def _sandwich(evidence: Evidence) -> list[RatingRow]:
    fit = sandwich_bradley_terry(
        evidence.matches,
        confidence=evidence.settings.confidence,
        initial_rating=evidence.settings.initial_rating,
    )
    return rows_of_ratings((replace(each, n=fit.n_prompts) for each in fit.ratings), SANDWICH)


def _davidson(evidence: Evidence) -> list[RatingRow]:
    """Return ratings, then the tie parameter."""
    matches = evidence.matches if evidence.outcomes is None else evidence.outcomes
    if not matches.is_hard:
        reason = "knows only wins, losses and ties"
        unrated = (Rating(note=reason, entrant=name) for name in matches.entrants)
        return rows_of_ratings(unrated, DAVIDSON)
    fit = fit_davidson(matches, initial_rating=evidence.settings.initial_rating)
    rows = rows_of_ratings((replace(each, n=evidence.n_prompts) for each in fit.ratings), DAVIDSON)
    ties = Rating(fit.tie_parameter, n=evidence.n_prompts, entrant=TIES)
    return [*rows, row_of_rating(ties, TIES)]


def _style(evidence: Evidence) -> list[RatingRow] | None:
    """Return ratings at equal style, then the features' effects, those without one last."""
    if evidence.responses is None:
        return None
    samples = evidence.by_sample
    fit = control_style(
        samples.weighed_by_sample(),
        judged_differences(samples, evidence.responses),
        confidence=evidence.settings.confidence,
        initial_rating=evidence.settings.initial_rating,
    )
    n_prompts = len(samples.prompts)
    rows = rows_of_ratings((replace(rating, n=n_prompts) for rating in fit.ratings), STYLE)
    for effect in fit.effects:
        size = format_share(effect.scale, decimals=0)
        feature = effect.name.replace("_", " ")
        note = f"a usual difference is {size} of the {feature} of both responses together"
        if effect.standard_error is None:
            note += "; no spread between prompts, so the error cannot be measured"
        gain = Rating(
            *(effect.value, effect.low, effect.high, n_prompts, note),
            entrant=effect.name,
            standard_error=effect.standard_error,
        )
        rows.append(row_of_rating(gain, EFFECT))
    for refused in fit.refused:
        left_out = Rating(n=n_prompts, note=refused.reason, entrant=refused.name)
        rows.append(row_of_rating(left_out, EFFECT))
    return rows


def _win_share(evidence: Evidence) -> list[RatingRow]:
    """Return points over pairs; a pair without a winner is half a point for each."""
    wins, entrants = evidence.by_sample.wins, evidence.matches.entrants
    n_of = dict(zip(entrants, evidence.by_sample.matches_per_entrant.tolist(), strict=True))
    rows = share_rows(entrants, wins.sum(axis=1), (wins + wins.T).sum(axis=1))
    # Where pairs stop early some weigh more, and n says how many were judged.
    return [replace(row, n=n_of[row.entrant_id]) for row in rows]


def share_rows(
    entrants: Sequence[str], points: Iterable[float], pairs: Iterable[float]
) -> list[RatingRow]:
    """Return every entrant's points over pairs, best first.

    Args:
        points: Pairs that each won, with half of those without a winner.
        pairs: The pairs over which they are counted.
    """
    shares = [
        Rating(float(won / n) if n else None, n=round(n), entrant=name)
        for name, won, n in zip(entrants, points, pairs, strict=True)
    ]
    return rows_of_ratings(shares, WIN_SHARE)


def _gap(evidence: Evidence) -> list[RatingRow]:
    """Return how far each rated entrant is above the next, with the joint interval of all pairs."""
    claims = {
        (each.first, each.second): each
        for claim in evidence.standings.claims
        for each in (claim, claim.turned)
    }
    rows = []
    for name, below in neighbours(_bradley_terry(evidence)):
        claim, n_prompts = claims[name, below], len(evidence.matches.prompts)
        difference, is_better = claim.difference, claim.claim is Claim.FIRST_BETTER
        # Two of equal rating are 0 apart, whatever a processor leaves in the last digit.
        value = None if difference.value is None else round(difference.value, 9) + 0.0
        gap = Rating(
            value, difference.low, difference.high, n_prompts, difference.note, entrant=name
        )
        above = (below,) if is_better else ()
        rows.append(replace(row_of_rating(gap, GAP), shown_above=above))
    return rows


def neighbours(rows: Iterable[RatingRow]) -> list[tuple[str, str]]:
    """Return each entrant rated by Bradley-Terry with the one rated next below it, best first."""
    rated = sorted(
        (-round(row.rating, 6), row.entrant_id)
        for row in rows
        if row.method == BRADLEY_TERRY and row.rating is not None
    )
    return [(name, below) for (_, name), (_, below) in pairwise(rated)]


_IN_ORDER = (
    RatingMethod(
        BRADLEY_TERRY,
        "Bradley-Terry",
        "what orders and separates: on the Elo scale, a tie as half a win, prompts resampled",
        _bradley_terry,
        counts="counts a pair without a winner as half a win for each",
        interval=SANDWICH,
        from_counts=True,
    ),
    RatingMethod(
        SANDWICH,
        "Bradley-Terry sandwich",
        "the same rating with the error that whole prompts show",
        _sandwich,
    ),
    RatingMethod(
        ELO,
        "Elo",
        "the mean over orderings; shown_above: who is below it beyond order noise",
        _elo,
        counts="leaves out pairs without a winner and moves at most K points a match",
        needs="traces",
        noise="order noise",
    ),
    RatingMethod(
        DAVIDSON,
        "Davidson",
        "the rating with ties at a rate of their own",
        _davidson,
        counts="gives ties a rate of their own and goes by wins against losses",
        from_counts=True,
    ),
    RatingMethod(TIES, "tie parameter", "Davidson's rate of ties", beside=DAVIDSON),
    RatingMethod(
        STYLE,
        "Bradley-Terry at equal style",
        "the rating as if all responses were as long and laid out alike",
        _style,
        needs="responses",
    ),
    RatingMethod(
        EFFECT,
        "style effect",
        "Elo points that a usual difference of a feature is worth",
        needs="responses",
        beside=STYLE,
    ),
    RatingMethod(WIN_SHARE, "win share", "points over pairs, a tie as half a point", _win_share),
    RatingMethod(GAP, "gap", "Elo points above the next below by Bradley-Terry", _gap),
)
METHODS: Mapping[str, RatingMethod] = {
    row.name: row for row in (*_IN_ORDER, *added_rows("methods", _IN_ORDER))
}
"""Every rating method, by name, in the order of table "ratings"."""


def rows_by(rows: Iterable[RatingRow], method: str) -> list[RatingRow]:
    """Return the rows of a method, then those that its fit gives beside them."""
    return [row for row in rows if method in (row.method, METHODS[row.method].beside)]


def compared_methods() -> list[str]:
    """Return the names of the methods that stand side by side: Elo, then those of the table."""
    return sorted(
        (name for name, each in METHODS.items() if each.counts), key=lambda name: name != ELO
    )
