"""The rows of the graph's table: assets and jobs."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_args, get_origin

from tournament_assets.foundation.extensions import naming_extensions
from tournament_assets.project.plan import TournamentPlan, upstream_assets
from tournament_assets.provenance.origins import Records
from tournament_assets.responses.entrant_responses import Resources
from tournament_assets.storage.tables import LoadedTable
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.verdicts.judge_requests import JudgeAccess, LedgerAccess

COLLECTS_TAG = "tournament/collects"
"""The tag of a run that collects an open batch: the nonce under which the ledger has the batch."""
Axis = Literal["mode", "entrant", "dimension"]
MODE: tuple[Axis, ...] = ("mode",)
ENTRANT: tuple[Axis, ...] = ("entrant",)
DIMENSION: tuple[Axis, ...] = ("dimension",)
MODE_BY_ENTRANT: tuple[Axis, ...] = ("mode", "entrant")
MODE_BY_DIMENSION: tuple[Axis, ...] = ("mode", "dimension")


def axis_names(config: TournamentConfig, axis: Axis) -> tuple[str, ...]:
    """Return the partitions along an axis, in config order."""
    if axis == "mode":
        return config.mode_names
    return config.entrant_ids if axis == "entrant" else config.dimension_names


def axis_loaded_over(
    upstream: Sequence[Axis], downstream: Sequence[Axis], *, over: Axis | None = None
) -> Axis | None:
    """Return the axis along which a partition downstream loads several; None if it loads one.

    Args:
        upstream: The axes of the asset that is read.
        downstream: The axes of the asset that reads it.
        over: An axis of both that is not to stay the same: all of it is read.
    """
    return next((axis for axis in upstream if axis not in downstream or axis == over), None)


class Log(Protocol):
    """The log of an asset's function."""

    def info(self, message: str) -> None:
        """Say something."""

    def warning(self, message: str, *, exc_info: bool = False) -> None:
        """Say what a person should look at."""


@dataclass(frozen=True, slots=True)
class Step:
    """The step in which a function is called, for functions that need much of it.

    Attributes:
        mode: The partition's mode.
        name: The partition's entrant or dimension; empty where it has only a mode.
        records: What is recorded of assets.
        tags: The tags of the run.
    """

    plan: TournamentPlan
    mode: Mode
    name: str
    log: Log
    records: Records
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The partition as people read it, such as `factuality, pilot`.

        A check's result has no partition of its own in the UI, so its description has to say it.
        """
        return f"{self.name}, {self.mode}" if self.name else self.mode

    @property
    def partition(self) -> str:
        """The partition as Dagster writes it, such as `factuality|pilot`."""
        return f"{self.name}|{self.mode}" if self.name else self.mode


@dataclass(frozen=True, slots=True)
class Input:
    """How an asset is loaded.

    Attributes:
        may_be_missing: Whether None, or fewer partitions, will do where it was never made.
        over: The axis of which every partition is loaded, although the asset that reads has it too.
    """

    may_be_missing: bool = False
    over: Axis | None = None


Value = TypeVar("Value")
Options = Annotated[Value, "options"]
"""A dataclass of what a person may ask of a run; every field has a default."""
Inputs = Annotated[Value, "inputs"]
"""A dataclass whose fields are assets."""
Tables = Annotated[Mapping[str, LoadedTable], "tables"]
"""The assets that the row names in `tables`."""
Upstream = Annotated[Mapping[str, object], "upstream"]
"""The project's assets around the tournament that responses come from, by key."""
EveryMode = Annotated[Mapping[Mode, Value], "every_mode"]
"""An asset that has a partition for every mode, in all of them that were made."""
ThisMode = Annotated[Mode, "mode"]
ThisDimension = Annotated[str, "dimension"]
StartedAt = Annotated[datetime, "started_at"]
"""When the run began."""


class Blocking(str):
    """The description of a check that stops what comes next if it fails as an error."""

    __slots__ = ()


_SURROUNDINGS: Mapping[object, str] = {
    TournamentPlan: "plan",
    TournamentConfig: "config",
    Step: "step",
    LedgerAccess: "ledger",
    JudgeAccess: "judge",
    Resources: "resources",
}
_ASSETS: Mapping[str, Axis | None] = {"asset": None, "every_mode": "mode"}
"""The roles of arguments that are assets, and the axis of which every partition is loaded."""


