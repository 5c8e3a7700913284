"""What was billed, as the replies reported it, and what was sent and is not billed yet."""

from dataclasses import fields
from datetime import UTC, datetime

import sqlalchemy as sa

from tournament_assets.adapters.ledger import schema
from tournament_assets.adapters.ledger.database import LedgerDatabase, chunks, time_text
from tournament_assets.judging.budgets import UnbilledBatch
from tournament_assets.judging.pricing import Spending
from tournament_assets.judging.records import RESPONSES
from tournament_assets.judging.service import TokenUsage

_TOKEN_NAMES = tuple(field.name for field in fields(TokenUsage))
_UNBILLED = ("intent", "created", "lost")


class SpendingRecords(LedgerDatabase):
    """The part of the ledger that adds up what was billed.

    Imported replies were billed elsewhere and do not count. What entrants' own responses cost is
    told apart from what judging costs: a budget is for judging, and a judge's replies are no
    measure of a response.
    """

    def spending_since(
        self, moment: datetime | None = None, *, on_responses: bool = False
    ) -> list[Spending]:
        """Return what was billed from a moment on, or ever, by model and channel.

        Args:
            moment: When it begins to count.
            on_responses: What entrants' own responses were billed, instead of judging.
        """
        purpose = schema.batches.c.purpose
        is_wanted = purpose == RESPONSES if on_responses else purpose != RESPONSES
        found: list[Spending] = []
        with self._transaction() as connection:
            for table, is_waste in ((schema.replies, False), (schema.paid_twice, True)):
                query = (
                    sa.select(
                        schema.batches.c.judge_model,
                        schema.batches.c.channel,
                        sa.func.count(table.c.output_tokens).label("n_replies"),
                        sa.func.sum(_is_positive(table.c.cache_read_input_tokens)).label("hits"),
                        sa.func.sum(_is_positive(table.c.cache_creation_input_tokens)).label(
                            "writes"
                        ),
                        *(sa.func.sum(table.c[name]).label(name) for name in _TOKEN_NAMES),
                    )
                    .join(schema.batches, schema.batches.c.nonce == table.c.nonce)
                    .where(is_wanted)
                    .group_by(schema.batches.c.judge_model, schema.batches.c.channel)
                    .order_by(schema.batches.c.judge_model, schema.batches.c.channel)
                )
                if moment is not None:
                    query = query.where(table.c.received_at >= time_text(moment))
                for row in connection.execute(query):
                    values = row._mapping
                    found.append(
                        Spending(
                            judge_model=row.judge_model,
                            channel=row.channel,
                            n_replies=row.n_replies,
                            n_cache_hits=int(row.hits or 0),
                            n_cache_writes=int(row.writes or 0),
                            usage=TokenUsage(
                                **{name: int(values[name] or 0) for name in _TOKEN_NAMES}
                            ),
                            is_waste=is_waste,
                        )
                    )
        return found

    def unbilled_batches(self) -> list[UnbilledBatch]:
        """Return judge batches that are open or lost, without their requests that came back."""
        table = schema.batches
        query = (
            sa.select(table)
            .where(table.c.state.in_(_UNBILLED), table.c.purpose != RESPONSES)
            .order_by(table.c.begun_at)
        )
        with self._transaction() as connection:
            batches = connection.execute(query).all()
            came_back: dict[str, int] = dict.fromkeys((batch.nonce for batch in batches), 0)
            for kept in (schema.replies, schema.paid_twice, schema.failures):
                for nonces in chunks(came_back):
                    counts = (
                        sa.select(kept.c.nonce, sa.func.count(kept.c.request_key.distinct()))
                        .where(kept.c.nonce.in_(nonces))
                        .group_by(kept.c.nonce)
                    )
                    for nonce, count in connection.execute(counts):
                        came_back[nonce] += count
        return [
            UnbilledBatch(
                judge_model=batch.judge_model,
                channel=batch.channel,
                begun_at=datetime.fromisoformat(batch.begun_at).astimezone(UTC),
                n_requests=max(0, batch.n_requests - came_back[batch.nonce]),
                is_lost=batch.state == "lost",
            )
            for batch in batches
        ]


def _is_positive(column: sa.Column[int]) -> sa.Case[int]:
    return sa.case((column > 0, 1), else_=0)
