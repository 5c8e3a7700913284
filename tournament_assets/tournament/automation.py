"""What a tournament does by itself: when its headline runs again, and what an edit reruns."""

import difflib
import zoneinfo
from typing import Any, Literal

from pydantic import Field, field_validator

from tournament_assets.tournament.frozen import Frozen


class HeadlineSchedule(Frozen):
    """When the headline is run again.

    Attributes:
        cron: The moments, five fields: minute, hour, day of the month, month, day of the week.
        time_zone: The IANA time zone that they are in.
    """

    cron: str
    time_zone: str = "UTC"

    @field_validator("cron")
    @classmethod
    def _has_five_fields(cls, cron: str) -> str:
        # What may stand in a field is Dagster's business, which fires it.
        n_fields = len(cron.split())
        if n_fields != 5:
            raise ValueError(
                f"{cron!r} has {n_fields} fields; expected minute, hour, day of the month, month "
                "and day of the week, such as '0 6 * * 1' for Mondays at six"
            )
        return cron

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            zoneinfo.ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            close = difflib.get_close_matches(name, zoneinfo.available_timezones(), n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"{name!r} is no time zone; expected an IANA name such as 'Europe/Berlin'{hint}"
            ) from None
        return name


class AutomationConfig(Frozen):
    """What happens without anybody asking; nothing here changes a result.

    Attributes:
        headline_schedule: When the headline is run again; None builds no schedule.
        rerun_after_edits: Run again what an edit has made out of date.
        rerun_modes: The modes for which an edit may do so; a headline costs what a headline costs.
    """

    headline_schedule: HeadlineSchedule | None = None
    rerun_after_edits: bool = False
    rerun_modes: tuple[Literal["pilot", "headline"], ...] = Field(default=("pilot",), min_length=1)

    @field_validator("rerun_modes", mode="before")
    @classmethod
    def _lists_are_tuples(cls, value: Any) -> Any:
        # YAML has lists only; strict mode would refuse them where a frozen model holds tuples.
        return tuple(value) if isinstance(value, list) else value
