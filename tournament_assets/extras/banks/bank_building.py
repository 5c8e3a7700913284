"""Prompt banks drawn from multiple-choice questions, or made from another tool's file.

What is left out is counted. Files of other tools, including local Hugging Face datasets, are read
in the same way as recorded responses, so a bank made from a file has the ids and texts by which the
file's responses are found.
"""

import hashlib
import io
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tournament_assets.extras.banks.multiple_choice import (
    MultipleChoiceQuestion,
    _fold,
    read_questions,
)
from tournament_assets.extras.banks.recasting import OpenQuestion, WhyLeftOut, recast
from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.json_lines import (
    Json,
    JsonObject,
    read_json_lines,
    write_json_lines,
)
from tournament_assets.recorded.sample_formats import LATER_TURN, OWN, Sample, value_at
from tournament_assets.recorded.samples import detect_format, read_samples
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.prompts import BANK_FIELDS, parse_prompt_bank


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """How many questions of one source were read, left out and drawn.

    Attributes:
        read: Questions given.
        left_out: How many were left out for each reason; reasons that did not occur are absent.
        eligible: Questions that could be drawn: `read` minus all that were left out.
        drawn: Questions in the bank.
    """

    read: int
    left_out: Mapping[WhyLeftOut, int]
    eligible: int
    drawn: int


@dataclass(frozen=True, slots=True)
class BankBuild:
    """Rows of a prompt bank, and what was left out of it.

    Attributes:
        rows: Rows that `parse_prompt_bank` accepts: those drawn, sorted by source and prompt_id,
            then those of a curated file.
        counts: The counts of each source, sorted by source.
        notes: Which filled columns of the files are not used, a clause for each that has some.
    """

    rows: tuple[JsonObject, ...]
    counts: Mapping[str, SourceCounts]
    notes: tuple[str, ...] = ()


def build_bank_rows(
    questions: Sequence[MultipleChoiceQuestion], *, counts: Mapping[str, int], seed: int
) -> BankBuild:
    """Draw a prompt bank from multiple-choice questions.

    The same questions in any order give the same rows. Each source is drawn by its own
    `numpy.random.default_rng(seed)`, so that draws from one source do not depend on another,
    and a larger count keeps every question that a smaller one drew.

    Of questions whose texts differ only in case and punctuation, one is kept, or none if their gold
    answers differ.

    Args:
        questions: From any number of files.
        counts: How many prompts to draw from each source, from 0.
        seed: From 0.
    """
    read: Counter[str] = Counter(question.source for question in questions)
    left_out: dict[str, Counter[WhyLeftOut]] = defaultdict(Counter)
    open_questions: list[OpenQuestion] = []
    for question in questions:
        result = recast(question)
        if isinstance(result, OpenQuestion):
            open_questions.append(result)
        else:
            left_out[question.source][result] += 1
    pools = _pool_by_source(open_questions, left_out)
    _check_counts(counts, read=read, pools=pools)
    rows: list[JsonObject] = []
    summary: dict[str, SourceCounts] = {}
    for source in sorted(read.keys() | counts.keys()):
        pool = pools[source]
        count = counts.get(source, 0)
        picks = np.random.default_rng(seed).permutation(len(pool))[:count]
        rows.extend(_bank_row(pool[pick]) for pick in sorted(picks.tolist()))
        reasons = left_out[source]
        summary[source] = SourceCounts(
            read=read[source],
            left_out={reason: reasons[reason] for reason in WhyLeftOut if reasons[reason]},
            eligible=len(pool),
            drawn=count,
        )
    return BankBuild(rows=tuple(rows), counts=summary)


def _pool_by_source(
    open_questions: Sequence[OpenQuestion], left_out: Mapping[str, Counter[WhyLeftOut]]
) -> dict[str, list[OpenQuestion]]:
    """Return the eligible questions, in an order that depends only on their content."""
    by_text: dict[str, list[OpenQuestion]] = defaultdict(list)
    for question in open_questions:
        by_text[_normalise(question.text)].append(question)
    candidates: list[OpenQuestion] = []
    for alike in by_text.values():
        if len({_fold(question.gold_answer) for question in alike}) > 1:
            for question in alike:
                left_out[question.original.source][WhyLeftOut.CONFLICTING_ANSWERS] += 1
            continue
        first, *repeats = sorted(alike, key=_content_order)
        candidates.append(first)
        for question in repeats:
            left_out[question.original.source][WhyLeftOut.DUPLICATE] += 1
    pools: dict[str, list[OpenQuestion]] = defaultdict(list)
    taken: set[str] = set()
    for question in sorted(candidates, key=_content_order):
        # Among 180 000 questions a few share their first 8 hex characters by chance.
        if question.prompt_id in taken:
            left_out[question.original.source][WhyLeftOut.DUPLICATE] += 1
            continue
        taken.add(question.prompt_id)
        pools[question.original.source].append(question)
    return pools


