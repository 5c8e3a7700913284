"""What the cells of a run's printed tables should say, by the names of their columns.

A column of another name is passed over, so a page may show more than can be computed here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from tournament_assets.extras.verify.numbers import Number
from tournament_assets.extras.verify.printed_tables import PrintedTable
from tournament_assets.extras.verify.recomputation import Recomputed, in_common
from tournament_assets.extras.verify.settled import RunFolder

Cells = Mapping[str, Any]
"""What is expected, by column; see `numbers.Number`."""
_TO_THE_NEXT = "difference to the next (joint interval)"
_MOST_LETTERED = 8
"""With more entrants a ladder shows places in place of letters."""
Counts = Mapping[tuple[str, str], Mapping[str, float]]


class PrintedNumbers:
    """What a run's tables should say of its entrants, pairs and dimensions."""

    def __init__(
        self,
        run: RunFolder,
        ratings: Mapping[str, Recomputed],
        counts: Mapping[str, Counts],
        elo: Mapping[str, np.ndarray[Any, np.dtype[np.float64]]],
    ) -> None:
        """Take what was recomputed, by dimension; `elo` holds orderings by entrants."""
        self._run, self._ratings, self._counts, self._elo = run, ratings, counts, elo
        self._common = cache(self._rate_common)

    def numbers(self, tables: Iterable[PrintedTable]) -> Iterator[Number]:
        """Yield every cell of which it is known what it should say."""
        for table in tables:
            # On the page a table of names and what is said of them has no head.
            headers = table.headers or ["what", "amount"]
            for row, below in zip(table.rows, [*table.rows[1:], []], strict=True):
                cells = dict(zip(headers, row, strict=False))
                if _TO_THE_NEXT in cells and len(below) > 1:
                    cells["next below"] = below[1]
                dimension = cells.get("dimension") or self._dimension_in(table.title)
                at = ", ".join((table.title, *row[:2]))
                for column, expected in self._expected(headers, row, cells, dimension).items():
                    if column in cells:
                        yield f"{at}, {column}", cells[column], expected

    def _dimension_in(self, title: str) -> str:
        fits = (
            each
            for each in self._run.pairs
            if title == each or title.startswith(f"{each}:") or title.endswith(f", {each}")
        )
        return max(fits, key=len, default="")

    def _expected(
        self, headers: Sequence[str], row: Sequence[str], cells: Mapping[str, str], dimension: str
    ) -> Cells:
        name, names = cells.get("entrant", ""), self._run.entrants
        pair = cells.get("upper") or name, cells.get("lower") or cells.get("next below", "")
        if row and row[0].startswith("judging "):
            return {"amount": self._spent(row[0].removeprefix("judging "))}
        if dimension not in self._ratings:
            return {each: self._on_ladder(each, name) for each in self._ratings if name in names}
        if headers[0] == "row beats column":
            return {each: self._won(dimension, row[0], each) for each in names if each != row[0]}
        if "stratum" in cells:
            by_source = cells.get("by") == "source" and name in names
            return self._in_stratum(dimension, cells["stratum"], name) if by_source else {}
        if pair[0] in names and pair[1] in names and _TO_THE_NEXT not in cells:
            return self._between(dimension, *pair)
        if name in names:
            return {
                **self._of_entrant(dimension, name),
                **self._covered(dimension, name),
                **self._beside(dimension, name, cells),
            }
        return self._of_dimension(dimension) if "first" in cells else {}

    def _won(self, dimension: str, row: str, column: str) -> tuple[float | None, ...]:
        own = self._counts[dimension].get((row, column), {})
        share = own.get("share")
        return () if share is None else (100 * share, own["judged"], own["same_text"] or None)

    def _of_entrant(self, dimension: str, name: str) -> dict[str, Any]:
        own, orderings = self._ratings[dimension], self._elo[dimension]
        elo = orderings[:, self._run.entrants.index(name)]
        error = elo.std(ddof=1) / elo.size**0.5 if elo.std() else None
        rated = _rated(own, name)
        found: dict[str, Any] = {
            "rating": rated[:1],
            "interval": rated[1:],
            **dict.fromkeys(("win rate", "win rate, %"), _share(own, name)),
            "pairs": (own.n_settled(name),),
            "Elo ± SEM": (float(elo.mean()), error) if name in own.elo_rated else (),
        }
        for basis, of in (("all", own), ("common", self._common(dimension, ""))):
            found |= {
                f"{basis}: rank": _place(of, name),
                f"{basis}: win share": _share(of, name),
                f"{basis}: rating": _rated(of, name),
            }
        if not self._run.stops_early:
            places = dict.fromkeys(own.places.get(name, ()))
            found |= {"rank": (own.ranks.get(name),), "places and group": tuple(places)}
        return found

    def _on_ladder(self, dimension: str, name: str) -> tuple[float | None, ...]:
        """Return a rating with its interval; of many entrants its places follow."""
        own = self._ratings[dimension]
        has_places = len(self._run.entrants) > _MOST_LETTERED
        places = dict.fromkeys(own.places.get(name, ())) if has_places else ()
        return (*_rated(own, name), *places)

    def _beside(self, dimension: str, name: str, cells: Mapping[str, str]) -> dict[str, Any]:
        """Return the difference to the next below, and shares and ranks by stratum."""
        found: dict[str, Any] = {}
        if cells.get("next below") in self._run.entrants:
            between = self._between(dimension, name, cells["next below"])
            found[_TO_THE_NEXT] = between.get("difference (interval)", ())
        for column in cells:
            stratum = re.fullmatch(r"(.+) \(\d+ prompts\)", column)
            if stratum:
                own = self._common(dimension, stratum[1])
                found[column] = (*_share(own, name), *_place(own, name))
        if self._run.stops_early:
            found.pop(_TO_THE_NEXT, None)
        return found

    def _covered(self, dimension: str, name: str) -> Cells:
        if self._run.stops_early:
            return {}
        own = [each for (one, _), each in self._counts[dimension].items() if one == name]
        judged, same = (sum(each[key] for each in own) for key in ("judged", "same_text"))
        n_others = len(self._run.entrants) - 1
        planned = self._run.manifest["prompts_planned"][dimension] * n_others
        return {
            **dict.fromkeys(("pairs planned", "planned"), (planned,)),
            "judged": (judged,),
            "same text": (same,),
            "coverage": (100 * (judged + same) / planned if planned else None,),
        }

    def _rate_common(self, dimension: str, stratum: str) -> Recomputed:
        """Return the ratings on answers of which every pair was settled, of a stratum or all."""
        pairs = in_common(self._run.pairs[dimension], len(self._run.entrants))
        own = [each for each in pairs if stratum in ("", each.source)]
        return self._ratings[dimension].of(own)

    def _in_stratum(self, dimension: str, stratum: str, name: str) -> Cells:
        own = self._common(dimension, stratum)
        answers = {(each.prompt, each.sample) for each in own.pairs}
        return {
            "prompts": (len(answers),),
            "win share": _share(own, name),
            "rating": _rated(own, name),
            "rank": _place(own, name),
        }

    def _between(self, dimension: str, upper: str, lower: str) -> Cells:
        counts = self._counts[dimension].get((upper, lower), {})
        names = {"won": "wins", "lost": "losses", "tied": "ties", "same text": "same_text"}
        found: dict[str, Any] = {
            column: (counts.get(key, 0),)
            for column, key in {**names, "inconsistent": "inconsistent"}.items()
        }
        gap = self._ratings[dimension].gap(upper, lower)
        if gap is None or self._run.stops_early:
            return found
        is_better = gap.claim == "a_better"
        return found | {
            "claim": "better" if is_better else gap.claim,
            "shown to be better": "yes" if is_better else "no",
            "difference (interval)": (gap.value, gap.low, gap.high),
            "gap": (gap.value,),
            "interval of the difference": (gap.low, gap.high),
            "more prompts": (gap.more_prompts,),
        }

    def _of_dimension(self, dimension: str) -> Cells:
        pairs = self._run.pairs[dimension]
        judged = sum(each.is_judged for each in pairs)

        def part(*outcomes: str, of: int) -> tuple[float | None, ...]:
            n = sum(each.outcome in outcomes for each in pairs)
            return n, of, 100 * n / of if of else None

        return {
            "decisive pairs of those judged": part("a_wins", "b_wins", of=judged),
            "inconsistent": part("inconsistent", of=judged),
            "same text of all": part("same_text", of=len(pairs)),
            "judging cost": (self._run.manifest["cost"]["by_dimension"][dimension]["cost_usd"],),
        }

    def _spent(self, dimension: str) -> tuple[float | None, ...]:
        cost = self._run.manifest["cost"]["by_dimension"][dimension]
        kinds = ("input_tokens", "cache_write_tokens", "cache_read_tokens")
        return (
            cost["cost_usd"],
            cost["requests"],
            sum(cost[kind] for kind in kinds),
            cost["cache_read_tokens"],
            cost["output_tokens"],
        )


def _rated(own: Recomputed, name: str) -> tuple[float | None, ...]:
    rating = own.ratings[name]
    return () if rating is None else (rating, *own.intervals[name])


def _share(own: Recomputed, name: str) -> tuple[float, ...]:
    share = own.win_shares[name]
    return () if share is None else (100 * share,)


def _place(own: Recomputed, name: str) -> tuple[int, ...]:
    """Return the rank by win share; equal ones have one."""
    share = own.win_shares[name]
    if share is None:
        return ()
    return (1 + sum((other or 0.0) > share + 1e-9 for other in own.win_shares.values()),)
