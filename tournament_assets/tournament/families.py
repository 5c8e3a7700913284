"""Families of models that a config names, by entrant or by judge model."""

from collections.abc import Mapping, Sequence
from typing import Any


def family_problems(
    values: Mapping[str, Any], entrant_ids: Sequence[Any]
) -> list[tuple[tuple[str | int, ...], str]]:
    """Find families of nobody.

    Args:
        values: The tournament's configuration as it was written.
        entrant_ids: Its entrants' ids as they were written.

    Returns:
        For each problem the path of keys to where it stands, and what is wrong.
    """
    judges = [
        mode.get("judge_model")
        for mode in (values.get(name) for name in ("pilot", "headline"))
        if isinstance(mode, Mapping)
    ]
    families = values.get("families")
    known = [name for name in (*entrant_ids, *judges) if name is not None]
    return [
        (
            ("families", str(name)),
            f"{name!r} is given a family and is nobody here; "
            f"expected an entrant or a judge model: {', '.join(map(str, known))}",
        )
        for name in (families if isinstance(families, Mapping) else ())
        if name not in known
    ]
