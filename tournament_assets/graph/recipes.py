"""What a partition of an asset is made from, and which partitions are out of date.

A partition's recipe is everything that determines its contents: its settings, including the version
of the reply parser, and the versions of all its inputs, observed ones too. Every materialisation
carries its recipe, and is out of date if the current recipe differs. Runs, reruns, edits and checks
all use this module, which does not depend on Dagster.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tournament_assets.foundation.fingerprints import fingerprint, short
from tournament_assets.graph.rows import AssetRow, Axis, axis_names
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import TournamentConfig

Recipe = Mapping[str, str]
"""The version of everything that determines a partition's contents, by name."""


@dataclass(frozen=True, slots=True)
class Place:
    """A partition of an asset.

    Attributes:
        asset: The asset's name; the whole key of one from the surrounding project.
        partition: As Dagster writes it, such as `factuality|pilot`; empty where it has none.
    """

    asset: str
    partition: str = ""

    def __str__(self) -> str:
        return f"{self.asset} {self.partition}".strip()


def join_partition(values: Mapping[Any, str]) -> str:
    """Return a partition as Dagster writes it: its values in the alphabetical order of the axes."""
    return "|".join(values[axis] for axis in sorted(values))


def places_read(
    plan: TournamentPlan, rows: Mapping[str, AssetRow], place: Place
) -> tuple[Place, ...]:
    """Return all that a partition of an asset is made from: the axes it shares stay the same.

    Args:
        rows: The rows that it has, by the assets' names.
    """
    row = rows[place.asset]
    values = dict(zip(sorted(row.axes), place.partition.split("|"), strict=False))
    sources = [(name, source.over) for name, source in row.inputs_among(rows).items()]
    sources += [(name, None) for name in row.after]
    places = [
        Place(name, join_partition(dict(zip(axes, names, strict=True))))
        for name, over in sources
        if name in rows
        for axes in [rows[name].axes]
        for names in product(*(_along(plan.config, axis, values, over) for axis in axes))
    ]
    return (*dict.fromkeys(places), *map(Place, row.upstream_keys(plan)))


def _along(
    config: TournamentConfig, axis: Axis, values: Mapping[Axis, str], over: Axis | None
) -> Sequence[str]:
    return (values[axis],) if axis in values and axis != over else axis_names(config, axis)


def recipe_of(settings: object, versions: Mapping[Place, str | None]) -> Recipe:
    """Return what a partition is made from.

    Args:
        settings: What decides what it holds, besides what it reads; None if nothing.
        versions: The version of everything that it reads; None for what does not exist.
    """
    read = {str(place): version for place, version in versions.items() if version is not None}
    return read if settings is None else {"settings": short(fingerprint(settings)), **read}


@dataclass(frozen=True, slots=True)
class Difference:
    """What a partition was made from and what it would be made from now; read it as a cause.

    Attributes:
        name: The settings, or the partition that is read.
        before: Its version then; None where it was not there.
        now: Its version now; None where it is not there.
    """

    name: str
    before: str | None
    now: str | None

    @property
    def asset(self) -> str:
        """The asset that is read; `settings` for those."""
        return self.name.partition(" ")[0]

    def __str__(self) -> str:
        before, now = (each or "not there" for each in (self.before, self.now))
        # People call both the same, as in `v1 (3fa2c1)` and `v1 (9bc1d0)`.
        keeps_label = " (" in before and now.partition(" (")[0] == before.partition(" (")[0]
        reminder = "; raise its version line with every edit" if keeps_label else ""
        return f"{self.name} was {before}, is {now} now{reminder}"


def differences(before: Recipe, now: Recipe) -> list[Difference]:
    """Return why a partition is out of date.

    Args:
        before: What it was made from.
        now: What it would be made from now.
    """
    return [
        Difference(name, before.get(name), now.get(name))
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]


def find_out_of_date(
    places: Iterable[Place],
    *,
    reads: Callable[[Place], Collection[Place]],
    recipe: Callable[[Place], Recipe],
    kept: Callable[[Place], Recipe | None],
) -> list[Place]:
    """Return which of some partitions have to be made, in the order in which they are made.

    Partitions that read an out-of-date one are included: whether it changes shows only once it is
    made.

    Args:
        places: The partitions, each after what it reads.
        reads: All that one is made from.
        recipe: Its recipe as it is now.
        kept: The recipe that it was made by; None if it has to be made whatever that is.
    """
    found: dict[Place, None] = {}
    for place in places:
        if any(each in found for each in reads(place)) or kept(place) != recipe(place):
            found[place] = None
    return list(found)
