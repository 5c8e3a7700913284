"""Bradley-Terry ratings that people would give, from many verdicts of a judge and few labels.

A judge's verdicts are cheap, and wrong in ways that its own intervals do not show. Prediction-
powered inference rates by the judge and corrects by the labelled pairs, where both spoke: the
ratings aim at what all people's votes would give, whatever the judge is worth, and are narrower
than those of the labels alone where it is worth something. Source: Angelopoulos, Duchi and Zrnic,
"PPI++: Efficient prediction-powered inference", https://arxiv.org/abs/2311.01453; labels drawn with
unequal chances: Fisch et al., https://arxiv.org/abs/2406.04291, and https://arxiv.org/abs/2501.18577.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, find_standing
from tournament_assets.ratings.intervals import two_sided_quantile
from tournament_assets.ratings.matches import require_confidence
from tournament_assets.ratings.sandwich import contrast_inverse, laplacian
from tournament_assets.tournament.battles import Battle
from tournament_assets.tournament.errors import InputError, Problems, RatingError
from tournament_assets.tournament.verdicts import Judgment, Outcome

MIN_PROMPTS = 15
"""An entrant with fewer labelled prompts gets no interval: their spread says too little."""
_MAX_STEPS = 100

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A pair that the judge settled, and that a person may have labelled.

    Attributes:
        prompt_id: The prompt; what belongs to one prompt counts as one draw.
        first: One entrant.
        second: The other one.
        judged: The first one's share of the judge's verdict: 1, 0, or 0.5 for a tie.
        labelled: Its share of the people's verdict; None where nobody labelled the pair.
        chance: The chance with which the pair was drawn to be labelled, above 0 and at most 1.
    """

    prompt_id: str
    first: str
    second: str
    judged: float
    labelled: float | None
    chance: float = 1.0


@dataclass(frozen=True, slots=True)
class PoweredRating:
    """One entrant's rating as people would give it.

    Attributes:
        entrant: Who is rated.
        rating: Elo points; None where the pairs do not determine it.
        standard_error: Elo points; None where there is no rating or too few labels.
        low: Lower end of the interval, Elo points; None in the same cases.
        high: Upper end.
        n_prompts: Prompts on which a pair of the entrant was labelled.
        note: Why something is missing; None where nothing is.
    """

    entrant: str
    rating: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    n_prompts: int
    note: str | None


@dataclass(frozen=True, slots=True, eq=False)
class PoweredFit:
    """Ratings as people would give them.

    Attributes:
        ratings: One per entrant, in the order given.
        covariance: Elo points squared, shape (n_entrants, n_entrants); NaN where unknown.
        weight: How much the judge counts: 0 rates by the labels alone, and a judge that says what
            people say has the share of the pairs that nobody labelled.
        n_labelled: Labelled pairs.
        n_unlabelled: The others.
        n_prompts: Prompts with a labelled pair.
    """

    ratings: tuple[PoweredRating, ...]
    covariance: Floats
    weight: float
    n_labelled: int
    n_unlabelled: int
    n_prompts: int


_SHARES = {
    Outcome.A_WINS: 1.0,
    Outcome.B_WINS: 0.0,
    Outcome.TIE: 0.5,
    Outcome.INCONSISTENT: 0.5,
    Outcome.SAME_TEXT: 0.5,
}


def label_pairs(
    judgments: Iterable[Judgment], battles: Iterable[Battle]
) -> tuple[LabelledPair, ...]:
    """Put people's votes beside the judge's verdicts on the same pairs.

    Several votes on one pair count as their mean. A pair that the judge left open is left out, and
    so is a vote on a pair that was not judged.

    Args:
        judgments: Settled pairs of one dimension.
        battles: Comparisons by people; one without a prompt belongs to no pair.
    """
    votes: dict[tuple[str, frozenset[str]], list[tuple[str, float]]] = {}
    for battle in battles:
        if battle.question_id is not None:
            share = 0.5 if battle.is_tie else float(battle.winner == "model_a")
            key = battle.question_id, frozenset((battle.model_a, battle.model_b))
            votes.setdefault(key, []).append((battle.model_a, share))
    pairs = []
    for each in judgments:
        if each.outcome not in _SHARES:
            continue
        heard = votes.get((each.prompt_id, frozenset((each.entrant_a, each.entrant_b))), ())
        shares = [share if name == each.entrant_a else 1 - share for name, share in heard]
        pairs.append(
            LabelledPair(
                each.prompt_id,
                each.entrant_a,
                each.entrant_b,
                judged=_SHARES[each.outcome],
                labelled=math.fsum(shares) / len(shares) if shares else None,
            )
        )
    return tuple(pairs)


