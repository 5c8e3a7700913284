"""What the judge is asked, to the byte, and the key under which its reply is kept.

The key is SHA-256 over the whole serialised request, so whatever changes what the judge sees
changes the key, and nothing else does. Names of entrants are not shown to the judge: two pairs
with the same prompt and the same two responses are one request, asked and paid for once.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.fingerprints import canonical_json, fingerprint
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.judging.batch_service import MessageParams, TextBlock
from tournament_assets.judging.requests.columns import (
    DIGEST_WORDS,
    ENVELOPE_BYTES,
    KEY_BYTES,
    Columned,
    ModelRequest,
    RequestColumns,
    empty_columns,
)
from tournament_assets.judging.requests.pairs import (
    PRESENTATIONS,
    PairToJudge,
    Presentation,
)
from tournament_assets.judging.requests.system_prompt import judge_system_prompt
from tournament_assets.judging.requests.verdict_parsing import ReplyFormat, output_config
from tournament_assets.tournament.completions import break_marks
from tournament_assets.tournament.judges import Rubric
from tournament_assets.tournament.prompts import CURATED_SOURCE

_FENCE_LENGTH = 8
NONCE_LENGTH = 12
"""Characters of our own name for a batch: hexadecimal digits."""
_NONCE = re.compile(f"[0-9a-f]{{{NONCE_LENGTH}}}")


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """The settings of a request besides the pair.

    Attributes:
        max_tokens: The most tokens of its reply.
        shows_gold_answer: Show the gold answer, where there is one.
        shows_expected_behavior: Show the expected behaviour, where there is one.
        reply_format: How the judge writes its verdict.
        domain: What the built-in instructions call the prompts, such as `medical`; empty for
            prompts of any kind.
        temperature: The judge's sampling temperature; not sent if None.
        breaks_templates: Whether marks of chat templates are broken in what the judge sees.
        further: Further parameters, where the judge gives some; of `output_config` a part.
        identity: Part of the keys besides what is sent, so that a reply to the same request from
            another service or revision is not taken for this one's; empty for the services
            supported first.
    """

    judge_model: str
    max_tokens: int
    shows_gold_answer: bool
    shows_expected_behavior: bool
    reply_format: ReplyFormat = "line"
    domain: str = ""
    temperature: float | None = None
    breaks_templates: bool = False
    further: JsonObject = field(default_factory=dict)
    identity: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JudgeRequest(ModelRequest):
    """One presentation of one pair, as it is sent; its key is a SHA-256 over `params`.

    Attributes:
        entrant_a: The pair's first entrant, whichever is shown first here.
        entrant_b: The pair's second entrant.
        presentation: Whose response is shown as response A.
        sample: Which of their answers to the prompt are shown, from 1.
    """

    prompt_id: str
    entrant_a: str
    entrant_b: str
    presentation: Presentation
    sample: int = 1

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self.params["model"]


@dataclass(frozen=True, slots=True)
class KeyedPair:
    """A presentation of a pair and its request's key: all of a `JudgeRequest` but parameters."""

    request_key: str
    model: str
    prompt_id: str
    entrant_a: str
    entrant_b: str
    presentation: Presentation
    sample: int


ShownPair = JudgeRequest | KeyedPair
"""Whatever names a presentation of a pair and its request."""


def build_system_message(
    rubric: Rubric, reply_format: ReplyFormat = "line", *, domain: str = ""
) -> str:
    """Compose the system prefix: the instructions, then the whole rubric.

    It is byte-identical over a batch, so that every request can read it from the cache.
    """
    header = judge_system_prompt(reply_format, domain=domain, instructions=rubric.instructions)
    return f"{header.strip()}\n\n{rubric.text}\n"


def build_user_message(
    pair: PairToJudge, presentation: Presentation, settings: RequestSettings
) -> str:
    """Compose the part of a request that varies."""
    return fence_parts(
        (name, break_marks(text, of_templates=settings.breaks_templates))
        for name, text in _parts(pair, presentation, settings)
    )


def fence_parts(parts: Iterable[tuple[str, str]]) -> str:
    """Enclose every part in tags with a fence code derived from the contents.

    A response would have to contain a hash of itself to imitate the end of its own fence.
    """
    texts = list(parts)
    fence = fingerprint(texts)[:_FENCE_LENGTH]
    return _fenced(((name, printable(text)) for name, text in texts), fence)


def system_block(text: str) -> TextBlock:
    """Return a system text that all requests have in common, to be read from the prompt cache."""
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": "1h"}}


def _parts(
    pair: PairToJudge, presentation: Presentation, settings: RequestSettings
) -> list[tuple[str, str]]:
    """Return the parts of a message with their names, in order."""
    responses = [pair.response_a, pair.response_b]
    if presentation is Presentation.BA:
        responses.reverse()
    names = ("response_a", "response_b")
    return [*question_of(pair, settings), *zip(names, responses, strict=True)]


