"""Evalica's CSV: `left`, `right` and `winner`, which is left, right or tie.

The file does not say who decided, so the reader has to be told. Some have a column `prompt`; where
there is none, every row counts as a prompt of its own.
Source: https://github.com/dustalov/evalica
"""

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from tournament_assets.battles.columns import battles_of
from tournament_assets.battles.files import FormatOptions
from tournament_assets.battles.rows import LeftOut, Row, RowFormat, Unwritten
from tournament_assets.tournament.battles import BattleWinner
from tournament_assets.tournament.errors import InputError

NO_VERDICT = "no verdict: the winner is empty"

_COLUMNS = ("left", "right", "winner")
_WINNERS: Mapping[str, BattleWinner] = {"left": "model_a", "right": "model_b", "tie": "tie"}
_WORDS: Mapping[BattleWinner, str] = {"model_a": "left", "model_b": "right"}


def _parse(row: Row, _: FormatOptions) -> Iterable[Row | LeftOut]:
    if row["winner"] == "":
        return [LeftOut(NO_VERDICT)]
    if row["winner"] not in _WINNERS:
        raise InputError(f"winner is {row['winner']!r:.40}; expected 'left', 'right' or 'tie'")
    return [{"model_a": row["left"], "model_b": row["right"], "winner": _WINNERS[row["winner"]]}]


def _make_rows(table: pa.Table, _: FormatOptions, __: Unwritten) -> Iterator[Row]:
    for battle in battles_of(table):
        word = _WORDS.get(battle.winner, "tie")
        yield {"left": battle.model_a, "right": battle.model_b, "winner": word}


EVALICA = RowFormat(
    name="evalica",
    title="evalica",
    kinds=("csv",),
    columns=_COLUMNS,
    prompts=("prompt", "question_id", "prompt_id", "prompt_hash"),
    holds=frozenset({"model_a", "model_b", "winner"}),
    source=None,
    parse=_parse,
    make_rows=_make_rows,
    written=_COLUMNS,
)
