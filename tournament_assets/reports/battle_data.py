"""The battles of a run as the report's browser reads them: every text once, no markup.

A response is a list of parts: plain text, or a token that the jury put in the place of a draft. The
texts themselves are never changed, so joined parts are the response.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from tournament_assets.adapters.tables import AnyTable, iterate_rows, join_pairs
from tournament_assets.reports.formatting import show_directions

_BATTLE_COLUMNS = (
    "dimension",
    "prompt",
    "a",
    "b",
    "outcome",
    "response_a",
    "response_b",
    "verdict_ab",
    "verdict_ba",
    "reply_ab",
    "reply_ba",
    "reason_ab",
    "reason_ba",
)


@dataclass(frozen=True, slots=True, eq=False)
class BattleTables:
    """The tables that the browser shows.

    Attributes:
        match_lists: Table "match_list" by dimension.
        verdicts: Table "judge_verdicts" by dimension.
        replies: Table "judge_replies" by dimension.
        responses: Table "entrant_responses" by entrant.
    """

    match_lists: Mapping[str, AnyTable]
    verdicts: Mapping[str, AnyTable]
    replies: Mapping[str, AnyTable]
    responses: Mapping[str, pd.DataFrame]


@dataclass(frozen=True, slots=True)
class Battle:
    """One pair on one dimension, with everything that was written about it.

    Attributes:
        pair: Its row of table "match_list".
        verdict: Its row of table "judge_verdicts".
        replies: What the judge wrote to both presentations, None where it wrote nothing.
    """

    pair: Mapping[str, Any]
    verdict: Mapping[str, Any]
    replies: tuple[str | None, str | None]


@dataclass(slots=True)
class _Texts:
    """Values in the order in which they first came, each once."""

    values: list[Any] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)

    def place(self, key: Any, value: Any = None) -> int:
        if key not in self.places:
            self.places[key] = len(self.values)
            self.values.append(key if value is None else value)
        return self.places[key]

    def place_of_text(self, text: str | None) -> int | None:
        return None if text is None else self.place(text)


_REPLY_COLUMNS = ("prompt_id", "entrant_a", "entrant_b", "request_key", "asking", "reply")


def verdicts_with_replies(verdicts: AnyTable, replies: AnyTable) -> Iterator[dict[str, Any]]:
    """Yield the rows of table "judge_verdicts", each with the replies that count.

    Args:
        verdicts: Table "judge_verdicts" of one dimension.
        replies: Table "judge_replies" of the same dimension.
    """
    for verdict, answers in join_pairs(
        iterate_rows("judge_verdicts", verdicts),
        iterate_rows("judge_replies", replies, _REPLY_COLUMNS),
    ):
        texts = {(row["request_key"], row["asking"]): row["reply"] for row in answers}
        yield {
            **verdict,
            "reply_ab": texts.get((verdict["request_key_ab"], verdict["asking_ab"])),
            "reply_ba": texts.get((verdict["request_key_ba"], verdict["asking_ba"])),
        }


def read_battles(tables: BattleTables, dimension: str) -> Iterator[Battle]:
    """Yield every judged pair of a dimension with its replies, in the bank's order."""
    pairs = iterate_rows("match_list", tables.match_lists[dimension])
    settled = verdicts_with_replies(tables.verdicts[dimension], tables.replies[dimension])
    # A page is thousands of battles, in which every text stands with all the others.
    texts: dict[Any, Any] = {}
    for row, verdicts in join_pairs(pairs, settled):
        pair = {name: texts.setdefault(value, value) for name, value in row.items()}
        # A run with a limit judges only the first pairs.
        for verdict in verdicts:
            yield Battle(pair, verdict, (verdict["reply_ab"], verdict["reply_ba"]))


