"""MT-bench's `gpt-4_pair.jsonl`: a pair judged twice, the second game swapped, one line a turn.

The two games name their winners as models, with the swap undone. Where they disagree the line is a
tie, marked as inconsistent here; a judge's error is no verdict.
Source: FastChat, https://github.com/lm-sys/FastChat (show_result.py of llm_judge)
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tournament_assets.battles.columns import battles_of
from tournament_assets.battles.files import (
    BattleFile,
    FileSample,
    FormatOptions,
    WriteReport,
    battle_lines,
    new_file,
)
from tournament_assets.battles.rows import LeftOut, count_losses, find_prompt, read_battle_rows
from tournament_assets.tournament.battles import Battle, BattleSource, BattleWinner, RatingSettings
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.json_lines import write_json_lines

NO_VERDICT = "no verdict: a game ended in an error"
SINGLE_SHOWING = "one showing of a pair: a line holds both"

_WINNERS: Mapping[str, BattleWinner] = {"model_1": "model_a", "model_2": "model_b", "tie": "tie"}
_GAMES: Mapping[BattleWinner, str] = {"model_a": "model_1", "model_b": "model_2"}
_HOLDS = frozenset(
    {"model_a", "model_b", "winner", "question_id", "judge_model", "turn", "inconsistent"}
)


@dataclass(frozen=True, slots=True)
class MtBenchFormat:
    """Reads and writes pairwise judgments of MT-bench."""

    name: str = "mt-bench"
    title: str = "MT-bench"

    def recognises(self, sample: FileSample) -> bool:
        """Say whether a file that begins like this is of the format."""
        return sample.kind == "json lines" and sample.columns >= {
            "model_1",
            "model_2",
            "g1_winner",
            "g2_winner",
        }

    def read(self, path: Path, options: FormatOptions) -> BattleFile:
        """Read a file; model_1 is model_a.

        Raises:
            InputError: With everything that is wrong with it, the first 50 spelled out.
        """
        source = options.source or "llm-judge"
        prompts = options.prompt_names(("question_id",))
        table, left_out = read_battle_rows(
            battle_lines(path), lambda row: _parse(row, source, prompts)
        )
        return BattleFile(self.name, table, left_out)

    def write(
        self, path: Path, table: pa.Table, options: FormatOptions, settings: RatingSettings | None
    ) -> WriteReport:
        """Write a new file; a tie whose games disagreed gets games that disagree.

        Raises:
            InputError: If the file is there already, or the battles are of several dimensions.
        """
        del options, settings
        lost = count_losses(table, holds=_HOLDS, title=self.title, source="llm-judge")
        left_out: Counter[str] = Counter()
        with new_file(path) as file:
            write_json_lines(file, _lines(battles_of(table), left_out))
        lost.pop("presentation", None)
        return WriteReport(table.num_rows - left_out.total(), dict(left_out), lost)


def _parse(
    row: Mapping[str, Any], source: BattleSource, prompts: Iterable[str]
) -> Iterable[Battle | LeftOut]:
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
        Battle.from_dict(
            {
                "model_a": row.get("model_1"),
                "model_b": row.get("model_2"),
                "winner": first if first == second else "tie",
                "source": source,
                "question_id": find_prompt(row, prompts),
                # The judge is a pair: the model, and the name of the prompt it was given.
                "judge_model": judge[0] if isinstance(judge, list) and judge else judge,
                "turn": row.get("turn"),
                "inconsistent": first != second,
            }
        )
    ]


def _lines(battles: Iterable[Battle], left_out: Counter[str]) -> Iterator[dict[str, Any]]:
    for battle in battles:
        if battle.presentation is not None:
            left_out[SINGLE_SHOWING] += 1
            continue
        game = _GAMES.get(battle.winner, "tie")
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
