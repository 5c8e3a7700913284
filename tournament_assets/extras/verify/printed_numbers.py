"""What the cells of a run's printed tables should say, by the names of their columns.

A column of another name is passed over, so a page may show more than can be computed here.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np

from tournament_assets.extras.verify.judge_counts import JudgeCounts
from tournament_assets.extras.verify.numbers import UNKNOWN, Number
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
_SEEDS = ("draw", "shuffle", "bootstrap")
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
        stored: Mapping[tuple[str, str], Mapping[str, Any]],
    ) -> None:
        """Take what was recomputed, by dimension; `elo` holds orderings by entrants.

        Args:
            stored: The leaderboard's rows by dimension and entrant, which are checked by
                themselves; they also have what follows from decisions while judging.
        """
        self.run, self.ratings, self.counts, self.elo = run, ratings, counts, elo
        self.stored = stored
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

    def shapes(self, page: Printed) -> Iterator[Number]:
        """Yield where the dots and bars of the ladder are, and that what only looks is alike."""
        for label, header in page.labels:
            yield f"label of {header}", label, header
        shapes = [each for each in page.shapes if each[0] is page.tables[0]]
        ticks = {
            (column, values["x"]): values[""] for *_, column, tag, values in shapes if tag == "text"
        }
        alike: dict[str, list[str]] = {}
        for table, row, column, tag, values in shapes:
            kind = values.get("class", tag)
            name, dimension = table.rows[row][0], table.headers[column]
            tick = values[""] if tag == "text" else ticks.get((column, values.get("x1", "")), "0")
            expected = self._position(kind, dimension, name, float(tick))
            # An arrow of an open end points to one of two sides.
            keys = () if kind in ("svg", "path") else (each for each in values if each)
            for key in (each for each in keys if re.search(r"\d", values[each])):
                at = f"{name}, {dimension}, {kind}, {key}"
                if key in expected:
                    yield at, values[key], (expected[key],)
                else:
                    alike.setdefault(f"{kind}, {key}", []).append(values[key])
        for at, those in alike.items():
            usual = max({*those}, key=those.count)
            yield from ((at, each, each if those.count(each) > 1 else usual) for each in those)

    def _position(self, kind: str, dimension: str, name: str, tick: float) -> Mapping[str, float]:
        """Return the places of a shape in per cent, by attribute."""
        low, high = self._ends

        def at(points: float | None, absent: float) -> float:
            if points is None or low == high:
                return absent if points is None else 50
            return 100 / 22 + (points - low) / (high - low) * 1000 / 11

        if kind in ("tick", "text"):
            return dict.fromkeys(("x", "x1", "x2"), at(tick, 0))
        if kind not in ("band", "circle", "interval") or name not in self.run.entrants:
            return {}
        if kind == "band":
            name = next(other for each, other in self.stored if each == dimension)
        bar = self.stored[dimension, name]
        if kind == "circle":
            return {"cx": at(bar["rating"], 0)}
        left, right = at(bar["bar_low"], 0), at(bar["bar_high"], 100)
        return {"x": left, "width": round(right, 2) - round(left, 2), "x1": left, "x2": right}

    @cached_property
    def _ends(self) -> tuple[float, float]:
        rows = [self.stored[each, name] for each in self.ratings for name in self.run.entrants]
        points = [row[key] for row in rows for key in ("rating", "bar_low", "bar_high")]
        known = [each for each in points if each is not None] or [0.0]
        return min(known), max(known)

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
            label = row[0]
            said = self._made_from.get(label, UNKNOWN)
            is_cost = label.startswith("judging ")
            return {"amount": self._spent(label.removeprefix("judging ")) if is_cost else said}
        if "measure" in cells:
            return self._measured(cells, dimension)
        if dimension not in self.ratings:
            if name not in names:
                return {}
            on = {each: self._on_ladder(each, name) for each in self.ratings}
            return {**on, **{f"Elo points, {each}": of[:1] for each, of in on.items()}}
        if headers[0] == "row beats column":
            return {each: self._won(dimension, row[0], each) for each in names if each != row[0]}
        if "moves" in cells:
            return {"Elo points": self.moved(dimension, cells["prompt"], cells["moves"])}
        if "pairs that flip" in cells:
            return self._flips(dimension, cells["stratum"])
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
        flips, judged = (
            sum(each.outcome == "inconsistent" for each in own),
            sum(each.is_judged for each in own),
        )
        is_one = self.judge[dimension].is_one
        return {
            "prompts": (len({each.prompt for each in own}),),
            "pairs that flip": (flips, judged, 100 * flips / judged if judged else None)
            if is_one
            else UNKNOWN,
        }

    def by_model(self, dimension: str) -> Mapping[str, Mapping[str, float]]:
        """Return everyone's rating by every model that gives it one."""
        own, elo = self.ratings[dimension], self.elo[dimension].mean(axis=0).tolist()
        return {
            "Elo": {
                k: v for k, v in zip(self.run.entrants, elo, strict=True) if k in own.elo_rated
            },
            "Bradley-Terry": {k: v for k, v in own.ratings.items() if v is not None},
            "Davidson": own.davidson[0],
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
        if "Bradley-Terry" in found:
            found["Bradley-Terry"] = own.ratings[name], own.ranks.get(name)
        return found | {"Bradley-Terry sandwich interval": own.sandwich.get(name, ())}

    @cached_property
    def versions(self) -> Mapping[str, str]:
        """Lines of the page that the manifest determines, by their beginnings."""
        manifest = self.run.manifest
        made, commit = manifest["versions"], manifest["versions"]["commit"]
        program = f"tournament-assets {made['program'] or 'of an unknown version'}"
        if commit is not None:
            changed = " with changes" if commit["has_changes"] else ""
            program += f" (commit {commit['hash'][:12]}{changed})"
        libraries = "".join(f", {name} {number}" for name, number in made["libraries"].items())
        return {
            "With tournament-assets": f"With {program}, {made['python']}{libraries}.",
            "To cite this result": f"To cite this result: tournament {manifest['tournament']}, "
            f"{manifest['mode']}, judged by {manifest['judge_model']}; {program}; configuration "
            f"{manifest['inputs']['config'][:12]}. The program itself is cited as its CITATION.cff "
            "says.",
        }

    @cached_property
    def _made_from(self) -> Mapping[str, str]:
        """Return what the page says of its inputs, which the manifest says too."""
        manifest = self.run.manifest
        inputs = manifest["inputs"]
        limits = {k: v for k, v in manifest["thresholds"].items() if v is not None}
        found = {
            "config": f"{manifest['config']} {inputs['config']}",
            "selected prompts": inputs["selected_prompts"],
            "thresholds": ", ".join(f"{k} {v}" for k, v in limits.items()),
            "price list": f"{inputs['price_list']['date']} {inputs['price_list']['hash']}",
            **{f"{each} seed": f"{manifest[f'{each}_seed']}" for each in _SEEDS},
        }
        found |= {
            f"rubric {k}": f"version {v['version']} {v['hash']}"
            for k, v in inputs["rubrics"].items()
        }
        for kind in ("responses", "judge_requests"):
            found |= {f"{kind.replace('_', ' ')} {k}": v for k, v in inputs[kind].items()}
        return found

    def _won(self, dimension: str, row: str, column: str) -> tuple[float | None, ...]:
        own = self.counts[dimension].get((row, column), {})
        share = own.get("share")
        return () if share is None else (100 * share, own["judged"], own["same_text"] or None)

    def _of_entrant(self, dimension: str, name: str) -> dict[str, Any]:
        own, orderings = self.ratings[dimension], self.elo[dimension]
        elo = orderings[:, self.run.entrants.index(name)]
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
        places = tuple(dict.fromkeys(self.places(dimension, name)))
        return found | {"rank": self.places(dimension, name, "rank"), "places and group": places}

    def places(self, dimension: str, name: str, *columns: str) -> tuple[int, ...]:
        """Return the range of an entrant's places, or its rank; none if it has none."""
        row = self.stored[dimension, name]
        found = (row[each] for each in columns or ("rank_best", "rank_worst"))
        return tuple(each for each in found if each is not None)

    def _on_ladder(self, dimension: str, name: str) -> tuple[float | None, ...]:
        """Return a rating with its interval; of many entrants its places follow."""
        own = self.ratings[dimension]
        has_places = len(self.run.entrants) > _MOST_LETTERED
        places = dict.fromkeys(self.places(dimension, name)) if has_places else ()
        return (*_rated(own, name), *places)

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
        counts = [each for (one, _), each in self.counts[dimension].items() if one == name]
        judged, same = (sum(each[key] for each in counts) for key in ("judged", "same_text"))
        is_whole = len(self.run.responses[name]) == (self.of_run["answers"])
        answered = len(self.run.responses[name])
        cut = sum(of == name for *_, of in self.cut_off)
        n_others = len(self.run.entrants) - 1
        planned = self.run.manifest["prompts_planned"][dimension] * n_others
        planned = len(own) if self.run.stops_early else planned
        points, clean = (
            [
                each.share if each.a == name else 1 - each.share
                for each in of
                if each.share is not None
            ]
            for of in (own, [each for each in own if self._is_clean(each)])
        )
        return {
            **dict.fromkeys(("pairs planned", "planned"), (planned,)),
            "answered": (answered, answered) if is_whole else UNKNOWN,
            "cut off": (cut,) if is_whole else UNKNOWN,
            "asked": (sum(each.outcome != "same_text" for each in own),),
            "judged": (judged,),
            "same text": (same,),
            "coverage": (100 * (judged + same) / planned if planned else None,),
            "clean": (len(clean),),
            "mean": (100 * sum(points) / len(points) if points else None,),
            "clean mean": (100 * sum(clean) / len(clean) if clean else None,),
            **dict.fromkeys(
                ("normalised", *(() if self.run.stops_early else ("planned: win share",))),
                (100 * sum(points) / planned if planned else None,),
            ),
            "pairs judged of planned": UNKNOWN
            if self.run.stops_early
            else (judged + same, planned),
        }

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
        is_better = gap.claim == "a_better"
        return found | {
            "claim": "better" if is_better else gap.claim,
            "shown to be better": "yes" if is_better else "no",
            "difference (interval)": () if gap.value is None else (gap.value, gap.low, gap.high),
            "gap": (gap.value,),
            "interval of the difference": (gap.low, gap.high),
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
        judged = sum(each.is_judged for each in pairs)

        def part(*outcomes: str, of: int) -> tuple[float | None, ...]:
            n = sum(each.outcome in outcomes for each in pairs)
            return n, of, 100 * n / of if of else None

        row, ratings = self.stored[dimension, first], self.ratings[dimension].ratings
        others = {*self.run.entrants} - {first, *row["same_answers_as"]}
        rated = [rating for name in others if (rating := ratings[name]) is not None]
        own = ratings[first]
        return {
            "entrants it is better than": (len(row["shown_above"]), len(others)),
            "gap to the next, Elo points": () if own is None or not rated else (own - max(rated),),
            "decisive pairs of those judged": part("a_wins", "b_wins", of=judged),
            "inconsistent": part("inconsistent", of=judged),
            "same text of all": part("same_text", of=len(pairs)),
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


def _around_half(reach: float) -> tuple[float, float]:
    return 50 - 100 * reach, 50 + 100 * reach


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
