"""Battle formats by name: detecting a file's format, and pooling several files."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tournament_assets.battles.columnar import DoubtfulError
from tournament_assets.battles.columns import (
    Preferences,
    complete_battle_table,
    different_names,
    encode_battle_table,
)
from tournament_assets.battles.counts import MANY_BATTLES, CountedBattles, UncountableError
from tournament_assets.battles.files import (
    TEXT,
    TEXT_OR_NUMBER,
    BattleFile,
    FormatOptions,
    OpenedFile,
    RowFormat,
    need,
)
from tournament_assets.battles.formats.arena import JUDGEARENA, TOURNAMENT, ArenaFormat
from tournament_assets.battles.formats.plain import PLAIN
from tournament_assets.foundation.errors import InputError, Problems, make_each
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.foundation.json_lines import JsonObject, numbered_lines, parse_rows
from tournament_assets.storage.foreign_tables import choose_format
from tournament_assets.storage.row_files import sample_file
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.prompts import AnswerKey

BattleFormat = ArenaFormat | RowFormat
_CORE = (TOURNAMENT, JUDGEARENA, PLAIN)
FORMATS: Mapping[str, BattleFormat] = {
    row.name: row for row in (*_CORE, *added_rows("formats", _CORE))
}
"""Every format by its name."""
WRITTEN_FORMATS = tuple(each.name for each in FORMATS.values() if each.written)
"""Those that battles are written in."""
_ADVICE = f"choose one with --format: {', '.join(FORMATS)}"


def read_battles(
    path: Path, *, format_name: str | None = None, options: FormatOptions | None = None
) -> BattleFile:
    """Read a file of battles.

    Args:
        path: The file; a judge's folder for arena-hard.
        format_name: The format; found out from the file if None.
        options: What the file does not say itself.
    """
    battles = _format_of(path, format_name).read(path, options or FormatOptions())
    n_without = battles.table.column("question_id").null_count
    named = options.prompt_column if options else None
    _refuse_none(path, battles.table.num_rows, n_without, battles.left_out, named=named)
    return battles


def _refuse_none(
    path: Path, n_battles: int, n_without: int, left_out: Mapping[str, int], *, named: str | None
) -> None:
    """Refuse a file without a battle, or without a prompt in the column that is to name it."""
    if not n_battles:
        reasons = "; ".join(f"{count} left out, {why}" for why, count in left_out.items())
        raise InputError(
            f"{path}: the file holds no battle{f' ({reasons})' if reasons else ''}; expected at "
            "least one decided comparison"
        )
    if named and n_without == n_battles:
        raise InputError(
            f"{path}: no battle has a value in {named!r}; expected the column that names the prompt"
            f"{_columns_of(path)}"
        )


def write_battles(
    path: Path,
    table: pa.Table,
    *,
    format_name: str,
    settings: RatingSettings | None = None,
) -> dict[str, int]:
    """Write a new file of battles, and count the values that the format has no place for, by field.

    Args:
        table: The battles, with the columns of `BATTLE_SCHEMA`.
        settings: How they were rated; only our own format keeps it.
    """
    if format_name not in WRITTEN_FORMATS:
        raise InputError(
            f"the format is {format_name!r}; expected one of {', '.join(WRITTEN_FORMATS)}"
        )
    return FORMATS[format_name].write(path, table, settings)


def detect_format(path: Path) -> BattleFormat:
    """Find out by its first row which format a file is of."""
    if path.is_dir():
        formats = [each for each in FORMATS.values() if each.is_folder]
        if len(formats) == 1:
            return formats[0]
        raise InputError(f"{path}: a folder; expected a file; {_ADVICE}")
    return choose_format(FORMATS, sample_file(path), str(path), advice=_ADVICE)


def _columns_of(path: Path) -> str:
    if path.is_dir():
        return ""
    return f", one of {', '.join(sorted(sample_file(path).columns))[:300]}"


def _format_of(path: Path, name: str | None) -> BattleFormat:
    return _named(name) if name else detect_format(path)


def _named(name: str) -> BattleFormat:
    if name not in FORMATS:
        raise InputError(f"the format is {name!r}; expected one of {', '.join(FORMATS)}")
    return FORMATS[name]


@dataclass(frozen=True, slots=True, eq=False)
class PooledBattles:
    """The battles of several files.

    Attributes:
        battles: File by file, with the columns of `BATTLE_SCHEMA`, or counted.
        n_battles: How many.
        formats: The files' formats, each once.
        left_out: Comparisons that are no battles, counted by the reason.
        settings: How they were rated; None where no file says.
        warnings: How rating them together may mislead.
        notes: Which filled columns of the files are not used.
    """

    battles: pa.Table | CountedBattles
    n_battles: int
    formats: tuple[str, ...]
    left_out: Mapping[str, int]
    settings: RatingSettings | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def pool_battles(files: Sequence[BattleFile]) -> PooledBattles:
    """Put the battles of files one after another; the first that says how it was rated decides."""
    table = encode_battle_table([file.table for file in files])
    left_out: Counter[str] = Counter()
    for file in files:
        left_out.update(file.left_out)
    settings, warnings = _pool_settings([file.settings for file in files])
    sources = pc.value_counts(table.column("source").cast(pa.string())).to_pylist()
    names = {*different_names(table, "model_a"), *different_names(table, "model_b")}
    return PooledBattles(
        battles=table,
        n_battles=table.num_rows,
        formats=tuple(dict.fromkeys(file.format for file in files)),
        left_out=dict(sorted(left_out.items())),
        settings=settings,
        warnings=(
            *warnings,
            *_source_warnings({each["values"]: each["counts"] for each in sources}),
            *_name_warnings(names),
        ),
        notes=tuple(dict.fromkeys(file.note for file in files if file.note)),
    )


def count_battles(
    paths: Sequence[Path],
    *,
    format_name: str | None,
    options: FormatOptions,
    changes: Mapping[str, Any],
    preferences: Preferences,
    added: Sequence[Path] = (),
    always: bool = False,
) -> PooledBattles | None:
    """Count the battles of files in one pass, in memory that does not grow with their number.

    Few battles, and those that a run wrote, are read as a table.

    Args:
        paths: The files.
        changes: Values of `RatingSettings` in place of the files'.
        preferences: Whether a preference shares the win; such battles cannot be counted.
        added: Files of counts.
        always: Count few battles, too, and those that a run wrote.

    Returns:
        Nothing where the files cannot be counted, or not a part at a time.

    Raises:
        InputError: If files or counts cannot be used; if battles that are always to be counted
            have shares of a win, weights or several samples.
    """
    for open_file in (_open, _open_whole)[: 1 + always]:
        try:
            opened = make_each(lambda path: open_file(path, format_name, options), paths)  # noqa: B023
            return _pool_counts(
                paths,
                opened,
                prompt_column=options.prompt_column,
                changes=changes,
                preferences=preferences,
                added=added,
                always=always,
            )
        except (DoubtfulError, pa.ArrowException, OSError):
            continue
        except UncountableError:
            break
    if not always:
        return None
    raise InputError(
        "a battle has a weight, a preference finer than its winner, or a sample above 1, and only "
        "battles that are won, lost or tied outright are counted; rate the files without "
        "--save-counts and --add, or give --preferences winner"
    )


def _open(path: Path, format_name: str | None, options: FormatOptions) -> OpenedFile:
    return _format_of(path, format_name).open(path, options)


def _open_whole(path: Path, format_name: str | None, options: FormatOptions) -> OpenedFile:
    file = read_battles(path, format_name=format_name, options=options)
    return OpenedFile(
        file.format, iter([file.table]), lambda: file.left_out, lambda: file.note, file.settings
    )


def _pool_counts(
    paths: Sequence[Path],
    opened: Sequence[OpenedFile],
    *,
    prompt_column: str | None,
    changes: Mapping[str, Any],
    preferences: Preferences,
    added: Sequence[Path],
    always: bool,
) -> PooledBattles:
    saved, warnings = _pool_settings([file.settings for file in opened])
    settings = RatingSettings.from_dict({**(saved or RatingSettings()).to_dict(), **changes})
    counted = CountedBattles(settings.resampling, preferences)
    for path in added:
        counted.add_file(path)
    # A run's battles are rated as the run rated them, so its prompts are drawn.
    is_counted, may_be_counted = always, always or saved is None
    problems = Problems(of_file=True)
    waiting: list[tuple[int, bool, pa.Table]] = []
    n_all = 0
    for place, (path, file) in enumerate(zip(paths, opened, strict=True)):
        with problems.collected():
            n_battles, n_without = 0, 0
            for part in file.parts:
                waiting.append((place, n_battles == 0, part))
                n_battles += part.num_rows
                n_without += part.column("question_id").null_count
                is_counted |= may_be_counted and n_all + n_battles > MANY_BATTLES
                if is_counted:
                    counted.add_all((begins_file, each) for _, begins_file, each in waiting)
                    waiting = []
            _refuse_none(path, n_battles, n_without, file.left_out(), named=prompt_column)
            counted.left_out.update(file.left_out())
            n_all += n_battles
    problems.raise_if_any()
    if not is_counted:
        return pool_battles(
            [
                BattleFile(
                    file.format,
                    encode_battle_table(
                        complete_battle_table(part) for of, _, part in waiting if of == place
                    ),
                    file.left_out(),
                    file.settings,
                    file.note(),
                )
                for place, file in enumerate(opened)
            ]
        )
    return PooledBattles(
        battles=counted,
        n_battles=counted.n_battles,
        formats=tuple(dict.fromkeys(file.format for file in opened)) or ("counts",),
        left_out=dict(sorted(counted.left_out.items())),
        settings=saved,
        warnings=(
            *warnings,
            *_source_warnings(counted.sources),
            *_name_warnings(counted.models),
        ),
        notes=tuple(dict.fromkeys(note for file in opened if (note := file.note()))),
    )


def _pool_settings(
    of_files: Sequence[RatingSettings | None],
) -> tuple[RatingSettings | None, list[str]]:
    present = [each for each in of_files if each is not None]
    if not present:
        return None, []
    first = present[0]
    if len(of_files) == 1:
        return first, []
    # Entrants and dimensions are pooled with the battles; everything else is a choice.
    names = {name for each in present for name in each.entrants}
    pooled = replace(
        first,
        arena=first.arena if len({each.arena for each in present}) == 1 else None,
        entrants=tuple(sorted(names)) if all(each.entrants for each in of_files if each) else (),
        dimensions=tuple(dict.fromkeys(name for each in present for name in each.dimensions)),
    )
    if len(present) < len(of_files):
        pooled = replace(pooled, entrants=())
    values = [each.to_dict() for each in present]
    differing = [
        f"{name} ({' and '.join(dict.fromkeys(str(each[name]) for each in values))})"
        for name in values[0]
        if name not in ("arena", "entrants", "dimensions")
        and any(each[name] != values[0][name] for each in values)
    ]
    if not differing:
        return pooled, []
    return pooled, [
        f"the files were rated with different settings: {', '.join(differing)}; those of the "
        "first file apply to all, so the numbers are not those of the others"
    ]


def _source_warnings(counts: Mapping[str, int]) -> list[str]:
    if len(counts) < 2:
        return []
    return [
        f"{counts['human']} battles were decided by people and {counts['llm-judge']} by models: "
        "one rating of both is of neither; rate them apart, or compare the two first"
    ]


def _name_warnings(names: Iterable[str]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        key = "".join(unicodedata.normalize("NFKC", name).split())
        groups.setdefault(key, []).append(name)
    return [
        f"{' and '.join(map(ascii, group))} are rated as {len(group)} models, and their names "
        "differ only in blanks or in Unicode form; rename them if they are one"
        for group in groups.values()
        if len(group) > 1
    ]


def read_responses(path: Path) -> dict[tuple[str, AnswerKey], str]:
    """Read what models wrote: JSON lines with `model`, `question_id`, `response` and `sample`.

    The sample is 1 where a line does not say it.
    """
    responses: dict[tuple[str, AnswerKey], str] = {}

    def keep(_: str, row: JsonObject) -> None:
        need(row, model=TEXT, question_id=TEXT_OR_NUMBER)
        text = row.get("response")
        if not isinstance(text, str):
            raise InputError("response is missing; expected the text that was judged")
        sample = row.get("sample", 1)
        if type(sample) is not int or sample < 1:
            raise InputError(f"sample is {sample!r:.80}; expected a whole number of at least 1")
        key = (str(row["model"]), (str(row["question_id"]), sample))
        if responses.setdefault(key, text) != text:
            raise InputError(
                f"{key[0]!r} answers {key[1][0]!r} differently above; expected one response"
            )

    for _ in parse_rows(numbered_lines(path), keep):
        pass
    return responses