def describe_responses(
    responses: Mapping[str, pd.DataFrame],
) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the rows of table "entrant_responses" by entrant and prompt."""
    return {
        (row["entrant_id"], row["prompt_id"]): row
        for frame in responses.values()
        for row in iterate_rows("entrant_responses", frame)
    }


def battle_data(
    battles: Iterable[Battle], responses: Mapping[tuple[str, str], Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what the browser's script reads.

    Args:
        battles: Which battles, in the order of the list.
        responses: Rows of table "entrant_responses" by entrant and prompt; a response that is not
            the text that was judged lends it no diagnostics.

    Returns:
        Lists of `dimensions`, `entrants`, `prompts`, `responses`, `replies` and `words` (outcomes,
        verdicts and reasons), and `battles`: a column for each of a battle's parts, which are
        numbers of places in those lists, or None.
    """
    dimensions, entrants, prompts = _Texts(), _Texts(), _Texts()
    answers, replies, words = _Texts(), _Texts(), _Texts()
    columns: dict[str, list[int | None]] = {name: [] for name in _BATTLE_COLUMNS}
    for battle in battles:
        pair, verdict = battle.pair, battle.verdict
        prompt = {
            "id": pair["prompt_id"],
            "source": pair["source"],
            "text": pair["prompt_text"],
            "gold": pair["gold_answer"],
            "expected": pair["expected_behavior"],
        }
        answer_places = [
            answers.place(
                (pair[f"entrant_{side}"], pair["prompt_id"], pair[f"response_{side}"]),
                _described(
                    pair[f"response_{side}"],
                    responses.get((pair[f"entrant_{side}"], pair["prompt_id"])),
                ),
            )
            for side in ("a", "b")
        ]
        row = (
            dimensions.place(pair["dimension"]),
            prompts.place(tuple(prompt.values()), prompt),
            entrants.place(pair["entrant_a"]),
            entrants.place(pair["entrant_b"]),
            words.place(verdict["outcome"]),
            *answer_places,
            words.place(verdict["verdict_ab"]),
            words.place(verdict["verdict_ba"]),
            replies.place_of_text(battle.replies[0]),
            replies.place_of_text(battle.replies[1]),
            words.place_of_text(verdict["reason_ab"]),
            words.place_of_text(verdict["reason_ba"]),
        )
        for name, value in zip(_BATTLE_COLUMNS, row, strict=True):
            columns[name].append(value)
    data = {
        "dimensions": dimensions.values,
        "entrants": entrants.values,
        "prompts": prompts.values,
        "responses": answers.values,
        "replies": replies.values,
        "words": words.values,
        "battles": columns,
    }
    shown: dict[str, Any] = _show_directions(data)
    return shown


def _show_directions(value: Any) -> Any:
    if isinstance(value, str):
        return show_directions(value)
    if isinstance(value, list):
        return [_show_directions(each) for each in value]
    if isinstance(value, dict):
        return {key: _show_directions(each) for key, each in value.items()}
    return value


def _described(text: str, row: Mapping[str, Any] | None) -> dict[str, Any]:
    if row is None or row["response"] != text:
        return {"parts": [text], "unplaced": [], "p_correct": None, "finish": None, "tokens": None}
    diagnostics = json.loads(row["diagnostics"])
    jury = diagnostics.get("jury") or {}
    parts, unplaced = mark_replacements(text, jury.get("resampled") or [])
    return {
        "parts": parts,
        "unplaced": unplaced,
        "p_correct": diagnostics.get("p_correct"),
        "finish": row["finish_reason"],
        "tokens": row["response_tokens"],
    }


def mark_replacements(
    text: str, resampled: Sequence[Mapping[str, Any]]
) -> tuple[list[str | dict[str, Any]], list[dict[str, Any]]]:
    """Cut a response where the jury replaced a draft.

    Args:
        text: The response.
        resampled: What the decoder noted of every replacement: the token's `position`, `draft` and
            `replacement`, and its `start` and `end` in the text's characters.

    Returns:
        The parts, which joined are the text: plain text, or `text`, `draft` and `position` of a
        replacement; and the replacements that stand nowhere in the text, because it is not known
        where, or because they are white space at its end.
    """
    parts: list[str | dict[str, Any]] = []
    unplaced: list[dict[str, Any]] = []
    done = 0
    for each in sorted(resampled, key=lambda each: each.get("position") or 0):
        start, end = each.get("start"), each.get("end")
        noted = {"draft": each.get("draft", ""), "position": each.get("position")}
        if isinstance(start, int) and isinstance(end, int) and done <= start < end <= len(text):
            if done < start:
                parts.append(text[done:start])
            parts.append({"text": text[start:end], **noted})
            done = end
        else:
            unplaced.append({"replacement": each.get("replacement", ""), **noted})
    if done < len(text) or not parts:
        parts.append(text[done:])
    return parts, unplaced
