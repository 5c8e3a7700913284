"""Counts what one judge's replies say of the judge."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tournament_assets.extras.verify.recomputation import share_by_prompt
from tournament_assets.extras.verify.settled import RunFolder

UNJUDGED = "unjudged pairs, worst entrant"
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")
_CODE = re.compile(
    r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[^\n]*$|\Z)|(`+)(?!`).+?(?<!`)\2(?!`)", re.M | re.S
)
_READ = {"A", "B", "TIE"}
_SAME = ({"A", "B"}, {"TIE"})
Units = list[tuple[str, bool]]


class JudgeCounts:
    """The shares on a dimension's trust panel; empty where several judges settled its pairs."""

    def __init__(self, run: RunFolder, dimension: str) -> None:
        """Take the verdicts; the same two texts of other entrants were asked about once."""
        rows = run.verdicts[dimension]
        self._run = run
        self.is_one = not any("," in (row["settled_by"] or "") for row in rows)
        self._asked = [row for row in rows if self.is_one and row["outcome"] != "same_text"]

    def _distinct(self, name: str = "") -> list[Mapping[str, Any]]:
        own = (row for row in self._asked if name in ("", row["entrant_a"], row["entrant_b"]))
        return [*{_requests(row): row for row in reversed([*own])}.values()]

    @cached_property
    def units(self) -> Mapping[str, Units]:
        """The prompts of what was looked at, and whether it has the property, by measure."""
        read = [
            (row["prompt_id"], row["verdict_ab"], row["verdict_ba"])
            for row in self._distinct()
            if len(_requests(row)) == 2 and {row["verdict_ab"], row["verdict_ba"]} <= _READ
        ]
        longer = ((row, self._longer(row)) for row in self._distinct())
        return {
            "position bias": [(p, say == "A") for p, *both in read for say in both if say != "TIE"],
            "direction of flips": [(p, ab == "A") for p, ab, ba in read if ab == ba != "TIE"],
            "swap consistency": [(p, {ab, ba} in _SAME) for p, ab, ba in read],
            "longer wins": [
                (row["prompt_id"], row["outcome"] == side)
                for row, side in longer
                if side and row["outcome"] in ("a_wins", "b_wins")
            ],
            **{
                f"{UNJUDGED}: {name}": [
                    (row["prompt_id"], row["outcome"] == "unjudged") for row in self._distinct(name)
                ]
                for name in self._run.entrants
            },
        }

    def _longer(self, row: Mapping[str, Any]) -> str:
        key = row["prompt_id"], row["sample"]
        a, b = (
            len(_WORD.findall(_CODE.sub(" ", self._run.responses[row[side]][key])))
            for side in ("entrant_a", "entrant_b")
        )
        return "a_wins" if a > b else "b_wins" if a < b else ""

    def shares(self, measure: str) -> tuple[int, int, tuple[float | None, ...]] | None:
        """Return count, number and, in per cent, the share with its interval.

        Of unjudged pairs it is the entrant's with the largest share, unless one is named.
        """
        found = []
        for each, units in self.units.items():
            if units and measure in (each, each.partition(":")[0]):
                share = share_by_prompt(units, self._run.settings["confidence"])
                percent = tuple(None if end is None else 100 * end for end in share)
                found.append((sum(has for _, has in units), len(units), percent))
        return max(found, key=lambda each: each[2][0] or 0.0, default=None)


def _requests(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset((row["request_key_ab"], row["request_key_ba"]))
