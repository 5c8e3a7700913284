"""Bradley-Terry ratings that people would give, from many verdicts of a judge and few labels.

A judge's verdicts are cheap, but its own intervals do not show its errors. Prediction-powered
inference rates by the judge and corrects by the pairs that both judge and people decided: the
ratings estimate what people's votes on all pairs would give, however good the judge is, and are
narrower than those of the labels alone if it is any good. Source: Angelopoulos, Duchi and Zrnic,
"PPI++: Efficient prediction-powered inference", https://arxiv.org/abs/2311.01453; labels drawn with
unequal chances: Zrnic and Candès, "Active statistical inference", https://arxiv.org/abs/2403.03208,
and https://arxiv.org/abs/2501.18577; several raters: `raters`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tournament_assets.extras.people.config_keys import Opinion
from tournament_assets.extras.people.labelled_pairs import (
    Floats,
    LabelledPair,
    PairDesign,
    connected_entrants,
    require_labelled,
)
from tournament_assets.extras.people.methods import JUDGE_WEIGHT, POWERED
from tournament_assets.extras.people.raters import MIN_RATERS, RaterSpread, too_few_raters
from tournament_assets.foundation.errors import RatingError
from tournament_assets.foundation.estimates import Rating, Resampling
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT
from tournament_assets.ratings.intervals import BootstrapRatings, two_sided_quantile
from tournament_assets.ratings.matches import require_confidence
from tournament_assets.ratings.rating_tables import rows_of_ratings
from tournament_assets.ratings.sandwich import contrast_inverse
from tournament_assets.ratings.significance import SeparatedEntrants, separate_entrants
from tournament_assets.tournament.asset_rows import RatingRow
from tournament_assets.tournament.battles import RatingSettings

MIN_PROMPTS = 15
"""An entrant with fewer labelled prompts gets no interval: they say too little of the spread."""
_MAX_STEPS = 100
_MOST_HALVINGS = 8
_FARTHEST = 40.0
"""Natural log odds between two entrants (some 7,000 Elo points) that no labels could support."""


@dataclass(frozen=True, slots=True, eq=False)
class PoweredFit:
    """Ratings as people would give them.

    Attributes:
        ratings: One per entrant, in the order given, counting the prompts on which a pair of the
            entrant was labelled; without an error if those are too few.
        covariance: Elo points squared, shape (n_entrants, n_entrants); NaN where unknown.
        weight: How much the judge counts: 0 rates by the labels alone; a judge that always agrees
            with people gets the share of unlabelled pairs.
        n_prompts: Prompts with a labelled pair.
        degrees_of_freedom: Of Student's t in the intervals.
    """

    ratings: tuple[Rating, ...]
    covariance: Floats
    weight: float
    n_prompts: int
    degrees_of_freedom: int


def rate_prediction_powered(
    pairs: Sequence[LabelledPair],
    *,
    entrants: Sequence[str],
    confidence: float,
    weight: float | None = None,
    about: Opinion = "these_raters",
    initial_rating: float = 1400.0,
) -> PoweredFit:
    """Rate entrants as people would, from a judge's verdicts and labels on some of its pairs.

    The labelled pairs must be a random draw, each with its stated chance; the chance of an
    unlabelled pair is not used. In the standard errors, all pairs on one prompt count as one draw.
    If `about` is `people`, so do all labels of one rater, Student's t gets Satterthwaite's degrees
    of freedom from prompts and raters, and there is no interval with fewer than `MIN_RATERS` raters
    or an unknown one.

    Args:
        pairs: Every pair that the judge settled, labelled or not.
        weight: How much the judge counts, from 0 to 1; None finds the weight that makes the total
            variance of the ratings smallest.
        about: Whose opinion is estimated: these raters' on other prompts, or that of the people
            from whom they are a random draw.
        initial_rating: What the ratings average to, in Elo points.

    Raises:
        InputError: If a share, a chance, the weight or the confidence is out of its range, a pair
            names an unknown entrant, or no pair is labelled.
        RatingError: If the likelihood could not be maximised.
    """
    require_confidence(confidence)
    require_labelled(pairs, entrants, weight)
    members = connected_entrants(pairs, entrants)
    design = PairDesign.of(
        [each for each in pairs if {each.first, each.second} <= members.keys()], members
    )
    strengths, weight = _fit_by_best_weight(design) if weight is None else (None, weight)
    fitted = _with_errors(
        design,
        _fit(design, weight) if strengths is None else strengths,
        weight,
        about=about,
        confidence=confidence,
        initial_rating=initial_rating,
    )
    return _for_all(fitted, entrants)


def rate_on_every_basis(
    pairs: Sequence[LabelledPair],
    *,
    entrants: Sequence[str],
    confidence: float,
    about: Opinion = "these_raters",
    initial_rating: float = 1400.0,
) -> dict[str, PoweredFit]:
    """Rate from the labels alone, from the judge alone, and from both as people would.

    The arguments are those of `rate_prediction_powered`; `about` applies to `people` and `both`.

    Returns:
        Fits by basis: `people`, `judge` and `both`; `judge` alone if there is no label, and nothing
        if there is no pair.
    """
    rate = partial(
        rate_prediction_powered,
        entrants=entrants,
        confidence=confidence,
        initial_rating=initial_rating,
    )
    fits = {}
    if any(pair.labelled is not None for pair in pairs):
        fits["people"] = rate(pairs, weight=0.0, about=about)
    if pairs:
        verdicts = [replace(pair, labelled=pair.judged, chance=1.0) for pair in pairs]
        fits["judge"] = rate(verdicts, weight=0.0)
    if "people" in fits:
        fits["both"] = rate(pairs, about=about)
    return fits


def separate_powered(fit: PoweredFit, *, resampling: Resampling) -> SeparatedEntrants:
    """Find which entrants the ratings separate, over all pairs at once, as the leaderboard does.

    The leaderboard's rule uses ratings on resamples; here they are drawn from the normal
    distribution with the ratings' covariance, or from Student's t if the raters leave fewer degrees
    of freedom than the prompts. Entrants without an interval are not ranked.

    Args:
        resampling: How many sets of ratings to draw, the seed, and the joint confidence of all
            conclusions.
    """
    fitted = np.flatnonzero([rating.standard_error is not None for rating in fit.ratings])
    ratings = np.array([each.value or 0.0 for each in fit.ratings])
    drawn = np.full((resampling.n, ratings.size), np.nan)
    values, vectors = np.linalg.eigh(fit.covariance[np.ix_(fitted, fitted)])
    # The rule below already widens by n / (n - 1).
    unit = max(fit.n_prompts, 2)
    spread = np.sqrt(np.maximum(values, 0.0) * ((unit - 1) / unit))
    generator = np.random.default_rng(resampling.seed)
    noise = generator.standard_normal((resampling.n, fitted.size))
    if fit.degrees_of_freedom < unit - 1:
        chances = generator.chisquare(fit.degrees_of_freedom, (resampling.n, 1))
        noise *= np.sqrt(fit.degrees_of_freedom / chances)
    drawn[:, fitted] = ratings[fitted] + (noise * spread) @ vectors.T
    return separate_entrants(
        BootstrapRatings(tuple(each.entrant for each in fit.ratings), drawn, fit.n_prompts),
        ratings=[each.value if each.standard_error is not None else None for each in fit.ratings],
        confidence=resampling.confidence,
    )


def _for_all(fitted: PoweredFit, entrants: Sequence[str]) -> PoweredFit:
    """Put the ratings in the entrants' order, with a note for those without a rating."""
    place = {each.entrant: index for index, each in enumerate(fitted.ratings)}
    members = [index for index, entrant in enumerate(entrants) if entrant in place]
    covariance = np.full((len(entrants), len(entrants)), np.nan)
    covariance[np.ix_(members, members)] = fitted.covariance
    note = "no chain of labelled wins and losses connects it to the others; label more pairs"
    return replace(
        fitted,
        ratings=tuple(
            fitted.ratings[place[each]] if each in place else Rating(note=note, entrant=each)
            for each in entrants
        ),
        covariance=covariance,
    )


