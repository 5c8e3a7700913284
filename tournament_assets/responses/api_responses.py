"""Responses of a model behind an API, bought through the ledger like a judge's replies.

What is asked, and the key under which its reply is kept. Every reply is final. A refusal is no
response and is not asked for again; nor is a thought that used up all tokens. One's own server is a
service without a price.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from tournament_assets.foundation.errors import GenerationError, InputError, JudgeError, Problems
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.judging.batch_service import (
    AsksDirectly,
    MessageParams,
    ReplyRow,
    TokenUsage,
)
from tournament_assets.judging.costs.prices import BudgetTerms, PriceList, month_start
from tournament_assets.judging.requests.columns import ModelRequest
from tournament_assets.judging.requests.requests import printable
from tournament_assets.judging.settlement.harvest import is_final
from tournament_assets.judging.settlement.records import RESPONSES, JudgingScope, StoredReply
from tournament_assets.judging.settlement.recovery import PlannedRequest, refuse_to_repay
from tournament_assets.judging.settlement.sessions import (
    Clock,
    JudgingSession,
    SettlementTerms,
    Sleep,
    Tally,
)
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.providers.openers import open_service, unknown_model_problem
from tournament_assets.providers.response_reading import NoResponse, read_response
from tournament_assets.reports.progress_bars import JudgingBar
from tournament_assets.responses.local_responses import CompletedResponses, Work
from tournament_assets.tournament.answering_models import AnsweringModels
from tournament_assets.tournament.entrants import (
    AnthropicApiEntrant,
    AnyEntrant,
    ApiEntrant,
    OpenAiApiEntrant,
    has_server,
)
from tournament_assets.tournament.judge_services import (
    LOOPBACK,
    SERVICES,
    ServiceConnection,
    is_free_model,
)
from tournament_assets.tournament.judges import Judge
from tournament_assets.tournament.places import is_private, origin_of, url_problem
from tournament_assets.tournament.prompts import (
    GeneratedResponse,
    Prompt,
)
from tournament_assets.verdicts.judge_requests import JudgeAccess
from tournament_assets.verdicts.spending_plans import build_approval

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


_REMEDY = (
    "correct the entrant's model or its settings, or, if the service was at fault, give it another "
    "revision"
)
"""What a person can do if every prompt is refused as invalid."""
_SERVER_REMEDY = (
    "correct the server or the entrant's settings, and run again: what it answered is kept"
)
_ANY = "*"  # no tournament and no mode has this name


@dataclass(frozen=True, slots=True)
class ResponseRequest(ModelRequest):
    """A prompt as it is sent to a model; its key includes the entrant.

    Attributes:
        prompts: The prompts with this text, which share a response.
    """

    prompts: Sequence[Prompt]


def response_scope(entrant: ApiEntrant) -> JudgingScope:
    """Return the scope within which only one process at a time may submit.

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
    entrant: ApiEntrant, prompts: Iterable[Prompt]
) -> dict[str, ResponseRequest]:
    """Return what is asked of a model, by request key, in the order of the prompts.

    Prompts of the same text are one request where the service takes no seed, but for samples of a
    prompt, each of which is a request of its own.
    """
    identity = entrant.fingerprint(entrant.content_hash)
    of_key: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        if entrant.takes_seed:
            key = fingerprint({"response_of": identity, "prompt": prompt.fingerprint})
        else:
            which = {} if prompt.sample == 1 else {"sample": prompt.sample}
            params = _compose(entrant, prompt)
            key = fingerprint({"response_of": identity, "params": params, **which})
        of_key.setdefault(key, []).append(prompt)
    return {
        key: ResponseRequest(key, _compose(entrant, of_text[0]), tuple(of_text))
        for key, of_text in of_key.items()
    }


def _compose(entrant: ApiEntrant, prompt: Prompt) -> MessageParams:
    params: MessageParams = {
        "model": entrant.model,
        "max_tokens": entrant.max_new_tokens,
        "messages": [{"role": "user", "content": printable(prompt.text)}],
    }
    if entrant.system_prompt is not None:
        params["system"] = printable(entrant.system_prompt)
    if entrant.temperature is not None:
        params["temperature"] = entrant.temperature
    more = entrant.own_params(prompt) if has_server(entrant) else {}
    return cast("MessageParams", {**params, **more})


