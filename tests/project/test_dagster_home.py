from pathlib import Path

import dagster as dg
import yaml
from dagster._core.scheduler.instigation import InstigatorType, TickStatus

from tournament_assets.project.project_files import prepare_dagster_home


def test_a_project_gets_a_home_of_its_own_with_settings(tmp_path: Path) -> None:
    home = prepare_dagster_home(tmp_path, None)
    assert home == (tmp_path / ".dagster_home").resolve()
    settings = yaml.safe_load((home / "dagster.yaml").read_text(encoding="utf-8"))
    assert settings["telemetry"] == {"enabled": False}
    assert [path.name for path in home.iterdir()] == ["dagster.yaml"]


def test_a_home_that_is_configured_is_used(tmp_path: Path) -> None:
    home = prepare_dagster_home(tmp_path / "project", str(tmp_path / "a" / "home"))
    assert home == (tmp_path / "a" / "home").resolve()
    assert (home / "dagster.yaml").is_file()
    assert not (tmp_path / "project").exists()


def test_settings_that_are_there_stay(tmp_path: Path) -> None:
    home = prepare_dagster_home(tmp_path, None)
    (home / "dagster.yaml").write_text("mine: true\n", encoding="utf-8")
    prepare_dagster_home(tmp_path, None)
    assert (home / "dagster.yaml").read_text(encoding="utf-8") == "mine: true\n"


def test_what_nobody_looks_at_any_more_is_purged_and_runs_wait_in_line(tmp_path: Path) -> None:
    home = prepare_dagster_home(tmp_path, None)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        sensors = instance.get_tick_retention_settings(InstigatorType.SENSOR)
        schedules = instance.get_tick_retention_settings(InstigatorType.SCHEDULE)
        queue = instance.get_concurrency_config().run_queue_config
        assert sensors[TickStatus.SKIPPED] == 1
        assert set(schedules.values()) == {90}
        assert all(days > 0 for days in sensors.values())
        assert queue is not None
        assert queue.max_concurrent_runs == 4
        assert instance.python_log_level == "INFO"
