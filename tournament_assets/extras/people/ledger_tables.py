"""The tables in the ledger that hold people's votes."""

import sqlalchemy as sa

metadata = sa.MetaData()
# The pairs that people are asked about. Extending a sample adds another draw of it, stored whole,
# because the chance of every pair has changed.
label_draws = sa.Table(
    "label_draws",
    metadata,
    sa.Column("sample_id", sa.String(64), primary_key=True),
    sa.Column("draw", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("tournament_id", sa.Text, nullable=False),
    sa.Column("mode", sa.Text, nullable=False),
    sa.Column("dimension", sa.Text, nullable=False),  # empty: which response is better, in general
    sa.Column("method", sa.Text, nullable=False),
    sa.Column("seed", sa.Integer, nullable=False),
    sa.Column("frame_size", sa.Integer, nullable=False),
    sa.Column("same_text", sa.Integer, nullable=False),
    sa.Column("overlap", sa.Float, nullable=False),
    sa.Column("drawn_at", sa.Text, nullable=False),
    sa.Index("label_draws_by_scope", "tournament_id", "mode", "dimension"),
)
label_pairs = sa.Table(
    "label_pairs",
    metadata,
    sa.Column("sample_id", sa.String(64), primary_key=True),
    sa.Column("draw", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("pair_id", sa.String(64), primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("prompt_id", sa.Text, nullable=False),
    sa.Column("sample", sa.Integer, nullable=False),
    sa.Column("entrant_a", sa.Text, nullable=False),
    sa.Column("entrant_b", sa.Text, nullable=False),
    sa.Column("prompt_digest", sa.String(64), nullable=False),
    sa.Column("digest_a", sa.String(64), nullable=False),
    sa.Column("digest_b", sa.String(64), nullable=False),
    sa.Column("stratum", sa.Text, nullable=False),
    sa.Column("chance", sa.Float, nullable=False),
    sa.Column("shared", sa.Boolean, nullable=False),
)
# What nobody who labels may learn: a sample's salt, under no rater's name; and the SHA-256 of the
# key of who joined by themselves, under their name as it is compared.
label_secrets = sa.Table(
    "label_secrets",
    metadata,
    sa.Column("sample_id", sa.String(64), primary_key=True),
    sa.Column("rater", sa.String(200), primary_key=True),
    sa.Column("secret", sa.String(64), nullable=False),
)
# Every vote and every undoing of one; a rater's last on a pair counts.
label_votes = sa.Table(
    "label_votes",
    metadata,
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("vote_id", sa.String(64), nullable=False, unique=True),
    sa.Column("sample_id", sa.String(64), nullable=False),
    sa.Column("pair_id", sa.String(64), nullable=False),
    sa.Column("rater", sa.Text, nullable=False),
    sa.Column("vote", sa.Text, nullable=False),
    sa.Column("shown", sa.Text, nullable=False),
    sa.Column("rubric_hash", sa.String(64)),
    sa.Column("seconds", sa.Float),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("given_at", sa.Text, nullable=False),
    sa.Column("received_at", sa.Text, nullable=False),
    sa.Index("label_votes_by_pair", "sample_id", "pair_id"),
)

ROWS = (metadata,)
