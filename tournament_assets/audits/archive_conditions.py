"""Whether what was to be the same for all models was."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tournament_assets.tournament.archived_runs import ArchiveContents
from tournament_assets.tournament.archives import ArchiveConfig


class Sameness(StrEnum):
    """What can be said of a condition."""

    SAME = "identical"
    """Every run says the same."""
    DIFFERENT = "different"
    """Runs say different things."""
    INCOMPLETE = "not in every run"
    """The runs that say anything say the same, and others say nothing."""
    STATED = "stated, not checked"
    """Only the configuration says it."""


@dataclass(frozen=True, slots=True)
class ConditionAudit:
    """What an archive says of one condition.

    Attributes:
        name: The condition.
        sameness: What can be said of it.
        values: What runs say, with how many of each model's say it.
        silent: Runs that say nothing.
        stated: What the configuration says.
    """

    name: str
    sameness: Sameness
    values: Mapping[str, Mapping[str, int]]
    silent: int = 0
    stated: str = ""


def audit_conditions(contents: ArchiveContents, config: ArchiveConfig) -> list[ConditionAudit]:
    """Compare every condition over all runs of all models."""
    audits = []
    for condition in config.conditions:
        if condition.stated is not None:
            audits.append(
                ConditionAudit(condition.name, Sameness.STATED, {}, stated=condition.stated)
            )
            continue
        counts: dict[str, Counter[str]] = {}
        silent = 0
        for run in contents.runs:
            value = run.conditions.get(condition.name)
            if value is None:
                silent += 1
            else:
                counts.setdefault(value, Counter())[run.model_id] += 1
        if len(counts) > 1:
            sameness = Sameness.DIFFERENT
        else:
            sameness = Sameness.INCOMPLETE if silent or not counts else Sameness.SAME
        values = {value: dict(sorted(models.items())) for value, models in sorted(counts.items())}
        audits.append(ConditionAudit(condition.name, sameness, values, silent))
    return audits
