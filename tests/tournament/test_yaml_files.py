import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.yaml_files import YamlDocument, parse_yaml, read_yaml


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Cat(Strict):
    kind: Literal["cat"]
    lives: int = 9


class Dog(Strict):
    kind: Literal["dog"]
    tricks: tuple[str, ...] = ()


class Bowl(Strict):
    litres: float


class Home(Strict):
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = Field(default=[], min_length=1)
    bowls: dict[str, float | Bowl | None] = {}


def problems_of(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "home.yaml").validate(Home, what="the home")
    return [problem.removeprefix("home.yaml:") for problem in caught.value.problems]


def test_the_members_of_a_union_have_no_name_in_the_file() -> None:
    text = "pets:\n- kind: dog\n  trick: [sit]\n- kind: cat\n  lives: many\n- {kind: cow}\n- {}\n"
    patterns = (
        r"3: .*'pets\.0\.trick'.*'tricks'\?",
        r"5: pets\.1\.lives .*'many'",
        r"6: pets\.2 .*'cow'.* cat, dog",
        r"7: pets\.3 .*None.* cat, dog",
    )
    for problem, pattern in zip(problems_of(text), patterns, strict=True):
        assert re.match(pattern, problem)


def test_a_union_without_a_tag_is_told_by_the_keys_of_its_models() -> None:
    problems = "\n".join(problems_of("bowls:\n  blue: {liters: 2}\n  red: 1\n"))
    assert re.search(r"\b2:.*'bowls\.blue\.liters'.*'litres'\?", problems)


def test_a_list_with_wrong_items_is_not_called_too_short_besides() -> None:
    assert len(problems_of("pets: [{}]")) == 1
    assert [problem.split(";")[0] for problem in problems_of("pets: []")] == ["1: pets is []"]


def test_every_key_that_stands_twice_is_told() -> None:
    with pytest.raises(InputError) as caught:
        parse_yaml("a: 1\nb: {c: 1,\n c: 2}\na: 2\n", "x.yaml")
    said = [re.findall(r"\d+|'\w'", problem) for problem in caught.value.problems]
    assert said == [["3", "'c'", "2"], ["4", "'a'", "1"]]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: [\n", 3),
        ("a: 1\n\x07", 2),
        ("a: 1\nb: !!python/object/apply:os.getcwd []\n", 2),
        ("a: 2024-13-45\n", 1),
        ("[" * 100_000, 1),
        ("{[1]: 2}\n", 1),
    ],
)
def test_what_is_no_safe_yaml_is_refused(text: str, line: int) -> None:
    with pytest.raises(InputError, match=rf"^x\.yaml:{line}: .*YAML$"):
        parse_yaml(text, "x.yaml")


def test_aliases_upon_aliases_are_read_at_once() -> None:
    names = "abcdefghijklmnopqrstuvwxyz"
    rows = [f"a: &a [{', '.join(['lol'] * 9)}]"]
    rows += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in pairwise(names)
    ]
    lines = parse_yaml("\n".join(rows), "x.yaml").lines
    assert len(lines) < 1000


def test_a_merged_key_has_the_line_of_what_it_is_merged_into() -> None:
    document = parse_yaml("base: &base\n  depth: 1\nother:\n  <<: *base\n", "x.yaml")
    assert document.values["other"] == {"depth": 1}
    assert document.line_of(("other", "depth")) == 3


def test_an_empty_text_holds_nothing(tmp_path: Path) -> None:
    assert parse_yaml("# nothing\n", "x.yaml") == YamlDocument("x.yaml", None, {})
    (tmp_path / "x.yaml").write_text("- 1\n")
    with pytest.raises(InputError, match=r"x\.yaml:1:.*recipe.*list"):
        read_yaml(tmp_path / "x.yaml", what="the recipe")
