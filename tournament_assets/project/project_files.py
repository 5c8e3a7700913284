"""A project's files: prompt banks, rubrics, recorded responses, entrants' files, and its runs.

An entrant's files are weights and shards.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from pkgutil import resolve_name
from typing import Protocol

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.input_files import hint_at_path, read_input_text, reading
from tournament_assets.foundation.json_lines import read_json_lines
from tournament_assets.generation.models.entrant_weights import (
    EntrantFiles,
    check_adapter,
    check_base,
    check_weights,
    find_shards,
    fingerprint_file,
    has_chat_template,
)
from tournament_assets.judging.requests.system_prompt import parse_instructions
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.entrant_settings import TEMPLATE_DATE
from tournament_assets.tournament.entrants import (
    AnyEntrant,
    LocalEntrant,
    loader_of,
)
from tournament_assets.tournament.hydra_entrants import CustomPoeEntrant, NeededShards
from tournament_assets.tournament.judges import Rubric, parse_rubric
from tournament_assets.tournament.places import FilePlace, Location, ResponsesPlace
from tournament_assets.tournament.prompts import Prompt, parse_prompt_bank


@dataclass(frozen=True, slots=True)
class Project:
    """Where a tournament's files are.

    Attributes:
        folder: Where relative paths start.
        environment: The environment variables that configs may name.
    """

    folder: Path
    environment: Mapping[str, str]

    @property
    def ledger_url(self) -> str:
        """The SQLAlchemy URL of the ledger."""
        return self.environment.get("TOURNAMENT_LEDGER_URL") or default_ledger_url(self.folder)

    @property
    def storage(self) -> str:
        """Where assets are kept: a folder or a URL."""
        return self.environment.get("TOURNAMENT_STORAGE") or str(self.folder / "storage")

    def resolve(self, location: Location, *, what: str, key: str = "") -> Path:
        """Return the file or folder that a config names.

        Args:
            what: What it is, for messages.
            key: Where the config names it, for messages; an entrant is called by its id.

        Raises:
            InputError: If its environment variable is not set, or nothing is there.
        """
        where = key or what
        if isinstance(location, ResponsesPlace) and location.asset is not None:
            raise InputError(
                f"{where}: they are the asset {location.asset!r}, which is not defined here; "
                "expected a Dagster project that defines it, with this tournament as its component "
                "(tournament_assets.TournamentComponent); run it there, or name a file"
            )
        hint = f"; get {location.source}" if location.source else ""
        if location.builtin is not None:
            path = Path(str(resources.files("tournament_assets"))) / "data" / location.builtin
            named = f"builtin {location.builtin!r}"
        elif location.env is not None:
            value = self.environment.get(location.env)
            if not value:
                raise InputError(
                    f"{where}: the environment variable {location.env} is not set; "
                    f"expected its path{hint} and export {location.env}=/its/path"
                )
            path = self.folder / Path(value).expanduser()
            named = f"{location.env}={value!r}"
        else:
            path = self.folder / Path(str(location.path)).expanduser()
            named = repr(location.path)
        is_file = isinstance(location, FilePlace)
        if not path.exists() or (is_file and path.is_dir()):
            problem = "is a folder" if path.exists() else f"does not exist{hint_at_path(path)}"
            raise InputError(
                f"{where}: {named} points to {path}, which {problem}; "
                f"expected {'a file, ' if is_file else ''}{what}, there{hint or '; correct it'}"
            )
        return path


def load_prompt_bank(path: Path) -> list[Prompt]:
    """Read a prompt bank from a JSONL file, without a tournament."""
    return parse_prompt_bank(read_json_lines(path))


def default_ledger_url(project: Path) -> str:
    """Return the SQLAlchemy URL of a project's own ledger."""
    return f"sqlite:///{project / 'ledger' / 'ledger.sqlite'}"


def load_bank(config: TournamentConfig, project: Project) -> list[Prompt]:
    """Read a tournament's prompt bank."""
    path = project.resolve(config.prompt_bank, what="the prompt bank", key="prompt_bank")
    return parse_prompt_bank(read_json_lines(path), gold_dimensions=config.gold_dimensions)


def load_rubrics(config: TournamentConfig, project: Project) -> dict[str, Rubric]:
    """Read every dimension's rubric, with the project's own instructions."""
    problems = Problems()
    instructions: str | None = None
    with problems.collected():
        instructions = _load_instructions(config, project)
    rubrics: dict[str, Rubric] = {}
    for dimension in config.dimension_names:
        with problems.collected():
            rubrics[dimension] = _load_rubric(config, project, dimension, instructions)
    problems.raise_if_any()
    return rubrics


