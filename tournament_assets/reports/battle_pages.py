"""The battle browser's data, in the report itself or, for many battles, on separate pages.

Each page's data waits in a temporary file until the page is written, so only one is in memory.

The battles of a run as the report's browser reads them: every text once, no markup.

A response is a list of parts: plain text, or a token that the jury put in the place of a draft. The
texts themselves are never changed, so joined parts are the response.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any

import pandas as pd

from tournament_assets.reports.rendering import show_controls
from tournament_assets.storage.atomic_files import WaitingContent
from tournament_assets.storage.tables import AnyTable, join_pairs, rows_of, values_of
from tournament_assets.tournament.asset_rows import JudgeReplyRow, MatchRow, ResponseRow, VerdictRow
from tournament_assets.tournament.prompts import AnswerKey, answer_key

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
    """The tables that the browser shows, by the names of their assets.

    Attributes:
        match_list: By dimension.
        judge_verdicts: By dimension.
        judge_replies: By dimension.
        entrant_responses: By entrant.
    """

    match_list: Mapping[str, AnyTable]
    judge_verdicts: Mapping[str, AnyTable]
    judge_replies: Mapping[str, AnyTable]
    entrant_responses: Mapping[str, pd.DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredVerdict(VerdictRow):
    """A row of table "judge_verdicts" with the replies that count, None where nothing came."""

    reply_ab: str | None
    reply_ba: str | None


@dataclass(frozen=True, slots=True)
class ShownBattle:
    """One pair on one dimension, with all that the judge wrote about it.

    Attributes:
        pair: Its row of table "match_list".
        verdict: Its row of table "judge_verdicts", with what the judge wrote.
    """

    pair: MatchRow
    verdict: AnsweredVerdict


@dataclass(slots=True)
class _Numbered:
    """Distinct values, numbered in the order of their first use; None has no number."""

    values: list[Any] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)

    def place(self, key: Any, value: Any = None) -> int | None:
        if key is not None and key not in self.places:
            self.places[key] = len(self.values)
            self.values.append(key if value is None else value)
        return self.places.get(key)


def verdicts_with_replies(verdicts: AnyTable, replies: AnyTable) -> Iterator[AnsweredVerdict]:
    """Yield the rows of table "judge_verdicts", each with the replies that count.

    Args:
        verdicts: Table "judge_verdicts" of one dimension.
        replies: Table "judge_replies" of the same dimension.
    """
    for verdict, answers in join_pairs(
        rows_of(VerdictRow, verdicts), rows_of(JudgeReplyRow, replies)
    ):
        texts = {(row.request_key, row.attempt): row.reply for row in answers}
        yield AnsweredVerdict(
            **values_of(verdict),
            reply_ab=texts.get((verdict.request_key_ab, verdict.attempt_ab)),
            reply_ba=texts.get((verdict.request_key_ba, verdict.attempt_ba)),
        )


def read_battles(tables: BattleTables, dimension: str) -> Iterator[ShownBattle]:
    """Yield every judged pair of a dimension with its replies, in the bank's order."""
    # A page holds thousands of battles, in which each text recurs with all the others.
    pairs = rows_of(MatchRow, tables.match_list[dimension], shares_texts=True)
    settled = verdicts_with_replies(
        tables.judge_verdicts[dimension], tables.judge_replies[dimension]
    )
    for pair, verdicts in join_pairs(pairs, settled):
        # A run with a limit judges only the first pairs.
        for verdict in verdicts:
            yield ShownBattle(pair, verdict)


def describe_responses(
    responses: Mapping[str, pd.DataFrame],
) -> dict[tuple[str, AnswerKey], ResponseRow]:
    """Return the rows of table "entrant_responses" by entrant and what they answer."""
    return {
        (row.entrant_id, answer_key(row)): row
        for frame in responses.values()
        for row in rows_of(ResponseRow, frame)
    }


