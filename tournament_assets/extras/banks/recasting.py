"""Multiple-choice questions asked without their options.

A question is kept only if it is still a question without its options. Doubtful ones are left out,
with the reason, because the published sets hold far more questions than a bank needs.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from tournament_assets.extras.banks.multiple_choice import MultipleChoiceQuestion, _fold
from tournament_assets.foundation.fingerprints import fingerprint

_ID_LENGTH = 8
_SHORTEST_STEM = 4


class WhyLeftOut(StrEnum):
    """Why a question is not in the bank."""

    NO_GOLD_ANSWER = "no_gold_answer"
    SEVERAL_ANSWERS = "several_answers"
    GOLD_NEEDS_OPTIONS = "gold_needs_options"
    IMAGE = "image"
    NEGATED = "negated"
    TRUE_OR_FALSE = "true_or_false"
    STEM_NEEDS_OPTIONS = "stem_needs_options"
    NOT_A_QUESTION = "not_a_question"
    TOO_SHORT = "too_short"
    CONFLICTING_ANSWERS = "conflicting_answers"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that can be asked without options.

    Attributes:
        rewritten: Whether more than the punctuation differs from the printed wording.
        gold_answer: The text of the correct option.
        original: The question it was made from.
    """

    text: str
    rewritten: bool
    gold_answer: str
    original: MultipleChoiceQuestion

    @property
    def content_hash(self) -> str:
        """SHA-256 of the source, the text and the gold answer."""
        return fingerprint(
            {"source": self.original.source, "text": self.text, "gold_answer": self.gold_answer}
        )

    @property
    def prompt_id(self) -> str:
        """The source and the first hex characters of the content hash."""
        return f"{self.original.source}-{self.content_hash[:_ID_LENGTH]}"


_FOLLOWING = r"which (?:one )?(?:of|among|amongst|from) (?:the )?following"
_SUPERLATIVE = (
    r"(?:most (?:likely|probable|common|frequent|appropriate|important|effective|accurate"
    r"|sensitive|specific|suitable|useful)|commonest|best|first|next|earliest|primary|main|initial)"
)
_OF_CHOICE = r"(?:drug|treatment|investigation|test|procedure|operation|imaging|antibiotic)"
_HEAD = (
    r"(?:diagnosis|cause|explanation|mechanism|treatment|therapy|drug|pharmacotherapy|"
    r"(?:next )?(?:best )?step|management|investigation|test|site|organism|pathogen|complication)"
)
# Findings, symptoms and changes are excluded: without options, too many answers are right.
_SINGULAR = {
    "agents": "agent",
    "antibiotics": "antibiotic",
    "antibodies": "antibody",
    "arteries": "artery",
    "bacteria": "bacterium",
    "cells": "cell type",
    "complications": "complication",
    "conditions": "condition",
    "diagnoses": "diagnosis",
    "diseases": "disease",
    "disorders": "disorder",
    "drugs": "drug",
    "enzymes": "enzyme",
    "genes": "gene",
    "hormones": "hormone",
    "interventions": "intervention",
    "investigations": "investigation",
    "mechanisms": "mechanism",
    "medications": "medication",
    "muscles": "muscle",
    "nerves": "nerve",
    "neurotransmitters": "neurotransmitter",
    "organisms": "organism",
    "pathogens": "pathogen",
    "procedures": "procedure",
    "proteins": "protein",
    "receptors": "receptor",
    "structures": "structure",
    "studies": "study",
    "tests": "test",
    "therapies": "therapy",
    "treatments": "treatment",
    "veins": "vein",
    "viruses": "virus",
    "vitamins": "vitamin",
}

