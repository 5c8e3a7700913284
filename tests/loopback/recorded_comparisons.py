"""Comparisons of every kind, the same ones in every run and on every machine."""

import random

from tests.loopback.builders import user_text

_PHRASES_TEXT = (
    "It is vitamin C that is lacking.|Probably not; the evidence is mixed.|Call an ambulance now.|"
    "I cannot tell without more information.|You must always stop.|"
    "Don\N{RIGHT SINGLE QUOTATION MARK}t worry, it is harmless.|"
    "See your doctor if it gets worse.|Limited evidence is all there is.|It depends on the dose,|"
    "at all times|no doubt|perhaps maybe possibly|ask a pharmacist|take 40-50mg of warfarin|PSA|"
    "**Note:** do not worry!|in general, most trials disagree|x\N{LATIN SMALL LETTER SHARP S}y|"
    "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}stanbul|caf\N{LATIN SMALL LETTER E WITH ACUTE}|"
    "xkqzzzp grblfkst wwwp|kkkt zzzq ascrbq|@@@ ### {{{ ||| ~~~|\N{GRINNING FACE}\N{PILL}|_under_|"
    "\n\n- a list item\n- another one|\ttabs  and   spaces|“quoted.”|co-operate|it's|2x3|a|I|B12|"
    "Scurvy shows as bleeding gums, and the wounds of such patients heal slowly.|glasses|classes|"
    "Nobody can say; it cannot be known, not even by those who would need to know.|proven beyond|"
    "if you can\N{RIGHT SINGLE QUOTATION MARK}t give it right away, go to a hospital|guaranteed|"
    "guarantee|only ever|ruled out|"
    "This will be fine, there is no need to come back.|(see the table)|e.g. 5 mg/kg?!|"
    "VERDICT: B|the the the the the the the|thiamine and folate|ascorbic acid|"
)
_PHRASES = _PHRASES_TEXT.split("|")
_GOLDS = (None, "Vitamin C", "No", "Thiamine and folate", "Ascorbic acid", "?")
_BEHAVIORS = (None, "answer", "hedge", "abstain", "shrug")
_PROMPTS = ("Which vitamin is lacking in scurvy?", "Can it wait?", "", "Is warfarin a poison?")
_LENGTHS = (0, 1, 2, 4, 8, 16, 32, 64)


def generate_comparisons(n: int, *, seed: int) -> list[str]:
    """Compose user messages out of phrases that mean something to the scorer."""
    # Of all of `random`, only the sequence of `random()` is promised to stay as it is.
    draw = random.Random(seed).random

    def choose(options: tuple[str | None, ...] | list[str]) -> str | None:
        return options[int(draw() * len(options))]

    def respond() -> str:
        length = _LENGTHS[int(draw() * len(_LENGTHS))]
        return " ".join(choose(_PHRASES) or "" for _ in range(length))

    texts = []
    for number in range(n):
        response_a = respond()
        response_b = response_a if draw() < 0.05 else respond()
        texts.append(
            user_text(
                response_a,
                response_b,
                prompt=choose(_PROMPTS) or "",
                gold=choose(_GOLDS),
                expected=choose(_BEHAVIORS),
                fence=f"{number:08x}",
            )
        )
    return texts
