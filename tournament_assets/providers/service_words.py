"""Reading a service's answers without trust, and showing its words without the key."""

import base64
import html
import json
import logging
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from itertools import islice
from typing import Any

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.judging.batch_service import (
    UNPARSABLE,
    BatchStatus,
    ReplyRow,
    SubmittedRequest,
    limit_rows,
)
from tournament_assets.judging.service_errors import CAUSES, Remedy, remedy_for
from tournament_assets.tournament.places import origin_of

_HIDDEN = "[key]"
_QUOTED_LENGTH = 500
_LINE_BEGINNING = 2000  # bytes to keep of a line that is not a row
_LONGEST_LINE = 16_000_000  # bytes; no reply comes near
_LONGEST_GAP = 64_000_000  # bytes from one line to the next
_CUT = b"\0"
_MOST_PAGES = 1_000
_SAME_TIME = timedelta(seconds=5)  # dates are in whole seconds, and answers take a while
_LONGEST_BEGINNING = 20_000  # characters, or parts of a value
_LARGE = 1_000_000  # bytes
_MOST_VALUES = 500_000  # lists and objects of a large answer, or four texts: they take far more
_LONGEST_WAIT = timedelta(days=1)
_TEXTS = ("text", "error_type", "error_message", "model", "raw")
_LOG = logging.getLogger(__name__)


def parse_object(text: str | bytes) -> JsonObject | None:
    """Parse a text as a JSON object; return None if it is not one, or would fill the memory."""
    if len(text) > _LARGE:
        signs: Sequence[Any] = '{["' if isinstance(text, str) else (b"{", b"[", b'"')
        n_objects, n_lists, n_quotes = map(text.count, signs)
        if n_objects + n_lists + n_quotes // 4 > _MOST_VALUES:
            return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None


