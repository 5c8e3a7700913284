"""A prompt bank drawn from multiple-choice questions, and the count of what was left out."""

import io
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tournament_assets.prompt_bank.multiple_choice import (
    MultipleChoiceQuestion,
    _fold,
    read_questions,
)
from tournament_assets.prompt_bank.recasting import LeftOut, OpenQuestion, recast
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.errors import InputError, Problems
from tournament_assets.tournament.json_lines import read_json_lines, write_json_lines
from tournament_assets.tournament.prompts import parse_prompt_bank


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """What became of the questions of one source.

    Attributes:
        read: Questions given.
        left_out: How many were left out for each reason; reasons that did not occur are absent.
        eligible: Questions that could be drawn; `read` less all that were left out.
        drawn: Questions in the bank.
    """

    read: int
    left_out: Mapping[LeftOut, int]
    eligible: int
    drawn: int


@dataclass(frozen=True, slots=True)
class BankBuild:
    """Rows of a prompt bank, and what was left out of it.

    Attributes:
        rows: Rows that `parse_prompt_bank` accepts, by source and prompt_id.
        counts: For each source of the questions, in the order of their names.
    """

    rows: tuple[dict[str, Any], ...]
    counts: Mapping[str, SourceCounts]


def build_bank_rows(
    questions: Sequence[MultipleChoiceQuestion], *, counts: Mapping[str, int], seed: int
) -> BankBuild:
    """Draw a prompt bank from multiple-choice questions.

    The same questions in any order give the same rows. Each source is drawn by its own
    `numpy.random.default_rng(seed)`, so that the draw of one does not depend on the other, and a
    larger count keeps everything that a smaller one drew.

    Questions with the same text, whatever their case and punctuation, are asked once; where their
    gold answers differ, none of them is.

    Args:
        questions: From any number of files.
        counts: How many prompts to draw from each source.
        seed: Seeds the draw; not negative.

    Raises:
        InputError: With every source that has too few questions; or if a count or the seed is
            negative.
    """
    read: Counter[str] = Counter(question.source for question in questions)
    left_out: dict[str, Counter[LeftOut]] = defaultdict(Counter)
    open_questions: list[OpenQuestion] = []
    for question in questions:
        result = recast(question)
        if isinstance(result, OpenQuestion):
            open_questions.append(result)
        else:
            left_out[question.source][result] += 1
    pools = _pool_by_source(open_questions, left_out)
    _check_counts(counts, seed=seed, read=read, pools=pools)
    rows: list[dict[str, Any]] = []
    summary: dict[str, SourceCounts] = {}
    for source in sorted(read.keys() | counts.keys()):
        pool = pools[source]
        wanted = counts.get(source, 0)
        picks = np.random.default_rng(seed).permutation(len(pool))[:wanted]
        rows.extend(_bank_row(pool[pick]) for pick in sorted(picks.tolist()))
        reasons = left_out[source]
        summary[source] = SourceCounts(
            read=read[source],
            left_out={reason: reasons[reason] for reason in LeftOut if reasons[reason]},
            eligible=len(pool),
            drawn=wanted,
        )
    return BankBuild(rows=tuple(rows), counts=summary)


