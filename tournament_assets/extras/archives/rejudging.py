"""Repeats the failed judgings of an archive, and writes the scores into its files.

A reply is stored in the ledger before any file is touched, so that after a crash the next call
writes the score without paying again. A run is rescored only if recorded scores with the same
weighting show that the harness follows the rule.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from tournament_assets.extras.archives.config import ArchiveFile
from tournament_assets.extras.archives.documents import (
    BrokenRunError,
    edit_document,
    read_document,
    read_text,
)
from tournament_assets.extras.archives.harness import JudgeState, NewScore, Reader, RunFile
from tournament_assets.extras.archives.questions import (
    HeldScores,
    Questions,
    ask_judge,
    held_scores,
)
from tournament_assets.extras.archives.reading import UNUSABLE, is_close, read_run, reason_of
from tournament_assets.extras.archives.runs import ArchiveContents, ArchivedRun
from tournament_assets.foundation.errors import TournamentError
from tournament_assets.foundation.formatting import format_number
from tournament_assets.judging.batch_service import AsksDirectly
from tournament_assets.judging.requests.columns import ModelRequest
from tournament_assets.ledger import Ledger
from tournament_assets.reports.report_tables import Document, ReportSection, ReportTable
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.judges import Waiting

_WAITING = Waiting(poll_initial_seconds=2.0, poll_max_seconds=60.0, deadline_seconds=600.0)
_CHANGED = "the file has changed since the judge was asked; run again"


def _shorten(text: str) -> str:
    line = " ".join(text.split()) or "no reason"
    return line if len(line) <= 60 else f"{line[:59]}…"


@dataclass(frozen=True, slots=True)
class FailedJudging:
    """A run whose judging failed.

    Attributes:
        request: The request to the judge; None if it cannot be asked.
        problem: Why it cannot be asked; empty if it can.
    """

    run: ArchivedRun
    request: ModelRequest | None
    problem: str = ""

    @property
    def key(self) -> str:
        """The request's key; empty if there is no request."""
        return "" if self.request is None else self.request.request_key


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A run whose file has the new score.

    Attributes:
        run: The run before it was rescored.
        judge_score: The judge's new score.
        run_score: The run's new score, by the rule.
    """

    run: ArchivedRun
    judge_score: float
    run_score: float


def find_failed_judgings(
    archive: ArchiveFile, contents: ArchiveContents
) -> Iterator[FailedJudging]:
    """Yield the runs whose judging failed, each with the request to the judge."""
    questions = Questions(archive)
    evidence = _find_evidence(contents)
    for run in contents.runs:
        if run.judge.state is not JudgeState.FAILED:
            continue
        request = None
        try:
            document = read_document(archive.folder / run.path)
            problem = _scoring_problem(run, evidence, questions.reader)
            if not problem:
                questions.threshold(run, document)
                request = questions.ask(run, document)
        except BrokenRunError as error:
            problem = str(error)
        yield FailedJudging(run, request, problem)


_Evidence = Mapping[str, Sequence[ArchivedRun]]
"""The runs that show how the harness scores, by weighting."""


def _find_evidence(contents: ArchiveContents) -> _Evidence:
    by_weighting: dict[str, list[ArchivedRun]] = {}
    for run in contents.runs:
        # A run that was judged again proves nothing: its score was written by the rule.
        if run.follows_rule is not None and run.judge.state is not JudgeState.REJUDGED:
            by_weighting.setdefault(run.weighting.name, []).append(run)
    return by_weighting


def _scoring_problem(run: ArchivedRun, evidence: _Evidence, reader: Reader) -> str:
    """Explain why a run cannot be rescored; empty if it can."""
    if run.judge.recorded:
        return f"the judge's recorded score is {run.judge.recorded:g}, and only 0 is replaced"
    missing = [name for name in run.with_judge.weights if run.components.get(name, 0.0) is None]
    if missing:
        return f"there is no score of {', '.join(missing)}, so the run cannot be scored again"
    likewise = evidence.get(run.with_judge.name, ())
    near = [other for other in likewise if other.task == run.task] or likewise
    off = [other for other in near if not other.follows_rule]
    if off:
        return (
            f"{len(off)} of {len(near)} runs scored the same way do not follow the rule "
            f"({off[0].path}, say), so the harness may have another one than its reader says"
        )
    guesses = [run.score_with(score) for score in (None, 0.0)]
    if not near and not any(is_close(guess, run.run_score, reader) for guess in guesses):
        expected = " or ".join(f"{guess:.4g}" for guess in guesses if guess is not None)
        return (
            f"no run shows how the harness scores such a run, and this one records "
            f"{run.run_score:g} where the rule gives {expected} without a new score"
        )
    return ""


def write_scores(
    archive: ArchiveFile,
    failed: Sequence[FailedJudging],
    scores: Mapping[str, NewScore],
) -> Iterator[Rewritten | str]:
    """Write the available scores into the files of their runs, each file whole or not at all.

    Old values are kept beside the new ones, under names that the reader gives.

    Yields:
        What was written, or why a file was left unchanged.
    """
    questions = Questions(archive)
    for failure in failed:
        paid = scores.get(failure.key)
        if paid is None:
            continue
        run, path = failure.run, archive.folder / failure.run.path
        try:
            text = read_text(path)
            current, document = read_run(archive, run.model_id, RunFile(run.task, run.run, path))
            if current.judge.state is not JudgeState.FAILED:
                continue  # another process has already judged it again
            score = current.score_with(paid.score)
            if current != run or questions.ask(run, document) != failure.request or score is None:
                yield f"{run.path}: {_CHANGED}"
                continue
            rounded = round(score, questions.reader.decimals)
            new = replace(paid, threshold=questions.threshold(run, document))
            content = edit_document(text, questions.reader.rewrite(document, new, rounded))
            if read_text(path) != text:
                yield f"{run.path}: {_CHANGED}"
                continue
        except UNUSABLE as error:
            why = reason_of(error)
            yield f"{run.path}: {why}; the file has changed since the judge was asked"
            continue
        write_bytes_atomically(path, content)
        yield Rewritten(run=run, judge_score=paid.score, run_score=rounded)


@dataclass(frozen=True, slots=True)
class RejudgeResult:
    """The result of judging again.

    Attributes:
        n_replies: Replies received by this call; other scores were already paid for.
        written: Runs whose file has the new score.
        unscored: Runs without a new score, each with the reason.
        refusal: Why asking stopped early; empty if it did not.
    """

    n_replies: int
    written: tuple[Rewritten, ...]
    unscored: tuple[str, ...]
    refusal: str = ""


def rejudge_runs(
    archive: ArchiveFile,
    failed: Sequence[FailedJudging],
    *,
    ledger: Ledger,
    connect: Callable[[], AbstractContextManager[AsksDirectly]],
    log: Callable[[str], None],
    waiting: Waiting = _WAITING,
) -> RejudgeResult:
    """Ask the judge about runs whose judging failed, and write the scores into their files.

    Scores that are already in the ledger are written without asking. An error while asking is
    raised only if no score could be written.

    Raises:
        JudgeError: If the service refuses.
        BudgetError: If asking could exceed the budget; nothing is sent then.
    """
    ceiling = archive.config.harness.ceiling
    requests = [each.request for each in failed if each.request is not None]
    keys = {request.request_key for request in requests}
    refused: TournamentError | None = None
    held = before = held_scores(keys, ledger=ledger, ceiling=ceiling)
    if len(held.scores) < len(keys):
        try:
            ask_judge(requests, archive, ledger=ledger, connect=connect, waiting=waiting, log=log)
        except TournamentError as error:
            refused = error
        held = held_scores(keys, ledger=ledger, ceiling=ceiling)
    outcomes = list(write_scores(archive, failed, held.scores))
    written = tuple(each for each in outcomes if isinstance(each, Rewritten))
    if refused is not None and not written:
        raise refused
    unwritten = [each for each in outcomes if isinstance(each, str)]
    return RejudgeResult(
        n_replies=held.n_replies - before.n_replies,
        written=written,
        unscored=(*unwritten, *_unscored(failed, held, ledger.failed_keys(keys))),
        refusal="" if refused is None else str(refused),
    )


def _unscored(
    failed: Sequence[FailedJudging], held: HeldScores, unanswered: Mapping[str, str]
) -> Iterator[str]:
    """Yield the runs without a score, each with the reason.

    Args:
        unanswered: Why requests got no reply, by key.
    """
    for failure in failed:
        if failure.key and failure.key not in held.scores:
            no_reply = f"the service gave no reply ({unanswered.get(failure.key, 'not asked')})"
            yield f"{failure.run.path}: {held.problems.get(failure.key, no_reply)}"


def rejudging_document(
    archive: ArchiveFile, contents: ArchiveContents, failed: Sequence[FailedJudging]
) -> Document:
    """List the runs whose judging failed, and which of them can be judged again."""
    off = [run for run in contents.runs if run.follows_rule is False]
    checked = sum(run.follows_rule is not None for run in contents.runs)
    warning = (
        f"warning: {len(off)} of {checked} recorded run scores are not what the rule gives, so the "
        "reader does not know how the harness scores every task; runs scored the same way "
        "are left as they are."
    )
    section = ReportSection("Judging", ("Nothing to judge again: no judging failed.",))
    if failed:
        columns = {
            "run": lambda each: each.run.path,
            "recorded score": lambda each: format_number(each.run.judge.recorded, decimals=3),
            "what the file holds as the reason": lambda each: _shorten(each.run.judge.reason),
            "now": lambda each: each.problem or "can be judged again",
        }
        table = ReportTable.of(failed, columns, n_labels=4)
        section = ReportSection("Judging that failed", (_failure_sentence(failed),), (("", table),))
    return Document(archive.config.shown_title, [section], [warning] if off else [])


def _failure_sentence(failed: Sequence[FailedJudging]) -> str:
    askable = [failure for failure in failed if failure.request is not None]
    counting = sum(failure.run.with_judge.judge_share > 0 for failure in askable)
    return (
        f"Judging failed for {len(failed)} runs; {len(askable)} of them can be judged again. In "
        f"{counting} of these the judge's score is part of the run's."
    )


def result_section(result: RejudgeResult) -> ReportSection:
    """Describe what was written into files, and which runs have no score yet."""
    return ReportSection(
        "",
        (
            *(
                f"{each.run.path}: judge {each.judge_score:g}, run score {each.run.run_score:g} → "
                f"{each.run_score:g}"
                for each in result.written
            ),
            *result.unscored,
            f"{result.n_replies} replies received; {len(result.written)} files rewritten; "
            f"{len(result.unscored)} left.",
        ),
    )
