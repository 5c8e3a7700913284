"""No sentence about entrants is false, whatever was drawn, and the checker finds those that are."""

import os
import re
from collections.abc import Callable, Iterator
from itertools import combinations

import pytest

from tests.reports.builders import leader_row, pair_row
from tests.reports.checker import Facts, FalseSentenceError, prove, prove_counts, prove_scope
from tests.reports.drawn_boards import draw_board
from tests.reports.test_claims import circle
from tournament_assets.reports.claims import (
    Statements,
    answer_sentence,
    pairs_sentence,
    verdict_sentence,
)
from tournament_assets.reports.run.headline import scope_sentence
from tournament_assets.reports.trust_tables import circle_remarks
from tournament_assets.tournament.estimates import Estimate
from tournament_assets.tournament.formatting import join_names
from tournament_assets.trust.measures import CIRCLES, MEASURES

N_DRAWS = 100_000 if "FUZZ" in os.environ else 2_000
"""Drawn tournaments in all (`make fuzz`: the most); the first few in every run of the tests."""
_IN_A_TEST = 250
_ALWAYS = 500


def said_of(facts: Facts) -> tuple[str, str, str]:
    """Return the answer, the verdict and the count of claims."""
    given = (facts.rows, facts.met)
    remarks = remarks_on(facts)
    return (
        " ".join([answer_sentence(*given, dimension=facts.dimension), *remarks]),
        " ".join([verdict_sentence(*given, dimension=facts.dimension), *remarks]),
        pairs_sentence(Statements.of(*given, dimension=facts.dimension)),
    )


def remarks_on(facts: Facts) -> tuple[str, ...]:
    """Return what the page adds to what it says of a dimension."""
    circles = facts.circles or Estimate()
    row = MEASURES[CIRCLES].light(circles, None, dimension=facts.dimension)
    of = {facts.dimension: facts}
    return circle_remarks(
        [row],
        {name: each.rows for name, each in of.items()},
        {name: each.met for name, each in of.items()},
    ).get(facts.dimension, ())


def check_draw(seed: int) -> list[str]:
    """Prove what is said of one drawn tournament, and return the kinds of sentences."""
    board = draw_board(seed)
    answer, verdict, counts = said_of(board.facts)
    try:
        kinds = prove(answer, board.facts) + prove(verdict, board.facts)
        prove_counts(counts, board.facts)
    except FalseSentenceError as error:
        said = "\n".join((answer, verdict, counts))
        raise AssertionError(f"draw {seed} ({board.kind}): {error}:\n{said}") from error
    return kinds


@pytest.mark.parametrize("first", range(0, _ALWAYS, _IN_A_TEST))
def test_no_sentence_about_a_drawn_tournament_is_false(first: int) -> None:
    for seed in range(first, first + _IN_A_TEST):
        check_draw(seed)


def unlike(answer: str, facts: Facts) -> bool:
    """Whether the headline says something else of a dimension than its answer does."""
    found = Statements.of(facts.rows, facts.met, dimension=facts.dimension)
    ended, names = found.outcome
    listed, verb = join_names(names), "is" if len(names) == 1 else "are"
    starts = {
        "best": rf"{listed} {verb} best on tone\b",
        "equivalent": r".* are equivalent on tone\b",
        "undecided": rf"On tone it is undecided {'between' if names else 'who is best'}",
        "circle": "On tone, nobody is first: .* beats ",
        "nothing": r"On tone, (?:nobody is first: no|nothing can|no ranking)",
    }
    return re.match(starts[ended], answer) is None


@pytest.mark.parametrize("first", range(0, _ALWAYS, _IN_A_TEST))
def test_the_headline_never_contradicts_an_answer(first: int) -> None:
    boards = [draw_board(seed).facts for seed in range(first, first + _IN_A_TEST)]

    said = [(said_of(facts)[0], facts) for facts in (*boards, below_a_circle())]

    assert [answer for answer, facts in said if unlike(answer, facts)] == []


def below_a_circle() -> Facts:
    """Return a board whose first is below nobody, and not shown above those in a circle."""
    names = {"e00": (), "e01": ("e02",), "e02": ("e03",), "e03": ("e01",)}
    rows = [
        leader_row(
            name,
            1500.0 - 10 * place,
            dimension="tone",
            rank=1 + place,
            above=below,
            places=(1, 4) if name == "e00" else (2, 4),
        )
        for place, (name, below) in enumerate(names.items())
    ]
    return Facts(rows, [], "tone")


@pytest.mark.e2e
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(_ALWAYS, N_DRAWS, _ALWAYS))
def test_no_sentence_about_many_drawn_tournaments_is_false(first: int) -> None:
    for seed in range(first, first + _ALWAYS):
        check_draw(seed)


