"""How Dagster's pages are served for a project: which definitions, in which home.

The home is the one of `tournament run`, so that the pages show its runs. In a Dagster project that
has the tournament as a component, the definitions are that project's.

It is what `dagster dev` starts, a code server, the webserver and the daemon, with one difference:
`graph/guarded_pages.py` lets no other site's page use the webserver, which itself asks nobody.
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from tournament_assets.foundation.errors import InputError, WorkError
from tournament_assets.foundation.extensions import rows_by_extension
from tournament_assets.project.config_files import load_config
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.project_files import prepare_dagster_home
from tournament_assets.serving.web_access import address_of, listen, require_access

_OWN_DEFINITIONS = "tournament_assets.definitions"
_OWN_LOCATION = "tournament_assets"
TOKEN_VARIABLE = "TOURNAMENT_UI_TOKEN"  # noqa: S105  # a variable's name
"""The environment variable with the secret that lets other machines in."""
_STOP_SECONDS = 60.0
_LONGEST_SOCKET = 100
"""Characters of a path that every system takes for a socket."""


@dataclass(frozen=True, slots=True)
class ServerStart:
    """What is served, and how its processes are started.

    Attributes:
        module: The module with the definitions.
        location: Its name in Dagster, under which schedules and sensors are on or off.
        folder: Where the processes run.
        environment: Their environment variables.
        beside: Of what is served beside the pages, by port, what makes it and its help.
    """

    module: str
    location: str
    folder: Path
    environment: Mapping[str, str]
    beside: Mapping[int, tuple[str, str]] = field(default_factory=dict)

    def start(self, *module: str, keeps_token: bool = False) -> "subprocess.Popen[bytes]":
        """Start a module of Python, which gets the token of the pages only if it needs it."""
        hidden = () if keeps_token else (TOKEN_VARIABLE,)
        variables = {name: each for name, each in self.environment.items() if name not in hidden}
        variables["DAGSTER_IS_DEV_CLI"] = "1"  # as `dagster dev` says it
        command = (sys.executable, "-m", *module)
        return subprocess.Popen(command, cwd=self.folder, env=variables)  # noqa: S603  # our own


def browsing_command(plan: TournamentPlan) -> str:
    """Return the command that serves the pages of a tournament's project, as a person types it."""
    if plan.project.folder == Path.cwd().resolve():
        return "tournament ui"
    return f"tournament ui --config {shlex.quote(str(plan.shown_path))}"


def server_start(config: Path | None, environment: Mapping[str, str]) -> ServerStart:
    """Say what is served: the pages, and the daemon of schedules and sensors.

    Args:
        config: A config of the project; without it, the project is the folder that
            `TOURNAMENT_PROJECT` names, or the one that a person is in.
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
    return ServerStart(
        _OWN_DEFINITIONS if is_own else str(module),
        _OWN_LOCATION if is_own else str(module),
        project,
        {
            **environment,
            "DAGSTER_HOME": str(home),
            "TOURNAMENT_PROJECT": str(project),
            "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        },
    )


def with_pages_beside(start: ServerStart, port: int) -> ServerStart:
    """Let what extras add be served on the next free ports, and the definitions know where."""
    beside: dict[int, tuple[str, str]] = {}
    addresses: dict[str, str] = {}
    for extension, (name, (place, words)) in rows_by_extension("pages"):
        port = _free_port(port)
        beside[port] = (f"{extension.package.partition('.')[0]}.{place}", words)
        addresses[f"TOURNAMENT_{name.upper()}_URL"] = address_of("127.0.0.1", port)
    return replace(start, environment={**addresses, **start.environment}, beside=beside)


def _free_port(after: int) -> int:
    for port in range(after + 1, min(after + 100, 65536)):
        with suppress(InputError), listen("127.0.0.1", port):
            return port
    with listen("127.0.0.1", 0) as free:
        return int(free.getsockname()[1])


def serve(start: ServerStart, pages: tuple[str, int] | None) -> int:
    """Run the daemon, and serve the pages, until interrupted; return the exit code.

    Args:
        start: What is served.
        pages: The host and the port of the pages; None for the daemon alone, which then logs what
            it does.
    """
    with TemporaryDirectory(prefix="tournament_ui_") as folder, _one_interrupt():
        place = _code_place(Path(folder))
        workspace = Path(folder) / "workspace.yaml"
        location = {**place, "location_name": start.location}
        workspace.write_text(json.dumps({"load_from": [{"grpc_server": location}]}), "utf-8")
        level = "info" if pages is None else "warning"
        daemon = ("dagster._daemon", "run", "--workspace", str(workspace), "--log-level", level)
        code = _start_code(start, place)
        others: list[subprocess.Popen[bytes]] = []
        try:
            while not _answers(place):
                if code.poll() is not None:
                    raise WorkError("the server of the definitions ended; its message is above")
                time.sleep(0.1)
            if pages is not None:
                words = [*pages, workspace, start.location]
                words += [
                    word for port, (place, _) in start.beside.items() for word in (port, place)
                ]
                server = ("tournament_assets.graph.guarded_pages", *map(str, words))
                others.append(start.start(*server, keeps_token=True))
            others.append(start.start(*daemon))
            while all(each.poll() is None for each in others):
                if code.poll() is not None:
                    code = _start_code(start, place)
                time.sleep(0.5)
            return next(each.returncode for each in others if each.returncode is not None) or 1
        except KeyboardInterrupt:
            return 0
        finally:
            _end(others)
            _end([code])


def refuse_place(host: str, port: int, environment: Mapping[str, str]) -> None:
    """Refuse to serve pages where other machines need no token, or on a port that is taken."""
    require_access(host, environment.get(TOKEN_VARIABLE) or None, variable=TOKEN_VARIABLE)
    listen(host, port).close()


def _start_code(start: ServerStart, place: Mapping[str, Any]) -> "subprocess.Popen[bytes]":
    (option, value), *_ = place.items()
    served = ("--module-name", start.module, "--location-name", start.location)
    further = ("--use-python-environment-entry-point", "--inject-env-vars-from-instance")
    listening = (f"--{option}", str(value), "--log-level", "warning")
    return start.start("dagster", "code-server", "start", *served, *further, *listening)


def _code_place(folder: Path) -> dict[str, Any]:
    """Return where the definitions are served: at a socket of this user, where there are any."""
    path = str(folder / "code")
    if os.name == "posix" and len(path) < _LONGEST_SOCKET:
        return {"socket": path}
    return {"port": _free_port(65535), "host": "127.0.0.1"}


def _answers(place: Mapping[str, Any]) -> bool:
    try:
        if "socket" in place:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(place["socket"])
        else:
            socket.create_connection((place["host"], place["port"]), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def _one_interrupt() -> Iterator[None]:
    """Take Ctrl-C and SIGTERM as one interrupt, also where a script started us deaf to Ctrl-C."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        for number in signals:  # the end is not interrupted
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(processes: Iterable["subprocess.Popen[bytes]"]) -> None:
    """End processes together, by force where they take too long."""
    running = [process for process in processes if process.poll() is None]
    if os.name == "posix":  # elsewhere Ctrl-C has reached them
        for process in running:
            process.send_signal(signal.SIGINT)
    for process in running:
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


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
