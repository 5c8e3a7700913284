"""What the numbers in a run's sentences should be, by the words around them."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import combinations
from typing import Any

from tournament_assets.extras.verify.judge_counts import UNJUDGED
from tournament_assets.extras.verify.numbers import UNKNOWN, Number
from tournament_assets.extras.verify.printed_numbers import PrintedNumbers
from tournament_assets.extras.verify.printed_tables import Printed

Names = Mapping[str, str]
Said = Callable[[PrintedNumbers, Names], Any]
"""What is expected of a sentence's numbers, by the names in it; UNKNOWN if it is not known."""
_NUMBER = r"([-+]?\d[\d,]*(?:\.\d+)?)"


def _of_run(*keys: str) -> Said:
    return lambda facts, _: tuple(facts.of_run[key] for key in keys)


def _confidence(facts: PrintedNumbers, _: Names) -> Any:
    # Of three ways to say it a sentence has one.
    return (facts.of_run["confidence"],) * 3


def _counts(facts: PrintedNumbers, names: Names) -> Mapping[str, float]:
    return facts.counts[names["d"]][names["a"], names["b"]]


def _won(facts: PrintedNumbers, names: Names) -> Any:
    counts = _counts(facts, names)
    keys = ("wins", "losses", "ties", "inconsistent", "same_text", "settled")
    return 100 * counts["share"], *(counts[key] for key in keys)


def _share(facts: PrintedNumbers, names: Names) -> Any:
    counts = _counts(facts, names)
    return 100 * counts["share"], counts["settled"]


def _grid(facts: PrintedNumbers, names: Names) -> Any:
    counts = _counts(facts, names)
    return 100 * counts["share"], counts["judged"]


def _gap(facts: PrintedNumbers, names: Names) -> Any:
    gap = facts.ratings[names["d"]].gap(names["a"], names["b"])
    return UNKNOWN if gap is None else (gap.value,)


def _more(facts: PrintedNumbers, names: Names) -> Any:
    gap = facts.ratings[names["d"]].gap(names["a"], names["b"])
    return UNKNOWN if gap is None else (gap.more_prompts,)


def _expected_share(facts: PrintedNumbers, names: Names) -> Any:
    gap = facts.ratings[names["d"]].gap(names["a"], names["b"])
    if gap is None or gap.value is None or gap.low is None or gap.high is None:
        return UNKNOWN
    shares = (100 / (1 + 10 ** (-each / 400)) for each in (gap.value, gap.low, gap.high))
    return *shares, gap.more_prompts


def _cost(facts: PrintedNumbers, names: Names) -> Any:
    return (facts.cost_of(names["d"]),)


def _by_models(facts: PrintedNumbers, names: Names) -> Any:
    found = []
    for of in facts.by_model(names["d"]).values():
        a, b = of.get(names["a"]), of.get(names["b"])
        found.append(None if a is None or b is None else a - b)
    return tuple(found)


def _card(facts: PrintedNumbers, names: Names) -> Any:
    own, name = facts.ratings[names["d"]], names["a"]
    rating, (low, high) = own.ratings[name], own.intervals[name]
    places = dict.fromkeys(facts.places(names["d"], name))
    ends = () if rating is None else (each for each in (rating, low, high) if each is not None)
    return (100 * _counts(facts, names)["share"], *ends, *places)


def _words(facts: PrintedNumbers, names: Names) -> Any:
    own = facts.run.responses[names["a"]].values()
    if len(own) != facts.of_run["answers"]:
        return UNKNOWN
    return (sum(len(each.split()) for each in own) / len(own),)


def _claims(facts: PrintedNumbers, names: Names) -> Any:
    pairs = list(combinations(facts.ratings[names["d"]].placed, 2))
    gaps = (facts.gap(names["d"], *pair) for pair in pairs)
    claims = [each.claim for each in gaps if each is not None]
    equivalent, undecided = claims.count("equivalent"), claims.count("undecided")
    return len(pairs), len(claims) - equivalent - undecided, equivalent, undecided


def _planned(facts: PrintedNumbers, names: Names) -> Any:
    return (facts.run.manifest["prompts_planned"][names["d"]],) * 2


def _rests_on(facts: PrintedNumbers, names: Names) -> Any:
    return (len(facts.stored[names["d"], names["a"]]["lead_rests_on"]),)


def _moved(facts: PrintedNumbers, names: Names) -> Any:
    return facts.moved(names["d"], names["p"], names["a"])


def _ties(facts: PrintedNumbers, names: Names) -> Any:
    rate = facts.ratings[names["d"]].davidson[1]
    return rate, 100 * rate / (2 + rate)


def _not_needed(facts: PrintedNumbers, names: Names) -> Any:
    saved = facts.run.manifest["pairs_not_needed"][names["d"]]
    return saved, saved + len(facts.run.pairs[names["d"]])


def _counted(measure: str) -> Said:
    def said(facts: PrintedNumbers, names: Names) -> Any:
        found = facts.judge[names["d"]].shares(measure)
        return UNKNOWN if found is None else found[:2]

    return said


