"""MT-bench's `gpt-4_pair.jsonl`: a pair judged twice, the second game swapped, one line a turn.

The two games name their winners as models, with the swap undone. Where they disagree the line is a
tie, marked as inconsistent here; a judge's error is no verdict.
Source: FastChat, https://github.com/lm-sys/FastChat (show_result.py of llm_judge)
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from tournament_assets.battles.columns import battles_of
from tournament_assets.battles.files import FormatOptions
from tournament_assets.battles.rows import LeftOut, Row, RowFormat, Unwritten
from tournament_assets.tournament.battles import BattleWinner
from tournament_assets.tournament.errors import InputError

NO_VERDICT = "no verdict: a game ended in an error"
SINGLE_SHOWING = "one showing of a pair: a line holds both"

_WINNERS: Mapping[str, BattleWinner] = {"model_1": "model_a", "model_2": "model_b", "tie": "tie"}
_GAMES: Mapping[BattleWinner, str] = {"model_a": "model_1", "model_b": "model_2"}


def _parse(row: Row, _: FormatOptions) -> Iterable[Row | LeftOut]:
    games: list[Any] = [row.get("g1_winner"), row.get("g2_winner")]
    wrong = [
        game for game in games if not isinstance(game, str) or game not in {*_WINNERS, "error"}
    ]
    if wrong:
        raise InputError(
            f"a game's winner is {game!r:.40}; expected 'model_1', 'model_2', 'tie' or 'error'"
            for game in wrong
        )
    if "error" in games:
        return [LeftOut(NO_VERDICT)]
    first, second = (_WINNERS[game] for game in games)
    judge = row.get("judge")
    return [
        {
            "model_a": row.get("model_1"),
            "model_b": row.get("model_2"),
            "winner": first if first == second else "tie",
            # The judge is a pair: the model, and the name of the prompt it was given.
            "judge_model": judge[0] if isinstance(judge, list) and judge else judge,
            "turn": row.get("turn"),
            "inconsistent": first != second,
        }
    ]


def _make_rows(table: pa.Table, _: FormatOptions, unwritten: Unwritten) -> Iterator[Row]:
    for battle in battles_of(table):
        if battle.presentation is not None:
            unwritten.left_out[SINGLE_SHOWING] += 1
            continue
        game = _GAMES.get(battle.winner, "tie")
        # A tie whose games disagreed gets games that disagree.
        games = ("model_1", "model_2") if battle.inconsistent else (game, game)
        yield {
            "question_id": battle.question_id,
            "model_1": battle.model_a,
            "model_2": battle.model_b,
            "g1_winner": games[0],
            "g2_winner": games[1],
            "judge": [battle.judge_model, "pair-v2"],
            "turn": battle.turn,
        }


MT_BENCH = RowFormat(
    name="mt-bench",
    title="MT-bench",
    kinds=("json lines",),
    columns=("model_1", "model_2", "g1_winner", "g2_winner"),
    prompts=("question_id",),
    # Battles with a presentation are left out whole, so no value is lost.
    holds=frozenset(
        {
            *("model_a", "model_b", "winner", "question_id", "judge_model"),
            *("turn", "inconsistent", "presentation"),
        }
    ),
    source="llm-judge",
    parse=_parse,
    make_rows=_make_rows,
)
