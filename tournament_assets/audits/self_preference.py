"""Whether a judge prefers what it wrote itself, by what others say of the same entrants.

A Bradley-Terry model of all verdicts gives this judge two effects: what being its own gains a
response, and how much more or less sharply it tells entrants apart, without which a judge that
tells less would seem to prefer its own weak responses. Source: Panickssery, Bowman and Feng, "LLM
evaluators recognize and favor their own generations", https://arxiv.org/abs/2404.13076.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from tournament_assets.foundation.errors import InputError, RatingError
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.covariates import fit_controlled
from tournament_assets.ratings.matches import code_samples
from tournament_assets.tournament.verdicts import Judgment

_NOT_TOLD = "nobody else judged three of the same entrants, of whom each wins some pairs"


def measure_self_preference(
    own: Sequence[Judgment],
    others: Iterable[Judgment],
    author: str,
    *,
    entrants: Sequence[str],
    confidence: float,
) -> Estimate:
    """Return what being the judge's own gains a response between equals, in Elo points.

    Args:
        own: The judge's settled pairs on one dimension.
        others: Those of other judges, or of people.
        author: The entrant that the judge is.
        entrants: Everyone who may appear.
    """
    matches = code_samples([*own, *others], entrants=entrants)
    of_judge = np.arange(matches.n_matches) < sum(pair.share is not None for pair in own)
    strengths = np.array([each.value or 0.0 for each in fit_bradley_terry(matches)])
    place = entrants.index(author)
    is_own = of_judge * (1.0 * (matches.first == place) - (matches.second == place))
    gaps = of_judge * (strengths[matches.first] - strengths[matches.second])
    effects = np.stack([is_own, gaps], axis=1)
    try:
        fit = fit_controlled(matches, effects, names=("own", "gap"), confidence=confidence)
        (gain, _) = fit.effects
    except (InputError, RatingError, ValueError):
        return Estimate(note=_NOT_TOLD)
    # One unit of an effect is its root mean square.
    value, low, high = (end and end / gain.scale for end in (gain.value, gain.low, gain.high))
    return Estimate(value, low, high, int(np.count_nonzero(is_own)))
