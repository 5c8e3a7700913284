import hashlib
import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import pytest

from tournament_assets.storage.run_directory import (
    CHECKSUMS,
    FileContent,
    find_runs,
    run_directory_name,
    write_run_directory,
)

NAME = "pilot_20261104T101500Z"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != CHECKSUMS
    }


def write_files(parent: Path, files: Mapping[str, FileContent]) -> Path:
    return write_run_directory(parent, NAME, files.items()).folder


def test_the_name_holds_the_mode_and_the_time() -> None:
    assert run_directory_name("pilot", datetime(2026, 11, 4, 10, 15, tzinfo=UTC)) == NAME


def test_only_its_owner_reads_a_run(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "runs", {"manifest.json": b"{}"})
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_directory_holds_every_file_and_nothing_else_is_left(tmp_path: Path) -> None:
    files: dict[str, FileContent] = {
        "manifest.json": b"{}",
        "matches/matches.jsonl": b"[]\n",
        "verdicts/a/b.jsonl": b"",
    }
    folder = write_files(tmp_path / "runs", files)
    assert folder == tmp_path / "runs" / NAME
    assert contents(folder) == files
    assert list((tmp_path / "runs").iterdir()) == [folder]


@pytest.mark.parametrize(
    "files",
    [
        {"a.json": b"good", "b.json": "no bytes"},
        {"a": b"a file", "a/b": b"needs a to be a folder"},
    ],
)
def test_a_write_that_fails_leaves_nothing(tmp_path: Path, files: dict[str, FileContent]) -> None:
    with pytest.raises((TypeError, OSError)):
        write_files(tmp_path, files)
    assert list(tmp_path.iterdir()) == []


def test_a_taken_name_gets_a_number_and_no_run_is_overwritten(tmp_path: Path) -> None:
    folders = [
        write_files(tmp_path, {"manifest.json": content})
        for content in (b"first", b"second", b"third")
    ]
    assert [folder.name for folder in folders] == [NAME, f"{NAME}_2", f"{NAME}_3"]
    assert [contents(folder) for folder in folders] == [
        {"manifest.json": b"first"},
        {"manifest.json": b"second"},
        {"manifest.json": b"third"},
    ]
    assert set(tmp_path.iterdir()) == set(folders)


def test_a_file_of_that_name_is_not_overwritten_either(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"a file")
    assert write_files(tmp_path, {"a": b""}).name == f"{NAME}_2"
    assert (tmp_path / NAME).read_bytes() == b"a file"


def test_runs_that_end_in_the_same_second_get_directories_of_their_own(tmp_path: Path) -> None:
    start = threading.Barrier(4)

    def write(number: int) -> Path:
        start.wait(timeout=60)
        return write_files(tmp_path, {"number": str(number).encode()})

    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(write, range(4), timeout=120))
    assert len(set(folders)) == 4
    assert [contents(folder)["number"] for folder in folders] == [b"0", b"1", b"2", b"3"]


def test_a_file_that_writes_itself_is_counted_and_hashed_like_any_other(tmp_path: Path) -> None:
    def write(file: IO[bytes]) -> None:
        for part in (b"first\n", b"second\n"):
            file.write(part)

    written = write_run_directory(tmp_path, NAME, [("parts", write), ("whole", b"third")])
    assert contents(written.folder) == {"parts": b"first\nsecond\n", "whole": b"third"}
    assert written.fingerprints == {
        name: hashlib.sha256(content).hexdigest()
        for name, content in contents(written.folder).items()
    }
    sums = (written.folder / CHECKSUMS).read_text()
    assert dict(line.split("  ")[::-1] for line in sums.splitlines()) == written.fingerprints
    assert written.n_bytes == 18 + len(sums)


def make_run(folder: Path, name: str, finished_at: object, *, tournament: str = "demo") -> Path:
    directory = folder / name
    directory.mkdir()
    mode = name.lstrip(".").split("_")[0]
    manifest = {"tournament": tournament, "mode": mode, "finished_at": finished_at}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


def test_runs_are_ordered_by_when_they_finished_and_not_by_name(tmp_path: Path) -> None:
    late = make_run(tmp_path, "pilot_a", "2026-11-04T10:00:01+00:00")
    early = make_run(tmp_path, "pilot_b", "2026-11-04T11:00:00+02:00")
    found = find_runs(tmp_path, tournament_id="demo", mode="pilot")
    assert found.directories == (early, late)
    assert found.before(late) == early
    assert found.before(early) is None
    assert found.before(tmp_path) is None


def test_of_runs_that_finished_at_the_same_time_the_numbered_ones_are_later(tmp_path: Path) -> None:
    names = ["pilot_x", *(f"pilot_x_{number}" for number in range(2, 12))]
    made = [make_run(tmp_path, name, "2026-11-04T10:00:00+00:00") for name in names]
    assert find_runs(tmp_path, tournament_id="demo", mode="pilot").directories == tuple(made)


def test_other_tournaments_modes_and_unfinished_directories_are_left_out(tmp_path: Path) -> None:
    own = make_run(tmp_path, "pilot_1", "2026-11-04T10:00:00+00:00")
    make_run(tmp_path, "pilot_2", "2026-11-04T10:00:00+00:00", tournament="other")
    make_run(tmp_path, "headline_1", "2026-11-04T10:00:00+00:00")
    make_run(tmp_path, ".pilot_3.ab.partial", "2026-11-04T10:00:00+00:00")
    (tmp_path / "pilot_4").mkdir()
    found = find_runs(tmp_path, tournament_id="demo", mode="pilot")
    assert found.directories == (own,)
    assert found.problems == ()


def test_manifests_that_do_not_say_when_are_named(tmp_path: Path) -> None:
    make_run(tmp_path, "pilot_1", "yesterday")
    make_run(tmp_path, "pilot_2", 7)
    (make_run(tmp_path, "pilot_3", "") / "manifest.json").write_bytes(b"\xff")
    (make_run(tmp_path, "headline_1", "") / "manifest.json").write_text("[]")
    found = find_runs(tmp_path, tournament_id="demo", mode="pilot")
    assert found.directories == ()
    assert [problem.split()[0] for problem in found.problems] == ["pilot_1", "pilot_2", "pilot_3"]


def test_a_folder_that_is_not_there_holds_no_runs(tmp_path: Path) -> None:
    assert find_runs(tmp_path / "runs", tournament_id="demo", mode="pilot").directories == ()
