"""What came of some kills, told by the judge's own log and by the ledger."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.ledger.builders import select
from tests.loopback.faults.accounts import read_accounts
from tests.torture.scenarios import CHUNK_ROWS, Scenario, true_verdict
from tournament_assets.judging.requests.columns import with_larger_cap
from tournament_assets.judging.requests.requests import JudgeRequest
from tournament_assets.judging.requests.verdict_parsing import read_reply
from tournament_assets.judging.settlement.account import read_account
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.ledger import Ledger

_WRITTEN_ROWS = (
    "SELECT nonce, request_key FROM judge_replies",
    "SELECT nonce, request_key FROM judge_failures",
)
AT_ONCE = 4
"""So many direct messages are in flight, over all dimensions and judges: a kill loses at most the
replies to these."""


@dataclass(frozen=True, slots=True)
class Balance:
    """What was paid for, and what there is for it.

    Attributes:
        verdicts_lost: Requests that do not have the verdict that they have when nothing goes wrong.
        batches_twice: Batches that were accepted and of whose results nothing was used.
        requests_twice: Replies in batches that are billed and not used.
        direct_twice: Replies to direct messages that are billed and not used.
        problems: What else is not as it should be.
    """

    verdicts_lost: int
    batches_twice: int
    requests_twice: int
    direct_twice: int
    problems: tuple[str, ...]


def draw_balance(
    scenario: Scenario, *, ledger_url: str, judge_directory: Path, problems: Sequence[str] = ()
) -> Balance:
    """Compare what a judge accepted with what a ledger holds, once a scenario is through."""
    requests = {request.request_key: request for request in scenario.requests}
    with closing(Ledger(ledger_url)) as ledger:
        left = [
            read_account(each.requests, scope=each.scope, ledger=ledger, reply_format="line")
            for each in scenario.work
        ]
        replies: defaultdict[str, list[StoredReply]] = defaultdict(list)
        for reply in ledger.iterate_replies(requests):
            replies[reply.request_key].append(reply)
    accounts = read_accounts(judge_directory)
    problems = [*problems, *_find_problems(ledger_url)]
    if not all(each.is_done for each in left):
        problems.append(f"something is left to do: {left}"[:500])
    kept = {"batch": Counter[str](), "direct": Counter[str]()}
    for key, request in requests.items():
        for question, reply in _asked(scenario, request, replies[key]):
            kept[reply.channel][question] += reply.result_type == "succeeded"
    messages = Counter(accounts.in_messages)
    in_batches = Counter(accounts.billed)
    in_batches.subtract(messages)
    harvested = {
        batch_id
        for (batch_id,) in select(
            ledger_url, "SELECT batch_id FROM judge_batches WHERE state = 'harvested'"
        )
    }
    invented = (kept["batch"] - in_batches) + (kept["direct"] - messages)
    if invented:
        problems.append(f"{invented.total()} replies that the judge does not know of")
    return Balance(
        verdicts_lost=sum(
            not _has_true_verdict(request, replies[key]) for key, request in requests.items()
        ),
        batches_twice=sum(batch.batch_id not in harvested for batch in accounts.batches),
        requests_twice=(in_batches - kept["batch"]).total(),
        direct_twice=(messages - kept["direct"]).total(),
        problems=tuple(problems),
    )


def find_unkept_rows(ledger_url: str, rows_read: Mapping[str, int]) -> list[str]:
    """Say of which streams a killed process had read rows that it had not written down.

    Args:
        ledger_url: The ledger as it left it.
        rows_read: By nonce, how many rows it had read of a stream.
    """
    if not rows_read:
        return []
    begun = {nonce for (nonce,) in select(ledger_url, "SELECT nonce FROM judge_batches")}
    written = {row for query in _WRITTEN_ROWS for row in select(ledger_url, query)}
    n_written = Counter(nonce for nonce, _ in written)
    return [
        f"{n_read} rows of {nonce} were read and {n_written[nonce]} written down"
        for nonce, n_read in rows_read.items()
        # Somebody else's rows are read to see whose they are. Of our own, the part of the stream
        # that was being read may be lost; it is read again.
        if nonce in begun and n_written[nonce] < (n_read - 1) // CHUNK_ROWS * CHUNK_ROWS
    ]


def _asked(
    scenario: Scenario, request: JudgeRequest, replies: Sequence[StoredReply]
) -> list[tuple[str, StoredReply]]:
    """Return what the judge was asked for each reply to a request."""
    was_cut_off = any(each.attempt == 1 and each.stop_reason == "max_tokens" for each in replies)
    again = with_larger_cap(request) if was_cut_off else request
    return [
        (scenario.question_of((request if reply.attempt == 1 else again).params), reply)
        for reply in replies
    ]


def _has_true_verdict(request: JudgeRequest, replies: Sequence[StoredReply]) -> bool:
    if not replies:
        return False
    last = replies[-1]
    verdict, _ = read_reply(
        result_type=last.result_type, stop_reason=last.stop_reason, text=last.text
    )
    return verdict is true_verdict(request)


def _find_problems(ledger_url: str) -> list[str]:
    """Return what no ledger holds after a run that came to its end."""
    problems = []
    leases = select(ledger_url, "SELECT holder FROM judge_leases")
    if leases:
        problems.append(f"leases that nobody gave back: {leases}")
    paid_twice = select(ledger_url, "SELECT request_key FROM judge_paid_twice")
    if paid_twice:
        problems.append(f"{len(paid_twice)} replies that the ledger itself says were paid twice")
    twice = select(
        ledger_url,
        "SELECT batch_id FROM judge_batches WHERE batch_id IS NOT NULL "
        "GROUP BY batch_id HAVING count(*) > 1",
    )
    if twice:
        problems.append(f"batches that are written down twice: {twice}")
    return problems
