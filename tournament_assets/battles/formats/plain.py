"""The plainest CSV: `model_a`, `model_b` and `winner` in our words.

It does not say who decided, so the reader has to be told. Some have a column `prompt`; where there
is none, every row counts as a prompt of its own.
"""

from collections.abc import Iterable

from tournament_assets.battles.files import FormatOptions, RowFormat
from tournament_assets.storage.foreign_tables import LeftOut, Row

NO_WINNER = "no verdict: the winner is empty"

_PLAIN_COLUMNS = ("model_a", "model_b", "winner")


def _parse_plain(row: Row, _: FormatOptions) -> Iterable[Row | LeftOut]:
    if row.get("winner") in (None, "") and row.get("model_a") and row.get("model_b"):
        return [LeftOut(NO_WINNER)]
    return [{name: row.get(name) for name in _PLAIN_COLUMNS}]


PLAIN = RowFormat(
    name="csv",
    title="plain CSV",
    kinds=("csv", "xlsx"),
    columns=_PLAIN_COLUMNS,
    prompts=("question_id", "prompt_id", "prompt", "prompt_hash"),
    source=None,
    parse=_parse_plain,
    written=_PLAIN_COLUMNS,
    known=frozenset({"response_a", "response_b"}),
    is_plain=True,
)
