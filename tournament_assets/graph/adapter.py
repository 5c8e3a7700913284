"""Build Dagster's assets from the rows of the graph's table.

Dagster uses data versions to decide what is out of date downstream. As they are hashes of the
contents, a rerun that changes nothing leaves everything downstream fresh.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, cast

import dagster as dg
import pandas as pd
import upath
from pydantic import create_model

from tournament_assets.foundation.errors import WorkError
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.graph.assets.judging import rubrics_told
from tournament_assets.graph.assets.publishing import page_address
from tournament_assets.graph.outputs import Check, Made, Markdown, as_stored
from tournament_assets.graph.partitions import (
    Edge,
    asset_key,
    edge_between,
    loaded_over,
    partition_values,
    partitions_over,
    recorded_of,
)
from tournament_assets.graph.plain_runs import open_engine, path_of
from tournament_assets.graph.recipe_book import (
    DATA_VERSION_TAG,
    MADE_FROM,
    MADE_WITH_TAG,
    ROOT,
    UP_TO_DATE,
    RecipeBook,
    made_with,
    up_to_date,
)
from tournament_assets.graph.recipes import Place, Recipe, join_partition
from tournament_assets.graph.resources import (
    GeneratorResource,
    JudgeResource,
    LedgerResource,
)
from tournament_assets.graph.rows import AssetRow, Input, Log, Step, axis_names
from tournament_assets.graph.run_options import RunOptions
from tournament_assets.graph.table import JOBS, rows_of
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.responses.entrant_responses import Resources
from tournament_assets.storage.tables import WrittenTable, columns_of

_RESOURCES: Mapping[str, type] = {
    "ledger": LedgerResource,
    "judge": JudgeResource,
    "generator": GeneratorResource,
}
_Context = dg.AssetExecutionContext | dg.OpExecutionContext
_BACKFILL_TAG = "dagster/backfill"
_DEVELOPMENT_VARIABLE = "DAGSTER_IS_DEV_CLI"
"""Set by `dagster dev` and `dg dev`."""
_TABLE = dg.DagsterType(
    lambda _, value: isinstance(value, pd.DataFrame | WrittenTable), key="Table", name="Table"
)
_STORED_TYPES: Mapping[str, Any] = {"table": _TABLE, "stream": _TABLE, "folder": dg.Nothing}
_TABLES = "parquet_io_manager"
_IO_MANAGERS = {
    "table": _TABLES,
    "stream": _TABLES,
    "arrays": "npz_io_manager",
    "folder": None,
}
# Beside an asset's checks Dagster accepts the bare class alone as a return annotation, and then the
# type of what is stored has to be given as `dagster_type`.
_RESULTS: Mapping[str, Any] = {
    "table": dg.MaterializeResult,
    "stream": dg.MaterializeResult,
    "arrays": dg.MaterializeResult[EloTraces],
    "folder": dg.MaterializeResult,
}

GPU_POOL = "gpu"
GPU_STEP_TAGS: JsonObject = {
    "dagster-celery/queue": "gpu",
    "dagster-k8s/config": {
        "container_config": {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
    },
}
"""Sends a step to the Celery workers that listen on `gpu`, or gives its pod a GPU.

