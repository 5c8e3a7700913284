"""Builds multiple-choice questions, and the rows of the files they come in."""

from typing import Any

from tournament_assets.extras.banks.multiple_choice import MultipleChoiceQuestion, QuestionFormat
from tournament_assets.foundation.json_lines import JsonObject


def mcq(
    stem: str,
    gold_answer: str | None = "Uric acid",
    *,
    source: QuestionFormat = "medmcqa",
    several_answers: bool = False,
    source_id: str | None = None,
    subject: str | None = None,
) -> MultipleChoiceQuestion:
    return MultipleChoiceQuestion(
        source=source,
        stem=stem,
        gold_answer=gold_answer,
        several_answers=several_answers,
        source_id=source_id,
        subject=subject,
    )


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
