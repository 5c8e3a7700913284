"""Cases: Bradley-Terry from strings, and with 100 bootstraps."""

from collections.abc import Callable

import numpy as np

from benchmarks.comparing import Comparison, Engine, compare
from benchmarks.rating_battle_resamples import bootstrap_battles
from benchmarks.rating_data import NamedBattles, code_names
from benchmarks.rating_peers import (
    ArenaRankBradleyTerry,
    EvalicaBradleyTerry,
    SklearnBradleyTerry,
    fit_with_choix,
    is_installed,
)
from tournament_assets.foundation.estimates import Rating
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.matches import Matches

N_BOOTSTRAPS = 100
_PREFERENCES = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}


def code(battles: NamedBattles) -> Matches:
    """Code columns of strings as integers, leaving the prompts out."""
    entrants, (first, second) = code_names(battles.model_a, battles.model_b)
    winners, (winner,) = code_names(battles.winner)
    return Matches(
        entrants=entrants,
        prompts=("every",),
        first=first,
        second=second,
        prompt_index=np.zeros(first.size, dtype=np.int64),
        preference=np.array([_PREFERENCES[name] for name in winners])[winner],
        weight=np.ones(first.size),
    )


def fit(battles: NamedBattles) -> tuple[Rating, ...]:
    """Rate from columns of strings; Elo points around 0."""
    return fit_bradley_terry(code(battles), initial_rating=0.0)


def fit_and_bootstrap(battles: NamedBattles) -> None:
    """Rate from columns of strings, and rate resamples of the battles."""
    matches = code(battles)
    fit_bradley_terry(matches)
    bootstrap_battles(matches, n_bootstraps=N_BOOTSTRAPS, seed=0)


def compare_fits(title: str, battles: NamedBattles, *, rounds: int) -> Comparison:
    """Time one fit, from lists of strings to ratings."""
    ours = {each.entrant: each.value or 0.0 for each in fit(battles)}
    engines = [Engine("fit_bradley_terry", lambda: fit(battles))]

    def add(
        name: str,
        run: Callable[[], dict[str, float]],
        *,
        target: float | None = None,
        remark: str = "",
    ) -> None:
        theirs = run()
        apart = max(abs(theirs[entrant] - rating) for entrant, rating in ours.items())
        remark = f"{remark}at most {apart:.1e} points from ours"
        engines.append(Engine(name, run, target=target, remark=remark))

    if is_installed("evalica"):
        add("evalica", EvalicaBradleyTerry(battles).fit, target=1.5)
    if is_installed("sklearn"):
        add("scikit-learn", SklearnBradleyTerry(battles).fit)
    if is_installed("arena_rank"):
        add("arena-rank", ArenaRankBradleyTerry(battles).fit, remark="with sandwich errors; ")
    return compare(f"{title}: Bradley-Terry from strings", engines, rounds=rounds)


def compare_table_fits(title: str, battles: NamedBattles, *, rounds: int) -> Comparison:
    """Time one fit of a table of wins, which is all that choix does."""
    matches = code(battles)
    ours = {
        each.entrant: each.value or 0.0 for each in fit_bradley_terry(matches, initial_rating=0.0)
    }
    engines = [
        Engine(
            "fit_bradley_terry",
            lambda: fit_bradley_terry(matches),
            remark="finds out first whether there is a fit",
        )
    ]
    if is_installed("choix"):
        theirs = fit_with_choix(matches.entrants, matches.wins)
        apart = max(abs(theirs[entrant] - rating) for entrant, rating in ours.items())
        engines.append(
            Engine(
                "choix",
                lambda: fit_with_choix(matches.entrants, matches.wins),
                remark=f"at most {apart:.1e} points from ours",
            )
        )
    return compare(f"{title}: Bradley-Terry from a table of wins", engines, rounds=rounds)


def compare_bootstraps(
    title: str,
    battles: NamedBattles,
    *,
    rounds: int,
    evalica_resamples: int,
    evalica_target: float,
    sklearn_resamples: int,
    sklearn_target: float,
) -> Comparison:
    """Time a fit and 100 bootstraps over battles, from lists of strings to all ratings."""
    fit_and_bootstrap(battles)
    engines = [Engine("fit_bradley_terry, bootstrap_battles", lambda: fit_and_bootstrap(battles))]
    if is_installed("evalica"):
        evalica = EvalicaBradleyTerry(battles)
        engines.append(
            Engine(
                "evalica, percentile",
                lambda: evalica.bootstrap(n_resamples=evalica_resamples),
                scale=_scale(evalica_resamples),
                target=evalica_target,
                remark=_part(evalica_resamples),
            )
        )
    if is_installed("sklearn"):
        sklearn = SklearnBradleyTerry(battles)
        engines.append(
            Engine(
                "scikit-learn on resampled rows",
                lambda: sklearn.bootstrap(n_resamples=sklearn_resamples),
                scale=_scale(sklearn_resamples),
                target=sklearn_target,
                remark=_part(sklearn_resamples),
            )
        )
    return compare(
        f"{title}: Bradley-Terry and {N_BOOTSTRAPS} bootstraps from strings",
        engines,
        rounds=rounds,
    )


def _scale(n_resamples: int) -> float:
    # The first fit, of all battles, takes about as long as one of a resample.
    return (N_BOOTSTRAPS + 1) / (n_resamples + 1)


def _part(n_resamples: int) -> str:
    return "" if n_resamples == N_BOOTSTRAPS else f"{n_resamples} of them, scaled"
