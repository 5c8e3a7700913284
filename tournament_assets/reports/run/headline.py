"""What to do next: which prompts would decide, and who is as good as the first for less."""

from collections.abc import Collection, Mapping, Sequence

from tournament_assets.reports.claims import Statements
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.reports.rendering import render_part


def next_steps(
    statements: Sequence[Statements],
    economies: Sequence[EntrantEconomy],
    broken: Collection[str] = (),
) -> tuple[str, ...]:
    """Return what would decide, and who is as good as the first for less, where that is known.

    Of each dimension the pair that takes the fewest prompts is named, and the cheapest entrant.

    Args:
        broken: Entrants that did not answer; as long as there are any, more prompts decide nothing.
    """
    open_pairs = {board.dimension: board.nearest for board in statements if board.nearest}
    costs = {entrant.entrant_id: entrant.usd for entrant in economies if entrant.usd is not None}
    cheaper = _cheapest(statements, costs)
    lines = render_part("claims.jinja", "next_steps", [*broken], open_pairs, cheaper)
    return tuple(filter(None, lines))


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