def rate_prediction_powered(
    pairs: Sequence[LabelledPair],
    *,
    entrants: Sequence[str],
    confidence: float,
    weight: float | None = None,
    initial_rating: float = 1400.0,
) -> PoweredFit:
    """Rate entrants as people would, by a judge's verdicts and the labels of some of its pairs.

    The labels must be a random draw of the pairs, each with the chance that it names. Everything
    of a prompt counts as one draw in the errors; intervals take Student's t over the prompts with
    a label.

    Args:
        pairs: Every pair that the judge settled, labelled or not.
        entrants: Who is rated, in this order.
        confidence: Coverage of the intervals.
        weight: How much the judge counts, from 0 to 1; None finds the weight that makes the
            variances of all ratings together smallest.
        initial_rating: What the ratings average to, in Elo points.

    Raises:
        InputError: If a share, a chance, the weight or the confidence is out of its range, a pair
            names somebody else, or nobody labelled anything.
        RatingError: If the likelihood could not be maximised.
    """
    require_confidence(confidence)
    _check(pairs, entrants, weight)
    members = _connected(pairs, entrants)
    design = _Design.of(
        [each for each in pairs if {each.first, each.second} <= members.keys()], members
    )
    if weight is None and design.unlabelled.any():
        weight = _best_weight(design, _fit(design, 1.0))
    fitted = _with_errors(
        design,
        _fit(design, weight or 0.0),
        weight or 0.0,
        confidence=confidence,
        initial_rating=initial_rating,
    )
    return _for_all(fitted, entrants)


def rate_on_every_basis(
    pairs: Sequence[LabelledPair],
    *,
    entrants: Sequence[str],
    confidence: float,
    initial_rating: float = 1400.0,
) -> dict[str, PoweredFit]:
    """Rate by the labels alone, by the judge alone, and by both as people would.

    Returns:
        Fits by basis: `people`, `judge` and `both`; without any label, `judge` alone, and nothing
        without any pair.

    Raises:
        InputError, RatingError: As `rate_prediction_powered`.
    """

    def rate(pairs: Sequence[LabelledPair], weight: float | None) -> PoweredFit:
        return rate_prediction_powered(
            pairs,
            entrants=entrants,
            confidence=confidence,
            weight=weight,
            initial_rating=initial_rating,
        )

    fits = {}
    if any(pair.labelled is not None for pair in pairs):
        fits["people"] = rate(pairs, 0.0)
    if pairs:
        fits["judge"] = rate([replace(pair, labelled=pair.judged, chance=1.0) for pair in pairs], 0)
    if "people" in fits:
        fits["both"] = rate(pairs, None)
    return fits


def _check(pairs: Sequence[LabelledPair], entrants: Sequence[str], weight: float | None) -> None:
    problems, known = Problems(), frozenset(entrants)
    if weight is not None and not 0 <= weight <= 1:
        problems.add(f"weight is {weight!r}; expected a number from 0 to 1")
    for pair in pairs:
        where = f"{pair.first!r} and {pair.second!r} on prompt {pair.prompt_id!r}"
        if not {pair.first, pair.second} <= known or pair.first == pair.second:
            problems.add(f"{where} are no pair of entrants; expected two of {', '.join(entrants)}")
        for name, share in (("judged", pair.judged), ("labelled", pair.labelled)):
            if share is not None and not 0 <= share <= 1:
                problems.add(f"{where}: {name} is {share!r}; expected a share from 0 to 1")
        if not 0 < pair.chance <= 1:
            problems.add(f"{where}: chance is {pair.chance!r}; expected above 0 and at most 1")
    problems.raise_if_any()
    if all(pair.labelled is None for pair in pairs):
        raise InputError(f"none of {len(pairs)} pairs is labelled; expected some; label a sample")


