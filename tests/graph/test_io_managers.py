from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pandas as pd
import pytest

from tests.reports.builders import audit_row
from tournament_assets.graph.resources import NpzIOManager, ParquetIOManager
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.storage.tables import (
    StoredTable,
    make_table,
    rows_of,
    write_table,
)
from tournament_assets.tournament.asset_rows import BattleRow, CoverageRow

BATTLE: dict[str, Any] = {"model_a": "ada", "model_b": "bob", "winner": "tie", "source": "human"}
TRACES = EloTraces(
    entrants=("ada", "bob"),
    ratings=np.array([[1408.0, 1392.0], [1390.0, 1410.0]]),
    matches_per_entrant=np.array([1, 1]),
    k_factor=16.0,
    seed=3,
    initial_rating=1400.0,
)


ROWS = [BattleRow(**BATTLE, inconsistent=False, weight=1.0)]
AUDIT_ROWS = [audit_row("ada"), audit_row("bob", pairs=90)]


@dg.asset(key=["t", "battles"], io_manager_key="parquet_io_manager")
def battles() -> Any:
    return write_table(BattleRow, ROWS)


@dg.asset(key=["t", "audit"], io_manager_key="parquet_io_manager")
def audit() -> pd.DataFrame:
    return make_table(CoverageRow, AUDIT_ROWS)


@dg.asset(key=["t", "elo_traces"], io_manager_key="npz_io_manager")
def elo_traces() -> EloTraces:
    return TRACES


def materialise(base_path: str, *assets: Any) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        list(assets),
        resources={
            "parquet_io_manager": ParquetIOManager(base_path=base_path),
            "npz_io_manager": NpzIOManager(base_path=base_path),
        },
    )


@pytest.mark.parametrize("scheme", ["local", "memory"])
def test_tables_and_traces_come_back_as_they_were(scheme: str, tmp_path: Path) -> None:
    base_path = str(tmp_path) if scheme == "local" else f"memory://{tmp_path.name}"
    seen: dict[str, Any] = {}

    @dg.asset(
        ins={
            "streamed": dg.AssetIn(key=["t", "battles"]),
            "table": dg.AssetIn(key=["t", "audit"]),
            "traces": dg.AssetIn(key=["t", "elo_traces"]),
        }
    )
    def reading(streamed: StoredTable, table: pd.DataFrame, traces: EloTraces) -> None:
        seen.update(streamed=list(rows_of(BattleRow, streamed)), table=table, traces=traces)
        assert len(streamed) == 1

    assert materialise(base_path, battles, audit, elo_traces, reading).success
    assert seen["streamed"] == ROWS
    pd.testing.assert_frame_equal(seen["table"], make_table(CoverageRow, AUDIT_ROWS))
    np.testing.assert_array_equal(seen["traces"].ratings, TRACES.ratings)
    assert seen["traces"].entrants == TRACES.entrants
    assert (seen["traces"].k_factor, seen["traces"].seed) == (16.0, 3)


def test_a_file_is_named_after_its_asset(tmp_path: Path) -> None:
    materialise(str(tmp_path), battles, elo_traces)
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.*"))
    assert files == ["t/battles.parquet", "t/elo_traces.npz"]


def test_a_table_of_another_version_is_refused_when_it_is_read(tmp_path: Path) -> None:
    materialise(str(tmp_path), battles)
    path = tmp_path / "t" / "battles.parquet"
    pd.DataFrame({"model_a": ["ada"]}).to_parquet(path)

    @dg.asset(ins={"table": dg.AssetIn(key=["t", "battles"])})
    def reading(table: StoredTable) -> None:
        raise AssertionError("the table must not be loaded")

    result = dg.materialize(
        [battles, reading],
        selection=[reading],
        resources={"parquet_io_manager": ParquetIOManager(base_path=str(tmp_path))},
        raise_on_error=False,
    )
    assert not result.success
    failure = str(next(e for e in result.all_events if e.is_step_failure).event_specific_data)
    assert "of another version" in failure
