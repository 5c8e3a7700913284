"""Making a ledger's tables, and bringing those of an earlier version up to date."""

import sqlalchemy as sa

from tournament_assets.adapters.ledger import schema

_FIRST_VERSION = "judge_replies_of_version_1"
_ADVISORY_LOCK = 0x6C6564676572  # any number that others in the same database do not use


def prepare_tables(connection: sa.Connection) -> None:
    """Make the tables that are not there; nothing that is kept is lost."""
    if _is_prepared(connection):
        return
    _wait_for_other_runs(connection)
    _set_first_version_aside(connection)
    for table in schema.metadata.sorted_tables:
        connection.execute(sa.schema.CreateTable(table, if_not_exists=True))
        _add_missing_columns(connection, table)
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            connection.execute(sa.schema.CreateIndex(index, if_not_exists=True))
    _copy_first_version(connection)


def _is_prepared(connection: sa.Connection) -> bool:
    # Asked without a lock, so that a ledger can be read where it cannot be written.
    return _FIRST_VERSION not in sa.inspect(connection).get_table_names() and all(
        _columns(connection, table.name) >= set(table.columns.keys())
        for table in schema.metadata.sorted_tables
    )


def _wait_for_other_runs(connection: sa.Connection) -> None:
    # What follows looks first and changes later: two runs would both change.
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))


def _columns(connection: sa.Connection, table: str) -> set[str]:
    inspector = sa.inspect(connection)
    if not inspector.has_table(table):
        return set()
    return {column["name"] for column in inspector.get_columns(table)}


def _set_first_version_aside(connection: sa.Connection) -> None:
    # The first version kept one reply a request; its primary key cannot be changed in place.
    columns = _columns(connection, schema.replies.name)
    if columns and "asking" not in columns:
        connection.execute(sa.text(f"ALTER TABLE {schema.replies.name} RENAME TO {_FIRST_VERSION}"))


def _copy_first_version(connection: sa.Connection) -> None:
    columns = _columns(connection, _FIRST_VERSION)
    if not columns:
        return
    old = sa.table(_FIRST_VERSION, *(sa.column(name) for name in sorted(columns)))
    names = sorted(columns & set(schema.replies.columns.keys()))
    # The old table may stand beside a new one that holds some of it, or newer replies.
    is_copied = sa.exists().where(
        schema.replies.c.request_key == old.c.request_key, schema.replies.c.asking == 1
    )
    missing = sa.select(*(old.c[name] for name in names)).where(~is_copied)
    connection.execute(sa.insert(schema.replies).from_select(names, missing))
    connection.execute(sa.text(f"DROP TABLE {_FIRST_VERSION}"))


def _add_missing_columns(connection: sa.Connection, table: sa.Table) -> None:
    present = _columns(connection, table.name)
    for column in table.columns:
        if column.name not in present:
            specification = sa.schema.CreateColumn(column).compile(dialect=connection.dialect)
            connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN {specification}"))
