"""Tournaments of every kind drawn at random, and what must be true of everybody's standing."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.matches import Matches
from tournament_assets.ratings.standings import Claim, PairClaim, Standing, Standings

KINDS = ("balanced", "sparse", "soft", "samples", "strong", "copies", "cyclic", "apart", "few")


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A tournament, and who was decided to be above whom where pairs stopped early."""

    kind: str
    matches: Matches
    decided: tuple[tuple[str, str], ...] | None


def draw_standing(generator: np.random.Generator) -> Drawn:
    """Draw a tournament of 2 to 8 entrants, one in fifty of up to 40."""
    kind = str(generator.choice(KINDS))
    n = int(generator.integers(2, 9 if generator.random() < 0.98 else 41))
    n_prompts = int(generator.integers(1, 30))
    first, second = np.array(list(combinations(range(n), 2))).T
    prompt, pair = (each.ravel() for each in np.indices((n_prompts, first.size)))
    first, second = first[pair], second[pair]
    kept = generator.random(pair.size) < {"sparse": 0.2, "few": 2 / n_prompts}.get(kind, 1.0)
    if kind == "apart":
        kept &= (first < n // 2) == (second < n // 2)
    entrants = tuple(f"e{index}" for index in range(n))
    return Drawn(
        kind,
        Matches(
            entrants=entrants,
            prompts=tuple(f"p{index}" for index in range(n_prompts)),
            first=first[kept],
            second=second[kept],
            prompt_index=prompt[kept],
            preference=_shares(kind, n, first, second, generator)[kept],
            weight=np.ones(int(kept.sum())),
        ),
        _draw_decisions(entrants, generator) if generator.random() < 0.3 else None,
    )


def _shares(
    kind: str,
    n: int,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    """Return what the first got of each match."""
    strengths = generator.normal(0, 3 if kind == "strong" else 0.5, size=n)
    chance = 1 / (1 + np.exp(strengths[second] - strengths[first]))
    if kind == "cyclic":
        is_cyclic = second < 3
        chance = np.where(is_cyclic, np.where(second - first == 1, 0.85, 0.15), chance)
    if kind == "soft":
        return np.clip(generator.normal(chance, 0.3), 0.0, 1.0)
    n_samples = 3 if kind == "samples" else 1
    won = generator.random((n_samples, chance.size)) < chance
    tied = generator.random(won.shape) < 0.2
    shares: NDArray[np.float64] = np.where(tied, 0.5, won).mean(axis=0)
    return np.where(second == 1, 0.5, shares) if kind == "copies" else shares


def _draw_decisions(
    entrants: tuple[str, ...], generator: np.random.Generator
) -> tuple[tuple[str, str], ...]:
    """Decide some pairs, mostly in one order, so that some go in circles."""
    turned = generator.choice([0.0, 0.3])
    return tuple(
        pair[::-1] if generator.random() < turned else pair
        for pair in combinations(generator.permutation(entrants).tolist(), 2)
        if generator.random() < 0.4
    )


def find_falsehoods(drawn: Drawn, found: Standings, *, within: float) -> Iterator[str]:
    """Yield everything that is claimed and does not hold together.

    Args:
        drawn: The tournament.
        found: What is claimed of it.
        within: The largest difference that does not matter, in Elo points.
    """
    of = {each.entrant: each for each in found.entrants}
    ranked = [each.entrant for each in found.entrants if each.rank is not None]
    if [(each.first, each.second) for each in found.claims] != list(combinations(ranked, 2)):
        yield "claims are not of every two that have a rank"
    for claim in found.claims:
        for problem in _of_claim(claim, of[claim.first], of[claim.second], within, drawn.decided):
            yield f"{problem}: {claim}"
        if better := _better_of(claim):
            higher, lower = (of[name].rank or 0 for name in better)
            if not (higher < lower or better[0] in follow(better[1], drawn.decided or ())):
                yield f"the worse has the better rank: {claim}"
    for each in found.entrants:
        for problem in _of_place(each, found, drawn):
            yield f"{problem}: {each}"
    yield from _of_order(found, drawn)
    yield from _of_decisions(found, drawn)


def _better_of(claim: PairClaim) -> tuple[str, str] | None:
    return {
        Claim.FIRST_BETTER: (claim.first, claim.second),
        Claim.SECOND_BETTER: (claim.second, claim.first),
    }.get(claim.claim)


def _of_claim(
    claim: PairClaim,
    first: Standing,
    second: Standing,
    within: float,
    decided: Collection[tuple[str, str]] | None,
) -> Iterator[str]:
    low = -np.inf if claim.difference.low is None else claim.difference.low
    high = np.inf if claim.difference.high is None else claim.difference.high
    value = claim.difference.value
    has_letter = bool({*(first.group or "").split()} & {*(second.group or "").split()})
    better = _better_of(claim)
    if has_letter == bool(better):
        yield "letters say something else"
    if better and decided is None and not (low >= 0 if better[0] == claim.first else high <= 0):
        yield "better although the interval holds the opposite"
    if better is None and not low <= 0 <= high:
        yield "the interval lies on one side and nobody is better"
    if value is not None and not low <= value <= high:
        yield "the difference is outside of its interval"
    if (first.value is None or second.value is None) != (value is None):
        yield "a difference without two ratings, or none with two"
    is_within = -within <= low and high <= within
    if not better and (claim.claim is Claim.EQUIVALENT) != (is_within and decided is None):
        yield "equivalent says something else than the interval"


def _of_place(each: Standing, found: Standings, drawn: Drawn) -> Iterator[str]:
    below = [
        better[1] for c in found.claims if (better := _better_of(c)) and better[0] == each.entrant
    ]
    if each.value is not None and each.rank is None:
        yield "a rating without a rank"
    if each.rank is None:
        if (each.best, each.worst, each.group, each.shown_above) != (None, None, None, ()):
            yield "a place without a rank"
        return
    if sorted(below) != sorted(each.shown_above):
        yield "claims and table say something else"
    if each.best is None or each.worst is None or not each.best <= each.rank <= each.worst:
        yield "the rank is outside of its places"
    above = sum(each.entrant in other.shown_above for other in found.entrants)
    n_ranked = sum(other.rank is not None for other in found.entrants)
    if (each.best, each.worst) != (1 + above, n_ranked - len(below)):
        yield "the places are not those of the claims"
    if drawn.decided is None:
        lost = drawn.matches.wins[:, drawn.matches.entrants.index(each.entrant)].sum()
        if lost == 0 and each.rank != 1:
            yield "it won everything and is not first"


def _of_order(found: Standings, drawn: Drawn) -> Iterator[str]:
    if drawn.decided is not None:
        return
    rated = [(round(each.value, 1), each) for each in found.entrants if each.value is not None]
    rated.sort(key=lambda pair: -pair[0])
    for (higher, first), (lower, second) in pairwise(rated):
        if higher == lower and first.rank != second.rank:
            yield f"equal ratings do not share a rank: {first} {second}"
        if higher > lower and not (first.rank or 0) < (second.rank or 0):
            yield f"the order is not that of the ratings: {first} {second}"


def _of_decisions(found: Standings, drawn: Drawn) -> Iterator[str]:
    """Compare claims with the decisions, one by one, and the order with who is first."""
    if drawn.decided is None:
        return
    of = {each.entrant: each for each in found.entrants if each.rank is not None}
    decided = {pair for pair in drawn.decided if {*pair} <= of.keys()}
    if decided != {better for claim in found.claims if (better := _better_of(claim))}:
        yield "other claims than were decided"
    beaten = {lower for _, lower in decided}
    for name, each in of.items():
        if (each.rank == each.best == each.worst == 1) and (
            {other for other in of if other != name} != {*each.shown_above}
        ):
            yield f"first without a decision against everybody: {each}"
        if each.rank == 1 and name in beaten:
            yield f"somebody is better than the first: {each}"
    if of.keys() - beaten and 1 not in {each.rank for each in of.values()}:
        yield "nobody is first although nobody is better than some"


def follow(name: str, decided: Collection[tuple[str, str]]) -> set[str]:
    """Return everybody that decisions lead to, directly or through others."""
    found: set[str] = set()
    ahead = [name]
    while ahead:
        here = ahead.pop()
        new = {lower for higher, lower in decided if higher == here} - found
        found |= new
        ahead += new
    return found
