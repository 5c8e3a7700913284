import json
from typing import Any

import pytest

from tests.tournament.test_config import load
from tournament_assets.reports.economies import entrant_economies
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import ResponseRow

ENTRANTS = [
    {"entrant_id": "claude", "loader": "anthropic_api", "model": "claude-opus-5-5"},
    {
        "entrant_id": "served",
        "loader": "openai_api",
        "model": "tiny",
        "base_url": "http://127.0.0.1:9/v1",
    },
    {"entrant_id": "own", "loader": "vanilla_hf", "weights": {"path": "weights"}},
]


def answered(*amounts: tuple[int | None, int | None, float | None]) -> list[dict[str, Any]]:
    """Rows of prompt tokens, response tokens and seconds."""
    return [
        {
            "prompt_id": f"p{number}",
            "response": "Paris",
            "finish_reason": "stop",
            "prompt_tokens": read,
            "response_tokens": written,
            "diagnostics": json.dumps({} if seconds is None else {"seconds": seconds}),
        }
        for number, (read, written, seconds) in enumerate(amounts)
    ]


def economies(**responses: list[dict[str, Any]]) -> dict[str, EntrantEconomy]:
    tables = {
        name: make_table(ResponseRow, [ResponseRow(entrant_id=name, **row) for row in rows])
        for name, rows in responses.items()
    }
    return {each.entrant_id: each for each in entrant_economies(load(entrants=ENTRANTS), tables)}


def test_a_batch_costs_half_the_price_of_its_tokens() -> None:
    found = economies(claude=answered((1000, 100, None), (3000, 300, None)))["claude"]
    # 4,000 tokens at 4 dollars and 400 at 20 dollars a million, halved, for two responses.
    assert found.usd == pytest.approx((4000 * 4 + 400 * 20) / 1e6 / 2 / 2 * 1000)
    assert found.speed is None


def test_a_model_without_a_price_costs_an_unknown_amount_and_no_zero() -> None:
    found = economies(served=answered((10, 10, 1.0)), own=answered((10, 10, 1.0)))
    assert (found["served"].usd, found["own"].usd) == (None, None)


def test_speed_is_of_the_responses_that_were_timed() -> None:
    found = economies(own=answered((1, 30, 2.0), (1, 10, 2.0), (1, 500, None), (1, None, 9.0)))
    assert found["own"].speed == pytest.approx(10.0)


def test_responses_from_before_anybody_timed_them_have_no_speed() -> None:
    assert economies(own=answered((1, 30, None)))["own"].speed is None


def test_length_is_the_mean_number_of_words() -> None:
    rows = answered((1, 30, None), (1, 30, None))
    rows[1]["response"] = "It is Paris."
    found = economies(own=rows, served=[])
    assert (found["own"].words, found["served"].words) == (2.0, None)
