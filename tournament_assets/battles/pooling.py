"""Several files of battles as one, and what a reader has to know before they are rated together."""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tournament_assets.battles.columns import different_names, encode_battle_table
from tournament_assets.battles.files import BattleFile
from tournament_assets.battles.rows import TEXT, TEXT_OR_NUMBER, need
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.json_lines import numbered_lines, parse_rows


@dataclass(frozen=True, slots=True, eq=False)
class PooledBattles:
    """The battles of several files.

    Attributes:
        table: The battles, file by file, with the columns of `BATTLE_SCHEMA`.
        formats: The files' formats, each once.
        left_out: Comparisons that are no battles, counted by the reason.
        settings: How they were rated; None where no file says.
        warnings: What rating them together may do wrong.
    """

    table: pa.Table
    formats: tuple[str, ...]
    left_out: Mapping[str, int]
    settings: RatingSettings | None
    warnings: tuple[str, ...]


def pool_battles(files: Sequence[BattleFile]) -> PooledBattles:
    """Put the battles of files one after another; the first that says how it was rated decides."""
    table = encode_battle_table([file.table for file in files])
    left_out: Counter[str] = Counter()
    for file in files:
        left_out.update(file.left_out)
    settings, warnings = _pool_settings([file.settings for file in files])
    return PooledBattles(
        table=table,
        formats=tuple(dict.fromkeys(file.format for file in files)),
        left_out=dict(sorted(left_out.items())),
        settings=settings,
        warnings=(*warnings, *_source_warnings(table), *_name_warnings(table)),
    )


def _pool_settings(
    found: Sequence[RatingSettings | None],
) -> tuple[RatingSettings | None, list[str]]:
    known = [each for each in found if each is not None]
    if not known:
        return None, []
    first = known[0]
    if len(found) == 1:
        return first, []
    # Entrants and dimensions are pooled with the battles; everything else is a choice.
    names = {name for each in known for name in each.entrants}
    pooled = replace(
        first,
        arena=first.arena if len({each.arena for each in known}) == 1 else None,
        entrants=tuple(sorted(names)) if all(each.entrants for each in found if each) else (),
        dimensions=tuple(dict.fromkeys(name for each in known for name in each.dimensions)),
    )
    if len(known) < len(found):
        pooled = replace(pooled, entrants=())
    values = [each.to_dict() for each in known]
    differing = [
        f"{name} ({' and '.join(dict.fromkeys(str(each[name]) for each in values))})"
        for name in values[0]
        if name not in ("arena", "entrants", "dimensions")
        and any(each[name] != values[0][name] for each in values)
    ]
    if not differing:
        return pooled, []
    return pooled, [
        f"the files were rated with different settings: {', '.join(differing)}; those of the "
        "first file apply to all, so the numbers are not those of the others"
    ]


def _source_warnings(table: pa.Table) -> list[str]:
    sources = table.column("source").cast(pa.string())
    counts = {each["values"]: each["counts"] for each in pc.value_counts(sources).to_pylist()}
    if len(counts) < 2:
        return []
    return [
        f"{counts['human']} battles were decided by people and {counts['llm-judge']} by models: "
        "one rating of both is of neither; rate them apart, or compare the two first"
    ]


def _name_warnings(table: pa.Table) -> list[str]:
    groups: dict[str, list[str]] = {}
    names = {*different_names(table, "model_a"), *different_names(table, "model_b")}
    for name in sorted(names):
        key = "".join(unicodedata.normalize("NFKC", name).split())
        groups.setdefault(key, []).append(name)
    return [
        f"{' and '.join(map(ascii, group))} are rated as {len(group)} models, and their names "
        "differ only in blanks or in Unicode form; rename them if they are one"
        for group in groups.values()
        if len(group) > 1
    ]


def read_responses(path: Path) -> dict[tuple[str, str], str]:
    """Read what models wrote: JSON lines with `model`, `question_id` and `response`.

    Raises:
        InputError: With every line that lacks one of them or repeats another one's.
    """
    found: dict[tuple[str, str], str] = {}

    def keep(_: str, row: Mapping[str, Any]) -> None:
        need(row, model=TEXT, question_id=TEXT_OR_NUMBER)
        if not isinstance(row.get("response"), str):
            raise InputError("response is missing; expected the text that was judged")
        key = (row["model"], str(row["question_id"]))
        if found.setdefault(key, row["response"]) != row["response"]:
            raise InputError(f"another response of {key[0]!r} to {key[1]!r} came before")

    for _ in parse_rows(numbered_lines(path), keep):
        pass
    return found
