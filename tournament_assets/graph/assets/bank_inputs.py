"""What the graph reads from outside: the bank's file, the entrants, the rubrics, the price list.

People edit these, so they are observed, not materialised. Each has a version that changes with what
the graph makes of it, and with nothing else; after an edit and an observation, exactly what was
made from the old version is out of date.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import dagster as dg

from tournament_assets.generation.models.entrant_weights import fingerprint_file
from tournament_assets.graph.partitions import asset_key, by_dimension
from tournament_assets.judging.costs.prices import newest_prices_hash
from tournament_assets.project.project_files import (
    find_entrant_files,
    load_prompt_bank,
    load_rubric,
)
from tournament_assets.storage.tables import content_version, make_table
from tournament_assets.tournament.entrants import (
    AnthropicApiEntrant,
    AnyEntrant,
    LocalEntrant,
    OpenAiApiEntrant,
    RecordedEntrant,
)
from tournament_assets.tournament.errors import InputError, Problems
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.workflows.plan import TournamentPlan
from tournament_assets.workflows.table_rows import prompt_rows

INPUT_ASSETS = ("prompt_file", "entrants", "rubrics", "price_list")
_DATA_VERSION = "dagster/data_version"


@dataclass(frozen=True, slots=True)
class InputVersion:
    """One input as it is now.

    Attributes:
        asset: The observed asset, one of `INPUT_ASSETS`.
        partition: The entrant or dimension it belongs to; None where there is one for all.
        version: SHA-256 of what counts of it; None if it cannot be read.
        label: What people call this version, such as a rubric's `v2`; empty if nothing.
        problem: Why it cannot be read; empty if it can.
    """

    asset: str
    partition: str | None
    version: str | None
    label: str = ""
    problem: str = ""


def read_inputs(plan: TournamentPlan, *assets: str) -> list[InputVersion]:
    """Return inputs of a tournament as they are now; one that cannot be read says why.

    Args:
        plan: The tournament.
        assets: Which of `INPUT_ASSETS`; all of them unless given.
    """
    readers: dict[str, Callable[[], list[InputVersion]]] = {
        "prompt_file": lambda: [_attempt("prompt_file", None, partial(_bank_version, plan))],
        "entrants": lambda: [
            _attempt("entrants", entrant.entrant_id, partial(entrant_version, plan, entrant))
            for entrant in plan.config.entrants
        ],
        "rubrics": lambda: [_rubric(plan, dimension) for dimension in plan.config.dimension_names],
        "price_list": lambda: [InputVersion("price_list", None, _prices_version(plan))],
    }
    return [each for asset in assets or INPUT_ASSETS for each in readers[asset]()]


def _prices_version(plan: TournamentPlan) -> str:
    listed, configured = newest_prices_hash(), plan.config.judge.prices
    if not configured:
        return listed
    own = {model: price.model_dump(mode="json") for model, price in configured.items()}
    return fingerprint([listed, own])


def _attempt(asset: str, partition: str | None, read: Callable[[], str]) -> InputVersion:
    try:
        return InputVersion(asset, partition, read())
    except InputError as error:
        return InputVersion(asset, partition, None, problem=str(error))


def _bank_version(plan: TournamentPlan) -> str:
    path = plan.project.resolve(plan.config.prompt_bank, what="the prompt bank")
    rows = prompt_rows(load_prompt_bank(path))
    return content_version("prompt_bank", make_table("prompt_bank", rows))


def _rubric(plan: TournamentPlan, dimension: str) -> InputVersion:
    try:
        rubric = load_rubric(plan.config, plan.project, dimension)
    except InputError as error:
        return InputVersion("rubrics", dimension, None, problem=str(error))
    return InputVersion("rubrics", dimension, rubric.content_hash, label=f"v{rubric.version}")


def entrant_version(plan: TournamentPlan, entrant: AnyEntrant) -> str:
    """Return the SHA-256 of all that an entrant's responses depend on, besides the prompts.

    Raises:
        InputError: If its files are not there.
    """
    if isinstance(entrant, OpenAiApiEntrant | AnthropicApiEntrant):
        return entrant.fingerprint(entrant.content_hash)
    if isinstance(entrant, RecordedEntrant):
        path = plan.project.resolve(entrant.responses, what=f"{entrant.entrant_id}'s responses")
        return entrant.fingerprint(fingerprint_file(path))
    return entrant.fingerprint(find_entrant_files(entrant, plan.project).fingerprint)


def weights_version(plan: TournamentPlan, entrant: AnyEntrant) -> str | None:
    """Return the SHA-256 of an entrant's weights, with tokenizer and shards; None without any.

    Raises:
        InputError: If its files are not there.
    """
    if not isinstance(entrant, LocalEntrant):
        return None
    return find_entrant_files(entrant, plan.project).fingerprint


def observations(
    plan: TournamentPlan, inputs: Iterable[InputVersion]
) -> Iterator[dg.AssetObservation]:
    """Return what Dagster is to know of inputs; one that cannot be read is not observed."""
    for each in inputs:
        if each.version is not None:
            yield dg.AssetObservation(
                asset_key=asset_key(plan, each.asset),
                partition=each.partition,
                tags={_DATA_VERSION: each.version},
                metadata={"version": each.label} if each.label else None,
            )


def not_yet_observed(
    plan: TournamentPlan, inputs: Iterable[InputVersion], instance: dg.DagsterInstance
) -> list[InputVersion]:
    """Return the inputs whose newest observation, by whomever, is of another version.

    What cannot be read now is not among them.
    """
    return [
        each
        for each in inputs
        if each.version is not None and each.version != _observed_version(plan, each, instance)
    ]


def _observed_version(
    plan: TournamentPlan, each: InputVersion, instance: dg.DagsterInstance
) -> str | None:
    newest = instance.fetch_observations(
        dg.AssetRecordsFilter(
            asset_key=asset_key(plan, each.asset),
            asset_partitions=None if each.partition is None else [each.partition],
        ),
        limit=1,
    ).records
    observation = newest[0].asset_observation if newest else None
    return None if observation is None else (observation.tags or {}).get(_DATA_VERSION)


def build_observing_job(plan: TournamentPlan, name: str) -> dg.JobDefinition:
    """Build the job that observes every input of one tournament, and fails if one is unusable."""

    @dg.op(name=f"{plan.tournament_id}__observe_inputs")
    def observe_inputs(context: dg.OpExecutionContext) -> None:
        inputs = read_inputs(plan)
        for observation in observations(plan, inputs):
            context.log_event(observation)
        problems = Problems()
        for each in inputs:
            if each.problem:
                problems.add(each.problem)
        problems.raise_if_any()

    @dg.job(
        name=name,
        description=f"{plan.tournament_id}: look at every input as it is now",
        tags={"tournament": plan.tournament_id},
    )
    def observing_job() -> None:
        observe_inputs()

    return observing_job


def build_input_assets(plan: TournamentPlan) -> list[dg.SourceAsset]:
    """Build the observed assets of one tournament."""
    entrants = dg.StaticPartitionsDefinition(list(plan.config.entrant_ids))

    def versions_of(asset: str) -> dict[str | None, str]:
        return {
            each.partition: each.version
            for each in read_inputs(plan, asset)
            if each.version is not None
        }

    def single(asset: str, stage: str, description: str) -> Any:
        @dg.observable_source_asset(
            name=asset,
            key_prefix=plan.tournament_id,
            group_name=plan.group(stage),
            description=description,
        )
        def observe() -> dg.DataVersion:
            return dg.DataVersion(versions_of(asset).get(None, ""))

        return observe

    def by_name(
        asset: str, stage: str, partitions: dg.StaticPartitionsDefinition, description: str
    ) -> Any:
        @dg.observable_source_asset(
            name=asset,
            key_prefix=plan.tournament_id,
            group_name=plan.group(stage),
            partitions_def=partitions,
            description=description,
        )
        def observe() -> dg.DataVersionsByPartition:
            return dg.DataVersionsByPartition(
                {str(name): version for name, version in versions_of(asset).items()}
            )

        return observe

    return [
        single(
            "prompt_file",
            "1_prompts",
            "The bank's JSONL file. It is observed: after an edit, the prompts are out of date.",
        ),
        by_name(
            "entrants",
            "2_responses",
            entrants,
            "What each entrant is: its settings and the files it is loaded from. After a change "
            "of one of them, the responses of that entrant are out of date.",
        ),
        by_name(
            "rubrics",
            "3_judging",
            by_dimension(plan),
            "The files that tell the judge how to judge each dimension. They are written by "
            "people, so they are observed, not materialised; after an edit and an observation, "
            "the replies of that dimension are out of date.",
        ),
        single(
            "price_list",
            "3_judging",
            "The newest dated list of prices. A new one makes the estimate out of date, and "
            "nothing that was paid for.",
        ),
    ]
