from pathlib import Path

import yaml

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
