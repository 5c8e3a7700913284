"""Labels of other tools: Label Studio, Argilla, and CSV as LMSYS publishes it.

The shapes of their files are those of the tools' documentation, not of files that they wrote for
us. A vote is read with whatever names its pair: texts, entrants, the prompt.
Label Studio's JSON export: https://labelstud.io/guide/export.html
Argilla's `dataset.records.to_json`, and the records of its first version:
https://docs.argilla.io/latest/reference/argilla/records/records/
LMSYS on Kaggle, `train.csv`: https://www.kaggle.com/competitions/lmsys-chatbot-arena/data
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tournament_assets.ledger.labels import GivenVote, clean_rater, time_of
from tournament_assets.storage.row_files import csv_rows, read_json_list
from tournament_assets.tournament.errors import InputError, Problems
from tournament_assets.tournament.fingerprints import fingerprint

FORMATS = ("label-studio", "argilla", "lmsys")
_LISTED_PROBLEMS = 50
_MAX_FOREIGN_BYTES = 256 * 2**20
_SIDES = (
    *(("response_a", "response_b"), ("response_1", "response_2"), ("response1", "response2")),
    *(("answer_a", "answer_b"), ("text1", "text2"), ("left", "right"), ("a", "b")),
)
_NAMES = (("model_a", "model_b"), ("entrant_a", "entrant_b"))
_FILLING = re.compile(r"\b(response|answer|model|option|text|assistant|is|are|better|wins|the)\b")
_WORDS: Mapping[str, GivenVote] = {
    **dict.fromkeys(("a", "left", "1", "first"), "a"),
    **dict.fromkeys(("b", "right", "2", "second"), "b"),
    **dict.fromkeys(("tie", "draw", "equal", "equally good", "same", "both good"), "tie"),
    **dict.fromkeys(("both bad", "bothbad", "tie bothbad", "tie both bad"), "both_bad"),
    "equally bad": "both_bad",
}


@dataclass(frozen=True, slots=True)
class ForeignVote:
    """A vote as another tool's file tells it.

    Attributes:
        name: Names it in that tool.
        rater: Who voted.
        said: `a` for the response that stood first, `b` for the other one.
        texts: The two responses, in the order shown; None where the file has none.
        models: Who wrote them, in that order; None where the file does not say.
        strings: Every short or long text beside them, one of which is the prompt or its id.
        at: When; None where the file does not say.
        seconds: How long it took; None where the file does not say.
    """

    name: str
    rater: str
    said: GivenVote
    texts: tuple[str, str] | None
    models: tuple[str, str] | None
    strings: frozenset[str]
    at: datetime | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """What a file may not say itself.

    Attributes:
        rater: Who labelled, where the file does not say; None takes every row for a rater's own.
        question: The question, or control, that compares the responses, where there are several.
        sides: The keys of the response that stood first and of the other one.
    """

    rater: str | None = None
    question: str | None = None
    sides: tuple[str, str] | None = None


@dataclass
class _Reading:
    options: ReadingOptions
    left_out: Counter[str] = field(default_factory=Counter)

    def vote(
        self,
        values: Mapping[str, Any],
        said: object,
        *,
        name: str,
        rater: object = None,
        at: object = None,
        seconds: object = None,
    ) -> ForeignVote:
        """Read one vote; `values` hold the texts under the keys that a person gave them."""
        heard = _heard(said)
        flat = {key: _plain(value) for key, value in values.items()}
        texts = _first_two(flat, [self.options.sides] if self.options.sides else _SIDES)
        if self.options.sides and texts is None:
            raise InputError(
                f"{' and '.join(self.options.sides)} hold no text; expected the two responses"
            )
        given = rater if rater not in (None, "") else self.options.rater
        return ForeignVote(
            name=name,
            rater=clean_rater(f"unnamed {name}"[:60] if given is None else str(given)[:60]),
            said=heard,
            texts=texts,
            models=_first_two(flat, _NAMES),
            strings=frozenset(plain_text(text) for text in flat.values() if text is not None),
            at=time_of(at),
            seconds=float(seconds) if _is_seconds(seconds) else None,  # type: ignore[arg-type]
        )


def _is_seconds(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 86_400  # type: ignore[operator]


def _heard(said: object) -> GivenVote:
    if not isinstance(said, str):
        raise InputError(f"the answer is {said!r:.80}; expected a text such as 'left' or 'tie'")
    words = " ".join(re.sub(r"[^a-z0-9]+", " ", said.lower()).split())
    vote = _WORDS.get(" ".join(_FILLING.sub(" ", words).split()))
    if vote is None:
        raise InputError(
            f"the answer is {said!r:.80}; expected A or B, left or right, 1 or 2, tie, or both bad"
        )
    return vote


def _plain(value: object) -> str | None:
    """Return a text; of a conversation of one turn, that turn."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return str(value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return value[0]
    return str(value) if isinstance(value, str | int) else None


def _first_two(
    flat: Mapping[str, str | None], keys: Iterable[tuple[str, str]]
) -> tuple[str, str] | None:
    for first, second in keys:
        one, other = flat.get(first), flat.get(second)
        if one is not None and other is not None:
            return one, other
    return None


def plain_text(text: str) -> str:
    """Return a text as tools may change it without saying another one: line ends, outer space."""
    return text.replace("\r\n", "\n").strip()


