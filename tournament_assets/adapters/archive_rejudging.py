"""Judging again what failed in an archive, and writing the score into its files.

The order of the writes is what makes it safe: a reply is in the ledger before any file is
touched, so that whatever is killed in between, the next call writes the score without paying again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

from tournament_assets.adapters.archive_config import ArchiveFile
from tournament_assets.adapters.archive_files import (
    REJUDGED_BY,
    BrokenRunError,
    read_document,
    read_judge,
)
from tournament_assets.adapters.archive_values import (
    is_blank,
    number_of,
    set_value,
    value_at,
)
from tournament_assets.adapters.atomic_files import write_bytes_atomically
from tournament_assets.audits.archive_scores import weighted_score, wrong_weights
from tournament_assets.judging.requests import ModelRequest
from tournament_assets.judging.score_requests import build_score_request
from tournament_assets.judging.scoring import PaidScore
from tournament_assets.tournament.archived_runs import ArchiveContents, ArchivedRun, JudgeState
from tournament_assets.tournament.archives import ArchiveConfig, Rejudging
from tournament_assets.tournament.errors import InputError

_BEFORE = "_before"


@dataclass(frozen=True, slots=True)
class FailedJudging:
    """A run whose judging failed.

    Attributes:
        run: The run.
        request: What the judge is asked about it; None where it cannot be asked.
        problem: Why it cannot be asked; empty where it can.
    """

    run: ArchivedRun
    request: ModelRequest | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A run whose file has the new score.

    Attributes:
        run: The run as it was.
        judge_score: What the judge says.
        run_score: The run's score by the rule.
    """

    run: ArchivedRun
    judge_score: float
    run_score: float


def require_rejudging(archive: ArchiveFile) -> tuple[Rejudging, str]:
    """Return how the judge is asked again, and what it is told to do.

    Raises:
        InputError: If the archive's description does not say.
    """
    rejudging = archive.config.rejudging
    if rejudging is None:
        raise InputError(
            f"{archive.path}: there is no rejudging; expected who is asked, the file of the "
            "prompt, and where the parts stand that the judge is shown; add it"
        )
    path = archive.base / rejudging.prompt
    try:
        instructions = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{archive.path}: rejudging.prompt is {rejudging.prompt!r}, which cannot be read "
            f"({type(error).__name__}); expected a text file in UTF-8 beside the description"
        ) from None
    if not instructions.strip():
        raise InputError(f"{path}: the file is empty; expected what the judge is told to do")
    return rejudging, instructions.strip() + "\n"


def find_failed_judgings(
    archive: ArchiveFile, contents: ArchiveContents
) -> Iterator[FailedJudging]:
    """Go through the runs whose judging failed, each with what the judge would be asked."""
    rejudging, instructions = require_rejudging(archive)
    for run in contents.runs:
        if run.judge_state is not JudgeState.FAILED:
            continue
        problem = _scoring_problem(run, archive.config)
        try:
            document = read_document(archive.folder / run.path)
            request = _build_request(document, rejudging, instructions)
        except BrokenRunError as error:
            problem, request = problem or str(error), None
        yield FailedJudging(run, None if problem else request, problem)


def _scoring_problem(run: ArchivedRun, config: ArchiveConfig) -> str:
    missing = [name for name, score in run.components.items() if score is None]
    if missing:
        return f"there is no score of {', '.join(missing)}, so the run's cannot be made anew"
    wrong = wrong_weights(run, config.scores)
    if wrong:
        return (
            f"the file records another weight of {', '.join(wrong)} than the configuration; "
            "expected the same"
        )
    return ""


def _build_request(
    document: Mapping[str, Any], rejudging: Rejudging, instructions: str
) -> ModelRequest:
    parts: dict[str, str] = {}
    for name, key in rejudging.parts.items():
        value = value_at(document, key)
        if is_blank(value):
            raise BrokenRunError(f"{key} holds nothing; expected the {name} that is judged")
        parts[name] = (
            value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
        )
    return build_score_request(
        instructions,
        parts,
        judge_model=rejudging.judge_model,
        max_tokens=rejudging.max_tokens,
    )


def write_scores(
    archive: ArchiveFile, failed: Sequence[FailedJudging], scores: Mapping[str, PaidScore]
) -> Iterator[Rewritten | str]:
    """Write the scores that there are into the files of their runs, each file whole or not at all.

    What stood there is kept beside it under the same name with `_before`.

    Yields:
        What was written, or why a file was left as it is.
    """
    rejudging, instructions = require_rejudging(archive)
    for each in failed:
        paid = scores.get(each.request.request_key) if each.request is not None else None
        if paid is None:
            continue
        path = archive.folder / each.run.path
        try:
            document = read_document(path)
            state, _, _ = read_judge(document, archive.config.scores.judge, archive.config)
            request = _build_request(document, rejudging, instructions)
        except BrokenRunError as error:
            yield f"{each.run.path}: {error}; the file was another one when the judge was asked"
            continue
        if state is not JudgeState.FAILED:
            continue  # somebody else was faster, from the same ledger or another one
        score = weighted_score(
            _components(document, archive.config), paid.score.score, archive.config.scores
        )
        if request != each.request or score is None:
            yield f"{each.run.path}: the file has changed since the judge was asked; run again"
            continue
        _put_score(document, paid, score, archive.config)
        _replace(path, document)
        yield Rewritten(run=each.run, judge_score=paid.score.score, run_score=score)


def _put_score(
    document: dict[str, Any], paid: PaidScore, score: float, config: ArchiveConfig
) -> None:
    """Put a judge's score and the run's into a document, and keep what stood there."""
    rules, fields = config.scores, config.scores.judge
    before = value_at(document, fields.key)
    for key, value in (
        (f"{fields.key}{_BEFORE}", before),
        (f"{rules.run_score}{_BEFORE}", value_at(document, rules.run_score)),
    ):
        # The first value is the one that the harness wrote.
        if value_at(document, key) is None:
            set_value(document, key, value)
    after = {
        **before,
        fields.score: paid.score.score,
        fields.reason: paid.score.reason,
        fields.rejudged_at: paid.reply.received_at.astimezone(UTC).isoformat(timespec="seconds"),
        REJUDGED_BY: paid.reply.model,
    }
    if fields.error in after:
        after[fields.error] = None
    set_value(document, fields.key, after)
    set_value(document, rules.run_score, score)


def _components(document: Mapping[str, Any], config: ArchiveConfig) -> dict[str, float | None]:
    return {
        component.name: number_of(value_at(document, component.key))
        for component in config.scores.components
    }


def _replace(path: Path, document: Mapping[str, Any]) -> None:
    """Write a file anew in the manner in which it was written."""
    text = path.read_text(encoding="utf-8-sig")
    first, _, rest = text.strip().partition("\n")
    indent = None
    if rest and first == "{":
        indent = len(rest) - len(rest.lstrip(" "))
    ending = "\n" if text.endswith("\n") else ""

    def encode(*, escaped: bool) -> bytes:
        written = json.dumps(document, indent=indent or None, ensure_ascii=escaped)
        return f"{written}{ending}".encode()

    try:
        content = encode(escaped=text.isascii())
    except UnicodeEncodeError:  # a lone surrogate, which can be written in no other way
        content = encode(escaped=True)
    write_bytes_atomically(path, content)
