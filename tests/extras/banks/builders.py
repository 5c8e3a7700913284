"""Builds multiple-choice questions, and the rows of the files they come in."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tournament_assets.extras.banks.multiple_choice import MultipleChoiceQuestion
from tournament_assets.foundation.json_lines import JsonObject


def mcq(stem: str, gold_answer: str | None = "Uric acid", **fields: Any) -> MultipleChoiceQuestion:
    return MultipleChoiceQuestion(
        **{"source": "medmcqa", "stem": stem, "gold_answer": gold_answer, **fields}
    )


def write_rows(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def medqa_row(**changes: Any) -> dict[str, Any]:
    row = {
        "question": "Which crystals cause gout?",
        "answer": "Oxalate",
        "options": {"A": "Uric acid", "B": "Oxalate", "C": "Calcium", "D": "Iron"},
        "meta_info": "step1",
        "answer_idx": "B",
    }
    return row | changes


def at_lines(*rows: JsonObject) -> list[tuple[str, JsonObject]]:
    return [(f"train.json:{number}", row) for number, row in enumerate(rows, start=1)]