def _label_studio(task: Mapping[str, Any], reading: _Reading) -> Iterator[ForeignVote]:
    data, annotations = task.get("data"), task.get("annotations")
    if not isinstance(data, Mapping) or not isinstance(annotations, list):
        raise InputError("data or annotations is missing; expected Label Studio's JSON export")
    for number, annotation in enumerate(annotations):
        if not isinstance(annotation, Mapping):
            raise InputError(f"annotation {number} is {type(annotation).__name__}; expected object")
        if annotation.get("was_cancelled"):
            reading.left_out["skipped by the rater"] += 1
            continue
        answers = list(_answers(annotation.get("result"), reading.options.question))
        if not answers:
            reading.left_out["no answer"] += 1
            continue
        if len(answers) > 1:
            raise InputError("several answers in one annotation; name one by --question")
        by = annotation.get("completed_by")
        if isinstance(by, Mapping):
            by = by.get("email") or by.get("id")
        yield reading.vote(
            data,
            answers[0],
            name=f"{task.get('id')}.{annotation.get('id', number)}",
            rater=f"rater {by}" if type(by) is int else by,
            at=annotation.get("updated_at") or annotation.get("created_at"),
            seconds=annotation.get("lead_time"),
        )


def _answers(result: object, question: str | None) -> Iterator[object]:
    for item in result if isinstance(result, list) else ():
        if not isinstance(item, Mapping) or not isinstance(item.get("value"), Mapping):
            raise InputError(f"a result is {item!r:.80}; expected an object with a value")
        if question is not None and item.get("from_name") != question:
            continue
        if item.get("type") == "pairwise":
            yield item["value"].get("selected")
        elif item.get("type") == "choices":
            yield from item["value"].get("choices") or ()


def _argilla(record: Mapping[str, Any], reading: _Reading) -> Iterator[ForeignVote]:
    fields, metadata = record.get("fields"), record.get("metadata") or {}
    if not isinstance(fields, Mapping) or not isinstance(metadata, Mapping):
        raise InputError("fields is missing; expected a record of Argilla")
    for number, (question, response) in enumerate(_responses(record.get("responses"))):
        if reading.options.question not in (None, question):
            continue
        if not isinstance(response, Mapping):
            raise InputError(f"a response is {type(response).__name__}; expected an object")
        if response.get("status", "submitted") != "submitted":
            reading.left_out["not submitted"] += 1
            continue
        by = response.get("user_id")
        yield reading.vote(
            {**metadata, **fields},
            response.get("value"),
            name=f"{record.get('id')}.{question}.{by or number}",
            rater=by,
        )


def _responses(found: object) -> Iterator[tuple[str, object]]:
    """Yield answers with their questions: by question in version 2, by rater in version 1."""
    if isinstance(found, Mapping):
        for question, responses in found.items():
            for response in responses if isinstance(responses, list) else (responses,):
                yield str(question), response
        return
    for response in found if isinstance(found, list) else ():
        values = response.get("values") if isinstance(response, Mapping) else None
        if not isinstance(values, Mapping):
            raise InputError(f"a response is {response!r:.80}; expected one with values")
        for question, value in values.items():
            answer = value.get("value") if isinstance(value, Mapping) else value
            yield str(question), {**response, "value": answer}


def _lmsys(row: Mapping[str, Any], reading: _Reading) -> Iterator[ForeignVote]:
    said = row.get("winner")
    if said in (None, ""):
        marked = [
            name
            for name in ("winner_model_a", "winner_model_b", "winner_tie")
            if row.get(name) in ("1", "1.0", "True", "true")
        ]
        if len(marked) != 1:
            raise InputError(f"{len(marked)} of the columns winner_… are 1; expected one")
        said = marked[0].removeprefix("winner_")
    name = str(
        row.get("id") or row.get("question_id") or fingerprint(list(map(str, row.values())))[:12]
    )
    yield reading.vote(row, said, name=name, rater=row.get("judge"))


_READERS = {"label-studio": _label_studio, "argilla": _argilla, "lmsys": _lmsys}


def read_foreign_votes(
    path: Path, *, format_name: str, options: ReadingOptions
) -> tuple[list[ForeignVote], Counter[str]]:
    """Read another tool's file.

    Args:
        path: The file.
        format_name: One of `FORMATS`.
        options: What the file may not say itself.

    Returns:
        The votes, and what is no vote, counted by the reason.

    Raises:
        InputError: With everything that is wrong with it, the first 50 spelled out.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if size > _MAX_FOREIGN_BYTES:
        raise InputError(
            f"{path}: larger than {_MAX_FOREIGN_BYTES // 2**20} MiB; expected fewer labels"
        )
    reading, problems = _Reading(options), Problems(listed=_LISTED_PROBLEMS)
    votes: list[ForeignVote] = []
    rows: Iterable[tuple[str, object]]
    rows = csv_rows(path, needed=()) if format_name == "lmsys" else read_json_list(path)
    for where, row in rows:
        try:
            if not isinstance(row, Mapping):
                raise InputError(f"it is {type(row).__name__}; expected an object")
            votes += _READERS[format_name](row, reading)
        except InputError as error:
            problems.extend(f"{where}: {problem}" for problem in error.problems)
    problems.raise_if_any()
    return votes, reading.left_out
