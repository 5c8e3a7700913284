"""Formats of vote files: evalica's, one-hot columns, orq-arena's and LMArena's.

Evalica's CSV has `left`, `right` and `winner`, which is left, right or tie. It does not say who
decided, so the user has to.
Source: https://github.com/dustalov/evalica

One-hot votes are cast by people, as in LMSYS's sets on Kaggle: CSV, Parquet or JSON lines. One of
`winner_model_a`, `winner_model_b` and `winner_tie` is 1, and the others are 0. The prompt is
identified by its text, because `id` differs in every row.
Source: https://www.kaggle.com/competitions/lmsys-chatbot-arena/data

Orq-arena's `battles.jsonl`, version 3, has the votes of several judges and their joint verdict.
`inconclusive` means that they reached none. It is not a tie: such a battle is left out and counted.
Responses, single votes and token counts are ignored.

LMArena's votes are cast by people; the conversations that come with them are ignored.
"""

from collections.abc import Iterable, Mapping

from tournament_assets.battles.files import (
    ANONYMOUS,
    NO_FLAG,
    SELF,
    TEXT,
    FormatOptions,
    RowFormat,
    flagged_winner,
    need,
)
from tournament_assets.battles.formats.arena import OF_OTHERS, OURS, PLAYERS, ArenaFormat
from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.storage.foreign_tables import LeftOut, Row
from tournament_assets.tournament.battles import BattleWinner

_RESPONSES = frozenset({"response_a", "response_b"})
NO_WINNER = "no verdict: the winner is empty"
_SIDES: Mapping[str, BattleWinner] = {"left": "model_a", "right": "model_b", "tie": "tie"}


def _parse_evalica(row: Row, _: FormatOptions) -> Iterable[Row | LeftOut]:
    word = row.get("winner")
    if word in (None, "") and row.get("left") and row.get("right"):
        return [LeftOut(NO_WINNER)]
    winner = _SIDES.get(str(word))
    if winner is None:
        raise InputError(f"winner is {word!r:.40}; expected 'left', 'right' or 'tie'")
    return [{"model_a": row.get("left"), "model_b": row.get("right"), "winner": winner}]


EVALICA = RowFormat(
    name="evalica",
    title="evalica",
    columns=("left", "right", "winner"),
    prompts=("prompt", "question_id", "prompt_id", "prompt_hash"),
    source=None,
    parse=_parse_evalica,
)


def _parse_one_hot(row: Row, _: FormatOptions) -> Iterable[Row | LeftOut]:
    winner = flagged_winner(row)
    if winner is None:
        return [LeftOut(NO_FLAG)]
    return [{"model_a": row.get("model_a"), "model_b": row.get("model_b"), "winner": winner}]


ONE_HOT = RowFormat(
    name="one-hot",
    title="LMSYS on Kaggle",
    columns=("model_a", "model_b", "winner_model_a", "winner_model_b", "winner_tie"),
    known=_RESPONSES,
    prompts=("prompt", "question_id", "prompt_id", "prompt_hash", "id"),
    source="human",
    parse=_parse_one_hot,
)


INCONCLUSIVE = "inconclusive: the judges came to no verdict"

_VERSION = 3
_PLACES: Mapping[str, str | None] = {"A": "model_a", "B": "model_b", "a": "model_a", "b": "model_b"}
_WORDS: Mapping[str, str | None] = {
    "model_a": "model_a",
    "model_b": "model_b",
    **_PLACES,
    "tie": "tie",
    "inconclusive": None,
}


def _parse_orq_arena(row: Row, _: FormatOptions) -> Iterable[Row | LeftOut]:
    need(row, model_a=TEXT, model_b=TEXT)
    if row["model_a"] == row["model_b"]:
        return [LeftOut(SELF)]
    problems = Problems()
    if row.get("schema_version") not in (_VERSION, str(_VERSION)):
        problems.add(f"schema_version is {row.get('schema_version')!r:.40}; expected {_VERSION}")
    flags = {
        name: row[name] for name in ("winner", "majority_verdict") if row.get(name) is not None
    }
    verdicts: set[str | None] = set()
    for name, value in flags.items():
        with problems.collected():
            verdicts.add(_meaning(name, value, row["model_a"], row["model_b"]))
    problems.raise_if_any()
    if len(verdicts) > 1:
        raise InputError(
            f"winner is {row['winner']!r} and majority_verdict is {row['majority_verdict']!r}; "
            "expected both to say the same"
        )
    winner = verdicts.pop() if verdicts else None
    if winner is None:
        return [LeftOut(INCONCLUSIVE)]
    return [
        {
            "model_a": row["model_a"],
            "model_b": row["model_b"],
            "winner": winner,
            "judge_model": _judges(row.get("judge_votes")),
        }
    ]


def _meaning(name: str, value: object, model_a: str, model_b: str) -> str | None:
    """Return the winner that a verdict names; None if it is inconclusive.

    `winner` names a model and `majority_verdict` a place, so a first model called "B" is not
    ambiguous. One called "tie" is.
    """
    by_name = {model_a: "model_a", model_b: "model_b"}
    if isinstance(value, str) and value in by_name and name == "winner":
        if value in _PLACES or _WORDS.get(value, by_name[value]) == by_name[value]:
            return by_name[value]
        raise InputError(
            f"{name} is {value!r}, which is a verdict and the name of a model; expected a model "
            "that is not called like a verdict; rename it"
        )
    words = {**by_name, **_WORDS}
    if not isinstance(value, str) or value not in words:
        raise InputError(f"{name} is {value!r:.60}; expected one of {', '.join(words)}")
    return words[value]


def _judges(votes: object) -> str | None:
    if not isinstance(votes, list):
        return None
    models = {
        vote["model"]
        for vote in votes
        if isinstance(vote, Mapping)
        and isinstance(vote.get("model"), str)
        and vote.get("completed", True)
    }
    return ", ".join(sorted(models)) or None


ORQ_ARENA = RowFormat(
    name="orq-arena",
    title="orq-arena",
    columns=("model_a", "model_b"),
    one_of=frozenset({"judge_votes", "majority_verdict"}),
    known=_RESPONSES,
    prompts=("question_id", "prompt_id", "prompt_hash", "prompt", "prompt_text"),
    source="llm-judge",
    parse=_parse_orq_arena,
)

_WEAK = frozenset({"question_id", "id", "language", "timestamp"})
"""Columns that any table may have, and that do not tell who decided."""
_CONVERSATIONS = frozenset({"conversation_a", "conversation_b", "conversation"})
_OF_LMARENA = _CONVERSATIONS | _WEAK | {"tstamp", ANONYMOUS}
LMARENA = ArenaFormat(
    name="lmarena",
    title="LMArena",
    columns=PLAYERS,
    one_of=_OF_LMARENA,
    without=OF_OTHERS | OURS | {"source"},
    tells=lambda sample: (
        sample.kind not in ("csv", "xlsx") or bool(sample.columns & (_OF_LMARENA - _WEAK))
    ),
    known=_CONVERSATIONS,
    accepted={
        "model_a": ("model_a",),
        "model_b": ("model_b",),
        "winner": ("winner",),
        "question_id": ("question_id", "id"),
    },
    source="human",
)
