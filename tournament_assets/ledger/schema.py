"""The ledger's tables.

Times are ISO 8601 texts in UTC with microseconds, which SQLite and PostgreSQL store alike and
which sort as the times do.
"""

import sqlalchemy as sa

from tournament_assets.judging.batch_service import TOKEN_NAMES

metadata = sa.MetaData()
RATES = {f"usd_per_million_{name}": name for name in TOKEN_NAMES}
"""The kinds of tokens, by the column with their price when a batch was sent."""
SCOPE = ("tournament_id", "mode", "dimension", "purpose")
"""The columns that say whose work a row is."""
OPEN = ("intent", "created")
"""The states of a batch that was begun and not closed."""

responses = sa.Table(
    "responses",
    metadata,
    sa.Column("entrant_fingerprint", sa.String(64), primary_key=True),
    sa.Column("prompt_fingerprint", sa.String(64), primary_key=True),
    sa.Column("prompt_id", sa.Text, nullable=False),
    sa.Column("sample", sa.Integer, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("finish_reason", sa.Text, nullable=False),
    sa.Column("prompt_tokens", sa.Integer),
    sa.Column("response_tokens", sa.Integer),
    sa.Column("diagnostics", sa.Text, nullable=False),
    # what the model wrote, as it came, where that is not the text alone
    sa.Column("completion", sa.Text),
    sa.Column("created_at", sa.Text, nullable=False),
)
leases = sa.Table(
    "judge_leases",
    metadata,
    *(sa.Column(name, sa.Text, primary_key=True) for name in SCOPE),
    sa.Column("token", sa.String(32), nullable=False),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Text, nullable=False),
)
batches = sa.Table(
    "judge_batches",
    metadata,
    sa.Column("nonce", sa.String(32), primary_key=True),
    *(sa.Column(name, sa.Text, nullable=False) for name in SCOPE),
    sa.Column("judge_model", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("channel", sa.Text, nullable=False),
    sa.Column("batch_id", sa.Text, index=True),
    # intent, created, then harvested, refused (never accepted), abandoned (never found) or lost;
    # recovering, then harvested, if it was found again after the ledger had forgotten it
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("n_requests", sa.Integer, nullable=False),
    # of those asked one by one, how many at a time
    sa.Column("at_once", sa.Integer),
    # how hard the model was let think, if that was said
    sa.Column("effort", sa.Text),
    # what a million tokens of each kind cost, if the price was known
    *(sa.Column(name, sa.Float) for name in RATES),
    sa.Column("begun_at", sa.Text, nullable=False),
    sa.Column("closed_at", sa.Text),
    sa.Index("judge_batches_by_scope", "tournament_id", "mode", "dimension", "state"),
)
batch_requests = sa.Table(
    "judge_batch_requests",
    metadata,
    sa.Column("nonce", sa.String(32), primary_key=True),
    sa.Column("request_key", sa.String(64), primary_key=True),
    sa.Column("most_usd", sa.Float),  # the most it may cost, if its price was known
)
replies = sa.Table(
    "judge_replies",
    metadata,
    sa.Column("request_key", sa.String(64), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("nonce", sa.String(32), nullable=False),
    sa.Column("channel", sa.Text, nullable=False),
    sa.Column("result_type", sa.Text, nullable=False),
    sa.Column("stop_reason", sa.Text),
    sa.Column("text", sa.Text),
    sa.Column("error_type", sa.Text),
    sa.Column("error_message", sa.Text),
    sa.Column("model", sa.Text),
    *(sa.Column(name, sa.Integer) for name in TOKEN_NAMES),
    sa.Column("raw", sa.Text, nullable=False),
    sa.Column("received_at", sa.Text, nullable=False),
    sa.Index("judge_replies_by_time", "received_at"),
)
# Replies to requests that another batch had answered: paid for, and of no use.
paid_twice = sa.Table(
    "judge_paid_twice",
    metadata,
    sa.Column("request_key", sa.String(64), primary_key=True),
    sa.Column("nonce", sa.String(32), primary_key=True),
    sa.Column("channel", sa.Text, nullable=False),
    *(sa.Column(name, sa.Integer) for name in TOKEN_NAMES),
    sa.Column("received_at", sa.Text, nullable=False),
)
failures = sa.Table(
    "judge_failures",
    metadata,
    sa.Column("failure_id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("request_key", sa.String(64), nullable=False, index=True),
    sa.Column("nonce", sa.String(32), nullable=False),
    sa.Column("result_type", sa.Text, nullable=False),
    sa.Column("error_type", sa.Text),
    sa.Column("error_message", sa.Text),
    sa.Column("failed_at", sa.Text, nullable=False),
    # whether the request may have been billed nevertheless: its reply was lost or not understood
    sa.Column("may_be_billed", sa.Boolean, nullable=False),
)