@dataclass(frozen=True, slots=True, eq=False)
class _Design:
    # The pairs as arrays; `label` is 0 where there is none. `labelled` and `unlabelled` are
    # weights that sum to 1 over the pairs with and without a label, and 0 on the others.
    entrants: tuple[str, ...]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    prompt: NDArray[np.int64]
    n_prompts: int
    judged: Floats
    label: Floats
    is_labelled: NDArray[np.bool_]
    labelled: Floats
    unlabelled: Floats

    @classmethod
    def of(cls, pairs: Sequence[LabelledPair], place: Mapping[str, int]) -> "_Design":
        prompts = {
            prompt: index for index, prompt in enumerate(dict.fromkeys(p.prompt_id for p in pairs))
        }
        is_labelled = np.array([pair.labelled is not None for pair in pairs], dtype=np.bool_)
        chance = np.array([pair.chance for pair in pairs], dtype=np.float64)
        # Of those that were sure to be drawn none is left over to stand for others.
        left_out = np.where(chance < 1, 1 / np.maximum(1 - chance, 1e-12), 1.0)
        return cls(
            entrants=tuple(place),
            first=np.array([place[pair.first] for pair in pairs], dtype=np.int64),
            second=np.array([place[pair.second] for pair in pairs], dtype=np.int64),
            prompt=np.array([prompts[pair.prompt_id] for pair in pairs], dtype=np.int64),
            n_prompts=len(prompts),
            judged=np.array([pair.judged for pair in pairs], dtype=np.float64),
            label=np.array([pair.labelled or 0.0 for pair in pairs], dtype=np.float64),
            is_labelled=is_labelled,
            labelled=_shares(is_labelled / chance),
            unlabelled=_shares(np.where(is_labelled, 0.0, left_out)),
        )

    @property
    def n_entrants(self) -> int:
        return len(self.entrants)

    def expected(self, strengths: Floats) -> Floats:
        """Return the first one's expected share of every pair."""
        shares: Floats = 1 / (1 + np.exp(strengths[self.second] - strengths[self.first]))
        return shares

    def by_entrant(self, pulls: Floats) -> Floats:
        """Sum what every pair asks of its entrants, shape (n_entrants,)."""
        n = self.n_entrants
        gained = np.bincount(self.first, pulls, minlength=n)
        return np.asarray(gained - np.bincount(self.second, pulls, minlength=n), dtype=np.float64)

    def by_prompt(self, pulls: Floats) -> Floats:
        """The same for each prompt by itself, shape (n_prompts, n_entrants)."""
        n, size = self.n_entrants, self.n_prompts * self.n_entrants
        gained = np.bincount(self.prompt * n + self.first, pulls, minlength=size)
        lost = np.bincount(self.prompt * n + self.second, pulls, minlength=size)
        return np.asarray(gained - lost, dtype=np.float64).reshape(self.n_prompts, n)

    def information(self, weights: Floats) -> Floats:
        """Sum weighted outer squares of (first - second), shape (n_entrants, n_entrants)."""
        return laplacian(self.first, self.second, weights, self.n_entrants)


def _shares(weights: Floats) -> Floats:
    total = weights.sum()
    return weights / total if total else weights


def _connected(pairs: Sequence[LabelledPair], entrants: Sequence[str]) -> dict[str, int]:
    """Find those whom chains of wins connect, in the labels and by the judge; with their places."""
    found = list(entrants)
    while True:
        before, place = len(found), {entrant: index for index, entrant in enumerate(found)}
        labels, verdicts = np.zeros((2, len(found), len(found)))
        for pair in pairs:
            if {pair.first, pair.second} <= place.keys():
                both = place[pair.first], place[pair.second]
                for wins, share in ((labels, pair.labelled), (verdicts, pair.judged)):
                    if share is not None:
                        wins[both] += share
                        wins[both[::-1]] += 1 - share
        rated = find_standing(labels).rated & find_standing(verdicts).rated
        found = [entrant for entrant in found if rated[place[entrant]]]
        if len(found) in (0, before):
            return {entrant: index for index, entrant in enumerate(found)}


def _for_all(fitted: PoweredFit, entrants: Sequence[str]) -> PoweredFit:
    """Give those without a rating a note, and everybody the place asked for."""
    place = {each.entrant: index for index, each in enumerate(fitted.ratings)}
    members = [index for index, entrant in enumerate(entrants) if entrant in place]
    covariance = np.full((len(entrants), len(entrants)), np.nan)
    covariance[np.ix_(members, members)] = fitted.covariance
    note = "no chain of labelled wins and losses connects it to the others; label more pairs"
    return replace(
        fitted,
        ratings=tuple(
            fitted.ratings[place[each]]
            if each in place
            else PoweredRating(each, None, None, None, None, 0, note)
            for each in entrants
        ),
        covariance=covariance,
    )


def _labelled_prompts(design: _Design) -> NDArray[np.int64]:
    met = np.zeros((design.n_prompts, design.n_entrants), dtype=np.bool_)
    for side in (design.first, design.second):
        met[design.prompt[design.is_labelled], side[design.is_labelled]] = True
    return np.asarray(met.sum(axis=0), dtype=np.int64)


