"""The check of the judge against people's votes."""

from tournament_assets.trust.lights import Measure

HUMAN_AGREEMENT = Measure(
    "human_agreement",
    "agreement with people",
    "People who judged the same pairs agree with the judge so far beyond chance: Cohen's kappa "
    "over wins and ties.",
    "The judge measures something else than these people do: read pairs they settle "
    "differently, and change the rubric, the judge, or the claim.",
    "kappa",
    asset="people_measures",
)
ROWS = (HUMAN_AGREEMENT,)
