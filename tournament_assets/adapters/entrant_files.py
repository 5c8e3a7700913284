"""Finds the files that the descriptions of entrants name."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tournament_assets.adapters.project_files import Project
from tournament_assets.generation.entrant_files import EntrantFiles, find_shards
from tournament_assets.generation.weights import check_weights
from tournament_assets.tournament.entrants import LocalEntrant
from tournament_assets.tournament.errors import InputError, Problems
from tournament_assets.tournament.hydra_entrants import CustomPoeEntrant, NeededShards
from tournament_assets.tournament.places import Location


def find_entrant_files(entrant: LocalEntrant, project: Project) -> EntrantFiles:
    """Return the files of an entrant that is generated here.

    Raises:
        InputError: With everything that is not where the config says.
    """
    weights: list[Path] = []
    shards: dict[str, list[Path]] = {}
    problems = Problems()
    try:
        weights.append(project.resolve(entrant.weights, what=_weights_of(entrant.entrant_id)))
    except InputError as error:
        problems.extend(error.problems)
    for adapter, needed in _needed_shards(entrant).items():
        try:
            shards[adapter] = _find_shards(adapter, needed, project, owners=entrant.entrant_id)
        except InputError as error:
            problems.extend(error.problems)
    problems.raise_if_any()
    return EntrantFiles(weights=weights[0], shards=shards)


def entrant_file_problems(entrants: Sequence[LocalEntrant], project: Project) -> list[str]:
    """Find what keeps entrants from being loaded, as far as it can be seen without torch.

    What several entrants share is looked at once, and told once with all their names.
    """
    weights: dict[Location, list[str]] = {}
    shards: dict[tuple[str, NeededShards], list[str]] = {}
    for entrant in entrants:
        weights.setdefault(entrant.weights, []).append(entrant.entrant_id)
        for adapter, needed in _needed_shards(entrant).items():
            shards.setdefault((adapter, needed), []).append(entrant.entrant_id)
    problems: list[str] = []
    for location, owners in weights.items():
        what = _weights_of(", ".join(owners))
        try:
            problems.extend(check_weights(project.resolve(location, what=what), name=what))
        except InputError as error:
            problems.extend(error.problems)
    for (adapter, needed), owners in shards.items():
        try:
            _find_shards(adapter, needed, project, owners=", ".join(owners))
        except InputError as error:
            problems.extend(error.problems)
    return problems


def _needed_shards(entrant: LocalEntrant) -> Mapping[str, NeededShards]:
    return entrant.needed_shards if isinstance(entrant, CustomPoeEntrant) else {}


def _weights_of(owners: str) -> str:
    return f"the weights of {owners}"


def _find_shards(
    adapter: str, needed: NeededShards, project: Project, *, owners: str
) -> list[Path]:
    what = f"the {adapter} shards of {owners}"
    return find_shards(needed, project.resolve(needed.folder, what=what), what=what)
