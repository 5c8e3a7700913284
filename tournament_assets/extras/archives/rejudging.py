"""Repeats the failed judgings of an archive, and writes the scores into its files.

A reply is stored in the ledger before any file is touched, so that after a crash the next call
writes the score without paying again. A run is rescored only if recorded scores with the same
weighting show that the harness follows the rule.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

from tournament_assets.extras.archives.config import ArchiveFile, Rejudging
from tournament_assets.extras.archives.documents import edit_document, read_document, read_text
from tournament_assets.extras.archives.harness import JudgeState, NewScore, Reader, RunFile
from tournament_assets.extras.archives.questions import (
    Questions,
    read_scores,
    require_rejudging,
)
from tournament_assets.extras.archives.reading import UNUSABLE, is_close, read_run, reason_of
from tournament_assets.extras.archives.rows import say
from tournament_assets.extras.archives.runs import ArchiveContents, ArchivedRun
from tournament_assets.foundation.errors import InputError, TournamentError
from tournament_assets.foundation.formatting import format_number, format_usd
from tournament_assets.judging.batch_service import AsksDirectly
from tournament_assets.judging.costs.prices import BudgetTerms, most_usd
from tournament_assets.judging.requests.columns import ModelRequest
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.judging.settlement.sessions import JudgingSession, SettlementTerms, Tally
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.ledger import Ledger
from tournament_assets.reports.progress_bars import JudgingBar
from tournament_assets.reports.report_tables import Cell, Document, ReportSection, ReportTable
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.judges import Waiting
from tournament_assets.verdicts.spending_plans import build_approval

_WAITING = Waiting(poll_initial_seconds=2.0, poll_max_seconds=60.0, deadline_seconds=600.0)
_REMEDY = "correct rejudging.judge, and run again"
_CHANGED = "the file has changed since the judge was asked"


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


def find_failed_judgings(
    archive: ArchiveFile, contents: ArchiveContents
) -> Iterator[FailedJudging]:
    """Yield the runs whose judging failed, each with the request to the judge."""
    questions = Questions(archive)
    for run in contents.runs:
        if run.judge.state is not JudgeState.FAILED:
            continue
        request = None
        problem = _scoring_problem(run, contents, questions.reader)
        if not problem:
            try:
                request = questions.ask(run, read_document(archive.folder / run.path))
            except InputError as error:
                problem = str(error)
        yield FailedJudging(run, request, problem)


def _scoring_problem(run: ArchivedRun, contents: ArchiveContents, reader: Reader) -> str:
    """Explain why a run cannot be rescored; empty if it can."""
    if run.judge.recorded:
        return f"the judge's recorded score is {run.judge.recorded:g}, and only 0 is replaced"
    missing = [name for name in run.with_judge.weights if run.components.get(name, 0.0) is None]
    if missing:
        return f"there is no score of {', '.join(missing)}, so the run cannot be scored again"
    # A run that was judged again proves nothing: its score was written by the rule.
    likewise = [
        other
        for other in contents.runs
        if other.follows_rule is not None
        and other.judge.state is not JudgeState.REJUDGED
        and other.weighting.name == run.with_judge.name
    ]
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
) -> tuple[list[str], list[str]]:
    """Write the available scores into the files of their runs, each file whole or not at all.

    Old values are kept beside the new ones, under names that the reader gives.

    Returns:
        What was written, and why other files were left unchanged: a sentence for each run.
    """
    questions = Questions(archive)
    written, unchanged = [], []
    for failure in failed:
        new = scores.get(failure.key)
        if new is None:
            continue
        run, path = failure.run, archive.folder / failure.run.path
        try:
            text = read_text(path)
            current, document = read_run(archive, run.model_id, RunFile(run.task, run.run, path))
            if current.judge.state is not JudgeState.FAILED:
                continue  # another process has already judged it again
            score = current.score_with(new.score)
            if current != run or questions.ask(run, document) != failure.request or score is None:
                raise InputError(_CHANGED)
            rounded = round(score, questions.reader.decimals)
            content = edit_document(text, questions.reader.rewrite(document, new, rounded))
            if read_text(path) != text:
                raise InputError(_CHANGED)
        except UNUSABLE as error:
            unchanged.append(f"{run.path}: {reason_of(error)}; run again")
            continue
        write_bytes_atomically(path, content)
        was, judged = f"run score {run.run_score:g}", f"judge {new.score:g}"
        written.append(f"{run.path}: {judged}, {was} → {rounded:g}")
    return written, unchanged


@dataclass(frozen=True, slots=True)
class RejudgeResult:
    """The result of judging again.

    Attributes:
        n_replies: Replies received by this call; other scores were already paid for.
        written: Runs whose file has the new score, each with its scores.
        unscored: Runs without a new score, each with the reason.
        refusal: Why asking stopped early; empty if it did not.
    """

    n_replies: int
    written: Sequence[str]
    unscored: Sequence[str]
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

    Scores that are already in the ledger are written without asking. A reply without a score is
    asked for once more. An error while asking is raised only if no score could be written.

    Raises:
        JudgeWaitingError: If another process is still working on the archive at the deadline.
        JudgeError: If the service refuses; replies received so far are in the ledger.
        BudgetError: If asking could exceed the budget; nothing is sent then.
    """
    rejudging, ceiling = require_rejudging(archive), archive.config.harness.ceiling
    requests = [failure.request for failure in failed if failure.request is not None]
    keys = {request.request_key for request in requests}
    scope = JudgingScope(
        tournament_id=f"archive {archive.config.archive_id}",
        mode="archive",
        dimension="scores",
        purpose="scores",
        subject=f"the archive {archive.config.archive_id}",
    )
    budget = BudgetTerms(
        prices=rejudging.price_list,
        limit_usd=None if rejudging.judge.is_free else rejudging.budget_usd,
        period="run",
        began_at=datetime.now(UTC),
        setting="rejudging.budget_usd",
    )
    terms = SettlementTerms(
        waiting=waiting,
        channel="direct",
        reply_format=None,
        is_usable=lambda reply: not read_scores([reply], ceiling=ceiling)[1],
        remedy=_REMEDY,
        budget=budget,
        max_in_flight=rejudging.judge.max_in_flight,
    )
    refused: TournamentError | None = None
    tally = Tally()
    scores, problems = read_scores(ledger.iterate_replies(keys), ceiling=ceiling)
    if scores.keys() < keys:
        try:
            with (
                connect() as service,
                JudgingBar(f"{scope.subject} is judged", total=len(requests), log=log) as progress,
            ):
                session = JudgingSession(
                    scope=scope,
                    ledger=ledger,
                    service=service,
                    progress=progress,
                    terms=terms,
                    approval=build_approval(budget, ledger=ledger),
                    tally=tally,
                )
                settle_requests(session, requests)
        except TournamentError as error:
            refused = error
        scores, problems = read_scores(ledger.iterate_replies(keys), ceiling=ceiling)
    written, unscored = write_scores(archive, failed, scores)
    if refused is not None and not written:
        raise refused
    unanswered = ledger.failed_keys(keys)
    for failure in failed:
        if failure.key and failure.key not in scores:
            no_reply = f"the service gave no reply ({unanswered.get(failure.key, 'not asked')})"
            unscored.append(f"{failure.run.path}: {problems.get(failure.key, no_reply)}")
    return RejudgeResult(
        n_replies=tally.harvested,
        written=written,
        unscored=unscored,
        refusal="" if refused is None else str(refused),
    )


