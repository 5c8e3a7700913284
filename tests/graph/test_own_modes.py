from pathlib import Path

from tests.projects import make_project
from tournament_assets.storage.run_directory import find_runs


def test_a_mode_of_ones_own_runs_beside_the_others_and_leaves_its_own_run(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    nightly = {"judge_model": "loopback-lexical", "judge": {"service": "loopback"}, "share": 0.5}
    project.edit_config(
        judge={"service": "anthropic", "poll_initial_seconds": 0.05, "poll_max_seconds": 0.2},
        pilot={"judge_model": "claude-opus-5-5", "strata": {"recall": 1}},
        headline={"judge_model": "claude-opus-5-5"},
        modes={"nightly": nightly},
    )
    summary = project.run("nightly", environment=project.environment)
    assert set(summary.leaderboard["dimension"]) == {"factuality"}
    assert summary.directory.name.startswith("nightly_")
    found = find_runs(project.folder / "runs", tournament_id="small", mode="nightly")
    assert found.directories == (summary.directory,)
    assert found.problems == ()
    manifest = (summary.directory / "manifest.json").read_text()
    assert '"mode": "nightly"' in manifest
    assert "--mode nightly" in manifest
    kept = {path.stem for path in (project.folder / "storage").rglob("leaderboard/*")}
    assert kept == {"nightly"}
    assert "loopback" in summary.leaderboard["judge"][0]
