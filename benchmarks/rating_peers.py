"""What the rating engines are timed against; each peer is asked for what we compute.

Peers are development dependencies, and one that is not installed is left out of the tables.
"""

import math
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rating_data import NamedBattles
from tournament_assets.ratings.matches import Matches

ELO_PER_NAT = 400 / math.log(10)


def is_installed(package: str) -> bool:
    """Say whether a peer can be imported."""
    return find_spec(package) is not None


def draw_orderings(matches: Matches, *, n_permutations: int) -> list[list[int]]:
    """Return the orderings that the ratings take with seed 0."""
    generator = np.random.default_rng(0)
    return [generator.permutation(matches.n_matches).tolist() for _ in range(n_permutations)]


class PythonElo:
    """The textbook's loop, on ready-made orderings."""

    def __init__(self, matches: Matches, orderings: list[list[int]]) -> None:
        """Lay out the matches as (entrant_a, entrant_b, winner), as judgments name them."""
        self._entrants = matches.entrants
        self._orderings = orderings
        self._pairs = list(zip(matches.first.tolist(), matches.second.tolist(), strict=True))
        names = [
            (matches.entrants[winner], matches.entrants[loser]) for winner, loser in self._pairs
        ]
        self._matches = [(*sorted((winner, loser)), winner) for winner, loser in names]

    def rate_names(self, *, k_factor: float) -> list[list[float]]:
        """Rate entrants by name; this is the loop that the targets are about."""
        rows = []
        for ordering in self._orderings:
            ratings = dict.fromkeys(self._entrants, 1400.0)
            for index in ordering:
                a, b, winner = self._matches[index]
                loser = b if winner == a else a
                expected = 1 / (1 + 10 ** ((ratings[loser] - ratings[winner]) / 400))
                change = k_factor * (1 - expected)
                ratings[winner] += change
                ratings[loser] -= change
            rows.append([ratings[entrant] for entrant in self._entrants])
        return rows

    def rate_integers(self, *, k_factor: float) -> list[list[float]]:
        """Rate entrants that were replaced by integers, winner first: the leanest loop."""
        rows = []
        for ordering in self._orderings:
            ratings = [1400.0] * len(self._entrants)
            for index in ordering:
                winner, loser = self._pairs[index]
                expected = 1 / (1 + 10 ** ((ratings[loser] - ratings[winner]) / 400))
                change = k_factor * (1 - expected)
                ratings[winner] += change
                ratings[loser] -= change
            rows.append(ratings)
        return rows


class EvalicaElo:
    """evalica's compiled Elo without its Python: indices and orderings are ready-made lists."""

    def __init__(self, matches: Matches, orderings: list[list[int]]) -> None:
        """Lay out the orderings as evalica wants them."""
        import evalica

        self._n_entrants = len(matches.entrants)
        self._columns = [
            (matches.first[ordering].tolist(), matches.second[ordering].tolist())
            for ordering in orderings
        ]
        self._first_wins = [evalica.Winner.X] * matches.n_matches
        self._weights = [1.0] * matches.n_matches

    def rate(self, *, k_factor: float) -> list[NDArray[np.float64]]:
        """Rate every ordering."""
        from evalica import _brzo

        return [
            _brzo.elo(
                xs=winners,
                ys=losers,
                winners=self._first_wins,
                weights=self._weights,
                total=self._n_entrants,
                initial=1400.0,
                base=10.0,
                scale=400.0,
                k=k_factor,
                win_weight=1.0,
                tie_weight=0.5,
            )
            for winners, losers in self._columns
        ]


class EvalicaBradleyTerry:
    """evalica through its API, from lists of names and of its own winners."""

    def __init__(self, battles: NamedBattles) -> None:
        """Translate the winners, which is not timed."""
        import evalica

        winner_of = {
            "model_a": evalica.Winner.X,
            "model_b": evalica.Winner.Y,
            "tie": evalica.Winner.Draw,
        }
        self._columns: tuple[Any, ...] = (
            battles.model_a,
            battles.model_b,
            [winner_of[winner] for winner in battles.winner],
        )

    def fit(self) -> dict[str, float]:
        """Return Elo points around 0."""
        import evalica

        scores = evalica.bradley_terry(*self._columns).scores
        return centred(dict(zip(scores.index, np.log(scores.to_numpy()), strict=True)))

    def bootstrap(self, *, n_resamples: int) -> object:
        """Fit, and fit resamples of the rows; percentiles."""
        import evalica

        return evalica.bootstrap(
            evalica.bradley_terry,
            *self._columns,
            n_resamples=n_resamples,
            bootstrap_method="percentile",
            random_state=0,
        )


