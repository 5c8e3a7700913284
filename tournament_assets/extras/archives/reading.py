"""Reads an archive of scored runs, which has a folder per model, with the archive's reader."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

from tournament_assets.extras.archives.config import ArchiveConfig, ArchiveFile
from tournament_assets.extras.archives.documents import read_document, text_of
from tournament_assets.extras.archives.harness import JudgeState, Reader, RunFile, ScoredRun
from tournament_assets.extras.archives.runs import (
    ArchiveContents,
    ArchivedRun,
    BrokenFile,
    LogFailure,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.json_lines import numbered_lines
from tournament_assets.recorded.sample_formats import value_at

_ROUNDING = 5e-4
"""Largest rounding difference of a recorded score from the rule's, as a share of the ceiling."""
UNUSABLE = (InputError, ValueError, LookupError, TypeError, AttributeError)
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
    folders = {model.model_id: archive.folder / model.folder for model in models}
    by_model = {
        model_id: list(config.harness.files(folder)) if folder.is_dir() else []
        for model_id, folder in folders.items()
    }
    log_files, log_failures = _read_logs(archive, exclude)
    tasks = _planned_tasks(
        archive,
        seen={file.task for files in by_model.values() for file in files},
        logged={line.task for line in log_failures if line.task and not line.names_stranger},
    )
    contents, unplanned = _read_files(archive, by_model, tasks)
    broken = [file for file in contents if isinstance(file, BrokenFile)]
    return ArchiveContents(
        config=config,
        models=models,
        runs=tuple(run for run in contents if isinstance(run, ArchivedRun)),
        broken=tuple(sorted(broken, key=lambda file: file.path)),
        unplanned=tuple(sorted(unplanned)),
        tasks=tuple(sorted(tasks)),
        absent_models=tuple(name for name, folder in folders.items() if not folder.is_dir()),
        log_files=log_files,
        log_failures=log_failures,
    )


def _read_files(
    archive: ArchiveFile, by_model: Mapping[str, Sequence[RunFile]], tasks: frozenset[str]
) -> tuple[list[ArchivedRun | BrokenFile], list[str]]:
    """Read the planned runs, sorted by model, task and run; return the other files' names, too."""
    planned: dict[tuple[str, str, str], ArchivedRun | BrokenFile] = {}
    unplanned: list[str] = []
    for model_id, files in by_model.items():
        for file in files:
            cell, place = (model_id, file.task, file.run), _shown(file.path, archive.folder)
            is_planned = file.task in tasks and file.run in archive.config.run_names
            # A reader may find two files for one run.
            if not is_planned or cell in planned:
                unplanned.append(place)
                continue
            try:
                planned[cell], _ = read_run(archive, model_id, file)
            except UNUSABLE as error:
                tier = archive.config.harness.tier(file.task)
                planned[cell] = BrokenFile(*cell, tier, place, reason_of(error))
    return [planned[cell] for cell in sorted(planned)], unplanned


def _check_excluded(config: ArchiveConfig, exclude: frozenset[str]) -> None:
    model_ids = [model.model_id for model in config.models]
    if not exclude < {*model_ids}:
        raise InputError(
            f"--exclude names {', '.join(map(repr, sorted(exclude)))}; expected some, and not all, "
            f"of {', '.join(model_ids)}"
        )


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
        InputError: If the file cannot be read or holds no JSON object, or a score is invalid.
        ValueError, LookupError, TypeError, AttributeError: If the reader cannot use it.
    """
    document = read_document(file.path)
    config, reader = archive.config, archive.config.harness
    scored = reader.read(document)
    conditions = {name: value_at(document, key) for name, key in config.conditions.items()}
    run = ArchivedRun(
        **{field.name: getattr(scored, field.name) for field in fields(ScoredRun)},
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
    if isinstance(error, InputError | ValueError):
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
        for name in (model.folder, model.label, model.model_id)
    }
    files: dict[Path, str | None] = {}
    for pattern, model in product(config.logs, config.models):
        filled = model.fill(pattern)
        for path in sorted(archive.project.glob(filled)):
            if path.is_file():
                files.setdefault(path, None if filled == pattern else model.model_id)
    failures: list[LogFailure] = []
    for path in sorted(files):
        for place, line in numbered_lines(path, expected="a text file; correct logs"):
            # Another program wrote the logs: bytes that are not UTF-8 are escaped.
            entry = config.harness.log_line(line.decode(errors="backslashreplace"))
            if entry is None:
                continue
            owner = files[path] if entry.model is None else names.get(entry.model)
            place = f"{_shown(path, archive.project)}:{place.rpartition(':')[2]}"
            is_stranger = entry.model is not None and owner is None
            if owner not in exclude:
                failures.append(
                    LogFailure(owner, entry.kind, entry.task, entry.run, place, is_stranger)
                )
    return len(files), tuple(failures)


def _shown(path: Path, base: Path) -> str:
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else str(path)
