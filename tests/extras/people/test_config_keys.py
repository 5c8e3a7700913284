from pathlib import Path

import pytest

from tests.project.test_config_files import GOOD, load, path, problems_of
from tournament_assets.extras.people.config_keys import people_keys

__all__ = ["path"]

ARENA = """\
human_battles:
  file: {path: arena.jsonl}
  format: lmarena
  min_battles: 50
  names:
    ada-7b: ada
    bob-13b: bob
"""


def test_human_battles_are_read_and_may_be_absent(path: Path) -> None:
    found = people_keys(load(path, f"{GOOD}{ARENA}").config).human_battles
    assert found is not None
    assert (found.file.path, found.format, found.min_battles) == ("arena.jsonl", "lmarena", 50)
    assert found.names == {"ada-7b": "ada", "bob-13b": "bob"}
    assert people_keys(load(path, GOOD).config).human_battles is None


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("  format: lmarena", "  formt: lmarena", "did you mean 'format'?"),
        ("{path: arena.jsonl}", "{pth: arena.jsonl}", "unknown key 'human_battles.file.pth'"),
        ("lmarena", "chatbot", "30: human_battles.format is 'chatbot'; expected one of tourn"),
        ("min_battles: 50", "min_battles: 0", "31: human_battles.min_battles is 0; expected it to"),
        (
            "ada-7b: ada",
            "ada-7b: eve",
            "33: human_battles.names.ada-7b: 'ada-7b' stands for entrant 'eve'; expected one of",
        ),
        (
            "bob-13b: bob",
            "bob-13b: ada",
            "34: human_battles.names.bob-13b: 'bob-13b' and 'ada-7b' both stand for entrant 'ada'",
        ),
        ("  file: {path: arena.jsonl}\n", "", "human_battles.file is missing; add it"),
    ],
)
def test_what_is_wrong_with_human_battles_is_told_with_its_line(
    path: Path, old: str, new: str, problem: str
) -> None:
    assert ARENA.count(old) == 1
    problems = problems_of(path, GOOD + ARENA.replace(old, new))
    assert [each for each in problems if problem in each], problems
