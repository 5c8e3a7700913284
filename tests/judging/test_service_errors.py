"""What the sentences that providers publish mean, by either protocol."""

import pytest

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import ReplyRow, SubmittedRequest
from tournament_assets.judging.service_errors import Cure, cure_of

from .bench import Bench
from .builders import keys_of, reply_row, requests_for

INVALID = "invalid_request_error"
QUOTED = "x is not allowed: 'I was told that my credit balance is too low, and so on'"


@pytest.mark.parametrize(
    ("kinds", "status", "words", "cure"),
    [
        # the Messages API
        ((INVALID,), None, "Your credit balance is too low to access the API.", Cure.PAYMENT),
        ((INVALID,), 400, "Your credit balance is too low to access the API.", Cure.PAYMENT),
        ((INVALID,), 400, "You have reached your specified API usage limits.", Cure.PAYMENT),
        (("billing_error",), 402, "There's an issue with your billing.", Cure.PAYMENT),
        (("rate_limit_error", "enforced_spend_limit_reached"), 429, "", Cure.PAYMENT),
        ((INVALID,), 400, "This organization has been disabled.", Cure.PERSON),
        (("authentication_error",), 401, "invalid x-api-key", Cure.PERSON),
        (("permission_error",), 403, "Your API key may not use this resource.", Cure.PERSON),
        (("not_found_error",), 404, "model: claude-9", Cure.PERSON),
        (("not_found_error",), None, "model: claude-9", Cure.PERSON),
        ((INVALID,), 400, "prompt is too long: 212,034 tokens > 200,000 maximum", Cure.NEVER),
        ((INVALID,), None, "Output blocked by content filtering policy", Cure.NEVER),
        (("request_too_large",), 413, "Request exceeds the maximum size", Cure.NEVER),
        (("rate_limit_error",), 429, "exceeds 50 requests per minute", Cure.AGAIN),
        (("overloaded_error",), 529, "Overloaded", Cure.AGAIN),
        (("api_error",), 500, "Internal server error", Cure.AGAIN),
        (("timeout_error",), None, "", Cure.AGAIN),
        # OpenAI's protocol
        (("insufficient_quota",), 429, "You exceeded your current quota.", Cure.PAYMENT),
        (("billing_hard_limit_reached", INVALID), 400, "Billing hard limit", Cure.PAYMENT),
        ((INVALID, None), 400, "Insufficient Balance", Cure.PAYMENT),
        (("account_deactivated", INVALID), 401, "", Cure.PERSON),
        (("invalid_api_key", INVALID), 401, "Incorrect API key provided", Cure.PERSON),
        (("model_not_found", INVALID), 404, "The model does not exist", Cure.PERSON),
        (("context_length_exceeded", INVALID), 400, "maximum context length", Cure.NEVER),
        (("requests", "rate_limit_exceeded"), 429, "Limit 3 requests per min", Cure.AGAIN),
        (("tokens", "rate_limit_exceeded"), 429, "monthly limit 9 tokens per min", Cure.AGAIN),
        (("server_error",), 500, "had an error", Cure.AGAIN),
        ((INVALID,), 503, "busy", Cure.AGAIN),
        # what the request says about credit is not the account's
        ((INVALID,), 400, QUOTED, Cure.NEVER),
        ((INVALID,), 400, f"{'x' * 300} the credit balance is too low", Cure.NEVER),
        (("a kind of tomorrow",), None, "", Cure.AGAIN),
    ],
)
def test_an_error_means_one_thing_whatever_protocol_it_came_by(
    kinds: tuple[str | None, ...], status: int | None, words: str, cure: Cure
) -> None:
    assert cure_of(*kinds, status=status, words=words) is cure


def test_credit_that_runs_dry_in_mid_batch_stops_and_the_rest_is_asked_when_there_is_some() -> None:
    answers = iter(range(6))

    def answer(request: SubmittedRequest) -> ReplyRow:
        if next(answers, 0) < 4:
            return reply_row(request.custom_id)
        return reply_row(
            request.custom_id,
            result_type="errored",
            error_type=INVALID,
            error_message="Your credit balance is too low to access the API.",
        )

    bench = Bench(answer=answer)
    with pytest.raises(JudgeError, match=r"2 requests of .* add credit .* is kept") as caught:
        bench.settle(requests_for(3))
    assert caught.value.failure is JudgeFailure.FATAL
    assert len(bench.ledger.answered()) == 4
    tally = bench.settle(requests_for(3))
    assert (tally.submitted, tally.answered) == (2, 6)
    assert bench.ledger.answered() == set(keys_of(3))
