"""Battles written as who beat whom."""

from collections.abc import Iterable, Mapping
from typing import Any

from tournament_assets.extension import FormatOptions, RowFormat


def _parse(row: Mapping[str, Any], _: FormatOptions) -> Iterable[Mapping[str, Any]]:
    return [{"model_a": row["beat"], "model_b": row["lost"], "winner": "model_a"}]


ROWS = (RowFormat("beats", "who beat whom", ("beat", "lost"), (), "human", _parse, kinds=("csv",)),)
