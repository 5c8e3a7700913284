"""What to do next: how many more prompts show who is best, and who is as good for less."""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tournament_assets.audits.more_prompts import MOST_PROMPTS, find_more_prompts
from tournament_assets.reports.claims import Statements
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.reports.rendering import render_part
from tournament_assets.reports.statements import NextStep, Undecided, answer, render

MIN_PAIRS = 20
"""From fewer settled pairs of two that may be best, nothing is said of further prompts."""


def next_steps(
    statements: Sequence[Statements],
    economies: Sequence[EntrantEconomy],
    broken: Collection[str] = (),
    *,
    confidence: float,
    prices: Mapping[str, float | None],
    n_samples: int = 1,
) -> tuple[str, ...]:
    """Return how many prompts show who is best, and who is as good as the first for less.

    Args:
        broken: Entrants that did not answer; as long as there are any, more prompts decide nothing.
        confidence: With which all claims of a dimension hold together.
        prices: US dollars that judging cost, by dimension; None where no price is known.
        n_samples: How often each prompt is answered.
    """
    costs = {entrant.entrant_id: entrant.usd for entrant in economies if entrant.usd is not None}
    answering = n_samples * sum(costs.values()) / 1000
    if broken:
        return tuple(filter(None, render_part("claims.jinja", "broken", [*broken])))
    steps = (
        next_step(
            board,
            confidence=confidence,
            n_samples=n_samples,
            judging_usd=prices.get(board.dimension),
            answering_usd=answering,
        )
        for board in statements
    )
    cheaper = render_part("claims.jinja", "cheaper", _cheapest(statements, costs))
    return tuple(filter(None, (*(render([step]) for step in steps if step), *cheaper)))


def next_step(
    board: Statements,
    *,
    confidence: float,
    n_samples: int = 1,
    judging_usd: float | None = None,
    answering_usd: float = 0.0,
) -> NextStep | None:
    """Return how many more prompts show who is best on a dimension, or leave few that may be.

    Args:
        confidence: With which all claims of the dimension hold together.
        n_samples: How often each prompt is answered.
        judging_usd: US dollars that judging it cost; None if not known.
        answering_usd: US dollars that the answers to a prompt cost.

    Returns:
        None where somebody is best already or all that may be are equivalent, judging stopped
        early or set no bounds, or two that may be best have fewer than `MIN_PAIRS` settled pairs.
    """
    is_open = isinstance(answer(board, equivalent_within=0.0)[0], Undecided)
    if not is_open or board.stops_early:
        return None
    rows = [
        row
        for place, row in enumerate(board.placed)
        if not any(row.entrant_id in above.same_answers_as for above in board.placed[:place])
    ]
    first = [row for row in rows if row.rank_best == 1]
    rated = [row for row in rows if row.rating is not None]
    met = [board.pairs[a.entrant_id, b.entrant_id].record for a, b in combinations(first, 2)]
    reach = _reach(board, [row.entrant_id for row in rated])
    is_unrated = any(row.rating is None for row in first)
    if reach is None or is_unrated or any(record.settled < MIN_PAIRS for record in met):
        return None
    records = [pair.record for pair in board.pairs.values()]
    n_prompts = max(2, max(record.settled for record in records) // n_samples)
    more = find_more_prompts(
        np.array([row.rating for row in rated]),
        reach,
        n_prompts=n_prompts,
        n_first=max(2, len(first)),
        confidence=confidence,
    )
    names = tuple(row.entrant_id for row in first)
    if more is None:
        return NextStep(dimension=board.dimension, names=names, most=MOST_PROMPTS)
    usd = None if judging_usd is None else judging_usd / n_prompts + answering_usd
    return NextStep(
        dimension=board.dimension,
        names=names,
        more=more,
        pairs=round(more.prompts * sum(record.judged for record in records) / n_prompts),
        usd=None if usd is None else usd * more.prompts,
    )


def _reach(board: Statements, names: Sequence[str]) -> NDArray[np.float64] | None:
    """Return half the width of every difference's interval; None if one has no bound."""
    reach = np.zeros((len(names), len(names)))
    for (row, upper), (column, lower) in combinations(enumerate(names), 2):
        difference = board.pairs[upper, lower].difference
        if difference.low is None or difference.high is None:
            return None
        reach[row, column] = reach[column, row] = (difference.high - difference.low) / 2
    return reach


def _cheapest(statements: Sequence[Statements], costs: Mapping[str, float]) -> dict[str, list[str]]:
    """Return the dimensions on which an entrant is the cheapest of the top, not the first."""
    dimensions: dict[str, list[str]] = {}
    for board in statements:
        names = board.top
        if not names or names[0] not in costs:
            continue
        name = min((name for name in names if name in costs), key=costs.__getitem__)
        if costs[name] < costs[names[0]]:
            dimensions.setdefault(name, []).append(board.dimension)
    return dimensions
