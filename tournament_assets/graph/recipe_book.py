"""The recorded and current recipes of a tournament's partitions.

Every materialisation carries its recipe (`graph/recipes.py`) as the metadata `made_from`, and as a
tag what it was made with: the program, the run's options, and for documents also the whole config,
the prices and the versions that they name. The recipe decides what is out of date; a requested run
must match the tag as well.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any, cast

import dagster as dg

from tournament_assets.foundation.errors import TournamentError
from tournament_assets.foundation.fingerprints import fingerprint, program_fingerprint, short
from tournament_assets.foundation.formatting import format_plural, format_usd
from tournament_assets.graph.assets.observed_inputs import (
    InputVersion,
    entrants,
    read_inputs,
    rubrics,
)
from tournament_assets.graph.assets.publishing import report
from tournament_assets.graph.outputs import Check
from tournament_assets.graph.partitions import asset_key, newest_record
from tournament_assets.graph.recipes import (
    Place,
    Recipe,
    differences,
    find_out_of_date,
    join_partition,
    places_read,
    recipe_of,
)
from tournament_assets.graph.rows import AssetRow, axis_names
from tournament_assets.graph.run_options import OF_ONE_RUN
from tournament_assets.graph.table import rows_of, settings_versions
from tournament_assets.judging.costs.estimates import sum_known
from tournament_assets.preparing.estimates import estimate_tournament
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.judges import Rubric

MADE_FROM = "made_from"
"""The metadata that holds a recipe."""
MADE_WITH_TAG = "tournament/made_with"
DATA_VERSION_TAG = "dagster/data_version"
ROOT = report.__name__
"""What everything else is made for; its check says what of that is out of date."""
UP_TO_DATE = "up_to_date"


@dataclass(frozen=True)
class RecipeBook:
    """The recipes of one tournament, as they are when they are first read.

    Attributes:
        plan: The tournament.
        instance: Where materialisations are recorded.
        told: The rubrics passed to a run, to use instead of those in the files.
        known: The current inputs; read on demand unless given.
    """

    plan: TournamentPlan
    instance: dg.DagsterInstance
    told: Mapping[str, Rubric] = field(default_factory=dict)
    known: Sequence[InputVersion] | None = None
    _versions: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _stored: dict[Place, str | None] = field(default_factory=dict)
    _newest: dict[Place, dg.EventLogRecord | None] = field(default_factory=dict)

    def note(self, place: Place, version: str) -> None:
        """Take note of what was made since, and of its content hash."""
        self._newest.pop(place, None)
        self._latest.pop(place.asset, None)
        self._stored[place] = short(version)

    @cached_property
    def rows(self) -> Mapping[str, AssetRow]:
        """The rows that the tournament has."""
        return rows_of(self.plan)

    @cached_property
    def inputs(self) -> Sequence[InputVersion]:
        """Every input as it is now."""
        return read_inputs(self.plan) if self.known is None else self.known

    @cached_property
    def edited(self) -> str:
        """A hash of everything that people edit, 12 hex characters."""
        versions = [[each.asset, each.partition, each.version] for each in self.inputs]
        return short(fingerprint([versions, settings_versions(self.plan)]))

    def version(self, place: Place) -> str | None:
        """Return the version of an input as it is now, or of what is stored last; None without."""
        row = self.rows.get(place.asset)
        if row is None or row.stored_as == "file":
            if place.asset not in self._versions:
                self._versions[place.asset] = self._versions_of(place.asset)
            return self._versions[place.asset].get(place.partition)
        if place not in self._stored:
            record = self.newest(place)
            made = record and record.asset_materialization
            self._stored[place] = short((made.tags or {})[DATA_VERSION_TAG]) if made else None
        return self._stored[place]

    def _versions_of(self, asset: str) -> Mapping[str, str]:
        if asset not in self.rows:
            found = _foreign_version(dg.AssetKey.from_user_string(asset), self.instance)
            return {} if found is None else {"": found}
        if asset == rubrics.__name__ and self.told:
            return {
                name: str(InputVersion(name, each.content_hash, f"v{each.version}"))
                for name, each in self.told.items()
            }
        inputs = read_inputs(self.plan, asset) if self.known is None else self.known
        return {
            each.partition or "": str(each)
            for each in inputs
            if each.asset == asset and each.version is not None
        }

    def recipe(self, place: Place) -> Recipe:
        """Return what a partition would be made from now."""
        settings = self.rows[place.asset].settings
        return recipe_of(
            None if settings is None else settings(self.plan),
            {each: self.version(each) for each in places_read(self.plan, self.rows, place)},
        )

    def newest(self, place: Place) -> dg.EventLogRecord | None:
        """Return the newest materialisation of a partition; None if it was never made."""
        if place not in self._newest:
            latest = self._latest.get(place.asset)
            made = latest and latest.asset_materialization
            if made is None or str(made.partition or "") != place.partition:
                latest = newest_record(self.instance.fetch_materializations, self.plan, place)
            self._newest[place] = latest
        return self._newest[place]

    @cached_property
    def _latest(self) -> dict[str, dg.EventLogRecord]:
        """The newest materialisation of every asset, whichever its partition, by one query."""
        made = [name for name, row in self.rows.items() if row.stored_as != "file"]
        records = self.instance.get_asset_records([asset_key(self.plan, name) for name in made])
        return {
            record.asset_entry.asset_key.path[-1]: latest
            for record in records
            if (latest := record.asset_entry.last_materialization_record) is not None
        }

    def kept(
        self,
        place: Place,
        *,
        distrusts: Callable[[str, dg.EventLogRecord], bool] = lambda _name, _record: False,
    ) -> Recipe | None:
        """Return what a partition was made from last; None if it was never made.

        Args:
            distrusts: Whether what is recorded of an asset is to count as never made.
        """
        record = self.newest(place)
        made = record and record.asset_materialization
        if record is None or made is None or distrusts(place.asset, record):
            return None
        recorded = made.metadata.get(MADE_FROM)
        return {} if recorded is None else cast("Recipe", recorded.value)

    def out_of_date(
        self,
        places: Iterable[Place],
        *,
        distrusts: Callable[[str, dg.EventLogRecord], bool] = lambda _name, _record: False,
    ) -> list[Place]:
        """Return which of some partitions are out of date: see `recipes.find_out_of_date`."""
        return find_out_of_date(
            places,
            reads=partial(places_read, self.plan, self.rows),
            recipe=self.recipe,
            kept=partial(self.kept, distrusts=distrusts),
        )

    def places_of(self, mode: Mode) -> list[Place]:
        """Return every place that a run of a mode makes, each after its inputs."""
        return [
            Place(name, join_partition(dict(zip(row.axes, values, strict=True))))
            for name, row in self.rows.items()
            if row.stored_as != "file" and not row.on_request
            for values in product(
                *(
                    (mode,) if axis == "mode" else axis_names(self.plan.config, axis)
                    for axis in row.axes
                )
            )
        ]


def _foreign_version(key: dg.AssetKey, instance: dg.DagsterInstance) -> str | None:
    """Return the version of the surrounding project's asset; the event itself if it names none."""
    for fetch in (instance.fetch_materializations, instance.fetch_observations):
        for record in fetch(key, limit=1).records:
            event = record.asset_materialization or record.asset_observation
            return ((event and event.tags) or {}).get(DATA_VERSION_TAG) or str(record.storage_id)
    return None


