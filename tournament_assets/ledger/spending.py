"""Spending: what was billed, as the replies report it, and what was sent and not billed yet."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from tournament_assets.judging.batch_service import TOKEN_NAMES, UNPARSABLE, TokenUsage
from tournament_assets.judging.costs.prices import (
    Budget,
    BudgetTerms,
    Spending,
    UnbilledBatch,
    cost_at,
)
from tournament_assets.judging.settlement.records import RESPONSES
from tournament_assets.ledger import schema
from tournament_assets.ledger.database import LedgerDatabase, chunks, read_time, time_text
from tournament_assets.ledger.leases import active_scopes, scope_of

_UNBILLED = (*schema.OPEN, "lost")
_IS_MISSING = [
    ~sa.exists().where(
        table.c.nonce == schema.batch_requests.c.nonce,
        table.c.request_key == schema.batch_requests.c.request_key,
    )
    for table in (schema.replies, schema.paid_twice, schema.failures)
]
"""The conditions that select a request for which nothing came back."""


class SpendingRecords(LedgerDatabase):
    """The part of the ledger that adds up what was billed.

    Imported replies were billed elsewhere and do not count. The cost of entrants' own responses is
    kept separate from that of judging: a budget is for judging, and a judge's replies are no
    measure of a response.
    """

    def spending_since(
        self, moment: datetime | None = None, *, on_responses: bool = False
    ) -> list[Spending]:
        """Return what was billed from a moment on, or ever, by model, channel and price."""
        with self._transaction() as connection:
            return _read_all_spending(connection, moment, on_responses=on_responses)

    def spending_on(self, request_keys: Iterable[str]) -> list[Spending]:
        """Return what was billed for the replies to some requests, in parts."""
        with self._transaction() as connection:
            return [
                spending
                for chunk in chunks(request_keys)
                for spending in _read_spending(
                    connection, schema.replies, schema.replies.c.request_key.in_(chunk)
                )
            ]

    def unbilled_batches(self, *, on_responses: bool = False) -> list[UnbilledBatch]:
        """Return what was sent and is not billed yet, and what may have been billed unseen.

        These are: the requests of open and lost batches that did not come back; direct requests
        under way when their process died; replies that were lost, unreadable or without a usage;
        and the unread rest of batches that a ledger had forgotten.
        """
        with self._transaction() as connection:
            return _read_unbilled(connection, None, on_responses=on_responses)

    def draw_up_budget(self, terms: BudgetTerms) -> Budget | None:
        """Return what is left if all that is under way costs the most; None without a limit."""
        with self._transaction() as connection:
            return self._draw_up(connection, terms)

    def _draw_up(self, connection: sa.Connection, terms: BudgetTerms) -> Budget | None:
        if terms.limit_usd is None:
            return None
        # Read in this order, a reply that arrives in between counts twice rather than not at all.
        since = terms.counts_from
        unbilled = _read_unbilled(connection, since, on_responses=terms.on_responses)
        spent = _read_all_spending(connection, since, on_responses=terms.on_responses)
        return terms.draw_up(since, spent, unbilled)


def _is_wanted(*, on_responses: bool) -> sa.ColumnElement[bool]:
    purpose = schema.batches.c.purpose
    return purpose == RESPONSES if on_responses else purpose != RESPONSES


def _read_all_spending(
    connection: sa.Connection, moment: datetime | None, *, on_responses: bool
) -> list[Spending]:
    spendings: list[Spending] = []
    for table in (schema.replies, schema.paid_twice):
        conditions = [_is_wanted(on_responses=on_responses)]
        if moment is not None:
            conditions.append(table.c.received_at >= time_text(moment))
        spendings += _read_spending(connection, table, *conditions)
    return spendings


def _read_spending(
    connection: sa.Connection, table: sa.Table, *wanted: sa.ColumnElement[bool]
) -> list[Spending]:
    """Add up the wanted rows of a table by model, channel and price."""
    rates = [schema.batches.c[column] for column in schema.RATES]
    batches = schema.batches.c
    kinds = (batches.judge_model, batches.channel, batches.effort, *rates)
    query = (
        sa.select(
            *kinds,
            sa.func.count(table.c.output_tokens).label("n_replies"),
            sa.func.sum(_is_positive(table.c.cache_read_input_tokens)).label("hits"),
            sa.func.sum(_is_positive(table.c.cache_creation_input_tokens)).label("writes"),
            *(sa.func.sum(table.c[name]).label(name) for name in TOKEN_NAMES),
        )
        .join(schema.batches, schema.batches.c.nonce == table.c.nonce)
        .where(*wanted)
        .group_by(*kinds)
        .order_by(*kinds)
    )
    spendings: list[Spending] = []
    for row in connection.execute(query):
        values = row._mapping
        usage = TokenUsage(**{name: int(values[name] or 0) for name in TOKEN_NAMES})
        bought_at = {name: values[column] for column, name in schema.RATES.items()}
        spendings.append(
            Spending(
                judge_model=row.judge_model,
                channel=row.channel,
                effort=row.effort,
                n_replies=row.n_replies,
                n_cache_hits=int(row.hits or 0),
                n_cache_writes=int(row.writes or 0),
                usage=usage,
                usd=None if None in bought_at.values() else cost_at(bought_at, usage),
            )
        )
    return spendings


def _read_unbilled(
    connection: sa.Connection, moment: datetime | None, *, on_responses: bool
) -> list[UnbilledBatch]:
    batches, requests = schema.batches, schema.batch_requests
    is_wanted = _is_wanted(on_responses=on_responses)
    # Of the requests that a dead process asked one by one, only a few were under way.
    was_interrupted = sa.and_(batches.c.state == "abandoned", batches.c.channel == "direct")
    sums = [
        sa.func.count(requests.c.request_key).label("n_unbilled"),
        sa.func.count(requests.c.most_usd).label("n_priced"),
        sa.func.sum(requests.c.most_usd).label("most_usd"),
        sa.func.max(requests.c.most_usd).label("dearest_usd"),
    ]
    query = (
        sa.select(batches, *sums)
        .join(requests, requests.c.nonce == batches.c.nonce)
        .where(is_wanted, batches.c.state.in_(_UNBILLED) | was_interrupted, *_IS_MISSING)
        .group_by(*batches.c)
        .order_by(batches.c.begun_at, batches.c.nonce)
    )
    at_work = active_scopes(connection)
    unbilled: list[UnbilledBatch] = []
    for row in connection.execute(query):
        n_requests, most_usd = row.n_unbilled, row.most_usd
        if row.state == "abandoned":
            n_requests = min(n_requests, row.at_once)
            most_usd = None if row.dearest_usd is None else n_requests * row.dearest_usd
        scope = scope_of(row)
        unbilled.append(
            UnbilledBatch(
                judge_model=row.judge_model,
                channel=row.channel,
                begun_at=read_time(row.begun_at),
                n_requests=n_requests,
                is_lost=row.state not in schema.OPEN,
                most_usd=most_usd if row.n_priced == row.n_unbilled else None,
                holder=scope.holder,
                is_at_work=scope in at_work,
            )
        )
    unbilled += _read_recovering(connection, is_wanted)
    return unbilled + _read_without_bill(connection, is_wanted, moment)


def _read_recovering(
    connection: sa.Connection, is_wanted: sa.ColumnElement[bool]
) -> list[UnbilledBatch]:
    """Read the unread rest of batches that are partly recovered; its requests are unknown."""
    batches = schema.batches
    counts = [
        sa.select(sa.func.count())
        .select_from(table)
        .where(table.c.nonce == batches.c.nonce)
        .scalar_subquery()
        for table in (schema.replies, schema.paid_twice)
    ]
    n_left = batches.c.n_requests - counts[0] - counts[1]
    query = (
        sa.select(batches, n_left.label("n_left"))
        .where(is_wanted, batches.c.state == "recovering", n_left > 0)
        .order_by(batches.c.begun_at, batches.c.nonce)
    )
    return [
        UnbilledBatch(
            judge_model=row.judge_model,
            channel=row.channel,
            begun_at=read_time(row.begun_at),
            n_requests=row.n_left,
            is_lost=True,
        )
        for row in connection.execute(query)
    ]


def _read_without_bill(
    connection: sa.Connection, is_wanted: sa.ColumnElement[bool], moment: datetime | None
) -> list[UnbilledBatch]:
    """Read what may have been billed unseen, request by request: lost, or without a usage."""
    batches, requests = schema.batches, schema.batch_requests
    failures, replies, twice = schema.failures, schema.replies, schema.paid_twice
    # A final error has no usage either, and is never billed.
    is_unknown = sa.and_(replies.c.output_tokens.is_(None), replies.c.result_type == "succeeded")
    sources: list[tuple[sa.Table, sa.Column[str], sa.ColumnElement[bool]]] = [
        (failures, failures.c.failed_at, failures.c.may_be_billed.is_(True)),
        (replies, replies.c.received_at, is_unknown),
        (twice, twice.c.received_at, twice.c.output_tokens.is_(None)),
    ]
    unbilled: list[UnbilledBatch] = []
    for table, written_at, is_without_bill in sources:
        query = (
            sa.select(
                batches.c.judge_model,
                batches.c.channel,
                table.c.nonce,
                sa.func.max(written_at).label("written_at"),
                sa.func.count().label("n_requests"),
                sa.func.count(requests.c.most_usd).label("n_priced"),
                sa.func.sum(requests.c.most_usd).label("most_usd"),
            )
            .join(batches, batches.c.nonce == table.c.nonce)
            # The highest cost of what a lost ledger sent is not recorded.
            .outerjoin(
                requests,
                sa.and_(
                    requests.c.nonce == table.c.nonce,
                    requests.c.request_key == table.c.request_key,
                ),
            )
            .where(is_wanted, is_without_bill)
            .group_by(batches.c.judge_model, batches.c.channel, table.c.nonce)
            .order_by(table.c.nonce)
        )
        if moment is not None:
            query = query.where(written_at >= time_text(moment))
        unbilled += [
            UnbilledBatch(
                judge_model=row.judge_model,
                channel=row.channel,
                begun_at=read_time(row.written_at),
                n_requests=row.n_requests,
                is_lost=True,
                most_usd=row.most_usd if row.n_priced == row.n_requests else None,
            )
            for row in connection.execute(query)
        ]
    return unbilled


def _is_positive(column: sa.Column[int]) -> sa.Case[int]:
    return sa.case((column > 0, 1), else_=0)


@dataclass(frozen=True, slots=True)
class Waste:
    """What a mode of a tournament has wasted so far.

    Attributes:
        replies_paid_twice: Replies to requests that another batch had answered.
        requests_never_confirmed: Requests sent again because their batch was never found; if the
            service had accepted it anyway, they were paid for twice.
        requests_lost: Requests without a result, of batches written off because the service no
            longer kept the results or did not deliver them.
        requests_unparsable: Requests whose line of the results was not JSON; if the model had
            answered, they were paid for in vain.
    """

    replies_paid_twice: int
    usage: TokenUsage
    requests_never_confirmed: int
    requests_lost: int
    requests_unparsable: int


class WasteRecords(LedgerDatabase):
    """The part of the ledger that counts waste."""

    def waste_of(self, tournament_id: str, mode: str) -> Waste:
        """Add up what a mode of a tournament has wasted so far."""
        is_of_mode = (
            schema.batches.c.tournament_id == tournament_id,
            schema.batches.c.mode == mode,
        )
        twice = schema.paid_twice
        tokens = (
            sa.select(
                sa.func.count().label("n_replies"),
                *(sa.func.sum(twice.c[name]).label(name) for name in TOKEN_NAMES),
            )
            .join(schema.batches, schema.batches.c.nonce == twice.c.nonce)
            .where(*is_of_mode)
        )
        sent = schema.batch_requests
        requests = (
            sa.select(schema.batches.c.state, sa.func.count())
            .join(sent, sent.c.nonce == schema.batches.c.nonce)
            .where(*is_of_mode, schema.batches.c.state.in_(("abandoned", "lost")))
            .where(*_IS_MISSING)
            .group_by(schema.batches.c.state)
        )
        failures = schema.failures
        unparsable = (
            sa.select(sa.func.count())
            .select_from(failures)
            .join(schema.batches, schema.batches.c.nonce == failures.c.nonce)
            .where(*is_of_mode, failures.c.result_type == UNPARSABLE)
        )
        with self._transaction() as connection:
            row = connection.execute(tokens).one()
            n_unparsable = connection.execute(unparsable).scalar_one()
            by_state: dict[str, int] = {
                each.state: each[1] for each in connection.execute(requests)
            }
        values = row._mapping
        return Waste(
            replies_paid_twice=row.n_replies,
            usage=TokenUsage(**{name: int(values[name] or 0) for name in TOKEN_NAMES}),
            requests_never_confirmed=by_state.get("abandoned", 0),
            requests_lost=by_state.get("lost", 0),
            requests_unparsable=n_unparsable,
        )
