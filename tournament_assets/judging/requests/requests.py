"""What the judge is asked, to the byte, and the key under which its reply is kept.

The key is SHA-256 over the whole serialised request, so whatever changes what the judge sees
changes the key, and nothing else does. Names of entrants are not shown to the judge: two pairs
with the same prompt and the same two responses are one request, asked and paid for once.
"""

import base64
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast, overload

import numpy as np

from tournament_assets.foundation.fingerprints import canonical_json, fingerprint
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.judging.batch_service import MessageParams, TextBlock
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
_KEY_BYTES = 32
_GOLDEN_RATIO = (5**0.5 - 1) / 2
NONCE_LENGTH = 12
"""Characters of our own name for a batch: hexadecimal digits."""
_NONCE = re.compile(f"[0-9a-f]{{{NONCE_LENGTH}}}")
AnyRequest = TypeVar("AnyRequest", bound="ModelRequest")


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
class ModelRequest:
    """A request to a model, with all that sending, waiting and harvesting need of it.

    Attributes:
        request_key: Names the reply in the ledger: SHA-256 of whatever the reply depends on.
        params: The request's parameters, as JSON values named as in the Messages API; other
            providers translate them in their own folder.
    """

    request_key: str
    params: MessageParams


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
    """Compose the part of a request that varies.

    Every part is enclosed in tags with a fence code derived from the contents: a response would
    have to contain a hash of itself to imitate the end of its own fence.
    """
    swapped = presentation is Presentation.BA
    parts = [("prompt", pair.prompt_text)]
    if settings.shows_gold_answer and pair.gold_answer is not None:
        parts.append(("gold_answer", pair.gold_answer))
    # Beside a gold answer it was only ever shown for this source, and keys must not change.
    may_show = pair.source == CURATED_SOURCE or pair.gold_answer is None
    if settings.shows_expected_behavior and pair.expected_behavior is not None and may_show:
        parts.append(("expected_behavior", pair.expected_behavior))
    parts.append(("response_a", pair.response_b if swapped else pair.response_a))
    parts.append(("response_b", pair.response_a if swapped else pair.response_b))
    parts = [
        (name, break_marks(text, of_templates=settings.breaks_templates)) for name, text in parts
    ]
    fence = fingerprint(parts)[:_FENCE_LENGTH]
    return "\n\n".join(
        f'<{name} fence="{fence}">\n{printable(text)}\n</{name} fence="{fence}">'
        for name, text in parts
    )


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def printable(text: str) -> str:
    """Replace lone surrogates, which cannot be sent as UTF-8, by the replacement character."""
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


class JudgeRequests(Sequence[JudgeRequest]):
    """The presentations of every pair, in the order of the pairs, each built when it is looked at.

    A tournament of forty entrants has 600,000 requests of several kilobytes: only the pairs, whose
    texts are shared, and the keys are kept.
    """

    def __init__(
        self, pairs: Sequence[PairToJudge], rubric: Rubric, settings: RequestSettings
    ) -> None:
        self._pairs = pairs
        self._settings = settings
        self._system: Sequence[TextBlock] = [
            {
                "type": "text",
                "text": build_system_message(rubric, settings.reply_format, domain=settings.domain),
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            }
        ]
        # As bytes, side by side: texts would take five times the memory.
        self._keys = bytearray(_KEY_BYTES * len(self))
        self._has_key = bytearray(len(self))

    @property
    def n_distinct(self) -> int:
        """How many distinct requests there are: pairs with the same texts share theirs."""
        return len(KeyPositions(self))

    def keys(self) -> Iterator[str]:
        """Yield the requests' keys; a request whose key is known is not built for it."""
        for position in range(len(self)):
            if self._has_key[position]:
                yield self._key(position)
            else:
                yield self._build(position).request_key

    def _key(self, position: int) -> str:
        return self._keys[_KEY_BYTES * position : _KEY_BYTES * (position + 1)].hex()

    @property
    def pairs(self) -> Sequence[PairToJudge]:
        """The pairs; each has one request per presentation."""
        return self._pairs

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

    def _build(self, position: int) -> JudgeRequest:
        settings = self._settings
        pair = self.pair_of(position)
        presentation = PRESENTATIONS[position % len(PRESENTATIONS)]
        message = build_user_message(pair, presentation, settings)
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
        if not self._has_key[position]:
            identity = settings.identity
            key = fingerprint({**identity, "params": params} if identity else params)
            self._keys[_KEY_BYTES * position : _KEY_BYTES * (position + 1)] = bytes.fromhex(key)
            self._has_key[position] = True
        return JudgeRequest(
            request_key=self._key(position),
            prompt_id=pair.prompt_id,
            entrant_a=pair.entrant_a,
            entrant_b=pair.entrant_b,
            presentation=presentation,
            params=params,
            sample=pair.sample,
        )


def by_pair(pairs: Iterable[PairToJudge], asked: Sequence[JudgeRequests]) -> Iterator[JudgeRequest]:
    """Yield several judges' requests pair by pair, and within a pair judge by judge.

    Args:
        asked: The requests to each judge, about these pairs or some of them in the same order.
    """
    places = [0] * len(asked)
    for pair in pairs:
        for index, requests in enumerate(asked):
            while places[index] < len(requests) and requests.pair_of(places[index]) is pair:
                yield requests[places[index]]
                places[index] += 1


