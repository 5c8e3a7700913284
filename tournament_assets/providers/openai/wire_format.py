"""OpenAI's protocol as plain JSON: the client, what requests and answers say, what failures mean.

Servers agree only on the few fields that are needed here, so only those are read.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.foundation.fingerprints import canonical_json
from tournament_assets.foundation.json_lines import Json, JsonObject
from tournament_assets.judging.batch_service import BatchStatus, MessageParams, ReplyRow, TokenUsage
from tournament_assets.judging.requests.requests import printable
from tournament_assets.judging.service_errors import Remedy, error_type_of
from tournament_assets.providers.service_words import (
    PAY,
    describe_redirect,
    describe_silence,
    mapping,
    parse_object,
    remedy_of,
    tls_problem,
    was_never_sent,
)
from tournament_assets.tournament.completions import (
    Completion,
    End,
    Message,
    end_of,
    parts_of,
    text_of,
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The variant of the protocol that a server understands; it is not part of the request key.

    Attributes:
        cap: Its name for a reply's token cap; OpenAI's own models refuse the old name, and several
            servers do not know the new one.
        is_settled: Whether both names of the cap were tried.
        optional: Fields that may be left out: the config did not ask for them, or, as the schema of
            a reply, they only hold the model to what its instructions say anyway.
        not_sent: Those of them that the server refused.
    """

    cap: str
    is_settled: bool = False
    optional: frozenset[str] = frozenset()
    not_sent: frozenset[str] = frozenset()

    def without(self, refused: Collection[str]) -> "Dialect | None":
        """Return a simpler dialect after a refusal; None if the dialect was not the reason.

        Args:
            refused: The fields that the refusal names.
        """
        dispensable = self.optional.intersection(refused) - self.not_sent
        if dispensable:
            return replace(self, not_sent=self.not_sent | dispensable)
        if self.cap in refused and not self.is_settled:
            other = OLD_CAP if self.cap == NEW_CAP else NEW_CAP
            return replace(self, cap=other, is_settled=True)
        return None


OLD_CAP, NEW_CAP = "max_tokens", "max_completion_tokens"
SCHEMA = "response_format"
NOT_SENT = "tournament_not_sent"
"""The key of a kept answer that holds the fields which its request had to do without."""


def chat_body(params: MessageParams, dialect: Dialect) -> JsonObject:
    """Translate the parameters of a message, in the words of the Messages API.

    Cache markers are left out: servers of this protocol cache by themselves.
    """
    system = text_of(parts_of(params.get("system", "")))
    leading = [{"role": "system", "content": system}] if system else []
    turns = [
        {"role": each["role"], "content": Message.read(each).text or ""}
        for each in params["messages"]
    ]
    body: dict[str, Json] = {
        "model": params["model"],
        "messages": [*leading, *turns],
        dialect.cap: params["max_tokens"],
    }
    config = mapping(params.get("output_config"))
    if "effort" in config:
        body["reasoning_effort"] = config["effort"]
    schema = mapping(config.get("format")).get("schema")
    if schema is not None:
        named: JsonObject = {"name": "reply", "strict": True, "schema": schema}
        body[SCHEMA] = {"type": "json_schema", "json_schema": named}
    values = cast("JsonObject", params)
    body |= {field: values[name] for name, field in _SAMPLING.items() if name in values}
    body |= params.get("extra_body", {})
    return {name: value for name, value in body.items() if name not in dialect.not_sent}


_SAMPLING = {
    "temperature": "temperature",
    "top_p": "top_p",
    "stop_sequences": "stop",
    "seed": "seed",
}
"""Parameters passed through unchanged, by their names in the Messages API, which has no seed."""


