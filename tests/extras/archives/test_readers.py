import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.extras.archives.builders import SmallArchive, documented, failed_document, make_archive
from tournament_assets.cli import main
from tournament_assets.extras.archives.readers import find_reader
from tournament_assets.extras.archives.rejudging import find_failed_judgings
from tournament_assets.foundation import extensions
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.extensions import Extension


@pytest.fixture
def exam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallArchive:
    """An archive of the harness whose reader the documentation prints."""
    package = tmp_path / "site" / "exam"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    page = documented("archives.md")
    bare = '\nROWS["bare"] = dict\n'
    (package / "archive_readers.py").write_text(page["exam/archive_readers.py"] + bare)
    monkeypatch.syspath_prepend(package.parent)
    installed = (Extension("exam", "exam", "exam-reader", version=tmp_path.name),)
    monkeypatch.setattr(extensions, "installed_extensions", lambda: installed)
    for name in ("exam", "exam.archive_readers"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    archive = make_archive(
        tmp_path / "exam",
        fill=False,
        reader="exam",
        models=[{"model_id": "ada", "folder": "vendor_ada-2"}],
        plan={"tasks": ["sums"], "runs": 3},
        conditions={},
    )
    graded = {"total": 0.75, "checks": {"passed": 1.0}, "mark": 0.5, "answer": "4"}
    archive.put("ada", "sums", "run1", graded)
    archive.put("ada", "sums", "run2", {"total": 0.2, "checks": {"passed": 0.2}})
    archive.put("ada", "sums", "run3", {"checks": {"passed": 1.2}})
    return archive


def test_a_package_can_bring_a_reader_in_thirty_lines(exam: SmallArchive) -> None:
    command = ["archive", "audit", str(exam.description_path), "--json"]
    values = json.loads(CliRunner().invoke(main, command, catch_exceptions=False).stdout)
    first, second, third = values["runs"]
    assert (first["score_checks"], first["judge_score"], first["is_at_ceiling"]) == (1, 0.5, True)
    assert (first["weighting"], second["weighting"]) == ("graded", "ungraded")
    assert (first["is_empty"], second["is_empty"], third["run_score"]) == (False, True, None)
    assert "checks.passed is 1.2" in third["problem"]
    assert (values["models"][0]["rule_checked"], values["models"][0]["off_rule"]) == (2, 0)


def test_a_reader_that_only_reads_has_nothing_judged_again(exam: SmallArchive) -> None:
    with pytest.raises(InputError, match="only reads"):
        list(find_failed_judgings(*exam.read()))


@pytest.mark.usefixtures("exam")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("exm", "expected one of clawbench, exam, bare"),
        ("bare", "is no reader"),
    ],
)
def test_a_reader_that_cannot_be_used_is_said(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        find_reader(name)


def test_an_error_of_a_reader_is_a_files_reason(archive: SmallArchive) -> None:
    archive.put("ada", "t1-add", "run1", {**failed_document(), "transcript": {"messages": 3}})
    (broken,) = archive.read()[1].broken
    assert "TypeError" in broken.reason
