"""From settled judgments to decisive matches: who beat whom, on which prompt.

Judgments with ties, aggregated to how much each entrant beat each other one on each prompt.

Battles as columns: who met whom on which prompt, and how far the first was preferred.

Refuses options that no rating can be computed with.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.tournament.errors import InputError, Problems
from tournament_assets.tournament.verdicts import Judgment, Outcome


@dataclass(frozen=True, slots=True, eq=False)
class DecisiveMatches:
    """The judgments that somebody won, coded as integers.

    Attributes:
        entrants: Every entrant, in the order of the tables.
        prompts: Every prompt with a judged pair, sorted. A prompt on which all was tied is
            among them, although it has no match: it is part of the sample of prompts.
        winners: Indices into `entrants`, shape (n_matches,).
        losers: Indices into `entrants`, shape (n_matches,).
        prompt_index: Indices into `prompts`, shape (n_matches,).
    """

    entrants: tuple[str, ...]
    prompts: tuple[str, ...]
    winners: NDArray[np.int64]
    losers: NDArray[np.int64]
    prompt_index: NDArray[np.int64]

    @property
    def n_matches(self) -> int:
        """How many judgments somebody won."""
        return int(self.winners.size)

    @property
    def matches_per_entrant(self) -> NDArray[np.int64]:
        """How many of the matches each entrant fought, shape (n_entrants,)."""
        fought = np.concatenate([self.winners, self.losers])
        return np.bincount(fought, minlength=len(self.entrants)).astype(np.int64)


def judgments_to_matches(judgments: Iterable[Judgment]) -> list[tuple[str, str, str]]:
    """Return `(entrant_a, entrant_b, winner)` for every judgment that somebody won.

    Ties, inconsistent and unjudged pairs are left out; the order is kept.
    """
    return [
        (judgment.entrant_a, judgment.entrant_b, judgment.winner)
        for judgment in judgments
        if judgment.winner is not None
    ]


def code_decisive(judgments: Iterable[Judgment], *, entrants: Sequence[str]) -> DecisiveMatches:
    """Keep the judgments that somebody won, and code them as integers.

    Args:
        judgments: Settled pairs of one dimension; the matches keep their order.
        entrants: Everyone who may appear, in the order of the tables.

    Raises:
        InputError: With every entrant that is unknown, listed twice, or judged against itself.
    """
    judgments = list(judgments)
    index_of = index_entrants(judgments, entrants=entrants)
    prompts = judged_prompts(judgments)
    prompt_of = {prompt_id: index for index, prompt_id in enumerate(prompts)}
    rows = [
        (index_of[winner], index_of[b if winner == a else a], prompt_of[judgment.prompt_id])
        for judgment in judgments
        for a, b, winner in [(judgment.entrant_a, judgment.entrant_b, judgment.winner)]
        if winner is not None
    ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
    return DecisiveMatches(tuple(entrants), prompts, columns[0], columns[1], columns[2])


def judged_prompts(judgments: Iterable[Judgment]) -> tuple[str, ...]:
    """Return the prompts with at least one judged pair, sorted."""
    return tuple(
        sorted({each.prompt_id for each in judgments if each.outcome is not Outcome.UNJUDGED})
    )


def index_entrants(judgments: Iterable[Judgment], *, entrants: Sequence[str]) -> dict[str, int]:
    """Return every entrant's place in the tables, once the judgments are known to fit them.

    Raises:
        InputError: With every entrant that is unknown, listed twice, or judged against itself.
    """
    problems = Problems()
    index_of: dict[str, int] = {}
    for index, entrant in enumerate(entrants):
        if entrant in index_of:
            problems.add(f"entrant {entrant!r} is listed twice; expected every entrant once")
        index_of.setdefault(entrant, index)
    # A dict rather than a set: what is reported keeps the order of the judgments.
    unknown: dict[str, str] = {}
    against_itself: dict[str, str] = {}
    for judgment in judgments:
        for entrant in (judgment.entrant_a, judgment.entrant_b):
            if entrant not in index_of:
                unknown.setdefault(entrant, judgment.prompt_id)
        if judgment.entrant_a == judgment.entrant_b:
            against_itself.setdefault(judgment.entrant_a, judgment.prompt_id)
    known = ", ".join(map(repr, index_of)) or "nobody"
    problems.extend(
        f"a judgment of prompt {prompt_id!r} names entrant {entrant!r}; expected one of {known}"
        for entrant, prompt_id in unknown.items()
    )
    problems.extend(
        f"a judgment of prompt {prompt_id!r} compares {entrant!r} with itself; "
        "expected two different entrants"
        for entrant, prompt_id in against_itself.items()
    )
    problems.raise_if_any()
    return index_of


@dataclass(frozen=True, slots=True, eq=False)
class PairCells:
    """Wins between entrants, by prompt; a tie is half a win for each.

    The judgments' order leaves no trace: equal judgments give equal cells.

    Attributes:
        entrants: Every entrant, in the order of the tables.
        prompts: Every prompt with a judged pair, sorted.
        prompt_index: Indices into `prompts`, shape (n_cells,).
        winners: Indices into `entrants`, shape (n_cells,).
        losers: Indices into `entrants`, shape (n_cells,).
        weights: Wins, in halves, shape (n_cells,).
    """

    entrants: tuple[str, ...]
    prompts: tuple[str, ...]
    prompt_index: NDArray[np.int64]
    winners: NDArray[np.int64]
    losers: NDArray[np.int64]
    weights: NDArray[np.float64]

    @property
    def wins(self) -> NDArray[np.float64]:
        """How often the row's entrant beat the column's, shape (n_entrants, n_entrants)."""
        return self.resampled_wins(np.ones(len(self.prompts), dtype=np.int64))

    def resampled_wins(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return `wins` as if every prompt had been judged a number of times.

        Args:
            counts: How often each prompt counts, shape (n_prompts,).
        """
        n_entrants = len(self.entrants)
        flat = np.bincount(
            self.winners * n_entrants + self.losers,
            weights=self.weights * counts[self.prompt_index],
            minlength=n_entrants * n_entrants,
        )
        return flat.astype(np.float64).reshape(n_entrants, n_entrants)


