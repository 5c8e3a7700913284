"""One-hot votes of people, as in the sets that LMSYS gave to Kaggle: CSV, Parquet or JSON lines.

`winner_model_a`, `winner_model_b` and `winner_tie` are 0 or 1, and one of them is 1. The text of
the prompt is what names the prompt: `id` is another one for every row.
Source: https://www.kaggle.com/competitions/lmsys-chatbot-arena/data
"""

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from tournament_assets.battles.columns import battles_of
from tournament_assets.battles.files import FormatOptions
from tournament_assets.battles.rows import LeftOut, Row, RowFormat, Unwritten
from tournament_assets.tournament.battles import BattleWinner
from tournament_assets.tournament.errors import InputError

NO_VERDICT = "no verdict: the winner's columns are empty"

_WINNERS: Mapping[str, BattleWinner] = {
    "winner_model_a": "model_a",
    "winner_model_b": "model_b",
    "winner_tie": "tie",
    "winner_tie (bothbad)": "tie (bothbad)",
    "winner_tie(bothbad)": "tie (bothbad)",
}
_FLAGS: Mapping[object, bool] = {
    "0": False,
    "1": True,
    "0.0": False,
    "1.0": True,
    0: False,
    1: True,
}


def _parse(row: Row, _: FormatOptions) -> Iterable[Row | LeftOut]:
    given = {name: row[name] for name in _WINNERS if row.get(name) not in (None, "")}
    if not given:
        return [LeftOut(NO_VERDICT)]
    wrong = {
        name: value
        for name, value in given.items()
        if not isinstance(value, str | int | float) or value not in _FLAGS
    }
    won = [name for name, value in given.items() if name not in wrong and _FLAGS[value]]
    if wrong or len(won) != 1:
        said = ", ".join(f"{name} {value!r:.40}" for name, value in given.items())
        raise InputError(f"the winner's columns are {said}; expected one 1 and otherwise 0")
    return [
        {"model_a": row.get("model_a"), "model_b": row.get("model_b"), "winner": _WINNERS[won[0]]}
    ]


def _make_rows(table: pa.Table, _: FormatOptions, __: Unwritten) -> Iterator[Row]:
    for number, battle in enumerate(battles_of(table), start=1):
        won = "tie" if battle.is_tie else battle.winner
        yield {
            "id": number,
            "model_a": battle.model_a,
            "model_b": battle.model_b,
            "prompt": battle.question_id,
            "winner_model_a": int(won == "model_a"),
            "winner_model_b": int(won == "model_b"),
            "winner_tie": int(won == "tie"),
        }


ONE_HOT = RowFormat(
    name="one-hot",
    title="LMSYS on Kaggle",
    kinds=("csv", "parquet", "json lines"),
    columns=("model_a", "model_b", "winner_model_a", "winner_model_b", "winner_tie"),
    more=("winner_tie (bothbad)", "winner_tie(bothbad)"),
    prompts=("prompt", "question_id", "prompt_id", "prompt_hash", "id"),
    holds=frozenset({"model_a", "model_b", "winner", "question_id"}),
    source="human",
    parse=_parse,
    make_rows=_make_rows,
    written=(
        *("id", "model_a", "model_b", "prompt"),
        *("winner_model_a", "winner_model_b", "winner_tie"),
    ),
)
