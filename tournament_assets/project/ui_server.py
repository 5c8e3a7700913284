"""How Dagster's pages are served for a project: which definitions, in which home.

The home is the one of `tournament run`, so that the pages show its runs. In a Dagster project that
has the tournament as a component, the definitions are that project's.
"""

import os
import shlex
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from tournament_assets.project.config_files import load_config
from tournament_assets.project.project_files import prepare_dagster_home
from tournament_assets.tournament.errors import InputError

_OWN_DEFINITIONS = "tournament_assets.definitions"
_OWN_WORKSPACE = resources.files("tournament_assets") / "data" / "workspace.yaml"
_NO_ADVICE = "ignore:Function `dev_command` is superseded"


@dataclass(frozen=True, slots=True)
class ServerStart:
    """How a server is started.

    Attributes:
        command: The program and its arguments.
        folder: Where it runs.
        environment: Its environment variables.
    """

    command: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]


def browsing_command(config: Path) -> str:
    """Return the command that serves the pages of a config's project, as a person types it."""
    if load_config(config).project == Path.cwd().resolve():
        return "tournament ui"
    return f"tournament ui --config {shlex.quote(str(config))}"


def server_start(
    config: Path | None,
    environment: Mapping[str, str],
    *,
    host: str = "127.0.0.1",
    port: int = 3000,
    has_pages: bool = True,
) -> ServerStart:
    """Say how the pages, and the daemon of schedules and sensors, are started.

    Args:
        config: A config of the project; without it, the project is the folder that
            `TOURNAMENT_PROJECT` names, or the one that a person is in.
        host: The address to serve on.
        port: The port to serve on.
        has_pages: Whether there are pages; otherwise there is the daemon alone.

    Raises:
        InputError: If there is no tournament in the project.
    """
    if config is not None:
        project = load_config(config).project
    else:
        project = Path(environment.get("TOURNAMENT_PROJECT") or Path.cwd()).resolve()
    module = _guest_module(project)
    if module is None and not any((project / "configs").glob("*.yaml")):
        raise InputError(
            f"{project}: no tournament is here; expected configs/*.yaml, or a Dagster project with "
            "a tournament as its component; start in its folder, or name a config with --config"
        )
    home = prepare_dagster_home(project, environment.get("DAGSTER_HOME"))
    source = project / "src"
    folders = [str(source if source.is_dir() else project), environment.get("PYTHONPATH", "")]
    is_own = module in (None, _OWN_DEFINITIONS)
    served = ("--workspace", str(_OWN_WORKSPACE)) if is_own else ("--module-name", str(module))
    place = ("--host", host, "--port", str(port), "--log-level", "warning")
    return ServerStart(
        (sys.executable, "-m", "dagster", "dev", *served, *place)
        if has_pages
        else (sys.executable, "-m", "dagster._daemon", "run", *served),
        project,
        {
            **environment,
            "DAGSTER_HOME": str(home),
            "TOURNAMENT_PROJECT": str(project),
            # Dagster would advise `dg dev`, which serves only a Dagster project.
            "PYTHONWARNINGS": ",".join(
                filter(None, (environment.get("PYTHONWARNINGS"), _NO_ADVICE))
            ),
            "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        },
    )


def _guest_module(project: Path) -> str | None:
    """Return the module with the definitions of the Dagster project in a folder, if it is one."""
    tools = _read(project / "pyproject.toml").get("tool", {})
    values = _read(project / "dg.toml") or tools.get("dg", {})
    settings = values.get("project", {})
    root = settings.get("root_module")
    target = settings.get("code_location_target_module")
    return target or (root and f"{root}.definitions")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); expected TOML in UTF-8") from None
