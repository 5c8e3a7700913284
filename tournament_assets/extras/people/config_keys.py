"""The keys of a tournament's config that this extra reads."""

from typing import Literal, cast

from pydantic import Field

from tournament_assets.tournament.places import Frozen, Location


class HumanBattlesConfig(Frozen):
    """An arena: battles that people decided, beside which the entrants are placed.

    Attributes:
        file: The file of battles.
        format: Its format, one of those of `tournament battles import`; detected from its first row
            if None.
        min_battles: Entrants with fewer battles than this among the entrants kept are left out, and
            listed.
        names: The entrant_id for each name in the file. A name that is an entrant_id need not be
            listed.
        min_kappa: Cohen's kappa of the judge with them below which the check on their agreement
            turns red; None reports the number without a check.
    """

    file: Location
    format: str | None = None
    min_battles: int = Field(default=30, ge=1)
    names: dict[str, str] = Field(default_factory=dict)
    min_kappa: float | None = Field(default=None, ge=-1, le=1)


Opinion = Literal["these_raters", "people"]
"""Whose opinion labels estimate."""


class LabelsConfig(Frozen):
    """What labels of people are taken for.

    Attributes:
        about: Whose opinion is estimated: `these_raters`, those who labelled, on other prompts, or
            `people`, from whom the raters are a random draw. Intervals about people include how
            raters differ, and there are none with fewer than five raters.
    """

    about: Opinion = "these_raters"


class PeopleKeys(Frozen):
    """What a tournament's config says about people.

    Attributes:
        human_battles: Battles that people decided; None if there are none.
        labels: Whose opinion people's labels stand for.
    """

    human_battles: HumanBattlesConfig | None = None
    labels: LabelsConfig = LabelsConfig()


def people_keys(config: Frozen) -> PeopleKeys:
    """Return the config of a tournament as this extra reads it."""
    return cast("PeopleKeys", config)


ROWS = (PeopleKeys,)
