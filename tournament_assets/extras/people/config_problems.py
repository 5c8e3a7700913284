"""Problems with several keys of this extra, or with one that depends on other parts."""

from collections.abc import Mapping, Sequence
from typing import Any

from tournament_assets.battles.registry import FORMATS
from tournament_assets.foundation.yaml_files import KeyPath


def arena_problems(values: Mapping[str, Any]) -> list[tuple[KeyPath, str]]:
    """Find an unknown format of the arena's file, unknown entrants, and entrants named twice."""
    arena, entrants = values.get("human_battles"), values.get("entrants")
    if not isinstance(arena, Mapping) or not isinstance(entrants, list):
        return []
    ids = [each.get("entrant_id") for each in entrants if isinstance(each, Mapping)]
    return [*_format_problems(arena.get("format")), *_name_problems(arena.get("names"), ids)]


def _format_problems(name: object) -> list[tuple[KeyPath, str]]:
    if not isinstance(name, str) or name in FORMATS:
        return []
    problem = f"human_battles.format is {name!r}; expected one of {', '.join(FORMATS)}"
    return [(("human_battles", "format"), problem)]


def _name_problems(names: object, entrant_ids: Sequence[Any]) -> list[tuple[KeyPath, str]]:
    problems: list[tuple[KeyPath, str]] = []
    first_names: dict[str, str] = {}
    for name, entrant_id in names.items() if isinstance(names, Mapping) else ():
        where = ("human_battles", "names", str(name))
        if not isinstance(name, str) or not isinstance(entrant_id, str):
            continue  # the field's own problem says so
        if entrant_id not in entrant_ids:
            listed = ", ".join(str(name) for name in entrant_ids if name is not None)
            problems.append(
                (where, f"{name!r} stands for entrant {entrant_id!r}; expected one of {listed}")
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


ROWS = (arena_problems,)
