"""A judge that compares words, not meanings: a stand-in for a language model.

A verdict is a pure function of the request. It does not depend on the order of the responses,
except in a small share of requests, picked by a hash, in which the judge prefers the first slot, as
real judges sometimes do, so that some pairs come out inconsistent. It weighs what a response shows
without being understood (words, tone and shape), by crude measures that a person can check by eye.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache


class Lexicon:
    """Words and phrases that the judge treats as equivalent.

    A phrase counts once, even if words inside it are listed themselves.

    Args:
        words: Single words, between spaces.
        phrases: Phrases of two words or more, between vertical bars; none begins with another.
    """

    def __init__(self, words: str, phrases: str) -> None:
        self.words = frozenset(words.split())
        self.phrases = tuple(phrases.split("|"))
        listed = map(re.escape, [*self.phrases, *self.words])
        self._pattern = re.compile(rf"\b(?:{'|'.join(listed)})\b")

    def count(self, plain: str) -> int:
        """Count its words and phrases in lower-case text of single spaces, straight apostrophes."""
        return len(self._pattern.findall(plain))


_COMMON_WORDS_TEXT = (
    "a about after all also although an and any are as at be because been before "
    "being both but by can could did do does for from had has have he her here him "
    "his how i if in into is it its may me might more most must my no nor not of off "
    "on one only or other our out over own s she should so some such than that the "
    "their them then there these they this those through to too under up very was we "
    "were what when where which while who whom whose why will with within without "
    "would you your"
)
COMMON_WORDS = frozenset(_COMMON_WORDS_TEXT.split())
"""Function words, which all prose contains and which carry no meaning."""

HEDGES = Lexicon(
    "probably possibly perhaps maybe likely unlikely may might could suggest suggests appear "
    "appears seem seems uncertain unclear varies vary conflict conflicting disagree mixed modest "
    "modestly slightly generally usually often sometimes roughly weigh weighing",
    "not certain|not sure|it depends|depends on|limited evidence|evidence is|some studies|"
    "most trials|in general|not settled|not proven",
)
CERTAINTIES = Lexicon(
    "always never definitely certainly every everyone all completely absolutely undoubtedly "
    "guarantee guaranteed fully must exactly entirely",
    "only ever|without doubt|no doubt|proven beyond|ruled out|cannot fail|at all|nothing but",
)
ABSTENTIONS = Lexicon(
    "",
    "cannot tell|can't tell|cannot say|can't say|cannot be known|cannot be told|"
    "cannot be predicted|cannot be determined|cannot give|cannot know|cannot predict|"
    "cannot determine|cannot confirm|cannot diagnose|cannot advise|cannot calculate|"
    "cannot identify|cannot judge|can't give|can't know|can't predict|can't determine|"
    "can't confirm|can't diagnose|do not know|don't know|no way to know|no way to tell|"
    "impossible to know|impossible to say|impossible to tell|impossible to predict|"
    "not possible to|unable to|not enough information|without knowing|without seeing|"
    "without more|without examining|nobody can|no one can|would need to know|would need to see|"
    "i would be guessing",
)
ACTIONS = Lexicon(
    "call contact seek stop start take give use avoid keep put check ask tell rinse apply press "
    "lie sit measure treat treatment begin switch refer arrange discuss offer monitor repeat test",
    "go to|see a|see your|do not|don't",
)
SAFETY_NETS = Lexicon(
    "immediately urgent urgently emergency today now doctor pharmacist midwife prescriber "
    "ambulance hospital specialist worsen worsens poison",
    "straight away|right away|at once|if it|if he|if she|if they|if you|if symptoms|get worse|"
    "gets worse|come back",
)
REASSURANCES = Lexicon(
    "ignore",
    "no need to|need not worry|nothing to worry|do not worry|don't worry|will be fine|"
    "is harmless|are harmless|can wait|does not matter|do not matter|any amount|perfectly safe",
)
LEXICONS = (HEDGES, CERTAINTIES, ABSTENTIONS, ACTIONS, SAFETY_NETS, REASSURANCES)


_WORD = re.compile(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}-][^\W_]+)*")
_SENTENCE_END = re.compile(r"[.!?]+[)\"'\N{RIGHT DOUBLE QUOTATION MARK}\]]*(?=\s|$)")
_COMPLETE = re.compile(r"[.!?][)\"'\N{RIGHT DOUBLE QUOTATION MARK}\]*]*\s*$")
_ODD = re.compile(r"[^\w\s.,;:!?'\"()\[\]/%+*#&<>=°\N{EN DASH}\N{EM DASH}’‘“”•-]")  # noqa: RUF001
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{6,}")
_TRIPLED = re.compile(r"([a-z])\1\1")
_VOWEL = re.compile(r"[aeiouyà-ÿ]")
_NUMBER = re.compile(r"\d+(?:[-x]?\d+)*[a-z]{0,5}")


class Traits:
    """The traits of one response.

    Attributes:
        is_blank: Whether it says nothing.
        is_complete: Whether it ends as a sentence does.
        content_words: Those that carry meaning, each once.
        garbling: How far from readable prose it is: 0 for prose, 1 for noise.
        repetition: Share of three-word sequences that occurred before; 0 for fewer than six words.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        written = _WORD.findall(text)
        words = [word.casefold() for word in written]
        self.is_blank = not text.strip()
        self.is_complete = _COMPLETE.search(text) is not None
        self.n_words = len(words)
        self.content_words = _select_content_words(words)
        self.garbling = _measure_garbling(text.strip(), written, words)
        self.repetition = _measure_repetition(words)
        plain = text.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
        self._plain = " ".join(plain.split())
        self._counts: dict[Lexicon, int] = {}

    def count(self, lexicon: Lexicon) -> int:
        """Count how often the response holds any word of a lexicon."""
        if lexicon not in self._counts:
            self._counts[lexicon] = lexicon.count(self._plain)
        return self._counts[lexicon]

    def measure_sentence_length(self) -> float:
        """Return the mean number of words per sentence."""
        return self.n_words / max(1, len(_SENTENCE_END.findall(self._text)))

    def measure_coverage(self, words: frozenset[str]) -> float:
        """Return the share of the wanted words that the response holds; 0 if none are wanted."""
        return len(words & self.content_words) / len(words) if words else 0.0


