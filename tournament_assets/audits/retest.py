"""What pairs judged twice tell about the judge: how far it repeats itself."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tournament_assets.audits.agreement import (
    Agreement,
    LabelPair,
    Proportion,
    measure_agreement,
    measure_proportion,
)
from tournament_assets.audits.wording import nothing_judged, share_in_words
from tournament_assets.tournament.verdicts import Outcome, Verdict


@dataclass(frozen=True, slots=True)
class JudgedTwice:
    """A pair and what became of it each time it was judged.

    Attributes:
        prompt_id: The prompt both entrants answered.
        first: How it was settled for the tournament.
        second: How it was settled when it was judged again.
        first_verdicts: What the first replies to its two presentations say.
        second_verdicts: What the second replies say, in the same order.
    """

    prompt_id: str
    first: Outcome
    second: Outcome
    first_verdicts: tuple[Verdict, Verdict]
    second_verdicts: tuple[Verdict, Verdict]


@dataclass(frozen=True, slots=True)
class RetestResult:
    """How well a judge agrees with itself.

    Attributes:
        asked: Pairs judged a second time, with or without success.
        presentations: Agreement of single replies on A, B or a tie.
        pairs: Agreement on how the pairs are settled; inconsistent is an outcome like others.
        flips: Pairs judged both times, by first and second outcome, which can be the same.
        reversed: Pairs whose winner became the loser, of those somebody won the first time.
        meaning: What the numbers say, and what to do if they are bad.
    """

    asked: int
    presentations: Agreement
    pairs: Agreement
    flips: Mapping[tuple[Outcome, Outcome], int]
    reversed: Proportion
    meaning: str


def measure_retest(
    pairs: Sequence[JudgedTwice],
    *,
    n_bootstraps: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> RetestResult:
    """Measure how far the judge says the same when it is asked the same again.

    Args:
        pairs: Every pair that was to be judged a second time.
        n_bootstraps: Resamples of the prompts behind the intervals of kappa.
        seed: Seeds the resampling.
        confidence: Coverage of all intervals.

    Raises:
        InputError: If `n_bootstraps` is less than 1 or `confidence` not between 0 and 1.
    """
    replies = [
        LabelPair(
            pair.prompt_id,
            first.value if first.is_decided else None,
            second.value if second.is_decided else None,
        )
        for pair in pairs
        for first, second in zip(pair.first_verdicts, pair.second_verdicts, strict=True)
    ]
    outcomes = [
        LabelPair(
            pair.prompt_id,
            None if pair.first is Outcome.UNJUDGED else pair.first.value,
            None if pair.second is Outcome.UNJUDGED else pair.second.value,
        )
        for pair in pairs
    ]
    flips = Counter(
        (pair.first, pair.second)
        for pair in pairs
        if Outcome.UNJUDGED not in (pair.first, pair.second)
    )
    reversed_pairs = measure_proportion(
        flips[Outcome.A_WINS, Outcome.B_WINS] + flips[Outcome.B_WINS, Outcome.A_WINS],
        sum(count for (first, _), count in flips.items() if first.is_decisive),
        confidence=confidence,
    )
    by_reply, by_pair = (
        measure_agreement(labels, n_bootstraps=n_bootstraps, seed=seed, confidence=confidence)
        for labels in (replies, outcomes)
    )
    return RetestResult(
        asked=len(pairs),
        presentations=by_reply,
        pairs=by_pair,
        flips=dict(flips),
        reversed=reversed_pairs,
        meaning=_explain_retest(by_pair, reversed_pairs, asked=len(pairs), confidence=confidence),
    )


def _explain_retest(
    pairs: Agreement, reversed_pairs: Proportion, *, asked: int, confidence: float
) -> str:
    if pairs.n == 0:
        return nothing_judged(asked, "pair to judge again")
    kappa = "none" if pairs.kappa is None else f"{pairs.kappa:.2f}"
    if pairs.kappa_low is not None and pairs.kappa_high is not None:
        kappa += f", {100 * confidence:g}% interval {pairs.kappa_low:.2f} to {pairs.kappa_high:.2f}"
    reversals = share_in_words(reversed_pairs, "wins", confidence)
    return (
        f"Asked again, the judge settled {pairs.agreement:.1%} of {pairs.n} pairs as before "
        f"(kappa {kappa}) and reversed {reversals}; what it does not repeat is its own noise: "
        "if that is much, judge more prompts, and do not read anything into a single pair."
    )
