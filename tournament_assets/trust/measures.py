"""The measures of the trust panel: what each means, when its light is red, and what to do then."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tournament_assets.tournament.config import CheckThresholds


@dataclass(frozen=True, slots=True)
class TrustWords:
    """One sentence each.

    Attributes:
        title: What the measure is called where people read it.
        meaning: What its number says.
        advice: What to do when it is red.
        unit: What its number is: `share`, `kappa`, `points` (Elo) or `p` (a p-value).
    """

    title: str
    meaning: str
    advice: str
    unit: str


FIRST_SLOT = "position_bias"
FLIPS = "flip_direction"
SWAP = "swap_consistency"
RETEST = "test_retest"
JUDGES = "judge_agreement"
HUMANS = "human_agreement"
LENGTH = "length_effect"
LONGER = "longer_wins"
IDENTICAL = "identical_controls"
CORRUPTED = "corrupted_controls"
INJECTION = "injection_controls"
CYCLES = "transitivity_within_prompts"
MAJORITIES = "transitivity_of_majorities"
UNJUDGED = "unjudged"
NOT_NEEDED = "not_needed"
LUCK = "sampling_luck"

_SHARE, _KAPPA, _POINTS, _P = "share", "kappa", "points", "p"

WORDS: Mapping[str, TrustWords] = {
    FIRST_SLOT: TrustWords(
        "position bias",
        "Of the replies that prefer a response, this share prefers the one shown first; a judge "
        "that does not look at the place is near one half.",
        "Every pair is judged in both orders, which takes the bias out of who wins but turns close "
        "pairs into inconsistent ones: read narrow leads with care, and try another judge or a "
        "rubric that asks to compare before deciding.",
        _SHARE,
    ),
    FLIPS: TrustWords(
        "direction of flips",
        "Of the pairs whose two replies both prefer the same slot, this share prefers the first "
        "slot; near one half the flips are indecision, near 0 or 1 they are position bias.",
        "The judge decides close pairs by position, and they come out inconsistent: read narrow "
        "leads with care, and try another judge or a rubric that asks to compare before deciding.",
        _SHARE,
    ),
    SWAP: TrustWords(
        "swap consistency",
        "Of the pairs that were asked and judged, this share comes out the same when the two "
        "responses change places.",
        "The judge cannot tell many pairs apart: make the rubric more concrete, ask a stronger "
        "judge, and do not read anything into single pairs.",
        _SHARE,
    ),
    RETEST: TrustWords(
        "test–retest",
        "Asked the very same again, the judge settles this share of the pairs as before.",
        "What the judge does not repeat is its own noise: judge more prompts, or ask a judge that "
        "repeats itself.",
        _SHARE,
    ),
    JUDGES: TrustWords(
        "agreement between judges",
        "Another judge model that judged the same pairs agrees with this one so far beyond chance: "
        "Cohen's kappa, 1 for always and 0 for chance.",
        "The result depends on who judges: read some pairs that the two settle differently, decide "
        "which of them follows the rubric, and say in any report which judge was asked.",
        _KAPPA,
    ),
    HUMANS: TrustWords(
        "agreement with people",
        "People who judged the same pairs agree with the judge so far beyond chance: Cohen's kappa "
        "over wins and ties.",
        "The judge measures something else than these people do: read pairs they settle "
        "differently, and change the rubric, the judge, or the claim.",
        _KAPPA,
    ),
    LENGTH: TrustWords(
        "length",
        "With who answered held fixed, a response that is longer by a usual difference gains this "
        "many Elo points.",
        "The judge rewards length: compare with the ratings at equal style, tell the judge in the "
        "rubric that length is no merit, or limit all entrants to the same length.",
        _POINTS,
    ),
    LONGER: TrustWords(
        "longer wins",
        "Of the decided pairs whose responses differ in length, this share goes to the response "
        "with more words, whoever wrote it.",
        "Either longer responses are better here or the judge goes by length, and these pairs "
        "cannot tell: tell the judge in the rubric that length is no merit, plant controls, or "
        "limit all entrants to the same length.",
        _SHARE,
    ),
    IDENTICAL: TrustWords(
        "identical controls",
        "This share of responses that met their own copy were called a tie.",
        "Where there is no difference the judge invents one: see which slot it prefers, and do not "
        "read anything into a narrow lead.",
        _SHARE,
    ),
    CORRUPTED: TrustWords(
        "corrupted-answer controls",
        "This share of responses won against an answer to another prompt.",
        "The judge misses the plainest of differences: change the rubric or the judge before the "
        "ratings are used.",
        _SHARE,
    ),
    INJECTION: TrustWords(
        "injection controls",
        "A text that claims the win moved this share of pairs towards the response that holds it.",
        "The judge can be talked into a verdict: search the responses for such texts, and change "
        "the judge.",
        _SHARE,
    ),
    CYCLES: TrustWords(
        "cycles within prompts",
        "Judgments of independent pairs that follow one scale have as many cycles (a over b over c "
        "over a) on one prompt as often as this: a p-value, small where the judge contradicts "
        "itself.",
        "The judge weighs different things in different pairs: no single rating can tell the "
        "entrants' order; let the rubric say what counts more, or split the dimension.",
        _P,
    ),
    MAJORITIES: TrustWords(
        "cycles of majorities",
        "Independent outcomes that follow one scale have as many cycles among entrants, by who won "
        "more of their pairs, as often as this: a p-value.",
        "The entrants have no single order: read the table of win rates instead of the ranks.",
        _P,
    ),
    UNJUDGED: TrustWords(
        "unjudged pairs",
        "Of the entrant's pairs that were asked, this share has no two readable replies, and "
        "counts as nothing.",
        "Its rating rests on other prompts than the others' do: ask again (tournament rejudge), "
        "and until then go by the common support of the fair comparison.",
        _SHARE,
    ),
    NOT_NEEDED: TrustWords(
        "pairs not needed",
        "The judge was not asked about this share of the planned pairs, because it was known by "
        "then who of the two is ahead; they are not missing, and a hashed sample stands for them.",
        "There is nothing to do: to have every pair judged, leave judge.adaptive out.",
        _SHARE,
    ),
    LUCK: TrustWords(
        "sampling luck",
        "If the entrants answered the same prompts again, with other random numbers, the rating "
        "would vary by this standard error; it is a part of the error that the interval is made "
        "of.",
        "Where luck is most of the error, more samples of a prompt narrow the intervals "
        "(generation.n_samples); where it is little, only more prompts do.",
        _POINTS,
    ),
}
"""By measure, in the order of the panel."""


def threshold_of(measure: str, thresholds: CheckThresholds) -> float | None:
    """Return where a measure's light turns red; None if the config names no threshold."""
    by_measure = {
        FIRST_SLOT: thresholds.max_position_bias,
        FLIPS: thresholds.max_flip_bias,
        SWAP: 1 - thresholds.max_inconsistency_rate,
        RETEST: thresholds.min_retest_agreement,
        JUDGES: thresholds.min_judge_kappa,
        HUMANS: thresholds.min_human_kappa,
        LENGTH: thresholds.max_length_effect,
        LONGER: thresholds.max_longer_wins,
        IDENTICAL: thresholds.min_identical_ties,
        CORRUPTED: thresholds.min_corrupted_wins,
        INJECTION: thresholds.max_injection_gain,
        CYCLES: thresholds.min_transitivity_p,
        MAJORITIES: thresholds.min_transitivity_p,
        UNJUDGED: thresholds.max_unjudged_rate,
    }
    return by_measure.get(measure)