def effort_of(params: Mapping[str, Any]) -> str | None:
    """Return how hard a request lets the model think, in words; None if it does not say."""
    effort = params.get("output_config", {}).get("effort")
    thinking = params.get("thinking", {})
    kind = thinking.get("budget_tokens", thinking.get("type"))
    return " ".join(str(word) for word in (effort, kind) if word is not None) or None


def with_larger_cap(request: AnyRequest) -> AnyRequest:
    """Return the same request with twice the reply cap; it keeps its key."""
    return _with_cap(request, 2 * request.params["max_tokens"])


def with_smaller_cap(request: AnyRequest, n_tokens: int) -> AnyRequest:
    """Return the same request with a cap of some tokens, besides those that it gives to thinking.

    It keeps its key: a reply that is not cut off is the same under any cap.
    """
    given: Mapping[str, Any] = request.params
    n_tokens += given.get("thinking", {}).get("budget_tokens", 0)
    return _with_cap(request, min(n_tokens, request.params["max_tokens"]))


def _with_cap(request: AnyRequest, max_tokens: int) -> AnyRequest:
    params: MessageParams = {**request.params, "max_tokens": max_tokens}
    return replace(request, params=params)


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
    if len(decoded) != _KEY_BYTES or custom_id(nonce, decoded.hex()) != name:
        return None
    return decoded.hex()


def read_custom_id(name: str) -> tuple[str, str] | None:
    """Return the nonce and the key in a custom id of ours; None if it is not ours."""
    nonce = name[:NONCE_LENGTH]
    key = request_key_of(name, nonce=nonce) if _NONCE.fullmatch(nonce) else None
    return None if key is None else (nonce, key)


def serialised_size(request: ModelRequest) -> int:
    """Return the bytes of a request as it is sent, for cutting batches."""
    return len(canonical_json(request.params).encode()) + 100


def request_keys(requests: Iterable[ModelRequest]) -> Iterator[str]:
    """Yield the requests' keys, in their order, without building a request whose key is known."""
    if isinstance(requests, JudgeRequests):
        return requests.keys()
    return (request.request_key for request in requests)


class KeyPositions(Mapping[str, int]):
    """The first position of each distinct request, by its key, in the requests' order.

    Kept as sorted digests in an array: a dictionary of texts would take six times the memory.
    """

    def __init__(self, requests: Iterable[ModelRequest]) -> None:
        joined = bytearray()
        for key in request_keys(requests):
            joined += bytes.fromhex(key)
        digests = np.frombuffer(joined, dtype=">u8").reshape(-1, _KEY_BYTES // 8)
        digests = digests.astype(np.uint64)  # (n_requests, 4)
        # Stable, so that of equal digests the first one of the requests comes first.
        order = np.lexsort(digests.T[::-1])
        digests = digests[order]
        is_first = np.ones(len(order), dtype=bool)
        is_first[1:] = (digests[1:] != digests[:-1]).any(axis=1)
        self._positions = order[is_first].astype(np.uint32)
        self._digests = digests[is_first]
        self._leading = np.ascontiguousarray(self._digests[:, 0])

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[str]:
        for place in np.argsort(self._positions):
            yield self._digests[place].astype(">u8").tobytes().hex()

    def __getitem__(self, key: str) -> int:
        digest = np.frombuffer(bytes.fromhex(key), dtype=">u8").astype(np.uint64)
        place = int(np.searchsorted(self._leading, digest[0]))
        while place < len(self) and self._leading[place] == digest[0]:
            if (self._digests[place] == digest).all():
                return int(self._positions[place])
            place += 1
        raise KeyError(key)


class Selection(Sequence[ModelRequest]):
    """Some of the requests, each built when it is looked at.

    Args:
        requests: All of them.
        positions: Positions of the chosen requests.
        cut_off: Positions of the chosen requests that get a larger reply cap.
    """

    def __init__(
        self,
        requests: Sequence[ModelRequest],
        positions: Sequence[int],
        cut_off: AbstractSet[int] = frozenset(),
    ) -> None:
        self._requests = requests
        self._positions = positions
        self._cut_off = cut_off

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, index: int) -> ModelRequest: ...

    @overload
    def __getitem__(self, index: slice) -> "Selection": ...

    def __getitem__(self, index: int | slice) -> "ModelRequest | Selection":
        if isinstance(index, slice):
            return Selection(self._requests, self._positions[index], self._cut_off)
        position = self._positions[index]
        request = self._requests[position]
        return with_larger_cap(request) if position in self._cut_off else request

    def spread(self, most: int) -> "Selection":
        """Return some of them, evenly spread; even the first few are far apart."""
        size = min(most, len(self))
        order = sorted(range(size), key=lambda number: number * _GOLDEN_RATIO % 1)
        positions = [self._positions[number * len(self) // size] for number in order]
        return Selection(self._requests, positions, self._cut_off)

    def drop(self, positions: AbstractSet[int]) -> "Selection":
        """Return those that do not have one of some positions, without building any."""
        left = array("L", (each for each in self._positions if each not in positions))
        return Selection(self._requests, left, self._cut_off)

    def without(self, answered: AbstractSet[str]) -> "Selection":
        """Return those whose key is not among the answered ones."""
        left = array(
            "L",
            (
                position
                for position, request in zip(self._positions, self, strict=True)
                if request.request_key not in answered
            ),
        )
        return Selection(self._requests, left, self._cut_off)