@dataclass(frozen=True, slots=True)
class Where:
    """Which tournaments have an asset, and where it is made.

    Attributes:
        holds: Whether a tournament has it.
        words: The same in words, for the table in the documentation.
        on_gpu: Whether its step needs a GPU, of which there is one.
    """

    holds: Callable[[TournamentPlan], bool] = lambda _: True
    words: str = ""
    on_gpu: Callable[[TournamentPlan], bool] = lambda _: False


@dataclass(frozen=True)
class AssetRow:
    """One asset: where it stands in the graph, and the function that makes it.

    The types of the function's arguments say what it is passed: a plan or its config, a `Step` or
    its partition's `ThisMode` and `ThisDimension`, `Options` of the run, `StartedAt`, access to the
    ledger or the judge, or all `Resources`. Any other argument is an asset by its name, with a
    default if a tournament may lack it, as one that only an extra makes; `Inputs` holds several,
    and of several partitions, or with `EveryMode`, comes a mapping by entrant, dimension or mode,
    in config order. It returns a `Made`: of `list[Row]`, of `WrittenTable[Row]`, or of a data frame
    annotated with `Row` for a table, whose columns follow from that class. Its docstring is what
    the UI shows.

    Attributes:
        make: The function; the asset has its name.
        stage: The asset group, without the tournament's id.
        job: The job that makes it, without the tournament's id.
        axes: What there is a partition for.
        tables: More assets to load, where there are any, into the mapping `tables`.
        after: Assets that it depends on without loading them.
        settings: What of a plan decides what it holds, besides its inputs; its code version.
        checks: Descriptions of the checks it reports, by name; `Blocking` for those that block.
        stored_as: A Parquet table; a stream, which is a table that travels as its file and is never
            read as a whole: it holds a row or more per pair of entrants and prompt, or whole pages;
            npz arrays; a run's directory; or a file that people edit.
        kinds: Labels in the UI.
        where: Which tournaments have it, and whether they make it on a GPU.
        on_request: Whether only its own job makes it: to the graph it is external, so that no
            button in the UI runs it, and it is never missing or out of date. Who reads it does
            without where it was never made.
        names: What of a plan its text names besides its inputs: part of what it is made with.
        untold: Options that a person gives to its own step alone. All others of its function are
            told by the run, by their names (`graph/run_options.py`).
    """

    make: Callable[..., Any]
    stage: str
    job: str
    axes: tuple[Axis, ...] = ()
    tables: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    settings: Callable[[TournamentPlan], Any] | None = None
    checks: Mapping[str, str] | Callable[[TournamentPlan], Mapping[str, str]] = field(
        default_factory=dict
    )
    stored_as: Literal["table", "stream", "arrays", "folder", "file"] = "table"
    kinds: AbstractSet[str] | Callable[[TournamentPlan], AbstractSet[str]] = frozenset({"parquet"})
    where: Where = Where()
    on_request: bool = False
    names: Callable[[TournamentPlan], list[Any]] | None = None
    untold: AbstractSet[str] = frozenset()

    @property
    def name(self) -> str:
        """The asset's name within its tournament."""
        return self.make.__name__

    @property
    def is_table(self) -> bool:
        """Whether it is stored as a table."""
        return self.stored_as in ("table", "stream")

    @property
    def suffix(self) -> str:
        """What the name of a file of it ends with."""
        return ".npz" if self.stored_as == "arrays" else ".parquet"

    @property
    def row_type(self) -> type:
        """The class of its table's rows, as its function's return annotation names it."""
        (value,) = get_args(inspect.signature(self.make).return_annotation)
        row_type: type = get_args(value)[-1]
        return row_type

    @cached_property
    def arguments(self) -> Mapping[str, tuple[str, Any]]:
        """The role and the type of each argument of the function."""
        arguments: dict[str, tuple[str, Any]] = {}
        for name, item in inspect.signature(self.make).parameters.items():
            kind, role = item.annotation, _SURROUNDINGS.get(item.annotation, "asset")
            if get_origin(kind) is Annotated:
                kind, role = get_args(kind)
            arguments[name] = role, kind
        return arguments

    def type_of(self, role: str) -> Any:
        """Return the type of the argument that has a role; None if there is none."""
        return next((kind for name, kind in self.arguments.values() if name == role), None)

    @cached_property
    def input_types(self) -> Mapping[str, Any]:
        """The types of the inputs, by asset, whether they come one by one or together."""
        types = {name: kind for name, (role, kind) in self.arguments.items() if role in _ASSETS}
        inputs = self.type_of("inputs")
        return types | {item.name: item.type for item in (fields(inputs) if inputs else ())}

    @property
    def options(self) -> Mapping[str, Any]:
        """The defaults of the options that its function has, by name."""
        options = self.type_of("options")
        return {item.name: item.default for item in fields(options)} if options else {}

    def upstream_keys(self, plan: TournamentPlan) -> tuple[str, ...]:
        """Return the keys of what it loads of the project around."""
        return upstream_assets(plan) if self.type_of("upstream") else ()

    def call(self, supplies: Mapping[str, Callable[[], Any]], assets: Mapping[str, Any]) -> Any:
        """Call the function with what it asks for.

        Args:
            supplies: Returns what is not an asset, by role; of the options their values, by name.
            assets: The assets that there are, by name.
        """
        values: dict[str, Any] = {}
        for name, (role, kind) in self.arguments.items():
            if role in _ASSETS:
                if name in assets:
                    values[name] = assets[name]
            elif role == "inputs":
                names = {item.name for item in fields(kind)} & assets.keys()
                values[name] = kind(**{asset: assets[asset] for asset in names})
            elif role == "tables":
                values[name] = {asset: assets[asset] for asset in self.tables if asset in assets}
            else:
                value = supplies[role]()
                values[name] = kind(**value) if role == "options" else value
        with naming_extensions():
            return self.make(**values)

    @property
    def reads(self) -> tuple[str, ...]:
        """The assets that it loads, whether a tournament has them or not."""
        return (*self.input_types, *self.tables)

    def inputs_among(self, rows: "Mapping[str, AssetRow]") -> dict[str, Input]:
        """Return how each asset that it loads is loaded; the edge follows from both ends' axes.

        Args:
            rows: The rows that a tournament has, by the assets' names.
        """
        over = {name: _ASSETS.get(role) for name, (role, _) in self.arguments.items()}
        return {
            name: Input(over.get(name) is not None or rows[name].on_request, over.get(name))
            for name in self.reads
            if name in rows
        }

    def told(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the run's options, by name, that its function takes."""
        names = self.options.keys() - self.untold
        return {name: value for name, value in options.items() if name in names}

    def kinds_of(self, plan: TournamentPlan) -> AbstractSet[str]:
        """Return what the UI marks it with."""
        return self.kinds(plan) if callable(self.kinds) else self.kinds

    def checks_of(self, plan: TournamentPlan) -> Mapping[str, str]:
        """Return the descriptions of its checks, by name."""
        return self.checks(plan) if callable(self.checks) else self.checks

    def blocking_checks(self, plan: TournamentPlan) -> AbstractSet[str]:
        """Return the names of its checks that block."""
        checks = self.checks_of(plan)
        return {name for name, description in checks.items() if isinstance(description, Blocking)}


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job, which makes the assets whose rows name it.

    Attributes:
        name: The job's name, without the tournament's id.
        title: What it does, for people.
        part_of: What begins a rerun, a run of the tournament in this order, a scheduled rerun only,
            or only on request.
        description: What the UI says; the title unless given.
        also: Assets of other jobs' rows, made on request only, that it makes as well.
        prepares: The asset that it is for: it runs where that one does, and not where that one asks
            nothing or only what failed.
        is_wanted: Whether a scheduled rerun of a tournament runs it.
    """

    name: str
    title: str
    part_of: Literal["begin", "run", "rerun", "request"] = "run"
    description: str = ""
    also: tuple[str, ...] = ()
    prepares: str = ""
    is_wanted: Callable[[TournamentPlan], bool] = lambda _: True
