"""Reads an archive of scored runs, which has a folder per model, with the archive's reader."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from glob import escape
from pathlib import Path
from typing import Any

from tournament_assets.extras.archives.config import ArchiveConfig, ArchivedModel, ArchiveFile
from tournament_assets.extras.archives.documents import read_document, text_of
from tournament_assets.extras.archives.harness import JudgeState, Reader, RunFile, ScoredRun
from tournament_assets.extras.archives.runs import (
    ArchiveContents,
    ArchivedRun,
    BrokenFile,
    LogFailure,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.input_files import reading
from tournament_assets.recorded.sample_formats import value_at

_ROUNDING = 5e-4
"""Largest rounding difference of a recorded score from the rule's, as a share of the ceiling."""
UNUSABLE = (ValueError, LookupError, TypeError, AttributeError)
"""Errors that a reader raises for an unusable file; only the first is deliberate."""


def read_archive(archive: ArchiveFile, *, exclude: frozenset[str] = frozenset()) -> ArchiveContents:
    """Read every run of an archive, and its logs.

    An unusable file is listed with the reason and counts as missing; nothing is skipped silently.
    """
    config = archive.config
    _check_excluded(config, exclude)
    if not archive.folder.is_dir():
        raise InputError(
            f"{archive.path}: folder is {config.folder!r}, and {archive.folder} is not a folder; "
            "expected the folder with the models' folders; correct folder"
        )
    models = tuple(model for model in config.models if model.model_id not in exclude)
    folders = {model.model_id: archive.folder / model.folder_name for model in models}
    by_model = {
        model_id: list(config.harness.files(folder)) if folder.is_dir() else []
        for model_id, folder in folders.items()
    }
    log_files, log_failures = _read_logs(archive, exclude)
    tasks = _planned_tasks(
        archive,
        seen={file.task for files in by_model.values() for file in files},
        logged={each.task for each in log_failures if each.task and not each.names_stranger},
    )
    planned, unplanned = _sort_files(archive, by_model, tasks)
    outcomes = [_read_planned(archive, model_id, file) for (model_id, *_), file in planned]
    broken = [each for each in outcomes if isinstance(each, BrokenFile)]
    return ArchiveContents(
        config=config,
        models=models,
        runs=tuple(each for each in outcomes if isinstance(each, ArchivedRun)),
        broken=tuple(sorted(broken, key=lambda each: each.path)),
        unplanned=tuple(sorted(unplanned)),
        tasks=tuple(sorted(tasks)),
        absent_models=tuple(name for name, folder in folders.items() if not folder.is_dir()),
        log_files=log_files,
        log_failures=log_failures,
    )


def _sort_files(
    archive: ArchiveFile, by_model: Mapping[str, Sequence[RunFile]], tasks: frozenset[str]
) -> tuple[list[tuple[tuple[str, str, str], RunFile]], list[str]]:
    """Return the files of planned runs by model, task and run, and the other files' names."""
    planned: dict[tuple[str, str, str], RunFile] = {}
    unplanned: list[str] = []
    for model_id, files in by_model.items():
        for file in files:
            cell = (model_id, file.task, file.run)
            is_planned = file.task in tasks and file.run in archive.config.run_names
            # A reader may find two files for one run.
            if is_planned and cell not in planned:
                planned[cell] = file
            else:
                unplanned.append(_shown(file.path, archive.folder))
    return sorted(planned.items()), unplanned


def _read_planned(archive: ArchiveFile, model_id: str, file: RunFile) -> ArchivedRun | BrokenFile:
    try:
        return read_run(archive, model_id, file)[0]
    except UNUSABLE as error:
        tier, place = archive.config.harness.tier(file.task), _shown(file.path, archive.folder)
        return BrokenFile(model_id, file.task, file.run, tier, place, reason_of(error))


