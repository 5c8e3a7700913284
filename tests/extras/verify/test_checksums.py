"""A run's files compared with the checksums that were written with them."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.projects import make_project
from tournament_assets.cli import main
from tournament_assets.storage.run_directory import CHECKSUMS, write_run_directory

FILES = {"manifest.json": b"{}\n", "verdicts/tone.jsonl": b"[1]\n[2]\n", "report.md": b"# Best\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run_directory(tmp_path, "pilot_20261104T101500Z", FILES.items()).folder


def verify(folder: Path) -> Result:
    return CliRunner().invoke(main, ["verify", str(folder)])


def rewrite(folder: Path, content: str) -> None:
    (folder / CHECKSUMS).write_bytes(content.encode())


def test_a_run_that_nobody_touched_is_unchanged(folder: Path) -> None:
    done = verify(folder)
    assert (done.exit_code, done.output) == (0, "SHA256SUMS: 3 files, all as they were written\n")


def test_a_finished_run_is_unchanged_until_a_word_of_its_report_is_another(tmp_path: Path) -> None:
    run = make_project(tmp_path / "project", dimensions=("factuality",)).run().directory
    assert verify(run).exit_code == 0
    report = (run / "report.md").read_text(encoding="utf-8")
    assert "undecided" in report
    (run / "report.md").write_text(report.replace("undecided", "equivalent"), encoding="utf-8")
    assert verify(run).output.startswith("changed: report.md\n")


def test_files_that_changed_are_gone_or_were_added_are_named(folder: Path) -> None:
    (folder / "report.md").write_text("# Equivalent\n")
    (folder / "verdicts" / "tone.jsonl").rename(folder / "verdicts" / CHECKSUMS)
    done = verify(folder)
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "changed: report.md",
        "added: verdicts/SHA256SUMS",
        "gone: verdicts/tone.jsonl",
        "SHA256SUMS: 3 files, 3 changed, gone or added",
    ]


@pytest.mark.parametrize("place", [0, 3, -1])
def test_any_byte_of_any_file_that_changed_is_noticed(folder: Path, place: int) -> None:
    for name, content in FILES.items():
        changed = bytearray(content)
        changed[min(place, len(content) - 1)] ^= 1
        (folder / name).write_bytes(changed)
        assert f"changed: {name}\n" in verify(folder).output
        (folder / name).write_bytes(content)
    assert verify(folder).exit_code == 0


def test_an_odd_name_is_shown_without_what_a_terminal_obeys(folder: Path) -> None:
    odd = ("two\nlines", "red\x1b[31m", "line\u2028end", "gr\u00fc\u00df", os.fsdecode(b"\xff"))
    for name in odd:
        (folder / name).touch()
    shown = verify(folder).output.splitlines()
    assert sorted(shown[:-1]) == sorted(
        f"added: {name}"
        for name in (r"'two\nlines'", r"'red\x1b[31m'", r"'line\u2028end'", "grüß", r"'\udcff'")
    )


def test_a_listed_name_with_odd_letters_is_one_name(tmp_path: Path) -> None:
    names = ("line\u2028end.md", "a  b.md", " grüß.md", "back\\slash.md")
    run = write_run_directory(tmp_path, "run", ((name, name.encode()) for name in names))
    assert verify(run.folder).exit_code == 0


def test_a_link_in_place_of_a_file_or_folder_is_no_file_of_the_run(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "report.md").rename(tmp_path / "report.md")
    (folder / "report.md").symlink_to(tmp_path / "report.md")
    (folder / "verdicts").rename(tmp_path / "verdicts")
    (folder / "verdicts").symlink_to(tmp_path / "verdicts")
    (folder / "broken").symlink_to(tmp_path / "nothing")
    os.mkfifo(folder / "pipe")
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    done = verify(folder)
    assert done.exit_code == 1
    assert done.output.splitlines()[:-1] == [
        "added: broken",
        "not a regular file: manifest.json",
        "added: pipe",
        "not a regular file: report.md",
        "added: verdicts",
        "gone: verdicts/tone.jsonl",
    ]


def test_the_run_itself_may_be_reached_by_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(folder)
    assert verify(tmp_path / "latest").exit_code == 0


def test_checksums_with_the_line_ends_of_windows_are_read(folder: Path) -> None:
    text = (folder / CHECKSUMS).read_text()
    rewrite(folder, text.replace("\n", "\r\n"))
    assert verify(folder).exit_code == 0
    (folder / "report.md").write_bytes(b"# Best\r\n")
    assert verify(folder).output.startswith("changed: report.md\n")


DIGEST = "0" * 64


@pytest.mark.parametrize(
    "line",
    [
        f"{DIGEST}  ../manifest.json",
        f"{DIGEST}  /etc/hostname",
        f"{DIGEST}  verdicts/../manifest.json",
        f"{DIGEST}  ./manifest.json",
        f"{DIGEST}  verdicts//tone.jsonl",
        f"{DIGEST}  report.md",
        f"{DIGEST}  SHA256SUMS",
        f"{DIGEST} other.md",
        f"{DIGEST[1:]}  other.md",
        f"{DIGEST}  ",
        "",
    ],
)
def test_a_line_that_is_no_checksum_of_a_file_of_the_run_is_bad_input(
    folder: Path, line: str
) -> None:
    rewrite(folder, f"{(folder / CHECKSUMS).read_text()}{line}\n")
    done = verify(folder)
    assert done.exit_code == 2
    assert f"{CHECKSUMS}:4: " in done.output


@pytest.mark.parametrize("content", ["", "\x00\x01\n" * 1_000])
def test_checksums_that_are_none_are_bad_input(folder: Path, content: str) -> None:
    rewrite(folder, content)
    done = verify(folder)
    assert done.exit_code == 2
    assert len(done.output.splitlines()) < 10


def test_a_folder_without_checksums_is_bad_input(folder: Path, tmp_path: Path) -> None:
    (folder / CHECKSUMS).unlink()
    for place in (folder, tmp_path / "nowhere"):
        done = verify(place)
        assert done.exit_code == 2
        assert str(place) in done.output
