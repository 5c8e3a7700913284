"""Reads an archive of scored runs: a folder of models, each with tasks, each with runs."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Any

from tournament_assets.archives.config import ArchiveConfig, ArchivedModel, ArchiveFile, LogPattern
from tournament_assets.archives.documents import (
    BrokenRunError,
    is_blank,
    number_of,
    read_document,
    value_at,
)
from tournament_assets.archives.rules import JudgeFields
from tournament_assets.archives.runs import (
    ArchiveContents,
    ArchivedRun,
    BrokenFile,
    JudgeState,
    LogFailure,
)
from tournament_assets.tournament.errors import InputError

_SHOWN = 80
REJUDGED_BY = "rejudged_by"
"""Beside the judge's score: the model that was asked again."""


def read_archive(archive: ArchiveFile, *, exclude: frozenset[str] = frozenset()) -> ArchiveContents:
    """Read every run of an archive, and what the logs say.

    A file that cannot be used is listed with its reason and counts as missing; nothing is skipped.

    Args:
        archive: The archive.
        exclude: Models that are left out.

    Raises:
        InputError: If the archive's folder is not there, or holds more tasks than were planned.
    """
    config = archive.config
    if not archive.folder.is_dir():
        raise InputError(
            f"{archive.path}: folder is {config.folder!r}, and {archive.folder} is not a folder; "
            "expected the folder with the models' folders; correct folder"
        )
    models = list(config.iterate_models(exclude))
    found = {model.model_id: list(_run_files(archive, model)) for model in models}
    log_files, log_failures = read_logs(archive, models)
    tasks = _planned_tasks(
        archive,
        seen={path.parent.name for paths in found.values() for path in paths},
        logged={each.task for each in log_failures if each.task and not each.names_stranger},
    )
    runs: list[ArchivedRun] = []
    broken: list[BrokenFile] = []
    unplanned: list[str] = []
    run_names = frozenset(config.plan.run_names)
    for model in models:
        seen: set[tuple[str, str]] = set()
        for path in found[model.model_id]:
            task, run = path.parent.name, path.stem
            shown = path.relative_to(archive.folder).as_posix()
            # A wide run_files can match two files of one run: run1.json and run1.txt.
            if task not in tasks or run not in run_names or (task, run) in seen:
                unplanned.append(shown)
                continue
            seen.add((task, run))
            try:
                document = read_document(path)
                runs.append(
                    parse_run(document, config, model.model_id, task=task, run=run, path=shown)
                )
            except BrokenRunError as error:
                broken.append(BrokenFile(model.model_id, task, run, shown, str(error)))
    return ArchiveContents(
        runs=tuple(sorted(runs, key=lambda each: (each.model_id, each.task, each.run))),
        broken=tuple(sorted(broken, key=lambda each: each.path)),
        unplanned=tuple(sorted(unplanned)),
        tasks=tuple(sorted(tasks)),
        absent_models=tuple(
            model.model_id for model in models if not (archive.folder / model.folder_name).is_dir()
        ),
        log_files=log_files,
        log_failures=log_failures,
    )


def _run_files(archive: ArchiveFile, model: ArchivedModel) -> Iterator[Path]:
    folder = archive.folder / model.folder_name
    if folder.is_dir():
        for task in sorted(path for path in folder.iterdir() if path.is_dir()):
            yield from sorted(path for path in task.glob(archive.config.run_files))


def _planned_tasks(archive: ArchiveFile, *, seen: set[str], logged: set[str]) -> frozenset[str]:
    planned = archive.config.plan.tasks
    if not isinstance(planned, int):
        return frozenset(planned)
    if len(seen) > planned:
        raise InputError(
            f"{archive.path}: plan.tasks is {planned}, and {archive.folder} holds {len(seen)} "
            "tasks; expected no more than were planned; name the planned ones in plan.tasks"
        )
    # A task of which no file is left is still known by the log that says why.
    return frozenset(seen | logged if len(seen | logged) <= planned else seen)


