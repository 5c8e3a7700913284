"""Counts what one judge's replies say of the judge."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from tournament_assets.extras.verify.recomputation import share_by_prompt
from tournament_assets.extras.verify.settled import RunFolder

UNJUDGED = "unjudged pairs, worst entrant"
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")
_CODE = re.compile(
    r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[^\n]*$|\Z)|(`+)(?!`).+?(?<!`)\2(?!`)", re.M | re.S
)
_SAME = ({"A", "B"}, {"TIE"})


class JudgeCounts:
    """The shares on a dimension's trust panel; empty where several judges settled its pairs."""

    def __init__(self, run: RunFolder, dimension: str) -> None:
        """Take each two requests once: the same texts of other entrants are asked once."""
        self._run = run
        found: dict[tuple[frozenset[str], str], Mapping[str, Any]] = {}
        rows = run.verdicts[dimension]
        self.is_one = not any("," in (row["settled_by"] or "") for row in rows)
        if self.is_one:
            for row in rows:
                if row["outcome"] != "same_text":
                    for name in ("", row["entrant_a"], row["entrant_b"]):
                        found.setdefault((_requests(row), name), row)
        self._rows = found

    @cached_property
    def units(self) -> Mapping[str, list[tuple[str, bool]]]:
        """The prompts of what was looked at, and whether it has the property, by measure."""
        read = [
            (row["prompt_id"], (row["verdict_ab"], row["verdict_ba"]))
            for (_, name), row in self._rows.items()
            if not name and len(_requests(row)) == 2 and _is_read(row)
        ]
        units = {
            "position bias": [(p, say == "A") for p, both in read for say in both if say != "TIE"],
            "direction of flips": [
                (p, ab == "A") for p, (ab, ba) in read if ab == ba and ab != "TIE"
            ],
            "swap consistency": [(p, {*both} in _SAME) for p, both in read],
            "longer wins": [*self._longer_wins()],
        }
        for (_, name), row in self._rows.items():
            if name:
                own = units.setdefault(f"{UNJUDGED}: {name}", [])
                own.append((row["prompt_id"], row["outcome"] == "unjudged"))
        return units

    def _longer_wins(self) -> Iterator[tuple[str, bool]]:
        for (_, name), row in self._rows.items():
            if not name and row["outcome"] in ("a_wins", "b_wins"):
                key = row["prompt_id"], row["sample"]
                a, b = (
                    count_words(self._run.responses[row[side]][key])
                    for side in ("entrant_a", "entrant_b")
                )
                if a != b:
                    yield row["prompt_id"], (a > b) == (row["outcome"] == "a_wins")

    @property
    def worst(self) -> str:
        """The measure of the entrant with the largest share of unjudged pairs."""
        measures = [f"{UNJUDGED}: {name}" for name in self._run.entrants]
        known = [each for each in measures if each in self.units]
        unjudged = {each: [lost for _, lost in self.units[each]] for each in known}
        return max(
            known, key=lambda each: sum(unjudged[each]) / len(unjudged[each]), default=UNJUDGED
        )

    def shares(self, measure: str) -> tuple[int, int, tuple[float | None, ...]] | None:
        """Return count, number and, in per cent, the share with its interval."""
        units = self.units.get(self.worst if measure == UNJUDGED else measure)
        if not units:
            return None
        found = share_by_prompt(units, self._run.settings["confidence"])
        percent = tuple(None if each is None else 100 * each for each in found)
        return sum(has for _, has in units), len(units), percent


def count_words(text: str) -> int:
    """Count the words outside of code."""
    return len(_WORD.findall(_CODE.sub(" ", text)))


def _requests(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset((row["request_key_ab"], row["request_key_ba"]))


def _is_read(row: Mapping[str, Any]) -> bool:
    return {row["verdict_ab"], row["verdict_ba"]} <= {"A", "B", "TIE"}
