import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.demo import ROOT
from tests.projects import ENTRANTS, make_project

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def shown(cell: Any) -> str:
    return "".join(output.get("data", {}).get("text/html", "") for output in cell["outputs"])


def test_the_notebook_is_kept_without_outputs() -> None:
    kept = json.loads(NOTEBOOK.read_text())
    nbformat.validate(kept)
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in code] == [([], None)] * len(code)


@pytest.mark.timeout(900)
def test_every_cell_of_the_notebook_runs_and_shows_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    project = make_project(tmp_path / "project", dimensions=["calibration"])
    # The demo's own run has tests of its own; here recorded responses stand in for its models.
    project.config_path.rename(project.config_path.with_name("demo.yaml"))
    (project.folder / "docs").mkdir()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(project.folder / "docs")}}
    NotebookClient(notebook, timeout=800, resources=resources).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    tournament, estimate, run, frame, ratings, gate = map(shown, code)
    assert ", ".join(ENTRANTS) in tournament
    assert "Nothing" in estimate
    assert run.index("data:image/svg+xml") < run.index("<table")
    assert "sloppy" in frame
    assert "davidson" in ratings
    assert "Undecided" in gate
