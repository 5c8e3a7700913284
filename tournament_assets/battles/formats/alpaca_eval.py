"""AlpacaEval's `annotations.json`: a JSON list with one instruction and two outputs an item.

`preference` is 1 for the first output and 2 for the second, or anything between. 0 is an old way to
write a tie, which 1.5 is too; null means that the annotator gave no verdict. The win rate of
generator_2 is the mean of preference - 1, ties as halves.
Source: the annotators of AlpacaEval, https://github.com/tatsu-lab/alpaca_eval
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tournament_assets.battles.columns import battles_of
from tournament_assets.battles.files import (
    BattleFile,
    FileSample,
    FormatOptions,
    WriteReport,
    new_file,
    read_json_list,
)
from tournament_assets.battles.rows import LeftOut, count_losses, find_prompt, read_battle_rows
from tournament_assets.tournament.battles import Battle, BattleSource, BattleWinner, RatingSettings
from tournament_assets.tournament.errors import InputError

NO_VERDICT = "no verdict: the preference is null"

_TIES = (0, 1.5)
_HOLDS = frozenset({"model_a", "model_b", "winner", "question_id", "judge_model", "pref"})


@dataclass(frozen=True, slots=True)
class AlpacaEvalFormat:
    """Reads and writes `annotations.json`."""

    name: str = "alpaca-eval"
    title: str = "AlpacaEval"

    def recognises(self, sample: FileSample) -> bool:
        """Say whether a file that begins like this is of the format."""
        return sample.kind == "json list" and sample.columns >= {
            "generator_1",
            "generator_2",
            "preference",
        }

    def read(self, path: Path, options: FormatOptions) -> BattleFile:
        """Read a file; the instruction is the prompt, and generator_1 is model_a.

        Raises:
            InputError: With everything that is wrong with it, the first 50 spelled out.
        """
        source = options.source or "llm-judge"
        prompts = options.prompt_names(("instruction",))
        table, left_out = read_battle_rows(
            read_json_list(path), lambda row: _parse(row, source, prompts)
        )
        return BattleFile(self.name, table, left_out)

    def write(
        self, path: Path, table: pa.Table, options: FormatOptions, settings: RatingSettings | None
    ) -> WriteReport:
        """Write a new file; prompts are written as instructions, and there are no outputs.

        Raises:
            InputError: If the file is there already, or the battles are of several dimensions.
        """
        del options, settings
        lost = count_losses(table, holds=_HOLDS, title=self.title, source="llm-judge")
        lost.update(_count_contrary(table))
        with new_file(path) as file:
            for number, battle in enumerate(battles_of(table)):
                row = json.dumps(_row(battle), ensure_ascii=False, allow_nan=False)
                file.write(f"{',' if number else '['}\n  {row}".encode())
            file.write(b"\n]\n" if table.num_rows else b"[]\n")
        return WriteReport(table.num_rows, lost=lost)


def _parse(
    row: Mapping[str, Any], source: BattleSource, prompts: Iterable[str]
) -> Iterable[Battle | LeftOut]:
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
        Battle.from_dict(
            {
                "model_a": row.get("generator_1"),
                "model_b": row.get("generator_2"),
                "winner": _winner(preference),
                "source": source,
                "question_id": find_prompt(row, prompts),
                "judge_model": row.get("annotator"),
                "pref": None if preference in (*_TIES, 1, 2) else preference - 1,
            }
        )
    ]


def _winner(preference: float) -> BattleWinner:
    if preference in _TIES:
        return "tie"
    return "model_a" if preference < 1.5 else "model_b"


def _row(battle: Battle) -> dict[str, Any]:
    preference = {"model_a": 1.0, "model_b": 2.0}.get(battle.winner, 1.5)
    if battle.pref is not None and _winner(1 + battle.pref) == battle.winner:
        preference = 1 + battle.pref
    return {
        "instruction": battle.question_id,
        "generator_1": battle.model_a,
        "generator_2": battle.model_b,
        "annotator": battle.judge_model,
        "preference": preference,
    }


def _count_contrary(table: pa.Table) -> dict[str, int]:
    """Count preferences that would be read as another winner, and so cannot be written."""
    count = sum(
        battle.pref is not None and _winner(1 + battle.pref) != battle.winner.split(" ")[0]
        for battle in battles_of(table.filter(pc.is_valid(table.column("pref"))))
    )
    return {"pref": count} if count else {}