Other executors do not look at them.
"""

RefuseRun = Callable[[dg.DagsterInstance, TournamentPlan, dg.DagsterRun], None]


def build_assets(
    plan: TournamentPlan, *, refuse_run: RefuseRun, resource_prefix: str = ""
) -> list[Any]:
    """Build the assets of one tournament from its rows.

    Args:
        refuse_run: Raises where a run must not begin a step.
        resource_prefix: What the keys of its resources begin with.
    """
    rows = rows_of(plan)

    def build(row: AssetRow) -> Any:
        if row.stored_as == "file":
            return _build_observed(plan, row)
        step = _Step(plan, row, rows, refuse_run, resource_prefix)
        return _build_reported(step) if row.on_request else _build_asset(step)

    return [build(row) for row in rows.values()]


def build_reporting_ops(
    plan: TournamentPlan, *, refuse_run: RefuseRun, resource_prefix: str = ""
) -> dict[str, dg.OpDefinition]:
    """Build the steps that make assets on request, store and report them, by the assets' names.

    Args:
        refuse_run: Raises where a run must not begin a step.
        resource_prefix: What the keys of its resources begin with.
    """
    rows = rows_of(plan)
    return {
        name: _build_reporting_op(_Step(plan, row, rows, refuse_run, resource_prefix))
        for name, row in rows.items()
        if row.on_request
    }


def check_result(check: Check) -> dg.AssetCheckResult:
    """Return a check's result in Dagster's type."""
    severity = dg.AssetCheckSeverity.ERROR if check.is_error else dg.AssetCheckSeverity.WARN
    return dg.AssetCheckResult(
        check_name=check.name,
        passed=check.passed,
        severity=severity,
        description=check.description,
        metadata={name: _metadata_value(value) for name, value in check.metadata.items()},
    )


def check_evaluation(
    key: dg.AssetKey, check: Check, partition: str | None = None
) -> dg.AssetCheckEvaluation:
    """Return a check's result as an event, for callers that report it themselves.

    Args:
        partition: What it looked at, where a run looks at several partitions: Dagster keeps one
            result a run for each, and for all that have none together.
    """
    result = {**check_result(check)._asdict(), "asset_key": key, "partition": partition}
    return dg.AssetCheckEvaluation(**result)


def log_made(
    context: dg.OpExecutionContext,
    plan: TournamentPlan,
    row: AssetRow,
    key: dg.MultiPartitionKey | str,
    made: Made[Any],
    *,
    recipe: Recipe | None = None,
    tags: Mapping[str, str] | None = None,
) -> dg.AssetMaterialization:
    """Record what a step made that is no asset of Dagster's own runs, and what its checks found.

    Args:
        key: The partition.
        made: The asset as it is stored.
        recipe: What it was made from, where it can be out of date.
        tags: Further tags of the materialisation.
    """
    metadata = _recorded_metadata(made, recipe)
    if row.on_request:
        metadata |= {check.name: check.passed for check in made.checks}
    if row.stored_as != "folder":
        path = path_of(upath.UPath(plan.project.storage), plan, row, str(key))
        metadata["path"] = dg.MetadataValue.path(str(path))
    mode = str(key).rpartition("|")[2]
    address = page_address(plan, row.name, mode, made.metadata.get("directory"))
    if address:
        metadata["page"] = dg.MetadataValue.url(address)
    axes = key.keys_by_dimension if isinstance(key, dg.MultiPartitionKey) else {}
    materialization = dg.AssetMaterialization(
        asset_key=asset_key(plan, row.name),
        partition=key,
        metadata=metadata,
        tags={
            **(tags or {}),
            **{f"dagster/partition/{axis}": name for axis, name in axes.items()},
            DATA_VERSION_TAG: str(made.version),
        },
    )
    context.log_event(materialization)
    for check in made.checks:
        # The method accepts it, although its annotations do not list the type.
        evaluation = check_evaluation(materialization.asset_key, check, str(key))
        context.log_event(cast("Any", evaluation))
    return materialization


def _recorded_metadata(stored: Made[Any], recipe: Recipe | None) -> dict[str, Any]:
    """Return the metadata of what is stored, with its recipe, in Dagster's types."""
    metadata = {name: _metadata_value(value) for name, value in stored.metadata.items()}
    return metadata | ({} if recipe is None else {MADE_FROM: dg.MetadataValue.json(dict(recipe))})


