"""How far a judge's verdicts agree with people's labels, and where they do not.

A judge's errors bias the share of pairs that it says an entrant won. Labels on a random part show
how often people say so where the judge does and where it does not, and the judge's verdicts on all
pairs say how often each is the case: no judge, however bad, makes the share less certain than the
labels alone. Sources: Tenenbein, "A double sampling scheme for estimating from binomial data with
misclassifications", https://doi.org/10.1080/01621459.1970.10481170; an imaginary case of either
kind: Agresti and Coull, https://doi.org/10.1080/00031305.1998.10480550; raters: `raters`. Cohen's
kappa is in `agreement`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Literal

import numpy as np

from tournament_assets.audits.agreement import (
    MANY_RESAMPLES,
    TIE,
    Label,
    LabelPair,
    ShareByPrompt,
    label_of,
    measure_agreement,
    same_vote,
    share_by_prompt,
    wilson_interval,
)
from tournament_assets.extras.people.config_keys import Opinion
from tournament_assets.extras.people.raters import RaterSpread, too_few_raters
from tournament_assets.foundation.estimates import Estimate, Resampling
from tournament_assets.ratings.intervals import two_sided_quantile
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.verdicts import Outcome

Vote = Literal["a", "b", "tie", "both_bad"]
"""Which response is better; a tie between good ones; both are bad."""
JUDGE = "judge"
SHOWN_ERRORS = 10
_SHARES = {"a": 1.0, "b": 0.0, TIE: 0.5}


@dataclass(frozen=True, slots=True)
class Labelling:
    """What one person said about a pair; `a` and `b` are its first and second entrant."""

    rater: str
    vote: Vote

    @property
    def word(self) -> str:
        """The winner, `a` or `b`, or `tie`, as which both bad counts."""
        return TIE if self.vote == "both_bad" else self.vote

    @property
    def share(self) -> float:
        """The first entrant's share of the vote: 1, 0, or ½ if neither won."""
        return _SHARES[self.word]


@dataclass(frozen=True, slots=True)
class CalibratedPair:
    """A pair of one dimension, with the judge's verdict and what people said.

    Attributes:
        stratum: The prompt's source.
        outcome: What the judge's two replies amount to.
        labels: What people said; empty if nobody labelled it.
        chance: The probability that the pair was drawn to be labelled.
    """

    prompt_id: str
    stratum: str
    entrant_a: str
    entrant_b: str
    outcome: Outcome
    labels: tuple[Labelling, ...] = ()
    chance: float = 1.0

    @property
    def judged(self) -> Label | None:
        """The judge's verdict: `a`, `b` or `tie`, both if it flips, None if unjudged."""
        return label_of(self.outcome)

    @property
    def labelled(self) -> float:
        """The first entrant's mean share of the labels."""
        return math.fsum(each.share for each in self.labels) / len(self.labels)


def calibrate_judge(
    pairs: Sequence[CalibratedPair],
    *,
    dimension: str,
    entrants: Sequence[str],
    changed: int = 0,
    about: Opinion = "these_raters",
    resampling: Resampling = MANY_RESAMPLES,
) -> list[MeasureRow]:
    """Return what labels say about the judge on one dimension, as rows; none without a label.

    A label's weight is 1 / the chance with which its pair was drawn. A label on an unjudged pair is
    counted, but enters no share. Prompts are independent; if `about` is `people`, so are raters,
    in the intervals of right verdicts and of wins, and fewer than five raters have none. A kappa
    is of the two it names.

    Args:
        pairs: Every pair of the dimension, labelled or not.
        changed: How many labels are on texts that have changed; `pairs` has none of them.
        about: Whose opinion is estimated: these raters' on other prompts, or that of the people
            from whom they are a random draw.
        resampling: Of the prompts, for kappa's intervals; its confidence is used for all intervals.
    """
    heard = [pair for pair in pairs if pair.labels]
    judged = [pair for pair in heard if pair.judged is not None]
    if not heard and not changed:
        return []
    rows = _counts(heard, changed)
    if judged:
        rows += _right(judged, about, resampling.confidence)
        rows += _agreements(judged, heard, resampling)
        for entrant in entrants:
            rows += _wins(entrant, pairs, judged, about, resampling.confidence)
        rows += _errors(judged)
    return [replace(row, dimension=dimension) for row in rows]


_row = partial(MeasureRow.of, dimension="")
"""Makes a row whose dimension `calibrate_judge` adds."""


def _counts(heard: Sequence[CalibratedPair], changed: int) -> list[MeasureRow]:
    labels = [label for pair in heard for label in pair.labels]
    counts = {
        "pairs": len(heard),
        "labels": len(labels),
        "both_bad": sum(label.vote == "both_bad" for label in labels),
        "inconsistent": sum(pair.outcome is Outcome.INCONSISTENT for pair in heard),
        "unjudged": sum(pair.judged is None for pair in heard),
        "changed": changed,
    }
    raters = sorted({label.rater for label in labels})
    rows = [
        *(("count", name, count) for name, count in counts.items()),
        *(("rater", name, sum(each.rater == name for each in labels)) for name in raters),
    ]
    return [
        _row(Estimate.of_count(count), measure=measure, subject=subject, unit="count")
        for measure, subject, count in rows
    ]


