"""Names of files that a terminal would obey, as every command that prints them shows them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects import make_project

NAME = "a\x1b[31m\u202eb\nc\x07"
SHOWN = "a\\x1b[31m\\u202eb\\nc\\x07"


def run(*arguments: str | Path, folder: Path) -> str:
    words = [sys.executable, "-m", "tournament_assets", *map(str, arguments)]
    done = subprocess.run(words, cwd=folder, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode()


def votes(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def vote(number: int) -> dict[str, str]:
    names = {"model_a": "ada", "model_b": "bob", "source": "human"}
    return {**names, "question_id": f"q{number}", "winner": f"model_{'ab'[number % 2]}"}


PROJECT = ("estimate", "run", "rejudge --mode pilot", "plan", "ledger recover")


@pytest.mark.parametrize(
    "command",
    [
        "battles import VOTES --out OUT",
        "battles rate VOTES --n-bootstraps 40 --n-permutations 4",
        "battles rate BROKEN",
        "battles rate MISSING",
        "bank validate VOTES",
        "bank import VOTES --out OUT",
        "verify MISSING",
        "site MISSING --out OUT",
        "compare MISSING MISSING",
        *(f"{words} --config MISSING" for words in PROJECT),
        *(f"{words} --config CONFIG" for words in ("estimate", "run --mode pilot", "doctor")),
        "export MISSING",
        "label import --config MISSING VOTES",
        "init OUT",
        "init CONFIG",
    ],
)
def test_no_command_lets_the_name_of_a_file_speak_to_the_terminal(
    command: str, tmp_path: Path
) -> None:
    broken = make_project(tmp_path / "project", dimensions=("factuality",)).config_path
    config = broken.rename(broken.with_name(f"{NAME}.yaml"))
    config.write_text(config.read_text() + "no_such_key: 1\n")
    places = {
        "VOTES": votes(tmp_path / f"{NAME}.jsonl", *map(vote, range(9))),
        "BROKEN": votes(tmp_path / f"{NAME}_broken.jsonl", "no battle"),
        "MISSING": tmp_path / f"{NAME}_missing",
        "OUT": tmp_path / f"{NAME}.parquet",
        "CONFIG": config,
    }
    printed = run(*(places.get(word, word) for word in command.split()), folder=tmp_path)
    assert "Traceback" not in printed
    assert all(character.isprintable() or character in "\n\t" for character in printed), printed
    assert SHOWN.split("\\n")[0] in printed
    assert "\nc\\x07" not in printed, "a line that the name began"
