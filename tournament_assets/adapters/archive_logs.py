"""Reads the logs of a sweep: which runs they say failed, and of what."""

import re
from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path

from tournament_assets.adapters.archive_config import ArchiveFile
from tournament_assets.tournament.archived_runs import LogFailure
from tournament_assets.tournament.archives import ArchivedModel, LogPattern
from tournament_assets.tournament.errors import InputError


def read_logs(
    archive: ArchiveFile, models: Sequence[ArchivedModel]
) -> tuple[int, tuple[LogFailure, ...]]:
    """Return how many logs there are, and what they tell of.

    A line counts once, under the first pattern that is found in it. Lines of models that are not
    among `models` are left out.

    Raises:
        InputError: If a log cannot be read.
    """
    logs = archive.config.logs
    if logs is None:
        return 0, ()
    excluded = {model.model_id for model in archive.config.models} - {
        model.model_id for model in models
    }
    names = {
        name: model.model_id
        for model in archive.config.models
        for name in (model.folder_name, model.shown, model.model_id)
    }
    patterns = [(pattern, re.compile(pattern.pattern)) for pattern in logs.patterns]
    files: dict[Path, str | None] = {}
    for path, owner in _log_files(archive, logs.files):
        files.setdefault(path, owner)
    failures: list[LogFailure] = []
    for path in sorted(files):
        for number, line in enumerate(_lines(path), start=1):
            failure = _read_line(
                line,
                patterns,
                owner=files[path],
                names=names,
                run_names=archive.config.plan.run_names,
                first_run=logs.first_run,
                place=f"{_shown(path, archive.base)}:{number}",
            )
            if failure is not None and failure.model_id not in excluded:
                failures.append(failure)
    return len(files), tuple(failures)


def _log_files(archive: ArchiveFile, patterns: Sequence[str]) -> Iterator[tuple[Path, str | None]]:
    for pattern in patterns:
        owners: list[ArchivedModel | None] = [None]
        if "{model}" in pattern or "{folder}" in pattern:
            owners = list(archive.config.models)
        for owner in owners:
            filled = pattern
            if owner is not None:
                filled = pattern.replace("{model}", escape(owner.model_id))
                filled = filled.replace("{folder}", escape(owner.folder_name))
            for path in sorted(archive.base.glob(filled)):
                if path.is_file():
                    yield path, None if owner is None else owner.model_id


def _lines(path: Path) -> Iterator[str]:
    try:
        # A log is not ours: what is no UTF-8 in it stays visible and hides no line.
        with path.open(encoding="utf-8", errors="backslashreplace") as file:
            yield from file
    except OSError as error:
        raise InputError(
            f"{path}: the log cannot be read ({error.strerror or type(error).__name__}); "
            "expected a text file; correct logs.files"
        ) from None


def _read_line(
    line: str,
    patterns: Sequence[tuple[LogPattern, re.Pattern[str]]],
    *,
    owner: str | None,
    names: Mapping[str, str],
    run_names: Sequence[str],
    first_run: int | None,
    place: str,
) -> LogFailure | None:
    for pattern, compiled in patterns:
        match = compiled.search(line)
        if match is None:
            continue
        groups = match.groupdict()
        named = groups.get("model")
        first = first_run if pattern.first_run is None else pattern.first_run
        return LogFailure(
            model_id=owner if named is None else names.get(named),
            pattern=pattern.name,
            task=groups.get("task"),
            run=_run_name(groups.get("run"), run_names, first),
            place=place,
            names_stranger=named is not None and named not in names,
        )
    return None


def _run_name(found: str | None, run_names: Sequence[str], first: int | None) -> str | None:
    if found is None or not found.isdecimal():
        return found
    if first is not None:
        place = int(found) - first
        return run_names[place] if 0 <= place < len(run_names) else found
    return found if found in run_names else f"run{int(found)}"


def _shown(path: Path, base: Path) -> str:
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else str(path)
