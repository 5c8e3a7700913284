"""The columns of every table that travels between assets, and what each of them says."""

from collections.abc import Mapping

import pyarrow as pa

_PROMPT_FIELDS = [
    ("prompt_id", pa.string(), False, "unique in the bank"),
    ("text", pa.string(), False, "what the entrants are asked"),
    ("source", pa.string(), False, "the stratum it belongs to"),
    ("subject", pa.string(), True, "field of knowledge"),
    ("gold_answer", pa.string(), True, "the accepted answer"),
    ("expected_behavior", pa.string(), True, "answer, hedge or abstain"),
    ("category", pa.string(), True, "a finer label within the source"),
    ("tags", pa.list_(pa.string()), False, "free labels"),
    ("extra", pa.string(), False, "further keys of the row, as JSON"),
]
_PAIR_FIELDS = [
    ("prompt_id", pa.string(), False, "the prompt both entrants answered"),
    ("source", pa.string(), False, "the prompt's stratum"),
    ("dimension", pa.string(), False, "the quality being judged"),
    ("entrant_a", pa.string(), False, "the pair's first entrant"),
    ("entrant_b", pa.string(), False, "the pair's second entrant"),
]
_INTERVAL_FIELDS = [
    ("sampling_low", pa.float64(), True, "lower end of the prompt-resampling interval"),
    ("sampling_high", pa.float64(), True, "upper end of the prompt-resampling interval"),
]
_ELO_FIELDS = [
    ("mean", pa.float64(), False, "mean over orderings, in Elo points"),
    ("sem", pa.float64(), True, "standard error of that mean: order noise only"),
    ("order_low", pa.float64(), True, "lower end of the spread over orderings"),
    ("order_high", pa.float64(), True, "upper end of the spread over orderings"),
    *_INTERVAL_FIELDS,
    ("n_decisive_matches", pa.int64(), False, "decisive matches on the dimension"),
    ("n_entrant_matches", pa.int64(), False, "decisive matches of this entrant"),
]

