"""Battle formats by name: detecting a file's format, and pooling several files."""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tournament_assets.battles.columns import Preferences
from tournament_assets.battles.counts import MANY_DRAWS, BattlePool, UncountableError
from tournament_assets.battles.files import (
    TEXT,
    TEXT_OR_NUMBER,
    BattleFile,
    FormatOptions,
    RowFormat,
    need,
)
from tournament_assets.battles.formats.arena import JUDGEARENA, PLAIN, TOURNAMENT, ArenaFormat
from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.foundation.formatting import format_confidence
from tournament_assets.foundation.json_lines import JsonObject, numbered_lines, parse_rows
from tournament_assets.storage.foreign_tables import choose_format
from tournament_assets.storage.row_files import sample_file
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.prompts import AnswerKey

BattleFormat = ArenaFormat | RowFormat
_CORE = (TOURNAMENT, JUDGEARENA, PLAIN)
FORMATS: Mapping[str, BattleFormat] = {
    row.name: row for row in (*_CORE, *added_rows("formats", _CORE, (RowFormat,)))
}
"""Every format by its name."""
WRITTEN_FORMATS: Mapping[str, ArenaFormat] = {
    name: each for name, each in FORMATS.items() if isinstance(each, ArenaFormat) and each.written
}
"""Those that battles are written in."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+]+:/")
_ADVICE = f"choose one with --format: {', '.join(FORMATS)}"


def read_battles(
    path: Path, *, format_name: str | None = None, options: FormatOptions | None = None
) -> BattleFile:
    """Open a file of battles, which is then read once, a part at a time.

    Args:
        path: The file; a judge's folder for arena-hard.
        format_name: The format; found out from the file if None.
        options: What the file does not say itself.
    """
    if _ADDRESS.match(str(path)) and not path.exists():
        raise InputError(
            f"{path}: an address; expected a file of this machine; copy it here, or count it where "
            "it is (tournament battles rate --save-counts) and add its counts (--add)"
        )
    options = options or FormatOptions()
    if format_name and format_name not in FORMATS:
        raise InputError(f"the format is {format_name!r}; expected one of {', '.join(FORMATS)}")
    file = (FORMATS[format_name] if format_name else detect_format(path)).open(path, options)
    parts = _at_least_one(file, path, named=options.prompt_column)
    return replace(file, parts=parts)


def _at_least_one(file: BattleFile, path: Path, *, named: str | None) -> Iterator[pa.Table]:
    """Refuse a file without a battle, or without a prompt in the column that is to name it."""
    n_battles, n_with_prompt = 0, 0
    for part in file.parts:
        n_battles += part.num_rows
        n_with_prompt += part.num_rows - part.column("question_id").null_count
        yield part
    if not n_battles:
        reasons = "; ".join(f"{count} left out, {why}" for why, count in file.left_out.items())
        raise InputError(
            f"{path}: the file holds no battle{f' ({reasons})' if reasons else ''}; expected at "
            "least one decided comparison"
        )
    if named and not n_with_prompt:
        raise InputError(
            f"{path}: no battle has a value in {named!r}; expected the column that names the prompt"
            + ("" if path.is_dir() else f", one of {', '.join(sorted(sample_file(path).columns))}")
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
    return WRITTEN_FORMATS[format_name].write(path, table, settings)


def detect_format(path: Path, *, advice: str = _ADVICE) -> BattleFormat:
    """Find out by its first row which format a file is of.

    Args:
        advice: What to do where no format is recognised.
    """
    if path.is_dir():
        formats = [each for each in FORMATS.values() if each.is_folder]
        if len(formats) == 1:
            return formats[0]
        raise InputError(f"{path}: a folder; expected a file; {advice}")
    return choose_format(FORMATS, sample_file(path), str(path), advice=advice)


@dataclass(frozen=True, slots=True, eq=False)
class PooledBattles:
    """The battles of several files.

    Attributes:
        pool: All of them.
        formats: The files' formats, each once.
        saved: How they were rated; None where no file says.
        settings: How they are to be rated.
        warnings: How rating them together may mislead.
        notes: Which filled columns of the files are not used.
    """

    pool: BattlePool
    formats: tuple[str, ...]
    saved: RatingSettings | None
    settings: RatingSettings
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


def pool_battles(
    open_files: Callable[[], Sequence[BattleFile]],
    *,
    changes: Mapping[str, Any] | None = None,
    preferences: Preferences = "share",
    keeps: bool = False,
    added: Sequence[Path] = (),
    always: bool = False,
) -> PooledBattles:
    """Read files of battles once, one after the other; the first that says how decides the rating.

    More than `MANY_DRAWS` in all resamples are counted unless a run has rated them otherwise or
    they have weights, samples or finer preferences; memory then grows with the models and not with
    the battles, unless the battles are kept.

    Args:
        open_files: Opens the files; called again if it turns out that they cannot be counted.
        changes: Values of `RatingSettings` in place of the files'.
        preferences: Whether a preference shares the win.
        keeps: Whether every battle is needed, in its order.
        added: Files of counts.
        always: Count few battles, too, and those that a run wrote.

    Raises:
        InputError: With everything that is wrong with the files; if battles that are always to be
            counted have shares of a win, weights or several samples.
    """
    files = open_files()
    saved, warnings = _pool_settings([file.settings for file in files])
    settings = RatingSettings.from_dict(
        {**(saved or RatingSettings()).to_dict(), **(changes or {})}
    )
    require_resamples(settings)
    counts_from = (
        0 if always else None if settings.entrants else MANY_DRAWS // settings.n_bootstraps
    )
    pool = BattlePool(settings.resampling, preferences, keeps=keeps, counts_from=counts_from)
    try:
        _add_files(pool, files, added)
    except UncountableError:
        if always:
            raise InputError(
                "a battle has a weight, a preference finer than its winner, or a sample above 1, "
                "and only battles that are won, lost or tied outright are counted; rate the files "
                "without --save-counts and --add, or give --preferences winner"
            ) from None
        files = open_files()
        pool = BattlePool(settings.resampling, preferences, counts_from=None)
        _add_files(pool, files, added)
    return PooledBattles(
        pool,
        tuple(dict.fromkeys(file.format for file in files)) or ("counts",),
        saved,
        settings,
        (*warnings, *_source_warnings(pool.sources), *_name_warnings(pool.models)),
        tuple(dict.fromkeys(file.note for file in files if file.note)),
    )


def _add_files(pool: BattlePool, files: Sequence[BattleFile], added: Sequence[Path]) -> None:
    for path in added:
        pool.add_file(path)
    problems = Problems(of_file=True)
    for file in files:
        with problems.collected():
            for place, part in enumerate(file.parts):
                pool.add(part, begins_file=place == 0)
            pool.left_out.update(file.left_out)
    problems.raise_if_any()


def require_resamples(settings: RatingSettings) -> None:
    """Refuse fewer resamples than an interval can stand on."""
    needed = math.ceil(2 / (1 - settings.confidence) - 1e-9)
    if settings.n_bootstraps < needed:
        raise InputError(
            f"{settings.n_bootstraps} resamples cannot support an interval of "
            f"{format_confidence(settings.confidence)}; expected at least {needed}; ask for "
            "more resamples (n_bootstraps) or for less confidence"
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