def _strata(pairs: Sequence[CalibratedPair]) -> list[str | None]:
    """Return None for all sources together, then each source if there are several."""
    names = sorted({pair.stratum for pair in pairs})
    return [None, *(names if len(names) > 1 else ())]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one label says about the judge's verdict.

    Attributes:
        weight: How many labels it stands for; labels of one pair share the pair's.
        right: The part of the verdict that has the counted property, from 0 to 1.
    """

    prompt_id: str
    rater: str
    weight: float
    right: float


def _ask(pair: CalibratedPair, label: Labelling, *, right: float) -> _Asked:
    weight = 1 / (pair.chance * len(pair.labels))
    return _Asked(pair.prompt_id, label.rater, weight, right)


def _share_of(answers: Sequence[_Asked]) -> ShareByPrompt:
    weights = [answer.weight for answer in answers]
    return share_by_prompt(
        ((answer.prompt_id, answer.right) for answer in answers),
        None if len(set(weights)) < 2 else weights,
    )


def _right(judged: Sequence[CalibratedPair], about: Opinion, confidence: float) -> list[MeasureRow]:
    return [
        _row(
            _share_right(
                [
                    _ask(pair, label, right=same_vote(label.word, pair.judged or ""))
                    for pair in judged
                    if stratum in (None, pair.stratum)
                    for label in pair.labels
                ],
                about,
                confidence,
            ),
            measure="right",
            stratum=stratum,
            unit="share",
        )
        for stratum in _strata(judged)
    ]


def _share_right(answers: Sequence[_Asked], about: Opinion, confidence: float) -> Estimate:
    """Return the share of right verdicts, with Wilson's interval as in `measure_by_prompt`."""
    share, why = _share_of(answers), _why_no_interval(answers, about)
    if share.rate is None or why is not None:
        return Estimate(share.rate, n=share.n, note=why)
    rate, n, freedom = share.rate, share.n_effective, share.n_prompts - 1
    if about == "people":
        variance = rate * (1 - rate) / n
        added, freedom = _with_raters([(answers, rate, 1.0)], variance)
        n *= variance / (variance + added) if variance else 1
    t = two_sided_quantile(confidence, degrees_of_freedom=freedom)
    return Estimate(rate, *wilson_interval(rate, n, t), share.n)


def _why_no_interval(answers: Sequence[_Asked], about: Opinion) -> str | None:
    if len({answer.prompt_id for answer in answers}) < 2:
        return "labels on one prompt have no interval"
    return too_few_raters(len({answer.rater for answer in answers})) if about == "people" else None


def _with_raters(
    shares: Sequence[tuple[Sequence[_Asked], float, float]], variance: float
) -> tuple[float, int]:
    """Return what raters add to a variance by prompt, and the sum's degrees of freedom.

    Args:
        shares: Labels, the share of them that is right, and how far it moves the estimate.
        variance: Of the estimate, by prompt.
    """
    every = [answer for answers, _, _ in shares for answer in answers]
    totals = [math.fsum(answer.weight for answer in answers) for answers, _, _ in shares]
    influence = [
        slope * answer.weight * (answer.right - rate) / total
        for (answers, rate, slope), total in zip(shares, totals, strict=True)
        for answer in answers
    ]
    prompts, raters = (
        np.unique(names, return_inverse=True)[1]
        for names in ([answer.prompt_id for answer in every], [answer.rater for answer in every])
    )
    spread = RaterSpread.of(np.array(influence)[:, None], prompts=prompts, raters=raters)
    freedom = spread.degrees_of_freedom(
        np.array([[variance]]), of_prompts=max(1, int(prompts.max()))
    )
    return float(spread.added[0, 0]), freedom


def _agreements(
    judged: Sequence[CalibratedPair],
    heard: Sequence[CalibratedPair],
    resampling: Resampling,
) -> list[MeasureRow]:
    words: dict[str, dict[int, str]] = {}
    for place, pair in enumerate(heard):
        for label in pair.labels:
            words.setdefault(label.rater, {})[place] = label.word
    both = [*((rater, JUDGE) for rater in sorted(words)), *combinations(sorted(words), 2)]
    judge = {place: pair.judged for place, pair in enumerate(heard) if pair.judged is not None}
    rows = []
    for first, second in both:
        other = judge if second == JUDGE else words[second]
        for stratum in _strata(judged if second == JUDGE else heard):
            labels = [
                LabelPair(heard[place].prompt_id, word, other[place], 1 / heard[place].chance)
                for place, word in words[first].items()
                if place in other and stratum in (None, heard[place].stratum)
            ]
            if labels:
                agreement = measure_agreement(labels, resampling)
                row = partial(_row, subject=first, other=second, stratum=stratum)
                rows += [
                    row(agreement.share, measure="agreement", unit="share"),
                    row(agreement.kappa, measure="kappa", unit="kappa"),
                ]
    return rows


