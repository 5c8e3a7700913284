"""A judge that compares words, not meanings: a stand-in for a language model.

A verdict is a pure function of the request. It does not depend on the order of the responses,
except in a small share of requests, picked by a hash, in which the judge prefers the first slot
as real judges at times do, so that some pairs come out inconsistent.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache

from tournament_assets.loopback import traits as lexicons
from tournament_assets.loopback.traits import (
    Traits,
    examine,
    list_content_words,
    list_words,
)

_OPENING_TAG = re.compile(
    r'<(?:prompt|gold_answer|expected_behavior|response_a|response_b) fence="(?P<code>[^"\n]+)">\n'
)
_DIMENSION_LINE = re.compile(r"^#\s*dimension:\s*(?P<dimension>\w+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ShownParts:
    """What a judge request shows.

    Attributes:
        prompt: What both responses answer.
        gold_answer: The reference answer, if shown.
        expected_behavior: `answer`, `hedge` or `abstain`, if shown.
        response_a: The response shown first.
        response_b: The response shown second.
    """

    prompt: str
    gold_answer: str | None
    expected_behavior: str | None
    response_a: str
    response_b: str


def read_parts(user_text: str) -> ShownParts | None:
    """Read the parts of a user message in their order.

    The code on the very first opening tag is the message's own. A tag with another code is plain
    text of the part in which it stands.

    Returns:
        The parts, or None if the message is no comparison of two responses.
    """
    first = _OPENING_TAG.search(user_text)
    if first is None:
        return None
    reader = _Reader(user_text, first["code"], first.start())
    prompt = reader.read("prompt")
    gold_answer = reader.read("gold_answer")
    expected_behavior = reader.read("expected_behavior")
    response_a = reader.read("response_a")
    response_b = reader.read("response_b")
    if prompt is None or response_a is None or response_b is None:
        return None
    return ShownParts(
        prompt=prompt,
        gold_answer=gold_answer,
        expected_behavior=None if expected_behavior is None else expected_behavior.strip(),
        response_a=response_a,
        response_b=response_b,
    )


# All requests of a batch have the same long system text.
@lru_cache(maxsize=64)
def read_dimension(system_text: str) -> str | None:
    """Return the quality that a system message names in its `# dimension:` line."""
    match = _DIMENSION_LINE.search(system_text)
    return None if match is None else match["dimension"]


class _Reader:
    def __init__(self, text: str, code: str, position: int) -> None:
        self._text = text
        self._code = code
        self._position = position

    def read(self, name: str) -> str | None:
        """Return the part if it is the next one, and step over it."""
        opening = f'<{name} fence="{self._code}">\n'
        closing = f'\n</{name} fence="{self._code}">'
        start = self._position
        while self._text.startswith("\n", start):
            start += 1
        if not self._text.startswith(opening, start):
            return None
        content = start + len(opening)
        # One character back: the two tags of an empty part may share their line break.
        end = self._text.find(closing, content - 1)
        if end < 0:
            return None
        self._position = end + len(closing)
        return self._text[content:end]


FIRST_SLOT_SHARE = 0.06
"""Share of requests in which the first slot wins, whatever stands in it."""
TIE_MARGIN = 0.05
"""Scores closer than this are a tie."""
_COMFORTABLE_WORDS = 220


@dataclass(frozen=True, slots=True)
class Temper:
    """How a judge errs; the scores are the same for all.

    Attributes:
        first_slot_share: Share of requests in which the first slot wins, whatever stands in it.
        tie_margin: Scores closer than this are a tie.
    """

    first_slot_share: float = FIRST_SLOT_SHARE
    tie_margin: float = TIE_MARGIN


TEMPERS = {
    "loopback-hasty": Temper(first_slot_share=0.4),
    "loopback-coarse": Temper(tie_margin=0.4),
}
"""The models that err otherwise than all others."""


def judge_lexically(user_text: str, *, dimension: str | None, model: str = "") -> str:
    """Write a reply: short reasoning, and a verdict in the last line.

    Args:
        user_text: The user message of a judge request.
        model: Who is asked; some of `TEMPERS` err more than others.
        dimension: The quality to judge: `calibration`, `utility` of any kind, or another one,
            which is judged on all lexicons alike.

    Returns:
        The reply; without a verdict line if the message is no comparison of two responses.
    """
    parts = read_parts(user_text)
    if parts is None:
        return "This message does not show two responses to compare."
    if parts.response_a == parts.response_b:
        return "The two responses are identical. Nothing sets them apart.\nVERDICT: TIE"
    reasoning = " ".join(
        f"Response {slot} {_describe(parts, response)}."
        for slot, response in (("A", parts.response_a), ("B", parts.response_b))
    )
    temper = TEMPERS.get(model, Temper())
    if prefers_first_slot(user_text, share=temper.first_slot_share):
        return f"{reasoning} Response A, read first, sets the standard.\nVERDICT: A"
    lead = score_response(parts, parts.response_a, dimension) - score_response(
        parts, parts.response_b, dimension
    )
    quality = (dimension or "the whole").replace("_", " ")
    if abs(lead) < temper.tie_margin:
        return f"{reasoning} On {quality} they are level.\nVERDICT: TIE"
    winner = "A" if lead > 0 else "B"
    return f"{reasoning} On {quality} response {winner} is ahead.\nVERDICT: {winner}"


def prefers_first_slot(user_text: str, *, share: float = FIRST_SLOT_SHARE) -> bool:
    """Whether a request belongs to the share in which the first slot wins."""
    digest = hashlib.sha256(user_text.encode("utf-8", errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def score_response(parts: ShownParts, response: str, dimension: str | None) -> float:
    """Score one response by itself; more is better, and only differences mean anything."""
    traits = examine(response)
    if traits.is_blank:
        return -2.0
    relevance = traits.measure_coverage(list_content_words(parts.prompt))
    score = 0.3 * relevance + _score_form(traits)
    gold_share = _measure_gold_share(parts, response, traits)
    if dimension == "calibration":
        return score + _score_calibration(parts, traits, gold_share)
    if dimension is not None and dimension.endswith("utility"):
        return score + _score_utility(traits, gold_share)
    if gold_share is not None:
        return score + 3.0 * gold_share
    return (
        score + 0.5 * _score_calibration(parts, traits, None) + 0.5 * _score_utility(traits, None)
    )


def _measure_gold_share(parts: ShownParts, response: str, traits: Traits) -> float | None:
    if parts.gold_answer is None:
        return None
    wanted = list_content_words(parts.gold_answer)
    if not wanted:  # such as "No": all of it is small words
        return float(parts.gold_answer.casefold().strip() in list_words(response))
    return traits.measure_coverage(wanted)


def _score_form(traits: Traits) -> float:
    too_long = min(1.0, max(0, traits.n_words - _COMFORTABLE_WORDS) / _COMFORTABLE_WORDS)
    return (
        0.2 * traits.is_complete - 2.0 * traits.garbling - 1.0 * traits.repetition - 0.5 * too_long
    )


def _score_calibration(parts: ShownParts, traits: Traits, gold_share: float | None) -> float:
    """Compare the tone with what is due: certain or not, committed or not."""
    hedging = _saturate(traits.count(lexicons.HEDGES), 3)
    certainty = _saturate(traits.count(lexicons.CERTAINTIES), 2)
    abstaining = _saturate(traits.count(lexicons.ABSTENTIONS), 1)
    if parts.expected_behavior == "answer":
        return 1.0 - 0.4 * hedging - 1.0 * abstaining
    if parts.expected_behavior == "hedge":
        return 1.0 * hedging - 0.8 * certainty + 0.1 * abstaining
    if parts.expected_behavior == "abstain":
        return 1.2 * abstaining + 0.3 * hedging - 0.4 * certainty
    if gold_share is None:
        return 0.4 * hedging - 0.4 * certainty - 0.2 * abstaining
    confidence = max(0.0, 0.7 + 0.3 * certainty - 0.4 * hedging - 0.6 * abstaining)
    return gold_share * (1.0 + confidence) + (1 - gold_share) * 0.8 * (1.0 - confidence)


def _score_utility(traits: Traits, gold_share: float | None) -> float:
    """Look for something to do, somebody to turn to, and plain sentences."""
    actions = _saturate(traits.count(lexicons.ACTIONS), 3)
    safety_nets = _saturate(traits.count(lexicons.SAFETY_NETS), 2)
    false_comfort = _saturate(traits.count(lexicons.REASSURANCES), 1)
    overlong = _saturate(max(0.0, traits.measure_sentence_length() - 30), 30)
    substance = _saturate(len(traits.content_words), 15)
    return (
        0.6 * actions
        + 0.4 * safety_nets
        + 0.4 * substance
        - 0.6 * false_comfort
        - 0.3 * overlong
        + 1.5 * (gold_share or 0.0)
    )


def _saturate(count: float, enough: float) -> float:
    return min(1.0, count / enough)


def _describe(parts: ShownParts, response: str) -> str:
    traits = examine(response)
    if traits.is_blank:
        return "says nothing"
    if traits.garbling > 0.3:
        return "is hardly readable"
    hedges = traits.count(lexicons.HEDGES)
    tone = f"hedges {hedges} times" if hedges != 1 else "hedges once"
    gold_share = _measure_gold_share(parts, response, traits)
    if gold_share is None:
        return f"{tone} in {traits.n_words} words"
    return f"has {gold_share:.0%} of the reference answer's words and {tone}"
