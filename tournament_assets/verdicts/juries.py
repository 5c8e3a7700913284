"""Juries, several judges of the same pairs: their traits, weights and agreement.

The model is given verdicts by presentation, each with its entrants' slots. As in every other
rating, a pair counts only if all of its judge's replies are readable.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, groupby
from statistics import NormalDist

import numpy as np

from tournament_assets.audits.agreement import (
    TIE,
    LabelPair,
    Reading,
    label_of,
    measure_agreement,
    measure_effective_votes,
    measure_panel,
)
from tournament_assets.foundation.errors import RatingError
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.judging.requests.pairs import PairToJudge, draw_share
from tournament_assets.ratings.judge_aware import JudgeAwareFit, fit_judge_aware
from tournament_assets.ratings.matches import Matches
from tournament_assets.storage.tables import AnyTable, pair_key, rows_of
from tournament_assets.tournament.asset_rows import MeasureRow, VerdictRow
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.judges import Judge
from tournament_assets.tournament.verdicts import Outcome, Verdict

WeighJudges = Callable[[Sequence[VerdictRow]], Mapping[str, float]]
"""Returns each judge's weight, given the judges' verdicts of the earlier rounds."""

WEIGHT, DISCRIMINATION, SLOT = "weight", "discrimination", "slot_odds"
AGREEMENT, KAPPA, UNANIMOUS = "agreement", "kappa", "unanimous"
FLEISS, KRIPPENDORFF, SILENT = "fleiss_kappa", "krippendorff_alpha", "silent"
EFFECTIVE_VOTES = "effective_votes"

_ASKED = frozenset(Outcome) - {Outcome.SAME_TEXT}
_ORDER = ("a", TIE, "b")
_SHARES = {Verdict.A: 1.0, Verdict.TIE: 0.5, Verdict.B: 0.0}


def jury_rows(
    by_judge: Iterable[VerdictRow], *, config: TournamentConfig, mode: Mode, dimension: str
) -> list[MeasureRow]:
    """Return the rows of table "jury" for one dimension.

    Args:
        by_judge: Every judge's settled pairs.
        config: The judges, and how their verdicts are combined.
    """
    judges = [each.model for each in config.judges_of(mode)]
    fit, n_silent = _fit(by_judge, config, judges)
    weights = (
        judge_weights(fit, confidence=config.ratings.confidence)
        if config.aggregation(mode) == "judge_aware"
        else dict.fromkeys(judges, 1.0)
    )
    return list(_judge_rows(fit, weights, n_silent, dimension))


def _fit(
    by_judge: Iterable[VerdictRow], config: TournamentConfig, judges: Sequence[str]
) -> tuple[JudgeAwareFit, Counter[str]]:
    entrants = {name: place for place, name in enumerate(config.entrant_ids)}
    names, cells, n_silent = list[str](), list[tuple[float, ...]](), Counter[str]()
    for row in by_judge:
        n_silent[row.settled_by] += row.outcome == Outcome.UNJUDGED
        if row.outcome == Outcome.UNJUDGED:
            continue
        a, b = entrants[row.entrant_a], entrants[row.entrant_b]
        is_same, judge = row.outcome == Outcome.SAME_TEXT, judges.index(row.settled_by)
        for first, second, verdict in ((a, b, row.verdict_ab), (b, a, row.verdict_ba)):
            # Identical responses are a tie in both orders, and no slot was preferred.
            share, slot = (0.5, 0.0) if is_same else (_SHARES[verdict], 1.0)
            names.append(row.prompt_id)
            cells.append((first, second, judge, share, slot))
    prompts, prompt_index = np.unique(np.array(names, dtype=np.str_), return_inverse=True)
    numbers = np.array(cells, dtype=np.float64).reshape(-1, 5).T
    matches = Matches(
        entrants=tuple(entrants),
        prompts=tuple(prompts.tolist()),
        first=numbers[0].astype(np.int64),
        second=numbers[1].astype(np.int64),
        prompt_index=prompt_index.astype(np.int64),
        preference=numbers[3],
        weight=np.ones(len(names)),
        judges=tuple(judges),
        judge_index=numbers[2].astype(np.int64),
    )
    fit = fit_judge_aware(
        matches,
        numbers[4],
        confidence=config.ratings.confidence,
        initial_rating=config.ratings.initial_rating,
    )
    return fit, n_silent


def weigh_judges(config: TournamentConfig, mode: Mode) -> WeighJudges | None:
    """Return a function that weighs a mode's judges by their verdicts; None with one judge."""
    judges = [each.model for each in config.judges_of(mode)]
    if len(judges) < 2:
        return None

    def weigh(by_judge: Sequence[VerdictRow]) -> Mapping[str, float]:
        if not by_judge or config.aggregation(mode) != "judge_aware":
            return dict.fromkeys(judges, 1.0)
        try:
            fit, _ = _fit(by_judge, config, judges)
        except RatingError:
            return dict.fromkeys(judges, 1.0)
        return judge_weights(fit, confidence=config.ratings.confidence)

    return weigh


def count_shown(judges: Sequence[Judge]) -> Callable[[PairToJudge], int]:
    """Return a function that counts the presentations in which the judges are shown a pair."""
    return lambda pair: sum(2 * len(draw_share([pair], each)) for each in judges)


def weights_of(jury: AnyTable) -> dict[str, float]:
    """Return each judge's weight, from the table "jury"."""
    return {
        row.subject: row.value
        for row in rows_of(MeasureRow, jury)
        if row.measure == WEIGHT and row.subject is not None and row.value is not None
    }


