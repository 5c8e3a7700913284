"""Reads an archive of scored runs: a folder of models, each with tasks, each with runs.

A run's file is JSON: read with reasons, looked up by dotted keys, edited in place. An archive
belongs to the harness that wrote it. So an edit replaces the text of the values that change and
leaves every other byte of the file as it is: other numbers keep their digits, and keys their order
and layout.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

from tournament_assets.archives.config import ArchiveConfig, ArchivedModel, ArchiveFile, LogPattern
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
        raise BrokenRunError(f"{rules.run_score} is missing; expected the run's score")
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


_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class BrokenRunError(ValueError):
    """A file that holds no run: what was found, and what was expected."""


def read_document(path: Path) -> dict[str, Any]:
    """Read a run's file as the JSON object it holds.

    Raises:
        BrokenRunError: If it cannot be read, or is none.
    """
    text = _read_text(path).removeprefix("\ufeff")
    if not text.strip():
        raise BrokenRunError("the file is empty; expected a JSON object")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        is_cut = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
        state = "is cut off" if is_cut else "is not JSON"
        raise BrokenRunError(
            f"the file {state} in line {error.lineno} ({error.msg}); expected a JSON object"
        ) from None
    except (ValueError, RecursionError) as error:
        raise BrokenRunError(
            f"the file is not JSON ({type(error).__name__}); expected a JSON object"
        ) from None
    if not isinstance(document, dict):
        raise BrokenRunError(f"the file holds {type(document).__name__}; expected a JSON object")
    return document


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenRunError(
            f"the file cannot be read ({type(error).__name__}); expected JSON in UTF-8"
        ) from None


def value_at(document: Mapping[str, Any], key: str) -> Any:
    """Return what stands under a key whose dots lead into objects; None if nothing does."""
    found: Any = document
    for part in key.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def number_of(value: Any) -> float | None:
    """Return a JSON number as it is; None for anything else, NaN and infinities included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def is_blank(value: Any) -> bool:
    """Say whether a value holds nothing: null, white space, or a list or object of such."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, Mapping):
        return all(is_blank(each) for each in value.values())
    if isinstance(value, list):
        return all(is_blank(each) for each in value)
    return False


@dataclass(frozen=True, slots=True)
class Edit:
    """A value that takes the place of another one.

    Attributes:
        key: Where it stands, in an object that is there; dots lead into objects.
        value: The new value.
        kept_as: The name under which the old one stays beside it, unless that is taken.
    """

    key: str
    value: Any
    kept_as: str


def edit_document(path: Path, edits: Sequence[Edit]) -> bytes:
    """Return a run's file with some values replaced, the old ones kept beside them.

    Raises:
        BrokenRunError: If it cannot be read, or one of the keys is not there.
    """
    read_document(path)
    text = _read_text(path)
    for edit in edits:
        text = _edit(text, edit)
    return text.encode()


@dataclass(frozen=True, slots=True)
class _Member:
    """Where a member of an object stands in the text.

    Attributes:
        lead: What stands between the comma, or the brace, and its name.
        colon: What stands between its name and its value.
        start: Where its value begins.
        end: Where its value ends.
    """

    lead: str
    colon: str
    start: int
    end: int


def _edit(text: str, edit: Edit) -> str:
    *parents, last = edit.key.split(".")
    start = _skip(text, 1 if text.startswith("\ufeff") else 0)
    for name in (*parents, last):
        members = _members_of(text, start, edit.key)
        if name not in members:
            raise BrokenRunError(f"{edit.key} is missing; expected a value to replace")
        start = members[name].start
    member = members[last]
    old = text[member.start : member.end]
    new = _write(edit.value, old, member.colon, is_ascii=text.isascii())
    if edit.kept_as not in members:
        # In an object on one line, the first member has nothing before its name.
        lead = list(members.values())[-1].lead
        new += f",{lead}{json.dumps(edit.kept_as)}{member.colon}{old}"
    return text[: member.start] + new + text[member.end :]


def _members_of(text: str, start: int, key: str) -> dict[str, _Member]:
    if text[start] != "{":
        raise BrokenRunError(f"{key} is not inside an object; expected one")
    members: dict[str, _Member] = {}
    place = start + 1
    while text[_skip(text, place)] != "}":
        name_start = _skip(text, place)
        name, name_end = _DECODER.raw_decode(text, name_start)
        value_start = _skip(text, _skip(text, name_end) + 1)
        _, value_end = _DECODER.raw_decode(text, value_start)
        members[name] = _Member(
            text[place:name_start], text[name_end:value_start], value_start, value_end
        )
        place = _skip(text, value_end)
        place += text[place] == ","
    return members


def _skip(text: str, place: int) -> int:
    match = _BLANK.match(text, place)
    return place if match is None else match.end()


def _write(value: Any, old: str, colon: str, *, is_ascii: bool) -> str:
    """Write a value in the manner in which the old one is written."""
    indent, base = None, ""
    layout = re.match(r"\{[ \r]*\n([ \t]*)(?s:.*)\n([ \t]*)\}", old)
    if layout is not None:
        base = layout[2]
        indent = layout[1].removeprefix(base)
    separators = (",", ":") if indent is None and colon == ":" else None
    written = json.dumps(value, indent=indent, separators=separators, ensure_ascii=is_ascii)
    try:
        written.encode()
    except UnicodeEncodeError:  # a lone surrogate, which can be written in no other way
        written = json.dumps(value, indent=indent, separators=separators)
    newline = "\r\n" if "\r\n" in old else "\n"
    return written.replace("\n", f"{newline}{base}")
