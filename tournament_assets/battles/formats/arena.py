"""Our own files, JudgeArena's, and the plainest CSV: one battle per row.

JudgeArena's rows are a part of ours, but it writes a reply that it could not read as a tie
without a preference: that is no tie here. Unknown keys are ignored, so that files of newer and
older versions load.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tournament_assets.battles.columnar import (
    ALL_FIELDS,
    SETTINGS_KEY,
    Columns,
    column_parts,
    write_columns,
    write_csv,
)
from tournament_assets.battles.columns import BATTLE_SCHEMA, name_codes
from tournament_assets.battles.files import BattleFile, FormatOptions, count_losses, require_source
from tournament_assets.foundation.errors import InputError
from tournament_assets.storage.foreign_tables import TableFormat, TableReader
from tournament_assets.storage.row_files import FileSample, parquet_schema, rows_in, sample_file
from tournament_assets.tournament.battles import BattleSource, RatingSettings

UNREAD = "no verdict: a tie without a preference, a reply that could not be read"

PLAYERS = ("model_a", "model_b", "winner")
"""The columns that all of these formats have."""
OF_OTHERS = frozenset({"judge_votes", "majority_verdict"})
OURS = frozenset({"inconsistent", SETTINGS_KEY})
"""Columns by which other formats are told, and those of our own files."""
_LOOKED_AT = 1_000  # rows, so that a large file's texts are not all read


@dataclass(frozen=True, slots=True)
class ArenaFormat(TableFormat):
    """A format with one battle per row.

    Attributes:
        accepted: The names each field may have in a file.
        written: The fields that a new file has; none is written if there are none.
        source: Who decided the battles of such files; None where each row says so.
        keeps_settings: Whether the files tell how they were rated.
        judges_ties_by_preference: Whether a model's tie has a preference too, so that one without
            is a reply that could not be read.
        is_folder: Whether its files come as a folder, too.
    """

    accepted: Mapping[str, tuple[str, ...]]
    written: Mapping[str, str] = field(default_factory=dict)
    source: BattleSource | None = None
    keeps_settings: bool = False
    judges_ties_by_preference: bool = False
    is_folder: bool = False

    def open(self, path: Path, options: FormatOptions) -> BattleFile:
        """Open a file.

        Raises:
            InputError: If neither its rows nor anybody else says who decided.
        """
        sample, left_out = sample_file(path), Counter[str]()
        prompts = tuple(options.prompt_names(self.accepted["question_id"]))
        names = {**self.accepted, "question_id": prompts}
        source = options.source or self.source
        if "source" not in self.accepted:
            source = require_source(source, path, self.title)
        columns = Columns(names, source)
        parts = column_parts(path, sample, columns, left_out)
        if self.judges_ties_by_preference:
            has_preferences = sample.kind != "parquet" or "pref" in sample.columns
            looked_at = column_parts(path, sample, columns, Counter()) if has_preferences else ()
            if _tells_unread(looked_at, names_preferences="pref" in sample.columns):
                parts = _without_unread(parts, left_out)
        return BattleFile(
            self.name,
            parts,
            left_out,
            _read_settings(path, sample) if self.keeps_settings else None,
            lambda: self._note(path, sample, columns),
        )

    def _note(self, path: Path, sample: FileSample, columns: Columns) -> str:
        reader = TableReader({*columns.wanted, *self.accepted["question_id"], *self.known})
        reader.look_at(rows_in(path, sample.kind), at_most=_LOOKED_AT)
        return reader.note

    def write(self, path: Path, table: pa.Table, settings: RatingSettings | None) -> dict[str, int]:
        """Write a new file, CSV or what its name says, and count the values that it lacks."""
        if self.judges_ties_by_preference:
            table = _with_preferences_of_ties(table)
        lost = count_losses(table, holds=self.written, title=self.title)
        if "csv" in self.kinds:
            write_csv(path, table, names=self.written)
        else:
            settings = settings if self.keeps_settings else None
            write_columns(path, table, names=self.written, settings=settings)
        return lost


def _tells_unread(parts: Iterable[pa.Table], *, names_preferences: bool) -> bool:
    """Return whether a model's tie without a preference is a reply that could not be read.

    Files without any preference, old ones among them, know ties only by the winner.
    """
    is_decisive = False
    for part in parts:
        is_judged = _is(part, "source", "llm-judge")
        if "pref" in part.column_names and (is_judged & _has_preference(part)).any():
            return True
        is_decisive |= bool((is_judged & ~_is(part, "winner", "tie")).any())
    return names_preferences and not is_decisive


def _without_unread(parts: Iterable[pa.Table], left_out: Counter[str]) -> Iterator[pa.Table]:
    """Leave out the ties that only an unreadable reply of the judge makes."""
    for part in parts:
        is_tie = _is(part, "source", "llm-judge") & _is(part, "winner", "tie")
        is_unread = is_tie & ~_has_preference(part) if "pref" in part.column_names else is_tie
        if n_unread := int(is_unread.sum()):
            left_out[UNREAD] += n_unread
        yield part.filter(pa.array(~is_unread))


def _has_preference(part: pa.Table) -> NDArray[np.bool_]:
    return np.asarray(part.column("pref").is_valid().to_numpy(), dtype=np.bool_)


def _with_preferences_of_ties(table: pa.Table) -> pa.Table:
    """Give a model's ties the preference that distinguishes them from unreadable replies."""
    is_tie = _is(table, "winner", "tie") & _is(table, "source", "llm-judge")
    pref = table.column("pref").to_numpy()
    values = np.where(is_tie & np.isnan(pref), 0.5, pref)
    place = BATTLE_SCHEMA.get_field_index("pref")
    return table.set_column(place, BATTLE_SCHEMA.field(place), pa.array(values, from_pandas=True))