def _content_order(question: OpenQuestion) -> tuple[str, ...]:
    original = question.original
    return (
        original.source,
        question.content_hash,
        original.subject or "",
        original.category or "",
        original.source_id or "",
        str(question.rewritten),
    )


def _check_counts(
    counts: Mapping[str, int],
    *,
    read: Mapping[str, int],
    pools: Mapping[str, Sequence[OpenQuestion]],
) -> None:
    problems = Problems()
    for source, count in sorted(counts.items()):
        eligible = len(pools[source])
        if count > eligible:
            problems.add(
                f"the count of {source} is {count}; expected at most {eligible}, which is how "
                f"many of the {read.get(source, 0)} questions read can be asked without options; "
                "lower the count or give more questions"
            )
    problems.raise_if_any()


def _bank_row(question: OpenQuestion) -> JsonObject:
    original = question.original
    row: JsonObject = {
        "prompt_id": question.prompt_id,
        "text": question.text,
        "source": original.source,
        "subject": original.subject,
        "gold_answer": question.gold_answer,
        "category": original.category,
        "tags": ["rewritten"] if question.rewritten else [],
        "source_id": original.source_id,
    }
    return {name: value for name, value in row.items() if value is not None}


def _normalise(text: str) -> str:
    """Return a key shared by texts that differ only in case, spaces and punctuation."""
    return " ".join(re.findall(r"\w+", _fold(text)))


@dataclass(frozen=True, slots=True)
class BankRecipe:
    """What a bank is built from.

    Attributes:
        curated: Rows to append as they are.
        medmcqa_cop_base: The number of the first option in `cop`; detected from the file if None.
    """

    medmcqa: Path | None
    medqa: Path | None
    curated: Path | None
    medmcqa_count: int
    medqa_count: int
    medmcqa_cop_base: Literal[0, 1] | None
    seed: int


def build_bank_file(recipe: BankRecipe, out: Path) -> BankBuild:
    """Draw questions, append the curated rows, validate everything, and write the bank."""
    _refuse_existing(out)
    files = []
    if recipe.medmcqa is not None:
        files.append(read_questions(recipe.medmcqa, "medmcqa", cop_base=recipe.medmcqa_cop_base))
    if recipe.medqa is not None:
        files.append(read_questions(recipe.medqa, "medqa"))
    requested = {"medmcqa": recipe.medmcqa_count, "medqa": recipe.medqa_count}
    build = build_bank_rows(
        [question for file in files for question in file.questions],
        counts={source: count for source, count in requested.items() if count},
        seed=recipe.seed,
    )
    rows: list[tuple[str, JsonObject]] = [
        (f"{out.name}:{number}", row) for number, row in enumerate(build.rows, start=1)
    ]
    if recipe.curated is not None:
        rows.extend(read_json_lines(recipe.curated))
    _write_bank(out, rows)
    notes = tuple(file.note for file in files if file.note)
    return replace(build, rows=tuple(row for _, row in rows), notes=notes)


def _refuse_existing(out: Path) -> None:
    if out.exists():
        raise InputError(
            f"{out}: the file is there already; expected a new name, so that no bank is lost; "
            "remove it or choose another"
        )


def _write_bank(out: Path, rows: Sequence[tuple[str, JsonObject]]) -> None:
    """Validate the rows of a bank, each with its location for messages, and write them."""
    parse_prompt_bank(rows)
    content = io.BytesIO()
    write_json_lines(content, (row for _, row in rows))
    write_bytes_atomically(out, content.getvalue())


SAME_PROMPT = "the same prompt once more"
SHARED_SYSTEM = "the system text of all rows: give it to entrants as system_prompt"
NO_TEXT = "a row without the text of a prompt"
_SHARD = re.compile(r"(?P<split>.+?)-\d{5}-of-\d{5}")


@dataclass(frozen=True, slots=True)
class ImportRecipe:
    """What a bank is imported from, and how.

    Attributes:
        path: The file, or the folder of a dataset.
        format_name: The file's format; detected from the file if None.
        columns: The column of each field, where it is not the format's; a dot leads into an object.
        values: Fields with the same value for all prompts.
        split: The split to take from a dataset that has several.
    """

    path: Path
    format_name: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    split: str | None = None


@dataclass(frozen=True, slots=True)
class ImportedBank:
    """The result of importing a bank.

    Attributes:
        format: The format that the file was read as.
        left_out: The number of rows without a new prompt, and of what else is not used, by reason.
        notes: Which filled columns are not used, a clause for each file that has some.
    """

    n_prompts: int
    format: str
    left_out: Mapping[str, int]
    notes: Sequence[str] = ()


