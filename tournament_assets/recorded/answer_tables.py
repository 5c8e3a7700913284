"""Existing answers in a table: a spreadsheet, JSON lines, Parquet or a frame.

A table is wide (a row for each prompt, a column for each entrant) or long (a row for each answer,
with a column that names the entrant). The names of its columns show which.

Missing answers stay missing. An empty CSV cell is no answer, because CSV cannot distinguish an
empty answer from none. In JSON, Parquet and frames, null is no answer, and an empty text is an
empty answer, which loses. A word such as `NA` is an answer like any other.
"""

import math
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.formatting import format_plural
from tournament_assets.foundation.json_lines import JsonObject, refuse_half_characters
from tournament_assets.storage.foreign_tables import describe_unused
from tournament_assets.storage.row_files import read_rows, sample_file
from tournament_assets.tournament.completions import Message
from tournament_assets.tournament.prompts import CURATED_SOURCE, Prompt

ColumnRole = Literal["prompt_id", "prompt", "gold_answer", "source", "entrant", "response"]
"""What a column of a table holds."""
ROLES: tuple[ColumnRole, ...] = get_args(ColumnRole)
_USUAL_NAMES: Mapping[ColumnRole, tuple[str, ...]] = {
    "prompt_id": ("prompt_id", "id", "question_id", "uid", "doc_id", "item_id"),
    "prompt": (
        "prompt",
        "question",
        "instruction",
        "input",
        "query",
        "prompt_text",
        "user",
        "text",
    ),
    "gold_answer": (
        "gold_answer",
        "gold",
        "reference",
        "reference_answer",
        "ground_truth",
        "target",
        "expected",
        "expected_answer",
        "ideal",
        "correct_answer",
    ),
    "source": ("source", "stratum", "strata", "category", "topic", "group", "dataset", "task"),
    "entrant": ("entrant", "entrant_id", "model", "model_id", "generator", "system", "assistant"),
    "response": ("response", "response_text", "answer", "output", "completion", "generation"),
}
_NUMBER_OR_DATE = re.compile(
    r"[-+(]?[$\u20ac\u00a3]?\d[\d.,:/ T+-]*(%|ms|s|Z|USD|EUR|tokens?)?\)?"
    r"|true|false|yes|no|\W+|https?://\S+",
    re.IGNORECASE,
)
_MAY_COMMENT = re.compile(
    r"(\w+_)?(comments?|notes?|feedback|remarks?|rationale|reason(ing)?|explanation|critique|context|"
    r"justification|background|description|summary)"
)
"""Names of columns of prose that may be about the answers instead of being some."""
_SHORT, _FEW = 40, 4  # characters of a label; rows that show whether texts repeat
_SPREADSHEET_ERRORS = frozenset(
    ("#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#SPILL!", "#CALC!")
)
_ONE_SOURCE = "all"
_SAY_WHICH = "name it with --columns, such as --columns prompt=COLUMN"


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """Prompts and two or more entrants' answers.

    Attributes:
        prompts: In the order of the table.
        answers: By entrant, then by prompt id; prompts without an answer are absent.
        names: Each entrant's name in the table, by its id.
        layout: `wide` or `long`.
        notes: A sentence for each thing left out or read in a way the user should know.
        understood: What each used column holds, with a cell of it, a line each; and how to say
            otherwise.
    """

    prompts: tuple[Prompt, ...]
    answers: Mapping[str, Mapping[str, str]]
    names: Mapping[str, str]
    layout: Literal["wide", "long"]
    notes: tuple[str, ...] = ()
    understood: tuple[str, ...] = ()

    @property
    def entrants(self) -> tuple[str, ...]:
        """The entrants' ids, in the order of the table."""
        return tuple(self.answers)

    @property
    def missing(self) -> dict[str, int]:
        """How many prompts each entrant left unanswered, without those that answered all."""
        gaps = {name: len(self.prompts) - len(texts) for name, texts in self.answers.items()}
        return {name: gap for name, gap in gaps.items() if gap}

    @property
    def n_compared(self) -> int:
        """How many prompts all entrants answered; others are left out for fairness."""
        return sum(
            all(prompt.prompt_id in texts for texts in self.answers.values())
            for prompt in self.prompts
        )

    @property
    def n_pairs(self) -> int:
        """How many pairs of answers there are to judge on a dimension."""
        return self.n_compared * math.comb(len(self.answers), 2)