def costs_nothing(entrant: ApiEntrant, environment: Mapping[str, str], prices: PriceList) -> bool:
    """Return whether an entrant's service is free.

    A configured price decides. Without one, a server on this machine or in a private network is
    free, and the price of any other is unknown.
    """
    if entrant.server is None:
        return is_free_model(entrant.model)
    if entrant.model in prices.models:
        return prices.is_zero(entrant.model)
    return is_private(entrant.server.base_url(environment))


def server_connection(
    entrant: OpenAiApiEntrant, environment: Mapping[str, str]
) -> ServiceConnection:
    """Find an entrant's server and its key.

    Raises:
        InputError: With every environment variable that is missing or cannot be used.
    """
    problems = Problems()
    name, variable = f"entrant {entrant.entrant_id!r}", entrant.base_url.env
    url = entrant.base_url.base_url(environment)
    if not url:
        problems.add(
            f"{name}: the environment variable {variable} is not set; expected the base URL of "
            f"its server; export {variable}=http://…/v1"
        )
    elif (problem := url_problem(url)) is not None:
        problems.add(f"{name}: {variable or 'base_url'}: {problem}")
    key, key_name = "", entrant.api_key_env
    if key_name is not None:
        key = environment.get(key_name, "").strip()
        if not key:
            problems.add(
                f"{name}: the environment variable {key_name} is not set; expected the key of its "
                "server; export it, or leave out api_key_env if the server wants no key"
            )
        elif not (key.isascii() and key.isprintable()):
            problems.add(
                f"{name}: the environment variable {key_name} holds characters that no header can "
                "carry; expected the key of its server, and nothing else"
            )
    problems.extend(f"{name}: {each}" for each in entrant.header_problems(environment))
    problems.raise_if_any()
    return ServiceConnection(
        api_key=key,
        base_url=url,
        key_variable=key_name or "",
        cap=entrant.max_tokens_field or "",
        timeout_seconds=entrant.timeout_seconds,
        unasked=frozenset(entrant.unasked),
        headers=entrant.plain_headers,
        secret_headers=entrant.secret_headers(environment),
        query=entrant.query or {},
    )


def service_problems(
    entrant: ApiEntrant,
    prompts: Sequence[Prompt],
    *,
    ledger: "Ledger | None",
    environment: Mapping[str, str],
    terms: BudgetTerms,
) -> Sequence[str]:
    """Describe what prevents asking a model, if there is anything to ask.

    A chat server is probed: whether it is reachable and accepts the key.
    """
    if ledger is not None and _Purchase(entrant, prompts, ledger).is_complete:
        return ()
    if not has_server(entrant):
        problem = missing_key(entrant, environment)
        return () if problem is None else (problem,)
    problems: list[str] = []
    what = f"entrant {entrant.entrant_id!r}"
    is_free = costs_nothing(entrant, environment, terms.prices)
    try:
        with open_service(entrant.service, server_connection(entrant, environment)) as server:
            problem = unknown_model_problem(
                server, entrant.model, what=what, priced=terms.prices.models, is_free=is_free
            )
            problems += [] if problem is None else [problem]
    except InputError as error:
        problems += error.problems
    except JudgeError as error:
        problems.append(f"{what}: {error}")
    budget = terms.draw_up(terms.counts_from, [], [])
    if budget is not None and entrant.model not in terms.prices.models and not is_free:
        what = f"the responses of entrant {entrant.entrant_id!r}"
        problem = budget.problem(None, what=what, model=entrant.model)
        problems.append(f"{problem}; a server that costs nothing has 0 for both")
    return problems


def missing_key(entrant: ApiEntrant, environment: Mapping[str, str]) -> str | None:
    """Explain that the key for Claude models is missing, or return None."""
    return SERVICES[entrant.service].key_problem(
        environment,
        what=f"entrant {entrant.entrant_id!r} has the model {entrant.model!r}",
        instead=f"name a model that begins with {LOOPBACK.model_prefix!r}",
    )