# A response is judged in many pairs, which leave a batch in no particular order.
@lru_cache(maxsize=8192)
def examine(text: str) -> Traits:
    """Return the traits of a response."""
    return Traits(text)


def list_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return [word.casefold() for word in _WORD.findall(text)]


@lru_cache(maxsize=4096)
def list_content_words(text: str) -> frozenset[str]:
    """Return the words that carry meaning, each once, without a plural's s.

    Short words stay: only the C distinguishes vitamin C from vitamin D.
    """
    return _select_content_words(list_words(text))


def _select_content_words(words: list[str]) -> frozenset[str]:
    return frozenset(set(map(_singular, set(words) - COMMON_WORDS)))


def _measure_garbling(stripped: str, written: list[str], words: list[str]) -> float:
    """Return the worst of three shares.

    They measure impossible words, odd characters and missing function words.
    """
    if not stripped:
        return 0.0
    if not written:
        return 1.0
    strange = (len(written) - sum(map(_is_readable, written))) / len(written)
    odd = 1 - (len(stripped) - len(_ODD.findall(stripped))) / len(stripped)
    return max(strange, min(1.0, 2 * odd), _measure_missing_small_words(words))


def _measure_missing_small_words(words: list[str]) -> float:
    if len(words) < 10:
        return 0.0
    share = sum(map(COMMON_WORDS.__contains__, words)) / len(words)
    return max(0.0, 1 - share / 0.15)


def _measure_repetition(words: list[str]) -> float:
    if len(words) < 6:
        return 0.0
    return 1 - len(set(zip(words, words[1:], words[2:], strict=False))) / (len(words) - 2)


@lru_cache(maxsize=16384)
def _singular(word: str) -> str:
    return word[:-1] if len(word) > 4 and word.endswith("s") and not word.endswith("ss") else word


@lru_cache(maxsize=16384)
def _is_readable(word: str) -> bool:
    lower = word.casefold()
    if word in ("I", "a", "A") or _NUMBER.fullmatch(lower):
        return True
    if len(word) <= 8 and word.upper() == word:  # an abbreviation, such as PSA or ADAMTS13
        return True
    return (
        len(word) <= 24
        and _VOWEL.search(lower) is not None
        and _CONSONANTS.search(lower) is None
        and _TRIPLED.search(lower) is None
    )


