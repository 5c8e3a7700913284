"""Signal to noise: how far groups differ, against how far repeated scores of one group do.

The groups are models and the repetitions their runs, or the groups are entrants and the
repetitions the two presentations of a pair. A one-way random-effects analysis of variance of k
groups and N scores gives

    MSB = sum_i n_i (mean_i - mean)^2 / (k - 1)              between groups
    MSW = sum_i sum_j (score_ij - mean_i)^2 / (N - k)        within them: noise
    signal to noise = max(0, MSB - MSW) / MSW                of the mean of one group's scores

Where groups do not differ, MSB / MSW follows the F distribution with k - 1 and N - k degrees of
freedom. Its 95th percentile, less one, is the chance level: without any signal one ratio in
twenty is above it. F takes scores as normal. With scores of 0 and 1 alone the share is 3 to 10 %
(simulated in the tests), and with a single degree of freedom any ratio may be chance.
Sources: Searle, Casella and McCulloch, "Variance Components",
https://doi.org/10.1002/9780470316856, section 3.6 (unbalanced data); Shrout and Fleiss,
"Intraclass correlations: uses in assessing rater reliability",
https://doi.org/10.1037/0033-2909.86.2.420: with n scores a group the ratio is
ICC(1, n) / (1 - ICC(1, n)).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_BY_CHANCE = 0.05
"""How often a ratio is above the chance level where groups do not differ."""
_ROUNDING = 1e-9
"""Differences below this share of the largest score come from adding floats in another order."""


@dataclass(frozen=True, slots=True)
class SignalToNoise:
    """The analysis of variance of some groups.

    Attributes:
        between: MSB, the mean square between groups.
        within: MSW, the mean square within them.
        between_freedom: Degrees of freedom of `between`.
        within_freedom: Degrees of freedom of `within`.
    """

    between: float
    within: float
    between_freedom: int
    within_freedom: int

    @property
    def ratio(self) -> float | None:
        """Signal to noise; infinite without noise, None where there is neither."""
        if self.within == 0:
            return math.inf if self.between > 0 else None
        return max(0.0, self.between - self.within) / self.within

    @property
    def chance_level(self) -> float:
        """The ratio that one in twenty is above where groups do not differ.

        Infinite with one degree of freedom: two scores agree by chance too often.
        """
        if self.within_freedom < 2:
            return math.inf
        # Imported here, so that loading the definitions does not pay for it.
        from scipy.special import fdtri

        return float(fdtri(self.between_freedom, self.within_freedom, 1 - _BY_CHANCE)) - 1

    @property
    def is_above_chance(self) -> bool:
        """Whether the ratio says that groups differ."""
        return self.ratio is not None and self.ratio > self.chance_level


def measure_signal(
    groups: Sequence[Sequence[float]], *, within_freedom: int | None = None
) -> SignalToNoise | None:
    """Separate what differs between groups from what differs within them.

    Args:
        groups: The scores of each group; those without a score are left out.
        within_freedom: Degrees of freedom within groups, where scores depend on one another;
            the number of scores less that of groups by default.

    Returns:
        None with fewer than two groups, or where no group has two scores.
    """
    groups = [group for group in groups if group]
    n_scores = sum(map(len, groups))
    if len(groups) < 2 or n_scores == len(groups):
        return None
    freedom = n_scores - len(groups) if within_freedom is None else within_freedom
    means = [math.fsum(group) / len(group) for group in groups]
    overall = math.fsum(math.fsum(group) for group in groups) / n_scores
    between = math.fsum(
        len(group) * (mean - overall) ** 2 for group, mean in zip(groups, means, strict=True)
    ) / (len(groups) - 1)
    within = (
        math.fsum(
            (score - mean) ** 2
            for group, mean in zip(groups, means, strict=True)
            for score in group
        )
        / freedom
    )
    rounding = (_ROUNDING * max(abs(score) for group in groups for score in group)) ** 2
    return SignalToNoise(
        between=between if between > rounding else 0.0,
        within=within if within > rounding else 0.0,
        between_freedom=len(groups) - 1,
        within_freedom=freedom,
    )