def up_to_date(book: RecipeBook, modes: Sequence[Mode] = ()) -> Check:
    """Describe in one line what is out of date in the modes that have run, why, and what to do.

    Entrants whose files are not on this machine are skipped: another machine may have them.

    Args:
        modes: Those to look at; all unless given.
    """
    causes: dict[str, list[str]] = {}
    reruns: dict[str, None] = {}
    for mode in modes or book.plan.config.mode_names:
        if book.kept(Place(ROOT, mode)) is None:
            continue
        places = book.places_of(mode)
        for place in book.out_of_date(places[: places.index(Place(ROOT, mode)) + 1]):
            for cause in _causes(book, place):
                causes.setdefault(cause, []).append(str(place))
                reruns[mode] = None
    said = [f"{cause}: {', '.join(places)}" for cause, places in causes.items()]
    return Check(
        UP_TO_DATE,
        passed=not said,
        description="; ".join([*said, *(_rerun_sentence(book.plan, mode) for mode in reruns)])
        or "Up to date.",
        metadata={"out_of_date": sum(map(len, causes.values()))},
        is_error=True,
    )


def _rerun_sentence(plan: TournamentPlan, mode: Mode) -> str:
    """Say what the job asks and costs that reruns what is out of date in a mode."""
    job = f"{plan.job('rerun')} ({mode})"
    try:
        price = estimate_tournament(plan, mode)
    except TournamentError as error:
        return f"{job} cannot be priced: {error}"
    judging = price if price.rounds is None else price.rounds.now
    n = judging.to_ask + sum(each.workload.to_ask for each in price.responses)
    usd = sum_known([judging.planned_usd, *(each.planned_usd for each in price.responses)])
    cost = "at an unknown price" if usd is None else format_usd(usd)
    return f"{job} asks {format_plural(n, 'request')} again, {cost}"


def _causes(book: RecipeBook, place: Place) -> list[str]:
    kept = book.kept(place)
    if kept is None:
        return ["it was never made"]
    return [
        str(each)
        for each in differences(kept, book.recipe(place))
        if not (each.asset == entrants.__name__ and each.now is None)
    ]


def made_with(plan: TournamentPlan, row: AssetRow, options: Mapping[str, Any]) -> str:
    """Return a fingerprint of what an asset is made with, not from, 40 hex characters.

    Args:
        options: The options of the run that differ from their defaults.
    """
    chosen = {
        name: options.get(name, default)
        for name, default in row.options.items()
        if name not in OF_ONE_RUN
    }
    names = [] if row.names is None else row.names(plan)
    # A tag of Dagster holds 63 characters.
    return fingerprint([program_fingerprint(), chosen, names])[:40]
