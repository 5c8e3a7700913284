"""Responses of a model behind an API, bought in batches through the ledger as replies are.

What is asked, the key under which its reply is kept, and what a reply means. A reply that was paid
for is final: a refusal is asked for once and is no response, and neither is a thought that took all
the tokens there were.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tournament_assets.judging.batch_service import Channel, Reply, TokenUsage
from tournament_assets.judging.costs.prices import (
    BudgetTerms,
    PriceList,
    load_newest_prices,
    month_start,
)
from tournament_assets.judging.requests.requests import ModelRequest, printable
from tournament_assets.judging.settlement.records import RESPONSES, JudgingScope
from tournament_assets.judging.settlement.recovery import PlannedRequest, refuse_to_repay
from tournament_assets.judging.settlement.sessions import (
    Approval,
    JudgingOptions,
    Sleep,
    Tally,
    WaitingPolicy,
    approve_anything,
)
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.reports.progress_bars import JudgingBar
from tournament_assets.tournament.entrants import AnthropicApiEntrant, OpenAiApiEntrant
from tournament_assets.tournament.errors import GenerationError, InputError, JudgeError
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.tournament.judge_services import LOOPBACK, SERVICES, is_free_model
from tournament_assets.tournament.judges import JudgeConfig, ServiceAccess
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt, sample_of
from tournament_assets.workflows.judge_requests import JudgeAccess
from tournament_assets.workflows.local_responses import CompletedResponses, Work

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


REMEDY = (
    "correct the entrant's model or its settings, or, if the service was at fault, give it another "
    "revision"
)
"""What a person can do if every prompt is refused as invalid."""
_ANY = "*"  # no tournament and no mode bears this name
_FINISH_REASONS = {"end_turn": "stop", "max_tokens": "length"}


@dataclass(frozen=True, slots=True)
class ResponseRequest(ModelRequest):
    """A prompt as it is put to a model; its key also says which entrant asks.

    Attributes:
        prompts: The prompts that say so; their responses are one.
    """

    prompts: Sequence[Prompt]


@dataclass(frozen=True, slots=True)
class NoResponse:
    """Why a prompt that was asked has no response, as a sentence without an end."""

    reason: str


def response_scope(entrant: AnthropicApiEntrant | OpenAiApiEntrant) -> JudgingScope:
    """Return what only one process at a time may submit.

    Responses belong to an entrant's fingerprint: two modes, and two tournaments with one ledger,
    share them, and a renamed entrant keeps them. So does whatever is under way.
    """
    return JudgingScope(
        tournament_id=_ANY,
        mode=_ANY,
        dimension=entrant.fingerprint(entrant.content_hash),
        purpose=RESPONSES,
        subject=f"entrant {entrant.entrant_id!r}",
    )


def build_response_requests(
    entrant: AnthropicApiEntrant, prompts: Iterable[Prompt]
) -> dict[str, ResponseRequest]:
    """Return what is asked of a model, by request key, in the order of the prompts.

    Prompts of the same text are one request, but for samples of a prompt: the service takes no
    seed, so each is a request of its own.
    """
    identity = entrant.fingerprint(entrant.content_hash)
    by_text: dict[tuple[str, int], list[Prompt]] = {}
    for prompt in prompts:
        asked = printable(prompt.text), sample_of(prompt.prompt_id)
        by_text.setdefault(asked, []).append(prompt)
    requests: dict[str, ResponseRequest] = {}
    for (text, sample), of_text in by_text.items():
        params = _compose(entrant, text)
        which = {} if sample == 1 else {"sample": sample}
        key = fingerprint({"response_of": identity, "params": params, **which})
        requests[key] = ResponseRequest(key, params, tuple(of_text))
    return requests


def build_server_requests(
    entrant: OpenAiApiEntrant, prompts: Iterable[Prompt]
) -> dict[str, ResponseRequest]:
    """Return what a chat server is asked, by request key, for counting what it costs.

    Each prompt has a seed of its own, so that prompts of the same text are two requests.
    """
    identity = entrant.fingerprint(entrant.content_hash)
    requests: dict[str, ResponseRequest] = {}
    for prompt in prompts:
        key = fingerprint({"response_of": identity, "prompt": prompt.fingerprint})
        params = _compose(entrant, printable(prompt.text))
        requests[key] = ResponseRequest(key, params, (prompt,))
    return requests


def _compose(entrant: AnthropicApiEntrant | OpenAiApiEntrant, text: str) -> dict[str, Any]:
    params: dict[str, Any] = {
        "model": entrant.model,
        "max_tokens": entrant.max_new_tokens,
        "messages": [{"role": "user", "content": text}],
    }
    if entrant.system_prompt is not None:
        params["system"] = printable(entrant.system_prompt)
    if entrant.temperature is not None:
        params["temperature"] = entrant.temperature
    if isinstance(entrant, OpenAiApiEntrant) and entrant.extra_body is not None:
        params["extra_body"] = entrant.extra_body
    return params


def read_response(prompt_id: str, reply: Reply) -> GeneratedResponse | NoResponse:
    """Say what a final reply to a prompt means.

    A response that the token cap has cut off is one if it says anything. One that the model ended
    by itself is one even if it says nothing: that is what it said.
    """
    if reply.result_type != "succeeded":
        return NoResponse(f"the request was refused for good ({reply.error_type})")
    if reply.stop_reason == "refusal":
        return NoResponse("the model refused to answer")
    if reply.stop_reason == "model_context_window_exceeded":
        return NoResponse("the prompt and its response exceed the model's context")
    finish_reason = _FINISH_REASONS.get(reply.stop_reason or "")
    if finish_reason is None or reply.text is None:
        return NoResponse(
            f"the reply ended with stop_reason {reply.stop_reason!r}; "
            "expected 'end_turn' or 'max_tokens'"
        )
    if finish_reason == "length" and not reply.text.strip():
        return NoResponse(
            "all of max_new_tokens went by before the model wrote a word; what it thinks counts"
        )
    usage = reply.usage
    return GeneratedResponse(
        prompt_id=prompt_id,
        text=reply.text,
        finish_reason=finish_reason,
        prompt_tokens=None if usage is None else usage.read_tokens,
        response_tokens=None if usage is None else usage.output_tokens,
        diagnostics={"served_model": reply.model},
    )


def batch_problems(
    entrant: AnthropicApiEntrant,
    prompts: Sequence[Prompt],
    *,
    ledger: "Ledger | None",
    environment: Mapping[str, str],
) -> Sequence[str]:
    """Say what keeps a model from being asked, if there is anything to ask it."""
    problem = SERVICES[entrant.service].key_problem(
        environment,
        what=f"entrant {entrant.entrant_id!r} has the model {entrant.model!r}",
        instead=f"name a model that begins with {LOOPBACK.model_prefix!r}",
    )
    if problem is None:
        return ()
    if ledger is not None and _Purchase(entrant, prompts, ledger).is_complete:
        return ()
    return (problem,)


def complete_by_batches(
    entrant: AnthropicApiEntrant,
    *,
    prompts: Sequence[Prompt],
    ledger: "Ledger",
    judge: JudgeAccess,
    config: JudgeConfig,
    may_pay_again: bool,
    log: Callable[[str], None],
    terms: BudgetTerms | None = None,
    approve: Approval = approve_anything,
    sleep: Sleep = time.sleep,
) -> CompletedResponses:
    """Take what the ledger holds, buy the rest, and keep each response as soon as it is read.

    What another run has begun is taken up, whoever began it: the other mode, another tournament
    with the same ledger, a process that was killed. The key is needed only if something is missing
    or under way.

    Args:
        entrant: The model and its settings.
        prompts: What to answer.
        ledger: Where batches, replies and responses are kept.
        judge: What leads to the service.
        config: How the judge is asked: a model is waited for in the same way.
        may_pay_again: Whether paid results that the service no longer keeps may be bought again.
        log: Told what is happening.
        terms: What every request is paid from; None sets no limit.
        approve: Asked whether all that is missing can be paid before anything of it is sent.
        sleep: Waits between two looks.

    Raises:
        InputError: If there is no key.
        BudgetError: If the responses would cost more than may be spent; those that came are kept.
        GenerationError: If the service refuses, batches have not ended by the deadline, or not a
            single prompt has a response; what was received is kept, and what is under way is taken
            up by the next run.
    """
    purchase = _Purchase(entrant, prompts, ledger)
    n_kept = len(purchase.responses())
    purchase.keep_what_is_paid()
    tally, work = Tally(), Work()
    source = "nothing was asked: the ledger held every reply"
    if not purchase.is_complete:
        problems = batch_problems(entrant, prompts, ledger=ledger, environment=judge.variables)
        if problems:
            raise InputError(problems)
        source = f"{entrant.model} {SERVICES[entrant.service].source}"
        began = time.monotonic()
        try:
            tally = _buy(
                purchase,
                judge,
                config,
                may_pay_again=may_pay_again,
                log=log,
                terms=terms,
                approve=approve,
                sleep=sleep,
            )
        except JudgeError as error:
            raise GenerationError(str(error)) from None
        # Another run may have bought some while this one waited for its turn.
        purchase.keep_what_is_paid()
        work.seconds = time.monotonic() - began
    prices = load_newest_prices(config.prices)
    kept = purchase.responses()
    reasons = purchase.reasons(withheld=tally.withheld)
    if prompts and not kept:
        first = next(iter(reasons.values()))
        raise GenerationError(
            f"none of {len(prompts)} prompts has a response; expected some; the first one: {first}"
        )
    return CompletedResponses(
        responses=[kept[prompt.fingerprint] for prompt in prompts if prompt.fingerprint in kept],
        generated=len(kept) - n_kept,
        device=source,
        reasons=reasons,
        # Most of the time a batch waits its turn, so tokens by seconds would be nobody's speed.
        figures={**work.figures, **_work(tally), **purchase.bill(prices)},
    )


def planned_responses(
    entrant: AnthropicApiEntrant, prompts: Sequence[Prompt]
) -> dict[str, PlannedRequest]:
    """Return what a model would be asked, by request key."""
    request = PlannedRequest(response_scope(entrant), entrant.model, reply_format=None)
    return dict.fromkeys(build_response_requests(entrant, prompts), request)


def entrant_access(entrant: AnthropicApiEntrant, judge: ServiceAccess) -> ServiceAccess:
    """Return how an entrant's service is reached: as the judge is, where that is the same one."""
    # The key goes with the address: a gateway's is not for anybody else.
    return (
        judge.door if entrant.service == judge.service else ServiceAccess(service=entrant.service)
    )


