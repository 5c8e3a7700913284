"""What people's votes and labels measure of the judge."""

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
SELF_PREFERENCE_BY_LABELS = Measure(
    "self_preference_by_labels",
    "self-preference by labels",
    "What being the judge's own gains a response between equals, in Elo points, by what people say "
    "of the same entrants.",
    "Leave the judge's own model out, or let another judge or people decide on its pairs.",
    "points",
    asset="people_measures",
    threshold=lambda checks: checks.max_self_preference,
    expected="near",
    neutral=0.0,
    leans=("penalises its own responses", "prefers its own responses"),
)
ROWS = (HUMAN_AGREEMENT, SELF_PREFERENCE_BY_LABELS)
