"""The package without one of its extras, or without any: what is left runs as before."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.extras.copies import copy_of_package, run_script
from tests.projects import make_project
from tournament_assets.foundation.extensions import installed_extras

SCRIPT = """
import sys
from pathlib import Path
import tournament_assets as ta
from tournament_assets.cli import main
from tournament_assets.definitions import load_project
from tournament_assets.foundation.extensions import installed_extras

folder = Path(sys.argv[1])
print(ta.__file__)
print(*installed_extras())
print(*(each.name for each in load_project(folder, {}, strict=True).resolve_all_job_defs()))
run = ta.load(folder / "configs" / "small.yaml", environment={}).run("pilot", record=False)
print((run.directory / "report.html").is_file(), len(run.frame))
sys.argv = ["tournament", "--help"]
main()
"""


@pytest.mark.parametrize(
    "deleted",
    [
        pytest.param(installed_extras(), id="all"),
        *(pytest.param((name,), id=name, marks=pytest.mark.e2e) for name in installed_extras()),
    ],
)
def test_what_is_left_loads_and_runs(deleted: Sequence[str], tmp_path: Path) -> None:
    copy = copy_of_package(tmp_path)
    for name in deleted:
        shutil.rmtree(copy / "extras" / name)
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    file, extras, jobs, run, *listed = run_script(SCRIPT, copy, project).splitlines()
    assert Path(file).parent == copy
    assert extras.split() == [name for name in installed_extras() if name not in deleted]
    assert "small_run" in jobs.split()
    assert run == "True 3"
    assert any(line.split()[:1] == ["run"] for line in listed)
