"""The battle: a settled pair as other tools know it, and the leaderboard computed from many.

A rating is a pure function of a list of battles, so a file of battles is enough to reproduce it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.verdicts import Judgment, Outcome

BattleWinner = Literal["model_a", "model_b", "tie", "tie (bothbad)"]
BattleSource = Literal["llm-judge", "human"]

WINNERS: tuple[BattleWinner, ...] = get_args(BattleWinner)
SOURCES: tuple[BattleSource, ...] = get_args(BattleSource)
PRESENTATIONS = ("ab", "ba")

_NEEDED = ("model_a", "model_b", "winner", "source")
_OPTIONAL_TEXTS = ("question_id", "judge_model", "dimension")
_LARGEST_TURN = 2**31 - 1


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
        judge_model: The model that judged.
        dimension: The quality that was judged.
        inconsistent: Whether the tie stands for two presentations that disagreed.
        weight: How much it counts in the Bradley-Terry likelihood; it stays one observation.
        pref: A preference finer than the winner: 0 is model_a, 1 is model_b. None where the
            winner says all.
        turn: Which turn of a conversation was judged; 1 is the first.
        presentation: Which showing of the pair this is: `ab` with model_a first, `ba` with
            model_b first. None where the pair was settled from all its showings.
    """

    model_a: str
    model_b: str
    winner: BattleWinner
    source: BattleSource
    question_id: str | None = None
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
        """Return it as JSON values; what a battle rarely has is there only where it has it.

        The first six keys are always there, and so is `inconsistent`.
        """
        values = asdict(self)
        rare = {"dimension": None, "weight": 1.0, "pref": None, "turn": None, "presentation": None}
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
    if "turn" in values and not (
        type(values["turn"]) is int and 1 <= values["turn"] <= _LARGEST_TURN
    ):
        refuse("turn", "a whole number of at least 1")
    if "pref" in values:
        if not (_is_number(values["pref"]) and 0 <= values["pref"] <= 1):
            refuse("pref", "a number from 0 (model_a) to 1 (model_b)")
        elif (values["winner"], values["pref"] > 0.5) == ("model_a", True) or (
            (values["winner"], values["pref"] < 0.5) == ("model_b", True)
        ):
            refuse("pref", f"a preference for the winner, {values['winner']!r}")
    return problems


def _is_number(value: object) -> bool:
    if type(value) is int:
        return abs(value) < 2**1023  # what a float can hold
    return type(value) is float and math.isfinite(value)


def _is_whole(text: str) -> bool:
    """Say whether a text is free of lone surrogates, which JSON can carry and nothing stores."""
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
            judge_model=judge_model,
            dimension=judgment.dimension,
            inconsistent=judgment.inconsistent,
        )
        for judgment in judgments
        if judgment.outcome in winners
    ]


@dataclass(frozen=True, slots=True)
class RatingEntry:
    """One model's place on a leaderboard.

    Attributes:
        model: The model.
        rating: Its rating, in Elo points; None where the battles do not determine one.
        ci_low: Lower end of the sampling interval; None where the data set no bound.
        ci_high: Upper end of the sampling interval; None where the data set no bound.
        n_battles: Battles it fought.
        source: `evaluated` for a model under test, `human` for one known from human battles.
    """

    model: str
    rating: float | None
    ci_low: float | None
    ci_high: float | None
    n_battles: int
    source: Literal["evaluated", "human"] = "evaluated"

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> "RatingEntry":
        """Read an entry, ignoring keys that this version does not know.

        Raises:
            InputError: If the model or its number of battles is missing.
        """
        missing = [name for name in ("model", "n_battles") if row.get(name) is None]
        if missing:
            raise InputError(f"the rating {dict(row)!r:.200} has no {', '.join(missing)}")
        known = {field.name for field in fields(cls)}
        bounds = dict.fromkeys(("rating", "ci_low", "ci_high"))
        return cls(**{**bounds, **{key: value for key, value in row.items() if key in known}})


@dataclass(frozen=True, slots=True, kw_only=True)
class EloReport:
    """A leaderboard and what is needed to compute it again.

    Attributes:
        arena: What the battles are from: the tournament, its mode and dimension.
        model: The model that was placed on the leaderboard; None if there are several.
        judge_model: The model that judged; None if only people did.
        n_bootstraps: Resamples behind the intervals.
        seed: Seeds the resampling.
        ratings: Best first, those without a rating last.
    """

    arena: str
    model: str | None = None
    judge_model: str | None
    n_bootstraps: int
    seed: int
    ratings: tuple[RatingEntry, ...]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EloReport":
        """Read a report, ignoring keys that this version does not know.

        Raises:
            InputError: If a key that every report needs is missing.
        """
        needed = ("arena", "n_bootstraps", "seed", "ratings")
        missing = [name for name in needed if values.get(name) is None]
        if missing:
            raise InputError(f"the report has no {', '.join(missing)}; expected {needed!r}")
        return cls(
            arena=values["arena"],
            model=values.get("model"),
            judge_model=values.get("judge_model"),
            n_bootstraps=values["n_bootstraps"],
            seed=values["seed"],
            ratings=tuple(RatingEntry.from_dict(row) for row in values["ratings"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values, in the order of its fields."""
        return asdict(self)