def _slots(facts: PrintedNumbers, names: Names) -> Any:
    found = facts.judge[names["d"]].shares("position bias")
    return UNKNOWN if found is None else (found[0], found[1] - found[0])


def _lights(facts: PrintedNumbers, names: Names) -> Any:
    trust = facts.run.manifest["trust"]
    lights = [
        light
        for measures in ([trust[names["d"]]] if "d" in names else trust.values())
        for measure, light in measures.items()
        if light in ("red", "amber", "green") and not measure.startswith("unjudged of ")
    ]
    return lights.count("red"), len(lights), lights.count("amber")


_COPIED = ("With tournament-assets", "To cite this result")
"""Lines of what the manifest says too."""
SAID: tuple[tuple[str, Said], ...] = (
    (r"· # prompts?(?= ·)", _of_run("prompts")),
    (r"\beach answered # times", _of_run("samples")),
    (r"· # entrants?(?= ·)", _of_run("entrants")),
    (r"· # judged pairs?", _of_run("judged")),
    (r"[Jj]udging cost \\?\$#", _of_run("cost")),
    (
        r"# of # pairs that the judge was asked about are judged(?:; # more have? identical)?",
        _of_run("judged", "asked", "same"),
    ),
    (
        r"We compared # entrants on # prompts(?:, on # dim)?",
        _of_run("entrants", "prompts", "dimensions"),
    ),
    (r"# pairs were settled", _of_run("settled")),
    (r"those of # resamples of whole prompts \(seed #\)", _of_run("n_bootstraps", "seed")),
    (r"within # Elo points of #", _of_run("within", "zero")),
    (r"(?:excludes|lies on one side of|interval of the difference holds) #", _of_run("zero")),
    (
        r"hold together at # % within a dimension, not over all #: .* up to # % of",
        _of_run("confidence", "dimensions", "wrong"),
    ),
    (r"not over all #: .* up to # % of", _of_run("dimensions", "wrong")),
    (
        r"(?:\b(?:at|its|their|with|holds) # %(?= interval|, prompts|, all pairs| of those| for all"
        r"| and|,|\.|\)|:)|# % intervals?(?= of all differences|\))|\(# %, all pairs together\))",
        _confidence,
    ),
    (r"On {d}, {a} has the highest rating, # Elo points above {b}", _gap),
    (r"On {d}, (?:.* and )?{a} comes? first and {b} next", lambda *_: ()),
    (r"{a} is best on {d}: .*?\(# % of # settled pairs against {b}", _share),
    (
        r"a (?:weighed )?win share of # % \((?:wins #)?(?:, )?(?:loses #)?(?:, )?(?:ties #)?(?:, )?"
        r"(?:inconsistent #)?(?:, )?(?:same text #)? of #\)",
        _won,
    ),
    (r"Judging it cost \$#", _cost),
    (
        r"The same pairs put {a} (?:# \(Elo\))?(?:,? ?(?:and)? ?# \(Bradley-Terry\))?"
        r"(?:,? ?and # \(Davidson\))? Elo points above {b}",
        _by_models,
    ),
    (
        r"(?<=^){d} # % against {b} (?:not rated|unbounded|#(?: unbounded| from #| up to #| #–#)?)"
        r"(?: place #(?:–#)?)?",
        _card,
    ),
    (r"^{a} against {b} on {d}: # %, n = #", _grid),
    (r"^Length # words a response", _words),
    (
        r"between {a} and {b} \((?P=a)'s expected win share is # %, #–# %"
        r"(?:; about # more prompts would decide)?",
        _expected_share,
    ),
    (r"[Aa]bout # more prompts would decide between {a} and {b}(?: on {d})?", _more),
    (r"[Aa]bout # more prompts would decide between it and {b}", _more),
    (
        r"^{d}: Of # pairs of entrants(?:, one is better in #)?(?:, they are equivalent in #)?"
        r"(?:,? (?:and )?it is undecided in #)?",
        _claims,
    ),
    (r"# pairs on {d}", lambda *of: (sum(_claims(*of)[2:]),)),
    (r"answered and was judged on # of # planned prompts", _planned),
    (r"The first place rests on # prompts: without .*? {a} is not first alone", _rests_on),
    (r"Without {p}, {a} moves by #", _moved),
    (r"Without {p} the order of neighbours changes: .* \(and {a} moves by #", _moved),
    (r"^{d}: .*tie parameter is #: two equals would tie in # %", _ties),
    (r"# of # pairs were not needed", _not_needed),
    (r"# replies prefer the first slot and # the other", _slots),
    (r"# of # flipped pairs went to the first slot", _counted("direction of flips")),
    (r"# of # distinct judged pairs came out the same", _counted("swap consistency")),
    (r"the response with more words won # of # pairs", _counted("longer wins")),
    (r"# of its # distinct pairs are not judged", _counted(UNJUDGED)),
    (r"The judge on {d}: # of # lights red", lambda *of: _lights(*of)[:2]),
    (r"The judge on {d}: # of # lights amber", lambda *of: _lights(*of)[:0:-1]),
    (r"[Nn]one of # lights? on the judge is red(?:; # amber)?", lambda *of: _lights(*of)[1:]),
    (r"# of # lights on the judge are red \([^)]*\)(?:; # amber)?", _lights),
    (r"# points more mean an expected win share of # %", lambda *_: (100, 100 / (1 + 10**-0.25))),
)


