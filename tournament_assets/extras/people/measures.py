"""The check of the judge against people's votes."""

from tournament_assets.trust.lights import Measure

HUMAN_AGREEMENT = Measure(
    "human_agreement",
    "agreement with people",
    "Agreement with people on the same pairs: Cohen's kappa over wins and ties, 1 for always and "
    "0 for chance.",
    "The judge does not measure what these people do: read pairs they settle "
    "differently, and change the rubric, the judge, or the claim.",
    "kappa",
    asset="people_measures",
)
ROWS = (HUMAN_AGREEMENT,)
