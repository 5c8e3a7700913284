"""Kept responses: one for every entrant's fingerprint and prompt's fingerprint."""

import json
from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from tournament_assets.adapters.ledger import schema
from tournament_assets.adapters.ledger.database import LedgerDatabase, chunks, time_text
from tournament_assets.tournament.responses import GeneratedResponse


class ResponseRecords(LedgerDatabase):
    """The part of the ledger that holds what entrants answered."""

    def responses(
        self, entrant_fingerprint: str, prompt_fingerprints: Iterable[str]
    ) -> dict[str, GeneratedResponse]:
        """Return an entrant's kept responses, by prompt fingerprint."""
        found: dict[str, GeneratedResponse] = {}
        with self._transaction() as connection:
            for chunk in chunks(prompt_fingerprints):
                query = sa.select(schema.responses).where(
                    schema.responses.c.entrant_fingerprint == entrant_fingerprint,
                    schema.responses.c.prompt_fingerprint.in_(chunk),
                )
                for row in connection.execute(query):
                    found[row.prompt_fingerprint] = GeneratedResponse(
                        prompt_id=row.prompt_id,
                        text=row.text,
                        finish_reason=row.finish_reason,
                        prompt_tokens=row.prompt_tokens,
                        response_tokens=row.response_tokens,
                        diagnostics=json.loads(row.diagnostics),
                    )
        return found

    def keep_responses(
        self, entrant_fingerprint: str, responses: Sequence[tuple[str, GeneratedResponse]]
    ) -> int:
        """Keep an entrant's responses, each with its prompt's fingerprint; the first one stays.

        Returns:
            How many of them are new.
        """
        now = time_text()
        rows = [
            {
                "entrant_fingerprint": entrant_fingerprint,
                "prompt_fingerprint": prompt_fingerprint,
                "prompt_id": response.prompt_id,
                "text": response.text,
                "finish_reason": response.finish_reason,
                "prompt_tokens": response.prompt_tokens,
                "response_tokens": response.response_tokens,
                "diagnostics": json.dumps(dict(response.diagnostics), sort_keys=True),
                "created_at": now,
            }
            for prompt_fingerprint, response in responses
        ]
        with self._transaction() as connection:
            return self._insert_new(connection, schema.responses, rows)
