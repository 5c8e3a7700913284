"""Cases of the numbers in `tests/golden`: pairs that stop once it is known who is ahead."""

from pathlib import Path
from typing import Any

from tests.golden.cases import PANEL, of_pairs, project_of, run_case, run_samples
from tests.golden.frozen_tables import Numbers

STOPPING: dict[str, Any] = {
    "headline": {"adaptive": {"goal": "bank", "rounds": 4, "tail": 0.2, "min_prompts": 10}}
}
TOGETHER: dict[str, Any] = {"judges": PANEL, **STOPPING}


def adaptive(folder: Path) -> Numbers:
    """Pairs that stop once it is known who is ahead."""
    return run_case(project_of(folder, "calibration", **STOPPING))


def jury_adaptive(folder: Path) -> Numbers:
    """Three judges whose pairs stop."""
    return of_pairs(run_case(project_of(folder, "factuality", **TOGETHER)))


def adaptive_samples(folder: Path) -> Numbers:
    """Pairs of two samples of each prompt that stop."""
    return of_pairs(run_samples(folder, **STOPPING))


def jury_adaptive_samples(folder: Path) -> Numbers:
    """Three judges of two samples of each prompt, whose pairs stop."""
    return of_pairs(run_samples(folder, **TOGETHER))


CASES = (adaptive, jury_adaptive, adaptive_samples, jury_adaptive_samples)
