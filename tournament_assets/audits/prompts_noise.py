"""How much a prompt tells the entrants apart, against how much the judge wavers on it.

Every entrant has two scores on a prompt: its mean points over its pairs in presentation `ab`, and
in presentation `ba`. Were the judge not to look at positions, both would be the same. So the two
presentations are two replicates of one measurement, and the one-way random-effects analysis of
variance parts what differs between entrants from what differs within them:

    MSB = 2 sum_i (mean_i - mean)^2 / (n - 1)          between entrants
    MSW =   sum_i (s_i,ab - s_i,ba)^2 / 2 / (n - 1)    within them: presentation noise
    signal to noise = max(0, MSB - MSW) / MSW          of the mean of both presentations

What one entrant of a pair gains the other loses, so that the differences of all n entrants sum to
zero: MSW has n - 1 degrees of freedom here, where independent scores would have n. With random
replies both mean squares have the same expectation when everybody met everybody.
Source: Shrout and Fleiss, "Intraclass correlations: uses in assessing rater reliability",
https://doi.org/10.1037/0033-2909.86.2.420; the ratio is ICC(1, 2) / (1 - ICC(1, 2)).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tournament_assets.audits.coverage import PairReading
from tournament_assets.tournament.verdicts import Verdict

# Points of entrant_a by what the reply says, for `ab`, where it is shown as A, and for `ba`.
_POINTS_AB = {Verdict.A: 1.0, Verdict.B: 0.0, Verdict.TIE: 0.5}
_POINTS_BA = {Verdict.A: 0.0, Verdict.B: 1.0, Verdict.TIE: 0.5}


@dataclass(frozen=True, slots=True)
class PromptNoise:
    """The analysis of variance of one prompt.

    Attributes:
        prompt_id: The prompt.
        n_entrants: Entrants with a judged pair on it.
        n_disagreements: Judged pairs whose two replies disagree.
        n_judged: Judged pairs.
        between: MSB, the mean square between entrants; None with fewer than two entrants.
        within: MSW, the mean square of presentation noise; None with fewer than two entrants.
    """

    prompt_id: str
    n_entrants: int
    n_disagreements: int
    n_judged: int
    between: float | None
    within: float | None

    @property
    def ratio(self) -> float | None:
        """Signal to noise; infinite without noise, None where there is neither."""
        if self.between is None or self.within is None:
            return None
        if self.within == 0:
            return math.inf if self.between > 0 else None
        return max(0.0, self.between - self.within) / self.within


def measure_noise(prompt_id: str, pairs: Iterable[PairReading]) -> PromptNoise:
    """Part the scores on one prompt into signal and presentation noise.

    Args:
        prompt_id: The prompt.
        pairs: Its pairs on one dimension; those that are not judged are left out.
    """
    scores: dict[str, list[tuple[float, float]]] = {}
    judged = disagreements = 0
    for pair in pairs:
        if not pair.is_judged:
            continue
        judged += 1
        ab, ba = (reply.verdict for reply in pair.replies)
        shown_first, shown_second = _POINTS_AB[ab], _POINTS_BA[ba]
        disagreements += shown_first != shown_second
        scores.setdefault(pair.entrant_a, []).append((shown_first, shown_second))
        scores.setdefault(pair.entrant_b, []).append((1 - shown_first, 1 - shown_second))
    means = [
        (
            math.fsum(first for first, _ in points) / len(points),
            math.fsum(second for _, second in points) / len(points),
        )
        for points in scores.values()
    ]
    if len(means) < 2:
        return PromptNoise(prompt_id, len(means), disagreements, judged, None, None)
    freedom = len(means) - 1
    centres = [(first + second) / 2 for first, second in means]
    centre = math.fsum(centres) / len(centres)
    return PromptNoise(
        prompt_id,
        len(means),
        disagreements,
        judged,
        between=2 * math.fsum((each - centre) ** 2 for each in centres) / freedom,
        within=math.fsum((first - second) ** 2 for first, second in means) / 2 / freedom,
    )
