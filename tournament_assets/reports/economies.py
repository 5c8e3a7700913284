"""Entrants' cost, speed and length, from their responses."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.costs.prices import PriceList, load_newest_prices
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.storage.tables import AnyTable, rows_of
from tournament_assets.tournament.answering_models import AnsweringModels
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.entrants import AnyEntrant, get_entrant
from tournament_assets.tournament.judge_services import SERVICES
from tournament_assets.tournament.prompts import TIME


@dataclass(frozen=True, slots=True)
class _Work:
    response: str
    prompt_tokens: int | None
    response_tokens: int | None
    diagnostics: str


def entrant_economies(
    config: TournamentConfig, responses: Mapping[str, AnyTable]
) -> list[EntrantEconomy]:
    """Return each entrant's cost, speed and length, where its responses record them.

    Args:
        responses: Table `entrant_responses` of each entrant.

    Returns:
        One per entrant, in the order of the config. Responses without token counts or times are
        ignored; older tables without times give no speed.
    """
    prices = load_newest_prices(config.judging.prices)
    return [
        EntrantEconomy(
            name,
            usd=_usd(entrant, rows, prices),
            speed=_speed(rows),
            words=_words(rows),
            other_model=_other_model(entrant, rows),
        )
        for name, table in responses.items()
        for entrant in [get_entrant(config.entrants, name)]
        for rows in [list(rows_of(_Work, table))]
    ]


def _other_model(entrant: AnyEntrant, rows: Sequence[_Work]) -> str | None:
    """Say which model answered for a served entrant, if not the one that was asked alone."""
    if entrant.service is None or entrant.model_name is None:
        return None
    who = AnsweringModels(SERVICES[entrant.service], entrant.model_name)
    who.counts.update(json.loads(row.diagnostics).get("served_model") for row in rows)
    return who.problem


def _usd(entrant: AnyEntrant, rows: Sequence[_Work], prices: PriceList) -> float | None:
    """Return US dollars for 1,000 responses; None where tokens or the price are not known."""
    if entrant.service is None or entrant.priced_as is None:
        return None
    channel = SERVICES[entrant.service].channel
    used = [
        TokenUsage(row.prompt_tokens, row.response_tokens)
        for row in rows
        if row.prompt_tokens is not None and row.response_tokens is not None
    ]
    if not used:
        return None
    dollars = prices.cost_usd(entrant.priced_as, sum(used, TokenUsage()), channel=channel)
    return None if dollars is None else 1000 * dollars / len(used)


def _speed(rows: Sequence[_Work]) -> float | None:
    timed = [
        (row.response_tokens, seconds)
        for row in rows
        if row.response_tokens is not None
        and (seconds := json.loads(row.diagnostics).get(TIME)) is not None
    ]
    whole = sum(seconds for _, seconds in timed)
    return sum(tokens for tokens, _ in timed) / whole if whole else None


def _words(rows: Sequence[_Work]) -> float | None:
    return sum(len(row.response.split()) for row in rows) / len(rows) if rows else None