class ServiceAnswers(ABC):
    """The answers of a service at an address, read without trust and shown without its key."""

    _address: str
    _keys: Sequence[str]
    _errors: tuple[type[Exception], ...]
    _ahead: timedelta | None = None

    def _note_time(self, response: Any) -> None:
        """Learn from an answer's `Date` how far the service's clock is ahead of this machine's."""
        try:
            ahead = parsedate_to_datetime(response.headers["date"]) - datetime.now(UTC)
        except (KeyError, ValueError, TypeError, OverflowError):
            return
        self._ahead = ahead if abs(ahead) > _SAME_TIME else timedelta(0)

    def _by_own_clock(self, status: BatchStatus | None) -> BatchStatus | None:
        """Return a status with its time as this machine's clock showed it, if that is known.

        A service whose answers have no `Date` may have any clock.
        """
        if status is None or status.created_at is None or self._ahead == timedelta(0):
            return status
        try:
            created_at = None if self._ahead is None else status.created_at - self._ahead
        except OverflowError:
            created_at = None
        return replace(status, created_at=created_at)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self._address!r})"

    @abstractmethod
    def _describe(self, error: Exception, sent: JsonObject) -> str:
        """Describe what went wrong, and what to do."""

    @contextmanager
    def _translated_errors(
        self, task: str, *, may_cost: bool = False, sent: JsonObject | None = None
    ) -> Iterator[None]:
        """Describe what went wrong without the SDK's exception, whose request carries the key."""
        sent = sent or {}
        try:
            yield
        except self._errors as error:
            raise JudgeError(
                f"could not {task}: {self._describe(error, sent)}",
                failure=classify_failure(error, may_cost=may_cost, sent=sent),
                retry_after_seconds=read_retry_after(error),
                fields=refused_fields(error, sent),
            ) from None

    def _tidy(self, text: str) -> str:
        """Shorten the service's words, and remove the keys if they repeat them."""
        return quote_service(self._hide(text), key=None, length=_QUOTED_LENGTH)

    def _hide(self, text: str) -> str:
        for key in self._keys:
            text = hide_key(text, key)
        return text

    def _read_object(self, text: str, task: str, *, may_cost: bool = False) -> JsonObject:
        answer = parse_object(text)
        if answer is None:
            raise self._unexpected(text, task, "a JSON object", may_cost=may_cost)
        return answer

    def _unexpected(
        self, answer: object, task: str, expected: str, *, may_cost: bool = False
    ) -> JudgeError:
        return JudgeError(
            f"could not {task}: {self._address} answered {self._tidy(_beginning(answer))!r}; "
            f"expected {expected}",
            failure=JudgeFailure.AMBIGUOUS if may_cost else JudgeFailure.TRANSIENT,
        )

    def _list(
        self, task: str, fetch: Callable[[str], JsonObject], last_of: Callable[[JsonObject], Any]
    ) -> Iterator[JsonObject]:
        """Yield the rows of a list page by page, and refuse one that does not come to an end.

        Args:
            fetch: Gets the page that begins after a name; the first one after an empty name.
            last_of: Returns the name that a page says the next one begins after.
        """
        after, pages = "", set[str]()
        while True:
            page = fetch(after)
            rows, has_more, last = page.get("data"), page.get("has_more") is True, last_of(page)
            # What is not in the list was never accepted, so half a list is worse than none.
            if not isinstance(rows, list) or (has_more and not isinstance(last, str)):
                expected = "a page of batches and, if there are more, where they begin"
                raise self._unexpected(page, task, expected)
            yield from map(mapping, rows)
            if not has_more:
                return
            after = str(last)
            if after in pages or len(pages) >= _MOST_PAGES:
                raise JudgeError(
                    f"could not {task}: {self._address} gave {len(pages) + 1} pages and goes on "
                    f"after {self._tidy(after)!r}; expected a list that ends",
                    failure=JudgeFailure.TRANSIENT,
                )
            pages.add(after)

    def _rows(
        self, chunks: Iterator[bytes], read: Callable[[bytes], ReplyRow | None], n_requests: int
    ) -> Iterator[ReplyRow]:
        """Yield the rows of a stream of results, whose lines are read one by one.

        An unreadable line is yielded as a row of the type `UNPARSABLE`, unless it is the last one
        without a line end: then the stream ended early.
        """
        for line in limit_rows(split_lines(chunks), n_requests, self._address):
            if (row := read(line)) is not None:
                yield self._without_key(row)
            elif line.endswith(b"\n"):
                beginning = self._tidy(line[:_LINE_BEGINNING].decode(errors="backslashreplace"))
                yield ReplyRow(result_type=UNPARSABLE, error_message=beginning)

    def _without_key(self, row: ReplyRow) -> ReplyRow:
        """Hide the keys in a row, which is stored and shown."""
        is_reply = row.result_type == "succeeded"
        # Looking for every way of writing a key takes longer than reading a reply.
        keys = [key for key in self._keys if not is_reply or _is_in_reply(key, row.raw)]
        if not keys:
            return row
        texts = {name: getattr(row, name) for name in _TEXTS}
        for key in keys:
            texts = {name: text and hide_key(text, key) for name, text in texts.items()}
        return replace(row, **texts)

    def _asked_for(
        self, refusal: JudgeError, request: SubmittedRequest, *, stops: bool = False
    ) -> JudgeError:
        """Return a refusal with what to do about the fields of the config that it names.

        Args:
            stops: Whether to stop asking: every request has these fields.
        """
        extra = {name: f"extra_body.{name}" for name in request.params.get("extra_body", {})}
        settings = {**_SETTINGS, **extra}
        named = sorted(settings[field] for field in refusal.fields & settings.keys())
        if not named:
            return refusal
        return JudgeError(
            f"{refusal}; the config asks for {' and '.join(named)}: remove it there, or name a "
            "model that takes it",
            failure=JudgeFailure.FATAL if stops else refusal.failure,
            fields=refusal.fields,
        )

    def _unlisted(self, model: str, status_code: int) -> str:
        """Warn that a model could not be looked up: not every gateway has that route."""
        return (
            f"warning: {self._address} answered {status_code} when asked for the "
            f"model {model!r}: it does not know it, or does not list its models; requests "
            "are sent to it anyway: if all of them fail, check the name"
        )


def _beginning(answer: object) -> str:
    """Return the beginning of an answer, with more of it than is ever shown."""
    if isinstance(answer, str):
        return answer[:_LONGEST_BEGINNING]
    parts = json.JSONEncoder(ensure_ascii=False).iterencode(answer)
    return "".join(islice(parts, _LONGEST_BEGINNING))


def mapping(value: Any) -> JsonObject:
    """Return a JSON object as it is, and anything else as an empty one."""
    return value if isinstance(value, Mapping) else {}


