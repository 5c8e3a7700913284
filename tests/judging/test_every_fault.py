"""Every fault that the loopback judge knows is met by a run somewhere in `tests/judging/faults`."""

import ast
from pathlib import Path

from tests.loopback.faults.catalogue import CATALOGUE

_FAULT_TESTS = Path(__file__).parent / "faults"


def faults_used(path: Path) -> set[str]:
    """Return the names of faults that are written in a file of tests, with a number or without."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {text.partition(":")[0] for text in texts} & CATALOGUE.keys()


def test_every_fault_of_the_catalogue_is_met_by_a_run() -> None:
    used = set().union(*(faults_used(path) for path in _FAULT_TESTS.glob("test_*.py")))
    assert CATALOGUE.keys() - used == set(), f"say in {_FAULT_TESTS} what a run does about it"