WORDS = {
    "is best": "is undecided",
    "are best": "are equivalent",
    "it beats": "it ties",
    "they beat": "they tie",
    " beats ": " is equivalent to ",
    "both beat": "both are below",
    "are equivalent": "are best",
    "is equivalent to": "is better than",
    "is better than": "is equivalent to",
    "undecided": "decided",
    "Undecided: whether ": "",
    "wins": "loses",
    "highest": "lowest",
    "comes first": "comes last",
    "come first": "come last",
    "share the first rank": "share the last rank",
    "nobody is first": "everybody is first",
    "has no rating": "has a rating",
    "have no rating": "has no rating",
    "wrote the same": "wrote other",
    "less than 1": "2",
    "rests on one": "rests on no",
    "more prompts": "fewer prompts",
    "rated alike": "rated apart",
    "identical responses": "two responses",
    "Circles are": "Lines are",
}


def mutations(said: str) -> Iterator[str]:
    """Yield a text once for each way to say something else: names, words, numbers."""
    names = sorted(set(re.findall(r"\be\d\d\b", said)))[:4]
    for one, other in combinations(names, 2):
        yield said.replace(one, "\0").replace(other, one).replace("\0", other)
    for name in names:
        yield re.sub(rf"{name}, (?=e\d\d)", "", said, count=1)
        yield re.sub(rf"(e\d\d) and {name}\b", r"\1", said, count=1)
        yield re.sub(rf"\b{name}\b", "e99", said, count=1)
    for old, new in WORDS.items():
        yield said.replace(old, new, 1)
    for found in re.finditer(r"(?<![\w.,])\d[\d,]*(?!\w)", said):
        number = int(found[0].replace(",", ""))
        yield f"{said[: found.start()]}{number + 1}{said[found.end() :]}"
    for sentence in re.findall(r"[^.]+\.(?= |$)", said)[1:]:
        yield said.replace(sentence, "", 1)


def is_found(text: str, proves: Callable[[str, Facts], object], facts: Facts) -> bool:
    """Tell whether the checker refuses a text."""
    try:
        proves(text, facts)
    except FalseSentenceError:
        return True
    return False


def in_circles() -> list[Facts]:
    """Return claims that go in a circle, and the same beside somebody who may be first."""
    rows, pairs = circle()
    beside = leader_row("dee", 1390.0, places=(1, 4))
    share = Estimate(0.25, 0.125, 0.5, 9)
    return [Facts(given, pairs, "factuality", circles=share) for given in (rows, [beside, *rows])]


def alike() -> Facts:
    """Return two who are rated alike by way of a third, as no pair of theirs was judged."""
    rows = [leader_row(name, 1450.0, places=(1, 2), above=["cy"]) for name in ("e01", "e02")]
    rows.append(leader_row("cy", 1300.0, rank=3, places=(3, 3)))
    pairs = [
        pair_row("e01", "e02", same_text=3, unjudged=1, claim="undecided"),
        pair_row("e01", "cy", wins_a=4, claim="a_better"),
        pair_row("e02", "cy", wins_a=4, claim="a_better"),
    ]
    return Facts(rows, pairs, "factuality")


def of_one_text() -> Facts:
    """Return two of whom the judge settled no pair, and some of whose pairs are of one text."""
    rows = [leader_row(name, 1400.0) for name in ("e01", "e02")]
    pair = pair_row("e01", "e02", same_text=3, unjudged=2, claim="undecided")
    return Facts(rows, [pair], "factuality")


@pytest.mark.parametrize("n_dimensions", [1, 2, 3, 40])
def test_what_several_dimensions_mean_together_is_proven(n_dimensions: int) -> None:
    said = scope_sentence(n_dimensions, confidence=0.95)
    prove_scope(said, n_dimensions)
    for changed in {*mutations(said)} - {said}:
        with pytest.raises(FalseSentenceError):
            prove_scope(changed, n_dimensions)


def test_every_sentence_that_says_something_else_is_found_false() -> None:
    kinds: set[str] = set()
    n_changed = 0
    for facts in (
        *(draw_board(seed).facts for seed in range(40)),
        *in_circles(),
        alike(),
        of_one_text(),
    ):
        for text, proves in zip(said_of(facts), (prove, prove, prove_counts), strict=True):
            if proves is prove:
                kinds |= {*prove(text, facts)}
            else:
                prove_counts(text, facts)
            for changed in {*mutations(text)} - {text}:
                n_changed += 1
                assert is_found(changed, proves, facts), f"{changed!r} passes for {text!r}"
    assert n_changed > 1_000
    assert kinds >= {
        *("best", "undecided", "copies", "unrated", "highest", "first", "shared", "circle"),
        *("better", "open", "prompts", "prompts without", "circular", "alike", "one text"),
        "against",
    }
