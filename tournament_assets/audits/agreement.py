"""Agreement between two or more readings of the same things, such as a judge's and people's.

Raw agreement is misleading: two judges who call nearly everything a tie nearly always agree.
Cohen's kappa is 0 for the agreement of random labels in the same proportions, and 1 for perfect
agreement. Sources: Cohen, https://doi.org/10.1177/001316446002000104 (kappa); Wilson,
https://doi.org/10.1080/01621459.1927.10502953 (interval of a share); Franco and others,
https://pmc.ncbi.nlm.nih.gov/articles/PMC6690503 (the same for shares of clusters); Lewis and Brown,
https://doi.org/10.1080/01431160152558332 (tables of parts of votes); Fleiss,
https://doi.org/10.1037/h0031619 (kappa of several); Krippendorff, "Computing Krippendorff's
alpha-reliability", https://repository.upenn.edu/asc_papers/43 (alpha of ordered labels); Kish,
Survey Sampling (1965), section 8.2 (the effective number of units that are alike).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Estimate, Resampling
from tournament_assets.ratings.intervals import (
    draw_prompts,
    percentile_interval,
    two_sided_quantile,
)
from tournament_assets.ratings.matches import require_confidence, require_count
from tournament_assets.tournament.verdicts import Outcome

Key = TypeVar("Key")
Label = str | tuple[str, ...]
"""What a reading says about a thing: one word, or several that share its vote equally."""
TIE = "tie"
_SAID: dict[Outcome, Label] = {
    Outcome.A_WINS: "a",
    Outcome.B_WINS: "b",
    Outcome.TIE: TIE,
    Outcome.INCONSISTENT: ("a", "b"),
}
MANY_RESAMPLES = Resampling(n=2000)
"""Enough for two digits of an interval's ends."""


def label_of(outcome: Outcome) -> Label | None:
    """Return who won, `a`, `b` or `tie`; both of them if the verdicts contradict each other.

    None if the pair is not judged.
    """
    return _SAID.get(outcome)


def same_vote(first: Label, second: Label) -> float:
    """Return the chance that a vote drawn from each of two labels is the same."""
    one, other = _words(first), _words(second)
    return len({*one} & {*other}) / (len(one) * len(other))


def _words(label: Label) -> tuple[str, ...]:
    return (label,) if isinstance(label, str) else label


def measure_proportion(count: int, n: int, *, confidence: float = 0.95) -> Estimate:
    """Return a share with its Wilson interval, which lies within 0 to 1 and is never empty.

    The units are taken as independent; where several belong to one prompt, the interval is too
    narrow.

    Args:
        count: How many have the property.
        n: How many were looked at.
        confidence: Coverage of the interval.

    Raises:
        InputError: If `count` is not between 0 and `n`, or `confidence` not between 0 and 1.
    """
    require_confidence(confidence)
    if not 0 <= count <= n:
        raise InputError(f"count is {count!r} of {n!r}; expected a number between 0 and {n!r}")
    if n == 0:
        return Estimate()
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = count / n
    return Estimate(rate, *wilson_interval(rate, n, z), n)


