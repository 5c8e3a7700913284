"""Whether counts of draws fit a distribution."""

import torch
from torch import Tensor


def p_value(counts: Tensor, probabilities: Tensor) -> float:
    """Pearson's chi-square test: the probability of a fit at least this bad.

    Outcomes of probability 0 must not occur, and do not count as degrees of freedom.
    """
    possible = probabilities > 0
    if counts[~possible].any():
        return 0.0
    expected = probabilities[possible].double() * counts.sum()
    assert expected.min() >= 5, "too few draws for the test"
    statistic = ((counts[possible] - expected) ** 2 / expected).sum()
    freedom = torch.tensor((int(possible.sum()) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, statistic / 2))
