"""Cases: Elo over many orderings, one K-factor and a sweep."""

import numpy as np

from benchmarks.comparing import Comparison, Engine, compare
from benchmarks.rating_peers import EvalicaElo, PythonElo, draw_orderings, is_installed
from tournament_assets.ratings.elo import compute_elo_permutation, k_factor_sweep
from tournament_assets.ratings.elo_kernels import LANES, pack, rate_exactly
from tournament_assets.ratings.matches import Matches

K_SWEEP = (1.0, 4.0, 8.0, 16.0, 32.0)
N_PERMUTATIONS = 500


def compare_sweeps(title: str, matches: Matches, *, n_peer_permutations: int) -> Comparison:
    """Time five K-factors on the same orderings."""
    orderings = draw_orderings(matches, n_permutations=n_peer_permutations)
    python = PythonElo(matches, orderings)
    scale = N_PERMUTATIONS / n_peer_permutations
    part = f"{n_peer_permutations} permutations, scaled" if scale > 1 else ""
    k_factor_sweep(matches, k_factors=K_SWEEP, n_permutations=1, seed=0)
    engines = [
        Engine(
            "k_factor_sweep",
            # A part of them would be few enough for the loop that needs no compiler.
            lambda: k_factor_sweep(
                matches, k_factors=K_SWEEP, n_permutations=N_PERMUTATIONS, seed=0
            ),
        ),
        Engine(
            "pure Python, entrants by name",
            lambda: [python.rate_names(k_factor=k) for k in K_SWEEP],
            scale=scale,
            remark=part,
        ),
        Engine(
            "pure Python, entrants as integers",
            lambda: [python.rate_integers(k_factor=k) for k in K_SWEEP],
            scale=scale,
            remark=part,
        ),
    ]
    if is_installed("evalica"):
        evalica = EvalicaElo(matches, orderings)
        engines.append(
            Engine(
                "evalica's compiled core",
                lambda: [evalica.rate(k_factor=k) for k in K_SWEEP],
                scale=scale,
                remark=part,
            )
        )
    return compare(f"{title}: 5 K x {N_PERMUTATIONS} permutations", engines, rounds=7)


def compare_one(
    title: str, matches: Matches, *, n_peer_permutations: int, target: float
) -> Comparison:
    """Time what a tournament runs, one K-factor, beside the textbook's loops."""
    orderings = draw_orderings(matches, n_permutations=n_peer_permutations)
    python, scale = PythonElo(matches, orderings), N_PERMUTATIONS / n_peer_permutations
    part = f"{n_peer_permutations} permutations, scaled" if scale > 1 else ""
    compute_elo_permutation(matches, k_factor=16.0, n_permutations=1, seed=0)
    return compare(
        f"{title}: K = 16 x {N_PERMUTATIONS} permutations",
        [
            Engine(
                "compute_elo_permutation",
                lambda: compute_elo_permutation(
                    matches, k_factor=16.0, n_permutations=N_PERMUTATIONS, seed=0
                ),
                remark="draws its orderings, too",
            ),
            Engine(
                "pure Python, entrants by name",
                lambda: python.rate_names(k_factor=16.0),
                scale=scale,
                target=target,
                remark=part,
            ),
            Engine(
                "pure Python, entrants as integers",
                lambda: python.rate_integers(k_factor=16.0),
                scale=scale,
                remark=part,
            ),
        ],
        rounds=3,
    )


def compare_exact(title: str, matches: Matches) -> Comparison:
    """Time one K-factor, bit for bit the textbook's, on orderings drawn before."""
    n_entrants = len(matches.entrants)
    items = pack(matches.first, matches.second, np.zeros(matches.n_matches, dtype=np.int64))
    orderings = draw_orderings(matches, n_permutations=LANES)
    python, rows = PythonElo(matches, orderings), items[np.array(orderings)]
    k_factor = np.array([16.0])
    ours = rate_exactly(rows, np.ones(1), k_factor, n_entrants, 1400.0, 10.0)[0]
    theirs = python.rate_integers(k_factor=16.0)
    return compare(
        f"{title}: exact, K = 16, {LANES} given permutations",
        [
            Engine(
                "rate_exactly",
                lambda: rate_exactly(rows, np.ones(1), k_factor, n_entrants, 1400.0, 10.0),
                remark=f"largest difference {np.abs(ours - theirs).max():g}",
            ),
            Engine(
                "compute_elo_permutation",
                lambda: compute_elo_permutation(
                    matches, k_factor=16.0, n_permutations=LANES, seed=0
                ),
                remark="draws its orderings, too",
            ),
            Engine(
                "pure Python, entrants by name",
                lambda: python.rate_names(k_factor=16.0),
            ),
            Engine(
                "pure Python, entrants as integers",
                lambda: python.rate_integers(k_factor=16.0),
            ),
        ],
        rounds=7,
    )
