"""Freezes numbers anew, after a change on purpose: `python -m tests.golden.freeze [case …]`.

Prints every number that moved. Commit what it writes with the reason, apart from other changes.
"""

import sys
import tempfile
from pathlib import Path

from tests.golden import frozen_tables
from tests.golden.cases import every_case, frozen

if __name__ == "__main__":
    cases = every_case()
    for case in sys.argv[1:] or cases:
        with tempfile.TemporaryDirectory() as folder:
            found = cases[case](Path(folder) / "project")
        moved = frozen_tables.moved(frozen_tables.read(frozen(cases[case])), found)
        frozen_tables.write(frozen(cases[case]), found)
        sys.stdout.write("\n  ".join([f"{case}: {len(moved)} moved", *moved]) + "\n")
