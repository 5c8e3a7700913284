"""The same entrants on three denominators, whole and by strata: does who leads depend on them?"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from tournament_assets.audits.common_support import common_support
from tournament_assets.audits.fair_ranking import (
    FairPlace,
    rank_by_planned_share,
    rank_by_rating,
)
from tournament_assets.audits.families import LOOPBACK
from tournament_assets.tournament.rating_settings import RatingSettings
from tournament_assets.tournament.verdicts import Judgment, Outcome

COMMON, ALL, PLANNED = "common", "all", "planned"
BASES = (COMMON, ALL, PLANNED)
"""Prompts that everyone answered and was judged on; all judged pairs; all planned pairs."""
WHOLE = "all"
"""Stands for the whole where a stratum is named."""


@dataclass(frozen=True, slots=True)
class PlannedPrompt:
    """A prompt on which everyone was to meet everyone else, and the strata it belongs to.

    Attributes:
        prompt_id: Which prompt.
        source: Its source.
        category: A finer label; None if it has none.
        tags: Free labels.
    """

    prompt_id: str
    source: str
    category: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Families:
    """Who judged and who answered, by family; None where nothing tells it.

    Attributes:
        judge_model: The model that judged.
        judge: Its family.
        entrants: Every entrant's family.
    """

    judge_model: str
    judge: str | None
    entrants: Mapping[str, str | None]

    def is_shared_with(self, entrant: str) -> bool | None:
        """Whether an entrant is of the judge's family; None where that is not known."""
        own = self.entrants.get(entrant)
        if self.judge == LOOPBACK:
            # No language model, so whoever is not its own answers is none of its family.
            return own == LOOPBACK
        return None if own is None or self.judge is None else own == self.judge


def fair_comparison_rows(
    judgments: Sequence[Judgment],
    *,
    dimension: str,
    entrants: Sequence[str],
    prompts: Sequence[PlannedPrompt],
    answered: Mapping[str, AbstractSet[str]],
    families: Families,
    settings: RatingSettings,
) -> list[dict[str, Any]]:
    """Return the rows of table "fair_comparison" for one dimension.

    Args:
        judgments: Settled pairs of the dimension, unjudged ones among them.
        dimension: The quality that was judged.
        entrants: Everyone who is compared, in the order of the tables.
        prompts: Every prompt that was planned for the dimension.
        answered: The prompts that each entrant answered.
        families: Who judged and who answered, by family.
        settings: How they are rated.

    Returns:
        By stratum, the whole first, then by basis, then in the order of the entrants.

    Raises:
        RatingError: If a likelihood could not be maximised.
    """
    common = set(common_support(judgments, entrants=entrants, answered=answered))
    rows = []
    for stratum_by, stratum, members in _strata(prompts):
        inside = [each for each in judgments if each.prompt_id in members]
        on_common = [each for each in inside if each.prompt_id in common]
        by_basis = {
            COMMON: rank_by_rating(on_common, entrants=entrants, settings=settings),
            ALL: rank_by_rating(inside, entrants=entrants, settings=settings),
            PLANNED: rank_by_planned_share(inside, entrants=entrants, planned_prompts=len(members)),
        }
        judged = {each.prompt_id for each in inside if each.outcome is not Outcome.UNJUDGED}
        counts = {COMMON: len(common & members), ALL: len(judged), PLANNED: len(members)}
        rows += [
            {
                "dimension": dimension,
                "stratum_by": stratum_by,
                "stratum": stratum,
                "basis": basis,
                "entrant_id": place.entrant_id,
                "prompts": counts[basis],
                **_columns(place),
                "judge_model": families.judge_model,
                "judge_family": families.judge,
                "entrant_family": families.entrants.get(place.entrant_id),
                "same_family": families.is_shared_with(place.entrant_id),
            }
            for basis, places in by_basis.items()
            for place in places
        ]
    return rows


def _columns(place: FairPlace) -> dict[str, Any]:
    gap = place.gap
    return {
        "points": place.points,
        "pairs": place.pairs,
        "share": place.share,
        "share_rank": place.share_rank,
        "rating": place.rating,
        "rank": place.rank,
        "sampling_low": place.low,
        "sampling_high": place.high,
        "note": place.note,
        "next_below": gap.below if gap else None,
        "gap": gap.points if gap else None,
        "gap_low": gap.low if gap else None,
        "gap_high": gap.high if gap else None,
        "gap_beyond_noise": gap.is_beyond_noise if gap else None,
    }


def _strata(prompts: Sequence[PlannedPrompt]) -> list[tuple[str, str, set[str]]]:
    """Return the whole, then every stratum that is not the whole, with its prompts."""
    whole = {prompt.prompt_id for prompt in prompts}
    labels: dict[str, list[tuple[str | None, PlannedPrompt]]] = {
        "source": [(prompt.source, prompt) for prompt in prompts],
        "category": [(prompt.category, prompt) for prompt in prompts],
        "tag": [(tag, prompt) for prompt in prompts for tag in prompt.tags],
    }
    found = [(WHOLE, WHOLE, whole)]
    for stratum_by, labelled in labels.items():
        for label in sorted({label for label, _ in labelled if label is not None}):
            members = {prompt.prompt_id for each, prompt in labelled if each == label}
            if members != whole:
                found.append((stratum_by, label, members))
    return found