def provenance_tags(
    book: RecipeBook, row: AssetRow, recipe: Recipe, *, pointer: int, run_id: str
) -> dict[str, str]:
    """Return the tags by which Dagster itself knows what an asset was made from.

    Its pages mark by them what is not in sync; it writes them for assets of the graph alone. It
    compares the versions of inputs that have no partitions, and looks for events of the others
    that came later.

    Args:
        book: The recipes, which know the inputs as they were observed.
        recipe: What the asset is made from.
        pointer: The newest event before anything was read.
        run_id: The run's, which stands for the version of an asset without settings.
    """
    tags = {
        "dagster/code_version": _code_version(book.plan, row) or run_id,
        "dagster/data_version_is_user_provided": "true",
    }
    observed = {each.asset: each.version for each in book.inputs if each.partition is None}
    for name in dict.fromkeys((*row.inputs_among(book.rows), *row.after)):
        if name in book.rows:
            read = {place: version for place, version in recipe.items() if place.split()[0] == name}
            key = asset_key(book.plan, name).to_user_string()
            tags[f"dagster/input_data_version/{key}"] = observed.get(name) or fingerprint(read)[:40]
            tags[f"dagster/input_event_pointer/{key}"] = str(pointer)
    for key in row.upstream_keys(book.plan):
        tags[f"dagster/input_data_version/{key}"] = recipe.get(key, "")
        tags[f"dagster/input_event_pointer/{key}"] = str(pointer)
    return tags


def _code_version(plan: TournamentPlan, row: AssetRow) -> str | None:
    return None if row.settings is None else fingerprint(row.settings(plan))


@dataclass(frozen=True)
class _Step:
    """A step that makes an asset, in the graph or on request.

    Attributes:
        rows: The rows that the tournament has, by the assets' names.
        refuse_run: Raises where a run must not begin a step.
        prefix: What the keys of the resources begin with.
    """

    plan: TournamentPlan
    row: AssetRow
    rows: Mapping[str, AssetRow]
    refuse_run: RefuseRun
    prefix: str

    @cached_property
    def inputs(self) -> Mapping[str, Input]:
        """The tournament's assets that it loads."""
        return self.row.inputs_among(self.rows)

    @property
    def pool(self) -> str | None:
        """The pool whose slots limit how many such steps run at once."""
        return GPU_POOL if self.row.where.on_gpu(self.plan) else None

    def edge_from(self, name: str) -> Edge:
        """Return the edge from an asset that it loads, or that comes before it."""
        over = self.inputs[name].over if name in self.inputs else None
        return edge_between(self.rows[name].axes, self.row.axes, over=over)

    def deps(self, names: Iterable[str]) -> list[dg.AssetDep]:
        """Return that the step depends on some assets, without loading them in Dagster's way."""
        return [
            dg.AssetDep(asset_key(self.plan, name), partition_mapping=self.edge_from(name).mapping)
            for name in names
            if name in self.rows
        ]

    def describe(self) -> dict[str, Any]:
        """Return what its asset's definition says, whoever makes it."""
        kinds, owners = set(self.row.kinds_of(self.plan)), self.plan.config.owners
        return {**_described(self.plan, self.row), "kinds": kinds, "owners": owners}

    @property
    def upstream(self) -> Mapping[str, str]:
        """The keys of what is loaded from the surrounding project, by the argument's name."""
        keys = self.row.upstream_keys(self.plan)
        return {f"upstream_{number}": key for number, key in enumerate(keys)}

    def declare(self, compute: Callable[..., Any], types: dict[str, Any], *, result: Any) -> None:
        """Give a function the signature that Dagster reads inputs, options and resources from.

        Args:
            types: The types of its context and inputs.
        """
        options = self.row.type_of("options")
        roles = {role for role, _ in self.row.arguments.values()}
        if options is not None:
            types["config"] = config_class(options)
        for name, resource in _RESOURCES.items():
            if roles & {"resources", name}:
                types[f"{self.prefix}{name}"] = resource
        keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature(
            [inspect.Parameter(name, keyword, annotation=kind) for name, kind in types.items()],
            return_annotation=result,
        )
        compute.__signature__ = signature  # type: ignore[attr-defined]
        compute.__annotations__ = {**types, "return": result}

    def materialise(
        self, context: _Context, values: Mapping[str, Any], load: Callable[[], Mapping[str, Any]]
    ) -> tuple[Made[Any], dg.MaterializeResult[Any]]:
        """Make the asset, and return it with its content hash, its number of rows and its recipe.

        Args:
            values: What Dagster passes: options, resources and what is loaded from outside.
            load: Returns the tournament's assets that it reads.
        """
        plan, row = self.plan, self.row
        self.refuse_run(context.instance, plan, context.run)
        options = values["config"].model_dump() if row.options else {}
        place = Place(row.name, join_partition(_partition(plan, row, context)))
        # Before the function reads anything: what changes meanwhile is out of date afterwards.
        told = rubrics_told(options.get("rubrics"), options.get("instructions"))
        recipe = RecipeBook(plan, context.instance, told=told).recipe(place)
        tags = {MADE_WITH_TAG: made_with(plan, row, options)}
        made: Made[Any] = row.call(self._supplies(context, values), load())
        return made, _result(row, made, tags=tags, recipe=recipe)

    def _supplies(
        self, context: _Context, values: Mapping[str, Any]
    ) -> Mapping[str, Callable[[], Any]]:
        """Return what the row's function may ask for besides assets, by role."""
        plan = self.plan

        def partition() -> Mapping[str, str]:
            return _partition(plan, self.row, context)

        def step() -> Step:
            mode, *name = [part for _, part in sorted(partition().items(), reverse=True)]
            recorded = partial(recorded_of, plan, context.instance)
            log = cast("Log", context.log)
            return Step(plan, mode, "".join(name), log, recorded, context.run.tags)

        def resource(name: str) -> Any:
            return values[f"{self.prefix}{name}"]

        return {
            "plan": lambda: plan,
            "config": lambda: plan.config,
            "mode": lambda: partition()["mode"],
            "dimension": lambda: partition()["dimension"],
            "step": step,
            "started_at": lambda: _run_start(context),
            "upstream": lambda: {key: values[name] for name, key in self.upstream.items()},
            "options": lambda: values["config"].model_dump(),
            "resources": lambda: Resources(**{name: resource(name) for name in _RESOURCES}),
            "ledger": lambda: resource("ledger"),
            "judge": lambda: resource("judge"),
        }