def _fit(design: _Design, weight: float) -> Floats:
    """Minimise the loss, in natural logarithms of strengths that average to 0."""
    strengths = np.zeros(design.n_entrants)
    if not strengths.size:
        return strengths
    labelled, unlabelled = design.labelled, weight * design.unlabelled
    for _ in range(_MAX_STEPS):
        expected = design.expected(strengths)
        pulls = unlabelled * (expected - design.judged) + labelled * (
            (expected - design.label) - weight * (expected - design.judged)
        )
        curvature = expected * (1 - expected)
        weights = (unlabelled + (1 - weight) * labelled) * curvature
        step = -contrast_inverse(design.information(weights)) @ design.by_entrant(pulls)
        width = float(np.ptp(step))
        # As in `log_strengths`: this part of the step cannot overshoot.
        strengths = strengths + step * (np.log1p(width) / width if width > 0 else 1.0)
        if width < 1e-10:
            return strengths
    raise RatingError(
        f"the prediction-powered loss still falls after {_MAX_STEPS} Newton steps; expected "
        "labels and verdicts that determine the ratings; label more pairs"
    )


def _best_weight(design: _Design, strengths: Floats) -> float:
    """Return the weight of the judge with the least total variance, from 0 to 1."""
    expected = design.expected(strengths)
    bread = _bread(design, expected)
    of_people, of_judge = expected - design.label, expected - design.judged
    n, n_all = int(design.is_labelled.sum()), design.is_labelled.size
    both = _covariance(design, of_people, of_judge, design.labelled)
    spread = _covariance(design, of_judge, of_judge, np.full(n_all, 1 / n_all))
    gain = np.trace(bread @ (both + both.T) @ bread)
    cost = 2 * (1 + n / max(1, n_all - n)) * np.trace(bread @ spread @ bread)
    return float(np.clip(gain / cost, 0.0, 1.0)) if cost > 0 else 0.0


def _bread(design: _Design, expected: Floats) -> Floats:
    if not expected.size:
        return np.zeros((0, 0))
    weights = expected * (1 - expected) / expected.size
    return contrast_inverse(design.information(weights))


def _covariance(design: _Design, one: Floats, other: Floats, weights: Floats) -> Floats:
    """Covariance of what single pairs ask of the entrants, by weights that sum to 1."""
    n = np.count_nonzero(weights)
    means = [design.by_entrant(weights * pulls) for pulls in (one, other)]
    raw = design.information(weights * one * other) - np.outer(*means)
    return np.asarray(raw * (n / (n - 1) if n > 1 else np.nan))


def _with_errors(
    design: _Design,
    strengths: Floats,
    weight: float,
    *,
    confidence: float,
    initial_rating: float,
) -> PoweredFit:
    covariance = _spread(design, strengths, weight) * ELO_PER_NAT**2
    n_prompts = np.unique(design.prompt[design.is_labelled]).size
    reach = two_sided_quantile(confidence, degrees_of_freedom=max(1, n_prompts - 1))
    ratings = []
    for index, n in enumerate(_labelled_prompts(design)):
        rating = float(initial_rating + strengths[index] * ELO_PER_NAT)
        if n < MIN_PROMPTS:
            note = f"labelled on {n} prompts; an interval needs {MIN_PROMPTS}"
            ratings.append(
                PoweredRating(design.entrants[index], rating, None, None, None, int(n), note)
            )
            continue
        error = float(np.sqrt(covariance[index, index]))
        low, high = rating - reach * error, rating + reach * error
        ratings.append(
            PoweredRating(design.entrants[index], rating, error, low, high, int(n), None)
        )
    unknown = [index for index, each in enumerate(ratings) if each.standard_error is None]
    covariance[unknown, :] = covariance[:, unknown] = np.nan
    n_labelled = int(design.is_labelled.sum())
    return PoweredFit(
        ratings=tuple(ratings),
        covariance=covariance,
        weight=weight,
        n_labelled=n_labelled,
        n_unlabelled=design.is_labelled.size - n_labelled,
        n_prompts=n_prompts,
    )


def _spread(design: _Design, strengths: Floats, weight: float) -> Floats:
    """Covariance of the log strengths, with each prompt's pairs, labelled or not, as one draw."""
    expected = design.expected(strengths)
    of_judge = expected - design.judged
    corrected = (expected - design.label) - weight * of_judge
    parts = []
    for weights, pulls in ((weight * design.unlabelled, of_judge), (design.labelled, corrected)):
        prompts = np.unique(design.prompt[weights > 0])
        # What the pairs of a prompt ask for beyond the mean of their kind.
        total = weights.sum()
        mean = design.by_entrant(weights * pulls) / total if total else 0.0
        shares = np.bincount(design.prompt, weights, minlength=design.n_prompts)
        centred = design.by_prompt(weights * pulls) - shares[:, None] * mean
        parts.append(centred * np.sqrt(prompts.size / max(1, prompts.size - 1)))
    influence = (parts[0] + parts[1]) @ _bread(design, expected)
    return np.asarray(influence.T @ influence)
