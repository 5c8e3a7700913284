"""Freezes numbers anew, after a change on purpose: `python -m tests.golden.freeze [case …]`.

Prints every number that moved. Commit what it writes with the reason, apart from other changes.
"""

import sys
import tempfile
from pathlib import Path

from tests.golden import frozen_tables
from tests.golden.cases import CASES, FROZEN

if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            found = CASES[case](Path(folder) / "project")
        moved = frozen_tables.moved(frozen_tables.read(FROZEN / case), found)
        frozen_tables.write(FROZEN / case, found)
        sys.stdout.write("\n  ".join([f"{case}: {len(moved)} moved", *moved]) + "\n")