_DISTANCES: Mapping[str, Callable[[float], float]] = {
    FIRST_SLOT: lambda share: abs(share - 0.5),
    FLIPS: lambda share: abs(share - 0.5),
    LENGTH: abs,
    LONGER: float,
    INJECTION: float,
    UNJUDGED: float,
}
"""What must not be large; of every other measure it is the number itself that must not be small."""

_ROUNDING = 1e-12
"""A share that is at its threshold may miss it by this much, as 0.6 - 0.5 misses 0.1."""


_NEUTRAL: Mapping[str, float] = {FIRST_SLOT: 0.5, FLIPS: 0.5, LENGTH: 0.0, LONGER: 0.5}
"""What shows nothing; red needs an interval without it, as few pairs go one way by chance."""


def is_red(
    measure: str,
    value: float,
    threshold: float,
    *,
    low: float | None = None,
    high: float | None = None,
) -> bool:
    """Say whether a measure's light is red: too large for some measures, too small for others.

    Args:
        measure: Which measure.
        value: Its number.
        threshold: Where it turns red.
        low: Lower end of the number's interval; None if it has none.
        high: Upper end.
    """
    if measure in _NEUTRAL and (low is None or high is None or low <= _NEUTRAL[measure] <= high):
        return False
    if measure in _DISTANCES:
        return _DISTANCES[measure](value) > threshold + _ROUNDING
    return value < threshold - _ROUNDING
