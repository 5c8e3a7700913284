"""A tournament as a component of a Dagster project that is somebody else's."""

import os
from importlib import resources
from pathlib import Path
from string import Template
from typing import Annotated, Any

import dagster as dg

from tournament_assets.definitions import build_guest, build_plan
from tournament_assets.project.config_files import as_identifier, find_host, load_config
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.errors import InputError

_TEMPLATE = resources.files("tournament_assets") / "data" / "component"


class TournamentScaffolder(dg.Scaffolder):
    """Writes a `defs.yaml` that runs as it stands, and the files that it names."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Write the files of a tournament that is called after its folder.

        Raises:
            InputError: If anything but a `defs.yaml` of its own is asked for.
        """
        if request.scaffold_format != "yaml" or request.append:
            raise InputError(
                f"{request.target_path}: {request.scaffold_format} is asked for"
                f"{' at the end of a file' if request.append else ''}; expected a defs.yaml of "
                "its own; leave out --format, and name a folder that is not there yet"
            )
        folder = request.target_path.resolve()
        host = (request.project_root or find_host(folder / "defs.yaml")).resolve()
        values = {
            "tournament_id": as_identifier(folder.name),
            "folder": folder.relative_to(host).as_posix(),
        }
        for file in _TEMPLATE.iterdir():
            text = file.read_text(encoding="utf-8")
            if file.name == "defs.yaml":
                text = Template(text).substitute(values)
            write_bytes_atomically(folder / file.name, text.encode())


@dg.scaffold_with(TournamentScaffolder)
class TournamentComponent(dg.Component, dg.Model, dg.Resolvable):
    """A tournament beside a project's own assets: it ranks configurations of a language model.

    The project's executor runs its steps. What it stores goes where the environment says
    (`definitions.py`), else into the project's folder.

    Attributes:
        config: The keys of a config, or the path of a config file from the project's folder.
    """

    # A config is taken as it is written: a template's `{{ }}` would turn texts into numbers.
    config: Annotated[str | dict[str, Any], dg.Resolver.passthrough()]

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return what lists of components say of it."""
        kinds = ["asset", "asset_check", "job", "schedule", "sensor", "resource"]
        return dg.ComponentTypeSpec(tags=["evaluation", "llm"], produces=kinds)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Wire the tournament.

        Raises:
            InputError: With every problem of the config, each with its line.
        """
        if isinstance(self.config, str):
            path = Path(context.project_root) / self.config
        else:
            # From the file, so that a problem is told with its line and an edit is noticed.
            path = context.path if context.path.is_file() else context.path / "defs.yaml"
        return build_guest(build_plan(load_config(path), os.environ, is_guest=True), os.environ)