def _labelled_prompts(design: PairDesign) -> NDArray[np.int64]:
    met = np.zeros((design.n_prompts, design.n_entrants), dtype=np.bool_)
    for side in (design.first, design.second):
        met[design.prompt[design.is_labelled], side[design.is_labelled]] = True
    return np.asarray(met.sum(axis=0), dtype=np.int64)


def _fit_by_best_weight(design: PairDesign) -> tuple[Floats, float]:
    """Return the strengths at the best weight, and that weight.

    A few labels can correct the verdicts so much that the loss has no minimum. It has one for the
    labels alone, so the weight is then found from those, and halved until the loss has a minimum.
    """
    if design.is_labelled.all():
        return _fit(design, 0.0), 0.0
    full = _minimum(design, 1.0)
    weight = _best_weight(design, _fit(design, 0.0) if full is None else full)
    for _ in range(_MOST_HALVINGS):
        strengths = _minimum(design, weight)
        if strengths is not None:
            return strengths, weight
        weight /= 2
    return _fit(design, 0.0), 0.0


def _fit(design: PairDesign, weight: float) -> Floats:
    """Minimise the loss, in natural logarithms of strengths that average to 0."""
    strengths = _minimum(design, weight)
    if strengths is None:
        raise RatingError(
            f"the loss at weight {weight:g} has no minimum that {_MAX_STEPS} Newton steps find; "
            "expected labels and verdicts that determine the ratings; label more pairs"
        )
    return strengths


