"""Benchmarks that judge pairs of answers with a model: MT-bench, AlpacaEval, arena-hard.

MT-bench's `gpt-4_pair.jsonl`: a pair judged twice, the second game swapped, one line a turn. The
two games name their winners as models, with the swap undone. Where they disagree the line is a tie,
marked as inconsistent here; a judge's error is no verdict.
Source: FastChat, https://github.com/lm-sys/FastChat (show_result.py of llm_judge)

AlpacaEval's `annotations.json`: a JSON list with one instruction and two outputs an item.
`preference` is 1 for the first output and 2 for the second, or anything between. 0 is an old way to
write a tie, which 1.5 is too; null means that the annotator gave no verdict. The win rate of
generator_2 is the mean of preference - 1, ties as halves.
Source: the annotators of AlpacaEval, https://github.com/tatsu-lab/alpaca_eval

Arena-hard's `model_judgment/<judge>/<model>.jsonl`: a model against a baseline, judged twice. Every
line holds two games. In the first the baseline is shown as A, in the second as B. `A>>B` is one
verdict that weighs three; it is not three battles, which would be three times as sure. A line with
a game that has no score is left out whole, as arena-hard does.
Source: https://github.com/lmarena/arena-hard-auto
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import pyarrow as pa

from tournament_assets.battles.columns import battles_of
from tournament_assets.battles.files import (
    LIST,
    TEXT,
    FormatOptions,
    LeftOut,
    Row,
    RowFormat,
    Unwritten,
    need,
)
from tournament_assets.tournament.battles import Battle, BattleWinner
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


NO_PREFERENCE = "no verdict: the preference is null"

_TIES = (0, 1.5)


def _parse_alpaca(row: Row, _: FormatOptions) -> Iterable[Row | LeftOut]:
    if "preference" not in row:
        raise InputError("preference is missing; expected 1 to 2, 0 for a tie, or null")
    preference = row["preference"]
    if preference is None:
        return [LeftOut(NO_PREFERENCE)]
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


def _make_alpaca_rows(table: pa.Table, _: FormatOptions, unwritten: Unwritten) -> Iterator[Row]:
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
    parse=_parse_alpaca,
    make_rows=_make_alpaca_rows,
    as_list=True,
)


NO_SCORE = "no score in a game: both games of the line are left out"
NOT_WITH_BASELINE = "the baseline is not one of the two models"
OTHER_WEIGHT = "a weight that is neither 1 nor 3"

_STRONG = 3.0
_Shown = Literal["A", "B", "="]
_SCORES: Mapping[str, tuple[_Shown, float]] = {
    "A>>B": ("A", _STRONG),
    "A>B": ("A", 1.0),
    "A=B": ("=", 1.0),
    "B=A": ("=", 1.0),
    "B>A": ("B", 1.0),
    "B>>A": ("B", _STRONG),
    "A<B": ("B", 1.0),
    "A<<B": ("B", _STRONG),
    "B<A": ("A", 1.0),
    "B<<A": ("A", _STRONG),
}
_Showing = Literal["ab", "ba"]
_SHOWINGS: tuple[_Showing, _Showing] = ("ab", "ba")
_Winner = tuple[BattleWinner, float]


def _parse_arena_hard(row: Row, options: FormatOptions) -> Iterable[Row | LeftOut]:
    need(row, model=TEXT, games=LIST)
    # Lines of the second version name their baseline; those of the first were all against one.
    baseline = row.get("baseline") or options.baseline
    if baseline is None:
        raise InputError("baseline is missing; name the model that all were compared with")
    games = row["games"]
    if len(games) != 2:
        raise InputError(f"games holds {len(games)}; expected two, the second one swapped")
    scores: list[Any] = [game.get("score") if isinstance(game, Mapping) else None for game in games]
    unknown = [
        score
        for score in scores
        if score is not None and not (isinstance(score, str) and score in _SCORES)
    ]
    if unknown:
        raise InputError(
            f"score is {score!r:.40}; expected A>>B, A>B, A=B, B>A or B>>A" for score in unknown
        )
    if None in scores:
        return [LeftOut(NO_SCORE)] * 2
    return [
        {
            "model_a": baseline,
            "model_b": row["model"],
            "winner": winner,
            "judge_model": row.get("judge") or options.judge,
            "weight": weight,
            "presentation": showing,
        }
        for score, showing in zip(scores, _SHOWINGS, strict=True)
        for winner, weight in [_read_score(score, showing)]
    ]


def _read_score(score: str, showing: _Showing) -> _Winner:
    shown, weight = _SCORES[score]
    if shown == "=":
        return "tie", weight
    return ("model_a" if (shown == "A") == (showing == "ab") else "model_b"), weight


def _common_model(table: pa.Table) -> str:
    common: set[str] | None = None
    for battle in battles_of(table):
        both = {battle.model_a, battle.model_b}
        common = both if common is None else common & both
        if not common:
            break
    if common is None or len(common) != 1:
        found = ", ".join(sorted(common)) if common else "no model"
        raise InputError(
            f"{found} is in every battle; expected one model that all others were compared with; "
            "name it by --baseline"
        )
    return common.pop()


def _make_arena_hard_rows(
    table: pa.Table, options: FormatOptions, unwritten: Unwritten
) -> Iterator[Row]:
    """Make two games a line, which a settled pair fills with the same verdict.

    So a settled pair is read again as two battles. A game whose counterpart is not among the
    battles has no score.
    """
    baseline = options.baseline or _common_model(table)
    waiting: dict[tuple[str | None, str, str | None], dict[str, str]] = {}
    for battle in battles_of(table):
        if baseline not in (battle.model_a, battle.model_b):
            unwritten.left_out[NOT_WITH_BASELINE] += 1
            continue
        if battle.weight not in (1.0, _STRONG):
            unwritten.left_out[OTHER_WEIGHT] += 1
            continue
        is_flipped = battle.model_b == baseline
        model = battle.model_a if is_flipped else battle.model_b
        key = (battle.question_id, model, battle.judge_model)
        if battle.presentation is None:
            yield _line(key, baseline, {s: _score(battle, s, is_flipped) for s in _SHOWINGS})
            continue
        # Which showing of the baseline this is: `ab` shows it first.
        showing = _SHOWINGS[(battle.presentation == "ba") != is_flipped]
        if showing in waiting.get(key, {}):
            yield _line(key, baseline, waiting.pop(key))
        games = waiting.setdefault(key, {})
        games[showing] = _score(battle, showing, is_flipped)
        if len(games) == len(_SHOWINGS):
            yield _line(key, baseline, waiting.pop(key))
    for key, games in waiting.items():
        yield _line(key, baseline, games)


def _score(battle: Battle, showing: str, is_flipped: bool) -> str:
    if battle.is_tie:
        return "A=B"
    baseline_won = (battle.winner == "model_a") != is_flipped
    sign = ">>" if battle.weight == _STRONG else ">"
    return f"A{sign}B" if baseline_won == (showing == "ab") else f"B{sign}A"


def _line(
    key: tuple[str | None, str, str | None], baseline: str, games: Mapping[str, str]
) -> dict[str, Any]:
    question, model, judge = key
    return {
        "uid": question,
        "judge": judge,
        "model": model,
        "baseline": baseline,
        "games": [{"score": games.get(showing)} for showing in _SHOWINGS],
    }


ARENA_HARD = RowFormat(
    name="arena-hard",
    title="arena-hard",
    kinds=("json lines",),
    columns=("model", "games"),
    prompts=("uid", "question_id"),
    holds=frozenset(
        {
            *("model_a", "model_b", "winner", "question_id", "judge_model"),
            *("weight", "presentation"),
        }
    ),
    source="llm-judge",
    parse=_parse_arena_hard,
    make_rows=_make_arena_hard_rows,
)
