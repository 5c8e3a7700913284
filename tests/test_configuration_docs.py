import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tournament_assets.cli.configuration import render_page
from tournament_assets.tournament.judges import JudgeConfig

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"


def test_the_page_of_every_key_is_what_the_code_says() -> None:
    assert PAGE.read_text() == render_page(), (
        "run: tournament configuration > docs/configuration.md"
    )


def test_every_key_of_the_demo_is_on_the_page() -> None:
    page = PAGE.read_text()

    def check(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key not in ("strata", "dimensions", "families", "names"):
                    check(inner)
                assert f"`{key}`" in page, key
        for inner in value if isinstance(value, list) else ():
            check(inner)

    check(yaml.safe_load((PAGE.parents[1] / "configs" / "demo.yaml").read_text()))


def test_a_key_without_a_meaning_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JudgeConfig, "__doc__", "How the judge is asked.")
    with pytest.raises(ValueError, match="JudgeConfig does not say what domain, instructions"):
        render_page()


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tournament_assets", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("Usage: tournament ")
