"""Which model answered, by the name that a reply gives, compared with the one asked.

Every service may answer for an alias with a dated snapshot, and for a snapshot with the alias. A
server of OpenAI's protocol may also add or leave out a vendor, a tag, or the folder and the ending
of a file.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations

from tournament_assets.foundation.formatting import format_count_of, list_first
from tournament_assets.tournament.service_rows import JudgeService

_SNAPSHOT = re.compile(r"-(?:latest|\d{3,4}|\d{8}|\d{4}-\d{2}-\d{2})$")
_FILE_END = re.compile(r"\.(?:gguf|safetensors|bin)$")


@dataclass
class AnsweringModels:
    """Counts the models that replies to one asked model name.

    Attributes:
        service: Who was asked, whose rules for names hold.
        asked: The model's name in the requests.
        counts: Number of replies by the model that they name; None where they name none.
    """

    service: JudgeService
    asked: str
    counts: Counter[str | None] = field(default_factory=Counter)

    @property
    def problem(self) -> str | None:
        """Which model answered how many of how many, if not the one asked alone; else None."""
        names = sorted(filter(None, self.counts))
        strange = [name for name in names if not self._are_same(self.asked, name)]
        mixed = any(not self._are_same(*pair) for pair in combinations(names, 2))
        if not strange and not mixed:
            return None
        total = self.counts.total()
        listed = [f"{format_count_of(self.counts[name], total)} by {name!r}" for name in names]
        advice = (
            "correct the model's name, or turn off the router's fallback"
            if strange
            else "write the snapshot's full name as the model"
        )
        return (
            f"{self.asked!r} was asked, and replies name {'others' if strange else 'several'}: "
            f"{list_first(listed)}{self._unknown}; expected one model; {advice}, and give it "
            "another revision to ask again"
        )

    @property
    def sentence(self) -> str:
        """What the replies say, whether it is a problem or not."""
        return self.problem or f"no reply names another model than {self.asked!r}{self._unknown}"

    @property
    def _unknown(self) -> str:
        n_unknown, total = self.counts[None], self.counts.total()
        return f"; {format_count_of(n_unknown, total)} name no model" if n_unknown else ""

    def _are_same(self, one: str, other: str) -> bool:
        one, other = one.lower(), other.lower()
        if self.service.may_route:
            one, other = _without_place(one, other), _without_place(other, one)
        snapshots = _SNAPSHOT.search(one), _SNAPSHOT.search(other)
        if all(match and match.group() != "-latest" for match in snapshots):
            return one == other
        return one == other or _SNAPSHOT.sub("", one) == _SNAPSHOT.sub("", other)


def _without_place(name: str, other: str) -> str:
    """Return a model's name without what only one of two names has: a vendor, a folder, a tag."""
    *folders, last = name.replace("\\", "/").split("/")
    is_path = len(folders) > 1 or bool(_FILE_END.search(last))
    vendor = other.count("/") == 1 and len(folders) == 1 and not is_path
    last = _FILE_END.sub("", last).removesuffix(":latest")
    last = last if ":" in other.removesuffix(":latest") else last.partition(":")[0]
    return f"{folders[0]}/{last}" if vendor else last
