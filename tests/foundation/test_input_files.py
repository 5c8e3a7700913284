import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.input_files import FileTooLargeError, read_input, read_input_text
from tournament_assets.storage import row_files
from tournament_assets.storage.row_files import parquet_rows, sample_file


@pytest.mark.parametrize("claims", [2**40, None])
def test_a_file_larger_than_its_kind_can_be_is_refused_whatever_it_claims(
    claims: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rubric.txt"
    with path.open("wb") as file:
        file.truncate(claims or 2 * 2**20)  # holds no block on the disk
    if claims is None:
        state = os.stat_result([0o100644, *[0] * 9])
        monkeypatch.setattr(os, "fstat", lambda _: state)  # as files of the kernel claim it
    with pytest.raises(FileTooLargeError, match="larger than 1 MiB"):
        read_input(path, most=2**20)


def test_a_text_is_read_as_pathlib_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "rubric.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\nf\xc3\xbcnf \xe2\x80\xa8")
    assert read_input_text(path) == path.read_text(encoding="utf-8-sig")


@pytest.mark.parametrize("column", ["rows", "lists"])
def test_a_parquet_of_countless_values_is_refused_before_they_are_built(
    column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "MOST_PARQUET_VALUES", 1000)
    n = 1_000_001
    values = pa.nulls(n, pa.string())
    if column == "lists":
        values = pa.ListArray.from_arrays([0, n], values)
    path = tmp_path / "battles.parquet"
    pq.write_table(pa.table({"model_a": values}), path, row_group_size=500_000)
    for read in (sample_file, lambda path: next(parquet_rows(path, None))):
        with pytest.raises(InputError, match=r"1,000,001 values in .* expected at most 1,000;"):
            read(path)


def test_a_parquet_as_large_as_its_values_is_read_however_many_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "MOST_PARQUET_VALUES", 1000)
    path = tmp_path / "battles.parquet"
    pq.write_table(pa.table({"model_a": [f"model {number}" for number in range(5000)]}), path)
    assert sample_file(path).columns == {"model_a"}
    assert sum(1 for _ in parquet_rows(path, None)) == 5000
