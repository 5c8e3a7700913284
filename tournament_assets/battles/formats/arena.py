"""Our own files and JudgeArena's: one battle per row, as Parquet or as JSON lines.

JudgeArena's rows are a part of ours, but it writes a reply that it could not read as a tie
without a preference: that is no tie here. Unknown keys are ignored, so that files of newer and
older versions load.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tournament_assets.battles.columnar import (
    ALL_FIELDS,
    SETTINGS_KEY,
    Columns,
    DoubtfulError,
    column_parts,
    read_columns,
    write_columns,
)
from tournament_assets.battles.columns import BATTLE_SCHEMA, name_codes
from tournament_assets.battles.files import BattleFile, FormatOptions, OpenedFile, count_losses
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

    def read(self, path: Path, options: FormatOptions) -> BattleFile:
        """Read a file."""
        sample = sample_file(path)
        columns = self._columns(options)
        table, left_out = read_columns(path, sample, columns)
        if self.judges_ties_by_preference:
            is_unread = _unread_ties(table, has_preferences="pref" in sample.columns)
            if n_unread := int(is_unread.sum()):
                table = table.filter(pa.array(~is_unread))
                left_out = {**left_out, UNREAD: n_unread}
        note = self._note(path, sample, columns)
        return BattleFile(self.name, table, left_out, self._settings(path, sample), note)

    def open(self, path: Path, options: FormatOptions) -> OpenedFile:
        """Open a file; whether a tie was read depends on all of the others, and so on preferences.

        Raises:
            DoubtfulError: If the file can only be read as a whole.
        """
        sample, columns = sample_file(path), self._columns(options)
        if self.judges_ties_by_preference and "pref" in sample.columns:
            raise DoubtfulError
        left_out: Counter[str] = Counter()
        return OpenedFile(
            self.name,
            column_parts(path, sample, columns, left_out),
            lambda: +left_out,
            lambda: self._note(path, sample, columns),
            self._settings(path, sample),
        )

    def _columns(self, options: FormatOptions) -> Columns:
        prompts = tuple(options.prompt_names(self.accepted["question_id"]))
        return Columns({**self.accepted, "question_id": prompts}, options.source or self.source)

    def _settings(self, path: Path, sample: FileSample) -> RatingSettings | None:
        return _read_settings(path, sample) if self.keeps_settings else None

    def _note(self, path: Path, sample: FileSample, columns: Columns) -> str:
        reader = TableReader({*columns.wanted, *self.accepted["question_id"], *self.known})
        reader.look_at(rows_in(path, sample.kind), at_most=_LOOKED_AT)
        return reader.note

    def write(self, path: Path, table: pa.Table, settings: RatingSettings | None) -> dict[str, int]:
        """Write a new file, Parquet or JSON lines by its name; count the values that it lacks."""
        if self.judges_ties_by_preference:
            table = _with_preferences_of_ties(table)
        lost = count_losses(table, holds=self.written, title=self.title)
        write_columns(
            path, table, names=self.written, settings=settings if self.keeps_settings else None
        )
        return lost


def _unread_ties(table: pa.Table, *, has_preferences: bool) -> NDArray[np.bool_]:
    """Return for every battle whether only an unreadable reply of the judge makes it a tie."""
    is_judged, is_tie = _is(table, "source", "llm-judge"), _is(table, "winner", "tie")
    has_pref = table.column("pref").is_valid().to_numpy()
    # Files without any preference, old ones among them, know ties only by the winner.
    tells = bool((is_judged & has_pref).any()) or (
        has_preferences and not (is_judged & ~is_tie).any()
    )
    return np.asarray(is_judged & is_tie & ~has_pref & tells, dtype=np.bool_)


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
    kinds=(),
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
    kinds=(),
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
