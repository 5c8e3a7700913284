"""Where the battles stand: in the report itself, or, where they are many, on pages beside it.

A page's data waits in a temporary file until the page is written: no two of them are in memory.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any

from tournament_assets.adapters.atomic_files import WaitingContent
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

_LOOK_AFTER = 1_000
"""After so many battles, and twice as many, it is looked whether they still fit the report."""

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
        content: The data.
    """

    name: str
    title: str
    first: str
    last: str
    n_battles: int
    content: WaitingContent = field(repr=False)

    @property
    def json(self) -> str:
        """The data, safe inside a `script` element."""
        return self.content.read().decode()


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
    whole = _inline(tables, responses, inline_bytes=inline_bytes)
    if whole is not None:
        return BattlePages(whole, {}, {})
    pages: dict[str, tuple[BattlePage, ...]] = {}
    left_out: dict[str, int] = {}
    for dimension in tables.match_lists:
        shown: list[BattlePage] = []
        missing = 0
        for part in _parts(read_battles(tables, dimension), responses, page_bytes=page_bytes):
            if len(shown) < pages_per_dimension:
                shown.append(_page(part, _data(part, responses)))
            else:
                missing += len(part)
        pages[dimension] = tuple(
            replace(
                page,
                name=f"report_battles_{dimension}{'' if len(shown) == 1 else f'_{number}'}.html",
                title=dimension
                if len(shown) == 1
                else f"{dimension}, part {number} of {len(shown)}",
            )
            for number, page in enumerate(shown, start=1)
        )
        if missing:
            left_out[dimension] = missing
    return BattlePages(None, pages, left_out)


Responses = Mapping[tuple[str, str], Mapping[str, Any]]


def _inline(tables: BattleTables, responses: Responses, *, inline_bytes: int) -> BattlePage | None:
    """Return the page of all battles; None, without having read them all, if it is too large."""
    battles: list[Battle] = []
    looked_at = _LOOK_AFTER
    for battle in chain.from_iterable(read_battles(tables, each) for each in tables.match_lists):
        battles.append(battle)
        if len(battles) == looked_at:
            # More battles only make it longer.
            if len(_data(battles, responses)) > inline_bytes:
                return None
            looked_at *= 2
    data = _data(battles, responses)
    return _page(battles, data) if len(data) <= inline_bytes else None


def _data(battles: Sequence[Battle], responses: Responses) -> bytes:
    return script_json(battle_data(battles, responses)).encode()


def _page(battles: Sequence[Battle], data: bytes) -> BattlePage:
    content = WaitingContent()
    content.file.write(data)
    return BattlePage(
        name="",
        title="all battles",
        first=battles[0].pair["prompt_id"] if battles else "",
        last=battles[-1].pair["prompt_id"] if battles else "",
        n_battles=len(battles),
        content=content,
    )


def _parts(
    battles: Iterator[Battle], responses: Responses, *, page_bytes: int
) -> Iterator[list[Battle]]:
    part: list[Battle] = []
    size = 0
    for _, group in groupby(battles, key=lambda battle: battle.pair["prompt_id"]):
        members = list(group)
        own_size = len(_data(members, responses))
        if part and size + own_size > page_bytes:
            yield part
            part, size = [], 0
        part += members
        size += own_size
    if part:
        yield part
