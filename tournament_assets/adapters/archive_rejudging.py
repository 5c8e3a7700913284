"""Judging again what failed in an archive, and writing the score into its files.

The order of the writes is what makes it safe: a reply is in the ledger before any file is
touched, so that whatever is killed in between, the next call writes the score without paying again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC
from decimal import Decimal
from glob import escape
from pathlib import Path
from typing import Any

import yaml

from tournament_assets.adapters.archive_config import ArchiveFile
from tournament_assets.adapters.archive_documents import (
    BrokenRunError,
    Edit,
    edit_document,
    is_blank,
    number_of,
    read_document,
    value_at,
)
from tournament_assets.adapters.archive_files import REJUDGED_BY, parse_run
from tournament_assets.adapters.atomic_files import write_bytes_atomically
from tournament_assets.audits.archive_scores import (
    follows_rule,
    is_close,
    weighted_score,
    weighting_of,
    wrong_weights,
)
from tournament_assets.judging.requests import ModelRequest
from tournament_assets.judging.score_requests import build_score_request
from tournament_assets.judging.scoring import PaidScore
from tournament_assets.tournament.archive_scoring import ScoreRules
from tournament_assets.tournament.archived_runs import ArchiveContents, ArchivedRun, JudgeState
from tournament_assets.tournament.archives import JudgeInput, Rejudging
from tournament_assets.tournament.errors import InputError

_BEFORE = "_before"
_DECIMALS = 4
"""Decimals of a score where no recorded score shows how many the harness keeps."""


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
    questions, rules = _Questions(archive), archive.config.scores
    evidence = _find_evidence(contents, rules)
    for run in contents.runs:
        if run.judge_state is not JudgeState.FAILED:
            continue
        request = None
        try:
            document = read_document(archive.folder / run.path)
            problem = _scoring_problem(run, document, evidence, rules)
            if not problem:
                questions.threshold(run, document)
                request = questions.ask(run, document)
        except BrokenRunError as error:
            problem = str(error)
        yield FailedJudging(run, request, problem)


_Evidence = Mapping[str, Sequence[tuple[ArchivedRun, bool]]]
"""The runs that show how the harness scores, and whether the rule does too, by weighting."""


def _find_evidence(contents: ArchiveContents, rules: ScoreRules) -> _Evidence:
    found: dict[str, list[tuple[ArchivedRun, bool]]] = {}
    for run in contents.runs:
        follows = follows_rule(run, rules)
        # A run that was judged again follows the rule because it was written by it.
        if follows is not None and run.judge_state is not JudgeState.REJUDGED:
            weighting = weighting_of(run, rules, has_judge=run.judge_score is not None)
            found.setdefault(weighting.name, []).append((run, follows))
    return found


def _scoring_problem(
    run: ArchivedRun, document: Mapping[str, Any], evidence: _Evidence, rules: ScoreRules
) -> str:
    """Say why a run's score cannot be made anew; nothing if it can."""
    weighting = weighting_of(run, rules, has_judge=True)
    missing = [name for name in weighting.weights if run.components.get(name, 0.0) is None]
    if missing:
        return f"there is no score of {', '.join(missing)}, so the run's cannot be made anew"
    wrong = wrong_weights(run, rules)
    if wrong:
        return (
            f"the file records another weight of {', '.join(wrong)} than the configuration; "
            "expected the same"
        )
    likewise = evidence.get(weighting.name, ())
    near = [each for each in likewise if each[0].task == run.task] or likewise
    off = [other for other, follows in near if not follows]
    if off:
        return (
            f"the rule does not give the recorded scores of {len(off)} of {len(near)} runs that it "
            f"scores likewise ({off[0].path}, say), so the harness may have another rule; correct "
            "scores, where weightings are for tasks with weights of their own"
        )
    recorded = number_of(value_at(document, f"{rules.judge.key}.{rules.judge.score}"))
    guesses = [weighted_score(run, score, rules) for score in (None, recorded or 0.0)]
    if not near and not any(is_close(guess, run.run_score, rules) for guess in guesses):
        shown = " or ".join(f"{guess:.4g}" for guess in guesses if guess is not None)
        return (
            f"no run shows how the harness scores such a run, and this one records "
            f"{run.run_score:g} where the rule gives {shown} without a new score; correct scores"
        )
    return ""


