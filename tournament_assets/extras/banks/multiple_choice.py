"""Multiple-choice questions, read from the published sets' files of JSON Lines, JSON or Parquet.

MedMCQA: Pal et al., https://arxiv.org/abs/2203.14371. MedQA: Jin et al.,
https://arxiv.org/abs/2009.13081.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.storage.foreign_tables import TableFormat, TableReader, choose_format
from tournament_assets.storage.row_files import read_rows, sample_file

QuestionFormat = Literal["medmcqa", "medqa"]

_LETTERS = "ABCD"


@dataclass(frozen=True, slots=True)
class MultipleChoiceQuestion:
    """One row of a question file.

    Attributes:
        source: The set it comes from.
        stem: The question as it was printed, without its options.
        gold_answer: The text of the correct option; None if the row does not say which it is.
        several_answers: Whether the set says that options combine several answers.
        source_id: The identifier in the set, if it has one.
        subject: The field of knowledge, if the set names it.
        category: The topic (MedMCQA) or the examination step (MedQA), if the set names it.
    """

    source: QuestionFormat
    stem: str
    gold_answer: str | None
    several_answers: bool = False
    source_id: str | None = None
    subject: str | None = None
    category: str | None = None


def parse_medmcqa(
    rows: Sequence[tuple[str, JsonObject]], *, cop_base: Literal[0, 1] | None = None
) -> list[MultipleChoiceQuestion]:
    """Read the rows of one MedMCQA file.

    The original release numbers the options in `cop` from 1, and the release on Hugging Face from
    0; a 0 or a 4 anywhere in the file shows which it is. A row without a correct option (`cop`
    absent, null or -1, as in the test split) is read and has no gold answer.

    Args:
        rows: Each row's location (`file:line`), and the row.
        cop_base: The number of option a in `cop`; None detects it from the file.
    """
    problems = Problems(of_file=True)
    cops = [_read_cop(where, row, problems) for where, row in rows]
    if cop_base is None:
        cop_base = _detect_cop_base(rows, cops, problems)
    questions = [
        _parse_medmcqa_row(where, row, cop, cop_base, problems)
        for (where, row), cop in zip(rows, cops, strict=True)
    ]
    problems.raise_if_any()
    return questions


def _read_cop(where: str, row: JsonObject, problems: Problems) -> int | None:
    value = row.get("cop")
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or (value == -1 and not isinstance(value, bool)):
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= len(_LETTERS):
        problems.add(
            f"{where}: cop is {value!r}; expected a whole number from 0 to 3, or from 1 to 4"
        )
        return None
    return value


def _detect_cop_base(
    rows: Sequence[tuple[str, JsonObject]], cops: Sequence[int | None], problems: Problems
) -> Literal[0, 1]:
    values = {cop for cop in cops if cop is not None}
    if 0 in values and len(_LETTERS) in values:
        zero, four = rows[cops.index(0)][0], rows[cops.index(len(_LETTERS))][0]
        problems.add(
            f"cop is 0 at {zero} and 4 at {four}; expected every row of a file to count from the "
            "same number; if two releases were joined, give them as separate files"
        )
    elif values and 0 not in values and len(_LETTERS) not in values:
        problems.add(
            f"{rows[0][0]}: cop is only ever {', '.join(map(str, sorted(values)))} in this file; "
            "expected a 0 or a 4 somewhere, which tells whether cop counts from 0 or from 1; "
            "say which it is, or give a larger file"
        )
    elif not values and rows and not problems:
        problems.add(
            f"{rows[0][0]}: no row of this file has a cop; expected the number of the correct "
            "option; the test split is published without answers, so give train or validation"
        )
    return 0 if 0 in values else 1


def _parse_medmcqa_row(
    where: str,
    row: JsonObject,
    cop: int | None,
    cop_base: Literal[0, 1],
    problems: Problems,
) -> MultipleChoiceQuestion:
    options = [_read_text(where, row, f"op{letter.lower()}", problems) for letter in _LETTERS]
    gold_answer = None
    if cop is not None:
        index = cop - cop_base
        if 0 <= index < len(_LETTERS):
            gold_answer = options[index]
        else:
            problems.add(
                f"{where}: cop is {cop}; expected {cop_base} to {cop_base + len(_LETTERS) - 1}, "
                f"as cop was said to count from {cop_base}"
            )
    choice_type = row.get("choice_type")
    if choice_type not in (None, "single", "multi"):
        problems.add(f"{where}: choice_type is {choice_type!r}; expected 'single' or 'multi'")
    return MultipleChoiceQuestion(
        source="medmcqa",
        stem=_read_stem(where, row, problems),
        gold_answer=gold_answer,
        several_answers=choice_type == "multi",
        source_id=_read_text(where, row, "id", problems),
        subject=_read_text(where, row, "subject_name", problems),
        category=_read_text(where, row, "topic_name", problems),
    )


def parse_medqa(rows: Sequence[tuple[str, JsonObject]]) -> list[MultipleChoiceQuestion]:
    """Read the rows of one MedQA file.

    Options may be a mapping from letter to text, a list of `{key, value}`, or a list of pairs;
    null options, as when a Parquet struct has more letters than the row, are dropped.

    Args:
        rows: Each row's location (`file:line`), and the row.
    """
    problems = Problems(of_file=True)
    questions = [_parse_medqa_row(where, row, problems) for where, row in rows]
    problems.raise_if_any()
    return questions


def _parse_medqa_row(where: str, row: JsonObject, problems: Problems) -> MultipleChoiceQuestion:
    options = _read_options(where, row.get("options"), problems)
    letter = _read_text(where, row, "answer_idx", problems)
    answer = _read_text(where, row, "answer", problems)
    gold_answer = options.get(letter.upper()) if letter else answer
    if letter and gold_answer is None and options:
        problems.add(
            f"{where}: answer_idx is {letter!r}; "
            f"expected the letter of an option: {', '.join(sorted(options))}"
        )
    elif letter and answer and gold_answer and _fold(answer) != _fold(gold_answer):
        problems.add(
            f"{where}: answer is {answer!r} and answer_idx {letter!r} stands for {gold_answer!r}; "
            "expected the same answer; correct or remove the row"
        )
    elif not letter and answer and options and _fold(answer) not in map(_fold, options.values()):
        problems.add(
            f"{where}: answer is {answer!r} and answer_idx is missing; "
            "expected the text of one of the options"
        )
    return MultipleChoiceQuestion(
        source="medqa",
        stem=_read_stem(where, row, problems),
        gold_answer=gold_answer,
        source_id=_read_text(where, row, "id", problems),
        category=_read_text(where, row, "meta_info", problems),
    )


def _read_options(where: str, value: Any, problems: Problems) -> dict[str, str]:
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            if isinstance(item, Mapping) and {"key", "value"} <= item.keys():
                pairs.append((item["key"], item["value"]))
            elif isinstance(item, Sequence) and not isinstance(item, str) and len(item) == 2:
                pairs.append((item[0], item[1]))
    options = {
        key.strip().upper(): _tidy(text)
        for key, text in pairs
        if isinstance(key, str) and isinstance(text, str)
    }
    present = sum(text is not None for _, text in pairs)
    if not options or len(options) != present:
        problems.add(
            f"{where}: options is {value!r}; expected letters and texts, "
            "as in {'A': 'Gout', 'B': 'Sprain'} or [{'key': 'A', 'value': 'Gout'}, ...]"
        )
    return options


def _read_stem(where: str, row: JsonObject, problems: Problems) -> str:
    stem = _read_text(where, row, "question", problems)
    question = row.get("question")
    if stem is None and (question is None or isinstance(question, str)):
        problems.add(f"{where}: question is {question!r}; expected a non-empty text")
    return stem or ""


def _read_text(where: str, row: JsonObject, name: str, problems: Problems) -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        problems.add(f"{where}: {name} is {value!r}; expected a text")
        return None
    return _tidy(value or "") or None


def _tidy(text: str) -> str:
    """Return a text with single spaces and without empty lines; tables keep their lines."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


