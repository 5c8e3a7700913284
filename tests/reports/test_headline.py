"""The sentence over all dimensions, and what to do next."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import pytest

from tournament_assets.reports.claims import Statements
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.reports.next_steps import next_step, next_steps
from tournament_assets.reports.statements import Headline, answer, render, state_headline

from .builders import leader_row, pair_row

Better = dict[str, tuple[str, ...]]


def stated(
    dimension: str,
    better: Better,
    *,
    claims: dict[tuple[str, str], str] | None = None,
    pairs: int = 10,
    difference: tuple[float | None, float | None, float | None] = (10.0, -5.0, 25.0),
    stops: str | None = None,
    unrated: str = "",
) -> Statements:
    """Entrants in the order of the names; `better` says who beats whom, 10 Elo points apart."""
    names = [*better]
    rows = [
        leader_row(
            name,
            None if name == unrated else 1500.0 - 10 * place,
            dimension=dimension,
            rank=place,
            places=(
                1 + sum(name in beaten for beaten in better.values()),
                len(names) - len(better[name]),
            ),
            above=better[name],
        )
        for place, name in enumerate(names, start=1)
    ]
    rows = [replace(row, stops=stops) for row in rows]
    met = [
        pair_row(
            *(a, b),
            wins_a=pairs // 2,
            wins_b=pairs - pairs // 2,
            dimension=dimension,
            claim=(claims or {}).get((a, b), "undecided"),
            difference=difference,
        )
        for a, b in combinations(names, 2)
    ]
    return Statements.of(rows, met, dimension=dimension)


def headline(boards: Sequence[Statements], *, is_red: bool = False) -> Headline:
    """Return what the first screen says over all dimensions."""
    names = {row.entrant_id: row.entrant_id.upper() for board in boards for row in board.rows}
    ends = [answer(board, equivalent_within=20.0)[0] for board in boards]
    return state_headline(ends, names, is_red=is_red)


BEST: Better = {"ada": ("bob", "cyd"), "bob": (), "cyd": ()}
OPEN: Better = {"ada": ("cyd",), "bob": (), "cyd": ()}
LEVEL: Better = dict.fromkeys(("ada", "bob", "cyd", "dan", "eve"), ())
CIRCLE: Better = {"ada": ("bob",), "bob": ("cyd",), "cyd": ("ada",)}


@pytest.mark.parametrize(
    ("boards", "label", "sentence", "heads"),
    [
        pytest.param(
            [stated("truth", BEST), stated("tone", BEST), stated("use", BEST)],
            "One is best",
            "ADA is best on all 3 dimensions.",
            ["best: ADA"] * 3,
            id="best",
        ),
        pytest.param(
            [stated("truth", BEST), stated("tone", BEST), stated("use", OPEN)],
            "Different by quality",
            "ADA is best on truth and tone; ADA or BOB may be best on use.",
            ["best: ADA", "best: ADA", "may be best: ADA or BOB"],
            id="different",
        ),
        pytest.param(
            [stated("use", OPEN), stated("tone", {"bob": ("cyd",), "ada": (), "cyd": ()})],
            "Undecided at the top",
            "ADA or BOB may be best on use and tone.",
            ["may be best: ADA or BOB", "may be best: BOB or ADA"],
            id="the same in another order",
        ),
        pytest.param(
            [stated("use", LEVEL)],
            "Undecided at the top",
            "ADA, BOB or 3 more may be best on use.",
            ["may be best: ADA, BOB or 3 more"],
            id="five are open",
        ),
        pytest.param(
            [stated("use", OPEN, claims={("ada", "bob"): "equivalent"})],
            "Equivalent at the top",
            "ADA and BOB are equivalent on use within ±20 Elo points.",
            ["equivalent: ADA and BOB"],
            id="equivalent",
        ),
        pytest.param(
            [stated("use", CIRCLE)],
            "Nobody is first",
            "On use nobody is first, since the decisions go in a circle.",
            ["nobody: a circle"],
            id="circle",
        ),
        pytest.param(
            [Statements.of([], [], dimension="use")],
            "Nobody is first",
            "On use no ranking is possible.",
            ["no ranking"],
            id="nothing judged",
        ),
        pytest.param(
            [stated(name[0], {name: ("x",), "x": ()}) for name in ("ada", "bob", "cyd", "dan")],
            "Different by quality",
            "ADA is best on a; BOB on b; the other dimensions are below.",
            ["best: ADA", "best: BOB", "best: CYD", "best: DAN"],
            id="four differ",
        ),
    ],
)
def test_the_first_screen_says_in_a_label_and_a_sentence_who_is_best(
    boards: Sequence[Statements], label: str, sentence: str, heads: Sequence[str]
) -> None:
    result = headline(boards)
    assert (result.label, result.sentence, [*result.heads]) == (label, sentence, heads)
    assert headline(boards, is_red=True) == replace(result, label="Do not rely on this")


def what_next(
    boards: Sequence[Statements], usd: Mapping[str, float], *, broken: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return what to do next, where entrants cost so much for 1,000 responses."""
    economies = [EntrantEconomy(name, usd=price) for name, price in usd.items()]
    prices = {board.dimension: 4.0 for board in boards}
    return next_steps(boards, economies, broken, confidence=0.95, prices=prices)