def _wins(
    entrant: str,
    pairs: Sequence[CalibratedPair],
    judged: Sequence[CalibratedPair],
    about: Opinion,
    confidence: float,
) -> list[MeasureRow]:
    """Return the share of its pairs that people would say an entrant won, and what corrects it."""
    of_entrant = [
        pair
        for pair in pairs
        if entrant in (pair.entrant_a, pair.entrant_b) and pair.judged is not None
    ]
    share = share_by_prompt(
        (pair.prompt_id, pair.judged == _side(pair, entrant)) for pair in of_entrant
    )
    asked_won, asked_not = (
        [
            _ask(pair, label, right=label.word == _side(pair, entrant))
            for pair in judged
            for label in pair.labels
            if entrant in (pair.entrant_a, pair.entrant_b)
            and (pair.judged == _side(pair, entrant)) == has_won
        ]
        for has_won in (True, False)
    )
    judged_won = share.rate or 0.0
    parts = [_Part(judged_won, asked_won), _Part(1 - judged_won, asked_not)]
    measures = {
        "wins": _correct(share, [each for each in parts if each.share], about, confidence),
        "wins_by_judge": Estimate(share.rate, n=share.n),
        "wins_where_judge_says_so": Estimate(parts[0].right_share.rate, n=len(asked_won)),
        "wins_where_judge_does_not": Estimate(parts[1].right_share.rate, n=len(asked_not)),
    }
    return [
        _row(estimate, measure=measure, subject=entrant, unit="share")
        for measure, estimate in measures.items()
    ]


@dataclass(frozen=True, slots=True)
class _Part:
    """The pairs about which the judge says one thing.

    Attributes:
        share: Of all pairs that are judged.
        answers: Labels on some of them, and whether they say that the entrant won.
    """

    share: float
    answers: Sequence[_Asked]

    @property
    def right_share(self) -> ShareByPrompt:
        return _share_of(self.answers)

    @property
    def middle(self) -> float:
        """The share of wins, with a case of either kind added, so that 0 and 1 have intervals."""
        n, rate = self.right_share.n_effective, self.right_share.rate or 0.0
        return (n * rate + 1) / (n + 2)

    @property
    def variance(self) -> float:
        """What few labels of this part add to the variance of the share of wins."""
        return self.share**2 * self.middle * (1 - self.middle) / (self.right_share.n_effective + 2)


def _correct(
    share: ShareByPrompt, parts: Sequence[_Part], about: Opinion, confidence: float
) -> Estimate:
    """Return a share of wins as people would count it; `share` is as the judge counts it."""
    every = [answer for part in parts for answer in part.answers]
    if not all(part.answers for part in parts):
        note = "people labelled no pair that the judge says it won, or no other"
        return Estimate(None, n=len(every), note=note)
    rates = [part.right_share.rate or 0.0 for part in parts]
    value = math.fsum(part.share * rate for part, rate in zip(parts, rates, strict=True))
    if why := _why_no_interval(every, about):
        return Estimate(value, n=len(every), note=why)
    of_judge = (rates[0] - rates[-1]) ** 2 * parts[0].share * (1 - parts[0].share)
    variance = math.fsum(part.variance for part in parts) + of_judge / share.n_effective
    freedom = len({each.prompt_id for each in every}) - 1
    if about == "people":
        moves = [(part.answers, rate, part.share) for part, rate in zip(parts, rates, strict=True)]
        added, freedom = _with_raters(moves, variance)
        variance += added
    middle = math.fsum(part.share * part.middle for part in parts)
    reach = two_sided_quantile(confidence, degrees_of_freedom=freedom) * math.sqrt(variance)
    return Estimate(value, max(middle - reach, 0.0), min(middle + reach, 1.0), len(every))


def _side(pair: CalibratedPair, entrant: str) -> str:
    return "a" if pair.entrant_a == entrant else "b"


def _errors(judged: Sequence[CalibratedPair]) -> list[MeasureRow]:
    """Return the judge's worst errors, to be read, one per prompt before any second one."""
    missed = sorted(
        (pair for pair in judged if pair.labelled != (pair.outcome.share or 0.0)),
        key=lambda pair: (
            -abs(pair.labelled - (pair.outcome.share or 0.0)),
            -len(pair.labels),
            *(pair.prompt_id, pair.entrant_a, pair.entrant_b),
        ),
    )
    worst_of_prompt = {pair.prompt_id: pair for pair in reversed(missed)}
    # Python's sort is stable, so both parts remain sorted by the size of the error.
    missed.sort(key=lambda pair: worst_of_prompt[pair.prompt_id] is not pair)
    return [
        _row(
            Estimate(value, n=len(pair.labels)),
            measure=measure,
            subject=pair.entrant_a,
            other=pair.entrant_b,
            stratum=pair.stratum,
            prompt_id=pair.prompt_id,
            unit="share",
        )
        for pair in missed[:SHOWN_ERRORS]
        for measure, value in (
            ("error", pair.labelled),
            ("error_by_judge", (pair.outcome.share or 0.0)),
        )
    ]
