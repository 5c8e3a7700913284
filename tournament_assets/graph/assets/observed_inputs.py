"""The graph's external inputs: bank, entrants, rubrics, price list, and those of extras.

People edit these, so they are observed, not materialised. Each has a version that changes only with
the content that the graph uses; after an edit and an observation, exactly what was made from the
old version is out of date.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.foundation.fingerprints import fingerprint, short
from tournament_assets.judging.costs.prices import newest_prices_hash
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.project_files import (
    default_ledger_url,
    entrant_content,
    entrant_fingerprint,
    load_bank,
    load_rubric,
)
from tournament_assets.storage.tables import content_version, make_table
from tournament_assets.tournament.entrants import AnyEntrant
from tournament_assets.tournament.prompts import Prompt


@dataclass(frozen=True, slots=True)
class InputVersion:
    """One input as it is now.

    Attributes:
        partition: The entrant or dimension it belongs to, or `dimension|mode`; None where there is
            one for all.
        version: SHA-256 of the part of it that matters; None if it cannot be read.
        label: Readable name of this version, such as a rubric's `v2`; empty if it has none.
        problem: Why it cannot be read; empty if it can.
        asset: The observed asset, one of `observed`; `read_inputs` fills it in.
    """

    partition: str | None
    version: str | None
    label: str = ""
    problem: str = ""
    asset: str = ""

    def __str__(self) -> str:
        version = short(self.version or "")
        return f"{self.label} ({version})" if self.label else version


def prompt_file(plan: TournamentPlan) -> list[InputVersion]:
    """The bank's JSONL file.

    It is observed: after an edit, the prompts are out of date.
    """

    def read() -> str:
        return content_version(Prompt, make_table(Prompt, load_bank(plan.config, plan.project)))

    return [_attempt(None, read)]


def entrants(plan: TournamentPlan) -> list[InputVersion]:
    """What each entrant is: its settings and the files it is loaded from.

    After a change of one of them, the responses of that entrant are out of date.
    """
    return [
        _attempt(each.entrant_id, partial(entrant_fingerprint, each, plan.project))
        for each in plan.config.entrants
    ]


def rubrics(plan: TournamentPlan) -> list[InputVersion]:
    """The files that tell the judge how to judge each dimension, including its instructions.

    They are written by people, so they are observed, not materialised; after an edit and an
    observation, the replies of that dimension are out of date.
    """
    return [_rubric(plan, dimension) for dimension in plan.config.dimension_names]


def price_list(plan: TournamentPlan) -> list[InputVersion]:
    """The newest dated list of prices.

    A new list makes the estimate out of date, but nothing that was paid for.
    """
    return [InputVersion(None, prices_version(plan))]


@cache
def observed() -> Mapping[str, Callable[[TournamentPlan], list[InputVersion]]]:
    """Return the function that reads each observed asset, by name."""
    extras = (row.make for row in added_rows("assets") if row.stored_as == "file")
    return {read.__name__: read for read in (prompt_file, entrants, rubrics, price_list, *extras)}


def read_inputs(plan: TournamentPlan, *assets: str) -> list[InputVersion]:
    """Return inputs of a tournament as they are now; one that cannot be read says why.

    Args:
        assets: Which of `observed`; all of them unless given.
    """
    readers = observed()
    return [
        replace(each, asset=asset) for asset in assets or readers for each in readers[asset](plan)
    ]


def stamp_inputs(plan: TournamentPlan) -> str | None:
    """Return a stamp that changes when the config or an input may have; None if one is missing.

    It reads only the files' sizes and dates, so it is cheap to call often.
    """
    try:
        states = [
            [str(path), status.st_ino, status.st_size, status.st_mtime_ns]
            for path in _input_files(plan)
            for status in (path.stat(),)
        ]
    except (InputError, OSError):
        return None
    return fingerprint([states, prices_version(plan)])


def _input_files(plan: TournamentPlan) -> Iterator[Path]:
    project = plan.project
    yield project.folder / plan.config_path
    yield from ledger_files(plan)
    yield project.resolve(plan.config.prompt_bank, what="the prompt bank")
    yield from (project.folder / rule.rubric for rule in plan.config.dimensions.values())
    if plan.config.judging.instructions is not None:
        yield project.folder / plan.config.judging.instructions
    for entrant in plan.config.entrants:
        yield from entrant_content(entrant, project).paths


def ledger_files(plan: TournamentPlan) -> list[Path]:
    """Return the files that change with the ledger; empty if it is not a file of the project."""
    if plan.project.environment.get("TOURNAMENT_LEDGER_URL"):
        return []
    path = Path(default_ledger_url(plan.project.folder).removeprefix("sqlite:///"))
    return [each for each in (path, path.with_name(f"{path.name}-wal")) if each.exists()]


def prices_version(plan: TournamentPlan) -> str:
    """Return the SHA-256 of the prices that a tournament uses."""
    listed, configured = newest_prices_hash(), plan.config.judging.prices
    if not configured:
        return listed
    own = {model: price.model_dump(mode="json") for model, price in configured.items()}
    return fingerprint([listed, own])


def _attempt(partition: str | None, read: Callable[[], str]) -> InputVersion:
    try:
        return InputVersion(partition, read())
    except InputError as error:
        return InputVersion(partition, None, problem=str(error))


def _rubric(plan: TournamentPlan, dimension: str) -> InputVersion:
    try:
        rubric = load_rubric(plan.config, plan.project, dimension)
    except InputError as error:
        return InputVersion(dimension, None, problem=str(error))
    return InputVersion(dimension, rubric.content_hash, label=f"v{rubric.version}")


def weights_version(plan: TournamentPlan, entrant: AnyEntrant) -> str | None:
    """Return the SHA-256 of an entrant's weights, with tokenizer and shards; None without any.

    Raises:
        InputError: If its files are not there.
    """
    if not entrant.generates_here:
        return None
    return entrant_content(entrant, plan.project).fingerprint
