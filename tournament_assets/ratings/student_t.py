"""Quantiles of Student's t and of the normal distribution, without a library of distributions."""

import math
from statistics import NormalDist

from tournament_assets.ratings.options import require_confidence, require_count

_EXACT_UP_TO = 1000


def two_sided_quantile(confidence: float, *, degrees_of_freedom: int) -> float:
    """Return how many standard errors each side of an interval takes.

    Args:
        confidence: Coverage of the interval.
        degrees_of_freedom: Independent units behind the standard error, less one.

    Raises:
        InputError: If `confidence` is not between 0 and 1 or there is no degree of freedom.
    """
    require_confidence(confidence)
    require_count("degrees_of_freedom", degrees_of_freedom)
    normal = NormalDist().inv_cdf(0.5 + confidence / 2)
    if degrees_of_freedom > _EXACT_UP_TO:
        # The next term of this expansion (Abramowitz and Stegun 26.7.5) is below 1e-8 by then.
        first = (normal**3 + normal) / 4
        second = (5 * normal**5 + 16 * normal**3 + 3 * normal) / 96
        return normal + first / degrees_of_freedom + second / degrees_of_freedom**2
    low, high = 0.0, 1.0
    while _share_within(high, degrees_of_freedom) < confidence:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if _share_within(middle, degrees_of_freedom) < confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _share_within(quantile: float, degrees_of_freedom: int) -> float:
    # Abramowitz and Stegun 26.7.3 and 26.7.4: a finite sum for whole degrees of freedom.
    angle = math.atan2(quantile, math.sqrt(degrees_of_freedom))
    cosine = math.cos(angle)
    is_odd = degrees_of_freedom % 2
    term = cosine if is_odd else 1.0
    total = 0.0
    for step in range(1 if is_odd else 0, degrees_of_freedom - 1, 2):
        total += term
        term *= (step + 1) / (step + 2) * cosine**2
    share = math.sin(angle) * total
    return (angle + share) * 2 / math.pi if is_odd else share
