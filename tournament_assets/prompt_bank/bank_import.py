"""A prompt bank of the prompts that another tool's file holds, or a local Hugging Face dataset.

The files are those that recorded responses are read from, so a bank that is made of a file has the
ids and texts by which its responses are found.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tournament_assets.project.samples import OWN, Sample, detect_format, read_samples, value_at
from tournament_assets.prompt_bank.bank_building import refuse_existing_bank, write_bank
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.prompts import BANK_FIELDS

SAME_PROMPT = "the same prompt once more"
NO_TEXT = "a row without the text of a prompt"
_SHARD = re.compile(r"(?P<split>.+?)-\d{5}-of-\d{5}")


@dataclass(frozen=True, slots=True)
class ImportRecipe:
    """What a bank is made of.

    Attributes:
        path: The file, or the folder of a dataset.
        format_name: The file's format; found out from the file if None.
        columns: Which column holds a field of the bank; a dot leads into an object. They come
            before what the format says.
        values: Fields that all prompts have alike.
        split: Which part of a dataset, where it has several.
    """

    path: Path
    format_name: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    split: str | None = None


@dataclass(frozen=True, slots=True)
class ImportedBank:
    """What came of a recipe.

    Attributes:
        n_prompts: Prompts in the bank.
        format: The format that the file was read as.
        left_out: Rows that are no prompt of their own, counted by the reason.
    """

    n_prompts: int
    format: str
    left_out: Mapping[str, int]


def import_bank_file(recipe: ImportRecipe, out: Path) -> ImportedBank:
    """Write a new prompt bank.

    A prompt without an id gets one from its text, so that the same text has the same id in
    every bank. Prompts without a source are of the file's name.

    Raises:
        InputError: If the file cannot be used or holds no prompt, the new file is there already,
            or a prompt is not valid.
    """
    refuse_existing_bank(out)
    left_out: Counter[str] = Counter()
    rows: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    format_name = ""
    for path in _files_of(recipe):
        name = _format_of(path, recipe)
        file = read_samples(path, format_name=name, columns={} if name is None else None)
        format_name = file.format
        for sample in file.samples:
            row = _bank_row(sample, recipe, is_bank=file.format == OWN)
            if not row.get("text"):
                left_out[NO_TEXT] += 1
            elif (row["prompt_id"], row["text"]) in rows:
                left_out[SAME_PROMPT] += 1
            else:
                rows[row["prompt_id"], row["text"]] = (sample.where, row)
    if not rows:
        raise InputError(
            f"{recipe.path}: no row of {format_name} holds the text of a prompt "
            f"({left_out[NO_TEXT]} looked at); expected at least one; say which column does by "
            "--map text=COLUMN"
        )
    write_bank(out, list(rows.values()))
    return ImportedBank(len(rows), format_name, dict(sorted(left_out.items())))


def _format_of(path: Path, recipe: ImportRecipe) -> str | None:
    """Return the format that is named or told; None for a table whose text column is named."""
    if recipe.format_name is not None or "text" not in recipe.columns:
        return recipe.format_name or detect_format(path)
    try:
        return detect_format(path)
    except InputError:
        return None


def _bank_row(sample: Sample, recipe: ImportRecipe, *, is_bank: bool) -> dict[str, Any]:
    row: dict[str, Any] = (
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
    """Return a value as a bank has it: numbers of its own fields as texts, of a list the first."""
    if name == "tags":
        return [part.strip() for part in value.split(";")] if isinstance(value, str) else value
    if name not in BANK_FIELDS:
        return value
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = next(iter(value), None)
    return str(value) if type(value) in (int, float, bool) else value


def _files_of(recipe: ImportRecipe) -> list[Path]:
    """Return the file, or the Parquet files of one split of a dataset's folder.

    Raises:
        InputError: If the folder has no Parquet file, or not one split that is meant.
    """
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
        asked = "no --split is given" if recipe.split is None else f"--split is {recipe.split!r}"
        raise InputError(f"{recipe.path}: {asked}; expected one of {', '.join(sorted(by_split))}")
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
