import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.judging.requests.verdict_parsing import (
    INFRASTRUCTURE_PHRASES,
    FailureClass,
    ReplyFormat,
    classify_reply,
    is_infrastructure_failure,
    read_reply,
)
from tournament_assets.tournament.verdicts import Verdict

PAGE = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body>\r\n</html>"
phrases = st.sampled_from(INFRASTRUCTURE_PHRASES)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        " \n\t",
        "Gateway is restarting",
        "Error: Judge execution failed (attempt 3 of 3)",
        "judge timed\n  out after 600 s",
        "upstream connect error or disconnect/reset before headers",
        '{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}',
        PAGE,
        "\n<!DOCTYPE html><title>Please wait</title>",
    ],
)
def test_what_a_machine_on_the_way_says_is_told_from_a_judgment(text: str | None) -> None:
    assert is_infrastructure_failure(text)


@pytest.mark.parametrize(
    "text",
    [
        "B only says 'Gateway is restarting'.\nVERDICT: A",
        '{"reasoning": "B only says: bad gateway", "verdict": "A"}',
        "Both are true.",
        "I cannot judge this.",
        "VERDICT: ABSTAIN",
    ],
)
def test_what_a_judge_says_is_no_such_failure(text: str) -> None:
    assert not is_infrastructure_failure(text)


@given(phrases, st.sampled_from(["{}", "Error: {}.", "{}\nTry again."]))
def test_every_phrase_is_found_in_any_case(phrase: str, text: str) -> None:
    assert is_infrastructure_failure(text.format(phrase))
    assert is_infrastructure_failure(text.format(phrase).upper())


@given(phrases, st.sampled_from(["A", "B", "TIE"]))
def test_a_text_with_a_verdict_is_never_one_whatever_it_quotes(phrase: str, verdict: str) -> None:
    assert not is_infrastructure_failure(f"It says: {phrase}\nVERDICT: {verdict}")


def classify(
    result_type: str = "succeeded",
    stop_reason: str | None = "end_turn",
    text: str | None = "VERDICT: A",
    reply_format: ReplyFormat = "line",
) -> FailureClass | None:
    return classify_reply(
        result_type=result_type, stop_reason=stop_reason, text=text, reply_format=reply_format
    )


@pytest.mark.parametrize(
    ("result_type", "stop_reason", "text", "expected"),
    [
        ("succeeded", "end_turn", "VERDICT: A", None),
        ("identical", None, None, None),
        ("pending", None, None, None),
        ("errored", None, None, FailureClass.ERRORED),
        ("errored", None, "Gateway is restarting", FailureClass.INFRASTRUCTURE),
        ("errored", None, "something else", FailureClass.ERRORED),
        ("expired", None, None, FailureClass.EXPIRED),
        ("canceled", None, None, FailureClass.CANCELED),
        ("archived", None, None, FailureClass.ARCHIVED),
        ("a type of next year", None, None, FailureClass.ERRORED),
        ("succeeded", "refusal", "", FailureClass.REFUSED),
        ("succeeded", "max_tokens", None, FailureClass.CUT_OFF),
        ("succeeded", "max_tokens", "VERDICT: A", FailureClass.CUT_OFF),
        ("succeeded", "model_context_window_exceeded", "", FailureClass.ERRORED),
        ("succeeded", "end_turn", None, FailureClass.EMPTY),
        ("succeeded", "end_turn", " \n", FailureClass.EMPTY),
        ("succeeded", None, "Gateway is restarting", FailureClass.INFRASTRUCTURE),
        ("succeeded", "end_turn", PAGE, FailureClass.INFRASTRUCTURE),
        ("succeeded", "end_turn", "VERDICT: ABSTAIN", FailureClass.UNREADABLE),
        ("succeeded", "tool_use", "VERDICT: A", FailureClass.UNREADABLE),
        ("succeeded", None, "VERDICT: A", None),
    ],
)
def test_every_failure_has_its_class(
    result_type: str, stop_reason: str | None, text: str | None, expected: FailureClass | None
) -> None:
    assert classify(result_type, stop_reason, text) is expected


def test_the_format_decides_what_is_unreadable() -> None:
    text = '{"reasoning": "x", "verdict": "A"}'
    assert classify(text=text, reply_format="json_schema") is None
    assert classify(text=text) is FailureClass.UNREADABLE


texts = st.sampled_from(
    [None, "", "VERDICT: A", '{"reasoning": "x", "verdict": "B"}', "Bad gateway", PAGE, "{}"]
) | st.text(max_size=20)


@given(
    st.sampled_from(["succeeded", "identical", "pending", "errored", "expired", "archived", "x"]),
    st.sampled_from(["end_turn", "max_tokens", "refusal", "tool_use", None]),
    texts,
    st.sampled_from(["line", "json_schema"]),
)
def test_there_is_a_failure_exactly_where_a_reply_came_and_no_verdict(
    result_type: str, stop_reason: str | None, text: str | None, reply_format: ReplyFormat
) -> None:
    verdict, _ = read_reply(
        result_type=result_type, stop_reason=stop_reason, text=text, reply_format=reply_format
    )
    failure = classify(result_type, stop_reason, text, reply_format)
    assert (failure is None) is (verdict.is_decided or result_type == "pending")
    if verdict is Verdict.REFUSED:
        assert failure is FailureClass.REFUSED
    if failure is FailureClass.UNREADABLE:
        assert verdict is Verdict.UNREADABLE