def keep_paid_responses(
    entrant: AnthropicApiEntrant, prompts: Sequence[Prompt], *, ledger: "Ledger"
) -> None:
    """Keep the responses in replies that the ledger holds."""
    _Purchase(entrant, prompts, ledger).keep_what_is_paid()


def _buy(
    purchase: "_Purchase",
    judge: JudgeAccess,
    config: JudgeConfig,
    *,
    may_pay_again: bool,
    log: Callable[[str], None],
    terms: BudgetTerms | None,
    approve: Approval,
    sleep: Sleep,
) -> Tally:
    entrant = purchase.entrant
    waits = _waits(entrant, config)
    left = purchase.left()
    with (
        judge.service(entrant_access(entrant, config)) as service,
        JudgingBar(f"{entrant.entrant_id} responds", total=len(left), log=log) as progress,
    ):
        refuse_to_repay(
            frozenset(request.request_key for request in left),
            ledger=purchase.ledger,
            service=service,
            note=progress.note,
            command="tournament ledger recover --config CONFIG",
            may_pay_again=may_pay_again or is_free_model(entrant.model),
        )
        return settle_requests(
            left,
            scope=purchase.scope,
            ledger=purchase.ledger,
            service=service,
            progress=progress,
            options=JudgingOptions(
                policy=WaitingPolicy(
                    poll_initial_seconds=waits.poll_initial_seconds,
                    poll_max_seconds=waits.poll_max_seconds,
                    deadline_seconds=config.deadline_seconds,
                    adopt_grace_seconds=waits.grace_seconds,
                    max_rounds=config.max_rounds,
                    max_direct=config.max_direct,
                    sleep=sleep,
                ),
                approve=approve,
                terms=terms,
                may_pay_again=may_pay_again,
                reply_format=None,
                on_final=purchase.keep,
                remedy=REMEDY,
            ),
        )