class SklearnBradleyTerry:
    """Logistic regression on the outcomes of every ordered pair, as leaderboards fit it."""

    def __init__(self, battles: NamedBattles) -> None:
        """Make the table of battles, which is not timed."""
        import pandas as pd

        self._frame = pd.DataFrame(
            {
                "a": np.array(battles.model_a, dtype=object),
                "b": np.array(battles.model_b, dtype=object),
                "winner": np.array(battles.winner, dtype=object),
            }
        )

    def fit(self) -> dict[str, float]:
        """Return Elo points around 0."""
        return self._fit(self._frame)

    def bootstrap(self, *, n_resamples: int) -> list[dict[str, float]]:
        """Fit, and fit resamples of the rows."""
        generator = np.random.default_rng(0)
        resamples = [self._fit(self._frame)]
        for _ in range(n_resamples):
            rows = self._frame.sample(frac=1.0, replace=True, random_state=generator)
            resamples.append(self._fit(rows))
        return resamples

    def _fit(self, frame: Any) -> dict[str, float]:
        import pandas as pd

        linear_model = import_module("sklearn.linear_model")
        counts = frame.groupby(["a", "b", "winner"], sort=True).size().unstack(fill_value=0)
        tied = counts["tie"].to_numpy() / 2
        weights = np.concatenate([counts["model_a"] + tied, counts["model_b"] + tied])
        names = sorted({*frame["a"], *frame["b"]})
        sides = [
            pd.Index(names).get_indexer(counts.index.get_level_values(side)) for side in ("a", "b")
        ]
        design = np.zeros((len(counts), len(names)))
        design[np.arange(len(counts)), sides[0]] = 1.0
        design[np.arange(len(counts)), sides[1]] = -1.0
        a_won = np.repeat([1, 0], len(counts))
        model = linear_model.LogisticRegression(
            C=np.inf, fit_intercept=False, tol=1e-6, max_iter=1000
        )
        model.fit(np.concatenate([design, design]), a_won, sample_weight=weights)
        return centred(dict(zip(names, model.coef_[0], strict=True)))


def fit_with_choix(names: tuple[str, ...], wins: NDArray[np.float64]) -> dict[str, float]:
    """Fit a table of wins with choix, which reads neither names nor ties; Elo points around 0."""
    import choix

    return centred(dict(zip(names, choix.ilsr_pairwise_dense(wins, max_iter=1000), strict=True)))


class ArenaRankBradleyTerry:
    """arena-rank: prepare, fit, and sandwich errors, which it always computes."""

    def __init__(self, battles: NamedBattles) -> None:
        """Make the table of battles, which is not timed."""
        import pandas as pd

        self._frame = pd.DataFrame(
            {
                "model_a": battles.model_a,
                "model_b": battles.model_b,
                "winner": battles.winner,
            }
        )

    def fit(self) -> dict[str, float]:
        """Return Elo points around 0."""
        data_utils = import_module("arena_rank.utils.data_utils")
        models = import_module("arena_rank.models.bradley_terry")
        dataset = data_utils.PairDataset.from_pandas(self._frame)
        model = models.BradleyTerry(n_competitors=len(dataset.competitors))
        results = model.compute_ratings_and_cis(dataset)
        ratings = np.asarray(results["ratings"]) / ELO_PER_NAT
        return centred(dict(zip(results["competitors"], ratings.tolist(), strict=True)))


def centred(log_strengths: dict[str, float]) -> dict[str, float]:
    """Turn logarithms of strengths into Elo points that average to 0."""
    centre = sum(log_strengths.values()) / len(log_strengths)
    return {
        name: float(value - centre) * ELO_PER_NAT for name, value in sorted(log_strengths.items())
    }