def _build_asset(step: _Step) -> dg.AssetsDefinition:
    plan, row, rows, inputs = step.plan, step.row, step.rows, step.inputs
    key = asset_key(plan, row.name)
    edges = {name: step.edge_from(name) for name in inputs}
    over = {name: edge.over for name, edge in edges.items() if edge.over is not None}
    blocking = row.blocking_checks(plan)

    def compute(context: dg.AssetExecutionContext, **values: Any) -> Any:
        def load() -> Mapping[str, Any]:
            assets = {name: values[name] for name in inputs}
            for name, axis in over.items():
                names = axis_names(plan.config, axis)
                assets[name] = loaded_over(assets[name], axis, axes=rows[name].axes, names=names)
            return assets

        made, result = step.materialise(context, values, load)
        if _BACKFILL_TAG in context.run.tags:
            _refuse_in_backfill(context, blocking, made.checks)
        return result

    types: dict[str, Any] = {"context": dg.AssetExecutionContext}
    for name in (*inputs, *step.upstream):
        kind = row.input_types.get(name)
        types[name] = kind if isinstance(kind, type) else inspect.Parameter.empty
    step.declare(compute, types, result=_RESULTS[row.stored_as])
    manager = _IO_MANAGERS[row.stored_as]
    definition: dg.AssetsDefinition = dg.asset(
        key=key,
        description=inspect.getdoc(row.make),
        **step.describe(),
        ins={
            name: dg.AssetIn(
                key=asset_key(plan, name),
                partition_mapping=edges[name].mapping,
                # A single partition comes as a bare object, not as a mapping.
                **({"dagster_type": dg.Any} if name in over or how.may_be_missing else {}),
                metadata={"allow_missing_partitions": True} if how.may_be_missing else None,
            )
            for name, how in inputs.items()
        }
        | {
            name: dg.AssetIn(key=dg.AssetKey.from_user_string(outside), dagster_type=dg.Any)
            for name, outside in step.upstream.items()
        },
        deps=step.deps(row.after),
        pool=step.pool,
        code_version=_code_version(plan, row),
        op_tags=GPU_STEP_TAGS if step.pool else None,
        io_manager_key=manager and f"{step.prefix}{manager}",
        dagster_type=_STORED_TYPES.get(row.stored_as),
        check_specs=[
            dg.AssetCheckSpec(
                name, asset=key, description=str(description), blocking=name in blocking
            )
            for name, description in row.checks_of(plan).items()
        ],
    )(compute)
    return definition


