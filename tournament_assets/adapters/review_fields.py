"""The columns of tables that review the judge or a whole run: no rating follows from them."""

from collections.abc import Mapping

import pyarrow as pa

Field = tuple[str, pa.DataType, bool, str]
"""A column's name, its type, whether it can be absent, and what it says."""

REVIEW_FIELDS: Mapping[str, list[Field]] = {
    "judge_controls": [
        ("kind", pa.string(), False, "identical, corrupted or injection"),
        ("control_id", pa.string(), False, "which control it is"),
        ("prompt_id", pa.string(), False, "the prompt of both responses"),
        ("dimension", pa.string(), False, "the quality being judged"),
        ("entrant_a", pa.string(), False, "whose response stands as it was given"),
        ("entrant_b", pa.string(), False, "whose response was copied, misplaced or added to"),
        ("expected", pa.string(), True, "the right outcome; absent if the baseline is not judged"),
        ("outcome", pa.string(), False, "how it was settled"),
        ("verdict_ab", pa.string(), False, "what the reply to presentation ab says"),
        ("verdict_ba", pa.string(), False, "what the reply to presentation ba says"),
        ("as_expected", pa.bool_(), True, "whether the judge was right; absent if it said nothing"),
    ],
    "judge_retest": [
        ("prompt_id", pa.string(), False, "the prompt both entrants answered"),
        ("dimension", pa.string(), False, "the quality being judged"),
        ("entrant_a", pa.string(), False, "the pair's first entrant"),
        ("entrant_b", pa.string(), False, "the pair's second entrant"),
        ("first_outcome", pa.string(), False, "how it was settled for the tournament"),
        ("second_outcome", pa.string(), False, "how it was settled the second time"),
        ("first_ab", pa.string(), False, "the first verdict on presentation ab"),
        ("first_ba", pa.string(), False, "the first verdict on presentation ba"),
        ("second_ab", pa.string(), False, "the second verdict on presentation ab"),
        ("second_ba", pa.string(), False, "the second verdict on presentation ba"),
    ],
    "judge_drift": [
        ("occasion", pa.string(), False, "when the anchor pairs were judged again"),
        ("prompt_id", pa.string(), False, "the prompt both entrants answered"),
        ("dimension", pa.string(), False, "the quality being judged"),
        ("entrant_a", pa.string(), False, "the pair's first entrant"),
        ("entrant_b", pa.string(), False, "the pair's second entrant"),
        ("tournament_outcome", pa.string(), False, "how it is settled in the tournament"),
        ("outcome", pa.string(), False, "how it was settled on this occasion"),
        ("flipped", pa.bool_(), True, "whether the two differ; absent if it was not judged"),
        ("earlier_occasion", pa.string(), True, "the occasion before; absent if there is none"),
        ("earlier_outcome", pa.string(), True, "how it was settled then; absent if not asked so"),
        ("flipped_since", pa.bool_(), True, "whether it differs from then; absent if unknown"),
        ("verdict_ab", pa.string(), False, "the verdict on presentation ab on this occasion"),
        ("verdict_ba", pa.string(), False, "the verdict on presentation ba on this occasion"),
        ("judge_model", pa.string(), False, "the model that judged, then and now"),
    ],
    "run_comparison": [
        ("then", pa.string(), False, "the directory of the run before"),
        ("now", pa.string(), False, "the directory of this run"),
        ("dimension", pa.string(), False, "the quality that was judged"),
        ("source", pa.string(), True, "the prompts' stratum; absent for all of them"),
        ("settled_in_both", pa.int64(), False, "pairs that both runs settled"),
        ("flipped", pa.int64(), False, "those settled differently"),
        ("flip_rate", pa.float64(), True, "their share; absent if no pair is in both"),
        ("flip_rate_low", pa.float64(), True, "lower end of its Wilson interval"),
        ("flip_rate_high", pa.float64(), True, "upper end of its Wilson interval"),
        ("reversed", pa.int64(), False, "flips whose winner became the loser"),
        ("tie", pa.int64(), False, "flips from or to a tie"),
        ("inconsistent", pa.int64(), False, "flips from or to two verdicts that disagree"),
        ("lost", pa.int64(), False, "pairs that only the run before settled"),
        ("gained", pa.int64(), False, "pairs that only this run settled"),
        ("other_texts", pa.int64(), False, "flips of pairs whose prompt or responses differ"),
        ("kappa", pa.float64(), True, "Cohen's kappa: agreement corrected for chance"),
        ("kappa_low", pa.float64(), True, "lower end of its prompt-resampling interval"),
        ("kappa_high", pa.float64(), True, "upper end of its prompt-resampling interval"),
    ],
}