def read_retry_after(error: Exception, *, at_most: float = 3600.0) -> float | None:
    """Return for how many seconds a service asks to wait; None if it does not say.

    A negative time, and one of more than a day, say nothing.
    """
    header = _header(error, "retry-after")
    try:
        seconds = float(header)
    except ValueError:
        try:
            # By the service's own clock, where it shows one.
            date = _header(error, "date")
            now = parsedate_to_datetime(date) if date else datetime.now(UTC)
            seconds = max(0.0, (parsedate_to_datetime(header) - now).total_seconds())
        except (ValueError, TypeError, OverflowError):
            return None
    return min(seconds, at_most) if 0 <= seconds <= _LONGEST_WAIT.total_seconds() else None


NOTHING: JsonObject = {}
PAY = f"; {CAUSES['out of credit'].action}, and run again"
"""What to do about an account that cannot pay."""


def problem_of(error: Exception) -> JsonObject:
    """Return what an answer says about its error, which one SDK hands on with its envelope."""
    body = mapping(getattr(error, "body", None))
    return mapping(body.get("error")) or body


def remedy_of(error: Exception, sent: JsonObject) -> Remedy:
    """Return what an answer that is an error calls for; what it quotes of the request is ignored.

    Args:
        error: What the SDK raised, with an HTTP status.
        sent: The request's body.
    """
    problem, body = problem_of(error), getattr(error, "body", None)
    names = (problem.get("type"), problem.get("code"), *mapping(problem.get("details")).values())
    return remedy_for(
        [name for name in names if isinstance(name, str)],
        getattr(error, "status_code", None),
        without_quotations(" ".join(_texts(body)), sent),
    )


def classify_failure(
    error: Exception, *, may_cost: bool, sent: JsonObject = NOTHING
) -> JudgeFailure:
    """Describe what a failure of an SDK means.

    Args:
        error: What the SDK, or the HTTP library under it, raised.
        may_cost: Whether the service may have begun something that is paid for.
        sent: The request's body.
    """
    unclear = JudgeFailure.AMBIGUOUS if may_cost else JudgeFailure.TRANSIENT
    status = getattr(error, "status_code", None)
    if status is None:
        if isinstance(tls_problem(error), ssl.SSLCertVerificationError):
            return JudgeFailure.FATAL
        return JudgeFailure.NOT_ACCEPTED if may_cost and was_never_sent(error) else unclear
    remedy = remedy_of(error, sent)
    if remedy is Remedy.NEVER:
        return JudgeFailure.TOO_LARGE if status == 413 else JudgeFailure.INVALID
    if remedy is not Remedy.AGAIN:
        is_unknown = status == 404 and remedy is Remedy.WHEN_A_PERSON_ACTS
        return JudgeFailure.UNKNOWN if is_unknown else JudgeFailure.FATAL
    if may_cost and status < 500 and status not in (408, 409):
        return JudgeFailure.NOT_ACCEPTED
    if may_cost and status == 529:
        return JudgeFailure.OVERLOADED
    return unclear


_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "stop": "stop",
    "seed": "seed",
    "reasoning_effort": "effort",
    "output_config": "effort or reply_format",
    "thinking": "thinking",
}
"""Fields of a request that a config asks for by a setting, and the settings' names."""
_ALIASES = {"response_format": ("json_schema", "grammar", "guided")}
"""What else servers call a field when they refuse it."""


def refused_fields(error: Exception, sent: JsonObject) -> frozenset[str]:
    """Return which of the fields that were sent a refusal names.

    Servers say it in the error's `param`, as the place of each problem (`loc`), or in words, of
    which those that are quoted from the request say nothing.

    Args:
        error: What the SDK raised; only a 400 or 422 refuses a field.
        sent: The request's body.
    """
    if getattr(error, "status_code", None) not in (400, 422):
        return frozenset()
    body = getattr(error, "body", None)
    param = mapping(body).get("param")
    texts = [param] if isinstance(param, str) and param else [*_texts(body, only="loc")]
    text = " ".join(texts) or without_quotations(" ".join(_texts(body)), sent)
    words = frozenset(_WORD.findall(text))
    return frozenset(
        field for field in sent if not words.isdisjoint((field, *_ALIASES.get(field, ())))
    )