def _refuse_in_backfill(
    context: dg.AssetExecutionContext, blocking: AbstractSet[str], checks: Iterable[Check]
) -> None:
    """Fail in a backfill if a blocking check failed.

    A backfill continues with whatever was materialised, in a separate run, and ignores the checks:
    there a blocking check stops only steps of the same run.
    """
    refused = [
        check for check in checks if check.name in blocking and check.is_error and not check.passed
    ]
    for check in refused:
        context.log_event(check_evaluation(context.asset_key, check))
    if refused:
        raise WorkError("; ".join(check.description for check in refused))


def _build_reported(step: _Step) -> dg.AssetSpec:
    """Build the asset that a separate job reports."""
    return dg.AssetSpec(
        asset_key(step.plan, step.row.name),
        deps=step.deps(dict.fromkeys((*step.inputs, *step.row.after))),
        **step.describe(),
        description=_one_line(step.row),
    ).with_io_manager_key(f"{step.prefix}{_TABLES}")


def _build_reporting_op(step: _Step) -> dg.OpDefinition:
    """Build the step that makes an asset on request: the engine of plain runs makes it."""
    plan, row = step.plan, step.row

    def compute(context: dg.OpExecutionContext, **values: Any) -> None:
        instance = context.instance
        step.refuse_run(instance, plan, context.run)
        partition = _partition(plan, row, context)
        with open_engine(
            plan,
            RunOptions(partition["mode"]),
            folder=upath.UPath(plan.project.storage),
            records=partial(recorded_of, plan, instance),
            told=values["config"].model_dump() if row.options else {},
        ) as engine:
            made = engine.make(row, partition["dimension"], log=context.log, tags=context.run.tags)
        log_made(context, plan, row, dg.MultiPartitionKey(partition), made)

    step.declare(compute, {"context": dg.OpExecutionContext}, result=None)
    return dg.op(
        name=f"{plan.tournament_id}__{row.name}",
        description=_one_line(row),
        pool=step.pool,
    )(compute)


def build_reported_checks(
    plan: TournamentPlan, rows: Iterable[AssetRow]
) -> list[dg.AssetChecksDefinition]:
    """Build the checks of assets that separate jobs report, so that the UI shows their results.

    Executed in the UI, a check repeats its last result, without asking the judge.
    """
    return [
        _build_reported_check(plan, row, name, description)
        for row in rows
        if row.on_request
        for name, description in row.checks_of(plan).items()
    ]