class Sentences:
    """Finds the sentences in a run's texts."""

    def __init__(self, facts: PrintedNumbers) -> None:
        """Take what was recomputed."""
        self._facts = facts

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], Said]]:
        run = self._facts.run
        prompts = {each.prompt for own in run.pairs.values() for each in own}
        names = {"d": run.pairs, "a": run.entrants, "b": run.entrants, "p": prompts}
        found = []
        for pattern, said in SAID:
            pattern = pattern.replace("#", _NUMBER)
            for key, of in names.items():
                longest = sorted(map(re.escape, of), key=len, reverse=True)
                pattern = pattern.replace(f"{{{key}}}", f"(?P<{key}>{'|'.join(longest)})", 1)
            found.append((re.compile(pattern), said))
        return found

    def numbers(self, at: str, text: str, about: Mapping[str, str]) -> Iterator[Number]:
        """Yield the numbers of known sentences, and what is left of the text."""
        about = dict(about)
        for pattern, said in self._patterns:
            for found in [*pattern.finditer(text)]:
                named = {key: name for key, name in found.groupdict().items() if name}
                about |= {key: name for key, name in named.items() if key in "dab"}
                try:
                    expected = said(self._facts, {**about, **named})
                except KeyError:  # A sentence about something that is not computed.
                    expected = UNKNOWN
                if expected is UNKNOWN:
                    continue
                yield f"{at}: {found[0]}", *_aligned(found, expected)
                text = text[: found.start()] + "~" * len(found[0]) + text[found.end() :]
        yield at, text, UNKNOWN


def _aligned(found: re.Match[str], expected: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the numbers of a text, and of what is expected what the text has a place for."""
    names = {*found.re.groupindex.values()}
    slots = [found[index] for index in range(1, found.re.groups + 1) if index not in names]
    if len(expected) != len(slots):
        return " ".join(each for each in slots if each), expected
    both = [(one, other) for one, other in zip(slots, expected, strict=True) if one is not None]
    return " ".join(one for one, _ in both), tuple(other for _, other in both)


def page_numbers(facts: PrintedNumbers, page: Printed) -> Iterator[Number]:
    """Yield every number of a page, and what it should be where that is computed."""
    sentences = Sentences(facts)
    if page.data is not None:
        yield from _battles(facts, page.data)
    for (at, found, expected), about in facts.cells(page):
        if expected is UNKNOWN and at.startswith("Everything that decides"):
            yield from facts.copied(found)
        elif expected is UNKNOWN:
            yield from sentences.numbers(at, found, about)
        else:
            yield at, found, expected
    about = {}
    for line in [*page.lines, *(table.title for table in page.tables)]:
        if line in facts.run.entrants:
            about = {"a": line}
        if line.startswith(_COPIED):
            yield from facts.copied(line)
        else:
            yield from sentences.numbers(line[:60], line, about)


_REPLIES = ("verdict_ab", "verdict_ba", "reason_ab", "reason_ba")


def _battles(facts: PrintedNumbers, data: Mapping[str, Any]) -> Iterator[Number]:
    """Yield every battle of a page, resolved from the numbers by which the page knows its texts."""
    battles, run = data["battles"], facts.run
    rows = [row for rows in run.verdicts.values() for row in rows]
    for prompt in data["prompts"]:
        yield "a prompt", prompt["text"], run.prompts.get(prompt["id"])
    yield "number of battles", len(battles["a"]), len(rows)
    for number, row in enumerate(rows):
        one = {key: values[number] for key, values in battles.items()}
        prompt = data["prompts"][one["prompt"]]
        key = row["prompt_id"], row["sample"]
        both = {
            "dimension": (data["dimensions"][one["dimension"]], row["dimension"]),
            "prompt": ((prompt["id"], prompt["sample"]), key),
            "outcome": (data["words"][one["outcome"]], row["outcome"]),
        }
        for side in "ab":
            name = row[f"entrant_{side}"]
            response = data["responses"][one[f"response_{side}"]]
            both[side] = data["entrants"][one[side]], name
            both[f"response_{side}"] = "".join(response["parts"]), run.responses[name][key]
            if response["finish"] == "length":
                facts.cut_off.add((*key, name))
        for what in (*_REPLIES, "reply_ab", "reply_ba"):
            texts = data["words" if what in _REPLIES else "replies"]
            both[what] = None if one[what] is None else texts[one[what]], row[what]
        for what, (found, expected) in both.items():
            yield f"battle {number}, {what}", str(found), str(expected)