Columns = Mapping[ColumnRole, Sequence[str]]
"""The columns of a table by what they hold; several hold responses in a wide table."""


def parse_columns(written: Iterable[str]) -> dict[ColumnRole, list[str]]:
    """Read the command line's `ROLE=COLUMN` options."""
    problems = Problems()
    columns: dict[ColumnRole, list[str]] = {}
    for option in written:
        name, equals, column = option.partition("=")
        role = next((role for role in ROLES if role == name.strip()), None)
        if role is None or not equals or not column.strip():
            problems.add(
                f"--columns {option!r}; expected ROLE=COLUMN, with a role of {', '.join(ROLES)}"
            )
        else:
            columns.setdefault(role, []).append(column.strip())
    problems.raise_if_any()
    return columns


def read_answers(path: Path, *, columns: Columns | None = None) -> AnswerTable:
    """Read a file of answers: CSV, JSON or Parquet, whatever its name.

    Args:
        columns: What the columns hold, if their names do not say so.

    Raises:
        InputError: With every problem, each with its line and column.
    """
    sample = sample_file(path)
    rows = [(where, _without_chat(row)) for where, row in read_rows(path, sample.kind)]
    table = arrange_answers(rows, title=path.name, columns=columns)
    return replace(table, notes=(*([sample.note] if sample.note else []), *table.notes))


def _without_chat(row: JsonObject) -> JsonObject:
    """Return a row whose prompt and answer are the turns of a chat; another as it is.

    A chat of more than one question, or with parts that are no text, is left as it is, and refused.
    """
    turns = row.get("messages")
    if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
        return row
    messages = [Message.read(turn) for turn in turns]
    texts = {message.role: message.text for message in messages}
    roles = [message.role for message in messages if message.role != "system"]
    if roles != ["user", "assistant"] or any(m.kinds - {"text", "thinking"} for m in messages):
        return row
    others = {name: value for name, value in row.items() if name != "messages"}
    return {"prompt": texts["user"], "response": texts["assistant"], **others}


def frame_answers(frame: pd.DataFrame, *, columns: Columns | None = None) -> AnswerTable:
    """Read a data frame of answers; see `read_answers`. NaN and None are no answer.

    Raises:
        InputError: With every problem, each with its row and column.
    """
    if twice := sorted({str(name) for name in frame.columns[frame.columns.duplicated()]}):
        raise InputError(f"the frame has column {', '.join(map(repr, twice))} twice; rename one")
    named = frame.rename(columns=str)
    rows: list[tuple[str, JsonObject]] = []
    problems = Problems(of_file=True)
    for number, record in enumerate(named.to_dict("records"), start=1):
        row = {str(name): _without_nan(value) for name, value in record.items()}
        with problems.collected():
            refuse_half_characters(row, f"row {number}")
        rows.append((f"row {number}", row))
    problems.raise_if_any()
    return arrange_answers(rows, title="the frame", columns=columns)


def _without_nan(value: Any) -> Any:
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and math.isnan(value) else value