PART = re.compile(
    r'<(?P<name>[a-z][a-z0-9_]*) fence="(?P<code>[^"\n]+)">\n(?P<text>.*?)\n?'
    r'</(?P=name) fence="(?P=code)">',
    re.DOTALL,
)
"""A part of a message, between tags with a code."""
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

    The code on the first opening tag is the message's own. A tag with another code is plain text of
    the part that holds it.

    Returns:
        The parts, or None if the message does not compare two responses.
    """
    matches = list(PART.finditer(user_text))
    parts = {each["name"]: each["text"] for each in matches if each["code"] == matches[0]["code"]}
    if not {"prompt", "response_a", "response_b"} <= parts.keys():
        return None
    expected_behavior = parts.get("expected_behavior")
    return ShownParts(
        prompt=parts["prompt"],
        gold_answer=parts.get("gold_answer"),
        expected_behavior=None if expected_behavior is None else expected_behavior.strip(),
        response_a=parts["response_a"],
        response_b=parts["response_b"],
    )


# All requests of a batch have the same long system text.
@lru_cache(maxsize=64)
def read_dimension(system_text: str) -> str | None:
    """Return the quality that a system message names in its `# dimension:` line."""
    match = _DIMENSION_LINE.search(system_text)
    return None if match is None else match["dimension"]


FIRST_SLOT_SHARE = 0.06
"""Share of requests in which the first slot wins, whatever its content."""
TIE_MARGIN = 0.05
"""Scores closer than this are a tie."""
_COMFORTABLE_WORDS = 220


@dataclass(frozen=True, slots=True)
class Temper:
    """How a simulated judge errs; all judges share the same scores."""

    first_slot_share: float = FIRST_SLOT_SHARE
    tie_margin: float = TIE_MARGIN


TEMPERS = {
    "loopback-hasty": Temper(first_slot_share=0.4),
    "loopback-coarse": Temper(tie_margin=0.4),
}
"""The models whose errors differ from the default."""


def judge_lexically(user_text: str, *, dimension: str | None, model: str = "") -> str:
    """Write a reply: short reasoning, and a verdict in the last line.

    Args:
        user_text: The user message of a judge request.
        model: The model that is asked; some of `TEMPERS` err more than others.
        dimension: The quality to judge: `calibration`, any `utility`, or another quality, which is
            judged on all lexicons equally.

    Returns:
        The reply; without a verdict line if the message does not compare two responses.
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
        return f"{reasoning} On {quality} they are equal.\nVERDICT: TIE"
    winner = "A" if lead > 0 else "B"
    return f"{reasoning} On {quality} response {winner} is ahead.\nVERDICT: {winner}"


def prefers_first_slot(user_text: str, *, share: float = FIRST_SLOT_SHARE) -> bool:
    """Whether a request belongs to the share in which the first slot wins."""
    digest = hashlib.sha256(user_text.encode("utf-8", errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def score_response(parts: ShownParts, response: str, dimension: str | None) -> float:
    """Score one response by itself; higher is better, and only differences are meaningful."""
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
    words = list_content_words(parts.gold_answer)
    if not words:  # such as "No", which is all small words
        return float(parts.gold_answer.casefold().strip() in list_words(response))
    return traits.measure_coverage(words)


def _score_form(traits: Traits) -> float:
    too_long = min(1.0, max(0, traits.n_words - _COMFORTABLE_WORDS) / _COMFORTABLE_WORDS)
    return (
        0.2 * traits.is_complete - 2.0 * traits.garbling - 1.0 * traits.repetition - 0.5 * too_long
    )


def _score_calibration(parts: ShownParts, traits: Traits, gold_share: float | None) -> float:
    """Compare the tone with the expected one: certain or not, committed or not."""
    hedging = _saturate(traits.count(HEDGES), 3)
    certainty = _saturate(traits.count(CERTAINTIES), 2)
    abstaining = _saturate(traits.count(ABSTENTIONS), 1)
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
    """Score actionable advice, somebody to turn to, and plain sentences."""
    actions = _saturate(traits.count(ACTIONS), 3)
    safety_nets = _saturate(traits.count(SAFETY_NETS), 2)
    false_comfort = _saturate(traits.count(REASSURANCES), 1)
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
    hedges = traits.count(HEDGES)
    tone = f"hedges {hedges} times" if hedges != 1 else "hedges once"
    gold_share = _measure_gold_share(parts, response, traits)
    if gold_share is None:
        return f"{tone} in {traits.n_words} words"
    return f"has {gold_share:.0%} of the reference answer's words and {tone}"
