"""A ledger as the first version made it: one reply a request, every request in a batch."""

import os
import signal

from tournament_assets.ledger import Ledger

from .builders import change, just_before

ASIDE = "judge_replies_of_version_1"
REPLIES_TABLE = """
CREATE TABLE judge_replies (
    request_key VARCHAR(64) NOT NULL,
    nonce VARCHAR(32) NOT NULL,
    result_type TEXT NOT NULL,
    stop_reason TEXT,
    text TEXT,
    error_type TEXT,
    error_message TEXT,
    model TEXT,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cache_creation_input_tokens INTEGER,
    cache_read_input_tokens INTEGER,
    raw TEXT NOT NULL,
    received_at TEXT NOT NULL,
    PRIMARY KEY (request_key)
)"""
TABLES = (
    """
CREATE TABLE judge_batch_requests (
    nonce VARCHAR(32) NOT NULL,
    request_key VARCHAR(64) NOT NULL,
    PRIMARY KEY (nonce, request_key)
)""",
    """
CREATE TABLE judge_batches (
    nonce VARCHAR(32) NOT NULL,
    tournament_id TEXT NOT NULL,
    mode TEXT NOT NULL,
    dimension TEXT NOT NULL,
    judge_model TEXT NOT NULL,
    batch_id TEXT,
    state TEXT NOT NULL,
    n_requests INTEGER NOT NULL,
    begun_at TEXT NOT NULL,
    closed_at TEXT,
    PRIMARY KEY (nonce)
)""",
    "CREATE INDEX judge_batches_by_scope ON judge_batches (tournament_id, mode, dimension, state)",
    """
CREATE TABLE judge_failures (
    failure_id {serial} NOT NULL,
    request_key VARCHAR(64) NOT NULL,
    nonce VARCHAR(32) NOT NULL,
    result_type TEXT NOT NULL,
    error_type TEXT,
    error_message TEXT,
    failed_at TEXT NOT NULL,
    PRIMARY KEY (failure_id)
)""",
    "CREATE INDEX ix_judge_failures_request_key ON judge_failures (request_key)",
    REPLIES_TABLE,
    """
CREATE TABLE responses (
    entrant_fingerprint VARCHAR(64) NOT NULL,
    prompt_fingerprint VARCHAR(64) NOT NULL,
    prompt_id TEXT NOT NULL,
    text TEXT NOT NULL,
    finish_reason TEXT NOT NULL,
    prompt_tokens INTEGER,
    response_tokens INTEGER,
    diagnostics TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (entrant_fingerprint, prompt_fingerprint)
)""",
)
REPLIES = (
    "INSERT INTO judge_replies VALUES ('k1', 'n1', 'succeeded', 'end_turn', 'Ja – 😀 VERDICT: A',"
    " NULL, NULL, 'judge-1', 700, 40, 0, 2200, '{\"raw\"\\:1}', '2026-03-01T12:00:01+00:00')",
    "INSERT INTO judge_replies VALUES ('k2', 'n1', 'errored', NULL, NULL,"
    " 'invalid_request_error', 'no', NULL, NULL, NULL, NULL, NULL, '{}',"
    " '2026-03-01T12:00:01+00:00')",
)
ROWS = (
    "INSERT INTO judge_batches VALUES ('n1', 'tiny', 'pilot', 'factuality', 'judge-1', 'batch-1',"
    " 'harvested', 2, '2026-03-01T12:00:00+00:00', '2026-03-01T12:00:02+00:00')",
    "INSERT INTO judge_batches VALUES ('n2', 'tiny', 'pilot', 'factuality', 'judge-1', 'batch-2',"
    " 'created', 1, '2026-03-01T12:00:03+00:00', NULL)",
    "INSERT INTO judge_batch_requests VALUES ('n1', 'k1'), ('n1', 'k2'), ('n2', 'k3')",
    "INSERT INTO judge_failures (request_key, nonce, result_type, error_type, failed_at)"
    " VALUES ('k3', 'n0', 'errored', 'overloaded_error', '2026-03-01T11:00:00+00:00')",
    "INSERT INTO responses VALUES ('entrant', 'f1', 'p1', 'It is C.', 'stop', 7, 3,"
    " '{\"a\"\\: 0.5}', '2026-03-01T10:00:00+00:00')",
    *REPLIES,
)


def make_first_version(url: str) -> None:
    """Make a ledger with a batch that was read, one that is open, and what belongs to them."""
    serial = "SERIAL" if url.startswith("postgresql") else "INTEGER"
    change(url, *(table.format(serial=serial) for table in TABLES), *ROWS)


def open_and_be_killed(url: str, statement: str) -> None:
    """Open a ledger in this process, which is killed right before a statement."""
    with just_before(statement, lambda: os.kill(os.getpid(), signal.SIGKILL)):
        Ledger(url)