def load_rubric(config: TournamentConfig, project: Project, dimension: str) -> Rubric:
    """Read one dimension's rubric, with the project's own instructions.

    Raises:
        InputError: If either is missing or cannot be used.
    """
    return _load_rubric(config, project, dimension, _load_instructions(config, project))


def _load_rubric(
    config: TournamentConfig, project: Project, dimension: str, instructions: str | None
) -> Rubric:
    name = config.dimensions[dimension].rubric
    key = f"dimensions.{dimension}.rubric"
    text = _read_text(project.folder / name, what=f"the rubric of {dimension}", key=key)
    return replace(parse_rubric(text, dimension=dimension, where=name), instructions=instructions)


def _load_instructions(config: TournamentConfig, project: Project) -> str | None:
    name = config.judging.instructions
    if name is None:
        return None
    path, what = project.folder / name, "the file of the judge's instructions"
    return parse_instructions(_read_text(path, what=what, key="judging.instructions"), where=name)


def _read_text(path: Path, *, what: str, key: str) -> str:
    with reading(path, "a UTF-8 text file", label=f"{key}: {what}, {path},"):
        return read_input_text(path)


DEFAULT_NAME = ".dagster_home"


def prepare_dagster_home(project: Path, configured: str | None) -> Path:
    """Return Dagster's home folder, creating it and its settings if missing.

    Args:
        project: The project folder, which holds the default home.
        configured: The value of `DAGSTER_HOME`, if it is set.
    """
    home = Path(configured).expanduser() if configured else project / DEFAULT_NAME
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not configured:
        home.chmod(0o700)
        for name in ("history/runs.db", "history/runs/index.db", "schedules/schedules.db"):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).touch(mode=0o600)
        hide_databases(home)
    settings = home / "dagster.yaml"
    if not settings.exists():
        packaged = resources.files("tournament_assets") / "data" / "dagster.yaml"
        write_bytes_atomically(settings, packaged.read_bytes())
    return home.resolve()


def hide_databases(home: Path) -> None:
    """Let nobody but their owner read what runs were given and logged, in a project's own home."""
    for path in home.rglob("*.db*") if home.name == DEFAULT_NAME else ():
        with suppress(FileNotFoundError):  # a log that another process has just closed
            path.chmod(0o600)


def entrant_fingerprint(entrant: AnyEntrant, project: Project) -> str:
    """Return the SHA-256 of all that an entrant's responses depend on besides the prompts.

    Raises:
        InputError: If its files are missing.
    """
    return entrant.fingerprint(
        entrant.content_hash or entrant_content(entrant, project).fingerprint
    )


class EntrantContent(Protocol):
    """The files that an entrant is made of."""

    @property
    def paths(self) -> Iterable[Path]:
        """All of its files, in a fixed order."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what they hold; where they lie does not count."""


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """The files and folders that an entrant's fields name.

    Attributes:
        places: Their paths, in the order of the fields.
    """

    places: Sequence[Path]

    @property
    def paths(self) -> Iterator[Path]:
        """Every file, and every folder with what is in it."""
        for place in self.places:
            yield place
            yield from sorted(place.rglob("*"))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of every file's content, with its name where it is inside a folder."""
        hashes = [_place_fingerprint(place) for place in self.places]
        return hashes[0] if len(hashes) == 1 else fingerprint(hashes)


def _place_fingerprint(place: Path) -> str:
    if not place.is_dir():
        return fingerprint_file(place)
    files = (path for path in sorted(place.rglob("*")) if path.is_file())
    return fingerprint(
        {path.relative_to(place).as_posix(): fingerprint_file(path) for path in files}
    )


def entrant_content(entrant: AnyEntrant, project: Project) -> EntrantContent:
    """Return the files that an entrant is made of; none if its content is known without them.

    Raises:
        InputError: If one is missing.
    """
    find = loader_of(entrant).content
    if find is not None:
        content: EntrantContent = resolve_name(find)(entrant, project)
        return content
    return NamedFiles(places_of(entrant, project) if entrant.content_hash is None else ())


def places_of(entrant: AnyEntrant, project: Project) -> list[Path]:
    """Return the paths of the files that an entrant names.

    Raises:
        InputError: If one is missing.
    """
    return [
        project.resolve(
            place,
            what=f"{entrant.entrant_id}'s {name}",
            key=f"entrants.{entrant.entrant_id}.{name}",
        )
        for name, place in entrant.files.items()
    ]


