"""What a mode's runs have stored, for commands that only read."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pandas as pd

from tournament_assets.adapters.dagster_home import prepare_dagster_home
from tournament_assets.adapters.table_schemas import SCHEMAS
from tournament_assets.adapters.tables import StoredTable
from tournament_assets.assets.partitions import asset_key
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.assets.provenance import rerun_command
from tournament_assets.definitions import build_definitions
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.errors import Problems


class StoredTables:
    """The stored tables of one mode of a tournament."""

    def __init__(self, plan: TournamentPlan, mode: Mode, *, environment: Mapping[str, str]) -> None:
        """Prepare to read; nothing is read yet.

        Args:
            plan: The tournament.
            mode: `pilot` or `headline`.
            environment: The environment variables.
        """
        self._plan, self._mode = plan, mode
        self._definitions = build_definitions([plan], plan.project.folder, environment)
        self._home = prepare_dagster_home(plan.project.folder, environment.get("DAGSTER_HOME"))
        self._problems = Problems()

    def of_mode(self, name: str) -> pd.DataFrame:
        """Return a table that has one partition a mode; see `raise_if_missing`."""
        return self._load(name, self._mode, label="")

    def by(self, axis: str, name: str, values: Sequence[str]) -> dict[str, pd.DataFrame]:
        """Return a table by dimension or entrant; see `raise_if_missing`.

        Args:
            axis: `dimension` or `entrant`.
            name: The table.
            values: Which of them.
        """
        return {
            value: self._load(
                name, dg.MultiPartitionKey({"mode": self._mode, axis: value}), label=f" of {value}"
            )
            for value in values
        }

    def raise_if_missing(self) -> None:
        """Refuse to go on with what was read if anything of it was not there.

        Raises:
            InputError: With every table that is missing.
        """
        self._problems.raise_if_any()

    def page(self) -> str:
        """Return where the newest run's page is, or why there is none."""
        command = rerun_command(self._plan, self._mode)
        with dg.DagsterInstance.from_config(str(self._home)) as instance:
            found = instance.fetch_materializations(
                dg.AssetRecordsFilter(
                    asset_key(self._plan, "run_artifacts"), asset_partitions=[self._mode]
                ),
                limit=1,
            ).records
        event = found[0].asset_materialization if found else None
        if event is None:
            return f"no run has finished; {command} makes one"
        path = Path(str(event.metadata["report"].value))
        return str(path) if path.exists() else f"{path} is gone; {command} makes another"

    def _load(self, name: str, partition: str, *, label: str) -> pd.DataFrame:
        try:
            with _quiet():
                loaded = self._definitions.load_asset_value(
                    asset_key(self._plan, name), partition_key=partition
                )
        except FileNotFoundError:
            self._problems.add(
                f"nothing is stored of {name}{label}, mode {self._mode!r}; run "
                f"{rerun_command(self._plan, self._mode)} first"
            )
        except ValueError as error:
            self._problems.add(f"{name}{label}: {error}")
        else:
            if isinstance(loaded, StoredTable):
                return loaded.frame()
            if isinstance(loaded, pd.DataFrame):
                return loaded
        return pd.DataFrame(columns=SCHEMAS[name].names)


@contextmanager
def _quiet() -> Iterator[None]:
    # Dagster tells every file that it reads, on stderr, and has no setting for it outside a run.
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)