def without_quotations(message: str, sent: JsonObject) -> str:
    """Remove from a message what it quotes of a request, in part or escaped.

    These are texts of the conversation, any `_QUOTED_WORDS` words that follow one another there,
    and the names of fields as JSON or Python writes them before a value.
    """
    names = frozenset(_texts(sent))
    texts = [text for name in _WRITTEN for text in _texts(sent.get(name)) if len(text) > _SHORT]
    for text in sorted(texts, key=len, reverse=True):
        message = message.replace(text, " ")
    message = _FIELD.sub(lambda field: " " if field[1] in names else field[0], message)
    written = _WORD.findall(" ".join(texts))
    runs = set(zip(*(written[n:] for n in range(_QUOTED_WORDS)), strict=False))
    words = _WORD.findall(message)
    quoted: set[int] = set()
    for first in range(len(words) - _QUOTED_WORDS + 1):
        if tuple(words[first : first + _QUOTED_WORDS]) in runs:
            quoted.update(range(first, first + _QUOTED_WORDS))
    if not quoted:
        return message
    return " ".join(word for place, word in enumerate(words) if place not in quoted)


_WRITTEN = ("messages", "system", "stop", "stop_sequences")
_SHORT = 3  # characters
_FIELD = re.compile(
    r"""\\*["'](\w+)\\*["']\s*:\s*(?:\\*["'][^"']*["']|(?=[-\d\[{]|[Tt]rue|[Ff]alse|null|None))"""
)
"""A field with its value, as JSON or Python writes them: of a text the whole, else the name."""
_QUOTED_WORDS = 4
_WORD = re.compile(r"\w+")


def _texts(value: Any, *, only: str = "") -> Iterator[str]:
    """Yield all texts in a JSON value, names among them, or only those under some name."""
    if isinstance(value, str) and not only:
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, only=only)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from () if only else (name,)
            yield from _texts(part, only="" if name == only else only)


def was_never_sent(error: Exception) -> bool:
    """Whether no connection was made, so that the request was never sent."""
    from httpx2 import ConnectError, ConnectTimeout

    causes = (error, error.__cause__)
    return any(isinstance(each, (ConnectError, ConnectTimeout)) for each in causes)


def tls_problem(error: Exception) -> ssl.SSLError | None:
    """Return what went wrong with a secure connection; None if nothing did."""
    # The HTTP library raises its own while it handles that of the connection.
    chain = [each for cause in _causes(error) for each in (cause, cause.__context__)]
    return next((each for each in chain if isinstance(each, ssl.SSLError)), None)


def describe_silence(error: Exception, address: str, *, quote: Callable[[str], str]) -> str:
    """Report that there is no answer, or none that is whole, and why.

    Args:
        error: What the SDK, or the HTTP library under it, raised.
        address: The service's address.
        quote: Makes the service's words fit to show, with the key removed.
    """
    problem = tls_problem(error)
    if isinstance(problem, ssl.SSLCertVerificationError):
        return (
            f"no safe connection to {address}: its certificate is refused "
            f"({quote(problem.verify_message)}); renew it, name its authority's file in "
            "SSL_CERT_FILE, or correct the address"
        )
    if problem is not None:
        return f"no safe connection to {address}: TLS failed ({quote(str(problem))})"
    # The first of all says why in words; those of the SDK, which came of it, do not.
    *_, first = _causes(error)
    reason = quote(str(first))
    return f"no complete answer from {address} ({type(error).__name__}{reason and ': '}{reason})"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and, one after the other, what it came from."""
    while error is not None:
        yield error
        error = error.__cause__


def describe_redirect(error: Exception, status: int, address: str, *, place: str) -> str:
    """Report that a redirect was not followed; `place` is the setting for its target."""
    target = origin_of(_header(error, "location")) or "another address of its own"
    return (
        f"{address} answered {status}, a redirect to {target}; redirects are not followed, so that "
        "texts and key reach no other server; if the target is right, give its "
        f"final address {place}"
    )


def _header(error: Exception, name: str) -> str:
    response: Any = getattr(error, "response", None)
    return "" if response is None else str(response.headers.get(name, ""))


def split_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream that hold anything; all but the last end in a line feed.

    Only a line feed ends a line: a text inside a row may hold every other line break there is. Of a
    line longer than `_LONGEST_LINE` the beginning is kept, and a mark that no JSON holds.

    Raises:
        JudgeError: If a line, or a number of blank ones, does not end.
    """
    parts: list[bytes] = []
    size = gap = 0
    for chunk in chunks:
        gap += len(chunk)
        if gap > _LONGEST_GAP:
            raise JudgeError(
                f"{gap:,} bytes of the results are blank, or one line; expected a row a line",
                failure=JudgeFailure.TRANSIENT,
            )
        first, *others = chunk.split(b"\n")
        size += len(first)
        if size <= _LONGEST_LINE:
            parts.append(first)
        elif parts[-1:] != [_CUT]:
            parts = [b"".join([*parts, first])[:_LINE_BEGINNING], _CUT]
        if others:
            size = len(others[-1])
            # Joined once, at its end: a long line is not copied with every chunk.
            *whole, rest = b"".join(parts), *others
            lines = [line + b"\n" for line in whole if line.strip()]
            gap = 0 if lines else gap
            yield from lines
            parts = [rest]
    if (rest := b"".join(parts)).strip():
        yield rest


