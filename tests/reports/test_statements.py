"""How each form of statement is worded."""

from dataclasses import replace

import pytest

from tournament_assets.audits.more_prompts import MorePrompts
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.reports.claims import PairRecord, PairStatement, Statements
from tournament_assets.reports.statements import (
    Better,
    Careful,
    Equivalent,
    Fragile,
    Missing,
    NextStep,
    Statement,
    Undecided,
    render,
    render_counts,
)

from .builders import leader_row, pair_row

ON = "tone"
A, AB, ABC, BC, MANY = ("a",), ("a", "b"), ("a", "b", "c"), ("b", "c"), tuple("bcdef")
RECORD = PairRecord(6, 2, 1, 1, 2, 3, 0.7083333)
OPEN = PairStatement("a", "b", "undecided", Estimate(10.0, -30.0, 50.0, 12), RECORD)
WON = PairStatement("a", "b", "better", Estimate(90.0, 10.0, 170.0, 12), RECORD)
ALIKE = replace(OPEN, claim="equivalent")
MARGIN = "±20 Elo points (an expected win share of 47.1 to 52.9 %)"
EXPECTED = "a's expected win share is 51 %, 46–57 %"
TOP = Undecided(dimension=ON, names=AB, first="a")
STEP = NextStep(dimension=ON, names=ABC, more=MorePrompts(240, 1, 0.81), pairs=1440, usd=3.1)
LEVEL = Equivalent(dimension=ON, names=AB, margin=20.0)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            Better(dimension=ON, names=A, beaten=BC, pair=WON),
            "a is best on tone: it beats b and c (71 % of 12 settled pairs against b, the next).",
        ),
        (
            Better(dimension=ON, names=("a", "x"), beaten=MANY),
            "a and x are best on tone: they beat all 5 others.",
        ),
        (LEVEL, f"a and b are equivalent on tone within {MARGIN}."),
        (
            replace(LEVEL, margin=7.5, pair=ALIKE, beaten=("c",)),
            "a and b are equivalent on tone within ±7.5 Elo points (an expected win share of 48.9 "
            f"to 51.1 %) ({EXPECTED}); both beat c.",
        ),
        (
            replace(TOP, pair=OPEN, beaten=("c",), also=("d",)),
            f"On tone it is undecided between a and b ({EXPECTED}); both beat c; a also beats d.",
        ),
        (
            replace(TOP, pair=replace(OPEN, difference=Estimate()), is_everybody=True),
            "On tone it is undecided between a and b (71 % of 12 settled pairs).",
        ),
        (
            STEP,
            "About 240 more prompts (1,440 pairs to judge, $3.10) would show who is best on tone, "
            "with a probability of 81 %.",
        ),
        (
            replace(STEP, more=MorePrompts(240, 2, 0.8), usd=None),
            "About 240 more prompts (1,440 pairs to judge) would leave at most 2 that may be best "
            "on tone, with a probability of 80 %.",
        ),
        (
            replace(STEP, more=None, most=10_000),
            "On tone, a, b and c are so close that not even 10,000 more prompts are expected to "
            "show who is best.",
        ),
        (
            replace(TOP, names=ABC, highest="a", beaten=MANY),
            "On tone it is undecided between a, b and c; a is rated highest; all 3 beat b and 4 "
            "others.",
        ),
        (
            replace(TOP, names=MANY, is_everybody=True, also=("d",)),
            "On tone it is undecided between all 5 entrants; a beats d.",
        ),
        (replace(TOP, names=()), "On tone it is undecided who is best."),
        (
            replace(TOP, pair=replace(OPEN, record=replace(RECORD, share=0.45))),
            f"On tone it is undecided between a and b ({EXPECTED}, though 45 % of 12 settled "
            "pairs).",
        ),
        (
            Missing(dimension=ON, what="pair"),
            "On tone, nothing can be said: no pair has been judged. See the audit for what is "
            "missing, then run the tournament again.",
        ),
        (Missing(dimension=ON, what="rank"), "On tone, no ranking is possible."),
        (
            Missing(dimension=ON, what="difference"),
            "On tone, nobody is first: no prompt tells the entrants apart.",
        ),
        (
            Missing(dimension=ON, what="judgment", n_pairs=1),
            "On tone, nobody is first: no pair was judged; 1 pair has identical responses.",
        ),
        (
            Missing(dimension=ON, what="rating", names=AB, note="won every match; no bound"),
            "a and b have no rating: won every match; no bound.",
        ),
        (
            Careful(dimension=ON, why="circle", pairs=(("a", "b"), ("b", "c"), ("c", "a"))),
            "On tone, nobody is first: a beats b, b beats c and c beats a.",
        ),
        (
            Careful(dimension=ON, why="ratings", pairs=(("a", "b"), ("c", "a"))),
            "Decided against the ratings: a over b and c over a.",
        ),
        (
            Careful(dimension=ON, why="copies", names=AB),
            "a and b wrote the same answers, so no prompt can tell them apart.",
        ),
    ],
)
def test_a_statement_that_stands_alone_is_worded_so(statement: Statement, sentence: str) -> None:
    assert render([statement]) == sentence


@pytest.mark.parametrize(
    ("prompts", "at_least", "sentence"),
    [
        ("p", 1, "one prompt: without p a is not first alone."),
        ("pqr", 3, "3 prompts: without p, q, r a is not first alone; no fewer are enough."),
        ("pqrs", 3, "4 prompts: without p, q, r, … a is not first alone; fewer than 3 are not "
        "enough."),
        ("pqrs", 1, "4 prompts: without p, q, r, … a is not first alone; fewer may be enough."),
    ],
)  # fmt: skip
def test_a_best_entrant_names_the_prompts_that_it_rests_on(
    prompts: str, at_least: int, sentence: str
) -> None:
    fragile = Fragile(dimension=ON, names=A, prompts=tuple(prompts), at_least=at_least)
    assert render([fragile]) == f"The first place rests on {sentence}"


def test_counts_of_claims_name_the_margin_and_what_is_not_listed() -> None:
    rows = [leader_row(name, 1400.0 - n, rank=1 + n) for n, name in enumerate("abcde")]
    pairs = [pair_row("a", "b", claim="equivalent", difference=(1.0, -9.0, 11.0))]
    board = Statements.of(rows, pairs, dimension="factuality")
    assert render_counts(board, equivalent_within=20.0) == (
        f"Of 10 pairs of entrants, they are equivalent within {MARGIN} in 1, it is undecided "
        "in 9. The 8 closest are listed; all are in pairwise_winrates.csv."
    )
    alone = Statements.of(rows[:1], [], dimension="factuality")
    assert render_counts(alone, equivalent_within=20.0) == (
        "Fewer than two entrants have a rank, so there is nothing to compare."
    )
