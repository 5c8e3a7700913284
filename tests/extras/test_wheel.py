"""README's commands in their order, by the wheel alone, in a folder outside the clone.

The dependencies are those of the environment that runs the test; the package is not.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.browser.servers import free_port

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, install it alone, and return the folder of its programs."""
    outside = tmp_path_factory.mktemp("wheel")
    source = outside / "source"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tournament_assets", source / "tournament_assets", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(outside), str(source)], check=True)
    (wheel,) = outside.glob("*.whl")
    shutil.rmtree(source)
    venv.create(outside / "env", symlinks=True)
    programs = outside / "env" / "bin"
    python = ["--python", str(programs / "python")]
    subprocess.run([*pip, *python, "install", "--no-deps", str(wheel)], check=True)
    (packages,) = (outside / "env").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return programs


@pytest.fixture(scope="module")
def shell(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> "Shell":
    return Shell(installed, tmp_path_factory.mktemp("desk"))


class Shell:
    """A terminal outside the clone: its folder, and the programs that it finds first."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        kept.pop("DAGSTER_HOME", None)
        self.environment = kept | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self, command: str, url: str) -> Iterator[str]:
        """Run a server until it has answered, yield the answer, and stop it."""
        process = subprocess.Popen(
            # As a script starts what runs in the background: deaf to Ctrl-C.
            ["bash", "-ec", f"trap '' INT; exec {command}"],
            cwd=self.folder,
            env=self.environment,
            start_new_session=True,
        )
        try:
            yield _answer(url, process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=120)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _answer(url: str, process: "subprocess.Popen[bytes]") -> str:
    while process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310
            return str(answer.read().decode())
        time.sleep(0.2)
    raise AssertionError(f"{process.args!r} ended with {process.returncode}")


def shown(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_readme_is_one_page() -> None:
    assert len(README.split()) <= 650
    (config,) = shown("yaml")
    assert len(config.splitlines()) <= 14
    first, own = shown("console")
    assert first == "make real\n"  # its steps are those of tests/test_real_model.py
    assert len(own.splitlines()) == 4


def test_the_commands_of_the_readme_run_in_their_order(shell: Shell) -> None:
    assert str(ROOT) not in shell.run(
        "python -c 'import tournament_assets as ta; print(ta.__file__)'"
    )
    printed = shell.run(shown("console")[1])
    assert printed.count("report.html") >= 2
    reports = list(shell.folder.glob("mine/runs/*/report.html"))
    assert {path.parent.name.split("_")[0] for path in reports} == {"pilot", "headline"}


def test_the_config_of_the_readme_is_read_and_priced(shell: Shell) -> None:
    (config,) = shown("yaml")
    (shell.folder / "mine" / "configs" / "own.yaml").write_text(config)
    printed = shell.run("cd mine && tournament estimate --config configs/own.yaml --mode headline")
    assert "claude-sonnet-5" in printed
    assert "$" in printed


def test_battles_are_rated_and_the_ui_and_the_labels_are_served(shell: Shell) -> None:
    rated = shell.run("tournament battles rate mine/runs/headline_*/battles.parquet")
    assert "24 battles" in rated
    port = free_port()
    shell.folder /= "mine"
    with shell.serving(
        f"tournament ui --port {port}", f"http://127.0.0.1:{port}/server_info"
    ) as ui:
        assert "dagster_webserver_version" in ui
    label = "tournament label --config configs/mine.yaml --mode headline --rater ada --no-browser"
    with shell.serving(f"{label} --port {port}", f"http://127.0.0.1:{port}/") as page:
        assert "<html" in page