def code_cells(
    judgments: Iterable[Judgment], *, entrants: Sequence[str], count_inconsistent: bool = True
) -> PairCells:
    """Aggregate judgments to wins between entrants; unjudged pairs are left out.

    Args:
        judgments: Settled pairs of one dimension.
        entrants: Everyone who may appear, in the order of the tables.
        count_inconsistent: Count an inconsistent pair as a tie; otherwise it is left out.

    Raises:
        InputError: With every entrant that is unknown, listed twice, or judged against itself.
    """
    judgments = list(judgments)
    index_of = index_entrants(judgments, entrants=entrants)
    prompts = judged_prompts(judgments)
    prompt_of = {prompt_id: index for index, prompt_id in enumerate(prompts)}
    tied = {Outcome.TIE, Outcome.SAME_TEXT}
    if count_inconsistent:
        tied.add(Outcome.INCONSISTENT)
    half_wins: Counter[tuple[int, int, int]] = Counter()
    for judgment in judgments:
        a, b = index_of[judgment.entrant_a], index_of[judgment.entrant_b]
        if judgment.outcome is Outcome.A_WINS:
            half_wins[prompt_of[judgment.prompt_id], a, b] += 2
        elif judgment.outcome is Outcome.B_WINS:
            half_wins[prompt_of[judgment.prompt_id], b, a] += 2
        elif judgment.outcome in tied:
            half_wins[prompt_of[judgment.prompt_id], a, b] += 1
            half_wins[prompt_of[judgment.prompt_id], b, a] += 1
    cells = sorted(half_wins)
    columns = np.array(cells, dtype=np.int64).reshape(-1, 3).T.copy()
    return PairCells(
        entrants=tuple(entrants),
        prompts=prompts,
        prompt_index=columns[0],
        winners=columns[1],
        losers=columns[2],
        weights=np.array([half_wins[cell] / 2 for cell in cells], dtype=np.float64),
    )


_SHOWN = 3
_PREFERENCES = {
    Outcome.A_WINS: 1.0,
    Outcome.B_WINS: 0.0,
    Outcome.TIE: 0.5,
    Outcome.SAME_TEXT: 0.5,
    Outcome.INCONSISTENT: 0.5,
}


