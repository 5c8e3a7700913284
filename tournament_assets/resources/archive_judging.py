"""Asking the judge again about an archive's runs: the service, the ledger, then the files."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from tournament_assets.adapters.archive_config import ArchiveFile
from tournament_assets.adapters.archive_rejudging import (
    FailedJudging,
    Rewritten,
    require_rejudging,
    write_scores,
)
from tournament_assets.adapters.price_files import load_newest_prices
from tournament_assets.adapters.progress import JudgingBar
from tournament_assets.judging.estimating import ASSUMED_OUTPUT_TOKENS, measure_workload
from tournament_assets.judging.pricing import format_usd
from tournament_assets.judging.records import JudgingLedger, JudgingScope
from tournament_assets.judging.requests import ModelRequest
from tournament_assets.judging.scoring import ask_for_scores, held_scores
from tournament_assets.judging.service import Channel
from tournament_assets.judging.sessions import Approval, WaitingPolicy
from tournament_assets.judging.settlement import JudgingOptions
from tournament_assets.resources.judge import JudgeResource, judge_problems
from tournament_assets.tournament.archived_runs import ArchiveContents
from tournament_assets.tournament.archives import Rejudging
from tournament_assets.tournament.config import JudgeConfig
from tournament_assets.tournament.errors import BudgetError, InputError, TournamentError

_POLICY = WaitingPolicy(poll_initial_seconds=2.0, poll_max_seconds=60.0, deadline_seconds=600.0)
_REMEDY = "correct rejudging.max_tokens or rejudging.judge_model, and run again"


@dataclass(frozen=True, slots=True)
class JudgeAddress:
    """Where the judge and the ledger are, and the key to the judge.

    Attributes:
        ledger_url: SQLAlchemy URL of the ledger.
        api_key: The provider's key; empty where there is none. It is in no message.
        base_url: Another address of the provider's API; empty for its own.
    """

    ledger_url: str
    api_key: str
    base_url: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.base_url!r})"


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
    address: JudgeAddress,
    log: Callable[[str], None],
    policy: WaitingPolicy = _POLICY,
) -> RejudgeResult:
    """Ask the judge about runs whose judging failed, and write the scores into their files.

    Scores that the ledger holds already are written without asking. Should the service refuse, the
    scores that came before are written all the same.

    Raises:
        InputError: If a key is needed and there is none.
        JudgeError: If the service refuses.
        BudgetError: If asking would cost more than may be spent; nothing was sent then.
    """
    from tournament_assets.adapters.ledger import Ledger

    rejudging, _ = require_rejudging(archive)
    service = JudgeConfig.model_validate({"service": rejudging.service})
    problems = judge_problems(service, has_api_key=bool(address.api_key))
    if problems:
        raise InputError(
            problem.replace("judge.service", "rejudging.service") for problem in problems
        )
    ceiling = archive.config.scores.ceiling
    requests = [each.request for each in failed if each.request is not None]
    keys = [request.request_key for request in requests]
    refused: TournamentError | None = None
    with closing(Ledger(address.ledger_url)) as ledger:
        held = before = held_scores(keys, ledger=ledger, ceiling=ceiling)
        if len(held.scores) < len(set(keys)):
            judge = JudgeResource(
                api_key=address.api_key,
                base_url=address.base_url,
                loopback_folder=str(archive.base / "ledger" / "loopback_judge"),
            )
            try:
                _ask(
                    archive.config.archive_id,
                    requests,
                    rejudging=rejudging,
                    ledger=ledger,
                    judge=judge,
                    service=service,
                    ceiling=ceiling,
                    policy=policy,
                    log=log,
                )
            except TournamentError as error:
                refused = error
            held = held_scores(keys, ledger=ledger, ceiling=ceiling)
        in_vain = ledger.failed_keys(keys)
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
                or f"the service gave no reply ({in_vain.get(key, 'not asked')})"
            )
            left.append(f"{each.run.path}: {why}")
    if refused is not None and not written:
        raise refused
    return RejudgeResult(
        n_replies=sum(held.askings.values()) - sum(before.askings.values()),
        written=tuple(written),
        left=tuple(left),
        refusal="" if refused is None else str(refused),
    )


def _ask(
    archive_id: str,
    requests: Sequence[ModelRequest],
    *,
    rejudging: Rejudging,
    ledger: JudgingLedger,
    judge: JudgeResource,
    service: JudgeConfig,
    ceiling: float,
    policy: WaitingPolicy,
    log: Callable[[str], None],
) -> None:
    scope = JudgingScope(
        tournament_id=f"archive {archive_id}",
        mode="archive",
        dimension="scores",
        purpose="scores",
        subject=f"the archive {archive_id}",
    )
    options = JudgingOptions(
        policy=policy, approve=_build_approval(rejudging), reply_format=None, remedy=_REMEDY
    )
    with (
        judge.service(service) as connected,
        JudgingBar(f"{scope.subject} is judged", total=len(requests), log=log) as progress,
    ):
        ask_for_scores(
            requests,
            scope=scope,
            ledger=ledger,
            service=connected,
            progress=progress,
            options=options,
            ceiling=ceiling,
        )


def cost_sentence(archive: ArchiveFile, failed: Sequence[FailedJudging]) -> str:
    """Say what asking about some runs costs at the most, with nothing in the ledger."""
    rejudging, _ = require_rejudging(archive)
    requests = {each.request.request_key: each.request for each in failed if each.request}
    cost = dearest_usd(list(requests.values()), rejudging)
    price = "an unknown price" if cost is None else f"up to {format_usd(cost)}"
    return f"Asking {len(requests)} requests of {rejudging.judge_model} costs {price}."


def dearest_usd(requests: Sequence[ModelRequest], rejudging: Rejudging) -> float | None:
    """Return the most that asking some requests costs; None where the price is not known.

    The loopback judge costs nothing.
    """
    if rejudging.service == "loopback" or not requests:
        return 0.0
    workload = measure_workload(
        requests, find_answered=lambda _: frozenset(), tokens_per_reply=ASSUMED_OUTPUT_TOKENS
    )
    prices = load_newest_prices()
    price = prices.models.get(rejudging.judge_model)
    if price is None:
        return None
    return workload.dearest_usd(price, discount=prices.discount("direct"))


def _build_approval(rejudging: Rejudging) -> Approval:
    limit = None if rejudging.service == "loopback" else rejudging.budget_usd

    def approve(requests: Sequence[ModelRequest], _channel: Channel) -> None:
        if limit is None:
            return
        planned = dearest_usd(requests, rejudging)
        if planned is None or planned > limit:
            cost = "an unknown price" if planned is None else f"up to {format_usd(planned)}"
            raise BudgetError(
                f"asking {len(requests):,} requests of {rejudging.judge_model} costs {cost}; "
                f"expected at most {format_usd(limit)} (rejudging.budget_usd); raise it, or judge "
                "fewer runs at a time (--limit)"
            )

    return approve