def complete_by_service(
    entrant: ApiEntrant,
    *,
    prompts: Sequence[Prompt],
    ledger: "Ledger",
    judge: JudgeAccess,
    judges: Sequence[Judge],
    environment: Mapping[str, str],
    may_pay_again: bool,
    log: Callable[[str], None],
    terms: BudgetTerms,
    sleep: Sleep = time.sleep,
) -> CompletedResponses:
    """Take what the ledger holds, buy the rest, and keep each response as soon as it is read.

    Work begun elsewhere is continued: by the other mode, another tournament with the same ledger,
    or a killed process. The service, its key and its address are needed only if something is
    missing or under way.

    Args:
        judge: What leads to the services that judge, where Claude models are asked.
        judges: Who judges: a judge's service is reached and waited for in the same way.
        environment: Where a chat server's address and key may be.
        may_pay_again: Whether paid results that the service no longer keeps may be bought again.
        terms: What every request is paid from.

    Raises:
        InputError: If there is no key, or no address.
        BudgetError: If the responses would cost more than may be spent; those that came are kept.
        GenerationError: If the service refuses, batches have not ended by the deadline, or not a
            single prompt has a response; what was received is kept, and what is under way is taken
            up by the next run.
    """
    if costs_nothing(entrant, environment, terms.prices):
        terms = replace(terms, prices=terms.prices.with_free(entrant.model))
    purchase = _Purchase(entrant, prompts, ledger)
    before = purchase.responses()
    purchase.keep_what_is_paid()
    tally, work = Tally(), Work()
    source = "nothing was asked: the ledger held every reply"
    if not purchase.is_complete:
        began = time.monotonic()
        try:
            with _connect(entrant, judge, judges, environment) as (service, source):
                tally = _buy(
                    purchase,
                    service,
                    judges,
                    may_pay_again=may_pay_again,
                    log=log,
                    budget=terms,
                    sleep=sleep,
                )
        except JudgeError as error:
            raise GenerationError(str(error)) from None
        # Another run may have bought some while this one waited for its turn.
        purchase.keep_what_is_paid()
        work.seconds = time.monotonic() - began
    by_prompt = purchase.responses()
    if SERVICES[entrant.service].channel == "direct":
        # A batch mostly waits its turn, so tokens per second would not be a speed.
        work.tokens = sum(
            by_prompt[key].response_tokens or 0 for key in by_prompt.keys() - before.keys()
        )
    reasons = purchase.reasons(withheld=tally.withheld)
    if prompts and not by_prompt:
        first = next(iter(reasons.values()))
        raise GenerationError(
            f"none of {len(prompts)} prompts has a response; expected some; the first one: {first}"
        )
    responses = [
        by_prompt[prompt.fingerprint] for prompt in prompts if prompt.fingerprint in by_prompt
    ]
    refused = sorted({name for each in responses for name in each.diagnostics.get("not_sent", ())})
    who = AnsweringModels(SERVICES[entrant.service], entrant.model)
    who.counts.update(each.diagnostics.get("served_model") for each in responses)
    other = {} if who.problem is None else {"answered_by": who.problem}
    return CompletedResponses(
        responses=responses,
        generated=len(by_prompt) - len(before),
        device=source,
        reasons=reasons,
        figures={**work.figures, **_work(tally), **purchase.bill(terms.prices), **other},
        warnings=[
            *other.values(),
            *(
                [
                    f"its server refuses {' and '.join(refused)}, which the config does not ask "
                    "for; responses are made without"
                ]
                if refused
                else []
            ),
        ],
    )


def planned_responses(
    entrant: AnthropicApiEntrant, prompts: Sequence[Prompt]
) -> dict[str, PlannedRequest]:
    """Return what a model would be asked, by request key."""
    request = PlannedRequest(response_scope(entrant), entrant.model, reply_format=None)
    return dict.fromkeys(build_response_requests(entrant, prompts), request)


@contextmanager
def _connect(
    entrant: ApiEntrant,
    judge: JudgeAccess,
    judges: Sequence[Judge],
    environment: Mapping[str, str],
) -> Iterator[tuple[AsksDirectly, str]]:
    """Reach the entrant's service; yield it, and what responses from it are said to be from."""
    if has_server(entrant):
        connection = server_connection(entrant, environment)
        source = f"{entrant.model} behind {origin_of(connection.base_url) or 'a server'}"
        with open_service(entrant.service, connection) as service:
            yield service, source
        return
    problem = missing_key(entrant, judge.variables)
    if problem is not None:
        raise InputError(problem)
    with judge.service(asked_as_a_judge(entrant, judges)) as service:
        yield service, f"{entrant.model} {SERVICES[entrant.service].source}"