def describe_answers(answers: AnswerTable, *, title: str) -> list[str]:
    """Return lines that say what was read from a table: prompts, entrants and gaps.

    Args:
        title: The file's name.
    """
    rows = "a column for each entrant" if answers.layout == "wide" else "a row for each answer"
    n_prompts, n_gold = (
        len(answers.prompts),
        sum(p.gold_answer is not None for p in answers.prompts),
    )
    sources = Counter(prompt.source for prompt in answers.prompts)
    gold = f", {n_gold} with a gold answer" if n_gold else ""
    lines = [
        f"{title}: {rows}",
        f"prompts: {n_prompts}{gold}"
        + (f", in {len(sources)} sources ({_listed(sources)})" if len(sources) > 1 else ""),
        f"entrants: {len(answers.entrants)} ("
        + ", ".join(
            name if name == entrant else f"{name!r} as {entrant}"
            for entrant, name in answers.names.items()
        )[:300]
        + f"), {format_plural(answers.n_pairs, 'pair')} of answers to judge",
    ]
    if missing := answers.missing:
        per_entrant = ", ".join(f"{name} {gap}" for name, gap in missing.items())
        lines.append(
            f"missing: {sum(missing.values())} of {n_prompts * len(answers.entrants)} answers "
            f"({per_entrant[:300]}); {answers.n_compared} of {n_prompts} prompts are answered by "
            "all, and those are judged"
        )
        seldom = [answers.names[name] for name, gap in missing.items() if 2 * gap >= n_prompts]
        if seldom and answers.layout == "wide":
            lines.append(
                f"seldom filled: {_listed(seldom)}; to leave it out, name the others with "
                "--columns response=COLUMN, and write to another folder"
            )
    return [*lines, *answers.notes, *answers.understood]


def arrange_answers(
    rows: Sequence[tuple[str, JsonObject]], *, title: str, columns: Columns | None = None
) -> AnswerTable:
    """Find prompts, entrants and answers in rows.

    Args:
        rows: Where each row is, and the row; None is a missing cell.
        title: What the rows are, for messages.
        columns: What the columns hold, if their names do not say so.
    """
    names = list(dict.fromkeys(name for _, row in rows for name in row))
    filled = [
        (where, row) for where, row in rows if any(value is not None for value in row.values())
    ]
    if not filled:
        raise InputError(f"{title}: the table holds no row; expected at least one prompt")
    with_cells = {name for _, row in filled for name, value in row.items() if value is not None}
    if all(str(row.get("")).isdecimal() for _, row in filled):
        with_cells -= {""}  # row numbers, which pandas writes without a column name
    cells = {
        name: [row[name] for _, row in filled if row.get(name) is not None] for name in with_cells
    }
    kept = {name: cells[name] for name in names if name in with_cells}
    layout = _find_layout(kept, names, title, columns)
    gathered = _Gathered(layout, title)
    for where, row in filled:
        gathered.take(where, row)
    unused = {name: len(kept[name]) for name in layout.left_out if name in kept}
    note, table = describe_unused(unused, str(len(filled))), gathered.table()
    notes = (note, *table.notes) if note else table.notes
    return replace(table, notes=notes, understood=tuple(_understood(layout, kept)))