def _waits(entrant: AnthropicApiEntrant, config: JudgeConfig) -> JudgeConfig:
    """Return how often the service is looked at: as the judge's, if it is the judge's."""
    if entrant.service == config.service:
        return config
    first, longest = SERVICES[entrant.service].poll_seconds
    return JudgeConfig(
        service=entrant.service, poll_initial_seconds=first, poll_max_seconds=longest
    )


class _Purchase:
    """What an entrant is to be asked, and what the ledger says about it.

    Args:
        entrant: The model and its settings.
        prompts: What to answer.
        ledger: Where batches, replies and responses are kept.
    """

    def __init__(
        self, entrant: AnthropicApiEntrant, prompts: Sequence[Prompt], ledger: "Ledger"
    ) -> None:
        self.entrant = entrant
        self.ledger = ledger
        self.scope = response_scope(entrant)
        self._identity = entrant.fingerprint(entrant.content_hash)
        self._fingerprints = [prompt.fingerprint for prompt in prompts]
        self._requests = build_response_requests(entrant, prompts)

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing to ask, and nothing under way."""
        return not self.left() and not self._is_under_way()

    def responses(self) -> dict[str, GeneratedResponse]:
        """Return the kept responses, by prompt fingerprint."""
        return self.ledger.responses(self._identity, self._fingerprints)

    def left(self) -> list[ResponseRequest]:
        """Return the requests that have neither a response nor a final reply."""
        missing = self._missing()
        answered = self.ledger.answered_keys(missing)
        return [request for key, request in missing.items() if key not in answered]

    def keep(self, rows: Iterable[tuple[str, Reply]]) -> None:
        """Keep the responses that final replies hold; those of other prompts are passed over."""
        responses: list[tuple[str, GeneratedResponse]] = []
        for key, reply in rows:
            request = self._requests.get(key)
            for prompt in request.prompts if request is not None else ():
                response = read_response(prompt.prompt_id, reply)
                if isinstance(response, GeneratedResponse):
                    responses.append((prompt.fingerprint, response))
        if responses:
            self.ledger.keep_responses(self._identity, responses)

    def keep_what_is_paid(self) -> None:
        """Keep what replies hold whose reader was killed before it had kept it."""
        replies = self.ledger.iterate_replies(self._missing())
        self.keep((reply.request_key, reply) for reply in replies)

    def reasons(self, *, withheld: AbstractSet[str]) -> dict[str, str]:
        """Return why prompts have no response, by prompt id, in the order of the prompts."""
        missing = self._missing()
        replies = {reply.request_key: reply for reply in self.ledger.iterate_replies(missing)}
        failed = self.ledger.failed_keys(missing)
        reasons: dict[str, str] = {}
        for key, request in missing.items():
            for prompt in request.prompts:
                reason = f"it failed transiently ({failed.get(key)}); the next run asks again"
                if key in withheld:
                    reason = (
                        "its result was paid and could not be read; run again later, or with "
                        "--pay-again to ask and pay for it again"
                    )
                reply = replies.get(key)
                meaning = None if reply is None else read_response(prompt.prompt_id, reply)
                if isinstance(meaning, NoResponse):
                    reason = meaning.reason
                reasons[prompt.prompt_id] = f"prompt {prompt.prompt_id!r}: {reason}"
        return reasons

    def bill(self, prices: PriceList) -> dict[str, Any]:
        """Return what the replies to these prompts cost, whenever they were paid for."""
        return bill_responses(self._requests, self.entrant.model, ledger=self.ledger, prices=prices)

    def _missing(self) -> dict[str, ResponseRequest]:
        kept = self.responses()
        return {
            key: request
            for key, request in self._requests.items()
            if any(prompt.fingerprint not in kept for prompt in request.prompts)
        }

    def _is_under_way(self) -> bool:
        """Whether a batch that nobody has closed holds any of the prompts."""
        return any(
            not self._requests.keys().isdisjoint(self.ledger.batch_keys(batch.nonce))
            for batch in self.ledger.open_batches(self.scope)
        )


def bill_responses(
    request_keys: Iterable[str], model: str, *, ledger: "Ledger", prices: PriceList
) -> dict[str, Any]:
    """Return what the replies to some requests cost, by name, for metadata.

    Args:
        request_keys: The requests.
        model: The model that was asked.
        ledger: Where all entrants' bills are.
        prices: What prices them.
    """
    by_channel: dict[Channel, TokenUsage] = {}
    for reply in ledger.iterate_replies(request_keys):
        if reply.usage is not None:
            so_far = by_channel.get(reply.channel, TokenUsage())
            by_channel[reply.channel] = so_far + reply.usage
    total = sum(by_channel.values(), TokenUsage())
    bill: dict[str, Any] = {
        "input_tokens": total.read_tokens,
        "output_tokens": total.output_tokens,
    }
    if is_free_model(model):
        return {**bill, "cost_usd": 0.0}
    if model in prices.models:
        costs = [
            prices.cost_usd(model, usage, channel=channel) or 0.0
            for channel, usage in by_channel.items()
        ]
        bill["cost_usd"] = round(sum(costs), 4)
    this_month = ledger.spending_since(month_start(datetime.now(UTC)), on_responses=True)
    return {**bill, "all_responses_this_month_usd": round(prices.add_up(this_month).usd, 4)}


def _work(tally: Tally) -> dict[str, Any]:
    return {
        "requests_submitted_now": tally.submitted,
        "requests_asked_directly_now": tally.direct,
        "batches_adopted_now": tally.adopted,
        "waste_replies_paid_twice_now": tally.paid_twice,
        "waste_requests_never_confirmed_now": tally.abandoned,
        "waste_requests_unparsable_now": tally.unparsable,
    }
