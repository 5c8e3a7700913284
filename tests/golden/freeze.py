"""Freezes numbers anew, after a change on purpose: `python -m tests.golden.freeze [case …]`.

Prints every number that moved and what is added. Commit what it writes with the reason, apart from
other changes.
"""

import sys
import tempfile
from pathlib import Path

from tests.golden import frozen_tables
from tests.golden.cases import every_case, every_name, frozen

if __name__ == "__main__":
    cases = every_case()
    for case in sys.argv[1:] or cases:
        with tempfile.TemporaryDirectory() as folder:
            numbers = cases[case](Path(folder) / "project")
        before = frozen_tables.read(frozen(cases[case]))
        moved, added = frozen_tables.compare(before, numbers, every_name())
        frozen_tables.write(frozen(cases[case]), numbers)
        lines = [f"{case}: {len(moved)} moved, {len(added)} added", *moved, *added]
        sys.stdout.write("\n  ".join(lines) + "\n")