def _is(table: pa.Table, name: str, value: str) -> NDArray[np.bool_]:
    return np.asarray(name_codes(table, name, {value: 0}) == 0, dtype=np.bool_)


def _read_settings(path: Path, sample: FileSample) -> RatingSettings | None:
    if sample.kind == "parquet":
        text = (parquet_schema(path).metadata or {}).get(SETTINGS_KEY.encode())
        values = None if text is None else json.loads(text)
    else:
        values = sample.first.get(SETTINGS_KEY)
    if values is None:
        return None
    if not isinstance(values, dict):
        raise InputError(f"{path}: {SETTINGS_KEY} is {values!r:.60}; expected a JSON object")
    try:
        return RatingSettings.from_dict(values)
    except InputError as error:
        raise InputError(f"{path}: {problem}" for problem in error.problems) from None


_OWN_NAMES = {name: (name,) for name in BATTLE_SCHEMA.names}

TOURNAMENT = ArenaFormat(
    name="tournament",
    title="this project",
    columns=PLAYERS,
    one_of=OURS,
    without=OF_OTHERS,
    accepted=_OWN_NAMES,
    written=ALL_FIELDS,
    keeps_settings=True,
)
JUDGEARENA = ArenaFormat(
    name="judgearena",
    title="JudgeArena",
    columns=(*PLAYERS, "source"),
    without=OF_OTHERS | OURS,
    known=frozenset({"conversation_a", "conversation_b", "response_a", "response_b"}),
    accepted=_OWN_NAMES,
    written={
        name: name
        for name in ("model_a", "model_b", "winner", "source", "question_id", "judge_model", "pref")
    },
    judges_ties_by_preference=True,
)
PLAIN = ArenaFormat(
    name="csv",
    title="plain CSV",
    kinds=("csv", "xlsx"),
    columns=PLAYERS,
    known=frozenset({"response_a", "response_b"}),
    accepted={
        **{name: (name,) for name in PLAYERS},
        "question_id": ("question_id", "prompt_id", "prompt", "prompt_hash"),
    },
    written={name: name for name in PLAYERS},
    is_plain=True,
)
