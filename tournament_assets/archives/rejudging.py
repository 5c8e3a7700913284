"""Judging again what failed in an archive, and writing the score into its files.

The order of the writes is what makes it safe: a reply is in the ledger before any file is
touched, so that whatever is killed in between, the next call writes the score without paying again.
A score is made anew only where the runs that are scored likewise show that the rule is the
harness's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC
from decimal import Decimal
from typing import Any

from tournament_assets.archives.config import ArchiveConfig, ArchiveFile
from tournament_assets.archives.questions import PaidScore, Questions, ask_judge, held_scores
from tournament_assets.archives.reading import (
    REJUDGED_BY,
    BrokenRunError,
    Edit,
    edit_document,
    number_of,
    parse_run,
    read_document,
    value_at,
)
from tournament_assets.archives.rules import ScoreRules
from tournament_assets.archives.runs import (
    ArchiveContents,
    ArchivedRun,
    JudgeState,
    counts_judge,
    follows_rule,
    is_close,
    weighted_score,
    weighting_of,
    wrong_weights,
)
from tournament_assets.archives.tables import LISTED
from tournament_assets.judging.batch_service import AsksDirectly
from tournament_assets.judging.requests.requests import ModelRequest
from tournament_assets.judging.settlement.records import JudgingLedger
from tournament_assets.judging.settlement.sessions import WaitingPolicy
from tournament_assets.reports.report_tables import ReportSection, ReportTable
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.errors import TournamentError

_BEFORE = "_before"
_DECIMALS = 4
"""Decimals of a score where no recorded score shows how many the harness keeps."""
_SHOWN = 60
_POLICY = WaitingPolicy(poll_initial_seconds=2.0, poll_max_seconds=60.0, deadline_seconds=600.0)


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


def find_failed_judgings(
    archive: ArchiveFile, contents: ArchiveContents
) -> Iterator[FailedJudging]:
    """Go through the runs whose judging failed, each with what the judge would be asked."""
    questions, rules = Questions(archive), archive.config.scores
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
        return f"there is no score of {', '.join(missing)}, so the run cannot be scored again"
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
            f"{len(off)} of {len(near)} runs that are scored likewise do not follow the rule "
            f"({off[0].path}, say), so the harness may have another one; correct scores, or add a "
            "weighting for such tasks"
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
    questions, rules = Questions(archive), archive.config.scores
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


@dataclass(frozen=True, slots=True)
class RejudgeResult:
    """What came of asking again.

    Attributes:
        n_replies: Replies that came now; the other scores had been paid for before.
        written: Runs whose file has the new score.
        left: Runs that have none, each with why.
        refusal: Why the service was asked no further; empty if it was.
    """

    n_replies: int
    written: tuple[Rewritten, ...]
    left: tuple[str, ...]
    refusal: str = ""


def rejudge_runs(
    archive: ArchiveFile,
    contents: ArchiveContents,
    failed: Sequence[FailedJudging],
    *,
    ledger: JudgingLedger,
    connect: Callable[[], AbstractContextManager[AsksDirectly]],
    log: Callable[[str], None],
    policy: WaitingPolicy = _POLICY,
) -> RejudgeResult:
    """Ask the judge about runs whose judging failed, and write the scores into their files.

    Scores that the ledger holds already are written without asking. Should the service refuse, the
    scores that came before are written all the same.

    Args:
        archive: The archive.
        contents: The archive as it was read.
        failed: The runs that are judged again.
        ledger: Where paid work is written down.
        connect: Connects to the judging service.
        log: Takes lines of progress.
        policy: How long to wait.

    Raises:
        JudgeError: If the service refuses.
        BudgetError: If asking would cost more than may be spent; nothing was sent then.
    """
    ceiling = archive.config.scores.ceiling
    requests = [each.request for each in failed if each.request is not None]
    keys = [request.request_key for request in requests]
    refused: TournamentError | None = None
    held = before = held_scores(keys, ledger=ledger, ceiling=ceiling)
    if len(held.scores) < len(set(keys)):
        try:
            ask_judge(requests, archive, ledger=ledger, connect=connect, policy=policy, log=log)
        except TournamentError as error:
            refused = error
        held = held_scores(keys, ledger=ledger, ceiling=ceiling)
    unanswered = ledger.failed_keys(keys)
    written: list[Rewritten] = []
    left: list[str] = []
    for outcome in write_scores(archive, contents, failed, held.scores):
        if isinstance(outcome, Rewritten):
            written.append(outcome)
        else:
            left.append(outcome)
    for each in failed:
        key = each.request.request_key if each.request is not None else ""
        if key and key not in held.scores:
            why = (
                held.problems.get(key)
                or f"the service gave no reply ({unanswered.get(key, 'not asked')})"
            )
            left.append(f"{each.run.path}: {why}")
    if refused is not None and not written:
        raise refused
    return RejudgeResult(
        n_replies=sum(held.attempts.values()) - sum(before.attempts.values()),
        written=tuple(written),
        left=tuple(left),
        refusal="" if refused is None else str(refused),
    )


def failure_sections(failed: Sequence[FailedJudging], config: ArchiveConfig) -> list[ReportSection]:
    """Say about which runs judging failed, and which of them can be judged again."""
    if not failed:
        return [ReportSection("Judging", ("Nothing to judge again: no judging failed.",))]
    asked = [each for each in failed if each.request is not None]
    counting = sum(counts_judge(each.run, config.scores) for each in asked)
    sentences = [
        f"Judging failed for {len(failed)} runs; {len(asked)} of them can be judged again. In "
        f"{counting} of these the judge's score is part of the run's.",
    ]
    if len(failed) > LISTED:
        sentences.append(
            f"The first {LISTED} are shown; `tournament archive audit --json` has all."
        )
    rows = [
        (
            each.run.path,
            _shorten(each.run.judge_reason) or "no reason",
            each.problem or "can be judged again",
        )
        for each in failed[:LISTED]
    ]
    table = ReportTable(("run", "what stands in the reason's place", "now"), tuple(rows), 3)
    return [ReportSection("Judging that failed", tuple(sentences), (("", table),))]


def rule_warning(contents: ArchiveContents, config: ArchiveConfig) -> str:
    """Say if the configured rule is not the one that the archive was scored by."""
    follows = [follows_rule(run, config.scores) for run in contents.runs]
    off = follows.count(False)
    if not off:
        return ""
    return (
        f"warning: {off} of {len(follows) - follows.count(None)} recorded run scores are not what "
        "the rule gives, so scores does not describe how the harness scores every task; runs that "
        "are scored likewise are left as they are."
    )


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
