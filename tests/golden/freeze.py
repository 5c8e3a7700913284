"""Freezes the numbers of cases anew, after a change on purpose: `python -m tests.golden.freeze`.

Prints every number that moved. `python -m tests.golden.freeze demo jury` freezes these two alone;
commit what it writes with the reason, apart from other changes.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.golden import numbers
from tests.golden.cases import CASES

FROZEN = Path(__file__).parent / "numbers"


def main(names: Sequence[str]) -> None:
    """Make the numbers of cases, say what moved, and keep them."""
    for name in names or CASES:
        with tempfile.TemporaryDirectory() as folder:
            found = CASES[name](Path(folder) / "project")
        moved = numbers.moved(numbers.read(FROZEN / name), found)
        numbers.write(FROZEN / name, found)
        lines = [f"{name}: {len(moved)} moved", *(f"  {line}" for line in moved)]
        sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