def build_up_to_date_check(plan: TournamentPlan) -> dg.AssetChecksDefinition:
    """Build the check that reports which parts of a tournament are out of date, and why."""

    def look(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return check_result(up_to_date(RecipeBook(plan, context.instance)))

    return dg.asset_check(
        asset=asset_key(plan, ROOT),
        name=UP_TO_DATE,
        description="All that the report rests on is as it would be made now, in every mode.",
    )(look)


def _build_reported_check(
    plan: TournamentPlan, row: AssetRow, name: str, description: str
) -> dg.AssetChecksDefinition:
    key = asset_key(plan, row.name)

    def repeat(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        latest = context.instance.get_latest_materialization_event(key)
        event = latest.asset_materialization if latest else None
        if event is None or name not in event.metadata:
            # The job by which people ask for it, which may make more than this asset.
            asked = (job for job in JOBS if job.part_of == "request" and row.name in job.also)
            job = plan.job(next((job.name for job in asked), row.job))
            words = f"nothing was found yet; the job {job} looks, and costs money"
            return dg.AssetCheckResult(
                passed=False, severity=dg.AssetCheckSeverity.WARN, description=words
            )
        return dg.AssetCheckResult(
            passed=bool(event.metadata[name].value),
            severity=dg.AssetCheckSeverity.WARN,
            description=str(event.metadata["what_it_means"].value),
        )

    return dg.asset_check(asset=key, name=name, description=description)(repeat)


def _one_line(row: AssetRow) -> str:
    return " ".join((row.make.__doc__ or "").split())


def _build_observed(plan: TournamentPlan, row: AssetRow) -> dg.SourceAsset:
    """Build the observed asset of an input; an unreadable input is not observed."""

    def observe() -> Any:
        versions = {item.partition: item.version for item in row.make(plan) if item.version}
        if not row.axes:
            return dg.DataVersion(versions.get(None, ""))
        return dg.DataVersionsByPartition(
            {str(name): version for name, version in versions.items()}
        )

    result = dg.DataVersionsByPartition if row.axes else dg.DataVersion
    observe.__annotations__ = {"return": result}
    return dg.observable_source_asset(
        name=row.name,
        key_prefix=plan.tournament_id,
        **_described(plan, row),
        description=_one_line(row),
    )(observe)


@cache
def config_class(options: type) -> type[dg.Config]:
    """Make Dagster's config of a dataclass of options; every option has a default."""
    declared: dict[str, Any] = {
        item.name: (item.type, None if item.default is MISSING else item.default)
        for item in fields(options)
    }
    return create_model(options.__name__, __base__=dg.Config, **declared)


def _partition(plan: TournamentPlan, row: AssetRow, context: _Context) -> Mapping[str, str]:
    return partition_values(context.partition_key, partitions_over(plan.config, row.axes))


def _run_start(context: _Context) -> datetime:
    started = getattr(context.instance.get_run_stats(context.run.run_id), "start_time", None)
    moment = datetime.fromtimestamp(started, UTC) if started else datetime.now(UTC)
    return moment.replace(microsecond=0)


def _result(
    row: AssetRow, made: Made[Any], *, tags: Mapping[str, str], recipe: Recipe | None = None
) -> dg.MaterializeResult[Any]:
    """Return what was made, with its content hash, its number of rows and its recipe."""
    stored = as_stored(made, row)
    return dg.MaterializeResult(
        **({} if row.stored_as == "folder" else {"value": stored.value}),
        data_version=dg.DataVersion(str(stored.version)),
        tags=tags,
        metadata=_recorded_metadata(stored, recipe),
        check_results=[check_result(check) for check in stored.checks],
    )


def _metadata_value(value: Any) -> Any:
    if isinstance(value, Markdown):
        return dg.MetadataValue.md(value.text)
    return dg.MetadataValue.path(str(value)) if isinstance(value, Path) else value


def _described(plan: TournamentPlan, row: AssetRow) -> dict[str, Any]:
    """Return what the definition of an asset says, whoever makes it."""
    columns = _column_schema(row.row_type) if row.is_table else {}
    pages = {
        f"page_{mode}": dg.MetadataValue.url(address)
        for mode in plan.config.mode_names
        if (address := page_address(plan, row.name, mode))
    }
    return {
        "group_name": plan.group(row.stage),
        "partitions_def": partitions_over(plan.config, row.axes),
        "metadata": {**columns, **pages, **_code_references(plan, row)},
    }


def _code_references(plan: TournamentPlan, row: AssetRow) -> dict[str, Any]:
    """Return links to the function and the config, for an editor on the machine of the UI."""
    if not plan.project.environment.get(_DEVELOPMENT_VARIABLE):
        return {}
    code = row.make.__code__
    config = plan.project.folder / plan.config_path
    places = [(Path(code.co_filename), code.co_firstlineno, row.name), (config, 1, config.name)]
    references = [
        dg.LocalFileCodeReference(file_path=str(path), line_number=line, label=label)
        for path, line, label in places
        if path.is_file()
    ]
    return {
        "dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[*references])
    }


@cache
def _column_schema(row_type: type) -> dict[str, Any]:
    columns = [
        dg.TableColumn(
            name=column.name,
            type=column.kind,
            description=column.description,
            constraints=dg.TableColumnConstraints(nullable=column.is_nullable),
        )
        for column in columns_of(row_type)
    ]
    return {"dagster/column_schema": dg.TableSchema(columns=columns)}
