"""A loader of an extra holds to the contract of all loaders."""

import shutil
from pathlib import Path

from tests.extras.copies import copy_of_package, run_script
from tests.projects import SmallProject
from tests.test_house import ROOT

EXTENSION = """
import sys
from pathlib import Path
from tests.projects import bank_rows, recorded_responses
from tests.responses.loader_contract import LoaderCase, PROMISES, check_edit_makes_out_of_date

def write(folder):
    (folder / "texts").mkdir()
    for row in recorded_responses("mixed"):
        (folder / "texts" / f"{row['prompt_id']}.txt").write_text(row["response"])

case = LoaderCase(
    name="text_files",
    keys={"folder": {"path": "texts"}},
    write=write,
    edit=lambda folder: (folder / "texts" / "recall-0.txt").write_text("Edited."),
    remove=lambda folder: (folder / "texts").rename(folder / "elsewhere"),
)
folder = Path(sys.argv[1])
for number, promise in enumerate((*PROMISES, check_edit_makes_out_of_date)):
    promise(case, folder / str(number))
    print(promise.__name__)
"""


def test_a_loader_of_an_extra_keeps_every_promise(tmp_path: Path) -> None:
    copy = copy_of_package(tmp_path)
    extra = copy / "extras" / "text_files"
    extra.mkdir()
    (extra / "__init__.py").write_text("")
    shutil.copy2(ROOT / "tests" / "extension_example" / "tournament_example" / "loaders.py", extra)
    shutil.copytree(ROOT / "tests", copy.parent / "tests")
    folder = tmp_path / "projects"
    folder.mkdir()
    lines = run_script(EXTENSION, copy, SmallProject(folder)).splitlines()
    assert "check_edit_makes_out_of_date" in lines
