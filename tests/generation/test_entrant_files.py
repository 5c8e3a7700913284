from pathlib import Path

import pytest

from tournament_assets.generation.models.entrant_weights import (
    LFS_PREFIX,
    EntrantFiles,
    find_shards,
    fingerprint_file,
    fingerprint_weights,
)
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.hydra_entrants import NeededShards
from tournament_assets.tournament.places import Location

from .builders import TINY
from .hydra_projects import write_heads

HERE = Location(path="heads", source="the authors' page")


def needed(*names: str) -> NeededShards:
    return NeededShards(folder=HERE, names=names)


def test_files_are_found_in_the_order_of_the_heads(tmp_path: Path) -> None:
    for name in ("b.pt", "a.pt"):
        (tmp_path / name).write_bytes(b"x")
    found = find_shards(needed("b.pt", "a.pt"), tmp_path, what="shards")
    assert [path.name for path in found] == ["b.pt", "a.pt"]


def test_a_wildcard_leads_to_one_file(tmp_path: Path) -> None:
    for run in ("one", "two"):
        (tmp_path / "shard_0" / run).mkdir(parents=True)
    (tmp_path / "shard_0" / "one" / "step_5.pt").write_bytes(b"x")
    (found,) = find_shards(needed("shard_0/*/step_5.pt"), tmp_path, what="shards")
    assert found == tmp_path / "shard_0" / "one" / "step_5.pt"
    (tmp_path / "shard_0" / "two" / "step_5.pt").write_bytes(b"x")
    with pytest.raises(InputError, match=r"2 files in .* are called 'shard_0/[*]/step_5.pt'"):
        find_shards(needed("shard_0/*/step_5.pt"), tmp_path, what="shards")


def test_all_that_is_missing_is_told_at_once_with_where_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "shard_1.pt").write_bytes(LFS_PREFIX + b"/spec/v1\noid sha256:00\nsize 1\n")
    names = [f"shard_{head}.pt" for head in range(6)]
    with pytest.raises(InputError) as raised:
        find_shards(needed(*names), tmp_path, what="the security shards of poe")
    pointer, missing = raised.value.problems
    assert "shard_1.pt' is a Git-LFS pointer" in pointer
    assert "lacks 5 of 6 files, shard_0.pt, shard_2.pt, shard_3.pt, …" in missing
    assert "get them from the authors' page" in missing
    assert missing.startswith("the security shards of poe: ")


def test_the_fingerprint_counts_every_shard_and_the_order_of_the_heads(tmp_path: Path) -> None:
    files = write_heads(tmp_path)
    assert EntrantFiles(TINY).fingerprint == fingerprint_weights(TINY)
    security = list(files.shards["security"])
    swapped = EntrantFiles(TINY, {**files.shards, "security": security[::-1]})
    fewer = EntrantFiles(TINY, {"security": security})
    assert len({files.fingerprint, swapped.fingerprint, fewer.fingerprint}) == 3
    before = files.fingerprint
    security[2].write_bytes(security[2].read_bytes()[:-1] + b"?")
    assert files.fingerprint != before


def test_a_file_is_read_again_only_after_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    first = fingerprint_file(path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda *args, **kwargs: pytest.fail("read again"))
        assert fingerprint_file(path) == first
    path.write_bytes(b"another")
    assert fingerprint_file(path) != first
