"""Orq-arena's `battles.jsonl`, version 3: votes of several judges and what they came to.

`inconclusive` means that the judges came to nothing. It is no tie: such a battle is left out and
counted. Responses, single votes and token counts are passed over.
"""

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from tournament_assets.battles.columns import battles_of
from tournament_assets.battles.files import FormatOptions
from tournament_assets.battles.rows import TEXT, LeftOut, Row, RowFormat, Unwritten, need
from tournament_assets.tournament.errors import InputError

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


def _parse(row: Row, _: FormatOptions) -> Iterable[Row | LeftOut]:
    need(row, model_a=TEXT, model_b=TEXT)
    problems = []
    if row.get("schema_version") not in (_VERSION, str(_VERSION)):
        problems.append(f"schema_version is {row.get('schema_version')!r:.40}; expected {_VERSION}")
    given = {
        name: row[name] for name in ("winner", "majority_verdict") if row.get(name) is not None
    }
    verdicts: set[str | None] = set()
    for name, value in given.items():
        try:
            verdicts.add(_meaning(name, value, row["model_a"], row["model_b"]))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
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
    """Return what a verdict says, None for nothing.

    `winner` names a model and `majority_verdict` a place, so a model that is called "B" and stands
    first is no riddle. One that is called "tie" is.
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


def _make_rows(table: pa.Table, _: FormatOptions, __: Unwritten) -> Iterator[Row]:
    for battle in battles_of(table):
        verdict = "tie" if battle.is_tie else battle.winner
        vote = {"model": battle.judge_model, "vote": verdict, "flipped": False, "completed": True}
        yield {
            "schema_version": _VERSION,
            "question_id": battle.question_id,
            "model_a": battle.model_a,
            "model_b": battle.model_b,
            "judge_votes": [vote] if battle.judge_model else [],
            "majority_verdict": verdict,
            "winner": verdict,
        }


ORQ_ARENA = RowFormat(
    name="orq-arena",
    title="orq-arena",
    kinds=("json lines",),
    columns=("model_a", "model_b"),
    one_of=frozenset({"judge_votes", "majority_verdict"}),
    prompts=("question_id", "prompt_id", "prompt_hash", "prompt", "prompt_text"),
    holds=frozenset({"model_a", "model_b", "winner", "question_id", "judge_model"}),
    source="llm-judge",
    parse=_parse,
    make_rows=_make_rows,
)