def _check_excluded(config: ArchiveConfig, exclude: frozenset[str]) -> None:
    model_ids = [model.model_id for model in config.models]
    unknown = sorted(exclude - set(model_ids))
    if unknown:
        raise InputError(
            f"--exclude names {', '.join(map(repr, unknown))}; expected some of "
            f"{', '.join(model_ids)}"
        )
    if exclude >= set(model_ids):
        raise InputError("--exclude names every model; expected at least one to be left")


def _planned_tasks(archive: ArchiveFile, *, seen: set[str], logged: set[str]) -> frozenset[str]:
    planned = archive.config.plan.tasks
    if not isinstance(planned, int):
        return frozenset(planned)
    if len(seen) > planned:
        raise InputError(
            f"{archive.path}: plan.tasks is {planned}, and {archive.folder} holds {len(seen)} "
            "tasks; expected no more than were planned; name the planned ones in plan.tasks"
        )
    # A log may name a task that has no files.
    return frozenset(seen | logged if len(seen | logged) <= planned else seen)


def read_run(
    archive: ArchiveFile, model_id: str, file: RunFile
) -> tuple[ArchivedRun, Mapping[str, Any]]:
    """Return a run, and the content of its file.

    Raises:
        BrokenRunError: If the file cannot be read or holds no JSON object.
        ValueError, LookupError, TypeError, AttributeError: If the reader cannot use it.
    """
    document = read_document(file.path)
    config, reader = archive.config, archive.config.harness
    scored = reader.read(document)
    conditions = {name: value_at(document, key) for name, key in config.conditions.items()}
    run = ArchivedRun(
        **{each.name: getattr(scored, each.name) for each in fields(ScoredRun)},
        model_id=model_id,
        task=file.task,
        run=file.run,
        tier=reader.tier(file.task),
        path=file.path.relative_to(archive.folder).as_posix(),
        is_clean=scored.run_score >= reader.zero_below,
        follows_rule=_follows_rule(scored, reader),
        conditions={name: text_of(value) or None for name, value in conditions.items()},
    )
    return run, document


def reason_of(error: Exception) -> str:
    """Explain why a file cannot be used."""
    if isinstance(error, ValueError):
        return str(error)
    return f"its reader cannot use it ({type(error).__name__}: {error}); expected a scored run"


def _follows_rule(run: ScoredRun, reader: Reader) -> bool | None:
    # If judging failed, the score that the harness used in its place is unknown.
    if run.judge.state is JudgeState.FAILED and run.with_judge.judge_share:
        return None
    score = run.rule_score
    return None if score is None else is_close(score, run.run_score, reader)


def is_close(score: float | None, recorded: float, reader: Reader) -> bool:
    """Return whether two scores differ by no more than rounding."""
    return score is not None and abs(score - recorded) <= _ROUNDING * reader.ceiling


def _read_logs(archive: ArchiveFile, exclude: frozenset[str]) -> tuple[int, tuple[LogFailure, ...]]:
    """Return the number of logs, and the failures of models that are not excluded."""
    config = archive.config
    names = {
        name: model.model_id
        for model in config.models
        for name in (model.folder_name, model.shown, model.model_id)
    }
    files: dict[Path, str | None] = {}
    for path, owner in _log_files(archive, config.logs):
        files.setdefault(path, owner)
    failures: list[LogFailure] = []
    for path in sorted(files):
        for number, line in enumerate(_lines(path), start=1):
            entry = config.harness.log_line(line)
            if entry is None:
                continue
            owner = files[path] if entry.model is None else names.get(entry.model)
            place = f"{_shown(path, archive.base)}:{number}"
            if owner not in exclude:
                failures.append(LogFailure(**asdict(entry), model_id=owner, place=place))
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
    # Another program wrote the logs: bytes that are not UTF-8 are escaped, and no line is lost.
    with (
        reading(path, "a text file, as logs names it", label=f"{path}: the log"),
        path.open(encoding="utf-8", errors="backslashreplace") as file,
    ):
        yield from file


def _shown(path: Path, base: Path) -> str:
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else str(path)