@dataclass(frozen=True, slots=True, eq=False)
class Preferences:
    """Battles whose outcome is a share of a win, coded as integers.

    A preference is 1 where the first entrant won, 0 where the second won, a half for a tie, and
    anything between for a judge who says how sure it is. All arrays have shape (n_battles,).

    Attributes:
        entrants: Every entrant, in the order of the tables.
        prompts: Every prompt with a battle, in the order of the tables.
        first: Indices into `entrants`.
        second: Indices into `entrants`.
        prompt_index: Indices into `prompts`.
        preference: Share of a win that the first entrant got, between 0 and 1.
        weight: How many battles each counts as; 1 unless the judge's scale says otherwise.

    Raises:
        InputError: With everything that is wrong with the columns: unequal lengths, indices out
            of range, an entrant against itself, a missing preference, one outside 0 to 1, a
            weight that is not a positive number.
    """

    entrants: tuple[str, ...]
    prompts: tuple[str, ...]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    prompt_index: NDArray[np.int64]
    preference: NDArray[np.float64]
    weight: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Refuse columns that hold no battles anybody could rate."""
        columns = (self.second, self.prompt_index, self.preference, self.weight)
        if any(column.shape != (self.first.size,) for column in columns):
            shapes = [column.shape for column in (self.first, *columns)]
            raise InputError(f"the columns of battles have shapes {shapes!r}; expected one shape")
        problems = Problems()
        for name, names in (("entrant", self.entrants), ("prompt", self.prompts)):
            if len(set(names)) < len(names):
                problems.add(f"an {name} is listed twice; expected every {name} once")
        for name, codes, size in (
            ("first", self.first, len(self.entrants)),
            ("second", self.second, len(self.entrants)),
            ("prompt_index", self.prompt_index, len(self.prompts)),
        ):
            outside = (codes < 0) | (codes >= size)
            _report(problems, outside, codes, f"{name} is {{}}; expected an index below {size}")
        _report(problems, self.first == self.second, self.first, "both sides are entrant number {}")
        missing = np.isnan(self.preference)
        _report(
            problems,
            missing,
            self.preference,
            "the preference is missing ({}); expected a number from 0 to 1. "
            "A battle without an outcome is not a tie: leave it out",
        )
        _report(
            problems,
            ~missing & ~((self.preference >= 0) & (self.preference <= 1)),
            self.preference,
            "the preference is {}; expected a number from 0 (second won) to 1 (first won)",
        )
        _report(
            problems,
            ~(np.isfinite(self.weight) & (self.weight > 0)),
            self.weight,
            "the weight is {}; expected a positive number",
        )
        problems.raise_if_any()

    @property
    def n_battles(self) -> int:
        """How many battles there are."""
        return int(self.first.size)

    @property
    def is_hard(self) -> bool:
        """Whether every battle was won, lost or tied outright."""
        return bool(np.isin(self.preference, (0.0, 0.5, 1.0)).all())

    @property
    def wins(self) -> NDArray[np.float64]:
        """Shares of wins of the row's entrant over the column's, shape (n_entrants, n_entrants).

        A tie is half a win for each side.
        """
        gained = _table(self, self.weight * self.preference)
        return gained + _table(self, self.weight * (1 - self.preference)).T

    @property
    def outright_wins(self) -> NDArray[np.float64]:
        """How often the row's entrant beat the column's outright; ties are in `ties`."""
        won = _table(self, self.weight * (self.preference == 1))
        return won + _table(self, self.weight * (self.preference == 0)).T

    @property
    def ties(self) -> NDArray[np.float64]:
        """How often two entrants tied, shape (n_entrants, n_entrants), symmetric."""
        tied = _table(self, self.weight * (self.preference == 0.5))
        return tied + tied.T

    def require_hard(self, model: str) -> None:
        """Refuse preferences that are neither a win, a loss nor a tie.

        Args:
            model: The model that knows nothing else.

        Raises:
            InputError: With the first few of them.
        """
        problems = Problems()
        _report(
            problems,
            ~np.isin(self.preference, (0.0, 0.5, 1.0)),
            self.preference,
            f"the preference is {{}}; expected 0, 0.5 or 1, because {model} knows only wins, "
            "losses and ties",
        )
        problems.raise_if_any()

    def cells(self) -> PairCells:
        """Aggregate the battles to wins between entrants by prompt, for `bradley_terry`."""
        n = len(self.entrants)
        gained = np.concatenate(
            [self.weight * self.preference, self.weight * (1 - self.preference)]
        )
        winners = np.concatenate([self.first, self.second])
        losers = np.concatenate([self.second, self.first])
        prompts = np.concatenate([self.prompt_index, self.prompt_index])
        keys, inverse = np.unique((prompts * n + winners) * n + losers, return_inverse=True)
        weights = np.bincount(inverse, weights=gained, minlength=keys.size).astype(np.float64)
        keys, weights = keys[weights > 0], weights[weights > 0]
        return PairCells(
            entrants=self.entrants,
            prompts=self.prompts,
            prompt_index=keys // (n * n),
            winners=keys // n % n,
            losers=keys % n,
            weights=weights,
        )


def code_preferences(
    judgments: Iterable[Judgment], *, entrants: Sequence[str], count_inconsistent: bool = True
) -> Preferences:
    """Turn judgments into preferences; unjudged pairs are left out.

    Args:
        judgments: Settled pairs of one dimension; the battles keep their order.
        entrants: Everyone who may appear, in the order of the tables.
        count_inconsistent: Count an inconsistent pair as a tie; otherwise it is left out.

    Raises:
        InputError: With every entrant that is unknown, listed twice, or judged against itself.
    """
    judgments = list(judgments)
    index_of = index_entrants(judgments, entrants=entrants)
    prompts = judged_prompts(judgments)
    prompt_of = {prompt_id: index for index, prompt_id in enumerate(prompts)}
    kept = [
        judgment
        for judgment in judgments
        if judgment.outcome in _PREFERENCES
        and (count_inconsistent or judgment.outcome is not Outcome.INCONSISTENT)
    ]
    return Preferences(
        entrants=tuple(entrants),
        prompts=prompts,
        first=np.array([index_of[each.entrant_a] for each in kept], dtype=np.int64),
        second=np.array([index_of[each.entrant_b] for each in kept], dtype=np.int64),
        prompt_index=np.array([prompt_of[each.prompt_id] for each in kept], dtype=np.int64),
        preference=np.array([_PREFERENCES[each.outcome] for each in kept], dtype=np.float64),
        weight=np.ones(len(kept)),
    )


def code_columns(
    first: Sequence[str],
    second: Sequence[str],
    prompt_ids: Sequence[str],
    preference: Sequence[float],
    *,
    entrants: Sequence[str],
    weight: Sequence[float] | None = None,
) -> Preferences:
    """Turn columns of names into preferences, in the same order.

    Args:
        first: The first entrant of each battle.
        second: The second entrant of each battle.
        prompt_ids: The prompt of each battle.
        preference: Share of a win that the first entrant got, between 0 and 1.
        entrants: Everyone who may appear, in the order of the tables.
        weight: How many battles each counts as; 1 each if not given.

    Raises:
        InputError: With every entrant that is unknown, and everything that `Preferences` refuses.
    """
    index_of = {entrant: index for index, entrant in enumerate(entrants)}
    known = ", ".join(map(repr, index_of)) or "nobody"
    problems = Problems()
    problems.extend(
        f"a battle names entrant {entrant!r}; expected one of {known}"
        for entrant in dict.fromkeys([*first, *second])
        if entrant not in index_of
    )
    problems.raise_if_any()
    prompts = tuple(sorted(set(prompt_ids)))
    prompt_of = {prompt_id: index for index, prompt_id in enumerate(prompts)}
    return Preferences(
        entrants=tuple(entrants),
        prompts=prompts,
        first=np.array([index_of[entrant] for entrant in first], dtype=np.int64),
        second=np.array([index_of[entrant] for entrant in second], dtype=np.int64),
        prompt_index=np.array([prompt_of[prompt] for prompt in prompt_ids], dtype=np.int64),
        preference=np.array(preference, dtype=np.float64),
        weight=np.ones(len(first)) if weight is None else np.array(weight, dtype=np.float64),
    )


def _table(preferences: Preferences, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    n = len(preferences.entrants)
    flat = np.bincount(preferences.first * n + preferences.second, weights, minlength=n * n)
    return flat.astype(np.float64).reshape(n, n)


def _report(
    problems: Problems, is_wrong: NDArray[np.bool_], values: NDArray[np.generic], text: str
) -> None:
    rows = np.flatnonzero(is_wrong)
    problems.extend(
        f"battle {row}: {text.format(repr(values[row].item()))}" for row in rows[:_SHOWN]
    )
    if rows.size > _SHOWN:
        problems.add(f"the same is wrong with {rows.size - _SHOWN} more battles")


_SEEN_FROM_B = {Outcome.A_WINS: Outcome.B_WINS, Outcome.B_WINS: Outcome.A_WINS}


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Every judgment between two entrants, counted by how it was settled.

    Attributes:
        entrant_a: The entrant whose name comes first.
        entrant_b: The other one.
        wins_a: Pairs that `entrant_a` won.
        wins_b: Pairs that `entrant_b` won.
        ties: Pairs that both presentations called a tie.
        inconsistent: Pairs whose two presentations disagreed.
        same_text: Pairs whose two responses are the same text; the judge was not asked.
        unjudged: Pairs without two readable replies; in no rate.
    """

    entrant_a: str
    entrant_b: str
    wins_a: int
    wins_b: int
    ties: int
    inconsistent: int
    same_text: int
    unjudged: int

    @property
    def judged(self) -> int:
        """Pairs that the judge was asked about, with two readable replies."""
        return self.wins_a + self.wins_b + self.ties + self.inconsistent

    @property
    def settled(self) -> int:
        """Judged pairs and those of one text: what the win rate is of."""
        return self.judged + self.same_text

    @property
    def win_rate_a(self) -> float | None:
        """Share of the settled pairs that `entrant_a` won, or None if none was settled.

        Ties, inconsistent pairs and pairs of one text count half.
        """
        if self.settled == 0:
            return None
        level = self.ties + self.inconsistent + self.same_text
        return (self.wins_a + level / 2) / self.settled