# Each rule keeps a question that has one answer ("the ...", a superlative) and only removes
# the mention of the options. Anything looser would turn a choice into a guess.
_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), replacement)
    for pattern, replacement in (
        (rf"{_FOLLOWING} (is|was|would be|will be) (the .+)", r"what \1 \2"),
        (rf"{_FOLLOWING} (is|was) ({_SUPERLATIVE} {_HEAD}\b.*)", r"what \1 the \2"),
        (
            rf"{_FOLLOWING} (is|was) (most likely (?:responsible for|to have caused) .+)",
            r"what \1 \2",
        ),
        (
            rf"{_FOLLOWING} (best|most likely) (explains|accounts for|causes|caused) (.+)",
            r"what \1 \2 \3",
        ),
        (
            rf"{_FOLLOWING} ({'|'.join(_SINGULAR)}) "
            rf"((?:(?:is|was|would be|will be|should be) )?(?:the )?{_SUPERLATIVE}\b.*)",
            r"which \1 \2",
        ),
        (r"which (is|was) (the .+)", r"what \1 \2"),
    )
)
_STATEMENT = re.compile(
    rf"(?:the )?(?:(?P<noun>(?:{_SUPERLATIVE}|{_OF_CHOICE} of choice)\b.+) (?P<verb>is|was)"
    rf"|(?P<bare_noun>{_SUPERLATIVE} {_HEAD}))",
    re.IGNORECASE | re.DOTALL,
)

# The last sentence begins after a full stop, but not after an initial, as in "E. coli".
_SENTENCE_BREAK = re.compile(r"(?<=[^\sA-Z][.?!])\s+(?=[A-Z(\"'])|\n(?=[A-Z])")
_LEAD = re.compile(r"(?P<lead>(?:[^?]*,\s+)?)(?P<ask>\S.*)", re.DOTALL)
_CLOSING = " \t\n?:.;,-–—_=…"
_ASKS = re.compile(r"\b(?:what|which|who|whom|whose|where|when|why|how)\b|^name\b", re.IGNORECASE)
_OPENS_WITH_ASKING = re.compile(
    r"(?:(?:in|at|by|to|from|for|on|of|with|through|during|under) )?"
    r"(?:what|which|who|whom|whose|where|when|why|how|name)\b",
    re.IGNORECASE,
)
_IMAGE = re.compile(
    r"\b(?:img|(?<!body )(?<!mirror )images?|figure|photo(?:graph)?s?|(?<!clinical )pictures?"
    r"|fig\.|pictured|diagram|graph|depicted|exhibit|arrow(?:s|ed)?|video|audio"
    r"|(?:is|are|was|were|as) shown(?! (?:to|that)\b)|shown (?:in the|here|below|above)"
    r"|(?:given|provided|seen|labell?ed) below|marked (?:with|by|as|structure|area|in))(?!\w)",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:except|excluding|not|never|least|cannot|neither|nor)\b|n['’]t\b",  # noqa: RUF001
    re.IGNORECASE,
)
_TRUE_OR_FALSE = re.compile(
    r"\b(?:true|false|untrue|incorrect|wrong|assertion|statements?)\b"
    r"|\b(?:is|are) correct\b|\bcorrect (?:about|regarding|for)\b",
    re.IGNORECASE,
)
_OPTIONS_ANYWHERE = re.compile(
    r"\b(?:of|among|amongst|from) (?:the )?following\b|\bmatch the\b"
    r"|\bfollowing (?:statements?|options?|pairs?)\b",
    re.IGNORECASE,
)
_OPTIONS_IN_QUESTION = re.compile(
    r"\bthe following\b|\bof (?:these|them|those|the above)\b|\boptions?\b|\bchoices\b"
    r"|\b(?:listed|given|mentioned) (?:above|below|here)\b|\ball (?:are|the|of)\b|\bnone\b"
    r"|\bboth (?:are|of)\b|\bcorrect (?:answer|match|pair|order|sequence|combination)\b"
    r"|\bmatched\b|\b(?:is|are|be) (?:an? )?(?:the )?(?:best |most likely )?"
    r"(?:examples?|features?|findings?|characteristics?|associations?)\b"
    r"|(?:^|,\s)which (?:ones?|is|are|was|were|would|will|can|could|should|has|have|does|do)\b",
    re.IGNORECASE,
)
_LETTER_LABELS = re.compile(r"a?b?c?d?e?")
_NUMBER_LABELS = frozenset({"1", "2", "3", "4", "5", "i", "ii", "iii", "iv", "v"})
_LABEL_WORDS = frozenset(
    {"and", "or", "both", "only", "either", "option", "options", "are", "is", "correct", "true"}
)
_OPTION_PHRASES = re.compile(
    r"(?:all|none|both|any|either|neither|others?|true|false|yes|no|some)"
    r"|(?:all|none|both|any|either|neither|some|two|one|more than one)(?: of)?(?: the)? "
    r"(?:above|these|those|them|following|options?|mentioned|are (?:true|false|correct))\b.*"
    r"|.*\b(?:of|all|none) (?:the )?(?:above|these|following)"
    r"|(?:cannot|can't) be (?:said|determined|predicted)",
    re.DOTALL,
)


