import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.yaml_files import YamlDocument, parse_yaml, read_yaml


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
        r"7: pets\.3 has no kind; .* cat, dog",
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


def nested_aliases(*, width: int, depth: int) -> str:
    """Return lists of lists, each written once and named by the next `width` times."""
    rows = [f"a0: &a0 [{', '.join(['x'] * width)}]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, depth)]
    return "\n".join(rows)


def count_values(values: Any) -> int:
    """Count what a document holds, with every alias written out, one by one."""
    if isinstance(values, dict):
        return 1 + sum(1 + count_values(value) for value in values.values())
    return 1 + sum(map(count_values, values)) if isinstance(values, list) else 1


@pytest.mark.parametrize("end", ["", "\nb: *a25", "\nb: {<<: *a25}"])
def test_aliases_of_aliases_are_refused_where_they_become_too_many(end: str) -> None:
    with pytest.raises(InputError, match=r"^x\.yaml:6: alias \*a4 .* at most 100,000") as caught:
        parse_yaml(nested_aliases(width=9, depth=26) + end, "x.yaml")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("more", "is_read"), [(0, True), (1, False)])
def test_a_hundred_thousand_values_are_read_and_no_more(more: int, is_read: bool) -> None:
    # The document, three keys, two lists and their 999 and `plain` items; then 98 times 1000.
    plain = 100_000 - (1 + 3 + 2 + 999) - 98 * 1000 - 1 + more
    texts = ["a: &a [", ", ".join(["x"] * 999), "]\nb: [", ", ".join(["y"] * plain), "]\nc: ["]
    text = "".join([*texts, ", ".join(["*a"] * 98), "]"])
    if is_read:
        assert count_values(parse_yaml(text, "x.yaml").values) == 100_000
    else:
        with pytest.raises(InputError, match=r"alias \*a brings the values to 100,001"):
            parse_yaml(text, "x.yaml")


def test_a_text_that_aliases_repeat_counts_by_its_length() -> None:
    text = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]"
    with pytest.raises(InputError, match=r"^x\.yaml:2: alias \*a "):
        parse_yaml(text, "x.yaml")
    assert parse_yaml(text.replace("x" * 100_000, "x"), "x.yaml").values["b"] == ["x"] * 1000


@pytest.mark.parametrize("text", ["a: &a [1, *a]", "a: &a {b: {c: *a}}", "&a a: 1\n? &b [*b]\n: 2"])
def test_an_alias_inside_of_what_it_stands_for_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^x\.yaml:\d: alias \*[ab] .*no end"):
        parse_yaml(text, "x.yaml")


def test_a_long_list_without_aliases_is_read() -> None:
    assert len(parse_yaml("- x\n" * 100_001, "x.yaml").values) == 100_001


def test_a_merged_key_has_the_line_of_what_it_is_merged_into() -> None:
    document = parse_yaml("base: &base\n  depth: 1\nother:\n  <<: *base\n", "x.yaml")
    assert document.values["other"] == {"depth": 1}
    assert document.line_of(("other", "depth")) == 3


def test_an_empty_text_holds_nothing(tmp_path: Path) -> None:
    assert parse_yaml("# nothing\n", "x.yaml") == YamlDocument("x.yaml", None, {})
    (tmp_path / "x.yaml").write_text("- 1\n")
    with pytest.raises(InputError, match=r"x\.yaml:1:.*recipe.*list"):
        read_yaml(tmp_path / "x.yaml", what="the recipe")


def test_a_wrong_value_of_any_length_is_named_in_few_words() -> None:
    (problem,) = problems_of(f"pets: [{{kind: cat, lives: [{', '.join(['9'] * 5000)}]}}]")
    assert problem.startswith("1: pets.0.lives is [9, 9, ")
    assert len(problem) < 500