def read_completion(custom_id: str, answer: JsonObject, *, raw: str = "") -> ReplyRow | None:
    """Read a chat completion as a row of a batch; None if it is not one.

    Its text is as it came, thoughts included. One that the server broke off did not succeed.
    """
    completion = Completion.of_answer(answer)
    if completion is None:
        return None
    end = end_of(completion.end)
    row = ReplyRow(
        custom_id=custom_id,
        result_type="succeeded",
        text=keepable(completion.text or ""),
        stop_reason=_STOP_REASONS.get(end, completion.end),
        model=completion.model and keepable(completion.model),
        usage=read_usage(answer),
        raw=printable(raw or _write(answer)),
    )
    if end is End.BROKEN:
        why = f"the server broke the answer off (finish_reason {completion.end!r})"
        return replace(row, result_type=BROKEN_OFF, error_type="api_error", error_message=why)
    if text_of(completion.parts, "refusal"):
        return replace(row, stop_reason=_STOP_REASONS[End.FILTER])
    return row


BROKEN_OFF = "broken_off"
"""The result type of half a reply: it may be billed, and is asked for again."""


def _write(answer: JsonObject) -> str:
    """Return an answer as JSON, NaN and infinity included."""
    try:
        return canonical_json(answer)
    except ValueError:
        return json.dumps(answer, sort_keys=True)


_STOP_REASONS = {
    End.STOP: "end_turn",
    End.LENGTH: "max_tokens",
    End.FILTER: "refusal",
    End.TOOLS: "tool_use",
    End.CONTEXT: "model_context_window_exceeded",
}
"""What the Messages API says for each end."""


NONCE_KEY = "tournament_batch"
"""The metadata key that holds our own name for a batch."""
_ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
_NO_ROOM = "token_limit_exceeded"


def read_batch(
    batch: JsonObject, *, address: str, tidy: Callable[[str], str], keeps_names: bool
) -> BatchStatus | None:
    """Read a batch's status; None if it does not give its id.

    Args:
        batch: What the service says.
        address: Its address, for messages.
        tidy: Makes the service's words fit to show.
        keeps_names: Whether the service is sure to keep metadata: a gateway may drop it.
    """
    batch_id, status = batch.get("id"), batch.get("status")
    if not isinstance(batch_id, str) or not batch_id:
        return None
    counts = mapping(batch.get("request_counts"))
    total, completed, failed = (
        count_of(counts, name) or 0 for name in ("total", "completed", "failed")
    )
    return BatchStatus(
        batch_id=batch_id,
        has_ended=status in _ENDED,
        n_requests=total,
        created_at=_time(batch.get("created_at")),
        nonce=_read_nonce(batch.get("metadata"), keeps_names=keeps_names),
        # Expired or cancelled requests need not have a row.
        n_results=completed + failed if status in ("expired", "cancelled") else None,
        is_cancelled=status in ("cancelling", "cancelled"),
        refusal=_read_refusal(batch, address, tidy) if status == "failed" else None,
    )


def _read_nonce(metadata: Any, *, keeps_names: bool) -> str | None:
    nonce = mapping(metadata).get(NONCE_KEY)
    if isinstance(nonce, str):
        return nonce
    return "" if keeps_names else None


def _read_refusal(batch: JsonObject, address: str, tidy: Callable[[str], str]) -> JudgeError:
    """Explain why a batch was refused once the service had looked at it; it processed nothing."""
    errors = mapping(batch.get("errors")).get("data")
    problems = [mapping(error) for error in errors] if isinstance(errors, list) else []
    reasons = "; ".join(f"{error.get('code')}: {error.get('message')}" for error in problems[:3])
    has_room = all(each.get("code") != _NO_ROOM for each in problems)
    return JudgeError(
        f"{address} refused batch {batch['id']} as a whole, and bills nothing of it: "
        f"{tidy(reasons or 'without a word')}",
        failure=JudgeFailure.INVALID if has_room else JudgeFailure.NOT_ACCEPTED,
    )


def _time(seconds: Any) -> datetime | None:
    is_known = isinstance(seconds, int | float) and 0 < seconds < _MAX_TOKENS
    return datetime.fromtimestamp(seconds, UTC) if is_known else None