def measure_by_prompt(
    units: Iterable[tuple[str, float]],
    *,
    confidence: float = 0.95,
    weights: Sequence[float] | None = None,
) -> Estimate:
    """Return a share with an interval that takes prompts, not the units on them, as independent.

    This is Wilson's interval with the effective number of units, which gives the share the standard
    error observed between prompts, but is at most the actual number; Student's t over the prompts
    replaces the normal quantile. Where all units agree there is no spread between prompts, and each
    prompt counts as one unit. A single prompt gives no interval.

    Args:
        units: The prompt of every unit, and whether the unit has the property, or the part of it
            that has, from 0 to 1.
        confidence: Coverage of the interval.
        weights: Weight of every unit, such as 1 over the probability with which it was drawn; equal
            by default.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    require_confidence(confidence)
    share = share_by_prompt(units, weights)
    n, n_prompts, rate = share.n, share.n_prompts, share.rate
    if rate is None or n_prompts < 2:
        return Estimate(rate, n=n)
    t = two_sided_quantile(confidence, degrees_of_freedom=n_prompts - 1)
    return Estimate(rate, *wilson_interval(rate, share.n_effective, t), n)


@dataclass(frozen=True, slots=True)
class ShareByPrompt:
    """A share, and the effective number of independent units behind it.

    Attributes:
        count: Units that have the property, or parts of units.
        n: Units that were looked at.
        n_prompts: Prompts that they belong to.
        rate: The share, by weight; None if nothing was looked at.
        n_effective: Number of independent, equally weighted units that would give the same standard
            error.
    """

    count: float
    n: int
    n_prompts: int
    rate: float | None
    n_effective: float


def share_by_prompt(
    units: Iterable[tuple[str, float]], weights: Sequence[float] | None = None
) -> ShareByPrompt:
    """Return a share and its effective number of units, as `measure_by_prompt` takes them."""
    tallies: dict[str, list[float]] = {}
    n, count = 0, 0.0
    for prompt_id, has_property in units:
        weight = 1.0 if weights is None else weights[n]
        tally = tallies.setdefault(prompt_id, [0.0, 0.0])
        tally[0] += weight * has_property
        tally[1] += weight
        n, count = n + 1, count + has_property
    counts, sizes = np.array([*tallies.values()], dtype=np.float64).reshape(-1, 2).T
    n_prompts = int(sizes.size)
    if n == 0:
        return ShareByPrompt(0, 0, 0, None, 0.0)
    total = float(sizes.sum())
    rate = count / n if weights is None else float(counts.sum()) / total
    if n_prompts < 2 or count in (0, n):
        return ShareByPrompt(count, n, n_prompts, rate, float(n_prompts))
    residuals = counts - rate * sizes
    variance = n_prompts / (n_prompts - 1) * math.fsum(residuals**2) / total**2  # in any order
    effective = min(float(n), rate * (1 - rate) / variance) if variance > 0 else float(n)
    return ShareByPrompt(count, n, n_prompts, rate, effective)


def wilson_interval(rate: float, n: float, z: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of `n` units, `z` standard errors to each side."""
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half_width = z / (1 + z**2 / n) * (rate * (1 - rate) / n + z**2 / (4 * n**2)) ** 0.5
    # At the ends the formula gives 0 and 1 up to rounding.
    return 0.0 if rate == 0 else centre - half_width, 1.0 if rate == 1 else centre + half_width


