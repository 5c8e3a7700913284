"""Who met whom on which prompt, and the outcome: the input of every rating method.

`Matches` holds judgments, or battles of a file, as columns of integers. Each method takes a view of
them: the decisive ones for Elo, wins with ties as halves for Bradley-Terry, wins and ties
separately for Davidson, those among rated entrants for errors and for ratings at equal style.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.tournament.asset_rows import WinRateRow
from tournament_assets.tournament.verdicts import Judgment, Outcome

_MOST_EXAMPLES = 3
_ROUNDING = 1e-12
"""A mean share this near to a half is a tie."""


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Who met whom, as columns of shape (n_matches,).

    A preference is 1 where the first entrant won, 0 where the second won, a half for a tie, and
    anything between for several judges or samples, or a judge that states its confidence.

    Attributes:
        entrants: Every entrant, in the order of the tables.
        prompts: Every prompt with a judged pair, in the order of the tables. A prompt that a view
            has no match on stays among them: it is part of the sample of prompts.
        first: Indices into `entrants`.
        second: Indices into `entrants`.
        prompt_index: Indices into `prompts`.
        preference: The first entrant's share of the win, between 0 and 1.
        weight: How many matches each counts as; 1 unless the judge's scale says otherwise.
        covariates: The first response's lead in style, shape (n_matches, n_covariates); without a
            column unless style is controlled.
        judges: Every judge, in the order of the tables; empty where one judged all matches.
        judge_index: Indices into `judges`, shape (n_matches,); empty where there are none.
        sample: Which of the answers to the prompt were compared, from 1, shape (n_matches,); empty
            where every prompt is answered once.

    Raises:
        InputError: With everything wrong with the columns: unequal lengths, indices out of range,
            an entrant against itself, a missing preference, one outside 0 to 1, a weight that is
            not a positive number.
    """

    entrants: tuple[str, ...]
    prompts: tuple[str, ...]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    prompt_index: NDArray[np.int64]
    preference: NDArray[np.float64]
    weight: NDArray[np.float64]
    covariates: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    judges: tuple[str, ...] = ()
    judge_index: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sample: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        """Refuse inconsistent columns."""
        columns: tuple[NDArray[np.generic], ...]
        columns = (self.second, self.prompt_index, self.preference, self.weight)
        if self.judges:
            columns = (*columns, self.judge_index)
        if self.sample.size:
            columns = (*columns, self.sample)
        if any(column.shape != (self.first.size,) for column in columns):
            shapes = [column.shape for column in (self.first, *columns)]
            raise InputError(f"the columns of matches have shapes {shapes!r}; expected one shape")
        problems = Problems()
        for name, names in (
            ("entrant", self.entrants),
            ("prompt", self.prompts),
            ("judge", self.judges),
        ):
            if len(set(names)) < len(names):
                problems.add(f"an {name} is listed twice; expected every {name} once")
        for name, codes, size in (
            ("first", self.first, len(self.entrants)),
            ("second", self.second, len(self.entrants)),
            ("prompt_index", self.prompt_index, len(self.prompts)),
            ("judge_index", self.judge_index, len(self.judges)),
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
            "A match without an outcome is not a tie: leave it out",
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
    def n_matches(self) -> int:
        """How many matches there are."""
        return int(self.first.size)

    @property
    def sample_numbers(self) -> NDArray[np.int64]:
        """Which of the answers to the prompt were compared, from 1, shape (n_matches,)."""
        return self.sample if self.sample.size else np.ones(self.n_matches, dtype=np.int64)

    @property
    def matches_per_entrant(self) -> NDArray[np.int64]:
        """How many of the matches each entrant fought, shape (n_entrants,)."""
        fought = np.concatenate([self.first, self.second])
        return np.bincount(fought, minlength=len(self.entrants)).astype(np.int64)

    @property
    def is_hard(self) -> bool:
        """Whether every match was won, lost or tied outright."""
        return bool(np.isin(self.preference, (0.0, 0.5, 1.0)).all())

    @property
    def wins(self) -> NDArray[np.float64]:
        """Shares of wins of the row's entrant over the column's, shape (n_entrants, n_entrants)."""
        gained = self.table(self.weight * self.preference)
        return gained + self.table(self.weight * (1 - self.preference)).T

    def wins_by_prompt(self) -> NDArray[np.float64]:
        """Return `wins` of every prompt, shape (n_prompts, n_entrants, n_entrants)."""
        n, won = len(self.entrants), self.as_wins()
        flat = np.bincount(
            (won.prompt_index * n + won.first) * n + won.second,
            weights=won.weight,
            minlength=len(self.prompts) * n * n,
        )
        return flat.astype(np.float64).reshape(len(self.prompts), n, n)

    @property
    def outright_wins(self) -> NDArray[np.float64]:
        """How often the row's entrant beat the column's outright; ties are in `ties`."""
        won = self.table(self.weight * (self.preference == 1))
        return won + self.table(self.weight * (self.preference == 0)).T

    @property
    def ties(self) -> NDArray[np.float64]:
        """How often two entrants tied, shape (n_entrants, n_entrants), symmetric."""
        tied = self.table(self.weight * (self.preference == 0.5))
        return tied + tied.T

    def table(self, values: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Sum over matches by their first entrant (row) and second, shape (n_entrants, n_entrants).

        Args:
            values: What to sum, shape (n_matches,); None counts the matches.
        """
        n = len(self.entrants)
        flat = np.bincount(self.first * n + self.second, values, minlength=n * n)
        return flat.astype(np.float64).reshape(n, n)

    def decisive(self) -> Matches:
        """Return the matches that are not ties, in their order, the preferred entrant first."""
        if (self.preference > 0.5).all():
            return self
        decided = self.preference != 0.5
        is_turned = self.preference[decided] < 0.5
        first, second, share = self.first[decided], self.second[decided], self.preference[decided]
        return Matches(
            entrants=self.entrants,
            prompts=self.prompts,
            first=np.where(is_turned, second, first),
            second=np.where(is_turned, first, second),
            prompt_index=self.prompt_index[decided],
            preference=np.maximum(share, 1 - share),
            weight=self.weight[decided],
            sample=self.sample[decided] if self.sample.size else self.sample,
        )

    def repeated(self) -> Matches:
        """Return each match as many times as its weight, for methods without weights.

        Of two entrants' matches the running sum of the weights is rounded, so that together they
        are repeated as often as they weigh, to the nearest whole number. With weights of 1 this is
        the same object.
        """
        if (self.weight == 1).all():
            return self
        times = np.zeros(self.n_matches, dtype=np.int64)
        pair_of = self.first * len(self.entrants) + self.second
        for pair in np.unique(pair_of):
            of_pair = np.flatnonzero(pair_of == pair)
            times[of_pair] = np.diff(np.rint(np.cumsum(self.weight[of_pair])), prepend=0.0)
        rows = np.repeat(np.arange(self.n_matches), times)
        return replace(self, **{**self._columns(rows), "weight": np.ones(rows.size)})

    def _columns(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> dict[str, Any]:
        """Return all columns, of some rows only: by their numbers, or by a mask."""
        return {
            "first": self.first[rows],
            "second": self.second[rows],
            "prompt_index": self.prompt_index[rows],
            "preference": self.preference[rows],
            "weight": self.weight[rows],
            "covariates": self.covariates[rows] if self.covariates.size else self.covariates,
            "judge_index": self.judge_index[rows] if self.judges else self.judge_index,
            "sample": self.sample[rows] if self.sample.size else self.sample,
        }

    def as_wins(self) -> Matches:
        """Return only wins: those of the first entrants, then those of the second.

        The weights are shares of a win, so a tie becomes two matches that weigh a half.
        """
        gained = np.concatenate(
            [self.weight * self.preference, self.weight * (1 - self.preference)]
        )
        is_gain = gained > 0
        return Matches(
            entrants=self.entrants,
            prompts=self.prompts,
            first=np.concatenate([self.first, self.second])[is_gain],
            second=np.concatenate([self.second, self.first])[is_gain],
            prompt_index=np.concatenate([self.prompt_index, self.prompt_index])[is_gain],
            preference=np.ones(int(is_gain.sum())),
            weight=gained[is_gain],
        )

    def among(self, members: NDArray[np.bool_]) -> Matches:
        """Return the matches between members, renumbered; the mask has shape (n_entrants,)."""
        columns = self._columns(members[self.first] & members[self.second])
        place = np.cumsum(members) - 1
        moved = {"first": place[columns["first"]], "second": place[columns["second"]]}
        entrants = tuple(compress(self.entrants, members))
        return replace(self, entrants=entrants, **{**columns, **moved})

    def of_judges(self, members: NDArray[np.bool_]) -> Matches:
        """Return the matches of some judges, renumbered; the mask has shape (n_judges,)."""
        columns = self._columns(members[self.judge_index])
        moved = {"judge_index": (np.cumsum(members) - 1)[columns["judge_index"]]}
        return replace(self, judges=tuple(compress(self.judges, members)), **{**columns, **moved})

    def averaged_over_samples(self) -> Matches:
        """Return one match per prompt and two entrants, whose share is the mean over its samples.

        A prompt whose samples are not all judged is the mean of those that are, and counts as much
        as any other; samples that balance are a tie. Shares are averaged by their weights, and the
        weight of the result is the mean weight. Without samples of a prompt this is the same
        object.
        """
        if not self.sample.size:
            return self
        rows, places = self._met()
        is_low_first = self.first < self.second
        share = np.where(is_low_first, self.preference, 1 - self.preference)
        weight = np.bincount(places, self.weight).astype(np.float64)
        mean = np.bincount(places, share * self.weight) / weight
        # Samples that balance leave a rounding, which would be a win.
        mean = np.where(np.abs(mean - 0.5) <= _ROUNDING, 0.5, mean)
        weight = weight / np.bincount(places)
        order = np.argsort(rows)
        rows, mean, weight = rows[order], mean[order], weight[order]
        return Matches(
            entrants=self.entrants,
            prompts=self.prompts,
            first=self.first[rows],
            second=self.second[rows],
            prompt_index=self.prompt_index[rows],
            preference=np.where(is_low_first[rows], mean, 1 - mean),
            weight=weight,
        )

    def weighed_by_sample(self) -> Matches:
        """Return the same matches, reweighted so that the samples of a prompt count as one.

        Each keeps its own outcome and style, and two entrants' matches on a prompt weigh together
        what their mean in `averaged_over_samples` does. Without samples this is the same object.
        """
        if not self.sample.size:
            return self
        _, places = self._met()
        return replace(self, weight=self.weight / np.bincount(places)[places])

    def _met(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where two entrants first met on a prompt, and of which of these each match is."""
        n = len(self.entrants)
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        keys = (self.prompt_index * n + low) * n + high
        return np.unique(keys, return_index=True, return_inverse=True)[1:]

    def require_hard(self, model: str) -> None:
        """Refuse, with an `InputError`, shares of a win, for models that cannot use them."""
        problems = Problems()
        _report(
            problems,
            ~np.isin(self.preference, (0.0, 0.5, 1.0)),
            self.preference,
            f"the preference is {{}}; expected 0, 0.5 or 1, because {model} knows only wins, "
            "losses and ties",
        )
        problems.raise_if_any()


def code_judgments(judgments: Iterable[Judgment], *, entrants: Sequence[str]) -> Matches:
    """Code the judged pairs of one dimension, in their order; unjudged ones are left out.

    Two entrants that met in several samples of a prompt met there once, and the share of the win is
    the mean over the samples: resampling prompts draws all samples of a prompt together.

    Args:
        entrants: Everyone who may appear, in the order of the tables.
    """
    return code_samples(judgments, entrants=entrants).averaged_over_samples()


def code_samples(judgments: Iterable[Judgment], *, entrants: Sequence[str]) -> Matches:
    """Code judged pairs as `code_judgments`, with one match for every sample of a prompt."""
    judgments = list(judgments)
    index_of = _index_entrants(judgments, entrants=entrants)
    settled = [judgment for judgment in judgments if judgment.share is not None]
    prompts = tuple(sorted({judgment.prompt_id for judgment in settled}))
    place = {prompt_id: index for index, prompt_id in enumerate(prompts)}
    sample = np.array([judgment.sample for judgment in settled], dtype=np.int64)
    return Matches(
        entrants=tuple(entrants),
        prompts=prompts,
        first=np.array([index_of[judgment.entrant_a] for judgment in settled], dtype=np.int64),
        second=np.array([index_of[judgment.entrant_b] for judgment in settled], dtype=np.int64),
        prompt_index=np.array([place[judgment.prompt_id] for judgment in settled], dtype=np.int64),
        preference=np.array([judgment.share for judgment in settled], dtype=np.float64),
        weight=np.array([judgment.weight for judgment in settled], dtype=np.float64),
        sample=sample if (sample > 1).any() else sample[:0],
    )


def _index_entrants(judgments: Iterable[Judgment], *, entrants: Sequence[str]) -> dict[str, int]:
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
    names = ", ".join(map(repr, index_of)) or "nobody"
    problems.extend(
        f"a judgment of prompt {prompt_id!r} names entrant {entrant!r}; expected one of {names}"
        for entrant, prompt_id in unknown.items()
    )
    problems.extend(
        f"a judgment of prompt {prompt_id!r} compares {entrant!r} with itself; "
        "expected two different entrants"
        for entrant, prompt_id in against_itself.items()
    )
    problems.raise_if_any()
    return index_of


def _report(
    problems: Problems, is_wrong: NDArray[np.bool_], values: NDArray[np.generic], text: str
) -> None:
    rows = np.flatnonzero(is_wrong)
    problems.extend(
        f"match {row}: {text.format(repr(values[row].item()))}" for row in rows[:_MOST_EXAMPLES]
    )
    if rows.size > _MOST_EXAMPLES:
        problems.add(f"the same is wrong with {rows.size - _MOST_EXAMPLES} more matches")


_SEEN_FROM_B = {Outcome.A_WINS: Outcome.B_WINS, Outcome.B_WINS: Outcome.A_WINS}


def pairwise_winrates(judgments: Iterable[Judgment]) -> list[WinRateRow]:
    """Count a dimension's judgments of every two entrants that met, sorted by their names."""
    outcomes: dict[tuple[str, str, str], Counter[Outcome]] = {}
    gained: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    met: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    for judgment in _weigh_samples(list(judgments)):
        pair = (judgment.dimension, judgment.entrant_a, judgment.entrant_b)
        outcome, share = judgment.outcome, judgment.share
        if judgment.entrant_b < judgment.entrant_a:
            pair = (judgment.dimension, judgment.entrant_b, judgment.entrant_a)
            outcome = _SEEN_FROM_B.get(outcome, outcome)
            share = None if share is None else 1 - share
        outcomes.setdefault(pair, Counter())[outcome] += 1
        if share is not None:
            gained[pair] += share * judgment.weight
            met[pair] += judgment.weight
    return [
        WinRateRow(
            dimension=dimension,
            entrant_a=entrant_a,
            entrant_b=entrant_b,
            wins_a=counts[Outcome.A_WINS],
            wins_b=counts[Outcome.B_WINS],
            ties=counts[Outcome.TIE],
            inconsistent=counts[Outcome.INCONSISTENT],
            same_text=counts[Outcome.SAME_TEXT],
            unjudged=counts[Outcome.UNJUDGED],
            judged=sum(n for outcome, n in counts.items() if outcome.is_judged),
            win_rate_a=gained[pair] / met[pair] if met[pair] else None,
        )
        for pair, counts in sorted(outcomes.items())
        for dimension, entrant_a, entrant_b in [pair]
    ]


def rows_of_pairs(
    entrants: Sequence[str],
    *,
    won: NDArray[np.float64],
    ties: NDArray[np.float64],
    gained: NDArray[np.float64],
    dimension: str,
) -> list[WinRateRow]:
    """Return how every two entrants that met fared, sorted by their names.

    Args:
        won: How often the row's entrant won outright, shape (n, n).
        ties: How often neither won, shape (n, n), symmetric.
        gained: The row's entrant's share of the wins, shape (n, n).
    """
    in_order = sorted(range(len(entrants)), key=entrants.__getitem__)
    met = won + won.T + ties
    return [
        WinRateRow(
            dimension=dimension,
            entrant_a=entrants[a],
            entrant_b=entrants[b],
            wins_a=int(won[a, b]),
            wins_b=int(won[b, a]),
            ties=int(ties[a, b]),
            inconsistent=0,
            same_text=0,
            unjudged=0,
            judged=int(met[a, b]),
            win_rate_a=float(gained[a, b] / met[a, b]),
        )
        for a, b in combinations(in_order, 2)
        if met[a, b]
    ]


def _weigh_samples(judgments: list[Judgment]) -> list[Judgment]:
    """Weigh the settled samples of a pair on a prompt as one match; nothing without samples."""
    if all(each.sample == 1 for each in judgments):
        return judgments
    names = [(each.prompt_id, frozenset((each.entrant_a, each.entrant_b))) for each in judgments]
    settled = Counter(
        name for name, each in zip(names, judgments, strict=True) if each.share is not None
    )
    return [
        replace(each, weight=each.weight / max(1, settled[name]))
        for name, each in zip(names, judgments, strict=True)
    ]


def require_count(name: str, value: int) -> None:
    """Refuse, with an `InputError`, a number of repetitions below 1."""
    if value < 1:
        raise InputError(f"{name} is {value!r}; expected a whole number of at least 1")


def require_k_factor(value: float) -> None:
    """Refuse, with an `InputError`, a K-factor that is not a positive number of Elo points."""
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"k_factor is {value!r}; expected a positive number of Elo points")


def require_confidence(value: float) -> None:
    """Refuse, with an `InputError`, a coverage that is not strictly between 0 and 1."""
    if not 0 < value < 1:
        raise InputError(f"confidence is {value!r}; expected a share between 0 and 1, such as 0.95")
