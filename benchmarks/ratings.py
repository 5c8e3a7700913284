"""Times the rating engines against their peers: `python -m benchmarks.ratings [--large]`.

It takes one or two minutes, and as long again for `--large`: 1.7 million battles between 250
entrants. The table is printed and written to `benchmarks/results/`.
"""

import os
import sys

from benchmarks.comparing import (
    Comparison,
    is_single_threaded,
    single_threaded_environment,
    write_results,
)
from benchmarks.rating_bradley_terry import (
    compare_bootstraps,
    compare_fits,
    compare_table_fits,
)
from benchmarks.rating_data import draw_battles, draw_matches
from benchmarks.rating_elo import compare_exact, compare_one, compare_sweeps
from benchmarks.rating_file import compare_files

PACKAGES = (
    "numpy",
    "numba",
    "pandas",
    "pyarrow",
    "evalica",
    "choix",
    "scikit-learn",
    "arena-rank",
)
NOTES = (
    "Elo: pure Python and evalica's compiled core get their orderings ready-made; "
    "`k_factor_sweep` draws its own within the time. The targets are about one K-factor beside the "
    "loop over entrants by name, which is how judgments hold them; the rest is for comparison.",
    "Bradley-Terry: ours starts from lists of strings, winners included, every one an object of "
    "its own; evalica gets the same names, and its winners ready-made.",
    "A peer that ran only a part of the work is scaled to the whole, as its remark says.",
)


def main() -> None:
    """Run the cases and write the table."""
    if not is_single_threaded():
        # Libraries count their threads when they are imported, so begin again before that.
        arguments = [sys.executable, "-m", "benchmarks.ratings", *sys.argv[1:]]
        os.execve(sys.executable, arguments, single_threaded_environment())  # noqa: S606
    is_large = "--large" in sys.argv[1:]
    comparisons = compare_large() if is_large else compare_usual()
    path = write_results(
        "ratings_large" if is_large else "ratings",
        comparisons,
        command=f"python -m benchmarks.ratings{' --large' if is_large else ''}",
        notes=NOTES,
        packages=PACKAGES,
    )
    print(f"written to {path}")


def compare_usual() -> list[Comparison]:
    """Time the sizes of a tournament and of a small arena."""
    small = draw_matches(n_entrants=4, n_matches=858)
    large = draw_matches(n_entrants=50, n_matches=60_900)
    arena = draw_battles(n_entrants=50, n_battles=87_000, n_prompts=8_700)
    return [
        compare_sweeps("858 matches x 4", small, n_peer_permutations=100),
        compare_sweeps("60,900 matches x 50", large, n_peer_permutations=4),
        compare_one("858 matches x 4", small, n_peer_permutations=500, target=1.3),
        compare_one("60,900 matches x 50", large, n_peer_permutations=4, target=12),
        compare_exact("858 matches x 4", small),
        compare_exact("60,900 matches x 50", large),
        compare_fits("87,000 battles x 50", arena, rounds=5),
        compare_table_fits("87,000 battles x 50", arena, rounds=15),
        compare_bootstraps(
            "87,000 battles x 50",
            arena,
            rounds=3,
            evalica_resamples=50,
            evalica_target=90,
            sklearn_resamples=20,
            sklearn_target=240,
        ),
        *compare_files("87,000 battles x 50", arena, n_bootstraps=100, rounds=9),
    ]


def compare_large() -> list[Comparison]:
    """Time the size of a whole arena."""
    arena = draw_battles(n_entrants=250, n_battles=1_700_000, n_prompts=170_000)
    title = "1.7 M battles x 250"
    return [
        *compare_files(title, arena, n_bootstraps=100, rounds=3),
        *compare_files(title, arena, n_bootstraps=1_000, rounds=1),
        compare_fits(title, arena, rounds=2),
        compare_table_fits(title, arena, rounds=15),
        compare_bootstraps(
            title,
            arena,
            rounds=2,
            evalica_resamples=3,
            evalica_target=215,
            sklearn_resamples=1,
            sklearn_target=570,
        ),
    ]


if __name__ == "__main__":
    main()