@dataclass(frozen=True, slots=True)
class LabelPair:
    """Two labels of one thing.

    Attributes:
        prompt_id: The prompt it belongs to; labels on one prompt are resampled together.
        first: What the first reading says; None where it says nothing.
        second: What the second reading says; None where it says nothing.
        weight: Its weight, such as 1 over the probability with which the thing was drawn.
    """

    prompt_id: str
    first: Label | None
    second: Label | None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two readings of the same things agree.

    Attributes:
        share: Share of the things with the same label in both readings; half of a thing where one
            of them says two things, and the other one of these.
        kappa: Cohen's kappa; its note says why it or its interval is missing.
        n_left_out: Things that one of them does not label; they are excluded from all numbers.
    """

    share: Estimate
    kappa: Estimate
    n_left_out: int

    @property
    def n(self) -> int:
        """Number of things that both readings label."""
        return self.share.n


def measure_agreement(
    labels: Iterable[LabelPair], resampling: Resampling = MANY_RESAMPLES
) -> Agreement:
    """Measure how far two readings of the same things agree.

    Args:
        labels: Both readings' labels, in any order.
        resampling: Of the prompts, for kappa's interval; its confidence holds for both intervals.

    Raises:
        InputError: If the resampling has no resample, or its confidence is not between 0 and 1.
    """
    require_count("n_bootstraps", resampling.n)
    pairs = list(labels)
    complete = [pair for pair in pairs if pair.first is not None and pair.second is not None]
    both = [(pair.prompt_id, pair.first or "", pair.second or "") for pair in complete]
    weights = [pair.weight for pair in complete]
    is_even = len(set(weights)) < 2
    tables = _tabulate(both, None if is_even else weights)
    pooled = tables.sum(axis=0)
    agreed = measure_by_prompt(
        ((prompt_id, same_vote(first, second)) for prompt_id, first, second in both),
        confidence=resampling.confidence,
        weights=None if is_even else weights,
    )
    kappa = _measure(tables, _kappas, resampling, n=len(both))
    has_interval = None not in (kappa.low, kappa.high)
    note = _explain(pooled, n_prompts=len(tables), has_interval=has_interval)
    return Agreement(agreed, replace(kappa, note=note), n_left_out=len(pairs) - len(both))


def _measure(
    tables: NDArray[Any],
    statistic: Callable[[NDArray[Any]], NDArray[np.float64]],
    resampling: Resampling,
    *,
    n: int,
) -> Estimate:
    """Return a statistic of tables that add up over prompts, with the interval that it has."""
    value = float(statistic(tables.sum(axis=0)[None])[0]) if len(tables) else float("nan")
    if not np.isfinite(value):
        return Estimate(None, n=n)
    low, high = _resample(tables, statistic, resampling) if len(tables) > 1 else (None, None)
    return Estimate(value, low, high, n)


def _tabulate(
    rows: Sequence[tuple[str, Label, Label]], weights: Sequence[float] | None
) -> NDArray[np.float64]:
    """Count first against second labels, shape (n_prompts, n_labels, n_labels)."""
    prompts = {name: code for code, name in enumerate(sorted({row[0] for row in rows}))}
    names = {word for row in rows for label in row[1:] for word in _words(label)}
    codes = {name: code for code, name in enumerate(sorted(names))}
    tables = np.zeros((len(prompts), len(codes), len(codes)))
    for index, (prompt_id, *labels) in enumerate(rows):
        first, second = ([codes[word] for word in _words(label)] for label in labels)
        weight = 1 if weights is None else weights[index]
        cells = np.ix_(first, second)
        tables[prompts[prompt_id]][cells] += weight / (len(first) * len(second))
    return tables


def _kappas(tables: NDArray[Any]) -> NDArray[np.float64]:
    """Return the kappa of every table, shape (n_tables,); NaN where chance agreement is 1."""
    n = tables.sum(axis=(1, 2))
    agreed = np.trace(tables, axis1=1, axis2=2)
    # Whole numbers and halves, so that chance agreement is exactly n * n where it is certain.
    by_chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray((n * agreed - by_chance) / (n * n - by_chance), dtype=np.float64)


def _resample(
    tables: NDArray[Any],
    statistic: Callable[[NDArray[Any]], NDArray[np.float64]],
    resampling: Resampling,
) -> tuple[float | None, float | None]:
    """Return the interval of a statistic of tables that add up over prompts."""
    generator = np.random.default_rng(resampling.seed)
    drawn = np.stack(
        [draw_prompts(generator, n_prompts=len(tables)) for _ in range(resampling.n)]
    )  # (resampling.n, n_prompts)
    values = statistic(np.tensordot(drawn, tables, axes=1))
    if np.unique(values[np.isfinite(values)]).size < 2:
        return None, None
    interval = percentile_interval(values[:, None], confidence=resampling.confidence)
    low, high = float(interval.low[0]), float(interval.high[0])
    return (low if np.isfinite(low) else None), (high if np.isfinite(high) else None)


def _explain(pooled: NDArray[Any], *, n_prompts: int, has_interval: bool) -> str | None:
    labels_first = np.count_nonzero(pooled.sum(axis=1))
    labels_second = np.count_nonzero(pooled.sum(axis=0))
    if n_prompts == 0:
        return "nothing has two labels"
    if np.count_nonzero(pooled) == 1 and np.trace(pooled) > 0:
        return "only one label occurs, so agreement by chance is certain and kappa is undefined"
    if 1 in (labels_first, labels_second):
        return "one of the readings uses only one label, so kappa is 0 whatever the other says"
    if n_prompts == 1:
        return "all labels are on one prompt, so kappa has no interval"
    if has_interval:
        return None
    if np.count_nonzero(np.diag(pooled)) == np.count_nonzero(pooled):
        return "all labels agree, so kappa has no interval: use the interval of the agreement"
    return "too few resamples of the prompts determine kappa, so it has no interval"


@dataclass(frozen=True, slots=True)
class Reading:
    """The labels that several readers give one thing.

    Attributes:
        prompt_id: The prompt it belongs to; readings on one prompt are resampled together.
        labels: Each reader's label; None if it was asked and gave none. Readers that were not asked
            are absent.
    """

    prompt_id: str
    labels: Mapping[str, Label | None]


@dataclass(frozen=True, slots=True)
class PanelAgreement:
    """How far several readers agree.

    Attributes:
        n: Things that at least two readers were asked about.
        n_silent: Those of them that some reader did not label.
        unanimous: Share of the n on which every reader that was asked gave the same label. A
            missing label is not agreement: two of three readers are not unanimous; nor is a label
            of two words.
        fleiss_kappa: Over the things with two labels or more, each weighed by its labels less one.
        krippendorff_alpha: The same, weighing disagreement by the labels' distance in their order.
    """

    n: int
    n_silent: int
    unanimous: Estimate
    fleiss_kappa: Estimate
    krippendorff_alpha: Estimate


def measure_panel(
    readings: Iterable[Reading],
    *,
    order: Sequence[str],
    resampling: Resampling = MANY_RESAMPLES,
) -> PanelAgreement:
    """Measure how far several readers agree, even if not all of them read everything.

    Args:
        readings: What they say, in any order.
        order: The labels from one end to the other, such as first, tie, second.
        resampling: Of the prompts, behind the intervals.

    Raises:
        InputError: If a label is not in the order, or the resampling is impossible.
    """
    require_count("n_bootstraps", resampling.n)
    compared = [row for row in readings if len(row.labels) > 1]
    labels = (label for row in compared for label in row.labels.values() if label is not None)
    words = (word for label in labels for word in _words(label))
    unknown = next((word for word in words if word not in order), None)
    if unknown is not None:
        raise InputError(f"the label {unknown!r} is not in the order {list(order)!r}")
    tables = _coincidences(compared, order)
    return PanelAgreement(
        n=len(compared),
        n_silent=sum(None in row.labels.values() for row in compared),
        unanimous=measure_by_prompt(
            (
                (row.prompt_id, len(answers := {*row.labels.values()}) == 1 and answers <= {*order})
                for row in compared
            ),
            confidence=resampling.confidence,
        ),
        fleiss_kappa=_measure(tables, _fleiss_kappas, resampling, n=len(compared)),
        krippendorff_alpha=_measure(tables, _ordinal_alphas, resampling, n=len(compared)),
    )


def measure_effective_votes(
    votes: Iterable[tuple[str, Key, Sequence[float]]], resampling: Resampling = MANY_RESAMPLES
) -> Estimate:
    """Measure how many independent votes the mean of several is worth, about things of one kind.

    The variance of one vote over that of the mean: J / (1 + (J - 1) r) if J votes correlate by r.

    Args:
        votes: The prompt of a thing, its kind, and all votes on it.
        resampling: Of the prompts, for the interval.
    """
    of_kind = defaultdict(list)
    for prompt_id, kind, shares in votes:
        of_kind[kind].append((prompt_id, shares))
    tables: defaultdict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(2))
    for members in of_kind.values():
        cells = np.array([each for _, each in members], dtype=np.float64)  # (n_things, n_votes)
        for (prompt_id, _), row in zip(members, cells - cells.mean(axis=0), strict=True):
            tables[prompt_id] += (row.size * (row**2).sum(), row.sum() ** 2)

    def ratio(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sums[:, 0] / sums[:, 1], dtype=np.float64)

    n = sum(map(len, of_kind.values()))
    return _measure(np.array([*tables.values()]), ratio, resampling, n=n)


def _coincidences(readings: Sequence[Reading], order: Sequence[str]) -> NDArray[np.float64]:
    """Count label against label of the same thing, shape (n_prompts, n_labels, n_labels).

    A thing with m labels has m (m - 1) ordered pairs of them, each of which counts 1 / (m - 1), so
    that every label counts once, and its words in equal parts.
    """
    prompts = {name: code for code, name in enumerate(sorted({r.prompt_id for r in readings}))}
    tables = np.zeros((len(prompts), len(order), len(order)))
    for reading in readings:
        labels = [label for label in reading.labels.values() if label is not None]
        if len(labels) > 1:
            parts = np.array([[same_vote(label, word) for word in order] for label in labels])
            counts = parts.sum(axis=0)
            pairs = np.outer(counts, counts) - parts.T @ parts
            tables[prompts[reading.prompt_id]] += pairs / (len(labels) - 1)
    return tables


def _fleiss_kappas(tables: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the kappa of every table of coincidences; NaN where chance agreement is 1."""
    n = tables.sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        agreed = np.trace(tables, axis1=1, axis2=2) / n
        by_chance = ((tables.sum(axis=2) / n[:, None]) ** 2).sum(axis=1)
        kappas = (agreed - by_chance) / (1 - by_chance)
    # Nearer to 1 is rounding: all labels are the same.
    return np.where(by_chance < 1 - 1e-12, kappas, np.nan)


def _ordinal_alphas(tables: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the alpha of every table of coincidences; NaN where all labels are the same."""
    totals = tables.sum(axis=2)  # (n_tables, n_labels)
    n = totals.sum(axis=1)
    # The squared distance of two labels: as many labels as lie between them, half of their own.
    middle = np.cumsum(totals, axis=1) - totals / 2
    distance = (middle[:, :, None] - middle[:, None, :]) ** 2
    observed = (tables * distance).sum(axis=(1, 2))
    by_chance = (totals[:, :, None] * totals[:, None, :] * distance).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1 - (n - 1) * observed / by_chance, dtype=np.float64)


def nothing_judged(n_asked: int, what: str) -> Estimate:
    """Return a missing number because nothing was judged, and what to do about it."""
    if n_asked == 0:
        return Estimate(note=f"no {what} was asked, so this is unknown", remedy="ask some")
    return Estimate(
        note=f"not one {what} of {n_asked} is judged, so this is unknown",
        remedy="see what the replies say, and run again",
    )