def read_batch_line(line: bytes, *, not_sent: str = "") -> ReplyRow | None:
    """Read a line of a batch's output or error file; None if it is not a row.

    Args:
        line: The line.
        not_sent: The fields that its batch had to do without, with commas between them.
    """
    row = parse_object(line)
    custom_id = row.get("custom_id") if row is not None else None
    if row is None or not isinstance(custom_id, str):
        return None
    response, error = mapping(row.get("response")), mapping(row.get("error"))
    body = mapping(response.get("body"))
    raw = _write({**row, NOT_SENT: not_sent.split(",")} if not_sent else row)
    if response.get("status_code") == 200:
        reply = read_completion(custom_id, body, raw=raw)
        if reply is not None:
            return reply
        error = {"code": "api_error", "message": "the row holds no chat completion"}
    problem = mapping(body.get("error")) or error
    code = str(error.get("code"))
    status, message = response.get("status_code"), keepable(str(problem.get("message")))
    names = [str(problem[name]) for name in ("type", "code") if problem.get(name)]
    kind = error_type_of(names or ["api_error"], status if type(status) is int else None, message)
    return ReplyRow(
        custom_id=custom_id,
        result_type=_RESULT_TYPES.get(code, "errored"),
        error_type=kind if code not in _RESULT_TYPES else None,
        error_message=message,
        raw=printable(raw),
    )


_RESULT_TYPES = {"batch_expired": "expired", "batch_cancelled": "canceled"}


def keepable(text: str) -> str:
    """Return a text that every database can hold, without lone surrogates and NUL."""
    return printable(text).replace("\x00", "\N{REPLACEMENT CHARACTER}")


_MAX_TOKENS = 2**31 - 1  # what a column of every database holds, and no reply reaches


def count_of(usage: JsonObject, name: str) -> int | None:
    """Return a count of tokens; None where the server does not say, or says nonsense."""
    value = usage.get(name)
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else None


def read_usage(answer: JsonObject) -> TokenUsage | None:
    """Return the tokens that an answer took; None where the server does not say all of them."""
    usage = mapping(answer.get("usage"))
    read, written = count_of(usage, "prompt_tokens"), count_of(usage, "completion_tokens")
    if read is None or written is None:
        return None
    details = mapping(usage.get("prompt_tokens_details"))
    cached = min(count_of(details, "cached_tokens") or 0, read)
    stored = min(count_of(details, "cache_write_tokens") or 0, read - cached)
    # Some servers count a model's thinking only in the total.
    written = max(written, (count_of(usage, "total_tokens") or 0) - read)
    return TokenUsage(read - cached - stored, written, stored, cached)


_ADVICE = {
    401: "; the key was refused: check the environment variable that api_key_env names",
    403: "; the key was refused for this: check the environment variable that api_key_env names",
    404: "; model or address not found: check model, and base_url, which usually ends in /v1",
    405: "; this is not a chat server: check base_url, which usually ends in /v1",
}


def describe_failure(
    error: Exception, origin: str, *, quote: Callable[[str], str], sent: JsonObject
) -> str:
    """Describe what went wrong and what to do.

    Args:
        error: What the SDK, or the HTTP library under it, raised.
        origin: The server's address.
        quote: Makes the server's words fit to show, with the key removed.
        sent: The request's body.
    """
    status = getattr(error, "status_code", None)
    if status is None:
        if was_never_sent(error) and tls_problem(error) is None:
            return f"no connection to {origin}; start the server or correct base_url, and run again"
        return describe_silence(error, origin, quote=quote)
    if 300 <= status < 400:
        return describe_redirect(error, status, origin, place="as base_url")
    answer = f"{origin} answered {status}: {quote(_said(error))}"
    if remedy_of(error, sent) is Remedy.WHEN_PAID:
        return answer + PAY
    return answer + _ADVICE.get(status, "")


def _said(error: Exception) -> str:
    """Return a server's explanation: OpenAI has `message`, FastAPI `detail`, others plain text."""
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        return str(body.get("message") or body.get("detail") or body.get("error") or dict(body))
    return str(body or "without a word")