def question_of(pair: PairToJudge, settings: RequestSettings) -> list[tuple[str, str]]:
    """Return what is shown before the two responses, in parts with their names."""
    parts = [("prompt", pair.prompt_text)]
    if settings.shows_gold_answer and pair.gold_answer is not None:
        parts.append(("gold_answer", pair.gold_answer))
    # Beside a gold answer it was only ever shown for this source, and keys must not change.
    may_show = pair.source == CURATED_SOURCE or pair.gold_answer is None
    if settings.shows_expected_behavior and pair.expected_behavior is not None and may_show:
        parts.append(("expected_behavior", pair.expected_behavior))
    return parts


def _fenced(
    parts: Iterable[tuple[str, str]], fence: str, *, quote: str = '"', newline: str = "\n"
) -> str:
    """Enclose every part in its tags; as inside of JSON where quote and newline are escaped."""
    fenced = f"fence={quote}{fence}{quote}>"
    return (newline * 2).join(
        f"<{name} {fenced}{newline}{text}{newline}</{name} {fenced}" for name, text in parts
    )


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def printable(text: str) -> str:
    """Replace lone surrogates, which cannot be sent as UTF-8, by the replacement character."""
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


class JudgeRequests(Columned[JudgeRequest]):
    """The presentations of every pair, in the order of the pairs, each built when it is looked at.

    A tournament of forty entrants has 600,000 requests of several kilobytes: only the pairs, whose
    texts are shared, and the columns are kept.
    """

    def __init__(
        self, pairs: Sequence[PairToJudge], rubric: Rubric, settings: RequestSettings
    ) -> None:
        self._pairs = pairs
        self._settings = settings
        text = build_system_message(rubric, settings.reply_format, domain=settings.domain)
        self._system: Sequence[TextBlock] = [system_block(text)]

    @cached_property
    def columns(self) -> RequestColumns:
        """What is known of each request: every text and the rest are encoded once for all."""
        settings, writer = self._settings, _KeyWriter(self._params(_MESSAGE), self._settings)
        size = len(canonical_json(self._system).encode())
        columns = replace(
            empty_columns(len(self)),
            caps=self._same(settings.max_tokens),
            prefix_sizes=self._same(size),
            prefix_characters=self._same(len(self._system[0]["text"])),
        )
        for number, pair in enumerate(self._pairs):
            for place, presentation in enumerate(PRESENTATIONS, len(PRESENTATIONS) * number):
                writer.write(_parts(pair, presentation, settings), columns, place)
        return columns

    def _same(self, number: int) -> NDArray[np.int32]:
        """Return a column of one number, which takes no memory."""
        return np.broadcast_to(np.int32(number), len(self))

    @property
    def pairs(self) -> Sequence[PairToJudge]:
        """The pairs; each has one request per presentation."""
        return self._pairs

    def shown(self, position: int) -> KeyedPair:
        """Return what the request at a place shows, without building it."""
        pair = self.pair_of(position)
        return KeyedPair(
            self.columns.key(position),
            self._settings.judge_model,
            pair.prompt_id,
            pair.entrant_a,
            pair.entrant_b,
            PRESENTATIONS[position % len(PRESENTATIONS)],
            pair.sample,
        )

    def __len__(self) -> int:
        return len(PRESENTATIONS) * len(self._pairs)

    def pair_of(self, position: int) -> PairToJudge:
        """Return the pair that the request at a place shows."""
        return self._pairs[position // len(PRESENTATIONS)]

    @overload
    def __getitem__(self, index: int) -> JudgeRequest: ...

    @overload
    def __getitem__(self, index: slice) -> list[JudgeRequest]: ...

    def __getitem__(self, index: int | slice) -> JudgeRequest | list[JudgeRequest]:
        positions = range(len(self))[index]
        if isinstance(positions, range):
            return [self._build(position) for position in positions]
        return self._build(positions)

    def _params(self, message: str) -> MessageParams:
        settings = self._settings
        params: MessageParams = {
            "model": settings.judge_model,
            "max_tokens": settings.max_tokens,
            "system": self._system,
            "messages": [{"role": "user", "content": message}],
        }
        params = cast("MessageParams", {**params, **settings.further})
        if settings.reply_format == "json_schema":
            params["output_config"] = {**params.get("output_config", {}), **output_config()}
        if settings.temperature is not None:
            params["temperature"] = settings.temperature
        return params

    def _build(self, position: int) -> JudgeRequest:
        pair = self.pair_of(position)
        presentation = PRESENTATIONS[position % len(PRESENTATIONS)]
        return JudgeRequest(
            request_key=self.columns.key(position),
            prompt_id=pair.prompt_id,
            entrant_a=pair.entrant_a,
            entrant_b=pair.entrant_b,
            presentation=presentation,
            params=self._params(build_user_message(pair, presentation, self._settings)),
            sample=pair.sample,
        )


_MESSAGE = "the message, which differs from request to request"


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A text as it is hashed for its fence and as it is sent, both inside of JSON."""

    hashed: bytes
    sent: str
    n_characters: int


class _KeyWriter:
    """Hashes and measures requests that differ in their message alone.

    Args:
        params: The parameters of such a request with the message `_MESSAGE`.
    """

    def __init__(self, params: MessageParams, settings: RequestSettings) -> None:
        identity = settings.identity
        hashed = canonical_json({**identity, "params": params} if identity else params)
        head, tail = (part.encode() for part in hashed.split(_MESSAGE, 1))
        self._start, self._tail = hashlib.sha256(head), tail
        sent = len(canonical_json(params).encode()) - len(_MESSAGE)
        self._empty_size = sent + ENVELOPE_BYTES
        messages = canonical_json(params["messages"]).encode()
        self._empty_message_size = len(messages) - len(_MESSAGE)
        self._breaks_templates = settings.breaks_templates
        self._encoded: dict[str, _Encoded] = {}

    def write(self, parts: Sequence[tuple[str, str]], columns: RequestColumns, place: int) -> None:
        """Write the row of a request with some parts."""
        encoded = [(name, self._encode(text)) for name, text in parts]
        hashed = b",".join(b'["%s",%s]' % (name.encode(), text.hashed) for name, text in encoded)
        fence = hashlib.sha256(b"[%s]" % hashed).hexdigest()[:_FENCE_LENGTH]
        message = _fenced(
            ((name, text.sent) for name, text in encoded), fence, quote='\\"', newline="\\n"
        ).encode()
        digest = self._start.copy()
        digest.update(message)
        digest.update(self._tail)
        columns.digests[place] = np.frombuffer(digest.digest(), dtype=DIGEST_WORDS)
        columns.sizes[place] = self._empty_size + len(message)
        columns.message_sizes[place] = self._empty_message_size + len(message)
        frame = _fenced(((name, "") for name, _ in encoded), fence)
        columns.characters[place] = len(frame) + sum(text.n_characters for _, text in encoded)

    def _encode(self, text: str) -> _Encoded:
        encoded = self._encoded.get(text)
        if encoded is None:
            broken = break_marks(text, of_templates=self._breaks_templates)
            shown = printable(broken)
            hashed = canonical_json(broken).encode("utf-8", errors="surrogatepass")
            encoded = _Encoded(hashed, canonical_json(shown)[1:-1], len(shown))
            self._encoded[text] = encoded
        return encoded


def by_pair(pairs: Iterable[PairToJudge], asked: Sequence[JudgeRequests]) -> Iterator[KeyedPair]:
    """Yield several judges' presentations pair by pair, and within a pair judge by judge.

    Args:
        asked: The requests to each judge, about these pairs or some of them in the same order.
    """
    places = [0] * len(asked)
    for pair in pairs:
        for index, requests in enumerate(asked):
            while places[index] < len(requests) and requests.pair_of(places[index]) == pair:
                yield requests.shown(places[index])
                places[index] += 1


def effort_of(params: Mapping[str, Any]) -> str | None:
    """Return how hard a request lets the model think, in words; None if it does not say."""
    effort = params.get("output_config", {}).get("effort")
    thinking = params.get("thinking", {})
    kind = thinking.get("budget_tokens", thinking.get("type"))
    return " ".join(str(word) for word in (effort, kind) if word is not None) or None


def custom_id(nonce: str, request_key: str) -> str:
    """Name a request within a batch, by the batch's nonce and the request's key.

    The provider allows 64 characters, so the key's 32 bytes are written in URL-safe base64.
    """
    encoded = base64.urlsafe_b64encode(bytes.fromhex(request_key)).decode().rstrip("=")
    return f"{nonce}-{encoded}"


def request_key_of(name: str, *, nonce: str) -> str | None:
    """Undo `custom_id`; None if the name was not given by this batch."""
    prefix = f"{nonce}-"
    if not name.startswith(prefix):
        return None
    try:
        decoded = base64.urlsafe_b64decode(name.removeprefix(prefix) + "=")
    except ValueError:
        return None
    if len(decoded) != KEY_BYTES or custom_id(nonce, decoded.hex()) != name:
        return None
    return decoded.hex()


def read_custom_id(name: str) -> tuple[str, str] | None:
    """Return the nonce and the key in a custom id of ours; None if it is not ours."""
    nonce = name[:NONCE_LENGTH]
    key = request_key_of(name, nonce=nonce) if _NONCE.fullmatch(nonce) else None
    return None if key is None else (nonce, key)
