import json
from pathlib import Path

from tournament_assets.storage.run_directory import find_runs


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
