"""How much a prompt tells the entrants apart, against how much the judge wavers on it.

Every entrant has two scores on a prompt: its mean points over its pairs in presentation `ab`, and
in presentation `ba`. Were the judge not to look at positions, both would be the same. So the two
presentations are two repetitions of one measurement, and `signal_noise` separates what differs
between entrants from what differs between presentations.

What one entrant of a pair gains the other loses, so that the differences of all n entrants sum to
zero: the mean square within has n - 1 degrees of freedom here, where independent scores would have
n. With random replies both mean squares have the same expectation when everybody met everybody.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tournament_assets.audits.coverage import PairReading
from tournament_assets.audits.signal_noise import SignalToNoise, measure_signal
from tournament_assets.tournament.verdicts import Verdict

# Points of entrant_a by what the reply says, for `ab`, where it is shown as A, and for `ba`.
_POINTS_AB = {Verdict.A: 1.0, Verdict.B: 0.0, Verdict.TIE: 0.5}
_POINTS_BA = {Verdict.A: 0.0, Verdict.B: 1.0, Verdict.TIE: 0.5}


@dataclass(frozen=True, slots=True)
class PromptNoise:
    """The signal and the noise on one prompt.

    Attributes:
        prompt_id: The prompt.
        n_entrants: Entrants with a judged pair on it.
        n_disagreements: Judged pairs whose two replies disagree.
        n_judged: Judged pairs.
        signal: What differs between entrants against what differs between presentations; None
            with fewer than two entrants.
    """

    prompt_id: str
    n_entrants: int
    n_disagreements: int
    n_judged: int
    signal: SignalToNoise | None

    @property
    def ratio(self) -> float | None:
        """Signal to noise; infinite without noise, None where there is neither."""
        return None if self.signal is None else self.signal.ratio


def measure_noise(prompt_id: str, pairs: Iterable[PairReading]) -> PromptNoise:
    """Separate the scores on one prompt into signal and presentation noise.

    Args:
        prompt_id: The prompt.
        pairs: Its pairs on one dimension; those that are not settled are left out.
    """
    scores: dict[str, list[tuple[float, float]]] = {}
    judged = disagreements = 0
    for pair in pairs:
        if not pair.is_settled:
            continue
        judged += pair.is_judged
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
    return PromptNoise(
        prompt_id,
        len(means),
        disagreements,
        judged,
        measure_signal(means, within_freedom=len(means) - 1),
    )
