"""Responses of a model behind a chat server, each kept as it comes, and paid for at most once.

An answer that costs money is written down in the ledger before it is asked for, at the most that it
may cost, in the transaction that looks at what is left of the budget. What comes settles that by
the usage that the server tells; an answer that got lost, or does not say, counts at its most.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tournament_assets.judging.batch_service import ReplyRow
from tournament_assets.judging.costs.prices import BudgetTerms, most_usd
from tournament_assets.judging.requests.requests import NONCE_LENGTH
from tournament_assets.judging.settlement.records import BatchIntent, Lease
from tournament_assets.judging.settlement.sessions import WaitingPolicy, Waits, hold_lease
from tournament_assets.judging.settlement.submission import wait_for_others
from tournament_assets.providers.openai.chat_server import (
    OpenAiServer,
    ServerAnswer,
    costs_nothing,
    read_access,
)
from tournament_assets.reports.progress_bars import GenerationProgress, JudgingBar
from tournament_assets.tournament.entrants import OpenAiApiEntrant
from tournament_assets.tournament.errors import (
    BudgetError,
    GenerationError,
    InputError,
    JudgeError,
    ServerError,
    ServerFailure,
)
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt
from tournament_assets.workflows.api_responses import (
    ResponseRequest,
    bill_responses,
    build_server_requests,
    response_scope,
)
from tournament_assets.workflows.judge_requests import build_approval
from tournament_assets.workflows.local_responses import CompletedResponses, Work

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger

PATIENCE = WaitingPolicy(poll_initial_seconds=0.5, poll_max_seconds=30.0, deadline_seconds=90_000.0)


def server_problems(
    entrant: OpenAiApiEntrant, *, environment: Mapping[str, str], terms: BudgetTerms
) -> Sequence[str]:
    """Say what keeps a server from being asked: no address, no key, nobody there, no price."""
    try:
        access = read_access(entrant, environment)
        with closing(OpenAiServer(entrant, access)) as server:
            server.look_around()
    except InputError as error:
        problems = list(error.problems)
    except ServerError as error:
        problems = [f"entrant {entrant.entrant_id!r}: {error}"]
    else:
        problems = []
    return [*problems, *_price_problems(entrant, environment, terms)]


def _price_problems(
    entrant: OpenAiApiEntrant, environment: Mapping[str, str], terms: BudgetTerms
) -> list[str]:
    budget = terms.draw_up(terms.counts_from, [], [])
    if (
        budget is None
        or entrant.model in terms.prices.models
        or costs_nothing(entrant, environment, terms.prices)
    ):
        return []
    what = f"the responses of entrant {entrant.entrant_id!r}"
    problem = budget.problem(None, what=what, model=entrant.model)
    return [f"{problem}; a server that costs nothing has 0 for both"]


def complete_by_server(
    entrant: OpenAiApiEntrant,
    *,
    environment: Mapping[str, str],
    prompts: Sequence[Prompt],
    ledger: "Ledger",
    log: Callable[[str], None],
    terms: BudgetTerms,
    policy: WaitingPolicy = PATIENCE,
) -> CompletedResponses:
    """Take what the ledger holds, ask the server for the rest, and keep each response as it comes.

    The server, and the variables that lead to it, are needed only if something is missing.

    Args:
        entrant: The model, its decoding settings and its server.
        environment: Where the server's address and key may be.
        prompts: What to answer.
        ledger: Where responses are kept.
        log: Told what is happening.
        terms: What a server that costs something is paid from.
        policy: How long is waited for others that ask the same, or hold the rest of the budget.

    Raises:
        InputError: If the environment does not say where the server is.
        BudgetError: If the responses would cost more than may be spent; those that came are kept.
        GenerationError: If the server cannot answer; what it answered is kept.
    """
    identity = entrant.fingerprint(entrant.content_hash)
    by_fingerprint = {prompt.fingerprint: prompt for prompt in prompts}
    kept = ledger.responses(identity, by_fingerprint)
    n_kept = len(kept)
    is_free = costs_nothing(entrant, environment, terms.prices)
    reasons: dict[str, str] = {}
    work = Work()
    source = "nothing was generated: the ledger held every response"
    if len(kept) < len(by_fingerprint):
        with ExitStack() as stack:
            access = read_access(entrant, environment)
            server = stack.enter_context(closing(OpenAiServer(entrant, access)))
            asker: _TimedServer | _PaidServer = _TimedServer(server)
            if not is_free:
                asker = _begin_to_pay(
                    entrant,
                    _missing(by_fingerprint, kept),
                    server,
                    ledger,
                    terms,
                    policy,
                    log,
                    stack,
                )
                # Another run may have asked some while this one waited for its turn.
                kept = ledger.responses(identity, by_fingerprint)
            log(f"{entrant.entrant_id}: {server.look_around()}")
            began = time.monotonic()
            reasons = _ask(
                entrant,
                asker,
                _missing(by_fingerprint, kept),
                has_answered=bool(kept),
                keep=lambda prompt, response: ledger.keep_responses(
                    identity, [(prompt.fingerprint, response)]
                ),
                log=log,
            )
            work.seconds = time.monotonic() - began
        source = f"{entrant.model} behind {access.origin}"
        before, kept = kept, ledger.responses(identity, by_fingerprint)
        work.tokens = sum(
            response.response_tokens or 0 for key, response in kept.items() if key not in before
        )
    costs: dict[str, Any] = {}
    keys = build_server_requests(entrant, prompts)
    # A server whose address nobody needed today may have been free when it answered.
    if not is_free and ledger.answered_keys(keys):
        costs = bill_responses(keys, entrant.model, ledger=ledger, prices=terms.prices)
    return CompletedResponses(
        responses=[kept[key] for key in by_fingerprint if key in kept],
        generated=len(kept) - n_kept,
        device=source,
        reasons=reasons,
        figures={**work.figures, **costs},
    )


def _missing(
    by_fingerprint: Mapping[str, Prompt], kept: Mapping[str, GeneratedResponse]
) -> list[Prompt]:
    return [prompt for key, prompt in by_fingerprint.items() if key not in kept]


def _ask(
    entrant: OpenAiApiEntrant,
    server: "_TimedServer | _PaidServer",
    missing: Sequence[Prompt],
    *,
    has_answered: bool,
    keep: Callable[[Prompt, GeneratedResponse], object],
    log: Callable[[str], None],
) -> dict[str, str]:
    """Return why some prompts have no response, by prompt id."""
    from tournament_assets.generation.server_answers import ask_server

    reasons: dict[str, str] = {}
    with GenerationProgress(entrant.entrant_id, total=len(missing), log=log) as progress:
        outcomes = ask_server(
            server,
            missing,
            max_concurrency=entrant.max_concurrency,
            max_retries=entrant.max_retries,
            has_answered=has_answered,
            log=log,
        )
        try:
            with closing(outcomes):
                for outcome in outcomes:
                    n_tokens = 0
                    if outcome.response is not None:
                        keep(outcome.prompt, outcome.response)
                        n_tokens = outcome.response.response_tokens or 0
                    else:
                        reasons[outcome.prompt.prompt_id] = str(outcome.error)
                    progress.advance(1, tokens=n_tokens)
        except ServerError:
            if isinstance(server, _PaidServer) and server.problem is not None:
                raise server.problem from None
            raise
    return reasons


def _begin_to_pay(
    entrant: OpenAiApiEntrant,
    missing: Sequence[Prompt],
    server: OpenAiServer,
    ledger: "Ledger",
    terms: BudgetTerms,
    policy: WaitingPolicy,
    log: Callable[[str], None],
    stack: ExitStack,
) -> "_PaidServer":
    """Return a server whose answers are written down, once nobody else asks it the same.

    Raises:
        BudgetError: If all that is missing cannot be paid.
        GenerationError: If somebody else asks it the same until the deadline.
    """
    requests = list(build_server_requests(entrant, missing).values())
    build_approval(terms, ledger=ledger)(requests, "direct")
    scope = response_scope(entrant)
    bar = JudgingBar(f"{entrant.entrant_id} responds", total=len(missing), log=log)
    try:
        lease = stack.enter_context(hold_lease(ledger, scope, policy=policy, progress=bar))
    except JudgeError as error:
        raise GenerationError(str(error)) from None
    for left in ledger.open_batches(scope):
        # The process that had asked is gone, and its answer with it: it counts as paid.
        ledger.record_closed(left.nonce, state="abandoned")
    return _PaidServer(entrant, server, ledger, lease, terms, policy, log)


@dataclass(frozen=True, slots=True)
class _Intent:
    """What is about to be asked, and under which name it is written down."""

    request: ResponseRequest
    nonce: str


@dataclass(frozen=True, slots=True)
class _TimedServer:
    """Asks a server that costs nothing; satisfies `generation.server_answers.ChatServer`."""

    server: OpenAiServer

    def ask(self, prompt: Prompt) -> GeneratedResponse:
        """Ask once, wait for the answer, and note how long that took."""
        began = time.monotonic()
        return self.server.ask(prompt).timed(time.monotonic() - began)


class _PaidServer:
    """Asks a server whose answers cost money; satisfies `generation.server_answers.ChatServer`.

    Attributes:
        problem: Why nothing more may be asked; None while something may.
    """

    def __init__(
        self,
        entrant: OpenAiApiEntrant,
        server: OpenAiServer,
        ledger: "Ledger",
        lease: Lease,
        terms: BudgetTerms,
        policy: WaitingPolicy,
        log: Callable[[str], None],
    ) -> None:
        self.problem: BudgetError | GenerationError | None = None
        self._entrant = entrant
        self._server = server
        self._ledger = ledger
        self._lease = lease
        self._terms = terms
        self._policy = policy
        self._log = log
        self._settled = threading.Condition()
        self._under_way = 0

    def ask(self, prompt: Prompt) -> GeneratedResponse:
        """Ask once, if there is room for the answer at its most, and wait for it.

        Raises:
            ServerError: If there is none, or nothing more may be asked.
        """
        (request,) = build_server_requests(self._entrant, [prompt]).values()
        intent = self._write_intent(request)
        try:
            return self._settle(intent, prompt)
        finally:
            with self._settled:
                self._under_way -= 1
                self._settled.notify_all()

    def _write_intent(self, request: ResponseRequest) -> _Intent:
        waits = Waits(self._policy)
        intent = _Intent(request, secrets.token_hex(NONCE_LENGTH // 2))
        with self._settled:
            while self.problem is None:
                try:
                    if self._record(intent):
                        self._under_way += 1
                        return intent
                    if not self._under_way:
                        self._wait_for_others(request, waits)
                        continue
                except BudgetError as error:
                    self.problem = BudgetError(
                        f"{error}; every response that came is kept, and a run with a larger "
                        "budget asks for the others alone"
                    )
                except JudgeError as error:
                    self.problem = GenerationError(str(error))
                else:
                    # What this run has under way frees what it costs less than its most.
                    self._settled.wait()
        raise ServerError(str(self.problem), failure=ServerFailure.FATAL)

    def _record(self, intent: _Intent) -> int:
        request, model = intent.request, self._entrant.model
        most = most_usd(request, self._terms.prices, "direct")
        return self._ledger.record_intent(
            self._lease,
            BatchIntent(
                nonce=intent.nonce,
                judge_model=model,
                attempt=1,
                channel="direct",
                begun_at=datetime.now(UTC),
                request_keys=[request.request_key],
                most_usd=None if most is None else [most],
            ),
            self._terms,
        )

    def _wait_for_others(self, request: ResponseRequest, waits: Waits) -> None:
        wait_for_others(
            request,
            "direct",
            terms=self._terms,
            ledger=self._ledger,
            own={self._lease.scope.holder},
            policy=self._policy,
            waits=waits,
            note=self._log,
        )

    def _settle(self, intent: _Intent, prompt: Prompt) -> GeneratedResponse:
        key, nonce, ledger = intent.request.request_key, intent.nonce, self._ledger
        began = time.monotonic()
        try:
            answer = self._server.send(prompt)
        except ServerError as error:
            result_type = "lost" if error.may_be_billed else "errored"
            row = ReplyRow(result_type=result_type, error_message=str(error))
            ledger.record_failures(nonce, [(key, row)])
            ledger.record_closed(nonce, state="harvested" if error.may_be_billed else "refused")
            raise
        seconds = time.monotonic() - began
        try:
            response = self._server.read(answer, prompt).timed(seconds)
            # Before it counts as paid: a process that dies in between asks for nothing twice.
            identity = self._entrant.fingerprint(self._entrant.content_hash)
            ledger.keep_responses(identity, [(prompt.fingerprint, response)])
            return response
        finally:
            ledger.record_rows(nonce, [(key, self._reply(answer))])
            ledger.record_closed(nonce, state="harvested")

    def _reply(self, answer: ServerAnswer) -> ReplyRow:
        return ReplyRow(
            result_type="succeeded",
            usage=answer.usage,
            model=self._entrant.model,
            raw=json.dumps(answer.text),
        )
