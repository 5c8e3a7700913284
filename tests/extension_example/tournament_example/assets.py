"""An asset: how many words every entrant wrote."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import pandas as pd

from tournament_assets.extension import AssetRow, Check, Made, ResponseRow, rows_of


@dataclass(frozen=True, slots=True)
class WordRow:
    """How much an entrant wrote."""

    entrant_id: Annotated[str, "who wrote"]
    n: Annotated[int, "words"]


def word_counts(entrant_responses: Mapping[str, pd.DataFrame]) -> Made[list[WordRow]]:
    """How many words every entrant wrote."""
    rows = [
        WordRow(name, sum(len(row.response.split()) for row in rows_of(ResponseRow, table)))
        for name, table in entrant_responses.items()
    ]
    check = Check("nobody_is_silent", all(row.n for row in rows), "everybody wrote something")
    return Made(rows, metadata={"words": sum(row.n for row in rows)}, checks=[check])


ROWS = (
    AssetRow(
        word_counts,
        stage="words",
        job="words",
        axes=("mode",),
        checks={"nobody_is_silent": "Everybody wrote something."},
    ),
)
