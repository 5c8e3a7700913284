"""A card each for the first three entrants: how they fared, and what they cost."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tournament_assets.foundation.formatting import (
    ABSENT,
    format_interval,
    format_plural,
    format_rating,
    format_share,
    format_usd,
)
from tournament_assets.reports.claims import Statements
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.tournament.asset_rows import LeaderboardRow

_MOST_CARDS = 3


@dataclass(frozen=True, slots=True)
class CardLine:
    """How an entrant fared on one dimension, as text; a dash for what is missing.

    Attributes:
        win_share: Its share of the pairs with its rival.
        rival: The first other entrant that answers; empty if there is none.
    """

    dimension: str
    places: str
    win_share: str
    rival: str
    rating: str
    interval: str


@dataclass(frozen=True, slots=True)
class EntrantCard:
    """An entrant on the first screen.

    Attributes:
        lines: How it fared, by dimension.
        cost: What 1,000 responses cost, as text.
        length: The mean length of its responses, as text.
    """

    entrant_id: str
    lines: tuple[CardLine, ...]
    cost: str
    length: str


def entrant_cards(
    statements: Sequence[Statements],
    economies: Sequence[EntrantEconomy],
    *,
    broken: Collection[str] = (),
) -> tuple[EntrantCard, ...]:
    """Return the cards of the first entrants that have a rank, in the order of the ladder.

    Args:
        statements: What is known of the entrants, dimension by dimension.
        economies: The entrants' cost and length, where known.
        broken: Entrants that do not answer, and are nobody's rival.
    """
    names = list(dict.fromkeys(row.entrant_id for board in statements for row in board.placed))
    by_name = {economy.entrant_id: economy for economy in economies}
    return tuple(
        EntrantCard(
            name,
            tuple(
                _line(board, row, broken)
                for board in statements
                for row in board.rows
                if row.entrant_id == name
            ),
            *_economy(by_name.get(name)),
        )
        for name in names[:_MOST_CARDS]
    )


def _line(board: Statements, row: LeaderboardRow, broken: Collection[str]) -> CardLine:
    rival, share = board.rival_of(row.entrant_id, broken=broken) or ("", None)
    return CardLine(
        dimension=board.dimension,
        places=row.places or "",
        win_share=format_share(share, decimals=0),
        rival=rival,
        rating="not rated" if row.rating is None else format_rating(row.rating),
        interval=""
        if row.rating is None
        else format_interval(row.low, row.high, absent="unbounded"),
    )


def _economy(economy: EntrantEconomy | None) -> tuple[str, str]:
    usd, words = (None, None) if economy is None else (economy.usd, economy.words)
    return (
        ABSENT if usd is None else f"{format_usd(usd)} for 1,000 responses",
        ABSENT if words is None else f"{format_plural(round(words), 'word')} a response",
    )
