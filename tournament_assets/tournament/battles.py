"""The battle (a settled pair as other tools know it), and how battles are rated.

A rating is a pure function of a list of battles and its settings, so that a file of both reproduces
it to the bit. The leaderboard that other tools read has the shape of `elo_ratings.json`: an arena,
who judged, and one entry for each model.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, Literal, get_args

from tournament_assets.tournament.asset_rows import LeaderboardRow
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.estimates import Resampling
from tournament_assets.tournament.verdicts import Judgment, Outcome

BattleWinner = Literal["model_a", "model_b", "tie", "tie (bothbad)"]
BattleSource = Literal["llm-judge", "human"]

WINNERS: tuple[BattleWinner, ...] = get_args(BattleWinner)
SOURCES: tuple[BattleSource, ...] = get_args(BattleSource)
PRESENTATIONS = ("ab", "ba")

_NEEDED = ("model_a", "model_b", "winner", "source")
_OPTIONAL_TEXTS = ("question_id", "judge_model", "dimension")
_LARGEST_NUMBER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Battle:
    """One outcome between two models.

    Attributes:
        model_a: The first model.
        model_b: The second model.
        winner: `model_a`, `model_b`, `tie`, or `tie (bothbad)`, which rates as a tie; a pair
            without a verdict is no battle.
        source: Who decided: `llm-judge` or `human`.
        question_id: The prompt they were compared on.
        sample: Which of their answers to it were compared, from 1.
        inconsistent: Whether the tie stands for two presentations that disagreed.
        weight: Its weight in the Bradley-Terry likelihood; it stays one observation.
        pref: A preference finer than the winner: 0 is model_a, 1 is model_b. None if there is only
            the winner.
        turn: Which turn of a conversation was judged; 1 is the first.
        presentation: Which showing of the pair this is: `ab` with model_a first, `ba` with
            model_b first. None where the pair was settled from all its showings.
    """

    model_a: str
    model_b: str
    winner: BattleWinner
    source: BattleSource
    question_id: str | None = None
    sample: int = 1
    judge_model: str | None = None
    dimension: str | None = None
    inconsistent: bool = False
    weight: float = 1.0
    pref: float | None = None
    turn: int | None = None
    presentation: Literal["ab", "ba"] | None = None

    @property
    def is_tie(self) -> bool:
        """Whether nobody won."""
        return self.winner not in ("model_a", "model_b")

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> "Battle":
        """Read a battle, ignoring keys that this version does not know.

        An absent key and null are the same; a question_id may also be a whole number.

        Raises:
            InputError: With everything that is missing or wrong.
        """
        missing = [name for name in _NEEDED if row.get(name) is None]
        if missing:
            kept = {name: row[name] for name in _NEEDED if row.get(name) is not None}
            raise InputError(f"the battle {kept!r:.200} has no {', '.join(missing)}")
        values = {
            field.name: row[field.name] for field in fields(cls) if row.get(field.name) is not None
        }
        if type(values.get("question_id")) is int:
            values["question_id"] = str(values["question_id"])
        if problems := _wrong_values(values):
            raise InputError(problems)
        # A column of floats takes no whole number beyond 2^53.
        values |= {name: float(values[name]) for name in ("weight", "pref") if name in values}
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values; rarely used keys are left out where they are empty.

        The first six keys are always there, and so is `inconsistent`.
        """
        values = asdict(self)
        rare = {
            **dict.fromkeys(("dimension", "pref", "turn", "presentation")),
            "sample": 1,
            "weight": 1.0,
        }
        return {
            name: value for name, value in values.items() if name not in rare or value != rare[name]
        }


def _wrong_values(values: Mapping[str, Any]) -> list[str]:
    problems: list[str] = []

    def refuse(name: str, expected: str) -> None:
        problems.append(f"{name} is {values[name]!r:.80}; expected {expected}")

    for name in ("model_a", "model_b", *_OPTIONAL_TEXTS):
        value = values.get(name)
        if name in values and not (isinstance(value, str) and value.strip() and _is_whole(value)):
            refuse(name, "a text of whole characters that says something")
    if values["model_a"] == values["model_b"]:
        refuse("model_b", "another model than model_a")
    for name, words in (("winner", WINNERS), ("source", SOURCES), ("presentation", PRESENTATIONS)):
        if name in values and values[name] not in words:
            refuse(name, _one_of(words))
    if "inconsistent" in values and type(values["inconsistent"]) is not bool:
        refuse("inconsistent", "true or false")
    elif values.get("inconsistent") and values["winner"] in ("model_a", "model_b"):
        refuse("inconsistent", f"false where the winner is {values['winner']!r}")
    if "weight" in values and not (_is_number(values["weight"]) and values["weight"] > 0):
        refuse("weight", "a positive number")
    for name in ("sample", "turn"):
        if name in values and not (
            type(values[name]) is int and 1 <= values[name] <= _LARGEST_NUMBER
        ):
            refuse(name, "a whole number of at least 1")
    if "pref" in values:
        if not (_is_number(values["pref"]) and 0 <= values["pref"] <= 1):
            refuse("pref", "a number from 0 (model_a) to 1 (model_b)")
        elif (values["winner"], values["pref"] > 0.5) == ("model_a", True) or (
            (values["winner"], values["pref"] < 0.5) == ("model_b", True)
        ):
            refuse("pref", f"a preference for the winner, {values['winner']!r}")
    return problems


