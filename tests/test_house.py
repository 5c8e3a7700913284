import ast
import re
import tomllib
from pathlib import Path

from tests.changed import places_to_test

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tournament_assets"


def modules_by_folder() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        if not path.name.startswith("__"):
            folder = path.parent.relative_to(PACKAGE).as_posix()
            found.setdefault(folder, set()).add(path.stem)
    return found


def test_no_folder_is_crowded() -> None:
    assert max(map(len, modules_by_folder().values())) <= 20


def test_every_folder_has_its_floor() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    floors = {name for layer in layers for name in re.findall(r"\w+", layer)}
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("[!_]*.py")}
    assert folders | modules == floors


def test_a_wheel_holds_every_file_of_the_package() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = config["tool"]["setuptools"]["package-data"]["tournament_assets"]
    held = {path for pattern in ("**/*.py", *patterns) for path in PACKAGE.glob(pattern)}
    files = {each for each in PACKAGE.rglob("*") if each.is_file()}
    assert [each for each in files - held if "__pycache__" not in each.parts] == []


def test_the_tests_of_the_core_know_no_extra() -> None:
    tests = ROOT / "tests"
    imports = re.compile(r"^\s*(?:from|import) (?:tests|tournament_assets)\.extras\b", re.MULTILINE)
    found = [path for path in tests.rglob("*.py") if imports.search(path.read_text("utf-8"))]
    assert [path for path in found if not path.is_relative_to(tests / "extras")] == []


def test_a_changed_file_leads_to_its_tests() -> None:
    expected = {
        "tournament_assets/ratings/elo.py": ["tests/ratings"],
        "tournament_assets/judging/costs/prices.py": ["tests/judging"],
        "tests/ratings/builders.py": ["tests/ratings"],
        "tests/test_demo.py": ["tests/test_demo.py"],
        "tests/projects.py": ["tests/test_house.py"],
        "tests/test_that_was_deleted.py": [],
        "README.md": [],  # then this file is run alone
    }
    assert {file: places_to_test([file]) for file in expected} == expected
    module = "tournament_assets/definitions.py"
    assert places_to_test([module, *expected]) == sorted(
        {"tests/test_definitions.py", *(each for places in expected.values() for each in places)}
    )


def test_the_steps_of_a_pair_are_short_functions_that_stand_where_the_links_lead() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, steps = text.partition("## One pair, from its prompt to the page")
    links = re.findall(
        r"^\d+\. \[`(\w+)`\]\(\.\./(\S+)\):", steps.partition("\n## ")[0], re.MULTILINE
    )
    assert len(links) >= 12
    for name, path in links:
        source = (ROOT / path).read_text(encoding="utf-8")
        (step,) = (
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef) and node.name == name
        )
        said = ast.get_docstring(step, clean=False) or ""
        lines = len((ast.get_source_segment(source, step) or "").splitlines())
        assert 1 < lines - len(said.splitlines()) <= 25, name


def imports_inside_functions(source: str) -> set[int]:
    return {
        node.lineno
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }


def test_few_imports_stand_inside_functions() -> None:
    sources = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    counts = {path: len(imports_inside_functions(text)) for path, text in sources.items()}
    assert sum(counts.values()) <= 60, {path: n for path, n in counts.items() if n}
    nested = "import a\ndef f():\n    import b\n    async def g():\n        from c import d\n"
    assert imports_inside_functions(nested) == {3, 5}


def test_a_tolerance_below_a_billionth_has_its_reason_beside_it() -> None:
    places = []
    for folder in ("tournament_assets", "tests", "benchmarks", "scripts"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            lines = [
                node.lineno
                for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.Constant)
                and isinstance(node.value, float)
                and 0 < node.value < 1e-9
            ]
            # A comment in the line or in one of the three above, or a docstring below.
            texts = ["", "", "", *source.splitlines(), ""]
            places += [
                f"{path.relative_to(ROOT)}:{line}"
                for line in lines
                if not any("#" in text for text in texts[line - 1 : line + 3])
                and not texts[line + 3].startswith('"""')
            ]
    assert places == []


def test_a_stored_row_becomes_a_settled_pair_in_one_way() -> None:
    # Whoever builds a judgment field by field can leave one out: once it was the weight.
    sources = {
        str(path.relative_to(PACKAGE)): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")
    }
    of_judgment = re.compile(r"^class (\w+)\(Judgment\):", re.MULTILINE)
    kinds = {"Judgment", *(name for text in sources.values() for name in of_judgment.findall(text))}
    assert kinds == {"Judgment", "PairReading", "SettledPair"}
    built, read_whole = [], set()
    for place, text in sources.items():
        # A class of the same name that is no judgment is another module's own.
        own = {name for name in kinds if not re.search(rf"^class {name}:", text, re.MULTILINE)}
        for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
            of, *rest = (
                each.id if isinstance(each, ast.Name) else "" for each in (call.func, *call.args)
            )
            if of in own:
                built.append(f"{place}:{call.lineno}")
            if of == "rows_of" and {*rest} & own:
                read_whole.add(place)
    assert built == []
    # A table's columns are read by the names of the fields, every one of them.
    assert read_whole == {"verdicts/table_rows.py"}
