"""What was paid for, or may have been, without anybody having the use of it."""

from dataclasses import dataclass, fields

import sqlalchemy as sa

from tournament_assets.adapters.ledger import schema
from tournament_assets.adapters.ledger.database import LedgerDatabase
from tournament_assets.judging.service import UNPARSABLE, TokenUsage

_TOKEN_NAMES = tuple(field.name for field in fields(TokenUsage))


@dataclass(frozen=True, slots=True)
class Waste:
    """What a mode of a tournament has wasted so far.

    Attributes:
        replies_paid_twice: Replies to requests that another batch had answered.
        usage: Their tokens.
        requests_never_confirmed: Requests sent again because their batch was never found; if the
            service had accepted it nevertheless, they were paid for twice.
        requests_lost: Requests without a result of batches that were written off because the
            service no longer kept the results, or did not hand them out.
        requests_unparsable: Requests whose line of the results was not JSON; if the model had
            answered, they were paid for without use.
    """

    replies_paid_twice: int
    usage: TokenUsage
    requests_never_confirmed: int
    requests_lost: int
    requests_unparsable: int


class WasteRecords(LedgerDatabase):
    """The part of the ledger that counts what was of no use."""

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
                *(sa.func.sum(twice.c[name]).label(name) for name in _TOKEN_NAMES),
            )
            .join(schema.batches, schema.batches.c.nonce == twice.c.nonce)
            .where(*is_of_mode)
        )
        sent = schema.batch_requests
        came_back = [
            sa.exists().where(
                kept.c.request_key == sent.c.request_key, kept.c.nonce == sent.c.nonce
            )
            for kept in (schema.replies, schema.paid_twice, schema.failures)
        ]
        requests = (
            sa.select(schema.batches.c.state, sa.func.count())
            .join(sent, sent.c.nonce == schema.batches.c.nonce)
            .where(*is_of_mode, schema.batches.c.state.in_(("abandoned", "lost")))
            .where(*(~each for each in came_back))
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
            by_state: dict[str, int] = dict(connection.execute(requests).tuples().all())
        values = row._mapping
        return Waste(
            replies_paid_twice=row.n_replies,
            usage=TokenUsage(**{name: int(values[name] or 0) for name in _TOKEN_NAMES}),
            requests_never_confirmed=by_state.get("abandoned", 0),
            requests_lost=by_state.get("lost", 0),
            requests_unparsable=n_unparsable,
        )
