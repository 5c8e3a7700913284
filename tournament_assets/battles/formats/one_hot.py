"""One-hot votes of people, as in the sets that LMSYS gave to Kaggle: CSV, Parquet or JSON lines.

`winner_model_a`, `winner_model_b` and `winner_tie` are 0 or 1, and one of them is 1. The text of
the prompt is what names the prompt: `id` is another one for every row.
Source: https://www.kaggle.com/competitions/lmsys-chatbot-arena/data
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tournament_assets.battles.columns import battles_of
from tournament_assets.battles.files import (
    BattleFile,
    FileSample,
    FormatOptions,
    WriteReport,
    battle_lines,
    csv_rows,
    new_file,
    parquet_schema,
    readable_parquet,
    sample_file,
)
from tournament_assets.battles.rows import LeftOut, count_losses, find_prompt, read_battle_rows
from tournament_assets.tournament.battles import Battle, BattleSource, BattleWinner, RatingSettings
from tournament_assets.tournament.errors import InputError

NO_VERDICT = "no verdict: the winner's columns are empty"

_PLAYERS = ("model_a", "model_b")
_WINNERS: Mapping[str, BattleWinner] = {
    "winner_model_a": "model_a",
    "winner_model_b": "model_b",
    "winner_tie": "tie",
    "winner_tie (bothbad)": "tie (bothbad)",
    "winner_tie(bothbad)": "tie (bothbad)",
}
_NEEDED = (*_PLAYERS, "winner_model_a", "winner_model_b", "winner_tie")
_PROMPTS = ("prompt", "question_id", "prompt_id", "prompt_hash", "id")
_HEADER = ("id", "model_a", "model_b", "prompt", "winner_model_a", "winner_model_b", "winner_tie")
_FLAGS: Mapping[object, bool] = {
    "0": False,
    "1": True,
    "0.0": False,
    "1.0": True,
    0: False,
    1: True,
}


@dataclass(frozen=True, slots=True)
class OneHotFormat:
    """Reads and writes one-hot votes."""

    name: str = "one-hot"
    title: str = "LMSYS on Kaggle"

    def recognises(self, sample: FileSample) -> bool:
        """Say whether a file that begins like this is of the format."""
        return sample.kind != "json list" and sample.columns >= set(_NEEDED)

    def read(self, path: Path, options: FormatOptions) -> BattleFile:
        """Read a file; conversations and responses are passed over.

        Raises:
            InputError: With everything that is wrong with it, the first 50 spelled out.
        """
        source = options.source or "human"
        prompts = options.prompt_names(_PROMPTS)
        table, left_out = read_battle_rows(
            _rows(path, [*_PLAYERS, *_WINNERS, *prompts]), lambda row: _parse(row, source, prompts)
        )
        return BattleFile(self.name, table, left_out)

    def write(
        self, path: Path, table: pa.Table, options: FormatOptions, settings: RatingSettings | None
    ) -> WriteReport:
        """Write a new CSV file without responses.

        Raises:
            InputError: If the file is there already, or the battles are of several dimensions.
        """
        del options, settings
        holds = {"model_a", "model_b", "winner", "question_id"}
        lost = count_losses(table, holds=holds, title=self.title, source="human")
        with new_file(path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(_HEADER)
            for number, battle in enumerate(battles_of(table), start=1):
                won = "tie" if battle.is_tie else battle.winner
                flags = [int(name == f"winner_{won}") for name in _HEADER[4:]]
                names = (number, battle.model_a, battle.model_b, battle.question_id)
                writer.writerow([*names, *flags])
            text.detach()
        return WriteReport(table.num_rows, lost=lost)


def _rows(path: Path, wanted: Iterable[str]) -> Iterator[tuple[str, object]]:
    kind = sample_file(path).kind
    if kind == "csv":
        yield from csv_rows(path, needed=_NEEDED)
    elif kind == "parquet":
        present = [name for name in wanted if name in parquet_schema(path).names]
        number = 0
        with readable_parquet(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=present):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path.name}:row {number}", row
    else:
        yield from battle_lines(path)


def _parse(
    row: Mapping[str, Any], source: BattleSource, prompts: Iterable[str]
) -> Iterable[Battle | LeftOut]:
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
        Battle.from_dict(
            {
                "model_a": row.get("model_a"),
                "model_b": row.get("model_b"),
                "winner": _WINNERS[won[0]],
                "source": source,
                "question_id": find_prompt(row, prompts),
            }
        )
    ]