def import_bank_file(recipe: ImportRecipe, out: Path) -> ImportedBank:
    """Write a prompt bank from a file or dataset.

    A prompt without a source gets the file's name as its source. A prompt without an id gets one
    that depends only on its source and text.
    """
    _refuse_existing(out)
    left_out: Counter[str] = Counter()
    rows: dict[tuple[Json, Json], tuple[str, JsonObject]] = {}
    format_name = ""
    notes: list[str] = []
    for path in _files_of(recipe):
        name = _format_of(path, recipe)
        file = read_samples(path, format_name=name, columns={} if name is None else None)
        format_name = file.format
        for sample in file.samples:
            if format_name == OWN:
                file.reader.use(sample.row)  # a bank keeps the columns that nobody knows
            row = _imported_row(sample, recipe, is_bank=format_name == OWN)
            if sample.lost is not None:
                left_out[sample.lost] += 1
            elif not row.get("text"):
                left_out[NO_TEXT] += 1
            elif (row["prompt_id"], row["text"]) in rows:
                left_out[SAME_PROMPT] += 1
            else:
                rows[row["prompt_id"], row["text"]] = (sample.where, row)
                left_out[SHARED_SYSTEM] += sample.system is not None
                left_out.update(each for each in sample.left_out if each == LATER_TURN)
        notes.append(file.note)
    if not rows:
        raise InputError(
            f"{recipe.path}: no row of {format_name} holds the text of a prompt "
            f"({left_out.total()} looked at); expected at least one; say which column does by "
            "--map text=COLUMN"
        )
    _write_bank(out, list(rows.values()))
    said = tuple(note for note in dict.fromkeys(notes) if note)
    return ImportedBank(len(rows), format_name, dict(sorted((+left_out).items())), said)


def _format_of(path: Path, recipe: ImportRecipe) -> str | None:
    """Return the given or detected format; None for an unknown table whose text column is given."""
    if recipe.format_name is not None or "text" not in recipe.columns:
        return recipe.format_name or detect_format(path)
    try:
        return detect_format(path)
    except InputError:
        return None


def _imported_row(sample: Sample, recipe: ImportRecipe, *, is_bank: bool) -> JsonObject:
    row: dict[str, Json] = (
        dict(sample.row)
        if is_bank
        else {
            "prompt_id": next(iter(sample.prompt_ids), None),
            "text": next(iter(sample.prompt_texts), None),
            "gold_answer": sample.gold_answer,
            "category": sample.category,
        }
    )
    row.update({name: value_at(sample.row, column) for name, column in recipe.columns.items()})
    row = {name: _plain(name, value) for name, value in row.items()}
    row = {"source": recipe.path.stem, **{k: v for k, v in row.items() if v not in (None, "")}}
    row.update(recipe.values)
    text = row.get("text")
    if isinstance(text, str) and "prompt_id" not in row:
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        row["prompt_id"] = f"{row['source']}-{digest}"
    first = [name for name in BANK_FIELDS if name in row]
    return {name: row[name] for name in (*first, *sorted(row.keys() - {*first}))}


def _plain(name: str, value: Any) -> Any:
    """Return a value for a bank: in its own fields, numbers become text, lists their first item."""
    if name == "tags":
        return [part.strip() for part in value.split(";")] if isinstance(value, str) else value
    if name not in BANK_FIELDS:
        return value
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = next(iter(value), None)
    return str(value) if type(value) in (int, float, bool) else value


def _files_of(recipe: ImportRecipe) -> list[Path]:
    """Return the file, or the Parquet files of one split of a dataset's folder."""
    if not recipe.path.is_dir():
        return [recipe.path]
    by_split: dict[str, list[Path]] = {}
    for path in sorted(recipe.path.rglob("*.parquet")):
        by_split.setdefault(_split_of(path.relative_to(recipe.path)), []).append(path)
    if not by_split:
        raise InputError(
            f"{recipe.path}: the folder holds no .parquet file; expected a dataset as the Hugging "
            "Face hub has it; write one by Dataset.to_parquet, or name a file"
        )
    if recipe.split is None and len(by_split) == 1:
        return next(iter(by_split.values()))
    if recipe.split is None or recipe.split not in by_split:
        option = "no --split is given" if recipe.split is None else f"--split is {recipe.split!r}"
        raise InputError(f"{recipe.path}: {option}; expected one of {', '.join(sorted(by_split))}")
    files = by_split[recipe.split]
    folders = sorted({str(path.parent.relative_to(recipe.path)) for path in files})
    if len(folders) > 1:
        raise InputError(
            f"{recipe.path}: the split {recipe.split!r} is in {', '.join(folders)}; expected one "
            "configuration of the dataset; name its folder instead"
        )
    return files


def _split_of(path: Path) -> str:
    """Return the split of `train-00000-of-00002.parquet`, `train.parquet`, `train/0000.parquet`."""
    shard = _SHARD.fullmatch(path.stem)
    if shard is not None:
        return shard["split"]
    return path.parent.name if path.stem.isdecimal() and path.parent.name else path.stem
