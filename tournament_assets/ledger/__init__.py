"""The ledger: the database of paid work. Responses, judge batches and replies."""

from tournament_assets.ledger.replies import BatchRecords, ReplyRecords, ResponseRecords
from tournament_assets.ledger.spending import WasteRecords

__all__ = ["Ledger"]


class Ledger(ResponseRecords, BatchRecords, ReplyRecords, WasteRecords):
    """The database of paid work.

    It satisfies `judging.settlement.records.JudgingLedger`.

    Args:
        url: An SQLAlchemy URL of a SQLite or PostgreSQL database; a SQLite file's folder is created
            if needed.

    Raises:
        LedgerError: If the database cannot be opened, or is of another version.
    """