def _minimum(design: PairDesign, weight: float) -> Floats | None:
    """Return the strengths that minimise the loss; None if it has no minimum."""
    strengths = np.zeros(design.n_entrants)
    if not strengths.size:
        return strengths
    labelled, alone = design.labelled, weight * design.judged_by
    for _ in range(_MAX_STEPS):
        expected = design.expected(strengths)
        pulls = alone * (expected - design.judged) + labelled * (
            (expected - design.label) - weight * (expected - design.judged)
        )
        curvature = expected * (1 - expected)
        weights = (alone + (1 - weight) * labelled) * curvature
        step = -contrast_inverse(design.information(weights)) @ design.by_entrant(pulls)
        width = float(np.ptp(step))
        # As in `log_strengths`: a step shortened like this cannot overshoot.
        strengths = strengths + step * (np.log1p(width) / width if width > 0 else 1.0)
        if width < 1e-10:  # Newton's next step is its square
            return strengths
        if not np.ptp(strengths) < _FARTHEST:
            return None
    return None


def _best_weight(design: PairDesign, strengths: Floats) -> float:
    """Return the weight of the judge with the least total variance, from 0 to 1."""
    expected = design.expected(strengths)
    bread = _bread(design, expected)
    of_people, of_judge = expected - design.label, expected - design.judged
    n, n_all = int(design.is_labelled.sum()), design.is_labelled.size
    if design.judged_by[design.is_labelled].any():
        # What a label adds to the verdicts on all pairs: nothing if it was certain to be drawn.
        worth = np.where(design.is_labelled, (1 / design.chance - 1) / design.chance, 0.0)
        gain, cost = (
            np.trace(bread @ design.information(worth * of_judge * other) @ bread)
            for other in (of_people, of_judge)
        )
        return float(np.clip(gain / cost, 0.0, 1.0)) if cost > 0 else 0.0
    both = _covariance(design, of_people, of_judge, design.labelled)
    spread = _covariance(design, of_judge, of_judge, design.stands_for)
    gain = np.trace(bread @ (both + both.T) @ bread)
    cost = 2 * (1 + n / max(1, n_all - n)) * np.trace(bread @ spread @ bread)
    return float(np.clip(gain / cost, 0.0, 1.0)) if cost > 0 else 0.0


def _bread(design: PairDesign, expected: Floats) -> Floats:
    if not expected.size:
        return np.zeros((0, 0))
    weights = expected * (1 - expected) * design.stands_for
    return contrast_inverse(design.information(weights))


def _covariance(design: PairDesign, one: Floats, other: Floats, weights: Floats) -> Floats:
    """Return the covariance of the pairs' gradients, with weights that sum to 1."""
    n = np.count_nonzero(weights)
    means = [design.by_entrant(weights * pulls) for pulls in (one, other)]
    raw = design.information(weights * one * other) - np.outer(*means)
    return np.asarray(raw * (n / (n - 1) if n > 1 else np.nan))


def _with_errors(
    design: PairDesign,
    strengths: Floats,
    weight: float,
    *,
    about: Opinion,
    confidence: float,
    initial_rating: float,
) -> PoweredFit:
    spread = _spread(design, strengths, weight, about)
    covariance = spread.covariance * ELO_PER_NAT**2
    reach = two_sided_quantile(confidence, degrees_of_freedom=spread.degrees_of_freedom)
    refusal = _why_refused(design) if about == "people" else None
    ratings = []
    for index, n in enumerate(_labelled_prompts(design)):
        entrant = design.entrants[index]
        rating = float(initial_rating + strengths[index] * ELO_PER_NAT)
        if n < MIN_PROMPTS or refusal:
            note = refusal or f"labelled on {n} prompts; an interval needs {MIN_PROMPTS}"
            ratings.append(Rating(rating, n=int(n), note=note, entrant=entrant))
            continue
        error = float(np.sqrt(covariance[index, index]))
        low, high = rating - reach * error, rating + reach * error
        ratings.append(Rating(rating, low, high, n=int(n), entrant=entrant, standard_error=error))
    unknown = [index for index, each in enumerate(ratings) if each.standard_error is None]
    covariance[unknown, :] = covariance[:, unknown] = np.nan
    return PoweredFit(
        ratings=tuple(ratings),
        covariance=covariance,
        weight=weight,
        n_prompts=np.unique(design.prompt[design.is_labelled]).size,
        degrees_of_freedom=spread.degrees_of_freedom,
    )


