"""The example of an arena's days on Dagster's partitions, by two workers at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.battles.builders import write_lines
from tournament_assets.cli.battles import battles_group
from tournament_assets.graph.local_runs import open_instance

ROOT = Path(__file__).parents[2]
DAYS = ("2026-01-01", "2026-01-02")


@pytest.mark.e2e
def test_days_counted_by_two_workers_rate_as_their_files_together(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with open_instance(tmp_path / "home"):
        pass  # Dagster does not expect two workers to make a home's tables at once.
    for place, day in enumerate(DAYS):
        winners = ("model_a", "model_b", "tie", "model_a")
        rows = [
            {"model_a": "ada", "model_b": "bob", "winner": winners[(n + place) % 4]}
            | {"question_id": f"q{n}", "source": "human"}
            for n in range(20)
        ]
        write_lines(tmp_path / f"{day}.parquet", *rows)  # whatever its name, lines of JSON

    def begin(*options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dagster", "asset", "materialize", *options]
        environment = {
            **os.environ,
            "ARENA_FOLDER": str(tmp_path),
            "DAGSTER_HOME": str(tmp_path / "home"),
        }
        file = ["-f", str(ROOT / "configs" / "examples" / "arena_days.py")]
        return subprocess.Popen([*command, *file], env=environment, cwd=ROOT)

    workers = [begin("--select", "day_counts", "--partition", day) for day in DAYS]
    assert [worker.wait() for worker in workers] == [0, 0]
    assert begin("--select", "arena_ratings").wait() == 0
    added = json.loads((tmp_path / "ratings.json").read_text(encoding="utf-8"))
    files = [str(tmp_path / f"{day}.parquet") for day in DAYS]
    options = ["--save-counts", str(tmp_path / "both"), "--json"]
    done = CliRunner().invoke(battles_group, ["rate", *files, *options])
    assert added["ratings"] == json.loads(done.output)["ratings"]
    assert added["ratings"][0]["counts"]["battles"] == 40
