"""The site says of drawn runs what their tables do."""

import html
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.comparison import Oracle
from tests.oracle.drawn_runs import KINDS, draw_run
from tournament_assets.extras.site import site
from tournament_assets.foundation.formatting import format_rating, join_names

ALWAYS = 1
N_RUNS = 150 if "FUZZ" in os.environ else len(KINDS)
"""Drawn runs in all (`make fuzz`: the most)."""


def find_falsehoods(oracle: Oracle, folder: Path) -> Iterator[str]:
    """Compare the site's sentence and first places with the table."""
    (run,), problems = site.read_runs(folder.parent)
    rows = oracle.rows("leaderboard")
    pages = site.site_pages([run])
    first = [row.entrant_id for row in rows if row.rank == 1]
    (cell,) = re.findall(r'data-label="first">([^<]*)<', pages["index.html"])
    is_placed = any(row.rank for row in rows)
    expected = join_names(first) or ("nobody" if is_placed else "no entrant is rated")
    if problems or cell != expected:
        yield f"site: {cell!r} is first instead of {expected!r} {problems}"
    highest = max((row.rating for row in rows if row.rating is not None), default=None)
    text = " ".join(html.unescape(pages[run.page]).split())
    if highest is None:
        if "rates no entrant" not in text:
            yield "site: somebody is rated"
        return
    names = [row.entrant_id for row in rows if row.rating and row.rating > highest - 1e-6]
    verb = "has" if len(names) == 1 else "have"
    words = f"{join_names(names)} {verb} the highest rating of the latest run, "
    if words + format_rating(highest) not in text:
        yield f"site: does not say {words!r}"
    if len(names) == 1 and f"was first in {int(names == first[:1])} of 1 run" not in text:
        yield f"site: miscounts how often {names} were first"


def prove(seed: int, folder: Path) -> None:
    """Draw a run, and compare its site with its tables."""
    drawn = draw_run(seed, folder)
    directory = Path(drawn.tables.metadata["run_artifacts", ""]["directory"])
    assert list(find_falsehoods(Oracle(drawn), directory)) == [], (seed, drawn.kind)


@pytest.mark.parametrize("seed", range(ALWAYS))
def test_a_site_says_of_a_drawn_run_what_its_tables_do(seed: int, tmp_path: Path) -> None:
    prove(seed, tmp_path / "run")


@pytest.mark.e2e
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(ALWAYS, N_RUNS))
def test_a_site_says_of_every_kind_of_run_what_its_tables_do(seed: int, tmp_path: Path) -> None:
    prove(seed, tmp_path / "run")


def test_a_site_with_other_numbers_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = draw_run(KINDS.index("jury"), tmp_path / "run")
    directory = Path(drawn.tables.metadata["run_artifacts", ""]["directory"])
    monkeypatch.setattr(site, "format_rating", lambda points: f"1{format_rating(points)}")
    assert list(find_falsehoods(Oracle(drawn), directory)) != []