class _Questions:
    """Composes what the judge is asked about runs, from their files and from files beside them."""

    def __init__(self, archive: ArchiveFile) -> None:
        self._rejudging, self._instructions = require_rejudging(archive)
        self._archive = archive
        self._folders = {model.model_id: model.folder_name for model in archive.config.models}
        self._beside: dict[Path, Any] = {}

    def ask(self, run: ArchivedRun, document: Mapping[str, Any]) -> ModelRequest:
        """Compose the request about a run.

        Raises:
            BrokenRunError: If a part is not there.
        """
        parts = {
            name: self._part(name, part, run, document)
            for name, part in self._rejudging.parts.items()
        }
        return build_score_request(
            self._instructions,
            parts,
            judge_model=self._rejudging.judge_model,
            max_tokens=self._rejudging.max_tokens,
        )

    def threshold(self, run: ArchivedRun, document: Mapping[str, Any]) -> float | None:
        """Return the score from which on a run passes; None where nobody says.

        Raises:
            BrokenRunError: If it should stand somewhere and does not.
        """
        fields = self._archive.config.scores.judge
        recorded = number_of(value_at(document, f"{fields.key}.{fields.threshold}"))
        configured = self._rejudging.passing_threshold
        if recorded is not None:
            return recorded
        if not isinstance(configured, JudgeInput):
            return configured
        value = self._value(configured, run, document)
        found = number_of(value)
        if found is None:
            raise BrokenRunError(
                f"{_place(configured)} holds {value!r:.80}; expected the passing threshold"
            )
        return found

    def _part(
        self, name: str, part: JudgeInput, run: ArchivedRun, document: Mapping[str, Any]
    ) -> str:
        value = self._value(part, run, document)
        if is_blank(value):
            raise BrokenRunError(
                f"{_place(part)} holds nothing; expected the {name} that is judged"
            )
        if not isinstance(value, str):
            value = json.dumps(value, indent=1, ensure_ascii=False, default=str)
        return _cut(value, part.max_chars)

    def _value(self, source: JudgeInput, run: ArchivedRun, document: Mapping[str, Any]) -> Any:
        found: Any = document if source.file is None else self._file(source.file, run)
        if source.key is None:
            return found
        return value_at(found, source.key) if isinstance(found, Mapping) else None

    def _file(self, pattern: str, run: ArchivedRun) -> Any:
        for place, value in (
            ("{task}", run.task),
            ("{run}", run.run),
            ("{model}", run.model_id),
            ("{folder}", self._folders[run.model_id]),
        ):
            pattern = pattern.replace(place, escape(value))
        found = [path for path in self._archive.base.glob(pattern) if path.is_file()]
        if len(found) != 1:
            raise BrokenRunError(f"{len(found)} files match {pattern!r}; expected one")
        (path,) = found
        if path not in self._beside:
            self._beside[path] = _read_beside(path)
        return self._beside[path]


def _place(source: JudgeInput) -> str:
    return " in ".join(each for each in (source.key, source.file) if each is not None)