def _pool_by_source(
    open_questions: Sequence[OpenQuestion], left_out: Mapping[str, Counter[LeftOut]]
) -> dict[str, list[OpenQuestion]]:
    """Return what can be drawn, in an order that depends on content alone."""
    by_text: dict[str, list[OpenQuestion]] = defaultdict(list)
    for question in open_questions:
        by_text[_normalise(question.text)].append(question)
    candidates: list[OpenQuestion] = []
    for alike in by_text.values():
        if len({_fold(question.gold_answer) for question in alike}) > 1:
            for question in alike:
                left_out[question.original.source][LeftOut.CONFLICTING_ANSWERS] += 1
            continue
        kept, *repeats = sorted(alike, key=_content_order)
        candidates.append(kept)
        for question in repeats:
            left_out[question.original.source][LeftOut.DUPLICATE] += 1
    pools: dict[str, list[OpenQuestion]] = defaultdict(list)
    taken: set[str] = set()
    for question in sorted(candidates, key=_content_order):
        # Among 180 000 questions a few share their first 8 hex characters by chance.
        if question.prompt_id in taken:
            left_out[question.original.source][LeftOut.DUPLICATE] += 1
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
    seed: int,
    read: Mapping[str, int],
    pools: Mapping[str, Sequence[OpenQuestion]],
) -> None:
    problems = Problems()
    if seed < 0:
        problems.add(f"the seed is {seed}; expected 0 or more")
    for source, wanted in sorted(counts.items()):
        eligible = len(pools[source])
        if wanted < 0:
            problems.add(f"the count of {source} is {wanted}; expected 0 or more")
        elif wanted > eligible:
            problems.add(
                f"the count of {source} is {wanted}; expected at most {eligible}, which is how "
                f"many of the {read.get(source, 0)} questions read can be asked without options; "
                "lower the count or give more questions"
            )
    problems.raise_if_any()


def _bank_row(question: OpenQuestion) -> dict[str, Any]:
    original = question.original
    row: dict[str, Any] = {
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
    """Return what two texts share that differ only in case, spaces and punctuation."""
    return " ".join(re.findall(r"\w+", _fold(text)))


@dataclass(frozen=True, slots=True)
class BankRecipe:
    """What a bank is built from.

    Attributes:
        medmcqa: A MedMCQA file.
        medqa: A MedQA file.
        curated: Rows to append as they are.
        medmcqa_count: How many MedMCQA questions to draw.
        medqa_count: How many MedQA questions to draw.
        medmcqa_cop_base: What `cop` calls the first option; found out from the file if None.
        seed: Seeds the draws.
    """

    medmcqa: Path | None
    medqa: Path | None
    curated: Path | None
    medmcqa_count: int
    medqa_count: int
    medmcqa_cop_base: Literal[0, 1] | None
    seed: int


@dataclass(frozen=True, slots=True)
class BankReport:
    """What came of a recipe.

    Attributes:
        n_prompts: Prompts in the bank.
        counts: What became of each source's questions.
    """

    n_prompts: int
    counts: Mapping[str, SourceCounts]


def build_bank_file(recipe: BankRecipe, out: Path) -> BankReport:
    """Draw questions, append the curated rows, validate everything, and write the bank.

    Raises:
        InputError: If a file cannot be used, a source is too small, or the file is there already.
    """
    refuse_existing_bank(out)
    questions = []
    if recipe.medmcqa is not None:
        questions.extend(
            read_questions(
                recipe.medmcqa, expected_format="medmcqa", cop_base=recipe.medmcqa_cop_base
            )
        )
    if recipe.medqa is not None:
        questions.extend(read_questions(recipe.medqa, expected_format="medqa"))
    wanted = {"medmcqa": recipe.medmcqa_count, "medqa": recipe.medqa_count}
    build = build_bank_rows(
        questions,
        counts={source: count for source, count in wanted.items() if count},
        seed=recipe.seed,
    )
    rows: list[tuple[str, dict[str, Any]]] = [
        (f"{out.name}:{number}", row) for number, row in enumerate(build.rows, start=1)
    ]
    if recipe.curated is not None:
        rows.extend(read_json_lines(recipe.curated))
    write_bank(out, rows)
    return BankReport(n_prompts=len(rows), counts=build.counts)


def refuse_existing_bank(out: Path) -> None:
    """Refuse a name that is taken, before any work is done.

    Raises:
        InputError: If the file is there already.
    """
    if out.exists():
        raise InputError(
            f"{out}: the file is there already; expected a new name, so that no bank is lost; "
            "remove it or choose another"
        )


def write_bank(out: Path, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Validate the rows of a bank and write them.

    Args:
        out: The file.
        rows: Where each row stands, for messages, and the row.

    Raises:
        InputError: With every row that is no prompt.
    """
    parse_prompt_bank(rows)
    content = io.BytesIO()
    write_json_lines(content, (row for _, row in rows))
    write_bytes_atomically(out, content.getvalue())
