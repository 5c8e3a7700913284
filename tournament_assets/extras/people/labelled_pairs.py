"""A judge's settled pairs with people's labels on some of them, also as arrays.

The labels may be votes on a page, labels from another tool or recorded comparisons;
`prediction_powered` rates by both.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.ratings.bradley_terry import find_standing
from tournament_assets.ratings.sandwich import laplacian
from tournament_assets.tournament.battles import Battle
from tournament_assets.tournament.prompts import AnswerKey, answer_key
from tournament_assets.tournament.verdicts import Judgment

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A pair that the judge settled, and that a person may have labelled.

    Attributes:
        prompt_id: All pairs on one prompt count as one draw.
        judged: The first entrant's share of the judge's verdict.
        labelled: Its share of the people's verdict; None if nobody labelled the pair.
        chance: The probability that it was drawn to be labelled, above 0 and at most 1.
        raters: The first entrant's share of each rater's label, whose mean is `labelled`; empty if
            the raters are unknown.
        weight: How many pairs it represents: 1 unless judging stopped early.
        sample: Which of the answers to the prompt were compared, from 1.
    """

    prompt_id: str
    first: str
    second: str
    judged: float
    labelled: float | None
    chance: float = 1.0
    raters: tuple[tuple[str, float], ...] = ()
    weight: float = 1.0
    sample: int = 1


@dataclass(frozen=True, slots=True)
class Vote:
    """What one person said about two responses to a prompt.

    Attributes:
        share: The first entrant's share: 1, 0, or 0.5 for a tie.
        rater: None if unknown.
        chance: The probability that the pair was drawn to be labelled.
        sample: Which of the answers to the prompt were compared, from 1.
    """

    prompt_id: str
    first: str
    second: str
    share: float
    rater: str | None = None
    chance: float = 1.0
    sample: int = 1


def votes_of_battles(battles: Iterable[Battle]) -> list[Vote]:
    """Return people's comparisons as votes, without those that name no prompt."""
    return [
        Vote(
            battle.question_id,
            battle.model_a,
            battle.model_b,
            0.5 if battle.is_tie else float(battle.winner == "model_a"),
            sample=battle.sample,
        )
        for battle in battles
        if battle.question_id is not None
    ]


def label_pairs(judgments: Iterable[Judgment], votes: Iterable[Vote]) -> tuple[LabelledPair, ...]:
    """Match people's votes with the judge's verdicts on the same pairs.

    Several votes on one pair count as their mean. Pairs without a verdict are left out, and so are
    votes on pairs that were not judged. An inconsistent pair is half a win for each.

    Args:
        judgments: Settled pairs of one dimension.
    """
    heard: dict[tuple[AnswerKey, frozenset[str]], list[Vote]] = {}
    for vote in votes:
        heard.setdefault((answer_key(vote), frozenset((vote.first, vote.second))), []).append(vote)
    pairs = []
    for pair in judgments:
        if pair.share is None:
            continue
        of_pair = heard.get((answer_key(pair), frozenset((pair.entrant_a, pair.entrant_b))), ())
        shares = [
            vote.share if vote.first == pair.entrant_a else 1 - vote.share for vote in of_pair
        ]
        pairs.append(
            LabelledPair(
                pair.prompt_id,
                pair.entrant_a,
                pair.entrant_b,
                judged=pair.share,
                labelled=math.fsum(shares) / len(shares) if shares else None,
                chance=of_pair[0].chance if of_pair else 1.0,
                raters=tuple(
                    (vote.rater, share)
                    for vote, share in zip(of_pair, shares, strict=True)
                    if vote.rater is not None
                ),
                weight=pair.weight,
                sample=pair.sample,
            )
        )
    return tuple(pairs)


def require_labelled(
    pairs: Sequence[LabelledPair], entrants: Sequence[str], weight: float | None = None
) -> None:
    """Refuse pairs from which nothing can be rated, and an invalid weight of the judge."""
    problems, names = Problems(), frozenset(entrants)
    if weight is not None and not 0 <= weight <= 1:
        problems.add(f"weight is {weight!r}; expected a number from 0 to 1")
    for pair in pairs:
        if pair.first not in names or pair.second not in names or pair.first == pair.second:
            words = f"are not a pair of entrants; expected two of {', '.join(entrants)}"
            problems.add(f"{_named(pair)} {words}")
        for name, share in (("judged", pair.judged), ("labelled", pair.labelled)):
            if share is not None and not 0 <= share <= 1:
                problems.add(f"{_named(pair)}: {name} is {share!r}; expected a share from 0 to 1")
        if not 0 < pair.chance <= 1:
            words = f"chance is {pair.chance!r}; expected above 0 and at most 1"
            problems.add(f"{_named(pair)}: {words}")
    problems.raise_if_any()
    if all(pair.labelled is None for pair in pairs):
        raise InputError(f"none of {len(pairs)} pairs is labelled; expected some; label a sample")


def _named(pair: LabelledPair) -> str:
    return f"{pair.first!r} and {pair.second!r} on prompt {pair.prompt_id!r}"


