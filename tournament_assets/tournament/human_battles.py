"""Where a tournament's human battles come from, and who is who in them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from tournament_assets.tournament.frozen import Frozen
from tournament_assets.tournament.places import Location


class HumanBattlesConfig(Frozen):
    """An arena: battles that people decided, beside which the entrants are placed.

    Attributes:
        file: The file of battles.
        format: Its format, one of those of `tournament battles import`; told by its first row if
            None.
        min_battles: Entrants with fewer battles among those kept are left out, and listed.
        names: What the file calls an entrant, and the entrant_id. Whoever the file calls by an
            entrant_id is that entrant without being named here.
    """

    file: Location
    format: str | None = None
    min_battles: int = Field(default=30, ge=1)
    names: dict[str, str] = Field(default_factory=dict)


def name_problems(
    values: Mapping[str, Any], entrant_ids: Sequence[Any]
) -> list[tuple[tuple[str | int, ...], str]]:
    """Find names of the arena's file that stand for nobody, or for somebody who has one already.

    Args:
        values: The tournament's configuration as it was written.
        entrant_ids: Its entrants' ids as they were written.

    Returns:
        For each problem the path of keys to where it stands, and what is wrong.
    """
    human_battles = values.get("human_battles")
    names = human_battles.get("names") if isinstance(human_battles, Mapping) else None
    problems: list[tuple[tuple[str | int, ...], str]] = []
    first_names: dict[str, str] = {}
    for name, entrant_id in names.items() if isinstance(names, Mapping) else ():
        where = ("human_battles", "names", str(name))
        if not isinstance(name, str) or not isinstance(entrant_id, str):
            continue  # the field's own problem says so
        if entrant_id not in entrant_ids:
            known = ", ".join(str(each) for each in entrant_ids if each is not None)
            problems.append(
                (where, f"{name!r} stands for entrant {entrant_id!r}; expected one of {known}")
            )
        elif entrant_id in first_names:
            problems.append(
                (
                    where,
                    f"{name!r} and {first_names[entrant_id]!r} both stand for entrant "
                    f"{entrant_id!r}; expected one name an entrant; remove one",
                )
            )
        first_names.setdefault(entrant_id, name)
    return problems
