"""Changes one digit of a run at a time, and counts what is noticed.

`python -m tests.extras.verify.mutations RUN 1000` does so a thousand times, in the files with the
numbers of the run; with `all` behind it, in every file.
"""

import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np

from tournament_assets.extras.verify.checksums import CHECKSUMS, check_sums
from tournament_assets.extras.verify.settled import read_run
from tournament_assets.extras.verify.verification import Verification
from tournament_assets.tournament.errors import InputError

_DIGITS = np.frombuffer(b"0123456789", dtype=np.uint8)
_TEXTS = {".csv", ".html", ".json", ".jsonl", ".md", ".svg", ".tex", ".txt", ""}
NUMBERS = {".csv", ".html", ".json", ".md", ".npz", ".tex"}
_LOOKS = re.compile(rb'<style>.*?</style>|<script>.*?</script>|;base64,[^"]*', re.DOTALL)
"""What a page looks like, and how it works: no numbers of the run."""
_COMPARED = {"manifest.json": "report.html", "report.html": "report.md"}
"""Files with which another one is compared."""


def mutate(
    folder: Path, n: int, *, kinds: set[str] | None = None, seed: int = 0
) -> Iterator[tuple[str, bool, bool]]:
    """Change a digit of a file, of a binary file a byte, look, and restore it.

    Args:
        kinds: The endings of the files to change; all by default.

    Yields:
        The file's path, whether its checksum tells, and whether a number that is computed again
        does.
    """
    draw = np.random.default_rng(seed)
    verification = Verification(read_run(folder))
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    paths = [path for path in paths if kinds is None or path.suffix in kinds]
    for _ in range(n):
        path = paths[draw.integers(len(paths))]
        name = path.relative_to(folder).as_posix()
        content = path.read_bytes()
        changed = np.frombuffer(content, dtype=np.uint8).copy()
        is_text = path.suffix in _TEXTS
        shown = _LOOKS.sub(lambda found: b" " * len(found[0]), content)
        looked_at = np.frombuffer(shown, dtype=np.uint8)
        places = np.flatnonzero(np.isin(looked_at, _DIGITS)) if is_text else np.arange(changed.size)
        place = draw.choice(places)
        others = _DIGITS if is_text else np.arange(256, dtype=np.uint8)
        changed[place] = draw.choice(others[others != changed[place]])
        path.write_bytes(changed.tobytes())
        try:
            told = bool(check_sums(folder).wrong)
            again = Verification(read_run(folder)) if name in _COMPARED else verification
            names = {name, _COMPARED.get(name, name)} & again.files.keys()
            computed = any(again.check(each).wrong for each in names)
        except InputError:
            told, computed = True, False
        finally:
            path.write_bytes(content)
        yield name, told, computed


def _main(folder: Path, n: int, *, kinds: set[str] | None) -> None:
    with tempfile.TemporaryDirectory() as place:
        copy = Path(shutil.copytree(folder, Path(place) / folder.name))
        drawn, told, computed = Counter[str](), Counter[str](), Counter[str]()
        for name, by_sum, by_number in mutate(copy, n, kinds=kinds):
            kind = name if name == CHECKSUMS else Path(name).suffix
            drawn[kind] += 1
            told[kind] += by_sum or by_number
            computed[kind] += by_number
    for kind, times in sorted(drawn.items()):
        click.echo(f"{kind}: {told[kind]} of {times} noticed, {computed[kind]} by computing again")
    click.echo(f"all: {told.total()} of {n} noticed, {computed.total()} by computing again")


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]), kinds=None if "all" in sys.argv[3:] else NUMBERS)
