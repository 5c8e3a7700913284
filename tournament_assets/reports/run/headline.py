"""The report's first sentence, over all dimensions, and what to do next."""

from collections.abc import Collection, Mapping, Sequence

from tournament_assets.reports.claims import Outcome, Statements
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.tournament.formatting import (
    format_confidence,
    format_plural,
    format_share,
    join_names,
    name_some,
)


def headline(statements: Sequence[Statements]) -> str:
    """Say in one sentence who is best on what; dimensions that ended alike are named together."""
    dimensions: dict[tuple[Outcome, tuple[str, ...]], list[str]] = {}
    for found in statements:
        dimensions.setdefault(found.outcome, []).append(found.dimension)
    parts = [
        _part(ended, names, join_names(on), is_first=not place)
        for place, ((ended, names), on) in enumerate(dimensions.items())
    ]
    return f"{'; '.join(parts)}."


def _part(ended: Outcome, names: Sequence[str], dimensions: str, *, is_first: bool) -> str:
    listed = name_some(names)
    on = f"{'On' if is_first else 'on'} {dimensions}"
    return {
        "best": f"{listed} {'is' if len(names) == 1 else 'are'} best on {dimensions}",
        "equivalent": f"{listed} are equivalent on {dimensions}",
        "undecided": f"{on} it is undecided {f'between {listed}' if names else 'who is best'}",
        "circle": f"{on} nobody is first, since the decisions go in a circle",
        "nothing": f"{on} no ranking is possible",
    }[ended]


def scope_sentence(n_dimensions: int, *, confidence: float) -> str:
    """Return what the claims of several dimensions mean together; empty for one.

    The chances of something false add up at most, whatever the dimensions have in common.
    """
    if n_dimensions < 2:
        return ""
    chance = format_share(min(1.0, n_dimensions * (1 - confidence)), decimals=0)
    return (
        f"Claims hold together at {format_confidence(confidence)} within a dimension, not over all "
        f"{n_dimensions}: something false stands on such a page in up to {chance} of tournaments."
    )


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
    if broken:
        return (f"See why {join_names([*broken])} did not answer, and run again.",)
    needed = [found for found in map(_needed, statements) if found]
    costs = {each.entrant_id: each.usd for each in economies if each.usd is not None}
    cheaper = [f"{name} on {join_names(on)}" for name, on in _cheapest(statements, costs).items()]
    return (
        *([f"About {'; about '.join(needed)}."] if needed else []),
        *(
            [f"Not shown to be worse than the first, and cheaper: {'; '.join(cheaper)}."]
            if cheaper
            else []
        ),
    )


def _needed(found: Statements) -> str:
    ended, names = found.outcome
    pairs = [found.pairs[names[0], other] for other in names[1:]] if ended == "undecided" else []
    needed = [
        (pair.more_prompts, pair.lower)
        for pair in pairs
        if pair.claim == "undecided" and pair.more_prompts is not None
    ]
    if not needed:
        return ""
    more, other = min(needed)
    return (
        f"{format_plural(more, 'more prompt')} would decide between {names[0]} and {other} on "
        f"{found.dimension}"
    )


def _cheapest(statements: Sequence[Statements], costs: Mapping[str, float]) -> dict[str, list[str]]:
    """Return the dimensions on which an entrant is the cheapest of the top, not the first."""
    found: dict[str, list[str]] = {}
    for each in statements:
        ended, names = each.outcome
        if ended not in ("undecided", "equivalent") or not names or names[0] not in costs:
            continue
        name = min((name for name in names if name in costs), key=costs.__getitem__)
        if costs[name] < costs[names[0]]:
            found.setdefault(name, []).append(each.dimension)
    return found
