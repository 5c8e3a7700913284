"""Prompts as rows of the tables `prompt_bank` and `selected_prompts`, and back."""

import json
from typing import Any

import pandas as pd

from tournament_assets.adapters.tables import table_rows
from tournament_assets.tournament.prompts import Prompt


def prompt_rows(prompts: list[Prompt]) -> list[dict[str, Any]]:
    """Return prompts as rows of the table `prompt_bank`."""
    return [
        {
            "prompt_id": prompt.prompt_id,
            "text": prompt.text,
            "source": prompt.source,
            "subject": prompt.subject,
            "gold_answer": prompt.gold_answer,
            "expected_behavior": prompt.expected_behavior,
            "category": prompt.category,
            "tags": list(prompt.tags),
            "extra": json.dumps(dict(prompt.extra), sort_keys=True, ensure_ascii=False),
        }
        for prompt in prompts
    ]


def prompts_of(table: str, frame: pd.DataFrame) -> list[Prompt]:
    """Return the rows of the table `prompt_bank` or `selected_prompts` as prompts."""
    return [
        Prompt(**{**row, "tags": tuple(row["tags"]), "extra": json.loads(row["extra"])})
        for row in table_rows(table, frame)
    ]
