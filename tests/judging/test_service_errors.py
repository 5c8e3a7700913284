from itertools import takewhile

import pytest

from tests.test_house import ROOT
from tournament_assets.foundation.errors import JudgeFailure
from tournament_assets.judging.batch_service import ReplyRow
from tournament_assets.judging.service_errors import CAUSES, Remedy, error_type_of, remedy_for
from tournament_assets.judging.settlement.harvest import is_final

AGAIN, PAID, PERSON, NEVER, _ = Remedy
PAGE = ROOT / "docs" / "judging.md"
HEAD = "| cause | how it shows | what is done; *what you are told* | asked again |"
INVALID = "invalid_request_error"


@pytest.mark.parametrize(
    ("names", "status", "words", "expected"),
    [
        # The Messages API; a row of a batch has no status.
        ([INVALID], 400, "Your credit balance is too low to access the API.", PAID),
        ([INVALID], None, "The credit balance is too low to use the service", PAID),
        ([INVALID], None, "You have reached your specified API usage limits.", PAID),
        ([INVALID], 400, "API usage limits reached: access is back on 2026-12-01", PAID),
        (["billing_error"], 402, "Payment required", PAID),
        (["rate_limit_error", "enforced_spend_limit_reached"], 429, "Limit reached", PAID),
        ([INVALID], 400, "This organization has been disabled.", PERSON),
        (["authentication_error"], 401, "invalid x-api-key", PERSON),
        (["permission_error"], None, "This key may not use the model", PERSON),
        (["not_found_error"], None, "model: claude-0", PERSON),
        ([INVALID], None, "Invalid model name", PERSON),
        (["overloaded_error"], 529, "Overloaded", AGAIN),
        (["overloaded_error"], None, "Overloaded", AGAIN),
        (["rate_limit_error"], 429, "This would exceed your rate limit of 50 per minute", AGAIN),
        (["rate_limit_error"], 429, "Usage limit reached; try again in 12 seconds", AGAIN),
        (["api_error"], 500, "Internal server error", AGAIN),
        (["timeout_error"], None, "Timed out", AGAIN),
        (["request_too_large"], 413, "Request exceeds the maximum size", NEVER),
        ([INVALID], 400, "prompt is too long: 214001 tokens > 200000 maximum", NEVER),
        ([INVALID], 400, "Output blocked by content filtering policy", NEVER),
        ([INVALID], None, "max_tokens: must be less than 64000", NEVER),
        # OpenAI's protocol.
        (["insufficient_quota"], 429, "You exceeded your current quota", PAID),
        ([], 429, "You exceeded your current quota, check your plan", PAID),
        (["billing_hard_limit_reached", INVALID], 400, "Billing hard limit reached", PAID),
        (["billing_not_active"], 429, "Check your billing details", PAID),
        ([], 402, "This request requires more credits", PAID),
        (["invalid_request_error"], 402, "Insufficient Balance", PAID),
        (["account_deactivated"], 401, "The account was deactivated", PERSON),
        (["invalid_api_key", INVALID], None, "Incorrect API key provided", PERSON),
        (["model_not_found", INVALID], 400, "The model `x` does not exist", PERSON),
        ([INVALID], None, "The model `x` does not exist or you have no access", PERSON),
        (["unsupported_country_region_territory"], 403, "Not here", PERSON),
        ([], 405, None, PERSON),
        (["server_error"], 500, "The server had an error", AGAIN),
        (["server_error"], None, "The server had an error", AGAIN),
        (["rate_limit_exceeded"], 429, "Rate limit reached on tokens per min (TPM)", AGAIN),
        ([], 429, "You exceeded your current quota; please retry in 34s", AGAIN),
        (["rate_limit_exceeded"], 429, "Too large: the tokens must be reduced", NEVER),
        (["context_length_exceeded", INVALID], None, "The maximum context length is 8192", NEVER),
        (["content_filter"], 400, "Triggered the content management policy", NEVER),
        ([], 403, "Your input was flagged", NEVER),
        ([], 422, None, NEVER),
        # What nobody has published.
        (["a_type_of_tomorrow"], None, "Words of tomorrow", AGAIN),
        ([], 418, None, NEVER),
        ([INVALID], 500, "Internal", AGAIN),
        ([], None, None, AGAIN),
    ],
)
def test_an_error_means_what_its_type_status_and_words_say_together(
    names: list[str], status: int | None, words: str | None, expected: Remedy
) -> None:
    assert remedy_for(names, status, words) is expected
    assert remedy_for(reversed(names), status, words and words.upper()) is expected
    # The common name, which is all that the ledger and a later reading go by, says the same.
    assert remedy_for([error_type_of(names, status, words)], None, None) is expected


def table() -> list[str]:
    """Return the table of causes as the documentation shows it: alike ones share a row."""
    rows: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name, each in CAUSES.items():
        done = f"{each.done}; *{each.action}*" if each.action else each.done
        rows.setdefault((done, each.remedy.value), []).append((name, each.shows))
    lines = [
        f"| {' | '.join([*map('; '.join, zip(*causes, strict=True)), done, again])} |"
        for (done, again), causes in rows.items()
    ]
    return [HEAD, "|---|---|---|---|", *lines]


def test_the_documentation_shows_the_table_of_causes() -> None:
    """Mended by `python -m tests.judging.test_service_errors`."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begun = lines[lines.index(HEAD) :]
    assert list(takewhile(lambda line: line.startswith("|"), begun)) == table()


def test_every_failure_of_a_call_and_every_type_of_an_error_has_a_cause() -> None:
    assert {failure for each in CAUSES.values() for failure in each.failures} == set(JudgeFailure)
    types = [name for each in CAUSES.values() for name in each.error_types]
    assert len(types) == len(set(types))


@pytest.mark.parametrize("name", CAUSES)
def test_a_row_is_kept_for_good_where_the_table_says_that_it_is_never_asked_again(
    name: str,
) -> None:
    cause = CAUSES[name]
    for result_type in cause.result_types:
        for error_type in cause.error_types or (None, "a_type_of_tomorrow"):
            row = ReplyRow(result_type=result_type, error_type=error_type)
            assert is_final(row) is (cause.remedy is NEVER)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, head, rest = text.partition(HEAD)
    after = rest[rest.index("\n\n") :]
    assert head
    PAGE.write_text(before + "\n".join(table()) + after, encoding="utf-8")