def _why_refused(design: PairDesign) -> str | None:
    """Explain why labels do not show how people differ; None if they do."""
    pairs, raters, _ = design.rater_of
    are_all_known = bool(np.isin(np.flatnonzero(design.is_labelled), pairs).all())
    return too_few_raters(np.unique(raters).size, are_all_known=are_all_known)


@dataclass(frozen=True, slots=True, eq=False)
class _Spread:
    """Covariance of the log strengths, and its degrees of freedom."""

    covariance: Floats
    degrees_of_freedom: int


def _spread(design: PairDesign, strengths: Floats, weight: float, about: Opinion) -> _Spread:
    """Return the spread, clustered by prompt, and also by rater if it is about people."""
    expected = design.expected(strengths)
    bread = _bread(design, expected)
    influence = _influence_of_prompts(design, expected, weight) @ bread
    by_prompt = influence.T @ influence
    of_prompts = max(1, np.unique(design.prompt[design.is_labelled]).size - 1)
    n_raters = np.unique(design.rater_of[1]).size
    if about == "these_raters" or n_raters < MIN_RATERS:
        return _Spread(by_prompt, of_prompts)
    pairs, raters, _ = design.rater_of
    of_raters = RaterSpread.of(
        _influence_of_labels(design, expected, weight) @ bread,
        prompts=design.prompt[pairs],
        raters=raters,
    )
    freedom = of_raters.degrees_of_freedom(by_prompt, of_prompts=of_prompts)
    return _Spread(by_prompt + of_raters.added, freedom)


def _influence_of_prompts(design: PairDesign, expected: Floats, weight: float) -> Floats:
    """Sum the gradients of each prompt's pairs, labelled or not, shape (n_prompts, n_entrants)."""
    of_judge = expected - design.judged
    corrected = (expected - design.label) - weight * of_judge
    parts = []
    for weights, pulls in ((weight * design.judged_by, of_judge), (design.labelled, corrected)):
        prompts = np.unique(design.prompt[weights > 0])
        # The gradients of a prompt's pairs, less the mean of their kind.
        total = weights.sum()
        mean = design.by_entrant(weights * pulls) / total if total else 0.0
        shares = np.bincount(design.prompt, weights, minlength=design.n_prompts)
        centred = design.by_prompt(weights * pulls) - shares[:, None] * mean
        parts.append(centred * np.sqrt(prompts.size / max(1, prompts.size - 1)))
    return np.asarray(parts[0] + parts[1])


def _influence_of_labels(design: PairDesign, expected: Floats, weight: float) -> Floats:
    """Return each label's gradient, less their mean, shape (n_labels, n_entrants)."""
    pairs, _, shares = design.rater_of
    corrected = (expected[pairs] - shares) - weight * (expected - design.judged)[pairs]
    labels_on = np.bincount(pairs, minlength=expected.size)
    weights = (design.labelled / np.maximum(labels_on, 1))[pairs]
    gradients = np.zeros((pairs.size, design.n_entrants))
    label = np.arange(pairs.size)
    gradients[label, design.first[pairs]] = corrected
    gradients[label, design.second[pairs]] = -corrected
    return np.asarray(weights[:, None] * (gradients - weights @ gradients / weights.sum()))