def cost_sentence(failed: Sequence[FailedJudging], rejudging: Rejudging) -> str:
    """Describe the most that asking can cost, assuming an empty ledger."""
    distinct = {failure.key: failure.request for failure in failed if failure.request is not None}
    most = most_usd(list(distinct.values()), rejudging.price_list, "direct")
    cost = "an unknown price" if most is None else f"up to {format_usd(float(most.sum()))}"
    return f"Asking {len(distinct)} requests of {rejudging.judge.model} costs {cost}."


def rejudging_document(
    archive: ArchiveFile, contents: ArchiveContents, failed: Sequence[FailedJudging]
) -> Document:
    """List the runs whose judging failed, and which of them can be judged again."""
    rule = [run.follows_rule for run in contents.runs if run.follows_rule is not None]
    askable = [failure for failure in failed if failure.request is not None]
    counting = sum(failure.run.with_judge.judge_share > 0 for failure in askable)
    columns: dict[str, Cell[FailedJudging]] = {
        "run": lambda failure: failure.run.path,
        "recorded score": lambda row: format_number(row.run.judge.recorded, decimals=3),
        "what the file holds as the reason": lambda row: _shorten(row.run.judge.reason),
        "now": lambda failure: failure.problem or "can be judged again",
    }
    section = ReportSection(
        "Judging that failed",
        say("failed_judgings", len(failed), len(askable), counting),
        (("", ReportTable.of(failed, columns, n_labels=4)),) if failed else (),
    )
    warnings = say("off_the_rule", rule.count(False), len(rule))
    return Document(archive.config.shown_title, [section], warnings)


def _shorten(text: str) -> str:
    line = " ".join(text.split()) or "no reason"
    return line if len(line) <= 60 else f"{line[:59]}…"


def result_document(result: RejudgeResult) -> Document:
    """Describe what was written into files, and which runs have no score yet."""
    return Document("", [ReportSection("", say("rejudged", result))])
