"""Evalica's CSV: `left`, `right` and `winner`, which is left, right or tie.

The file does not say who decided, so the reader has to be told. Some have a column `prompt`; where
there is none, every row counts as a prompt of its own.
Source: https://github.com/dustalov/evalica
"""

import csv
import io
from collections.abc import Iterable, Mapping
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
    csv_rows,
    new_file,
)
from tournament_assets.battles.rows import LeftOut, count_losses, find_prompt, read_battle_rows
from tournament_assets.tournament.battles import Battle, BattleSource, BattleWinner, RatingSettings
from tournament_assets.tournament.errors import InputError

NO_VERDICT = "no verdict: the winner is empty"

_COLUMNS = ("left", "right", "winner")
_PROMPTS = ("prompt", "question_id", "prompt_id", "prompt_hash")
_WINNERS: Mapping[str, BattleWinner] = {"left": "model_a", "right": "model_b", "tie": "tie"}
_WORDS: Mapping[BattleWinner, str] = {"model_a": "left", "model_b": "right"}


@dataclass(frozen=True, slots=True)
class EvalicaFormat:
    """Reads and writes comparisons of evalica."""

    name: str = "evalica"
    title: str = "evalica"

    def recognises(self, sample: FileSample) -> bool:
        """Say whether a file that begins like this is of the format."""
        return sample.kind == "csv" and sample.columns >= set(_COLUMNS)

    def read(self, path: Path, options: FormatOptions) -> BattleFile:
        """Read a file; left is model_a.

        Raises:
            InputError: If nobody says who decided; with everything that is wrong with the file,
                the first 50 spelled out.
        """
        if options.source is None:
            raise InputError(
                f"{path}: files of {self.title} do not say who decided; expected --source "
                "llm-judge or --source human beside them"
            )
        source = options.source
        prompts = options.prompt_names(_PROMPTS)
        table, left_out = read_battle_rows(
            csv_rows(path, needed=_COLUMNS), lambda row: _parse(row, source, prompts)
        )
        return BattleFile(self.name, table, left_out)

    def write(
        self, path: Path, table: pa.Table, options: FormatOptions, settings: RatingSettings | None
    ) -> WriteReport:
        """Write a new file.

        Raises:
            InputError: If the file is there already, or the battles are of several dimensions.
        """
        del options, settings
        lost = count_losses(table, holds={"model_a", "model_b", "winner"}, title=self.title)
        if table.num_rows:
            lost["source"] = table.num_rows
        with new_file(path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(_COLUMNS)
            for battle in battles_of(table):
                word = _WORDS.get(battle.winner, "tie")
                writer.writerow((battle.model_a, battle.model_b, word))
            text.detach()
        return WriteReport(table.num_rows, lost=lost)


def _parse(
    row: Mapping[str, Any], source: BattleSource, prompts: Iterable[str]
) -> Iterable[Battle | LeftOut]:
    if row["winner"] == "":
        return [LeftOut(NO_VERDICT)]
    if row["winner"] not in _WINNERS:
        raise InputError(f"winner is {row['winner']!r:.40}; expected 'left', 'right' or 'tie'")
    return [
        Battle.from_dict(
            {
                "model_a": row["left"],
                "model_b": row["right"],
                "winner": _WINNERS[row["winner"]],
                "source": source,
                "question_id": find_prompt(row, prompts),
            }
        )
    ]
