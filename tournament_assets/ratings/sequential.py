"""When a pair of entrants needs no further prompts, so that looking early misleads nobody.

Two questions, and never one in place of the other:

- **bank**: who would win if every prompt of this bank were judged? The prompts are drawn without
  replacement, in an order that knows nothing of their content. Before prompt i, if the mean share
  over the bank's N prompts were 1/2, the next share would be expected to be

      m_i = (N/2 - S_{i-1}) / (N - i + 1),    S the sum of the shares so far.

  Whoever bets on the next share at those odds cannot expect to gain, whatever the size of the
  bets, as long as it is chosen beforehand. So a capital that grows from 1 to 1/a contradicts the
  hypothesis; by Ville's inequality that happens with probability a at most, at any time and
  however often one looks. Waudby-Smith and Ramdas, "Confidence sequences for sampling without
  replacement", https://arxiv.org/abs/2006.04347, and "Estimating means of bounded random variables
  by betting", https://arxiv.org/abs/2010.09686.
- **population**: who is better on prompts such as these? The prompts are a sample, and the
  asymptotic confidence sequence of Waudby-Smith et al., https://arxiv.org/abs/2103.06476, holds at
  all sizes together.

A prompt without a readable verdict is NaN. In the bank it keeps its place among the N and adds
nothing: "the mean over the prompts with a verdict is 1/2" says the same as "the sum of (share -
1/2) over them is 0", and a prompt that adds 0 to that sum leaves the hypothesis what it was, so the
test stays exact, however many are missing and for whatever reason. The claim is about the bank's
prompts that have a verdict. In the population such a prompt is left out, as a prompt that was not
drawn.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.matches import require_confidence
from tournament_assets.tournament.errors import InputError

Goal = Literal["bank", "population"]
"""Which question is answered."""
Side = Literal["first", "second"]
"""Which entrant of a pair is shown to be above the other."""
Shares = NDArray[np.float64]
"""The first entrant's share of the win on each prompt, in hashed order: 1, 1/2 or 0; NaN where no
verdict is readable."""

FROM_PROMPTS = 30
"""From this many verdicts on, the asymptotic confidence sequence is used."""
_ROUND_ENDS = {1: (), 2: (0.4,), 3: (0.3, 0.6), 4: (0.25, 0.45, 0.7), 5: (0.25, 0.4, 0.55, 0.75)}


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """When a pair is decided.

    Attributes:
        goal: Which question is answered.
        confidence: Probability with which all signs of one dimension are right together.
        n_pairs: Pairs of entrants on the dimension.
        n_prompts: Prompts of the bank on which the pairs can be judged.
        min_prompts: No pair stops on fewer.
        rounds: How often the evidence is looked at.
    """

    goal: Goal
    confidence: float
    n_pairs: int
    n_prompts: int
    min_prompts: int = 20
    rounds: int = 5

    def __post_init__(self) -> None:
        require_confidence(self.confidence)
        for name in ("n_pairs", "n_prompts", "min_prompts", "rounds"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 1")

    @property
    def ends(self) -> tuple[int, ...]:
        """How many prompts an open pair has by the end of each round."""
        return round_ends(self.n_prompts, rounds=self.rounds, min_prompts=self.min_prompts)

    def threshold(self) -> float:
        """The capital in one direction at which a pair is decided.

        Half of the start is bet in each direction, hence the 2.
        """
        return 2 * self.n_pairs / (1 - self.confidence)


@dataclass(frozen=True, slots=True, eq=False)
class PairEvidence:
    """What the prompts so far say of a pair.

    Attributes:
        capital_first: What a bet of 1 against "the first is not above" became, by prompt, shape
            (t,); infinite from where the rest of the bank could not undo it.
        capital_second: The same for the second.
        threshold: The capital at which the pair was decided, or would be.
        centre: The mean share by prompt, shape (t,); NaN before there is one.
        half_width: Half the width of the confidence sequence around `centre`, shape (t,); infinite
            where there is none: in the bank, and before `FROM_PROMPTS`.
        stopped_at: Prompts after which the pair was decided; None while it is open.
        judged: Prompts at the end of the round in which it was; None while it is open.
        side: Which entrant is above; None while it is open, and after a whole bank of equals.
    """

    capital_first: NDArray[np.float64]
    capital_second: NDArray[np.float64]
    threshold: float
    centre: NDArray[np.float64]
    half_width: NDArray[np.float64]
    stopped_at: int | None
    judged: int | None
    side: Side | None


def hashed_order(prompt_ids: Sequence[str], *, salt: str = "") -> tuple[str, ...]:
    """Put prompts into an order that knows nothing of their content: by SHA-256 of their ids.

    A new prompt takes a place between others and moves none of them past another.

    Args:
        prompt_ids: The prompts, in any order.
        salt: Makes an order of its own, such as a dimension's name: then one unlucky order does not
            strike every dimension.

    Raises:
        InputError: If a prompt is named twice.
    """
    if len(set(prompt_ids)) < len(prompt_ids):
        raise InputError("a prompt is named twice; expected every prompt once")
    return tuple(sorted(prompt_ids, key=lambda each: (_hash(salt, each), each)))


def round_ends(n_prompts: int, *, rounds: int, min_prompts: int) -> tuple[int, ...]:
    """Return how many prompts an open pair has by the end of each round, the whole bank last.

    Ends closer than the bank allows fall together, so there may be fewer than `rounds`.
    """
    inner = _ROUND_ENDS.get(rounds, tuple(k / rounds for k in range(1, rounds)))
    ends = {min(n_prompts, max(min_prompts, math.ceil(n_prompts * share))) for share in inner}
    return tuple(sorted(ends | {n_prompts}))


def tail_prompts(
    prompt_ids: Sequence[str], *, pair: tuple[str, str], share: float, salt: str = ""
) -> tuple[str, ...]:
    """Return which of a stopped pair's remaining prompts are judged all the same.

    Early stops keep lucky runs, which pushes ratings outwards. The tail's prompts, each weighing
    1 / share, stand for the rest of the bank: see `horvitz_thompson_weights`.

    Args:
        prompt_ids: What is left of the bank, in the order to keep.
        pair: The pair's entrants; their order does not matter.
        share: Probability with which a prompt is in the tail; a larger share holds a smaller one.
        salt: As for `hashed_order`.
    """
    if not 0 <= share <= 1:
        raise InputError(f"the tail's share is {share!r}; expected a share from 0 to 1")
    key = ("tail", salt, *sorted(pair))
    return tuple(each for each in prompt_ids if _hash(*key, each) / 2**256 < share)


def horvitz_thompson_weights(
    prompt_ids: Sequence[str], *, n_before: int, pair: tuple[str, str], share: float, salt: str = ""
) -> NDArray[np.float64]:
    """Weigh a pair's prompts by one over the probability of having been judged.

    Their weighted sum is unbiased for the sum over the bank, whenever the pair stopped.

    Args:
        prompt_ids: The whole bank in hashed order.
        n_before: Prompts judged by the end of the round in which the pair stopped.
        pair: As for `tail_prompts`, and so are the others.
        share: Probability with which a later prompt is in the tail.
        salt: As for `hashed_order`.

    Returns:
        1 up to the stop, then 1 / share in the tail and 0 for what is not judged.
    """
    tail = set(tail_prompts(prompt_ids[n_before:], pair=pair, share=share, salt=salt))
    later = [1 / share if each in tail else 0.0 for each in prompt_ids[n_before:]]
    return np.array([1.0] * min(n_before, len(prompt_ids)) + later)


def evidence(shares: Shares, rule: StoppingRule) -> PairEvidence:
    """Say what a pair's prompts tell, looking after every round that is whole.

    Args:
        shares: The pair's shares in hashed order, shape (t,), t up to `rule.n_prompts`. What was
            judged after the pair stopped may follow and is not looked at; a tail must not.
        rule: When the pair is decided.

    Raises:
        InputError: If there are more shares than prompts, or one is not 0 to 1.
    """
    return decide([shares], rule)[0]


def decide(shares: Sequence[Shares], rule: StoppingRule) -> tuple[PairEvidence, ...]:
    """Say which pairs of a dimension are decided, replaying its rounds from the first.

    A pure function of the shares, so a process that is killed and begins again decides the same.

    Args:
        shares: One array a pair, as for `evidence`; a pair that stopped has a shorter one.
        rule: When a pair is decided.

    Returns:
        The pairs' evidence, in their order. What is still open wants the prompts up to the next of
        `rule.ends`.
    """
    return tuple(_decide_alone(each, rule) for each in shares)


def _decide_alone(shares: Shares, rule: StoppingRule) -> PairEvidence:
    t = len(shares)
    if t > rule.n_prompts:
        raise InputError(f"there are {t} shares; expected one for each of {rule.n_prompts} prompts")
    if np.any((shares < 0) | (shares > 1)):
        raise InputError("a share of a win is below 0 or above 1; expected 0, 1/2 or 1")
    n_prompts = rule.n_prompts if rule.goal == "bank" else None
    first, second = _log_capitals(shares, n_prompts)
    centre, half_width = _sequence(shares, rule)
    if rule.goal == "bank":
        crossed = np.maximum(first, second) >= math.log(rule.threshold())
        above = first > second
    else:
        crossed = np.abs(centre - 0.5) > half_width
        above = centre > 0.5
    crossed[: min(rule.min_prompts, rule.n_prompts) - 1] = False
    stopped_at: int | None = None
    judged: int | None = None
    side: Side | None = None
    if crossed.any():
        index = int(crossed.argmax())
        ended = [end for end in rule.ends if index + 1 <= end <= t]
        if ended:
            stopped_at, judged = index + 1, ended[0]
            side = "first" if above[index] else "second"
    with np.errstate(over="ignore"):
        capitals = np.exp(first), np.exp(second)
    return PairEvidence(
        *capitals,
        threshold=rule.threshold(),
        centre=centre,
        half_width=half_width if rule.goal == "population" else np.full(t, np.inf),
        stopped_at=stopped_at,
        judged=judged,
        side=side,
    )


_GAINS = np.geomspace(0.05, 0.35, 6)
"""How far the mean share may lie from 1/2: a part of the capital bets on each of these."""


def _log_capitals(
    shares: NDArray[np.float64], n_prompts: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ln of the capital in both directions, shape (..., t), of shares of that shape."""
    gains = np.where(np.isnan(shares), 0.0, shares - 0.5)
    after = np.cumsum(gains, axis=-1)
    place = np.arange(shares.shape[-1])
    left = np.inf if n_prompts is None else n_prompts - place
    # What the hypothesis expects of the next gain is -ahead.
    ahead = (after - gains) / left
    seen = np.cumsum(~np.isnan(shares), axis=-1) - ~np.isnan(shares)
    spread = (0.25 + np.cumsum(gains**2, axis=-1) - gains**2) / (seen + 1)
    found = []
    for sign in (1, -1):
        null = 0.5 - sign * ahead
        parts = []
        for gain in _GAINS:
            drift = gain if n_prompts is None else gain * n_prompts / left
            bet = np.minimum(drift / (spread + drift**2), 0.9 / np.maximum(null, 1e-12))
            parts.append(
                np.cumsum(np.log1p(np.where(null > 0, bet, 0) * sign * (gains + ahead)), -1)
            )
        total = np.logaddexp.reduce(parts, axis=0) - math.log(len(_GAINS))
        if n_prompts is not None:
            certain = sign * after > (n_prompts - place - 1) / 2
            total = np.where(np.maximum.accumulate(certain, axis=-1), np.inf, total)
        found.append(total)
    return found[0], found[1]


def _sequence(
    shares: Shares, rule: StoppingRule
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and half width of the asymptotic confidence sequence, shape (t,) each."""
    known = ~np.isnan(shares)
    count = np.cumsum(known)
    values = np.where(known, shares, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.cumsum(values) / count
        variance = np.cumsum(values**2) / count - mean**2
    alpha = (1 - rule.confidence) / rule.n_pairs
    rho = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha)) + 1) / max(rule.n_prompts / 2, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = count * np.maximum(variance, 0.0) * rho + 1
        half_width = np.sqrt(scale / (count**2 * rho) * np.log(scale / alpha**2))
    return mean, np.where(count >= FROM_PROMPTS, half_width, np.inf)


def _hash(*parts: str) -> int:
    # Lengths first, so that no two lists of parts read as one.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")
