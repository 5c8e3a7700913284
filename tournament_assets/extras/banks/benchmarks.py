"""Benchmarks that judge pairs of answers with a model: MT-bench, AlpacaEval, arena-hard.

MT-bench's `gpt-4_pair.jsonl`: each line is one turn of a pair, judged twice, with the second game
swapped. Both games name the winning model, with the swap undone. If they disagree, the line is a
tie and marked as inconsistent here; a judge's error gives no verdict.
Source: FastChat, https://github.com/lm-sys/FastChat (show_result.py of llm_judge)
JudgeArena annotates it in such lines, too, of one game or both; or a line is a game: where it is
`swapped`, model_A and model_B are, but not `preference` (0 for the first, 1 for the second).
Source: judgearena/mt_bench, https://github.com/OpenEuroLLM/JudgeArena

AlpacaEval's `annotations.json`: a JSON list of items with one instruction and two outputs.
`preference` is 1 for the first output, 2 for the second, or anything between. A tie is 1.5, or 0 in
older files; null means that the annotator gave no verdict. The win rate of generator_2 is the mean
of preference - 1, with ties as halves.
Source: the annotators of AlpacaEval, https://github.com/tatsu-lab/alpaca_eval

Arena-hard's `model_judgment/<judge>/<model>.jsonl`: a model against a baseline, judged twice. Every
line holds two games: the baseline is shown as A in the first and as B in the second. `A>>B` is one
verdict with weight 3, not three battles, which would overstate the evidence. If a game has no
score, its whole line is left out, as in arena-hard.
Source: https://github.com/lmarena/arena-hard-auto
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tournament_assets.battles.files import (
    LIST,
    TEXT,
    FormatOptions,
    RowFormat,
    need,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.storage.foreign_tables import LeftOut, Row
from tournament_assets.tournament.battles import BattleWinner

NO_VERDICT = "no verdict: a game ended in an error"


def _parse(row: Row, options: FormatOptions) -> Iterable[Row | LeftOut]:
    games = [row.get("g1_winner"), row.get("g2_winner")]
    return _settle(row, ("model_1", "model_2"), games, options)


def _settle(
    row: Row, sides: tuple[str, str], games: Sequence[Any], options: FormatOptions
) -> Iterable[Row | LeftOut]:
    """Return the battle of a line of games, of which the second is swapped, or one for each."""
    words: dict[str, BattleWinner] = {sides[0]: "model_a", sides[1]: "model_b", "tie": "tie"}
    wrong = [game for game in games if not isinstance(game, str) or game not in {*words, "error"}]
    if wrong:
        raise InputError(
            f"a game's winner is {game!r:.40}; expected {sides[0]!r}, {sides[1]!r}, 'tie' or "
            "'error'"
            for game in wrong
        )
    if "error" in games:
        return [LeftOut(NO_VERDICT)]
    winners = [words[game] for game in games]
    judge = row.get("judge")
    values = {
        "model_a": row.get(sides[0]),
        "model_b": row.get(sides[1]),
        # The judge is a pair: the model, and the name of its prompt.
        "judge_model": judge[0] if isinstance(judge, list) and judge else judge,
        "turn": row.get("turn"),
    }
    if options.apart:
        shown = zip(("ab", "ba"), winners, strict=False)
        return [{**values, "winner": word, "presentation": order} for order, word in shown]
    differ = len({*winners}) > 1
    return [{**values, "winner": "tie" if differ else winners[0], "inconsistent": differ}]


MT_BENCH = RowFormat(
    name="mt-bench",
    title="MT-bench",
    columns=("model_1", "model_2", "g1_winner", "g2_winner"),
    prompts=("question_id",),
    known=frozenset({"g1_user_prompt", "g1_judgment", "g2_user_prompt", "g2_judgment"}),
    source="llm-judge",
    parse=_parse,
)


def _parse_annotation(row: Row, options: FormatOptions) -> Iterable[Row | LeftOut]:
    games = [row[game] for game in ("g1_winner", "g2_winner") if row.get(game) not in (None, "")]
    if games:
        return _settle(row, ("model_A", "model_B"), games, options)
    preference, swapped = row.get("preference"), row.get("swapped")
    if preference in (None, ""):
        return [LeftOut(NO_PREFERENCE)]
    if (
        type(preference) not in (int, float)
        or not 0 <= preference <= 1
        or not isinstance(swapped, bool)
    ):
        raise InputError(
            f"preference is {preference!r:.80}, and swapped {swapped!r:.80}; expected 0 (the first "
            "output) to 1 (the second) or nothing, and true or false"
        )
    first, second = ("model_B", "model_A") if swapped else ("model_A", "model_B")
    return [
        {
            "model_a": row.get(first),
            "model_b": row.get(second),
            "winner": _winner(1 + preference),
            "judge_model": row.get("judge"),
            "turn": row.get("turn"),
            "pref": None if preference in (0, 0.5, 1) else preference,
            "presentation": "ba" if swapped else "ab",
        }
    ]


ANNOTATIONS = replace(
    MT_BENCH,
    name="judgearena-mt-bench",
    title="JudgeArena's annotations of MT-bench",
    columns=("model_A", "model_B", "preference"),
    one_of=frozenset({"swapped", "g1_winner"}),
    known=MT_BENCH.known
    | {"judge_completion", "system_prompt", "user_prompt", "user_prompt_template"}
    | {"g1_verdict", "g2_verdict", "final_winner"},
    parse=_parse_annotation,
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


ALPACA_EVAL = RowFormat(
    name="alpaca-eval",
    title="AlpacaEval",
    columns=("generator_1", "generator_2", "preference"),
    prompts=("instruction",),
    below=("input", "context"),
    known=frozenset({"output_1", "output_2", "raw_completion"}),
    source="llm-judge",
    parse=_parse_alpaca,
)


NO_SCORE = "no score in a game: both games of the line are left out"

_STRONG = 3.0
_SCORES = {
    **dict.fromkeys(("A>>B", "B<<A"), ("A", _STRONG)),
    **dict.fromkeys(("A>B", "B<A"), ("A", 1.0)),
    **dict.fromkeys(("A=B", "B=A"), ("=", 1.0)),
    **dict.fromkeys(("B>A", "A<B"), ("B", 1.0)),
    **dict.fromkeys(("B>>A", "A<<B"), ("B", _STRONG)),
}
"""Which response won, as shown, or neither; and the verdict's weight."""
_GAMES: tuple[tuple[str, Mapping[str, BattleWinner]], ...] = (
    ("ab", {"A": "model_a", "B": "model_b", "=": "tie"}),
    ("ba", {"A": "model_b", "B": "model_a", "=": "tie"}),
)
"""Both games of a line: their presentation, and who won."""


def _parse_arena_hard(row: Row, options: FormatOptions) -> Iterable[Row | LeftOut]:
    need(row, model=TEXT, games=LIST)
    # Lines of version 2 name their baseline; those of version 1 all have the same one.
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
            "winner": winners[_SCORES[score][0]],
            "judge_model": row.get("judge") or options.judge,
            "weight": _SCORES[score][1],
            "presentation": showing,
        }
        for score, (showing, winners) in zip(scores, _GAMES, strict=True)
    ]


ARENA_HARD = RowFormat(
    name="arena-hard",
    title="arena-hard",
    columns=("model", "games"),
    prompts=("uid", "question_id"),
    source="llm-judge",
    parse=_parse_arena_hard,
    is_folder=True,
)