def find_entrant_files(entrant: LocalEntrant, project: Project) -> EntrantFiles:
    """Return the files of an entrant whose responses are generated here."""
    weights: list[Path] = []
    shards: dict[str, list[Path]] = {}
    problems = Problems()
    with problems.collected():
        weights.append(project.resolve(entrant.weights, what=_weights_of(entrant.entrant_id)))
    for adapter, needed in entrant.needed_shards.items():
        with problems.collected():
            shards[adapter] = _find_shards(adapter, needed, project, owners=entrant.entrant_id)
    adapter_folder = template = None
    if (named := entrant.adapter_folder) is not None:
        with problems.collected():
            adapter_folder = project.resolve(named, what=f"the adapter of {entrant.entrant_id}")
    if (named := entrant.template_file) is not None:
        with problems.collected():
            template = project.resolve(named, what=f"the chat template of {entrant.entrant_id}")
    problems.raise_if_any()
    return EntrantFiles(
        weights=weights[0],
        shards=shards,
        adapter=adapter_folder,
        chat_template=template,
        has_template=template is not None or not entrant.replaces_template,
    )


def entrant_file_problems(entrants: Sequence[LocalEntrant], project: Project) -> list[str]:
    """Find what keeps entrants from being loaded, as far as can be seen without torch.

    Whatever several entrants share is checked once, and reported once with all their names.
    """
    weights: dict[Location, list[str]] = {}
    adapters: dict[Location, list[str]] = {}
    shards: dict[tuple[str, NeededShards], list[str]] = {}
    heads: dict[tuple[Location, int], list[str]] = {}
    for entrant in entrants:
        weights.setdefault(entrant.weights, []).append(entrant.entrant_id)
        if (named := entrant.adapter_folder) is not None:
            adapters.setdefault(named, []).append(entrant.entrant_id)
        if isinstance(entrant, CustomPoeEntrant):
            base = (entrant.weights, entrant.hydra.heads_depth)
            heads.setdefault(base, []).append(entrant.entrant_id)
        for adapter, needed in entrant.needed_shards.items():
            shards.setdefault((adapter, needed), []).append(entrant.entrant_id)
    problems = Problems()
    templated = {entrant.entrant_id for entrant in entrants if _brings_template(entrant, project)}
    for location, owners in weights.items():
        what = _weights_of(", ".join(owners))
        needs_template = not templated.issuperset(owners)
        with problems.collected():
            folder = project.resolve(location, what=what, key=f"entrants.{owners[0]}.weights")
            problems.extend(check_weights(folder, name=what, needs_template=needs_template))
    for (location, depth), owners in heads.items():
        what = _weights_of(", ".join(owners))
        with suppress(InputError):  # reported where the weights are checked
            folder = project.resolve(location, what=what)
            problems.extend(check_base(folder, heads_depth=depth, name=what))
    for location, owners in adapters.items():
        what = f"the adapter of {', '.join(owners)}"
        with problems.collected():
            folder = project.resolve(location, what=what, key=f"entrants.{owners[0]}.adapter")
            problems.extend(check_adapter(folder, name=what))
    for (adapter, needed), owners in shards.items():
        with problems.collected():
            _find_shards(adapter, needed, project, owners=", ".join(owners))
    for entrant in entrants:
        if (named := entrant.template_file) is not None:
            what = f"the chat template of {entrant.entrant_id}"
            key = f"entrants.{entrant.entrant_id}.chat_template"
            with problems.collected():
                project.resolve(named, what=what, key=key)
        problems.extend(_date_problems(entrant, project))
    return problems.found


def _date_problems(entrant: LocalEntrant, project: Project) -> list[str]:
    """Refuse a date that no template reads, since it would change no response."""
    if entrant.template_date == TEMPLATE_DATE:
        return []
    try:
        files = find_entrant_files(entrant, project)
    except InputError:
        return []  # reported where the files are checked
    if files.asks_for_date:
        return []
    return [
        f"entrant {entrant.entrant_id!r}: template_date is {entrant.template_date}, and its chat "
        "template does not ask for the date (strftime_now); expected no template_date; a variable "
        "such as date_string belongs into template_arguments"
    ]


def _brings_template(entrant: LocalEntrant, project: Project) -> bool:
    if entrant.replaces_template:
        return True
    adapter = entrant.adapter_folder
    try:
        return adapter is not None and has_chat_template(project.resolve(adapter, what="adapter"))
    except InputError:
        return False  # reported where the adapter is checked


def _weights_of(owners: str) -> str:
    return f"the weights of {owners}"


def _find_shards(
    adapter: str, needed: NeededShards, project: Project, *, owners: str
) -> list[Path]:
    what = f"the {adapter} shards of {owners}"
    return find_shards(needed, project.resolve(needed.folder, what=what), what=what)
