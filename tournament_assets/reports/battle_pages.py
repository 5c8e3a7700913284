"""Where the battles stand: in the report itself, or, where they are many, on pages beside it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tournament_assets.reports.battle_data import (
    Battle,
    BattleTables,
    battle_data,
    describe_responses,
    read_battles,
)

INLINE_BYTES = 4_000_000
"""The most that the report itself holds of battles; with its pictures it stays below 5 MB."""
PAGE_BYTES = 16_000_000
"""About the most that one page beside it holds: what a browser reads without a pause."""
PAGES_PER_DIMENSION = 8
"""The most pages of a dimension; battles beyond them are in `verdicts/` alone, and it is said."""

_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class BattlePage:
    """Battles that are read together.

    Attributes:
        name: The page's file name; empty if they stand in the report itself.
        title: Which battles.
        first: The first prompt on it.
        last: The last prompt on it.
        n_battles: How many battles.
        json: The data, safe inside a `script` element.
    """

    name: str
    title: str
    first: str
    last: str
    n_battles: int
    json: str


@dataclass(frozen=True, slots=True)
class BattlePages:
    """All battles of a report.

    Attributes:
        inline: What stands in the report itself, if they are few.
        pages: The pages beside it otherwise, by dimension.
        left_out: How many battles are on no page, by dimension.
    """

    inline: BattlePage | None
    pages: Mapping[str, tuple[BattlePage, ...]]
    left_out: Mapping[str, int]

    def page_of(self, dimension: str) -> str | None:
        """Return the file where a dimension's battles begin; empty for the report itself."""
        if self.inline is not None:
            return ""
        pages = self.pages.get(dimension)
        return pages[0].name if pages else None


def script_json(value: Any) -> str:
    """Return a value as JSON that can stand inside a `script` element.

    No sign in it can end the element, begin a comment or, for an old reader, end a line.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def lay_out_battles(
    tables: BattleTables,
    *,
    inline_bytes: int = INLINE_BYTES,
    page_bytes: int = PAGE_BYTES,
    pages_per_dimension: int = PAGES_PER_DIMENSION,
) -> BattlePages:
    """Divide the battles between the report and pages beside it.

    Args:
        tables: The battles.
        inline_bytes: The most that the report itself holds.
        page_bytes: About the most that a page beside it holds; a prompt is never divided.
        pages_per_dimension: The most pages of one dimension.
    """
    responses = describe_responses(tables.responses)
    battles = read_battles(tables)
    whole = _page("", "all battles", battles, responses)
    if len(whole.json.encode()) <= inline_bytes:
        return BattlePages(whole, {}, {})
    pages: dict[str, tuple[BattlePage, ...]] = {}
    left_out: dict[str, int] = {}
    for dimension in tables.match_lists:
        own = [battle for battle in battles if battle.pair["dimension"] == dimension]
        parts = list(_parts(own, responses, page_bytes=page_bytes))
        shown = parts[:pages_per_dimension]
        pages[dimension] = tuple(
            _page(
                f"report_battles_{dimension}{'' if len(shown) == 1 else f'_{number}'}.html",
                dimension if len(shown) == 1 else f"{dimension}, part {number} of {len(shown)}",
                part,
                responses,
            )
            for number, part in enumerate(shown, start=1)
        )
        missing = len(own) - sum(len(part) for part in shown)
        if missing:
            left_out[dimension] = missing
    return BattlePages(None, pages, left_out)


def _page(
    name: str,
    title: str,
    battles: Sequence[Battle],
    responses: Mapping[tuple[str, str], Mapping[str, Any]],
) -> BattlePage:
    return BattlePage(
        name=name,
        title=title,
        first=battles[0].pair["prompt_id"] if battles else "",
        last=battles[-1].pair["prompt_id"] if battles else "",
        n_battles=len(battles),
        json=script_json(battle_data(battles, responses)),
    )


def _parts(
    battles: Sequence[Battle],
    responses: Mapping[tuple[str, str], Mapping[str, Any]],
    *,
    page_bytes: int,
) -> Iterator[list[Battle]]:
    part: list[Battle] = []
    size = 0
    for _, group in groupby(battles, key=lambda battle: battle.pair["prompt_id"]):
        members = list(group)
        own_size = len(script_json(battle_data(members, responses)).encode())
        if part and size + own_size > page_bytes:
            yield part
            part, size = [], 0
        part += members
        size += own_size
    if part:
        yield part
