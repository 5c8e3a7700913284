"""The rating methods that people's labels and battles allow."""

from tournament_assets.ratings.rating_evidence import RatingMethod

POWERED = RatingMethod(
    "prediction_powered",
    "Bradley-Terry corrected by labels",
    "what people would rate: by their labels, by the judge, or by both",
    needs="human_labels",
    asset="people_ratings",
)
ARENA = RatingMethod(
    "arena",
    "Bradley-Terry among an arena's models",
    "the rating beside the models that people compared, by them, by the judge, or by both",
    needs="human_battles",
    asset="people_ratings",
)
JUDGE_WEIGHT = RatingMethod(
    "judge_weight",
    "weight of the judge",
    "how much the judge counts beside the labels, from 0 to 1",
    needs="human_labels",
    asset="people_ratings",
    beside=POWERED.name,
)
ROWS = (POWERED, JUDGE_WEIGHT, ARENA)