def battle_data(
    battles: Iterable[ShownBattle], responses: Mapping[tuple[str, AnswerKey], ResponseRow]
) -> dict[str, Any]:
    """Return what the browser's script reads.

    Args:
        battles: Which battles, in the order of the list.
        responses: Rows of table "entrant_responses" by entrant and what they answer; diagnostics
            are omitted where the response differs from the judged text.

    Returns:
        Lists of `dimensions`, `entrants`, `prompts`, `responses`, `replies` and `words` (outcomes,
        verdicts and reasons), and `battles`: a column for each of a battle's parts, which are
        numbers of places in those lists, or None.
    """
    dimensions, entrants, prompts = _Numbered(), _Numbered(), _Numbered()
    answers, replies, words = _Numbered(), _Numbered(), _Numbered()
    columns: dict[str, list[int | None]] = {name: [] for name in _BATTLE_COLUMNS}
    for battle in battles:
        pair, verdict = battle.pair, battle.verdict
        prompt = {
            "id": pair.prompt_id,
            "sample": pair.sample,
            "source": pair.source,
            "text": pair.prompt_text,
            "gold": pair.gold_answer,
            "expected": pair.expected_behavior,
        }
        answer_places = [
            answers.place(
                (entrant, answer_key(pair), text),
                _described(text, responses.get((entrant, answer_key(pair)))),
            )
            for entrant, text in (
                (pair.entrant_a, pair.response_a),
                (pair.entrant_b, pair.response_b),
            )
        ]
        row = (
            dimensions.place(pair.dimension),
            prompts.place(tuple(prompt.values()), prompt),
            entrants.place(pair.entrant_a),
            entrants.place(pair.entrant_b),
            words.place(verdict.outcome),
            *answer_places,
            words.place(verdict.verdict_ab),
            words.place(verdict.verdict_ba),
            replies.place(verdict.reply_ab),
            replies.place(verdict.reply_ba),
            words.place(verdict.reason_ab),
            words.place(verdict.reason_ba),
        )
        for name, value in zip(_BATTLE_COLUMNS, row, strict=True):
            columns[name].append(value)
    texts = {
        "dimensions": dimensions.values,
        "entrants": entrants.values,
        "prompts": prompts.values,
        "responses": answers.values,
        "replies": replies.values,
        "words": words.values,
    }
    return {**_show_controls(texts), "battles": columns}


def _show_controls(value: Any) -> Any:
    if isinstance(value, str):
        return show_controls(value)
    if isinstance(value, list):
        return [_show_controls(each) for each in value]
    if isinstance(value, dict):
        return {key: _show_controls(each) for key, each in value.items()}
    return value


def _described(text: str, row: ResponseRow | None) -> dict[str, Any]:
    if row is None or row.response != text:
        return {"parts": [text], "unplaced": [], "p_correct": None, "finish": None, "tokens": None}
    diagnostics = json.loads(row.diagnostics)
    jury = diagnostics.get("jury") or {}
    parts, unplaced = mark_replacements(text, jury.get("resampled") or [])
    return {
        "parts": parts,
        "unplaced": unplaced,
        "p_correct": diagnostics.get("p_correct"),
        "finish": row.finish_reason,
        "tokens": row.response_tokens,
        **({"not_sent": diagnostics["not_sent"]} if "not_sent" in diagnostics else {}),
    }