def asked_as_a_judge(entrant: ApiEntrant, judges: Sequence[Judge]) -> Judge:
    """Return how an entrant's service is reached and waited for: as a judge, if it is one too."""
    # The key goes with the address: a gateway's is not for anybody else.
    same = next((each for each in judges if each.service == entrant.service), None)
    if same is not None and entrant.is_bought:
        return same
    first, longest = SERVICES[entrant.service].poll_seconds
    looks = {"poll_initial_seconds": first, "poll_max_seconds": longest}
    waiting = judges[0].waiting.model_copy(update={**looks, "adopt_grace_seconds": None})
    return Judge(service=entrant.service, model=entrant.model, waiting=waiting)


def bought_entrants(entrants: Iterable[AnyEntrant]) -> list[AnthropicApiEntrant]:
    """Return the entrants that are asked on the judges' account, in config order."""
    return [cast("AnthropicApiEntrant", entrant) for entrant in entrants if entrant.is_bought]


def keep_paid_responses(
    entrant: AnthropicApiEntrant, prompts: Sequence[Prompt], *, ledger: "Ledger"
) -> None:
    """Keep the responses in replies that the ledger holds."""
    _Purchase(entrant, prompts, ledger).keep_what_is_paid()


def _buy(
    purchase: "_Purchase",
    service: AsksDirectly,
    judges: Sequence[Judge],
    *,
    may_pay_again: bool,
    log: Callable[[str], None],
    budget: BudgetTerms,
    sleep: Sleep,
) -> Tally:
    entrant = purchase.entrant
    judge = asked_as_a_judge(entrant, judges)
    terms = SettlementTerms(
        waiting=judge.waiting,
        grace_seconds=judge.grace_seconds,
        may_pay_again=may_pay_again,
        reply_format=None,
        remedy=_REMEDY,
        budget=budget,
    )
    if has_server(entrant):
        terms = replace(
            terms,
            remedy=_SERVER_REMEDY,
            max_in_flight=entrant.max_concurrency,
            max_tries=entrant.max_retries + 1,
            refusals_are_final=False,
            has_answered=bool(purchase.responses()),
        )
    requests = purchase.left()
    with JudgingBar(f"{entrant.entrant_id} responds", total=len(requests), log=log) as progress:
        refuse_to_repay(
            frozenset(request.request_key for request in requests),
            ledger=purchase.ledger,
            service=service,
            note=progress.note,
            config="CONFIG",
            may_pay_again=may_pay_again or is_free_model(entrant.model),
        )
        session = JudgingSession(
            scope=purchase.scope,
            ledger=purchase.ledger,
            service=service,
            progress=progress,
            terms=terms,
            clock=Clock(sleep=sleep),
            approval=build_approval(budget, ledger=purchase.ledger),
            on_rows=purchase.keep,
        )
        return settle_requests(session, requests)


