"""The files of a run for a paper: what they say, and that LaTeX sets them."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reports.builders import LOOPBACK, leader_row
from tournament_assets.extras.exports.paper import paper_files
from tournament_assets.tournament.battles import RatingSettings

NAMES = [
    *("security_plus_robustness", "full_poe", "a/b.c_d-e_retrieval_augmented_generation"),
    *(f"entrant_{n}" for n in range(7)),
]
DIMENSIONS = ("factuality", "clinical_utility", "calibration")

MANIFEST: dict[str, Any] = {
    "tournament": "50_%_of_#1",
    "mode": "pilot",
    "entrants": NAMES,
    "selected_prompts": 143,
    "judge": LOOPBACK,
    "judge_model": "loopback-lexical_with_a_long_name/and.a_path",
    "outages": ["full_poe left 143 of 143 answers empty."],
    "trust": {"factuality": {"position_bias": "red", "length_effect": "green"}},
}


def kit(dimensions: tuple[str, ...] = DIMENSIONS, **changed: Any) -> dict[str, str]:
    leaders = {
        dimension: [
            leader_row(
                name,
                1579.1 - 20 * place,
                interval=(1508.0, 1647.0),
                rank=place + 1,
                dimension=dimension,
                group="a b",
            )
            for place, name in enumerate(NAMES)
        ]
        for dimension in dimensions
    }
    manifest = {**MANIFEST, **changed}
    settings = RatingSettings(n_bootstraps=500, bootstrap_seed=7, equivalent_within=20.0)
    files = paper_files(leaders, manifest=manifest, settings=settings, settled=19_305)
    (figure,) = (content for name, content in files.items() if name.endswith(".pdf"))
    assert figure.startswith(b"%PDF")
    return {name: text.decode("latin-1") for name, text in files.items()}


def numbers(text: str) -> list[str]:
    return re.findall(r"\\(?:num|SI)\{([^}]*)\}", text)


def test_the_method_has_the_numbers_of_the_run() -> None:
    text = kit()["methods.tex"]
    assert numbers(text) == [
        *("10", "143", "3", "19305", "95", "500", "7", "0", "95", "20", "0", "47.1", "52.9"),
    ]
    assert "clinical\\_\\allowbreak{}utility" in text
    alone = kit(("factuality",), samples_of_each_prompt=5)["methods.tex"]
    assert numbers(alone)[:3] == ["10", "143", "5"]
    assert "dimensions" not in alone


def test_the_method_of_an_adaptive_run_is_its_decisions_and_counts_those_against_ratings() -> None:
    rows = [
        leader_row("ada", 1390.0, above=["bob", "cy"]),
        leader_row("bob", 1410.0, rank=2),
        leader_row("cy", 1380.0, rank=3),
    ]
    texts = []
    for stops in (None, "bank"):
        leaders = {"tone": [replace(row, stops=stops) for row in rows]}
        manifest = {**MANIFEST, "trust": {}, "entrants": ["ada", "bob", "cy"]}
        files = paper_files(leaders, manifest=manifest, settings=RatingSettings(), settled=9)
        texts.append(files["methods.tex"].decode())
    intervals, decisions = texts
    assert "interval of the difference" in intervals
    assert "interval of the difference" not in decisions
    assert "against the ratings, as in \\num{1} of the pairs" in decisions


def test_the_limitations_say_what_broke_and_what_no_interval_covers() -> None:
    text = kit()["limitations.tex"]
    assert text.startswith("full\\_\\allowbreak{}poe left 143 of 143 answers empty.")
    assert "says nothing" in text.replace("say nothing", "says nothing")
    assert "position\\_\\allowbreak{}bias on factuality." in text
    assert "length" not in text
    assert numbers(text) == ["3", "15"]
    real = kit(("factuality",), judge="Claude", outages=[], trust={})["limitations.tex"]
    assert numbers(real) == []
    assert "stand-in" not in real


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="TeX is not installed")
def test_the_paper_is_set_by_latex_without_an_overfull_box(tmp_path: Path) -> None:
    for name, text in kit().items():
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    for _ in range(2):  # the second time references are known
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
    assert not re.search("Overfull|undefined", done.stdout), done.stdout