_EVENLY = 0.25
"""The part of the worth that all pairs share."""
_EVERYBODY_ALIKE = 10.0
"""How many labels the prior counts as, by which labels stray as far as the ratings predict."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelDraw:
    """Pairs to label next.

    Attributes:
        chosen: Their indexes, in the order in which to label them.
        chances: Shape (n_pairs,): each pair's chance of having been drawn by now.
    """

    chosen: NDArray[np.int64]
    chances: Floats


def draw_by_worth(worth: Floats, numbers: Floats, chances: Floats, n_new: int) -> LabelDraw:
    """Draw the pairs to label next, with a known chance for every pair.

    Every pair has one fixed, uniform random number, and is drawn if that is below its chance. The
    chances, proportional to the worth, rise until `n_new` more pairs are drawn; the first pair left
    out sets them, which keeps sums weighted by 1 / chance unbiased. Source: Duffield, Lund and
    Thorup, "Priority sampling for estimation of arbitrary subset sums",
    https://doi.org/10.1145/1314690.1314696.

    Args:
        worth: The shares that `label_worth` returned.
        numbers: The pairs' numbers, from 0 to 1.
        chances: The chance of each pair in earlier draws; 0 if it was not drawn.
        n_new: How many more; all that are left if there are fewer.
    """
    undrawn = np.flatnonzero(chances == 0)
    order = undrawn[np.lexsort((undrawn, (numbers / worth)[undrawn]))]
    chosen, rest = order[:n_new], order[n_new:]
    threshold = (numbers / worth)[rest[0]] if rest.size else np.inf
    raised = np.maximum(chances, np.minimum(worth * threshold, 1.0))
    raised[rest] = np.minimum(worth[rest] * threshold, 1.0)
    return LabelDraw(chosen, raised)


def label_worth(pairs: Sequence[LabelledPair], *, entrants: Sequence[str]) -> Floats:
    """Return the shares with which to draw pairs so that their labels narrow the intervals most.

    A label is worth more the further the pair moves the ratings and the less the verdict and the
    ratings predict what people will say, which is estimated from earlier labels, separately for
    verdicts with and without a winner. Chances proportional to the product of both minimise the
    total variance. A quarter is spread evenly, so that no pair can weigh too much.

    Args:
        pairs: Every pair that the judge settled, with any labels.

    Returns:
        Shape (n_pairs,), adding up to 1, each at least a quarter of 1 / n_pairs.
    """
    judged = [replace(pair, labelled=pair.judged, chance=1.0, raters=()) for pair in pairs]
    require_labelled(judged, entrants, None)
    members = connected_entrants(judged, entrants)
    inside = np.array([{each.first, each.second} <= members.keys() for each in pairs])
    design = PairDesign.of(
        [pair for pair, is_in in zip(pairs, inside, strict=True) if is_in], members
    )
    worth = np.ones(len(pairs))
    if inside.any():
        base = PairDesign.of([p for p, is_in in zip(judged, inside, strict=True) if is_in], members)
        expected = base.expected(_fit(base, 0.0))
        spread = np.sqrt(expected * (1 - expected) * _surprise(design, expected))
        bread = _bread(base, expected)
        reach = np.linalg.norm(bread[design.first] - bread[design.second], axis=1)
        worth[inside] = spread * reach
        # Entrants that are not connected yet are asked about as often as the best pair.
        worth[~inside] = worth[inside].max()
    return np.asarray(_EVENLY / len(pairs) + (1 - _EVENLY) * (worth / worth.sum()))


def _surprise(design: PairDesign, expected: Floats) -> Floats:
    """Return how much more labels stray than the ratings predict, by kind of verdict."""
    factors = np.ones(expected.size)
    for is_decided in (True, False):
        kind = (design.judged != 0.5) == is_decided
        seen = kind & design.is_labelled
        strayed = ((design.label - expected)[seen] ** 2).sum()
        spread = (expected * (1 - expected))[seen].mean() if seen.any() else 1.0
        factors[kind] = (strayed / spread + _EVERYBODY_ALIKE) / (seen.sum() + _EVERYBODY_ALIKE)
    return factors


def powered_rows(
    fits: Mapping[str, PoweredFit], *, dimension: str, settings: RatingSettings
) -> list[RatingRow]:
    """Return the rows of table "people_ratings" by labels, by the judge, and by both.

    The leaderboard says whom the judge tells apart, so ratings by the judge have no places here:
    another method could give others.
    """
    rows: list[RatingRow] = []
    for basis, fit in fits.items():
        is_judge = basis == "judge"
        places = () if is_judge else separate_powered(fit, resampling=settings.resampling).ranks
        rated = {
            row.entrant_id: replace(row, basis=basis, rank=None)
            for row in rows_of_ratings(fit.ratings, POWERED.name)
        }
        for rank, place in enumerate(places, start=1):
            rated[place.entrant] = replace(
                rated[place.entrant],
                rank=rank,
                rank_best=place.best,
                rank_worst=place.worst,
                shown_above=place.shown_above,
                group=place.letters,
            )
        rows += rated.values()
        weight = Rating(fit.weight, n=fit.n_prompts, entrant="judge")
        rows += [replace(rows_of_ratings([weight], JUDGE_WEIGHT.name)[0], basis=basis, rank=None)]
    return [replace(row, dimension=dimension) for row in rows]
