"""How many standard errors an interval takes when the standard error is itself an estimate."""

from tournament_assets.ratings.options import require_confidence, require_count


def two_sided_quantile(confidence: float, *, degrees_of_freedom: int) -> float:
    """Return how many standard errors each side of an interval takes, by Student's t.

    Args:
        confidence: Coverage of the interval.
        degrees_of_freedom: Independent units behind the standard error, less one.

    Raises:
        InputError: If `confidence` is not between 0 and 1 or there is no degree of freedom.
    """
    require_confidence(confidence)
    require_count("degrees_of_freedom", degrees_of_freedom)
    # Imported here, so that loading the definitions does not pay for it.
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, 0.5 + confidence / 2))