class _Purchase:
    """What an entrant is to be asked, and what the ledger says about it."""

    def __init__(self, entrant: ApiEntrant, prompts: Sequence[Prompt], ledger: "Ledger") -> None:
        self.entrant = entrant
        self.ledger = ledger
        self.scope = response_scope(entrant)
        self._identity = entrant.fingerprint(entrant.content_hash)
        self._fingerprints = [prompt.fingerprint for prompt in prompts]
        self._requests = build_response_requests(entrant, prompts)
        self._heard: dict[str, str] = {}

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing to ask, and nothing under way."""
        return not self.left() and not self._is_under_way()

    def responses(self) -> dict[str, GeneratedResponse]:
        """Return the kept responses, by prompt fingerprint."""
        return self.ledger.responses(
            self._identity, self._fingerprints, cuts_thoughts=self.entrant.cuts_thoughts
        )

    def left(self) -> list[ResponseRequest]:
        """Return the requests that have neither a response nor a final reply."""
        missing = self._missing()
        answered = self.ledger.answered_keys(missing)
        return [request for key, request in missing.items() if key not in answered]

    def keep(self, rows: Iterable[tuple[str, ReplyRow | StoredReply]]) -> None:
        """Keep the responses that final replies hold; those of other prompts are passed over."""
        responses: list[tuple[str, GeneratedResponse]] = []
        broken: str | None = None
        for key, reply in rows:
            if not is_final(reply):
                self._heard[key] = reply.error_message or ""
                continue
            request = self._requests.get(key)
            for prompt in request.prompts if request is not None else ():
                meaning = read_response(self.entrant, prompt, reply)
                if isinstance(meaning, NoResponse):
                    broken = meaning.reason if meaning.ends_it else broken
                    continue
                seconds = reply.seconds if isinstance(reply, ReplyRow) else None
                response = meaning if seconds is None else meaning.timed(seconds)
                responses.append((prompt.fingerprint, response))
        if responses:
            self.ledger.keep_responses(self._identity, responses)
        if broken is not None:
            raise JudgeError(f"entrant {self.entrant.entrant_id!r}: {broken}")

    def keep_what_is_paid(self) -> None:
        """Keep what replies hold if their reader was killed before keeping it."""
        self.keep((reply.request_key, reply) for reply in self._replies(self._missing()))

    def _replies(self, keys: Iterable[str]) -> Iterator[StoredReply]:
        # A service says more than a reply has columns for.
        return self.ledger.iterate_replies(keys, with_raw=True)

    def reasons(self, *, withheld: AbstractSet[str]) -> dict[str, str]:
        """Return why prompts have no response, by prompt id, in the order of the prompts."""
        missing = self._missing()
        replies = {reply.request_key: reply for reply in self._replies(missing)}
        failed = self.ledger.failed_keys(missing)
        reasons: dict[str, str] = {}
        for key, request in missing.items():
            for prompt in request.prompts:
                detail = f": {self._heard[key]}" if self._heard.get(key) else ""
                reason = f"it failed ({failed.get(key)}), and the next run asks again{detail}"
                if key in withheld:
                    reason = (
                        "its result was paid and could not be read; run again later, or with "
                        "--pay-again to ask and pay for it again"
                    )
                reply = replies.get(key)
                meaning = None if reply is None else read_response(self.entrant, prompt, reply)
                if isinstance(meaning, NoResponse):
                    reason = meaning.reason
                reasons[prompt.name] = f"prompt {prompt.name!r}: {reason}"
        return reasons

    def bill(self, prices: PriceList) -> JsonObject:
        """Return what the replies to these prompts cost, by name, whenever they were paid for.

        Args:
            prices: What prices a reply for which no price was known when it was bought.
        """
        spendings = self.ledger.spending_on(self._requests)
        total = sum((spending.usage for spending in spendings), TokenUsage())
        sums = prices.add_up(spendings)
        bill: dict[str, float] = {
            "input_tokens": total.read_tokens,
            "output_tokens": total.output_tokens,
        }
        if not sums.unpriced:
            bill["cost_usd"] = round(sums.usd, 4)
        if is_free_model(self.entrant.model):
            return bill
        of_month = self.ledger.spending_since(month_start(datetime.now(UTC)), on_responses=True)
        return {**bill, "all_responses_this_month_usd": round(prices.add_up(of_month).usd, 4)}

    def _missing(self) -> dict[str, ResponseRequest]:
        responses = self.responses()
        return {
            key: request
            for key, request in self._requests.items()
            if any(prompt.fingerprint not in responses for prompt in request.prompts)
        }

    def _is_under_way(self) -> bool:
        """Whether a batch that nobody has closed holds any of the prompts.

        Replies to direct requests of a process that has ended are lost.
        """
        return any(
            batch.channel == "batch"
            and not self._requests.keys().isdisjoint(self.ledger.batch_keys(batch.nonce))
            for batch in self.ledger.open_batches(self.scope)
        )


def _work(tally: Tally) -> JsonObject:
    return {
        "requests_submitted_now": tally.submitted,
        "requests_asked_directly_now": tally.direct,
        "batches_adopted_now": tally.adopted,
        "waste_replies_paid_twice_now": tally.paid_twice,
        "waste_requests_never_confirmed_now": tally.abandoned,
        "waste_requests_unparsable_now": tally.unparsable,
    }