_FORMATS: Mapping[str, TableFormat] = {
    each.name: each
    for each in (
        TableFormat(
            "medmcqa",
            "MedMCQA",
            ("question", "opa", "opb", "opc", "opd"),
            known=frozenset({"exp"}),
        ),
        TableFormat(
            "medqa",
            "MedQA",
            ("question", "options"),
            one_of=frozenset({"answer", "answer_idx"}),
            known=frozenset({"metamap_phrases"}),
        ),
    )
}
_ADVICE = (
    "expected question, opa, opb, opc, opd and cop (MedMCQA), or question, options and answer_idx "
    "(MedQA); rename the columns or give another release"
)


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """The content of a question file; `note` names the filled columns that are not used."""

    questions: Sequence[MultipleChoiceQuestion]
    note: str


def read_questions(
    path: Path, question_format: QuestionFormat, *, cop_base: Literal[0, 1] | None = None
) -> QuestionFile:
    """Read one question file.

    Args:
        path: A file of JSON lines, a JSON list, Parquet, CSV or a workbook.
        question_format: The set that the file belongs to.
        cop_base: The number of option a in MedMCQA's `cop`; None detects it from the file.
    """
    sample = sample_file(path)
    rows = read_rows(path, sample.kind)
    if not rows:
        raise InputError(f"{path}: the file holds no row; expected at least one question")
    table = choose_format(_FORMATS, sample, str(path), advice=_ADVICE)
    if table.name != question_format:
        raise InputError(
            f"{path}: the columns are those of {table.name}; expected {question_format}; "
            f"give the file as {table.name}"
        )
    reader = TableReader(table.known)
    rows = [(where, reader.watch(row)) for where, row in rows]
    if table.name == "medqa":
        return QuestionFile(parse_medqa(rows), reader.note)
    return QuestionFile(parse_medmcqa(rows, cop_base=cop_base), reader.note)
