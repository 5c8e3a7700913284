"""What is said of prompts: the kinds of findings, and how measurements are put into words."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tournament_assets.audits.prompts_deciding import PromptInfluence
from tournament_assets.audits.prompts_noise import PromptNoise

_NOISY = 1.0
"""Signal to noise below which presentation noise is the larger of the two."""


class FindingKind(StrEnum):
    """What is said of a prompt, by what it can change: the ranking first."""

    DECIDES_ORDER = "decides_order"
    """Without this prompt neighbours in the ranking change places."""
    CONNECTS = "connects"
    """Without this prompt somebody has no rating at all."""
    SIGNAL_TO_NOISE = "signal_to_noise"
    """What differs between entrants against what differs between presentations."""
    JUDGE_FAILURES = "judge_failures"
    """More replies are missing on this prompt than chance would put on one prompt."""
    STRATUM_FAILURE = "stratum_failure"
    """An entrant loses in one stratum and nowhere else."""
    MOVES_RATING = "moves_rating"
    """How far ratings move without this prompt; the one that moves them most is a finding."""
    ALL_INCONSISTENT = "all_inconsistent"
    """Every judged pair changes its winner with the positions."""
    LEVEL = "level"
    """Pairs have winners, in a circle: every entrant has the same score."""
    NO_WINNER = "no_winner"
    """Everybody loses or ties everything: no pair has a winner."""


@dataclass(frozen=True, slots=True)
class PromptFinding:
    """One thing about one prompt, or about a stratum.

    Attributes:
        kind: What.
        is_finding: Whether to look at it; otherwise it is a measurement that is as it should be.
        prompt_id: The prompt; None where it is about a stratum.
        stratum: The prompt's stratum.
        entrants: Whom it is about; empty where it is about all.
        value: The number it is sorted by: a share, Elo points or a ratio; see `docs/audits.md`.
        count: What was counted.
        total: Out of how many.
        sentence: The finding in words, with its numbers.
    """

    kind: FindingKind
    is_finding: bool
    prompt_id: str | None
    stratum: str
    entrants: tuple[str, ...]
    value: float | None
    count: int
    total: int
    sentence: str


def describe_noise(noise: PromptNoise, *, stratum: str) -> PromptFinding:
    """Put the signal and the noise of a prompt into words; a small ratio is a finding."""
    signal, ratio = noise.signal, noise.ratio
    if signal is None:
        words = "cannot be said: fewer than two entrants are judged"
    elif ratio is None:
        words = "cannot be said: neither entrants nor presentations differ"
    elif math.isinf(ratio):
        words = "is without bound: both presentations agree everywhere"
    else:
        words = (
            f"is {ratio:.2f} (mean squares {signal.between:.3f} between entrants, "
            f"{signal.within:.3f} between presentations; "
            + (
                "with two entrants any ratio may be chance)"
                if math.isinf(signal.chance_level)
                else f"by chance alone 1 prompt in 20 is above {signal.chance_level:.2f})"
            )
        )
    return PromptFinding(
        kind=FindingKind.SIGNAL_TO_NOISE,
        is_finding=ratio is not None and ratio < _NOISY,
        prompt_id=noise.prompt_id,
        stratum=stratum,
        entrants=(),
        value=ratio,
        count=noise.n_disagreements,
        total=noise.n_judged,
        sentence=(
            f"Signal to noise on {noise.prompt_id} {words}; {noise.n_disagreements} of "
            f"{noise.n_judged} judged pairs change with the position."
        ),
    )


def describe_influence(
    influence: PromptInfluence, *, stratum: str, judged: int, pairs: int, largest: float
) -> Iterator[PromptFinding]:
    """Put into words what leaving a prompt out does.

    Args:
        influence: What it does.
        stratum: The prompt's stratum.
        judged: Judged pairs on it.
        pairs: Pairs on it.
        largest: The largest move of any prompt's, in Elo points.
    """
    prompt_id = influence.prompt_id
    if not influence.keeps_connected:
        yield PromptFinding(
            kind=FindingKind.CONNECTS,
            is_finding=True,
            prompt_id=prompt_id,
            stratum=stratum,
            entrants=(),
            value=None,
            count=judged,
            total=pairs,
            sentence=(
                f"Without {prompt_id} the wins no longer connect all rated entrants, so that "
                "somebody has no rating: it hangs on this prompt."
            ),
        )
        return
    if influence.move is None or influence.moved is None:
        return
    moved = f"{influence.moved} moves by {influence.move:+.1f} Elo points"
    if influence.swaps:
        swapped = "; ".join(f"{upper} and {lower}" for upper, lower in influence.swaps)
        yield PromptFinding(
            kind=FindingKind.DECIDES_ORDER,
            is_finding=True,
            prompt_id=prompt_id,
            stratum=stratum,
            entrants=tuple(dict.fromkeys(name for pair in influence.swaps for name in pair)),
            value=influence.move,
            count=judged,
            total=pairs,
            sentence=(
                f"Without {prompt_id} the order of neighbours changes: {swapped} (and {moved})."
            ),
        )
    yield PromptFinding(
        kind=FindingKind.MOVES_RATING,
        is_finding=0 < largest * (1 - 1e-9) <= abs(influence.move),
        prompt_id=prompt_id,
        stratum=stratum,
        entrants=(influence.moved,),
        value=influence.move,
        count=judged,
        total=pairs,
        sentence=f"Without {prompt_id}, {moved}.",
    )
