"""The battle (a settled pair as other tools know it), and how battles are rated.

A rating is a pure function of a list of battles and its settings, so that a file of both reproduces
it to the bit. The leaderboard that other tools read has the shape of `elo_ratings.json`: an arena,
who judged, and one entry for each model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    Strict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.tournament.asset_rows import LeaderboardRow
from tournament_assets.tournament.verdicts import Judgment, Outcome

if TYPE_CHECKING:
    from tournament_assets.tournament.config import Mode, TournamentConfig

BattleWinner = Literal["model_a", "model_b", "tie", "tie (bothbad)"]
BattleSource = Literal["llm-judge", "human"]

WINNERS: tuple[BattleWinner, ...] = get_args(BattleWinner)
SOURCES: tuple[BattleSource, ...] = get_args(BattleSource)
PRESENTATIONS = ("ab", "ba")

_NEEDED = ("model_a", "model_b", "winner", "source")


def _one_of(words: Sequence[str]) -> str:
    return f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}"


def _differ(model_b: str, info: ValidationInfo) -> str:
    if model_b == info.data.get("model_a"):
        raise ValueError("another model than model_a")
    return model_b


def _marks_a_tie(inconsistent: bool, info: ValidationInfo) -> bool:
    winner = info.data.get("winner")
    if inconsistent and winner in ("model_a", "model_b"):
        raise ValueError(f"false where the winner is {winner!r}")
    return inconsistent


def _prefers_winner(pref: float, info: ValidationInfo) -> float:
    winner = info.data.get("winner")
    if (winner == "model_a" and pref > 0.5) or (winner == "model_b" and pref < 0.5):
        raise ValueError(f"a preference for the winner, {winner!r}")
    return pref


def _are_different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError(_NAMES_WORDS)
    return names


# The text in an annotation says what a value must be, for messages.
_NAMES_WORDS = "a list of different names"
_Text = Annotated[
    str,
    StringConstraints(strict=True, pattern=r"\S"),
    "a text of whole characters that says something",
]
_Id = Annotated[_Text, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
_Number = Annotated[int, Strict(), Field(ge=1, lt=2**31), "a whole number of at least 1"]
_Count = Annotated[int, Strict(), Field(ge=1, lt=2**63), "a whole number of at least 1"]
_Seed = Annotated[int, Strict(), Field(ge=0, lt=2**63), "a whole number of at least 0"]
_Finite = Annotated[float, Strict(), Field(allow_inf_nan=False)]
_Points = Annotated[_Finite, "a number of Elo points"]
_KFactor = Annotated[_Finite, Field(gt=0), "a positive number of Elo points"]
_Names = Annotated[tuple[str, ...], AfterValidator(_are_different), _NAMES_WORDS]


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

    model_a: _Text
    model_b: Annotated[_Text, AfterValidator(_differ)]
    winner: Annotated[BattleWinner, _one_of(WINNERS)]
    source: Annotated[BattleSource, _one_of(SOURCES)]
    question_id: _Id | None = None
    sample: _Number = 1
    judge_model: _Text | None = None
    dimension: _Text | None = None
    inconsistent: Annotated[bool, Strict(), AfterValidator(_marks_a_tie), "true or false"] = False
    weight: Annotated[_Finite, Field(gt=0), "a positive number"] = 1.0
    pref: (
        Annotated[
            _Finite,
            Field(ge=0, le=1),
            AfterValidator(_prefers_winner),
            "a number from 0 (model_a) to 1 (model_b)",
        ]
        | None
    ) = None
    turn: _Number | None = None
    presentation: Annotated[Literal["ab", "ba"], _one_of(PRESENTATIONS)] | None = None

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
        values = {name: row[name] for name in cls.__slots__ if row.get(name) is not None}
        if missing := [name for name in _NEEDED if name not in values]:
            needed = {name: values[name] for name in _NEEDED if name in values}
            raise InputError(f"the battle {needed!r:.200} has no {', '.join(missing)}")
        battle: Battle = _read(cls, values)
        return battle

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


@cache
def _adapter(record: type) -> TypeAdapter[Any]:
    return TypeAdapter(record)


def _read(record: type, values: Mapping[str, Any], what: str = "") -> Any:
    """Build an object of a class from its fields' values."""
    try:
        return _adapter(record).validate_python(values)
    except ValidationError as error:
        details = {str(detail["loc"][0]): detail for detail in error.errors()}
    hints = get_type_hints(record, include_extras=True)
    problems = []
    for name, detail in details.items():
        words = _words_of(hints[name])
        if detail["type"] == "value_error":
            words = str(detail["ctx"]["error"])
        problems.append(f"{what}{name} is {values[name]!r:.80}; expected {words}")
    raise InputError(problems)


def _words_of(hint: Any) -> str:
    """Return the text in an annotation, also where the value may be None."""
    metadata = getattr(hint, "__metadata__", None) or get_args(hint)[0].__metadata__
    return next(entry for entry in metadata if isinstance(entry, str))


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

    arena: Annotated[str, "a text"] | None = None
    entrants: _Names = ()
    dimensions: _Names = ()
    initial_rating: _Points = 1400.0
    k_factor: _KFactor = 16.0
    k_sweep: Annotated[tuple[_KFactor, ...], "a list of positive numbers of Elo points"] = ()
    n_permutations: _Count = 500
    shuffle_seed: _Seed = 0
    n_bootstraps: _Count = 1000
    bootstrap_seed: _Seed = 0
    confidence: Annotated[_Finite, Field(gt=0, lt=1), "a share between 0 and 1, such as 0.95"] = (
        0.95
    )
    equivalent_within: _Points = 20.0

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
        present = {name: values[name] for name in cls.__slots__ if values.get(name) is not None}
        settings: RatingSettings = _read(cls, present, "the rating setting ")
        return settings

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON values, in the order of the fields."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }


def settings_of_run(
    tournament: "TournamentConfig", *, mode: "Mode", n_permutations: int | None = None
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