@dataclass(frozen=True, slots=True, eq=False)
class PairDesign:
    """Pairs as arrays, and sums of gradients over them.

    Arrays have shape (n_pairs,) unless stated otherwise.

    Attributes:
        first: Index of the first entrant.
        second: Index of the second entrant.
        prompt: Index of the prompt.
        judged: The first entrant's share of the judge's verdict.
        label: Its share of the people's verdict; 0 if the pair has no label.
        is_labelled: Whether the pair has a label.
        labelled: Weights of the labelled pairs, adding up to 1.
        judged_by: Weights, adding up to 1, of the pairs whose verdict counts by itself: those
            without a label, or all of them if chances are unequal.
        chance: The probability that a pair was drawn.
        stands_for: The share of all pairs that each pair represents, adding up to 1.
        rater_of: The pair, rater and share of every label whose rater is known, each of shape
            (n_labels,).
    """

    entrants: tuple[str, ...]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    prompt: NDArray[np.int64]
    n_prompts: int
    judged: Floats
    label: Floats
    is_labelled: NDArray[np.bool_]
    labelled: Floats
    judged_by: Floats
    chance: Floats
    stands_for: Floats
    rater_of: tuple[NDArray[np.int64], NDArray[np.int64], Floats]

    @classmethod
    def of(cls, pairs: Sequence[LabelledPair], place: Mapping[str, int]) -> "PairDesign":
        """Arrange pairs whose entrants all have an index in `place`."""
        prompts = {
            prompt: index for index, prompt in enumerate(dict.fromkeys(p.prompt_id for p in pairs))
        }
        is_labelled = np.array([pair.labelled is not None for pair in pairs], dtype=np.bool_)
        chance = np.array([pair.chance for pair in pairs], dtype=np.float64)
        weight = np.array([pair.weight for pair in pairs], dtype=np.float64)
        # Equal chances differ by rounding alone.
        is_even = np.ptp(chance[is_labelled]) < 1e-12 if is_labelled.any() else True
        raters: dict[str, int] = {}
        single = [
            (index, raters.setdefault(name, len(raters)), share)
            for index, pair in enumerate(pairs)
            for name, share in pair.raters
        ]
        return cls(
            entrants=tuple(place),
            first=np.array([place[pair.first] for pair in pairs], dtype=np.int64),
            second=np.array([place[pair.second] for pair in pairs], dtype=np.int64),
            prompt=np.array([prompts[pair.prompt_id] for pair in pairs], dtype=np.int64),
            n_prompts=len(prompts),
            judged=np.array([pair.judged for pair in pairs], dtype=np.float64),
            label=np.array([pair.labelled or 0.0 for pair in pairs], dtype=np.float64),
            is_labelled=is_labelled,
            labelled=_shares(is_labelled * weight / chance),
            judged_by=_shares(np.where(is_labelled & is_even, 0.0, weight)),
            chance=chance,
            stands_for=_shares(weight),
            rater_of=(
                np.array([index for index, _, _ in single], dtype=np.int64),
                np.array([rater for _, rater, _ in single], dtype=np.int64),
                np.array([share for _, _, share in single], dtype=np.float64),
            ),
        )

    @property
    def n_entrants(self) -> int:
        """How many entrants are rated."""
        return len(self.entrants)

    def expected(self, strengths: Floats) -> Floats:
        """Return the first entrant's expected share of every pair."""
        shares: Floats = 1 / (1 + np.exp(strengths[self.second] - strengths[self.first]))
        return shares

    def by_entrant(self, pulls: Floats) -> Floats:
        """Sum the pairs' gradients by entrant, shape (n_entrants,)."""
        n = self.n_entrants
        gained = np.bincount(self.first, pulls, minlength=n)
        return np.asarray(gained - np.bincount(self.second, pulls, minlength=n), dtype=np.float64)

    def by_prompt(self, pulls: Floats) -> Floats:
        """Sum the pairs' gradients by prompt and entrant, shape (n_prompts, n_entrants)."""
        n, size = self.n_entrants, self.n_prompts * self.n_entrants
        gained = np.bincount(self.prompt * n + self.first, pulls, minlength=size)
        lost = np.bincount(self.prompt * n + self.second, pulls, minlength=size)
        return np.asarray(gained - lost, dtype=np.float64).reshape(self.n_prompts, n)

    def information(self, weights: Floats) -> Floats:
        """Sum weighted outer squares of (first - second), shape (n_entrants, n_entrants)."""
        return laplacian(self.first, self.second, weights, self.n_entrants)


def _shares(weights: Floats) -> Floats:
    total = weights.sum()
    return weights / total if total else weights


def connected_entrants(pairs: Sequence[LabelledPair], entrants: Sequence[str]) -> dict[str, int]:
    """Return the indexes of entrants that chains of wins connect in both labels and verdicts."""
    code = {entrant: index for index, entrant in enumerate(entrants)}
    first = np.array([code[pair.first] for pair in pairs], dtype=np.int64)
    second = np.array([code[pair.second] for pair in pairs], dtype=np.int64)
    judged = np.array([pair.judged for pair in pairs], dtype=np.float64)
    label = np.array(
        [np.nan if pair.labelled is None else pair.labelled for pair in pairs], dtype=np.float64
    )
    wins = np.zeros((2, len(entrants), len(entrants)))
    for table, shares in zip(wins, (label, judged), strict=True):
        heard = ~np.isnan(shares)
        np.add.at(table, (first[heard], second[heard]), shares[heard])
        np.add.at(table, (second[heard], first[heard]), 1 - shares[heard])
    members = np.arange(len(entrants))
    while True:
        inside = np.ix_(members, members)
        rated = find_standing(wins[0][inside]).rated & find_standing(wins[1][inside]).rated
        if rated.all() or not rated.any():
            members = members[rated]
            return {entrants[int(index)]: place for place, index in enumerate(members)}
        members = members[rated]
