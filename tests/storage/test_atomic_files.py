import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from upath import UPath

from tournament_assets.storage.atomic_files import write_bytes_atomically


def test_a_file_and_its_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "table.parquet"
    write_bytes_atomically(path, b"content")
    assert path.read_bytes() == b"content"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    write_bytes_atomically(path, b"a long first content")
    write_bytes_atomically(path, b"short")
    assert path.read_bytes() == b"short"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    write_bytes_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_bytes_atomically(path, "no bytes")  # type: ignore[arg-type]  # that is the point
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_rename_that_fails_leaves_no_part(tmp_path: Path) -> None:
    folder = tmp_path / "table.parquet"
    (folder / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match=r"table\.parquet"):
        write_bytes_atomically(folder, b"content")
    assert list(tmp_path.iterdir()) == [folder]


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    whole = {letter * 300_000 for letter in (b"a", b"b")}
    write_bytes_atomically(path, next(iter(whole)))
    seen: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_bytes())

    with ThreadPoolExecutor() as pool:
        reading = pool.submit(read)
        try:
            for content in [*whole] * 20:
                write_bytes_atomically(path, content)
        finally:
            done.set()
        reading.result(timeout=60)
    assert seen <= whole


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_local_file_may_be_named_by_a_url(tmp_path: Path, scheme: str) -> None:
    write_bytes_atomically(UPath(f"{scheme}{tmp_path}/sub/table.parquet"), b"content")
    assert (tmp_path / "sub" / "table.parquet").read_bytes() == b"content"
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["table.parquet"]


def test_an_object_store_gets_the_object_itself() -> None:
    path = UPath("memory://atomic-files/table.parquet")
    write_bytes_atomically(path, b"content")
    assert path.read_bytes() == b"content"
    assert [found.name for found in path.parent.iterdir()] == ["table.parquet"]