def clean_key(key: str, *, name: str) -> str:
    """Strip blanks and line ends that a file or a shell left on a key, and say so.

    Args:
        key: The key as it was found.
        name: The environment variable that held it.

    Raises:
        JudgeError: If it holds a character that no key has and no header carries.
    """
    cleaned = key.strip()
    odd = next((number for number, each in enumerate(cleaned, 1) if not "!" <= each <= "~"), None)
    if odd is not None:
        raise JudgeError(
            f"{name or 'the API key'} holds a character that is not printable ASCII (number {odd});"
            " expected an API key as the service shows it; copy it again",
            failure=JudgeFailure.FATAL,
        )
    if cleaned != key and cleaned:
        _LOG.warning("%s begins or ends in blanks or line ends; they were left out", name)
    return cleaned


def quote_service(text: str, *, key: str | None, length: int) -> str:
    """Return a service's words, cut, without the key: it is removed first, so no part stays."""
    return " ".join(hide_key(text, key).split())[:length]


def hide_key(text: str, key: str | None) -> str:
    """Remove a key from a text, however it is encoded.

    Recognised are plain text, percent-encoding (also of what is encoded already), the escapes of
    JSON, Python and HTML, a mixture of those, hexadecimal digits, and Base64 of anything that holds
    the key. A key that no text holds by chance is recognised in any case, and with blanks and line
    ends between its characters.
    """
    return _pattern(key).sub(_HIDDEN, text) if key else text


def _is_in_reply(key: str, raw: str) -> bool:
    """Whether a reply repeats a key; a short key is a word like others."""
    if len(key) < _UNMISTAKABLE:
        return False
    plain = "".join(raw.replace("\\n", "").replace("\\r", "").replace("\\t", "").split())
    return key.casefold() in plain.casefold()


_UNMISTAKABLE = 16
_GAP = (
    r"(?:[\s\u00ad\u200b\ufeff]|\\+[nrtfv]|\\+u(?i:00(?:0[9-d]|20|a0|ad)|200b|feff)"
    r"|%(?:25)*(?i:0[9-d]|20)|&(?:amp;)*(?:nbsp|\#(?:9|10|13|32|160));)*"
)
"""A pattern of blanks and line ends, and of the escapes that stand for them."""


@lru_cache(maxsize=8)
def _pattern(key: str) -> re.Pattern[str]:
    content = key.encode("utf-8", "surrogatepass")
    gap, case = (_GAP, "i") if len(key) >= _UNMISTAKABLE else ("", "-i")
    forms = [f"(?{case}:{gap.join(map(_any_writing, key))})", f"(?i:{content.hex()})"]
    for alphabet in (None, b"-_"):
        forms += [re.escape(inside) for inside in _insides_of_base64(content, alphabet) if inside]
    return re.compile("|".join(dict.fromkeys(forms)))


def _any_writing(character: str) -> str:
    """Return a pattern of a character and of every escape that stands for it."""
    code = ord(character)
    escaped = "".join(
        f"%(?:25)*(?i:{byte:02x})" for byte in character.encode("utf-8", "surrogatepass")
    )
    ways = [
        re.escape(character),
        escaped,
        rf"\\+u(?i:{code:04x})",
        rf"\\+x(?i:{code:02x})",
        rf"&(?:amp;)*#0*{code};",
        rf"&(?:amp;)*#[xX]0*(?i:{code:x});",
        re.escape(html.escape(character)),
        rf"\\+{re.escape(character)}",
    ]
    return f"(?:{'|'.join(dict.fromkeys(ways))})"


def _insides_of_base64(content: bytes, alphabet: bytes | None) -> list[str]:
    """Return the Base64 characters fixed by a content alone, at each of the three offsets."""
    insides = []
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + content, altchars=alphabet).decode()
        last = (offset + len(content)) * 8 // 6  # whole characters of six bits
        inside = encoded[-(-offset * 8 // 6) : last]
        insides.append(inside if len(inside) >= 8 else "")
    return insides