_FIELDS: Mapping[str, list[tuple[str, pa.DataType, bool, str]]] = {
    "prompt_bank": _PROMPT_FIELDS,
    "selected_prompts": _PROMPT_FIELDS,
    "entrant_responses": [
        ("entrant_id", pa.string(), False, "who answered"),
        ("prompt_id", pa.string(), False, "what was answered"),
        ("response", pa.string(), False, "the answer"),
        ("finish_reason", pa.string(), False, "stop, length, other or recorded"),
        ("prompt_tokens", pa.int64(), True, "tokens the model read"),
        ("response_tokens", pa.int64(), True, "tokens the model wrote"),
        ("diagnostics", pa.string(), False, "what the decoder noticed, as JSON"),
    ],
    "match_list": [
        *_PAIR_FIELDS,
        ("prompt_text", pa.string(), False, "what they were asked"),
        ("response_a", pa.string(), False, "the first entrant's answer"),
        ("response_b", pa.string(), False, "the second entrant's answer"),
        ("gold_answer", pa.string(), True, "the accepted answer"),
        ("expected_behavior", pa.string(), True, "answer, hedge or abstain"),
    ],
    "judging_estimate": [
        ("dimension", pa.string(), False, "the quality being judged"),
        ("judge_model", pa.string(), False, "the model that would judge"),
        ("presentations", pa.int64(), False, "two for every pair"),
        ("identical", pa.int64(), False, "settled without asking: both responses are the same"),
        ("distinct_requests", pa.int64(), False, "different requests among the others"),
        ("answered", pa.int64(), False, "requests that the ledger holds a reply to"),
        ("under_way", pa.int64(), False, "requests that were sent and will be collected"),
        ("to_ask", pa.int64(), False, "requests that are still to be sent"),
        ("prefix_tokens", pa.int64(), False, "tokens of the system prefix of each request"),
        ("message_tokens", pa.int64(), False, "tokens of all messages to send, without prefix"),
        ("output_tokens", pa.int64(), False, "tokens that the replies to them will take"),
        ("usd_uncached", pa.float64(), True, "US dollars without prompt caching"),
        ("usd_no_hits", pa.float64(), True, "if every request writes its prefix to the cache"),
        ("usd_observed", pa.float64(), True, "at the share of cache hits seen so far"),
        ("usd_all_hits", pa.float64(), True, "if every request but the first reads it there"),
    ],
    "judge_replies": [
        *_PAIR_FIELDS,
        ("presentation", pa.string(), False, "ab: entrant_a is shown as A; ba: as B"),
        ("request_key", pa.string(), False, "SHA-256 of the request as sent"),
        ("asking", pa.int64(), False, "1 for the first question, more after a failed reply"),
        ("judge_model", pa.string(), False, "the model that judges"),
        ("rubric_version", pa.string(), False, "the rubric's version line"),
        ("rubric_hash", pa.string(), False, "SHA-256 of the rubric as the judge saw it"),
        ("result_type", pa.string(), False, "succeeded, errored, pending, or identical: not asked"),
        ("channel", pa.string(), True, "batch, or direct at twice the price"),
        ("stop_reason", pa.string(), True, "why the judge stopped"),
        ("reply", pa.string(), True, "what the judge wrote, verbatim"),
        ("error_type", pa.string(), True, "the provider's name of the error"),
        ("input_tokens", pa.int64(), True, "uncached input tokens billed"),
        ("output_tokens", pa.int64(), True, "output tokens billed"),
        ("cache_creation_input_tokens", pa.int64(), True, "tokens written to the prompt cache"),
        ("cache_read_input_tokens", pa.int64(), True, "tokens read from the prompt cache"),
        ("rejudged_at", pa.string(), True, "when a failed request was asked directly, in UTC"),
    ],
    "judge_verdicts": [
        *_PAIR_FIELDS,
        ("verdict_ab", pa.string(), False, "what the reply to presentation ab says"),
        ("verdict_ba", pa.string(), False, "what the reply to presentation ba says"),
        ("outcome", pa.string(), False, "a_wins, b_wins, tie, inconsistent or unjudged"),
        ("winner", pa.string(), True, "the entrant that won"),
        ("reason_ab", pa.string(), True, "why presentation ab has no verdict"),
        ("reason_ba", pa.string(), True, "why presentation ba has no verdict"),
        ("request_key_ab", pa.string(), False, "SHA-256 of the request of presentation ab"),
        ("request_key_ba", pa.string(), False, "SHA-256 of the request of presentation ba"),
        ("asking_ab", pa.int64(), False, "which asking the verdict of presentation ab answers"),
        ("asking_ba", pa.int64(), False, "which asking the verdict of presentation ba answers"),
        ("judge_model", pa.string(), False, "the model that judged"),
    ],
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
    "elo_ratings": [
        ("dimension", pa.string(), False, "the quality that was judged"),
        ("k_factor", pa.float64(), False, "the most one match can change a rating by"),
        ("is_primary", pa.bool_(), False, "whether this is the configured K-factor"),
        ("rank", pa.int64(), False, "1 is best, for this K-factor"),
        ("entrant_id", pa.string(), False, "who is rated"),
        *_ELO_FIELDS,
    ],
    "bradley_terry_ratings": [
        ("dimension", pa.string(), False, "the quality that was judged"),
        ("entrant_id", pa.string(), False, "who is rated"),
        ("rating", pa.float64(), True, "on the Elo scale; absent if the data set no bound"),
        *_INTERVAL_FIELDS,
        ("note", pa.string(), True, "why a rating or a bound is absent"),
        ("n_bootstraps", pa.int64(), False, "resamples of whole prompts"),
        ("n_degenerate", pa.int64(), False, "resamples that determine no rating"),
    ],
    "win_rates": [
        ("dimension", pa.string(), False, "the quality that was judged"),
        ("entrant_a", pa.string(), False, "first of the two, alphabetically"),
        ("entrant_b", pa.string(), False, "second of the two"),
        ("wins_a", pa.int64(), False, "pairs entrant_a won"),
        ("wins_b", pa.int64(), False, "pairs entrant_b won"),
        ("ties", pa.int64(), False, "both presentations said tie"),
        ("inconsistent", pa.int64(), False, "the presentations disagreed: counts as a tie here"),
        ("unjudged", pa.int64(), False, "a reply is missing or unreadable: counts as nothing"),
        ("judged", pa.int64(), False, "the win rate's denominator"),
        ("win_rate_a", pa.float64(), True, "wins and half the ties, over judged"),
    ],
    "battles": [
        ("model_a", pa.string(), False, "the first model"),
        ("model_b", pa.string(), False, "the second model"),
        ("winner", pa.string(), False, "model_a, model_b or tie"),
        ("source", pa.string(), False, "who decided: llm-judge or human"),
        ("question_id", pa.string(), True, "the prompt"),
        ("judge_model", pa.string(), True, "the model that judged"),
        ("dimension", pa.string(), True, "the quality that was judged"),
        ("inconsistent", pa.bool_(), False, "a tie that stands for two replies that disagreed"),
    ],
    "audit": [
        ("dimension", pa.string(), False, "the quality being judged"),
        ("entrant_id", pa.string(), False, "whose coverage it is"),
        ("prompts_selected", pa.int64(), False, "prompts the entrant should have answered"),
        ("responses", pa.int64(), False, "prompts it answered"),
        ("empty_responses", pa.int64(), False, "answers without any text"),
        ("truncated_responses", pa.int64(), False, "answers that the token cap ended"),
        ("pairs_planned", pa.int64(), False, "pairs it takes part in"),
        ("pairs_judged", pa.int64(), False, "pairs with two readable replies"),
        ("pairs_inconsistent", pa.int64(), False, "judged pairs whose replies disagree"),
        ("replies_refused", pa.int64(), False, "presentations the judge declined"),
        ("replies_unreadable", pa.int64(), False, "presentations without a readable verdict"),
        ("replies_permanent", pa.int64(), False, "presentations that can never succeed"),
        ("replies_pending", pa.int64(), False, "presentations without a reply yet"),
    ],
    "leaderboard": [
        ("dimension", pa.string(), False, "the quality that was judged"),
        ("rank", pa.int64(), False, "1 is best"),
        ("entrant_id", pa.string(), False, "who is rated"),
        *_ELO_FIELDS,
        ("win_rate", pa.float64(), True, "wins and half the ties over all its judged pairs"),
        ("bradley_terry", pa.float64(), True, "Bradley-Terry rating on the Elo scale"),
        ("judge_model", pa.string(), False, "the model that judged"),
        ("judge", pa.string(), False, "what kind of judge that is"),
    ],
    "report": [
        ("format", pa.string(), False, "markdown or html"),
        ("content", pa.string(), False, "the whole document"),
    ],
}

SCHEMAS: Mapping[str, pa.Schema] = {
    name: pa.schema(
        [
            pa.field(field, kind, nullable=nullable, metadata={"description": description})
            for field, kind, nullable, description in described
        ]
    )
    for name, described in _FIELDS.items()
}
"""The schema of every table, by the name of the asset that makes it."""