_PRIOR_PAIRS = 40
"""So many pairs must a judge have settled for its own record to count half.

From four pairs, three judges weigh between 0.91 and 1.18, whatever they said about them.
"""


def judge_weights(fit: JudgeAwareFit, *, confidence: float) -> dict[str, float]:
    """Return each judge's weight: its discrimination, shrunk towards 1, the mean of the judges'.

    A discrimination is estimated with error, so the largest of several is partly large by chance.
    Its distance from 1 is multiplied by the share of the variance between judges that is not error
    (empirical Bayes, as in Morris, https://doi.org/10.1080/01621459.1983.10477920), and by n / (n +
    40) for the n pairs it settled, because few pairs do not show their error either. Of the
    variance between a handful of judges the lower confidence limit is taken, so that judges who
    may be alike weigh alike. A judge of whom nothing is known weighs 1.

    Args:
        fit: The fit.
        confidence: Coverage of its intervals, and of that limit.
    """
    # Imported here, so that loading the definitions does not pay for it.
    from scipy.special import chdtri

    fits = {
        judge.judge: (fitted.value, fitted.low, fitted.high, judge.n_verdicts / 2)
        for judge in fit.judges
        if (fitted := judge.discrimination) is not None and fitted.low is not None
    }
    weights = dict.fromkeys((judge.judge for judge in fit.judges), 1.0)
    if len(fits) < 2:
        return weights
    value, low, high, n_pairs = np.array([*fits.values()], dtype=np.float64).T
    variances = ((high - low) / 2 / NormalDist().inv_cdf(0.5 + confidence / 2)) ** 2
    least = value.size * value.var() / chdtri(value.size - 1, 1 - confidence)
    between = max(0.0, float(least - variances.mean()))
    reliability = between / (between + variances) * n_pairs / (n_pairs + _PRIOR_PAIRS)
    shrunk = 1 + reliability * (value.clip(0, len(fit.judges)) - 1)
    return weights | dict(zip(fits, shrunk.tolist(), strict=True))


def _judge_rows(
    fit: JudgeAwareFit,
    weights: Mapping[str, float],
    n_silent: Mapping[str, int],
    dimension: str,
) -> Iterator[MeasureRow]:
    for judge in fit.judges:
        write = partial(MeasureRow.of, dimension=dimension, subject=judge.judge)
        weight = Estimate(weights[judge.judge], n=judge.n_verdicts)
        yield write(weight, measure=WEIGHT, unit="ratio")
        yield write(Estimate.of_count(n_silent[judge.judge]), measure=SILENT, unit="count")
        for measure, unit, fitted, spell in (
            (DISCRIMINATION, "ratio", judge.discrimination, float),
            (SLOT, "odds", judge.slot_logits, math.exp),
        ):
            ends = (None, None, None) if fitted is None else (fitted.value, fitted.low, fitted.high)
            value, low, high = (None if end is None else spell(end) for end in ends)
            estimate = Estimate(value, low, high, judge.n_verdicts, judge.note)
            yield write(estimate, measure=measure, unit=unit)


def agreement_rows(
    by_judge: Iterable[VerdictRow], *, config: TournamentConfig, mode: Mode, dimension: str
) -> Iterator[MeasureRow]:
    """Yield the agreement of every two judges, and of all of them together; nothing in turn.

    Args:
        by_judge: Every judge's settled pairs; those about one pair follow one another.
        config: Who judges.
    """
    judges, resampling = [each.model for each in config.judges_of(mode)], config.ratings.resampling
    if not config.settles_together(mode):
        return
    pairs = [
        (pair, {row.settled_by: row.outcome for row in rows if row.outcome in _ASKED})
        for pair, rows in groupby(by_judge, key=pair_key)
    ]
    readings = [
        Reading(pair[0], {judge: label_of(outcome) for judge, outcome in outcomes.items()})
        for pair, outcomes in pairs
    ]
    write = partial(MeasureRow.of, dimension=dimension)
    for first, second in combinations(judges, 2):
        shared = [each for each in readings if {first, second} <= each.labels.keys()]
        labels = (
            LabelPair(each.prompt_id, each.labels[first], each.labels[second]) for each in shared
        )
        agreement = measure_agreement(labels, resampling)
        of_two = partial(write, subject=first, other=second)
        yield of_two(agreement.share, measure=AGREEMENT, unit="share")
        yield of_two(agreement.kappa, measure=KAPPA, unit="kappa")
        yield of_two(Estimate.of_count(agreement.n_left_out), measure=SILENT, unit="count")
    panel = measure_panel(readings, order=_ORDER, resampling=resampling)
    yield write(panel.unanimous, measure=UNANIMOUS, unit="share")
    yield write(panel.fleiss_kappa, measure=FLEISS, unit="kappa")
    yield write(panel.krippendorff_alpha, measure=KRIPPENDORFF, unit="kappa")
    yield write(Estimate.of_count(panel.n_silent), measure=SILENT, unit="count")
    shares = (
        (
            pair[0],
            pair[2:],
            [share for each in outcomes.values() if (share := each.share) is not None],
        )
        for pair, outcomes in pairs
    )
    votes = measure_effective_votes(
        (row for row in shares if len(row[2]) == len(judges)), resampling
    )
    yield write(votes, measure=EFFECTIVE_VOTES, unit="ratio")
