"""The sentence over all dimensions, and what to do next."""

from collections.abc import Sequence
from itertools import combinations

from tournament_assets.reports.claims import Statements
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.reports.run.headline import next_steps
from tournament_assets.reports.statements import answer, render_headline

from .builders import leader_row, pair_row

Better = dict[str, tuple[str, ...]]


def stated(
    dimension: str, better: Better, *, claims: dict[tuple[str, str], str] | None = None
) -> Statements:
    """Three entrants in the order of the names; `better` says who beats whom."""
    names = [*better]
    rows = [
        leader_row(
            name,
            1500.0 - 10 * place,
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
    pairs = [
        pair_row(
            *(a, b),
            wins_a=6,
            wins_b=4,
            dimension=dimension,
            claim=(claims or {}).get((a, b), "undecided"),
            difference=(10.0, -5.0, 25.0),
            more_prompts=140,
        )
        for a, b in combinations(names, 2)
    ]
    return Statements.of(rows, pairs, dimension=dimension)


def headline(boards: Sequence[Statements]) -> str:
    """Return the sentence over all dimensions."""
    return render_headline([answer(board, equivalent_within=20.0)[0] for board in boards])


def test_dimensions_that_ended_alike_are_named_together() -> None:
    said = headline(
        [
            stated("truth", {"ada": ("bob", "cyd"), "bob": (), "cyd": ()}),
            stated("tone", {"ada": ("bob", "cyd"), "bob": (), "cyd": ()}),
            stated("use", {"ada": ("cyd",), "bob": (), "cyd": ()}),
        ]
    )

    assert said == "ada is best on truth and tone; on use it is undecided between ada and bob."


def test_only_pairs_that_are_all_equivalent_make_the_top_equivalent() -> None:
    better: Better = {"ada": ("cyd",), "bob": ("cyd",), "cyd": ()}
    same = stated("use", better, claims={("ada", "bob"): "equivalent"})

    assert headline([same]) == "ada and bob are equivalent on use within ±20 Elo points."
    assert "undecided" in headline([stated("use", better)])


def test_the_same_entrants_in_another_order_are_named_once() -> None:
    said = headline(
        [
            stated("use", {"ada": ("cyd",), "bob": (), "cyd": ()}),
            stated("tone", {"bob": ("cyd",), "ada": (), "cyd": ()}),
        ]
    )
    assert said == "On use and tone it is undecided between ada and bob."


def test_where_no_pair_was_judged_nobody_is_compared() -> None:
    assert headline([Statements.of([], [], dimension="use")]) == "On use no ranking is possible."


def test_in_a_circle_nobody_is_called_best() -> None:
    said = headline([stated("use", {"ada": ("bob",), "bob": ("cyd",), "cyd": ("ada",)})])

    assert said == "On use nobody is first, since the decisions go in a circle."


def test_what_next_names_the_prompts_that_would_decide_and_who_is_cheaper() -> None:
    found = [stated("use", {"ada": ("cyd",), "bob": (), "cyd": ()})]
    prices = [EntrantEconomy("ada", usd=3.0), EntrantEconomy("bob", usd=1.0)]

    assert next_steps(found, prices) == (
        "About 140 more prompts would decide between ada and bob on use.",
        "Not shown to be worse than the first, and cheaper: bob on use.",
    )
    assert next_steps(found, [EntrantEconomy("ada", usd=1.0), EntrantEconomy("bob")])[1:] == ()


def test_what_next_names_the_cheapest_alone_and_each_dimension_once() -> None:
    level: Better = {"ada": (), "bob": (), "cyd": ()}
    found = [stated("use", level), stated("tone", level)]
    prices = [EntrantEconomy(name, usd=usd) for name, usd in zip(level, (3, 2, 1), strict=True)]

    assert next_steps(found, prices) == (
        "About 140 more prompts would decide between ada and bob on use; about 140 more prompts "
        "would decide between ada and bob on tone.",
        "Not shown to be worse than the first, and cheaper: cyd on use and tone.",
    )


def test_a_decided_dimension_needs_nothing_next() -> None:
    assert next_steps([stated("use", {"ada": ("bob", "cyd"), "bob": (), "cyd": ()})], ()) == ()


def test_who_did_not_answer_is_looked_at_before_more_is_asked() -> None:
    found = [stated("use", {"ada": (), "bob": ()})]
    assert next_steps(found, (), ["bob"]) == ("See why bob did not answer, and run again.",)