def _understood(layout: "_Layout", cells: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    roles = [(str(role), getattr(layout, role)) for role in ROLES if role != "response"]
    used = [(role, name) for role, name in roles if name is not None]
    used += [("response", name) for name in layout.responses]
    for role, name in used:
        shown = " ".join(str(next(iter(cells.get(name, [""])))).split())
        example = f"{shown[:_SHORT]}…" if len(shown) > _SHORT else shown
        yield f"  column {name!r} holds {role}: {example}"
    options = " ".join(f"--columns {shlex.quote(f'{role}={name}')}" for role, name in used)
    yield f"to read it otherwise, change this: {options}"


@dataclass(frozen=True, slots=True)
class _Layout:
    prompt: str
    prompt_id: str | None
    gold_answer: str | None
    source: str | None
    entrant: str | None
    responses: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def kind(self) -> Literal["wide", "long"]:
        return "wide" if self.entrant is None else "long"


def _holds_answers(cells: Sequence[Any]) -> bool:
    """Whether the cells of a column are such as entrants write.

    Numbers, dates, links and a few short texts that repeat are none.
    """
    texts = [cell.strip() for cell in cells if isinstance(cell, str)]
    if len(texts) < len(cells) or all(_NUMBER_OR_DATE.fullmatch(text) for text in texts):
        return False
    is_short = max(map(len, texts)) <= _SHORT
    return not (is_short and len(texts) >= _FEW and len({*texts}) <= len(texts) / 2)


def _in_doubt(cells: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the columns that may be about the answers of the others, instead of being some."""
    longest = max(map(len, cells.values()), default=0)
    return [
        name
        for name, values in cells.items()
        if _MAY_COMMENT.fullmatch(_plain(name))
        or (longest >= _FEW and all(len(str(value).split()) == 1 for value in values))
    ]


def _find_layout(
    cells: Mapping[str, Sequence[Any]],
    all_names: Sequence[str],
    title: str,
    columns: Columns | None,
) -> _Layout:
    """Determine what each column holds.

    Args:
        cells: The columns that are not empty, with what they hold.
        all_names: All columns.
    """
    names = list(cells)
    named = dict(columns or {})
    _refuse_misnamed(named, all_names, title)
    taken = {name for role_names in named.values() for name in role_names}
    usual: dict[ColumnRole, list[str]] = {
        role: [
            name
            for usual_name in _USUAL_NAMES[role]
            for name in names
            if name not in taken and _plain(name) == usual_name
        ]
        for role in ROLES
    }
    has_role = taken.union(*usual.values())
    free = tuple(name for name in names if name not in has_role)
    others = tuple(name for name in free if _holds_answers(cells[name]))
    if len(others) < 2 and max(map(len, cells.values()), default=0) < _FEW:
        others = free  # too few rows to tell a label from an answer
    doubted = _in_doubt({name: cells[name] for name in others})
    columns_of = {role: [*named.get(role, ()), *usual[role]] for role in ROLES}
    first = {role: next(iter(columns_of[role]), None) for role in ROLES}
    named_entrant = next(iter(named.get("entrant", ())), None)
    entrant: str | None
    unclear: str | None = None
    is_doubtful, sure = False, list[str]()
    match list(named.get("response", ())), first["entrant"], usual["response"]:
        case [response], entrant, _:
            responses: tuple[str, ...] = (response,)
        case [_, *_] as several, _, _:
            entrant, responses = named_entrant, tuple(several)
        case [], str() as entrant, [response, *_]:
            responses = (response,)
        case _:
            entrant, responses = named_entrant, others
            unclear = next(iter(usual["response"]), None)
            sure = [name for name in others if name not in doubted]
            doubted = doubted if len(doubted) < len(others) else []
            is_doubtful = bool(doubted)
    nameless = [name for name in responses if not name.strip()]
    is_few = len(responses) < 2 if entrant is None else len(responses) != 1
    problems = [
        f"{title}: columns {_listed(usual[role])} may each hold {role}; say which with "
        f"--columns {role}=COLUMN"
        for role in ROLES
        if role not in named and len(usual[role]) > 1
    ] or [
        f"{title}: {problem}"
        for is_wrong, problem in (
            (
                unclear is not None,
                f"column {unclear!r} may be an entrant's or hold the gold answers; say which with "
                f"--columns gold_answer={unclear} or with a --columns response=COLUMN for each "
                "entrant, or name the column of entrants with --columns entrant=COLUMN",
            ),
            (
                first["prompt"] is None,
                "no column holds the prompts' text, which the judge is shown; it has "
                f"{_listed(all_names)}; {_SAY_WHICH}",
            ),
            (
                is_doubtful,
                f"{_listed(doubted)} may hold answers or something about them; say which columns "
                f"hold answers: {' '.join(f'--columns response={name!r}' for name in sure)}, and "
                "so for the others that do",
            ),
            (
                is_few,
                f"{_listed(responses) or 'no column'} holds responses, of {_listed(all_names)}; "
                "expected a column for each of two entrants or more, or columns entrant and "
                f"response; {_SAY_WHICH}",
            ),
            (
                bool(nameless),
                f"the header has no name for {len(nameless)} column with cells; name the entrant "
                "whose answers it holds, or empty it",
            ),
        )
        if is_wrong
    ][:1]
    if problems:
        raise InputError(problems)
    used = {first["prompt"], first["prompt_id"], first["gold_answer"], first["source"], entrant}
    return _Layout(
        prompt=str(first["prompt"]),
        prompt_id=first["prompt_id"],
        gold_answer=first["gold_answer"],
        source=first["source"],
        entrant=entrant,
        responses=responses,
        left_out=tuple(name for name in all_names if name not in used.union(responses)),
    )


def _refuse_misnamed(named: Columns, all_names: Sequence[str], title: str) -> None:
    problems = Problems()
    for role, names in named.items():
        if absent := [name for name in names if name not in all_names]:
            problems.add(
                f"{title}: no column {', '.join(map(repr, absent))}; it has {_listed(all_names)}"
            )
        if role != "response" and len(names) > 1:
            problems.add(f"{title}: {len(names)} columns hold {role}; expected one")
    problems.raise_if_any()


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().casefold())


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))[:300]


@dataclass(slots=True)
class _Row:
    """A prompt, and where it first occurs in the table."""

    where: str
    text: str
    source: str
    gold_answer: str | None


class _Gathered:
    """Collects rows by prompt."""

    def __init__(self, layout: _Layout, title: str) -> None:
        self._layout, self._title = layout, title
        self._problems = Problems(of_file=True)
        self._prompts: dict[str, _Row] = {}
        self._answers: dict[str, dict[str, tuple[str, str]]] = {}
        self._n_again = 0
        if layout.entrant is None:
            self._answers = {name: {} for name in layout.responses}

    def take(self, where: str, row: JsonObject) -> None:
        """Add a row."""
        layout = self._layout
        text = self._text(where, row, layout.prompt)
        prompt_id = self._text(where, row, layout.prompt_id)
        if text is None or not text.strip():
            self._problems.add(
                f"{where}, column {layout.prompt!r}: the prompt is missing; expected its text"
            )
            return
        if layout.prompt_id is not None and prompt_id is None:
            self._problems.add(
                f"{where}, column {layout.prompt_id!r}: the id is missing; expected one in every "
                "row, or no such column"
            )
            return
        key = prompt_id if prompt_id is not None else text.strip()
        source = self._text(where, row, layout.source)
        prompt = _Row(
            where, text, source or _ONE_SOURCE, self._text(where, row, layout.gold_answer)
        )
        self._compare(self._prompts.setdefault(key, prompt), prompt, key)
        if prompt.source == CURATED_SOURCE:
            self._problems.add(
                f"{where}, column {layout.source!r}: {CURATED_SOURCE!r} is the name of prompts "
                "with an expected behaviour; expected another name"
            )
        if layout.entrant is None:
            for name in layout.responses:
                self._answer(where, row, name, name, key)
            return
        entrant = self._text(where, row, layout.entrant)
        if entrant is None or not entrant.strip():
            self._problems.add(
                f"{where}, column {layout.entrant!r}: the entrant is missing; expected its name"
            )
            return
        self._answer(where, row, layout.responses[0], entrant.strip(), key)

    def _compare(self, first: _Row, again: _Row, key: str) -> None:
        pairs = (
            (self._layout.prompt, first.text.strip(), again.text.strip()),
            (self._layout.source, first.source, again.source),
            (self._layout.gold_answer, first.gold_answer, again.gold_answer),
        )
        for column, before, now in pairs:
            if before != now:
                self._problems.add(
                    f"{again.where}, column {column!r}: {now!r:.60} differs from {before!r:.60} "
                    f"at {first.where}, for the same prompt ({key!r:.40}); expected the same"
                )

    def _answer(self, where: str, row: JsonObject, column: str, entrant: str, key: str) -> None:
        answers = self._answers.setdefault(entrant, {})
        text = self._text(where, row, column, is_response=True)
        if text is None:
            return
        before, at = answers.setdefault(key, (text, where))
        if at == where:
            return
        if before == text:
            self._n_again += 1
            return
        advice = (
            "; give rows that ask the same on purpose ids of their own in a column prompt_id"
            if self._layout.prompt_id is None
            else ""
        )
        self._problems.add(
            f"{where}, column {column!r}: {entrant!r} has answered this prompt at {at} with "
            f"another text; expected one answer a prompt; remove one{advice}"
        )

    def _text(
        self, where: str, row: JsonObject, column: str | None, *, is_response: bool = False
    ) -> str | None:
        """Return a cell as text; None if it is missing."""
        value = None if column is None else row.get(column)
        if isinstance(value, str) and value.strip() in _SPREADSHEET_ERRORS and is_response:
            self._problems.add(
                f"{where}, column {column!r}: {value.strip()!r} is an error of the spreadsheet; "
                "expected an answer; correct or empty the cell"
            )
            return None
        if isinstance(value, str):
            return value if value.strip() or is_response else None
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return None if value is None else str(value)
        self._problems.add(
            f"{where}, column {column!r}: the cell is {value!r:.60}; expected a text"
            + ("; read the file with dtype=str" if isinstance(value, float) else "")
        )
        return None

    def table(self) -> AnswerTable:
        """Return the rows as a table."""
        silent = [name for name, answers in self._answers.items() if not answers]
        speaking = {name: answers for name, answers in self._answers.items() if answers}
        if len(speaking) < 2 and not self._problems:
            self._problems.add(
                f"{self._title}: the answers are of {_listed(speaking) or 'nobody'}; expected two "
                "entrants or more"
            )
        self._problems.raise_if_any()
        ids = self._ids()
        names = _identifiers(speaking)
        table = AnswerTable(
            prompts=tuple(
                Prompt(ids[key], row.text, row.source, gold_answer=row.gold_answer)
                for key, row in self._prompts.items()
            ),
            answers={
                names[entrant]: {ids[key]: text for key, (text, _) in answers.items()}
                for entrant, answers in speaking.items()
            },
            names={names[entrant]: entrant for entrant in speaking},
            layout=self._layout.kind,
            notes=tuple(self._notes(silent)),
        )
        if not table.n_compared:
            gaps = ", ".join(f"{name!r} lacks {n}" for name, n in table.missing.items())
            raise InputError(
                f"{self._title}: no prompt is answered by all {len(names)} entrants ({gaps:.300}); "
                "expected one at least; leave out an entrant"
            )
        return table

    def _ids(self) -> dict[str, str]:
        if self._layout.prompt_id is not None:
            return {key: key for key in self._prompts}
        width = len(str(len(self._prompts)))
        return {
            key: f"prompt-{number:0{width}}" for number, key in enumerate(self._prompts, start=1)
        }

    def _notes(self, silent: Sequence[str]) -> Iterable[str]:
        if silent:
            yield f"left out, since they answer nothing: {_listed(silent)}"
        if self._n_again:
            yield f"{self._n_again} answers are in the table more than once, and count once"


def _identifiers(names: Iterable[str]) -> dict[str, str]:
    """Return an id for each name, as similar as possible; no two differ only by case."""
    ids: dict[str, str] = {}
    used: set[str] = set()
    for number, name in enumerate(names, start=1):
        composed = unicodedata.normalize("NFC", name)
        words = re.sub(r"[_.]*[^\w.-]+[_.]*", "_", composed)
        plain = words.strip("_.-") or f"entrant_{number}"
        options = (plain if again == 1 else f"{plain}_{again}" for again in range(1, 10_000))
        ids[name] = next(option for option in options if option.casefold() not in used)
        used.add(ids[name].casefold())
    return ids