def _read_beside(path: Path) -> Any:
    """Read a file: as a document if it is YAML or JSON, as text otherwise."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        match path.suffix.lower():
            case ".yaml" | ".yml":
                return yaml.safe_load(text)
            case ".json":
                return json.loads(text)
        return text
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise BrokenRunError(
            f"{path.name} cannot be read ({type(error).__name__}); expected YAML, JSON or text in "
            "UTF-8"
        ) from None


def _cut(text: str, max_chars: int | None) -> str:
    """Return a text without its middle if it is too long: how it begins and ends says most."""
    if max_chars is None or len(text) <= max_chars:
        return text
    note = f"\n[… {len(text) - max_chars:,} characters left out …]\n"
    head = max_chars // 2
    return f"{text[:head]}{note}{text[len(text) - (max_chars - head) :]}"


def write_scores(
    archive: ArchiveFile,
    contents: ArchiveContents,
    failed: Sequence[FailedJudging],
    scores: Mapping[str, PaidScore],
) -> Iterator[Rewritten | str]:
    """Write the scores that there are into the files of their runs, each file whole or not at all.

    What stood there is kept beside it under the same name with `_before`.

    Yields:
        What was written, or why a file was left as it is.
    """
    questions, rules = _Questions(archive), archive.config.scores
    decimals = _recorded_decimals(contents, rules)
    for each in failed:
        paid = scores.get(each.request.request_key) if each.request is not None else None
        if paid is None:
            continue
        run, path = each.run, archive.folder / each.run.path
        try:
            document = read_document(path)
            current = parse_run(
                document, archive.config, run.model_id, task=run.task, run=run.run, path=run.path
            )
            if current.judge_state is not JudgeState.FAILED:
                continue  # somebody else was faster, from the same ledger or another one
            score = weighted_score(current, paid.score.score, rules)
            if current != run or questions.ask(run, document) != each.request or score is None:
                yield f"{run.path}: the file has changed since the judge was asked; run again"
                continue
            judge = _judge_values(document, paid, rules, questions.threshold(run, document))
            rounded = round(score, decimals) if decimals else round(score)
            edits = (
                Edit(rules.judge.key, judge, f"{rules.judge.key.split('.')[-1]}{_BEFORE}"),
                Edit(rules.run_score, rounded, f"{rules.run_score.split('.')[-1]}{_BEFORE}"),
            )
            content = edit_document(path, edits)
        except BrokenRunError as error:
            yield f"{run.path}: {error}; the file was another one when the judge was asked"
            continue
        write_bytes_atomically(path, content)
        yield Rewritten(run=run, judge_score=paid.score.score, run_score=rounded)


def _judge_values(
    document: Mapping[str, Any], paid: PaidScore, rules: ScoreRules, threshold: float | None
) -> dict[str, Any]:
    """Return what the judge's part of a file says of the new call.

    What only the failed call can have said is left out: it stands in what is kept.
    """
    fields = rules.judge
    before = value_at(document, fields.key)
    score, reply = paid.score.score, paid.reply
    after = {
        name: value
        for name, value in before.items()
        if name not in fields.of_the_call and name not in (fields.passed, fields.usage)
    }
    after |= {
        fields.score: score,
        fields.reason: paid.score.reason,
        fields.rejudged_at: reply.received_at.astimezone(UTC).isoformat(timespec="seconds"),
        REJUDGED_BY: reply.model,
    }
    if fields.error in before:
        after[fields.error] = None
    if fields.model in before:
        after[fields.model] = reply.model
    if fields.passed in before and threshold is not None:
        after[fields.passed] = score >= threshold
    if fields.usage in before and reply.usage is not None:
        after[fields.usage] = asdict(reply.usage)
    names = [*before, *after]
    return {name: after[name] for name in sorted(after, key=names.index)}


def _recorded_decimals(contents: ArchiveContents, rules: ScoreRules) -> int:
    """Return to how many decimals the harness rounds the scores of runs."""
    runs = [run for run in contents.runs if run.judge_state is not JudgeState.REJUDGED]
    decimals = max((_decimals(run.run_score) for run in runs), default=0)
    is_rounded = any(
        follows_rule(run, rules)
        and (score := weighted_score(run, run.judge_score, rules)) is not None
        and abs(score - run.run_score) > 1e-12
        for run in runs
    )
    # Scores that are all exact do not show that a longer one would be rounded.
    return decimals if is_rounded else max(decimals, _DECIMALS)


def _decimals(score: float) -> int:
    exponent = Decimal(repr(score)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