def mark_replacements(
    text: str, resampled: Sequence[Mapping[str, Any]]
) -> tuple[list[str | dict[str, Any]], list[dict[str, Any]]]:
    """Cut a response where the jury replaced a draft.

    Args:
        text: The response.
        resampled: What the decoder recorded for each replacement: the token's `position`, `draft`
            and `replacement`, and its `start` and `end` in the text's characters.

    Returns:
        The parts, which join to the text: plain text, or `text`, `draft` and `position` of a
        replacement; and the replacements with no place in the text, because it is not known or
        because they are white space at its end.
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


INLINE_BYTES = 4_000_000
"""Most battle data in the report itself; with its pictures it stays below 5 MB."""
PAGE_BYTES = 8_000_000
"""Approximate limit of one separate page: what a browser reads without a pause."""
PAGES_PER_DIMENSION = 16
"""Most pages of a dimension; further battles are only in `verdicts/`, and the report says so."""

_LOOK_AFTER = 1_000
"""After this many battles, and each doubling, check whether they still fit the report."""

_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class BattlePage:
    """Battles that are read together.

    Attributes:
        name: The page's file name; empty for the report itself.
        title: Which battles.
        first: The first prompt on it.
        last: The last prompt on it.
        n_battles: How many battles.
        prompts: The ids of all prompts on it.
        content: The data.
    """

    name: str
    title: str
    first: str
    last: str
    n_battles: int
    prompts: frozenset[str]
    content: WaitingContent = field(repr=False)

    @property
    def json(self) -> str:
        """The data, safe inside a `script` element."""
        return self.content.read().decode()


@dataclass(frozen=True, slots=True)
class BattlePages:
    """All battles of a report.

    Attributes:
        inline: The battles in the report itself, if they are few.
        pages: The pages beside it otherwise, by dimension.
        left_out: How many battles are on no page, by dimension.
    """

    inline: BattlePage | None
    pages: Mapping[str, tuple[BattlePage, ...]]
    left_out: Mapping[str, int]

    def pages_of(self, dimension: str, prompts: Collection[str] = ()) -> list[BattlePage]:
        """Return the pages of a dimension's battles in order; only those of some prompts, if given.

        The report itself has an empty name.
        """
        pages = self.pages.get(dimension, ()) if self.inline is None else (self.inline,)
        return [page for page in pages if not prompts or page.prompts & {*prompts}]


def script_json(value: Any) -> str:
    """Return a value as JSON that can stand inside a `script` element.

    No sign in it can end the element, begin a comment or, for an old reader, end a line.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def lay_out_battles(
    tables: BattleTables,
    *,
    inline_bytes: int = INLINE_BYTES,
    page_bytes: int = PAGE_BYTES,
    pages_per_dimension: int = PAGES_PER_DIMENSION,
) -> BattlePages:
    """Divide the battles between the report and pages beside it.

    Args:
        inline_bytes: Limit of the report itself.
        page_bytes: Approximate limit of a separate page; a prompt is never split.
        pages_per_dimension: The most pages of one dimension.
    """
    responses = describe_responses(tables.entrant_responses)
    whole = _inline(tables, responses, inline_bytes=inline_bytes)
    if whole is not None:
        return BattlePages(whole, {}, {})
    pages: dict[str, tuple[BattlePage, ...]] = {}
    left_out: dict[str, int] = {}
    for dimension in tables.match_list:
        shown: list[BattlePage] = []
        missing = 0
        for part in _parts(read_battles(tables, dimension), responses, page_bytes=page_bytes):
            if len(shown) < pages_per_dimension:
                shown.append(_page(part, _data(part, responses)))
            else:
                missing += len(part)
        pages[dimension] = tuple(
            replace(
                page,
                name=f"report_battles_{dimension}{'' if len(shown) == 1 else f'_{number}'}.html",
                title=dimension
                if len(shown) == 1
                else f"{dimension}, part {number} of {len(shown)}",
            )
            for number, page in enumerate(shown, start=1)
        )
        if missing:
            left_out[dimension] = missing
    return BattlePages(None, pages, left_out)


Responses = Mapping[tuple[str, AnswerKey], ResponseRow]


def _inline(tables: BattleTables, responses: Responses, *, inline_bytes: int) -> BattlePage | None:
    """Return the page of all battles; None, without having read them all, if it is too large."""
    battles: list[ShownBattle] = []
    looked_at = _LOOK_AFTER
    for battle in chain.from_iterable(read_battles(tables, each) for each in tables.match_list):
        battles.append(battle)
        if len(battles) == looked_at:
            # More battles only make it longer.
            if len(_data(battles, responses)) > inline_bytes:
                return None
            looked_at *= 2
    data = _data(battles, responses)
    return _page(battles, data) if len(data) <= inline_bytes else None


def _data(battles: Sequence[ShownBattle], responses: Responses) -> bytes:
    return script_json(battle_data(battles, responses)).encode()


def _page(battles: Sequence[ShownBattle], data: bytes) -> BattlePage:
    content = WaitingContent()
    content.file.write(data)
    return BattlePage(
        name="",
        title="all battles",
        first=battles[0].pair.prompt_id if battles else "",
        last=battles[-1].pair.prompt_id if battles else "",
        n_battles=len(battles),
        prompts=frozenset(battle.pair.prompt_id for battle in battles),
        content=content,
    )


def _parts(
    battles: Iterator[ShownBattle], responses: Responses, *, page_bytes: int
) -> Iterator[list[ShownBattle]]:
    part: list[ShownBattle] = []
    size = 0
    for _, group in groupby(battles, key=lambda battle: answer_key(battle.pair)):
        members = list(group)
        own_size = len(_data(members, responses))
        if part and size + own_size > page_bytes:
            yield part
            part, size = [], 0
        part += members
        size += own_size
    if part:
        yield part