def pairwise_winrates(judgments: Iterable[Judgment]) -> list[PairCounts]:
    """Count the judgments of every pair of entrants, whichever of them was shown first.

    Returns:
        One row per pair that occurs, sorted by the names of the two.
    """
    outcomes: dict[tuple[str, str], Counter[Outcome]] = {}
    for judgment in judgments:
        pair = (judgment.entrant_a, judgment.entrant_b)
        outcome = judgment.outcome
        if judgment.entrant_b < judgment.entrant_a:
            pair = (judgment.entrant_b, judgment.entrant_a)
            outcome = _SEEN_FROM_B.get(outcome, outcome)
        outcomes.setdefault(pair, Counter())[outcome] += 1
    return [
        PairCounts(
            entrant_a=entrant_a,
            entrant_b=entrant_b,
            wins_a=counts[Outcome.A_WINS],
            wins_b=counts[Outcome.B_WINS],
            ties=counts[Outcome.TIE],
            inconsistent=counts[Outcome.INCONSISTENT],
            same_text=counts[Outcome.SAME_TEXT],
            unjudged=counts[Outcome.UNJUDGED],
        )
        for (entrant_a, entrant_b), counts in sorted(outcomes.items())
    ]


def require_count(name: str, value: int) -> None:
    """Refuse a number of repetitions below 1.

    Raises:
        InputError: If it is.
    """
    if value < 1:
        raise InputError(f"{name} is {value!r}; expected a whole number of at least 1")


def require_k_factor(value: float) -> None:
    """Refuse a K-factor that is not a positive number of Elo points.

    Raises:
        InputError: If it is not.
    """
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"k_factor is {value!r}; expected a positive number of Elo points")


def require_confidence(value: float) -> None:
    """Refuse a coverage that is not strictly between 0 and 1.

    Raises:
        InputError: If it is not.
    """
    if not 0 < value < 1:
        raise InputError(f"confidence is {value!r}; expected a share between 0 and 1, such as 0.95")
