"""Every battle format by its name, and telling which one a file is of."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from tournament_assets.battles.files import BattleFile, FormatOptions, WriteReport
from tournament_assets.battles.formats.alpaca_eval import ALPACA_EVAL
from tournament_assets.battles.formats.arena import JUDGEARENA, LMARENA, TOURNAMENT, ArenaFormat
from tournament_assets.battles.formats.arena_hard import ARENA_HARD
from tournament_assets.battles.formats.mt_bench import MT_BENCH
from tournament_assets.battles.formats.orq_arena import ORQ_ARENA
from tournament_assets.battles.formats.winner_columns import EVALICA, ONE_HOT
from tournament_assets.battles.rows import RowFormat
from tournament_assets.storage.row_files import sample_file
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.errors import InputError

BattleFormat = ArenaFormat | RowFormat
_ALL: tuple[BattleFormat, ...] = (
    TOURNAMENT,
    JUDGEARENA,
    LMARENA,
    ALPACA_EVAL,
    ARENA_HARD,
    MT_BENCH,
    ORQ_ARENA,
    EVALICA,
    ONE_HOT,
)
FORMATS: Mapping[str, BattleFormat] = {each.name: each for each in _ALL}
"""Every format by its name."""


def read_battles(
    path: Path, *, format_name: str | None = None, options: FormatOptions | None = None
) -> BattleFile:
    """Read a file of battles.

    Args:
        path: The file; a judge's folder for arena-hard.
        format_name: The format; found out from the file if None.
        options: What the file does not say itself.

    Raises:
        InputError: If the format is unknown or cannot be told, the file holds no battle, or any
            row is wrong.
    """
    battle_format = _named(format_name) if format_name else detect_format(path)
    battles = battle_format.read(path, options or FormatOptions())
    if not battles.table.num_rows:
        reasons = "; ".join(f"{count} left out, {why}" for why, count in battles.left_out.items())
        raise InputError(
            f"{path}: the file holds no battle{f' ({reasons})' if reasons else ''}; expected at "
            "least one comparison that somebody decided"
        )
    named = options.prompt_column if options else None
    if named and battles.table.column("question_id").null_count == battles.table.num_rows:
        raise InputError(
            f"{path}: no battle has a value in {named!r}; expected the column that names the prompt"
            f"{_columns_of(path)}"
        )
    return battles


def write_battles(
    path: Path,
    table: pa.Table,
    *,
    format_name: str,
    options: FormatOptions | None = None,
    settings: RatingSettings | None = None,
) -> WriteReport:
    """Write a new file of battles.

    Args:
        path: The file.
        table: The battles, with the columns of `BATTLE_SCHEMA`.
        format_name: The format.
        options: What the battles do not say themselves.
        settings: How they were rated; only our own format keeps it.

    Raises:
        InputError: If the format is unknown or cannot hold the battles, or the file is there.
    """
    return _named(format_name).write(path, table, options or FormatOptions(), settings)


def detect_format(path: Path) -> BattleFormat:
    """Tell by its first row which format a file is of.

    Raises:
        InputError: If it could be of none, or of more than one.
    """
    if path.is_dir():
        return FORMATS["arena-hard"]
    sample = sample_file(path)
    found = [each for each in _ALL if each.recognises(sample)]
    if len(found) != 1:
        could_be = f"could be {' or '.join(each.name for each in found)}" if found else "tell none"
        raise InputError(
            f"{path}: {sample.kind} with {', '.join(sorted(sample.columns))[:200] or 'no columns'} "
            f"{could_be}; expected a file that tells its format; name it by --format: "
            f"{', '.join(FORMATS)}"
        )
    return found[0]


def _columns_of(path: Path) -> str:
    if path.is_dir():
        return ""
    return f", one of {', '.join(sorted(sample_file(path).columns))[:300]}"


def _named(name: str) -> BattleFormat:
    if name not in FORMATS:
        raise InputError(f"the format is {name!r}; expected one of {', '.join(FORMATS)}")
    return FORMATS[name]
