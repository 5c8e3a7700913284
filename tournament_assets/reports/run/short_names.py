"""Names of entrants that fit a line: their labels, or what is made of ids that are too long."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile

from tournament_assets.tournament.config import MOST_LETTERS


def short_names(entrants: Sequence[str], labels: Mapping[str, str]) -> dict[str, str]:
    """Return what each entrant is called where room is short, at most `MOST_LETTERS` long.

    Of long ids the words go that all of them begin or end with, then the middle.

    Args:
        entrants: Their ids.
        labels: Labels by id, for those that have one.
    """
    ids = [name for name in entrants if name not in labels]
    bare = _without_shared_words(ids) if any(len(name) > MOST_LETTERS for name in ids) else ids
    names = dict(zip(ids, map(_without_middle, bare), strict=True)) | dict(labels)
    uses = Counter(names[name] for name in entrants)
    return {
        name: names[name] if uses[names[name]] == 1 else f"{name[: MOST_LETTERS - 5]}… {place}"
        for place, name in enumerate(entrants, start=1)
    }


def _without_shared_words(ids: Sequence[str]) -> list[str]:
    words = [re.split(r"(?<=[-_])(?=[^-_])", name) for name in ids]
    for _ in ("first", "last"):
        most = min(map(len, words)) - 1 if len(ids) > 1 else 0
        shared = takewhile(lambda column: len({*column}) == 1, zip(*words, strict=False))
        n_shared = min(len([*shared]), most)
        words = [parts[n_shared:][::-1] for parts in words]
    return ["".join(parts).strip("-_") or name for name, parts in zip(ids, words, strict=True)]


def _without_middle(name: str) -> str:
    n_last = MOST_LETTERS // 3
    is_short = len(name) <= MOST_LETTERS
    return name if is_short else f"{name[: MOST_LETTERS - n_last - 1]}…{name[-n_last:]}"