def parse_run(
    document: Mapping[str, Any],
    config: ArchiveConfig,
    model_id: str,
    *,
    task: str,
    run: str,
    path: str,
) -> ArchivedRun:
    """Take a run from the document that its file holds.

    Raises:
        BrokenRunError: If a score is missing or makes no sense.
    """
    rules = config.scores
    components: dict[str, float | None] = {}
    weights: dict[str, float] = {}
    for component in rules.components:
        raw = value_at(document, component.key)
        components[component.name] = None if raw is None else _score(raw, component.key, config)
        if component.weight_key is not None:
            weight = number_of(value_at(document, component.weight_key))
            if weight is not None:
                weights[component.name] = weight
    raw_score = value_at(document, rules.run_score)
    if raw_score is None:
        raise BrokenRunError(f"there is no {rules.run_score}; expected the run's score")
    state, judge_score, reason = _read_judge(document, rules.judge, config)
    responses = [value_at(document, key) for key in config.responses]
    failure = value_at(document, config.failure) if config.failure is not None else None
    return ArchivedRun(
        model_id=model_id,
        task=task,
        run=run,
        tier=config.tier_of(task),
        path=path,
        run_score=_score(raw_score, rules.run_score, config),
        components=components,
        judge_state=state,
        judge_score=judge_score,
        judge_reason=reason,
        rejudged_by=_condition(value_at(document, f"{rules.judge.key}.{REJUDGED_BY}")),
        is_empty=all(map(is_blank, responses)) if responses else None,
        failure="" if is_blank(failure) or failure is False else _text(failure),
        conditions={
            condition.name: _condition(value_at(document, condition.key))
            for condition in config.conditions
            if condition.key is not None
        },
        weights=weights,
        weightings=tuple(
            weighting.name
            for weighting in rules.weightings
            if weighting.when is not None
            and weighting.when.holds(task, value_at(document, weighting.when.key or ""))
        ),
    )


def _read_judge(
    document: Mapping[str, Any], fields: JudgeFields, config: ArchiveConfig
) -> tuple[JudgeState, float | None, str]:
    """Say what became of asking the judge about a run: the state, the score, the reason."""
    found = value_at(document, fields.key)
    if found is None:
        return JudgeState.OFF, None, ""
    if not isinstance(found, Mapping):
        raise BrokenRunError(f"{fields.key} is {found!r:.{_SHOWN}}; expected an object")
    if not found.get(fields.enabled):
        return JudgeState.OFF, None, ""
    reason, error = found.get(fields.reason), found.get(fields.error)
    words = "" if is_blank(reason) else _text(reason)
    raw = found.get(fields.score)
    score = None if raw is None else _score(raw, f"{fields.key}.{fields.score}", config)
    if not is_blank(error) and error is not False:
        return JudgeState.FAILED, None, words or _text(error)
    if score is None:
        return JudgeState.FAILED, None, words
    if not is_blank(found.get(fields.rejudged_at)):
        return JudgeState.REJUDGED, score, words
    if (not words and score == 0) or _says_failure(words, score, fields):
        return JudgeState.FAILED, None, words
    return JudgeState.SCORED, score, words


def _says_failure(words: str, score: float, fields: JudgeFields) -> bool:
    if fields.failure_score is not None and score != fields.failure_score:
        return False
    lowered = re.sub(r"\s+", " ", words.lower())
    return any(phrase.lower() in lowered for phrase in fields.phrases)


def _score(raw: Any, key: str, config: ArchiveConfig) -> float:
    score = number_of(raw)
    ceiling = config.scores.ceiling
    if score is None or not 0 <= score <= ceiling + config.scores.tolerance:
        raise BrokenRunError(f"{key} is {raw!r:.{_SHOWN}}; expected a number from 0 to {ceiling:g}")
    return score


def _condition(value: Any) -> str | None:
    return None if is_blank(value) else _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


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
        # A log is not ours: what is not UTF-8 in it stays visible and hides no line.
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