def _is_number(value: object, *, beyond: int = 2**1023) -> bool:
    if type(value) is int:
        return abs(value) < beyond  # by default what a float can hold
    return type(value) is float and math.isfinite(value)


def _is_whole(text: str) -> bool:
    """Return whether a text is free of lone surrogates, which JSON can carry and nothing stores."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _one_of(words: Sequence[str]) -> str:
    return f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}"


def battles_from_judgments(judgments: Sequence[Judgment], *, judge_model: str) -> list[Battle]:
    """Turn settled pairs into battles, in the same order; unjudged pairs are left out."""
    winners: dict[Outcome, BattleWinner] = {
        Outcome.A_WINS: "model_a",
        Outcome.B_WINS: "model_b",
        Outcome.TIE: "tie",
        Outcome.SAME_TEXT: "tie",
        Outcome.INCONSISTENT: "tie",
    }
    return [
        Battle(
            model_a=judgment.entrant_a,
            model_b=judgment.entrant_b,
            winner=winners[judgment.outcome],
            source="llm-judge",
            question_id=judgment.prompt_id,
            sample=judgment.sample,
            judge_model=judge_model,
            dimension=judgment.dimension,
            inconsistent=judgment.inconsistent,
            weight=judgment.weight,
            pref=None
            if judgment.share is None or judgment.share == judgment.outcome.share
            else 1 - judgment.share,
        )
        for judgment in judgments
        if judgment.outcome in winners
    ]


def elo_report(
    rows: Sequence[LeaderboardRow], *, arena: str, judge_model: str | None, resampling: Resampling
) -> dict[str, Any]:
    """Return a leaderboard as JSON values, by the keys that JudgeArena reads, best first.

    Args:
        rows: Rows of table "leaderboard" of one dimension.
        arena: What the battles are from: the tournament, its mode and dimension.
        judge_model: The model that judged; None if only people did.
        resampling: The resampling behind the intervals.
    """
    return {
        "arena": arena,
        "model": rows[0].entrant_id if len(rows) == 1 else None,
        "judge_model": judge_model,
        "n_bootstraps": resampling.n,
        "seed": resampling.seed,
        "ratings": [
            {
                "model": row.entrant_id,
                "rating": row.rating,
                "ci_low": row.low,
                "ci_high": row.high,
                "n_battles": row.n,
                "source": "evaluated",
            }
            for row in rows
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingSettings:
    """How battles become ratings; the defaults are those of a tournament's config.

    Attributes:
        arena: What the battles are from, such as a tournament and its mode.
        entrants: Everyone who is rated, with or without battles, in the order of the tables. Empty
            means all models that occur in the battles, sorted.
        dimensions: The qualities that are rated, in the order of the tables. Empty means those of
            the battles, in their order.
        initial_rating: Everyone's rating before the first match, in Elo points.
        k_factor: The most one match can change a rating by, in Elo points.
        k_sweep: Further K-factors to repeat the rating with.
        n_permutations: Random orderings of the decisive matches.
        shuffle_seed: Seeds the orderings.
        n_bootstraps: Resamples of whole prompts behind the sampling intervals.
        bootstrap_seed: Seeds the resampling.
        equivalent_within: The largest difference that does not matter, in Elo points.
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
    equivalent_within: float = 20.0

    @property
    def resampling(self) -> Resampling:
        """How prompts are resampled."""
        return Resampling(self.n_bootstraps, self.bootstrap_seed, self.confidence)

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
        for name in ("initial_rating", "k_factor", "confidence", "equivalent_within"):
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
        equivalent_within=ratings.equivalent_within,
    )


_is_setting = partial(_is_number, beyond=2**63)


def _is_list_of(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(kind, value))


def _are_names(value: Any) -> bool:
    return _is_list_of(lambda name: isinstance(name, str))(value) and len(set(value)) == len(value)


def _is_whole_number(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value < 2**63


def _is_k_factor(value: Any) -> bool:
    return _is_setting(value) and value > 0


_EXPECTED: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "arena": ("a text", lambda value: isinstance(value, str)),
    "entrants": ("a list of different names", _are_names),
    "dimensions": ("a list of different names", _are_names),
    "initial_rating": ("a number of Elo points", _is_setting),
    "k_factor": ("a positive number of Elo points", _is_k_factor),
    "k_sweep": ("a list of positive numbers of Elo points", _is_list_of(_is_k_factor)),
    "n_permutations": ("a whole number of at least 1", _is_whole_number(1)),
    "shuffle_seed": ("a whole number of at least 0", _is_whole_number(0)),
    "n_bootstraps": ("a whole number of at least 1", _is_whole_number(1)),
    "bootstrap_seed": ("a whole number of at least 0", _is_whole_number(0)),
    "confidence": (
        "a share between 0 and 1, such as 0.95",
        lambda value: _is_setting(value) and 0 < value < 1,
    ),
}