def test_what_next_names_the_prompts_that_show_who_is_best_and_what_they_cost() -> None:
    use = stated("use", OPEN, pairs=40)
    step = next_step(use, confidence=0.95, judging_usd=4.0, answering_usd=0.1)
    assert step is not None
    assert step.more is not None
    assert (step.names, step.more.leave) == (("ada", "bob"), 1)
    assert step.pairs == 3 * step.more.prompts
    assert step.usd == pytest.approx((4.0 / 40 + 0.1) * step.more.prompts)
    assert what_next([use], {"ada": 60.0, "bob": 40.0}) == (
        render([step]),
        "Not shown to be worse than the first, and cheaper: bob on use.",
    )
    assert next_step(use, confidence=0.95, n_samples=2) != step


@pytest.mark.parametrize(
    "board",
    [
        stated("use", OPEN, pairs=19),
        stated("use", {"ada": ("bob", "cyd"), "bob": (), "cyd": ()}, pairs=40),
        stated("use", OPEN, pairs=40, claims={("ada", "bob"): "equivalent"}),
        stated("use", OPEN, pairs=40, difference=(10.0, None, 25.0)),
        stated("use", OPEN, pairs=40, stops="bank"),
        stated("use", OPEN, pairs=40, unrated="bob"),
    ],
    ids=["few pairs", "best", "equivalent", "no bound", "stopped early", "no rating"],
)
def test_no_prompts_are_named_where_nothing_is_open_or_too_little_is_known(
    board: Statements,
) -> None:
    assert next_step(board, confidence=0.95) is None


def test_what_next_says_so_where_two_are_too_close() -> None:
    close = stated("use", {"ada": (), "bob": ()}, pairs=900, difference=(0.1, -25.0, 25.2))
    assert what_next([close], {}) == (
        "On use, ada and bob are so close that not even 10,000 more prompts are expected to show "
        "who is best.",
    )


def test_what_next_names_the_cheapest_alone_and_each_dimension_once() -> None:
    level: Better = {"ada": (), "bob": (), "cyd": ()}
    boards = [stated("use", level), stated("tone", level)]
    assert what_next(boards, {"ada": 3, "bob": 2, "cyd": 1}) == (
        "Not shown to be worse than the first, and cheaper: cyd on use and tone.",
    )


def test_who_did_not_answer_is_looked_at_before_more_is_asked() -> None:
    boards = [stated("use", {"ada": (), "bob": ()}, pairs=40)]
    assert what_next(boards, {}, broken=["bob"]) == ("See why bob did not answer, and run again.",)
