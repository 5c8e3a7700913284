"""What a format has no place for: counted before battles are written in it."""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from tournament_assets.adapters.battle_files.columns import (
    BATTLE_SCHEMA,
    DEFAULTS,
    different_names,
)
from tournament_assets.tournament.battles import BattleSource
from tournament_assets.tournament.errors import InputError


def count_losses(
    table: pa.Table,
    *,
    holds: Collection[str],
    title: str,
    source: BattleSource | None = None,
    tells_ties_apart: bool = False,
) -> dict[str, int]:
    """Count the values that a format has no place for, by their field.

    Args:
        table: The battles.
        holds: The fields that the format keeps, in whatever way.
        title: Whose format it is.
        source: Who decided all battles of such a file; None where it says so itself.
        tells_ties_apart: Whether a tie of two bad responses is written as such.

    Raises:
        InputError: If the battles are of several dimensions, which the format cannot tell apart.
    """
    lost = {
        field.name: _count_other(table.column(field.name), DEFAULTS.get(field.name))
        for field in BATTLE_SCHEMA
        if field.name not in holds and field.name != "source"
    }
    if source is not None:
        lost["source"] = _count_other(table.column("source"), source)
    if not tells_ties_apart:
        lost["winner"] = _count_same(table.column("winner"), "tie (bothbad)")
    dimensions = different_names(table, "dimension")
    n_without = table.column("dimension").null_count
    if "dimension" not in holds and len(dimensions) + bool(n_without) > 1:
        raise InputError(
            f"the battles are of {len(dimensions) + bool(n_without)} dimensions "
            f"({', '.join(dimensions)}{', none' if n_without else ''}), which the files of {title} "
            "cannot tell apart; choose one by --dimension"
        )
    return {name: count for name, count in lost.items() if count}


def _count_other(column: pa.ChunkedArray, default: object) -> int:
    if default is None:
        return len(column) - int(column.null_count)
    return len(column) - _count_same(column, default)


def _count_same(column: pa.ChunkedArray, value: object) -> int:
    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    return int(pc.sum(pc.equal(plain, pa.scalar(value)), min_count=0).as_py())
