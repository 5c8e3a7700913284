"""What the cells of a run's printed tables should say, by the names of their columns.

A column of another name is passed over, so a page may show more than can be computed here.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

from tournament_assets.extras.verify.judge_counts import JudgeCounts
from tournament_assets.extras.verify.numbers import UNKNOWN, Number, leaves
from tournament_assets.extras.verify.printed_tables import Printed
from tournament_assets.extras.verify.recomputation import Gap, Recomputed, in_common
from tournament_assets.extras.verify.settled import RunFolder, SettledPair

Cells = Mapping[str, Any]
"""What is expected, by column; see `numbers.Number`."""
_TO_THE_NEXT = "difference to the next (joint interval)"
_STRATUM = re.compile(r"(.+) \((\d+) prompts?\)")
_OUTCOMES = ("wins", "losses", "ties", "inconsistent", "same_text", "unjudged")
_LIMITS: Mapping[str, Callable[[Mapping[str, Any]], tuple[float, ...]]] = {
    "position bias": lambda limits: _around_half(limits["max_position_bias"]),
    "direction of flips": lambda limits: _around_half(limits["max_flip_bias"]),
    "swap consistency": lambda limits: (100 - 100 * limits["max_inconsistency_rate"],),
    "length": lambda limits: (limits["max_length_effect"],),
    "longer wins": lambda limits: (100 * limits["max_longer_wins"],),
    "unjudged pairs": lambda limits: (100 * limits["max_unjudged_rate"],),
}
"""Where a light turns red, by the measure and the thresholds."""
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
        stored: Mapping[tuple[str, str], Mapping[str, Any]],
    ) -> None:
        """Take what was recomputed, by dimension.

        Args:
            stored: The leaderboard's rows by dimension and entrant, which are checked by
                themselves; they also have what follows from decisions while judging.
        """
        self.run, self.ratings, self.counts, self.stored = run, ratings, counts, stored
        self._common = cache(self._rate_common)
        self.cut_off: set[tuple[str, int, str]] = set()
        self.judge = {each: JudgeCounts(run, each) for each in run.pairs}

    def cells(self, page: Printed) -> Iterator[tuple[Number, Mapping[str, str]]]:
        """Yield every cell, with the dimension and the entrant that it is about."""
        for table in page.tables:
            # On the page a table of names and what is said of them has no head.
            headers = table.headers or ["what", "amount"]
            for row, below in zip(table.rows, [*table.rows[1:], []], strict=True):
                cells = dict(zip(headers, row, strict=False))
                if _TO_THE_NEXT in cells and len(below) > 1:
                    cells["next below"] = below[1]
                dimension = cells.get("dimension") or self._dimension_in(table.title)
                expected = self._expected(headers, row, cells, dimension)
                for stratum in filter(None, map(_STRATUM.fullmatch, headers)):
                    pairs = self._common(dimension, stratum[1]).pairs
                    n = len({(each.prompt, each.sample) for each in pairs})
                    yield (f"{table.title}, {stratum[1]}", stratum[2], (n,)), {}
                for column in headers[: len(row)]:
                    at = ", ".join((table.title, *row[:2], column))
                    about = {"d": dimension} if dimension in self.run.pairs else {}
                    if cells.get("entrant") in self.run.entrants:
                        about["a"] = cells["entrant"]
                    yield (at, cells[column], expected.get(column, UNKNOWN)), about

    def _dimension_in(self, title: str) -> str:
        fits = (
            each
            for each in self.run.pairs
            if title == each or title.startswith(f"{each}:") or title.endswith(f", {each}")
        )
        return max(fits, key=len, default="")

    def _expected(
        self, headers: Sequence[str], row: Sequence[str], cells: Mapping[str, str], dimension: str
    ) -> Cells:
        name, names = cells.get("entrant", ""), self.run.entrants
        pair = cells.get("upper") or name, cells.get("lower") or cells.get("next below", "")
        if headers == ["what", "amount"]:
            kind, _, of = row[0].partition(" ")
            if of == "seed":
                return {"amount": (self.run.manifest[f"{kind}_seed"],)}
            return {"amount": self._spent(of)} if kind == "judging" else {}
        if "measure" in cells:
            return self._measured(cells, dimension)
        if dimension not in self.ratings:
            if name not in names:
                return {}
            on = {each: self._on_ladder(each, name) for each in self.ratings}
            return {**on, **{f"Elo points, {each}": of[:1] for each, of in on.items()}}
        if headers[0] == "row beats column":
            return self._grid(dimension, row[0], headers[1:])
        if "moves" in cells:
            return {"Elo points": self.moved(dimension, cells["prompt"], cells["moves"])}
        if "pairs that flip" in cells:
            return self._flips(dimension, cells["stratum"])
        if pair[0] in names and pair[1] in names and _TO_THE_NEXT not in cells:
            return self._between(dimension, *pair)
        if name in names:
            return {
                **self._of_entrant(dimension, name),
                **self._covered(dimension, name),
                **self._beside(dimension, name, cells),
                **self._side_by_side(dimension, name, cells),
            }
        return self._of_dimension(dimension, cells["first"]) if "first" in cells else {}

    @cached_property
    def of_run(self) -> Mapping[str, float | None]:
        """What is said of the run as a whole."""
        pairs = [each for own in self.run.pairs.values() for each in own]
        settings, n = self.run.settings, len(self.run.pairs)
        percent = 100 * settings["confidence"]
        return {
            "prompts": self.run.manifest["selected_prompts"],
            "answers": self.run.manifest["selected_prompts"] * len({each.sample for each in pairs}),
            "samples": len({each.sample for each in pairs}),
            "entrants": len(self.run.entrants),
            "dimensions": n,
            "judged": sum(each.is_judged for each in pairs),
            "asked": sum(each.outcome != "same_text" for each in pairs),
            "same": sum(each.outcome == "same_text" for each in pairs),
            "settled": sum(each.share is not None for each in pairs),
            "cost": self.run.manifest["cost"]["total_usd"],
            "n_bootstraps": settings["n_bootstraps"],
            "seed": settings["bootstrap_seed"],
            "within": settings["equivalent_within"],
            "zero": 0,
            "confidence": percent,
            "wrong": n * (100 - percent),
        }

    def cost_of(self, dimension: str) -> float | None:
        """Return what judging a dimension cost, in US dollars."""
        cost: float | None = self.run.manifest["cost"]["by_dimension"][dimension]["cost_usd"]
        return cost

    def _measured(self, cells: Mapping[str, str], dimension: str) -> Cells:
        """Return the shares of a judge, in a table of one dimension or of all."""
        measure, found = cells["measure"], dict[str, Any]()
        for title, limits in _LIMITS.items():
            if measure.startswith(title):
                known = limits(self.run.manifest["thresholds"])
                found = dict.fromkeys(("threshold", "expected"), known)
        for each in self.judge:
            counted = self.judge[each].shares(measure)
            if counted:
                _, n, shares = counted
                if each == dimension:
                    found |= {"value (interval)": shares, "n": (n,)}
                elif each in cells:
                    found[each] = shares
        return found

    def moved(self, dimension: str, prompt: str, name: str) -> Any:
        """Return how far a rating moves without a prompt."""
        if self.run.stops_early:
            return UNKNOWN
        own = self.ratings[dimension]
        there = own.ratings.get(name)
        rest = [each for each in own.pairs if each.prompt != prompt]
        then = own.of(rest).ratings.get(name) if len(rest) < len(own.pairs) else None
        return UNKNOWN if there is None or then is None else (then - there,)

    def _flips(self, dimension: str, stratum: str) -> Cells:
        own = [each for each in self.run.pairs[dimension] if each.source == stratum]
        judged = [each for each in own if each.is_judged]
        is_one = self.judge[dimension].is_one
        return {
            "prompts": (len({each.prompt for each in own}),),
            "pairs that flip": _part(own, "inconsistent", of=judged) if is_one else UNKNOWN,
        }

    def by_model(self, dimension: str) -> Mapping[str, Mapping[str, float]]:
        """Return everyone's rating by every model that gives it one."""
        own = self.ratings[dimension]
        elo = {name: self.stored[dimension, name]["elo"] for name in self.run.entrants}
        found = {"Elo": elo, "Bradley-Terry": own.ratings, "Davidson": own.davidson[0]}
        return {
            model: {name: value for name, value in of.items() if value is not None}
            for model, of in found.items()
        }

    def _side_by_side(self, dimension: str, name: str, cells: Mapping[str, str]) -> Cells:
        if "Davidson" not in cells:
            return {}
        own = self.ratings[dimension]
        found: dict[str, Any] = {
            model: (of[name], 1 + sum(round(each, 1) > round(of[name], 1) for each in of.values()))
            for model, of in self.by_model(dimension).items()
            if name in of and re.search(r"\d", cells[model])
        }
        return found | {"Bradley-Terry sandwich interval": own.sandwich.get(name, ())}

    @cached_property
    def _made_from(self) -> Mapping[str, set[str]]:
        """The manifest's words by their key, and with none all of them, keys and short hashes."""
        found: dict[str, set[str]] = {"": set()}
        for at, value in leaves(self.run.manifest):
            words = str(value).split()
            found[""].update(map(str, at), words, (each[:12] for each in words))
            if isinstance(at[-1], str):
                found.setdefault(at[-1], set()).update(words)
        return found

    def copied(self, text: str) -> Iterator[Number]:
        """Yield the words with a digit in a text that repeats the manifest's."""
        for key, word in pairwise(["", *re.split(r"[\s,;()]+", text)]):
            if re.search(r"\d", word):
                known, plain = self._made_from.get(key, self._made_from[""]), word.rstrip(".")
                yield text[:60], plain, plain if plain in known else "what the manifest says"

    def _grid(self, dimension: str, row: str, headers: Sequence[str]) -> Cells:
        """Return a row of the win grid; a large one names its columns by their places."""
        order = [name for each, name in self.stored if each == dimension]
        is_large = "1" in headers
        found: dict[str, Any] = {}
        for header in headers:
            name = order[int(header) - 1] if is_large else header
            own = self.counts[dimension].get((row.partition(" ")[2] if is_large else row, name), {})
            if "share" in own:
                same = () if is_large else (own["same_text"] or None,)
                found[header] = (100 * own["share"], own["judged"], *same)
        return found

    def _of_entrant(self, dimension: str, name: str) -> dict[str, Any]:
        row, common = self.stored[dimension, name], self._common(dimension, "")
        rated = _rated(row["rating"], (row["low"], row["high"]))
        share = () if row["win_rate"] is None else (100 * row["win_rate"],)
        return {
            "rank": (row["rank"],),
            "rating": rated[:1],
            "interval": rated[1:],
            **dict.fromkeys(("win rate", "win rate, %"), share),
            "pairs": (row["n"],),
            "places and group": self.places(dimension, name),
            "Elo ± SEM": (row["elo"], row["elo_sem"]),
            "common: rank": _place(common, name),
            "common: win share": _share(common, name),
            "common: rating": _rated(common.ratings[name], common.intervals[name]),
        }

    def places(self, dimension: str, name: str) -> tuple[int, ...]:
        """Return the range of an entrant's places, one if it is one place; none if it has none."""
        row = self.stored[dimension, name]
        both = dict.fromkeys((row["rank_best"], row["rank_worst"]))
        return tuple(each for each in both if each is not None)

    def _on_ladder(self, dimension: str, name: str) -> tuple[float | None, ...]:
        """Return a rating with its interval; of many entrants its places follow."""
        row = self.stored[dimension, name]
        has_places = len(self.run.entrants) > _MOST_LETTERED
        places = self.places(dimension, name) if has_places else ()
        return (*_rated(row["rating"], (row["low"], row["high"])), *places)

    def _beside(self, dimension: str, name: str, cells: Mapping[str, str]) -> dict[str, Any]:
        """Return the difference to the next below, and shares and ranks by stratum."""
        found: dict[str, Any] = {}
        if cells.get("next below") in self.run.entrants:
            between = self._between(dimension, name, cells["next below"])
            found[_TO_THE_NEXT] = between.get("difference (interval)", ())
        for column in cells:
            stratum = _STRATUM.fullmatch(column)
            if stratum:
                own = self._common(dimension, stratum[1])
                found[column] = (*_share(own, name), *_place(own, name))
        return found

    def _covered(self, dimension: str, name: str) -> Cells:
        own = [each for each in self.run.pairs[dimension] if name in (each.a, each.b)]
        judged, same = (
            sum(each.is_judged for each in own),
            sum(each.outcome == "same_text" for each in own),
        )
        planned = self.run.manifest["prompts_planned"][dimension] * (len(self.run.entrants) - 1)
        planned = len(own) if self.run.stops_early else planned
        answered, cut = len(self.run.responses[name]), [of for *_, of in self.cut_off].count(name)
        points, clean = (
            [abs((each.b == name) - each.share) for each in of if each.share is not None]
            for of in (own, filter(self._is_clean, own))
        )
        scores = {"mean": (points, len(points)), "clean mean": (clean, len(clean))}
        scores["normalised"] = points, planned
        found: dict[str, Any] = {
            "pairs planned": (planned,),
            "asked": (len(own) - same,),
            "judged": (judged,),
            "same text": (same,),
            "coverage": (100 * (judged + same) / planned if planned else None,),
            "clean": (len(clean),),
            **{key: (100 * sum(of) / n if n else None,) for key, (of, n) in scores.items()},
        }
        if answered == self.of_run["answers"]:
            found |= {"answered": (answered, answered), "cut off": (cut,)}
        if not self.run.stops_early:
            found["planned: win share"] = found["normalised"]
            found["pairs judged of planned"] = judged + same, planned
        return found

    def _is_clean(self, pair: SettledPair) -> bool:
        key = pair.prompt, pair.sample
        texts = (self.run.responses[each][key] for each in (pair.a, pair.b))
        is_cut = any((*key, each) in self.cut_off for each in (pair.a, pair.b))
        return pair.outcome != "inconsistent" and all(map(str.strip, texts)) and not is_cut

    def _rate_common(self, dimension: str, stratum: str) -> Recomputed:
        """Return the ratings on answers of which every pair was settled, of a stratum or all."""
        pairs = in_common(self.run.pairs[dimension], len(self.run.entrants))
        own = [each for each in pairs if stratum in ("", each.source)]
        return self.ratings[dimension].of(own)

    def _between(self, dimension: str, upper: str, lower: str) -> Cells:
        counts = self.counts[dimension].get((upper, lower), {})
        names = {"won": "wins", "lost": "losses", "tied": "ties", "same text": "same_text"}
        found: dict[str, Any] = {
            column: (counts.get(key, 0),)
            for column, key in {**names, "inconsistent": "inconsistent"}.items()
        }
        found["battles"] = (sum(counts.get(key, 0) for key in _OUTCOMES),)
        gap = self.gap(dimension, upper, lower)
        if gap is None:
            return found
        return found | {
            "claim": "better" if gap.claim == "a_better" else gap.claim,
            "difference (interval)": () if gap.value is None else (gap.value, gap.low, gap.high),
            "more prompts": (gap.more_prompts,),
        }

    def gap(self, dimension: str, upper: str, lower: str) -> Gap | None:
        """Return the claim about two entrants; decisions while judging take its place."""
        gap = self.ratings[dimension].gap(upper, lower)
        if gap is None or not self.run.stops_early:
            return gap
        is_above, is_below = (
            other in self.stored[dimension, one]["shown_above"]
            for one, other in ((upper, lower), (lower, upper))
        )
        claim = "a_better" if is_above else "b_better" if is_below else "undecided"
        return Gap(gap.value, None, None, claim, None)

    def _of_dimension(self, dimension: str, first: str) -> Cells:
        pairs = self.run.pairs[dimension]
        judged = [each for each in pairs if each.is_judged]
        row, ratings = self.stored[dimension, first], self.ratings[dimension].ratings
        others = {*self.run.entrants} - {first, *row["same_answers_as"]}
        rated = [rating for name in others if (rating := ratings[name]) is not None]
        own = ratings[first]
        return {
            "entrants it is better than": (len(row["shown_above"]), len(others)),
            "gap to the next, Elo points": () if own is None or not rated else (own - max(rated),),
            "decisive pairs of those judged": _part(pairs, "a_wins", "b_wins", of=judged),
            "inconsistent": _part(pairs, "inconsistent", of=judged),
            "same text of all": _part(pairs, "same_text", of=pairs),
            "judging cost": (self.cost_of(dimension),),
        }

    def _spent(self, dimension: str) -> tuple[float | None, ...]:
        cost = self.run.manifest["cost"]["by_dimension"][dimension]
        kinds = ("input_tokens", "cache_write_tokens", "cache_read_tokens")
        return (
            cost["cost_usd"],
            cost["requests"],
            sum(cost[kind] for kind in kinds),
            cost["cache_read_tokens"],
            cost["output_tokens"],
        )


def _part(
    pairs: Sequence[SettledPair], *outcomes: str, of: Sequence[SettledPair]
) -> tuple[float | None, ...]:
    n = sum(each.outcome in outcomes for each in pairs)
    return n, len(of), 100 * n / len(of) if of else None


def _around_half(reach: float) -> tuple[float, float]:
    return 50 - 100 * reach, 50 + 100 * reach


def _rated(
    rating: float | None, ends: tuple[float | None, float | None]
) -> tuple[float | None, ...]:
    return () if rating is None else (rating, *ends)


def _share(own: Recomputed, name: str) -> tuple[float, ...]:
    share = own.win_shares[name]
    return () if share is None else (100 * share,)


def _place(own: Recomputed, name: str) -> tuple[int, ...]:
    """Return the rank by win share; equal ones have one."""
    share = own.win_shares[name]
    if share is None:
        return ()
    return (1 + sum((other or 0.0) > share + 1e-9 for other in own.win_shares.values()),)
