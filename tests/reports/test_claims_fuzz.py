"""No statement about entrants is false and none is left out, whatever was drawn."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import combinations
from typing import Any

import pytest

from tests.reports.builders import leader_row
from tests.reports.claims_reference import Facts
from tests.reports.drawn_boards import draw_board
from tests.reports.test_claims import circle
from tournament_assets.reports.claims import Statements
from tournament_assets.reports.statements import (
    Statement,
    answer,
    claim_counts,
    verdict,
)

N_DRAWS = 100_000 if "FUZZ" in os.environ else 2_000
"""Drawn tournaments in all (`make fuzz`: the most); the first few in every run of the tests."""
_IN_A_TEST = 250
_ALWAYS = 500
_LEVEL = 93
"""A draw in which some are equivalent."""
Said = tuple[Statement, ...]


def stated(facts: Facts) -> tuple[Said, Said]:
    """Return the answer and the verdict."""
    board = Statements.of(facts.rows, facts.met, dimension=facts.dimension)
    return (
        answer(board, equivalent_within=facts.within),
        verdict(board, equivalent_within=facts.within),
    )


def check(facts: Facts) -> None:
    """Check all that is stated of a dimension against its rows."""
    short, full = stated(facts)
    check_statements(facts, short, full)
    board = Statements.of(facts.rows, facts.met, dimension=facts.dimension)
    claims = [facts.pair(*pair).claim for pair in combinations(facts.names, 2)]
    assert claim_counts(board) == Counter("better" if x == "worse" else x for x in claims)


def check_statements(facts: Facts, short: Said, full: Said) -> None:
    """Check an answer and a verdict: that they hold, and that nothing is left out."""
    is_circle = facts.missing() is None and not facts.unbeaten
    outcome, *cautions = short
    if is_circle:
        facts.check_circle(outcome)
    else:
        assert outcome == facts.outcome()
    if any(row.win_rate_a is not None for row in facts.met):
        facts.check_cautions(cautions)
    else:
        assert not cautions
    if is_circle or facts.missing() is not None:
        assert full == short
    else:
        assert [*full] == [*short, *facts.fragile()]


def check_draw(seed: int) -> None:
    """Check what is stated of one drawn tournament."""
    board = draw_board(seed)
    try:
        check(board.facts)
    except AssertionError as error:
        raise AssertionError(f"draw {seed} ({board.kind}): {error}") from error


@pytest.mark.parametrize("first", range(0, _ALWAYS, _IN_A_TEST))
def test_no_statement_about_a_drawn_tournament_is_false(first: int) -> None:
    for seed in range(first, first + _IN_A_TEST):
        check_draw(seed)


@pytest.mark.parametrize("place", [0, 1])
def test_no_statement_about_claims_in_a_circle_is_false(place: int) -> None:
    check(beside_circles()[place])


@pytest.mark.e2e
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(_ALWAYS, N_DRAWS, _ALWAYS))
def test_no_statement_about_many_drawn_tournaments_is_false(first: int) -> None:
    for seed in range(first, first + _ALWAYS):
        check_draw(seed)


def beside_circles() -> list[Facts]:
    """Return claims that go in a circle, and the same below somebody who may be first."""
    rows, pairs = circle()
    beside = leader_row("dee", 1390.0, places=(1, 4))
    return [Facts(ranked, pairs, "factuality") for ranked in (rows, [beside, *rows])]


def alterations(statements: Said) -> Iterator[tuple[Statement, Said]]:
    """Yield statements one of which says something else, and without one, beside that one."""
    for place, statement in enumerate(statements):
        before, after = statements[:place], statements[place + 1 :]
        yield from ((other, (*before, other, *after)) for other in mutations(statement))
        if place:
            yield statement, (*before, *after)


def mutations(statement: Statement) -> list[Statement]:
    """Return a statement once for each field that says something else."""
    changed = []
    for field in fields(statement):
        value = getattr(statement, field.name)
        if isinstance(value, bool):
            others: list[Any] = [not value]
        elif isinstance(value, tuple) and value:
            others = [value[1:], value[::-1]] if len(value) > 1 else [()]
        elif isinstance(value, float | int):
            others = [value + 1]
        else:
            others = ["else"] if value is None or field.name in ("next", "note", "what") else []
        changed += [replace(statement, **{field.name: other}) for other in others]
    return changed


def test_every_statement_that_says_something_else_is_found_false() -> None:
    forms = Counter[str]()
    for facts in (*(draw_board(seed).facts for seed in (*range(60), _LEVEL)), *beside_circles()):
        short, full = stated(facts)
        changed = [
            *((other, (altered, full)) for other, altered in alterations(short)),
            *((other, (short, altered)) for other, altered in alterations(full)),
        ]
        for other, statements in changed:
            forms[type(other).__name__] += 1
            with pytest.raises((AssertionError, ValueError)):
                check_statements(facts, *statements)
    assert {*forms} == {"Better", "Equivalent", "Undecided", "Fragile", "Missing", "Careful"}
    assert forms.total() > 750
