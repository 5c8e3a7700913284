"""What all tables of the graph have in common: schema, storage, content hash and metadata.

Dagster decides by data versions what is out of date downstream. With a hash of the contents, a
rerun that changes nothing leaves everything downstream fresh.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import dagster as dg
import pandas as pd

from tournament_assets.graph.partitions import asset_key
from tournament_assets.reports.report_tables import ReportTable, table_markdown
from tournament_assets.storage.table_schemas import SCHEMAS
from tournament_assets.storage.tables import AnyRow, WrittenTable, content_version, make_table
from tournament_assets.tournament.fingerprints import short
from tournament_assets.workflows.plan import TournamentPlan, settings_version

if TYPE_CHECKING:
    Table = dg.MaterializeResult[pd.DataFrame | WrittenTable]
else:
    # Beside an asset's checks Dagster accepts the bare class alone as a return annotation, and
    # then the type of what is stored has to be given as `dagster_type`.
    Table = dg.MaterializeResult

_TABLE_TYPE = dg.PythonObjectDagsterType((pd.DataFrame, WrittenTable), name="Table")
_PARQUET = frozenset({"parquet"})
_SHOWN_ROWS = 8
_SHOWN_CHARACTERS = 120


def table_asset(
    plan: TournamentPlan,
    name: str,
    *,
    stage: str,
    partitions_def: dg.PartitionsDefinition[Any] | None = None,
    ins: Mapping[str, dg.AssetIn] | None = None,
    deps: Sequence[dg.AssetDep] = (),
    kinds: AbstractSet[str] = _PARQUET,
    pool: str | None = None,
    op_tags: Mapping[str, Any] | None = None,
    checks: Mapping[str, str] | None = None,
    blocking_checks: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Table]], dg.AssetsDefinition]:
    """Make an asset of a function that returns a table; what all tables share is said here once.

    Args:
        plan: The tournament.
        name: The asset's name, which also chooses the table's schema.
        stage: The asset group, without the tournament's id.
        partitions_def: Its partitions.
        ins: Its inputs, by argument name.
        deps: Assets it depends on without loading them.
        kinds: What the UI marks it with.
        pool: The concurrency pool it runs in.
        op_tags: What its step asks of the machine it runs on.
        checks: Descriptions of the checks it reports, by name.
        blocking_checks: Descriptions of those among its checks that stop what comes next: one that
            fails with the severity ERROR fails the step.
    """
    key = asset_key(plan, name)
    return dg.asset(
        key=key,
        group_name=plan.group(stage),
        partitions_def=partitions_def,
        ins=ins,
        deps=list(deps),
        kinds=set(kinds),
        pool=pool,
        code_version=settings_version(plan, name),
        op_tags=op_tags,
        io_manager_key="parquet_io_manager",
        dagster_type=_TABLE_TYPE,
        metadata=_column_schema(name),
        check_specs=[
            dg.AssetCheckSpec(check, asset=key, description=description, blocking=is_blocking)
            for named, is_blocking in ((checks, False), (blocking_checks, True))
            for check, description in (named or {}).items()
        ],
    )


def _column_schema(name: str) -> dict[str, Any]:
    return {
        "dagster/column_schema": dg.TableSchema(
            columns=[
                dg.TableColumn(
                    name=field.name,
                    type=str(field.type),
                    description=field.metadata[b"description"].decode(),
                    constraints=dg.TableColumnConstraints(nullable=field.nullable),
                )
                for field in SCHEMAS[name]
            ]
        )
    }


def table_result(
    name: str,
    rows: Sequence[AnyRow],
    *,
    metadata: Mapping[str, Any],
    checks: Iterable[dg.AssetCheckResult] = (),
) -> Table:
    """Return a table with its content hash, row count and metadata."""
    frame = make_table(name, rows)
    version = content_version(name, frame)
    return dg.MaterializeResult(
        value=frame,
        data_version=dg.DataVersion(version),
        metadata={
            **metadata,
            "dagster/row_count": len(frame),
            "content_hash": short(version),
        },
        check_results=list(checks),
    )


def written_result(
    written: WrittenTable,
    *,
    metadata: Mapping[str, Any],
    checks: Iterable[dg.AssetCheckResult] = (),
) -> Table:
    """Return a table that was written a part at a time, as `table_result` does others."""
    return dg.MaterializeResult(
        value=written,
        data_version=dg.DataVersion(written.version),
        metadata={
            **metadata,
            "dagster/row_count": written.n_rows,
            "content_hash": short(written.version),
        },
        check_results=list(checks),
    )


ShownT = TypeVar("ShownT", bound="AnyRow")


class Shown(Generic[ShownT]):
    """The first rows of a table that passes by, for the UI.

    Args:
        rows: The table's rows.
        columns: What is shown of them.
    """

    def __init__(self, rows: Iterable[ShownT], columns: Sequence[str]) -> None:
        self._rows = rows
        self._columns = columns
        self._first: list[ShownT] = []
        self._count = 0

    def __iter__(self) -> Iterator[ShownT]:
        for row in self._rows:
            self._count += 1
            if self._count <= _SHOWN_ROWS:
                self._first.append(row)
            yield row

    @property
    def markdown(self) -> dg.MarkdownMetadataValue:
        """The first of the rows that passed, and how many more there were."""
        return markdown_table(self._first, self._columns, total=self._count)


def markdown_table(
    rows: Sequence[AnyRow],
    columns: Sequence[str],
    *,
    limit: int = _SHOWN_ROWS,
    total: int | None = None,
) -> dg.MarkdownMetadataValue:
    """Show the first rows of a table where a reader of the UI sees them at once.

    Cells are escaped: a model's words can neither break the table nor bring HTML into the page.

    Args:
        rows: The rows, or the first of them.
        columns: What is shown of them.
        limit: How many are shown.
        total: How many rows there are; as many as were given by default.
    """
    shown = tuple(tuple(_cell(_value(row, name)) for name in columns) for row in rows[:limit])
    text = table_markdown(ReportTable(tuple(columns), shown, n_labels=len(columns)))
    more = (len(rows) if total is None else total) - limit
    return dg.MetadataValue.md(f"{text}\n… and {more} more rows" if more > 0 else text)


def report_table(
    table: ReportTable, *, columns: Sequence[str] | None = None
) -> dg.MarkdownMetadataValue:
    """Show a report's table, whole, or only some of its columns."""
    rows = [dict(zip(table.headers, row, strict=True)) for row in table.rows]
    return markdown_table(rows, columns or table.headers, limit=len(rows))


def _value(row: AnyRow, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) <= 1 else f"{value:.1f}"
    text = " ".join(str(value).split())
    return f"{text[: _SHOWN_CHARACTERS - 1]}…" if len(text) > _SHOWN_CHARACTERS else text
