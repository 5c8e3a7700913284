"""What a rating needs beside the battles, so that a file of both reproduces it to the bit."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingSettings:
    """How battles become ratings; the defaults are those of a tournament's config.

    Attributes:
        arena: What the battles are from, such as a tournament and its mode.
        entrants: Everyone who is rated, in the order of the tables, battles or not. Empty means
            all models of the battles, sorted: then nobody without a battle is rated.
        dimensions: The qualities that are rated, in the order of the tables. Empty means those of
            the battles, in their order.
        initial_rating: Everyone's rating before the first match, in Elo points.
        k_factor: The most one match can change a rating by, in Elo points.
        k_sweep: Further K-factors to repeat the rating with.
        n_permutations: Random orderings of the decisive matches.
        shuffle_seed: Seeds the orderings.
        n_bootstraps: Resamples of whole prompts behind the sampling intervals.
        bootstrap_seed: Seeds the resampling.
        confidence: Coverage of the intervals.
    """

    arena: str | None = None
    entrants: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    initial_rating: float = 1400.0
    k_factor: float = 16.0
    k_sweep: tuple[float, ...] = ()
    n_permutations: int = 500
    shuffle_seed: int = 0
    n_bootstraps: int = 1000
    bootstrap_seed: int = 0
    confidence: float = 0.95

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RatingSettings":
        """Read settings, ignoring keys that this version does not know.

        Raises:
            InputError: With every value that is wrong.
        """
        known = {field.name for field in fields(cls)}
        given = {key: value for key, value in values.items() if key in known and value is not None}
        problems = [
            f"the rating setting {name} is {given[name]!r:.80}; expected {expected}"
            for name, (expected, holds) in _EXPECTED.items()
            if name in given and not holds(given[name])
        ]
        if problems:
            raise InputError(problems)
        settings: dict[str, Any] = dict(given)
        for name in ("initial_rating", "k_factor", "confidence"):
            if name in settings:
                settings[name] = float(settings[name])
        for name in ("entrants", "dimensions"):
            if name in settings:
                settings[name] = tuple(settings[name])
        if "k_sweep" in settings:
            settings["k_sweep"] = tuple(map(float, settings["k_sweep"]))
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON values, in the order of the fields."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }


def settings_of_run(
    tournament: TournamentConfig, *, mode: Mode, n_permutations: int | None = None
) -> RatingSettings:
    """Return the settings that a run of a tournament rates by.

    Args:
        tournament: The tournament.
        mode: Which part of it was run.
        n_permutations: The number of orderings, if it was not the configured one.
    """
    ratings = tournament.ratings
    return RatingSettings(
        arena=f"{tournament.tournament_id}/{mode}",
        entrants=tuple(tournament.entrant_ids),
        dimensions=tuple(tournament.dimension_names),
        initial_rating=ratings.initial_rating,
        k_factor=ratings.k_factor,
        k_sweep=tuple(ratings.k_sweep),
        n_permutations=n_permutations or ratings.n_permutations,
        shuffle_seed=ratings.shuffle_seed,
        n_bootstraps=ratings.n_bootstraps,
        bootstrap_seed=ratings.bootstrap_seed,
        confidence=ratings.confidence,
    )


def _is_number(value: object) -> bool:
    if type(value) is int:
        return abs(value) < 2**63
    return type(value) is float and math.isfinite(value)


def _is_list_of(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(kind, value))


def _are_names(value: Any) -> bool:
    return _is_list_of(lambda name: isinstance(name, str))(value) and len(set(value)) == len(value)


def _is_whole_number(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value < 2**63


def _is_k_factor(value: Any) -> bool:
    return _is_number(value) and value > 0


_EXPECTED: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "arena": ("a text", lambda value: isinstance(value, str)),
    "entrants": ("a list of different names", _are_names),
    "dimensions": ("a list of different names", _are_names),
    "initial_rating": ("a number of Elo points", _is_number),
    "k_factor": ("a positive number of Elo points", _is_k_factor),
    "k_sweep": ("a list of positive numbers of Elo points", _is_list_of(_is_k_factor)),
    "n_permutations": ("a whole number of at least 1", _is_whole_number(1)),
    "shuffle_seed": ("a whole number of at least 0", _is_whole_number(0)),
    "n_bootstraps": ("a whole number of at least 1", _is_whole_number(1)),
    "bootstrap_seed": ("a whole number of at least 0", _is_whole_number(0)),
    "confidence": (
        "a share between 0 and 1, such as 0.95",
        lambda value: _is_number(value) and 0 < value < 1,
    ),
}
