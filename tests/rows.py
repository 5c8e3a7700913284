"""Rows of tables as plain values, which tests compare with what is written out."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from tournament_assets.graph.table import row_of
from tournament_assets.judging.requests.verdict_parsing import reconcile_swap
from tournament_assets.storage.tables import AnyTable, StoredTable, make_table, rows_of
from tournament_assets.tournament.asset_rows import JudgeReplyRow, VerdictRow
from tournament_assets.tournament.verdicts import Outcome, Verdict


def verdict_row(
    prompt_id: str = "p1",
    verdict_ab: Verdict = Verdict.A,
    verdict_ba: Verdict = Verdict.B,
    *,
    entrant_a: str = "ada",
    entrant_b: str = "bob",
    **changes: Any,
) -> VerdictRow:
    """A pair that is settled from what its two replies say, but for changes."""
    outcome = reconcile_swap(verdict_ab, verdict_ba)
    row = VerdictRow(
        prompt_id=prompt_id,
        source="recall",
        dimension="factuality",
        entrant_a=entrant_a,
        entrant_b=entrant_b,
        verdict_ab=verdict_ab,
        verdict_ba=verdict_ba,
        outcome=outcome,
        share=outcome.share,
        winner={Outcome.A_WINS: entrant_a, Outcome.B_WINS: entrant_b}.get(outcome),
        request_key_ab=f"{prompt_id} ab",
        request_key_ba=f"{prompt_id} ba",
        attempt_ab=1,
        attempt_ba=1,
        settled_by="judge-1",
    )
    return replace(row, **changes)


def judge_reply_row(
    prompt_id: str, presentation: str, text: str | None, **changes: Any
) -> JudgeReplyRow:
    """What a judge said at its first attempt on a pair of `ada` and `bob`, but for changes."""
    row = JudgeReplyRow(
        prompt_id=prompt_id,
        source="recall",
        dimension="factuality",
        entrant_a="ada",
        entrant_b="bob",
        presentation=presentation,
        request_key=f"{prompt_id} {presentation}",
        attempt=1,
        judge_model="judge-1",
        rubric_version="1",
        rubric_hash="hash",
        result_type="succeeded",
        stop_reason="end_turn",
        reply=text,
    )
    return replace(row, **changes)


def table_rows(row_type: type, table: AnyTable) -> list[dict[str, Any]]:
    """A table's rows as plain Python values."""
    rows: Iterable[Any] = rows_of(row_type, table)
    return [
        {
            column: list(value) if isinstance(value, tuple) else value
            for column, value in asdict(row).items()
        }
        for row in rows
    ]


def stored_rows(name: str, path: Path) -> list[dict[str, Any]]:
    """The rows of an asset's stored table as plain Python values."""
    row_type = row_of(name).row_type
    return table_rows(row_type, StoredTable(row_type, path))


def typed_rows(row_type: type, rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Rows of the table's class from their columns."""
    return [
        row_type(
            **{key: tuple(each) if isinstance(each, list) else each for key, each in row.items()}
        )
        for row in rows
    ]


def table_of(row_type: type, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A table from its rows' columns."""
    return make_table(row_type, typed_rows(row_type, rows))
