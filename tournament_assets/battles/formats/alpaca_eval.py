"""AlpacaEval's `annotations.json`: a JSON list with one instruction and two outputs an item.

`preference` is 1 for the first output and 2 for the second, or anything between. 0 is an old way to
write a tie, which 1.5 is too; null means that the annotator gave no verdict. The win rate of
generator_2 is the mean of preference - 1, ties as halves.
Source: the annotators of AlpacaEval, https://github.com/tatsu-lab/alpaca_eval
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from tournament_assets.battles.columns import battles_of
from tournament_assets.battles.files import FormatOptions
from tournament_assets.battles.rows import LeftOut, Row, RowFormat, Unwritten
from tournament_assets.tournament.battles import Battle, BattleWinner
from tournament_assets.tournament.errors import InputError

NO_VERDICT = "no verdict: the preference is null"

_TIES = (0, 1.5)


def _parse(row: Row, _: FormatOptions) -> Iterable[Row | LeftOut]:
    if "preference" not in row:
        raise InputError("preference is missing; expected 1 to 2, 0 for a tie, or null")
    preference = row["preference"]
    if preference is None:
        return [LeftOut(NO_VERDICT)]
    if type(preference) not in (int, float) or not (preference in _TIES or 1 <= preference <= 2):
        raise InputError(
            f"preference is {preference!r:.80}; expected 1 (the first output) to 2 (the second), "
            "0 or 1.5 for a tie, or null for no verdict"
        )
    return [
        {
            "model_a": row.get("generator_1"),
            "model_b": row.get("generator_2"),
            "winner": _winner(preference),
            "judge_model": row.get("annotator"),
            "pref": None if preference in (*_TIES, 1, 2) else preference - 1,
        }
    ]


def _winner(preference: float) -> BattleWinner:
    if preference in _TIES:
        return "tie"
    return "model_a" if preference < 1.5 else "model_b"


def _make_rows(table: pa.Table, _: FormatOptions, unwritten: Unwritten) -> Iterator[Row]:
    for battle in battles_of(table):
        yield {
            "instruction": battle.question_id,
            "generator_1": battle.model_a,
            "generator_2": battle.model_b,
            "annotator": battle.judge_model,
            "preference": _preference(battle, unwritten),
        }


def _preference(battle: Battle, unwritten: Unwritten) -> float:
    if battle.pref is not None:
        if _winner(1 + battle.pref) == battle.winner.split(" ")[0]:
            return 1 + battle.pref
        unwritten.lost["pref"] += 1  # it would be read as another winner
    return {"model_a": 1.0, "model_b": 2.0}.get(battle.winner, 1.5)


ALPACA_EVAL = RowFormat(
    name="alpaca-eval",
    title="AlpacaEval",
    kinds=("json list",),
    columns=("generator_1", "generator_2", "preference"),
    prompts=("instruction",),
    holds=frozenset({"model_a", "model_b", "winner", "question_id", "judge_model", "pref"}),
    source="llm-judge",
    parse=_parse,
    make_rows=_make_rows,
    as_list=True,
)