def recast(question: MultipleChoiceQuestion) -> OpenQuestion | WhyLeftOut:
    """Return a multiple-choice question without its options, or the reason for leaving it out.

    A stem that is a question is kept as printed. One that mentions the options only in passing
    ("Which of the following is the most likely diagnosis?") is reworded by a small table of rules.
    All others are left out.
    """
    if question.gold_answer is None:
        return WhyLeftOut.NO_GOLD_ANSWER
    if question.several_answers:
        return WhyLeftOut.SEVERAL_ANSWERS
    if _names_options(question.gold_answer):
        return WhyLeftOut.GOLD_NEEDS_OPTIONS
    if _IMAGE.search(question.stem):
        return WhyLeftOut.IMAGE
    start = max((match.end() for match in _SENTENCE_BREAK.finditer(question.stem)), default=0)
    before, sentence = question.stem[:start], question.stem[start:]
    if _NEGATED.search(sentence):
        return WhyLeftOut.NEGATED
    if _TRUE_OR_FALSE.search(sentence):
        return WhyLeftOut.TRUE_OR_FALSE
    core = sentence.rstrip(_CLOSING)
    reworded = _reword(core)
    core = reworded or core
    if _OPTIONS_ANYWHERE.search(before + core) or _OPTIONS_IN_QUESTION.search(core):
        return WhyLeftOut.STEM_NEEDS_OPTIONS
    if not _is_question(core, sentence):
        return WhyLeftOut.NOT_A_QUESTION
    text = f"{before}{core}{'.' if core.lower().startswith('name ') else '?'}"
    if len(text.split()) < _SHORTEST_STEM:
        return WhyLeftOut.TOO_SHORT
    return OpenQuestion(
        text=text,
        rewritten=reworded is not None,
        gold_answer=question.gold_answer,
        original=question,
    )


def _names_options(gold_answer: str) -> bool:
    """Return whether a gold answer refers to options, as 'A and B' or 'All of the above' do."""
    folded = _fold(gold_answer).rstrip(" .")
    if _OPTION_PHRASES.fullmatch(folded):
        return True
    words = [word for word in re.findall(r"\w+|[^\w\s(),&+.]", folded) if word not in _LABEL_WORDS]
    letters = [word for word in words if _LETTER_LABELS.fullmatch(word)]
    numbers = [word for word in words if word in _NUMBER_LABELS]
    only_labels = len(letters) + len(numbers) == len(words)
    return only_labels and (bool(letters) or len(numbers) > 1)


def _reword(core: str) -> str | None:
    """Return the question without its mention of options, or None if no rule fits."""
    if not _ASKS.search(core):
        return _ask_statement(core)
    lead_and_ask = _LEAD.fullmatch(core)
    if lead_and_ask is None:
        return None
    for lead, ask in (lead_and_ask.group("lead", "ask"), ("", core)):
        for pattern, replacement in _REWRITES:
            if match := pattern.fullmatch(ask):
                reworded = _in_singular(match.expand(replacement))
                return lead + reworded if lead else reworded[0].upper() + reworded[1:]
    return None


def _ask_statement(core: str) -> str | None:
    """Turn 'Most common cause of X is' into a question."""
    match = _STATEMENT.fullmatch(core)
    if match is None:
        return None
    noun = match["noun"] or match["bare_noun"]
    return f"What {(match['verb'] or 'is').lower()} the {noun[0].lower()}{noun[1:]}"


def _in_singular(phrase: str) -> str:
    opening, plural, *rest = phrase.split(" ", maxsplit=2)
    if opening == "which" and plural.lower() in _SINGULAR:
        return " ".join([opening, _SINGULAR[plural.lower()], *rest])
    return phrase


def _is_question(core: str, sentence: str) -> bool:
    """Return whether a sentence asks something, with or without its question mark."""
    ask = _LEAD.fullmatch(core)
    if ask and (_OPENS_WITH_ASKING.match(ask["ask"]) or _OPENS_WITH_ASKING.match(core)):
        return True
    return "?" in sentence[len(sentence.rstrip(_CLOSING)) :] and _ASKS.search(core) is not None
