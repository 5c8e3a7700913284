"""Proves each sentence about entrants against the rows of the tables.

It reads sentences by patterns of its own and shares nothing with the code that writes them. A
sentence, or a clause of one, that no pattern fits is as wrong as a false one. Lists are complete
and in the order of the leaderboard, so a name left out or in the wrong place is found too.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

from tournament_assets.tournament.asset_rows import LeaderboardRow, WinRateRow
from tournament_assets.tournament.estimates import Estimate


class FalseSentenceError(AssertionError):
    """A sentence says what the rows do not bear out, or nobody can tell what it says."""


def require(condition: bool, why: str) -> None:
    """Refuse a claim that does not hold."""
    if not condition:
        raise FalseSentenceError(why)


NAME = r"[\w.-]+"
IT = rf"[Ii]t|{NAME}"
MANY = rf"(?:all \d+ others|{NAME}(?:, {NAME})* and (?:\d+ others|{NAME})|{NAME})"
SHARE = r"[\d.]+ %"
BRACKETS = r"(?: \(([^()]*)\))?"


@dataclass(frozen=True)
class Facts:
    """What the tables say of one dimension.

    Attributes:
        rows: Rows of table "leaderboard", best entrant first.
        met: Rows of table "win_rates" of the dimension.
        within: The largest difference that does not matter, in Elo points.
        confidence: Of all claims together.
        circles: The share of the variance that runs in circles, if it is measured.
    """

    rows: Sequence[LeaderboardRow]
    met: Sequence[WinRateRow]
    dimension: str
    within: float = 20.0
    confidence: float = 0.95
    circles: Estimate | None = None

    @cached_property
    def by_name(self) -> dict[str, LeaderboardRow]:
        """Every row by its entrant."""
        return {row.entrant_id: row for row in self.rows}

    @cached_property
    def names(self) -> list[str]:
        """Entrants with a rank, in order."""
        return [row.entrant_id for row in self.rows if row.rank is not None]

    @cached_property
    def pair_of(self) -> dict[frozenset[str], WinRateRow]:
        """Every row of two that met, by the two."""
        return {frozenset((row.entrant_a, row.entrant_b)): row for row in self.met}

    def pair(self, one: str, other: str) -> WinRateRow | None:
        """Return the row of two entrants; None if they never met."""
        return self.pair_of.get(frozenset((one, other)))

    def seen_from(self, one: str, other: str) -> tuple[float | None, float | None, float | None]:
        """Return the difference of the first's rating and its interval."""
        row = self.pair(one, other)
        if row is None:
            return None, None, None
        ends = row.difference, row.difference_low, row.difference_high
        if row.entrant_a == one:
            return ends
        value, high, low = (None if each is None else -each for each in ends)
        return value, low, high

    @cached_property
    def better(self) -> set[tuple[str, str]]:
        """Every two of whom the first is better, which both tables must say."""
        found = {(one, other) for one in self.names for other in self.by_name[one].shown_above}
        for row in self.met:
            pair = row.entrant_a, row.entrant_b
            require((pair in found) == (row.claim == "a_better"), f"the tables disagree on {pair}")
            turned = row.entrant_b, row.entrant_a
            require((turned in found) == (row.claim == "b_better"), f"tables disagree on {turned}")
        for one, other in found:
            low = self.seen_from(one, other)[1]
            require(low is None or low >= 0, f"the interval of {one} and {other} holds 0")
        return found

    def claim(self, one: str, other: str) -> str:
        """Return what is known of two, in either order."""
        if (one, other) in self.better or (other, one) in self.better:
            return "better"
        row = self.pair(one, other)
        low, high = self.seen_from(one, other)[1:]
        require(low is None or low <= 0, f"the interval of {one} and {other} excludes 0")
        require(high is None or high >= 0, f"the interval of {one} and {other} excludes 0")
        is_inside = low is not None and high is not None and max(-low, high) <= self.within
        if row is not None and row.claim == "equivalent":
            require(is_inside, f"the interval of {one} and {other} is wider than the margin")
            return "equivalent"
        return "undecided"

    def is_copy(self, one: str, other: str) -> bool:
        """Tell whether two wrote the same wherever they met."""
        row = self.pair(one, other)
        return row is not None and row.same_text > 0 and row.judged == row.unjudged == 0

    def copies(self, name: str) -> list[str]:
        """Return everyone who wrote the same."""
        return [other for other in self.by_name if other != name and self.is_copy(name, other)]

    @cached_property
    def not_below_the_first(self) -> set[str]:
        """Whoever wrote something else than the first and is not shown to be worse than it."""
        copies = self.copies(self.leader)
        rest = {*self.names} - {self.leader, *copies}
        return {other for other in rest if (self.leader, other) not in self.better}

    @cached_property
    def against_ratings(self) -> list[tuple[str, str]]:
        """Every two of whom the first is better and rated lower."""
        found = []
        for one, other in product(self.names, self.names):
            low, high = self.by_name[one].rating, self.by_name[other].rating
            if (one, other) in self.better and low is not None and high is not None and low < high:
                found.append((one, other))
        return found

    def listed(self, names: Iterable[str]) -> list[str]:
        """Return names in the order of the leaderboard."""
        known = set(names)
        return [name for name in self.by_name if name in known]

    def beaten_by_all(self, names: Sequence[str]) -> list[str]:
        """Return whom every one of some is better than."""
        return [
            other
            for other in self.names
            if other not in names and all((one, other) in self.better for one in names)
        ]

    @cached_property
    def unbeaten(self) -> list[str]:
        """Entrants with a rank whom nobody is better than."""
        losers = {loser for _, loser in self.better}
        return [name for name in self.names if name not in losers]

    @property
    def leader(self) -> str:
        """The first in the order."""
        require(len(self.names) > 1, "fewer than two have a rank")
        return self.names[0]

    @property
    def runner_up(self) -> str:
        """The next that wrote something else."""
        rest = [each for each in self.names[1:] if not self.is_copy(each, self.leader)]
        require(bool(rest), "everyone wrote the same")
        return rest[0]

    # What sentences say, clause by clause.

    def prove_names(self, text: str, expected: Sequence[str]) -> None:
        """Prove that a list names some entrants, all of them and in order."""
        require(bool(expected), f"{text!r} are none")
        if (found := re.fullmatch(r"all (\d+) others", text)) is not None:
            require(int(found[1]) == len(expected), f"{text!r} are {len(expected)}")
            rest = [name for name in self.names if name not in expected and name != self.leader]
            require(all(self.is_copy(each, self.leader) for each in rest), f"{rest} are left out")
        elif (found := re.fullmatch(rf"({NAME}) and (\d+) others", text)) is not None:
            said = found[1], int(found[2])
            require(said == (expected[0], len(expected) - 1), f"{text!r} are {expected}")
        else:
            require(names_in(text) == [*expected], f"{text!r} are {expected}")

    def prove_record(self, text: str, one: str, other: str) -> None:
        """Prove a win share with its counts, seen from the first of two."""
        row = self.pair(one, other)
        found = re.fullmatch(
            r"a (weighed )?win share of ([\d.]+ %) \(wins (\d+), loses (\d+), ties (\d+)"
            r"(?:, inconsistent (\d+))?(?:, same text (\d+))? of (\d+)\)",
            text,
        )
        require(found is not None and row is not None, f"no record is {text!r}")
        assert found is not None
        assert row is not None
        wins = (row.wins_a, row.wins_b) if row.entrant_a == one else (row.wins_b, row.wins_a)
        counts = (*wins, row.ties, row.inconsistent, row.same_text, row.judged + row.same_text)
        require(tuple(int(each or 0) for each in found.groups()[2:]) == counts, f"not {text!r}")
        share = self.win_share(one, row)
        require(found[2] == f"{share:.1%}".replace("%", " %"), f"no {found[2]}")
        plain = (wins[0] + sum(counts[2:5]) / 2) / counts[-1]
        require((found[1] is None) == math.isclose(share, plain, abs_tol=1e-7), f"{text!r}")

    def win_share(self, one: str, row: WinRateRow) -> float:
        """Return what the first of two won of their settled pairs."""
        require(row.win_rate_a is not None, "no pair is settled")
        assert row.win_rate_a is not None
        return row.win_rate_a if row.entrant_a == one else 1 - row.win_rate_a

    def prove_settled(self, text: str, one: str, other: str) -> None:
        """Prove a win share of settled pairs."""
        row = self.pair(one, other)
        found = re.fullmatch(r"(\d+) % of ([\d,]+) settled pairs?", text)
        require(found is not None and row is not None, f"no share is {text!r}")
        assert found is not None
        assert row is not None
        require(_whole(found[2]) == row.judged + row.same_text, f"{text!r} counts wrongly")
        require(found[1] == f"{100 * self.win_share(one, row):.0f}", f"{text!r} is another share")

    def prove_expected(self, text: str, one: str, other: str) -> None:
        """Prove the numbers of two of whom none is better: an expected share, or a settled one."""
        found = re.fullmatch(
            rf"({NAME})'s expected win share is (\d+) %(?:, (\d+)–(\d+) %)?"
            r"(?:; about ([\d,]+) more prompts would decide)?",
            text,
        )
        value, low, high = self.seen_from(one, other)
        if found is None:
            require(value is None, f"{text!r} hides the difference")
            return self.prove_settled(text, one, other)
        require(found[1] == one, f"{text!r} is of {one}")
        require(_is_share(found[2], value), f"{text!r} is another share")
        is_bounded = low is not None and high is not None
        require((found[3] is not None) == is_bounded, f"the interval is {low} to {high}")
        if is_bounded:
            is_same = _is_share(found[3], low) and _is_share(found[4], high)
            require(is_same, f"{text!r} has another interval")
        self.prove_more_prompts(found[5], one, other)
        return None

    def prove_more_prompts(self, said: str | None, one: str, other: str) -> None:
        """Prove how many more prompts would decide, or that no number is known."""
        row = self.pair(one, other)
        known = None if row is None or self.claim(one, other) != "undecided" else row.more_prompts
        require((None if said is None else _whole(said)) == known, f"{known} prompts, not {said}")

    def prove_best(self, best: str, beaten: str | None, brackets: str | None) -> None:
        """Prove that some are best, and whom they beat."""
        beats = {one: set(self.beaten_by_all([one])) for one in self.names}
        copies = self.copies(self.leader)
        equals = [one for one in self.names if one in copies and beats[one] >= beats[self.leader]]
        group = [self.leader, *equals]
        require(names_in(best) == group, f"{best!r} are {group}")
        require(set(self.unbeaten) <= {*group, *copies}, f"nobody is above {self.unbeaten}")
        require(not self.not_below_the_first, f"it is not above {self.not_below_the_first}")
        for one in group:
            require(one in self.unbeaten, f"somebody is better than {one}")
        below = self.beaten_by_all(group)
        if beaten is None:
            require(not below, f"{below} are not named")
            return require(brackets is None, f"{brackets!r} of whom?")
        self.prove_names(beaten, below)
        if brackets is not None:
            said, _, against = brackets.partition(" against ")
            require(against == (f"{below[0]}, the next" if len(below) > 1 else ""), against)
            require(below[0] == self.runner_up, f"{below[0]} is not the next")
            self.prove_settled(said, self.leader, below[0])
        return None

    def prove_circle(self, steps: str) -> None:
        """Prove that nobody is first, by a circle."""
        self.prove_steps(steps)
        require(not self.unbeaten, f"{self.unbeaten} may be first")

    def prove_steps(self, steps: str) -> None:
        """Prove that some beat one another in a circle, of those who may be first."""
        found = re.findall(rf"({NAME}) beats ({NAME})", steps)
        parts = [f"{one} beats {other}" for one, other in found]
        require(steps == _joined(parts) and len(found) > 2, f"no circle is {steps!r}")
        for (one, other), (following, _) in zip(found, [*found[1:], found[0]], strict=True):
            require(other == following, f"{steps!r} does not come back")
            require((one, other) in self.better, f"{one} does not beat {other}")
        require(len(dict(found)) == len(found), f"{steps!r} passes somebody twice")
        require(found[0][0] == self.listed(dict(found))[0], f"{steps!r} begins elsewhere")

    def prove_equivalent(self, names: str, brackets: str | None, tail: str) -> None:
        """Prove that all who may be first are equivalent."""
        self.prove_names(names, self.unbeaten)
        for pair in combinations(self.unbeaten, 2):
            require(self.claim(*pair) == "equivalent", f"{pair} are {self.claim(*pair)}")
        self.prove_tail(self.unbeaten, brackets, tail)

    def prove_undecided(self, names: str, brackets: str | None, tail: str) -> None:
        """Prove that it is undecided which of some is first."""
        may_be = self.unbeaten
        if (found := re.fullmatch(r"all (\d+) entrants", names)) is not None:
            require(len(may_be) == len(self.names) == int(found[1]), f"{names!r} are {may_be}")
        else:
            self.prove_names(names, may_be)
        require(len(may_be) > 1, f"{may_be} is first")
        claims = {self.claim(*pair) for pair in combinations(may_be, 2)}
        require(claims != {"equivalent"}, f"{may_be} are equivalent")
        self.prove_tail(may_be, brackets, tail)

    def prove_open(self, one: str | None, beaten: str | None) -> None:
        """Prove that only one may be first, but for its copies, and that it need not be."""
        require(bool(self.not_below_the_first), "the first is above all")
        rest = set(self.unbeaten) - {self.leader, *self.copies(self.leader)}
        require(not rest, f"{rest} may be first, too")
        below = self.beaten_by_all([self.leader])
        require((one, beaten is None) == (self.leader if below else None, not below), f"{below}")
        if beaten is not None:
            self.prove_names(beaten, below)

    def prove_tail(self, top: Sequence[str], brackets: str | None, tail: str) -> None:
        """Prove the numbers of those who may be first, and whom they beat."""
        row = self.pair(top[0], top[1]) if len(top) == 2 else None
        is_known = row is not None and (row.difference is not None or row.win_rate_a is not None)
        require((brackets is not None) == is_known, f"{brackets!r} are the numbers of {top}")
        if brackets is not None:
            self.prove_expected(brackets, top[0], top[1])
        below = self.beaten_by_all(top)
        also = [each for each in self.beaten_by_all(top[:1]) if each not in below]
        clauses = [each for each in tail.split("; ") if each]
        for clause in clauses:
            if (found := re.fullmatch(rf"({NAME}) is rated highest", clause)) is not None:
                self.prove_rated_highest(found[1])
            elif (found := re.fullmatch(rf"(both|all (\d+)) beat ({MANY})", clause)) is not None:
                require(int(found[2] or 2) == len(top), f"{clause!r}: they are {len(top)}")
                self.prove_names(found[3], below)
                below = []
            elif (found := re.fullmatch(rf"({NAME})( also)? beats ({MANY})", clause)) is not None:
                require(found[1] == top[0], f"{clause!r}: the first is {top[0]}")
                require((found[2] is not None) == (len(clauses) > 1 and " beat " in tail), clause)
                self.prove_names(found[3], also)
                also = []
            else:
                raise FalseSentenceError(f"nobody can read {clause!r}")
        require(not below, f"{below} are beaten by all and not named")
        is_level = all(self.claim(*pair) == "equivalent" for pair in combinations(top, 2))
        require(not also or is_level, f"{also} are beaten and not named")

    def prove_rated_highest(self, name: str) -> None:
        """Prove that nobody has a rating as high, nor one above all numbers."""
        require(name in self.by_name, f"nobody is called {name}")
        rating = self.by_name[name].rating
        require(rating is not None and self.by_name[name].rank == 1, f"{name} is not the highest")
        for row in self.rows:
            is_above = row.rating is not None and rating is not None and row.rating >= rating
            require(row.entrant_id == name or not is_above, f"{row.entrant_id} is rated higher")

    def prove_copies(self, names: str) -> None:
        """Prove that some wrote the same, and that nobody else did."""
        found = names_in(names)
        require(found == self.listed(found) and len(found) > 1, f"no group is {names!r}")
        for pair in combinations(found, 2):
            require(self.is_copy(*pair), f"{pair} did not write the same")
        others = [each for each in self.names if each not in found]
        more = [each for each in others if all(self.is_copy(each, name) for name in found)]
        require(not more, f"{more} wrote the same")

    def prove_unrated(self, names: str, verb: str, note: str) -> None:
        """Prove that some have no rating, and why."""
        members = [row for row in self.rows if row.note == note]
        require((verb == "has") == (len(members) == 1), f"{names!r} are {len(members)}")
        require(all(row.rating is None for row in members), f"some of {names!r} have a rating")
        self.prove_names(names, [row.entrant_id for row in members])

    # Only the verdict says these.

    def prove_highest(self, name: str, gap: str, below: str, record: str | None) -> None:
        """Prove the lead of the highest rating."""
        self.prove_rated_highest(name)
        self.prove_next(name, below, record)
        points = (self.by_name[name].rating or 0.0) - (self.by_name[below].rating or 0.0)
        number = f"{points:.0f}"
        said = f"{number} Elo point" + ("" if number == "1" else "s")
        require(gap == (said if points >= 1 else "less than 1 Elo point"), f"{points}, not {gap}")

    def prove_next(self, name: str, below: str, record: str | None) -> None:
        """Prove who is first and who is next."""
        require((name, below) == (self.leader, self.runner_up), f"{name} and {below} are not first")
        ranks = self.by_name[name].rank, self.by_name[below].rank
        require(ranks[0] == 1 and ranks[1] != 1, f"{name} and {below} have ranks {ranks}")
        row = self.pair(name, below)
        has_record = row is not None and row.win_rate_a is not None
        require((record is not None) == has_record, f"the record is {record!r}")
        if record is not None:
            self.prove_record(record, name, below)

    def prove_first_copies(
        self, names: str, below: str, name: str | None, record: str | None, against: str | None
    ) -> None:
        """Prove that copies share the first rank, and who is next."""
        first = [each for each in self.names if self.by_name[each].rank == 1]
        require(len(first) > 1, f"{first} is alone")
        self.prove_names(names, first)
        self.prove_next(first[0], below, record)
        require((name, against) in ((None, None), (first[0], below)), f"{name} and {against}")

    def judged(self, names: Sequence[str]) -> int:
        """Return how many pairs of some entrants the judge settled."""
        rows = [self.pair(*pair) for pair in combinations(names, 2)]
        return sum(row.judged for row in rows if row is not None)

    def prove_first_ranks(self, names: str) -> list[str]:
        """Prove who has the first rank: several, but for copies of the first."""
        first = [each for each in self.names if self.by_name[each].rank == 1]
        first = [each for each in first if not self.is_copy(each, self.leader)]
        self.prove_names(names, first)
        require(len(first) > 1, f"{first} is alone")
        return first

    def prove_alike(self, names: str) -> None:
        """Prove that some have the same rating by way of others alone."""
        first = self.prove_first_ranks(names)
        require(not self.judged(first), f"the judge settled {self.judged(first)} pairs")
        require(self.judged(self.names) > 0, "nothing was judged")

    def prove_shared(self, names: str, record: str | None) -> None:
        """Prove who shares the first rank, by pairs that the judge settled."""
        first = self.prove_first_ranks(names)
        require(self.judged(first) > 0, f"no pair of {first} was judged")
        row = self.pair(first[0], first[1]) if len(first) == 2 else None
        has_record = row is not None and row.win_rate_a is not None
        require((record is not None) == has_record, f"the record is {record!r}")
        if record is not None:
            found = re.fullmatch(rf"({NAME}) with (.*) against ({NAME})", record)
            require(found is not None and [found[1], found[3]] == first, f"no record: {record!r}")
            assert found is not None
            self.prove_record(found[2], first[0], first[1])

    def rivals(self, claim: str) -> list[str]:
        """Return all of whom something is claimed beside the first, without its copies."""
        return [
            name
            for name in self.names[1:]
            if not self.is_copy(name, self.leader) and self.claim(self.leader, name) == claim
        ]

    def prove_claimed(self, claim: str, it: str, names: str, basis: str | None) -> None:
        """Prove what is claimed of the first and some others, and by which intervals."""
        self.prove_it(it)
        self.prove_names(names, self.rivals(claim))
        if claim != "undecided":
            decided = "stop early" in (self.by_name[self.leader].judge or "")
            intervals = f"{self.confidence:.6g}"
            share = f"{100 * float(intervals):g} % intervals of all differences together"
            expected = "decided while judging, all pairs together" if decided else share
            require(basis == expected, f"the basis is {expected}, not {basis}")

    def prove_it(self, it: str) -> None:
        """Prove that the first is meant: by name where others share its rank."""
        shared = [row for row in self.rows if row.rank == self.by_name[self.leader].rank]
        require((it.lower() == "it") == (len(shared) == 1), f"{it!r} is one of {len(shared)}")
        require(it.lower() in ("it", self.leader), f"{it!r} is not {self.leader}")

    def prove_fragile(self, number: str, prompts: str, it: str, fewer: str) -> None:
        """Prove on which prompts the first place rests, and that no fewer do, if that is said."""
        first = self.by_name[self.leader]
        rests, least = first.lead_rests_on, first.lead_rests_on_at_least or 1
        require(it == self.leader, f"the first is {self.leader}")
        require(len(rests) == int(number), f"it rests on {len(rests)} prompts")
        said = prompts.removesuffix(", …")
        require((said != prompts) == (len(rests) > 3), f"{prompts!r} of {len(rests)}")
        require(said == ", ".join(rests[:3]), f"{prompts!r} are others")
        if fewer == "no fewer are enough":
            require(least == len(rests), f"{least} may be enough")
        elif fewer == "fewer may be enough":
            require(least == 1 < len(rests), f"it takes {least}")
        else:
            require(fewer == f"fewer than {least} are not enough", f"it takes {least}")
            require(1 < least < len(rests), f"it takes {least}")

    def prove_nothing_judged(self) -> None:
        """Prove that nothing can be said."""
        require(all(row.win_rate_a is None for row in self.met), "some pairs were judged")

    def prove_no_ranking(self) -> None:
        """Prove that fewer than two have a rank."""
        require(len(self.names) < 2, f"{self.names} have a rank")
        require(any(row.win_rate_a is not None for row in self.met), "nothing was judged")

    def prove_no_first(self) -> None:
        """Prove that all with a rank wrote the same as the first, and nothing is claimed."""
        rest = [each for each in self.names[1:] if not self.is_copy(each, self.leader)]
        require(not rest, f"{rest} wrote something else than {self.leader}")
        require(not self.better, f"somebody is better: {self.better}")

    def prove_one_text(self, said: str, verb: str) -> None:
        """Prove that nothing was judged, and how many pairs are of one text."""
        rows = [self.pair(*pair) for pair in combinations(self.names, 2)]
        n = sum(row.same_text for row in rows if row is not None)
        require(not self.judged(self.names), "some pairs were judged")
        require(_whole(said) == n > 0, f"{n} pairs are identical")
        require((verb == " is") == (n == 1), f"{n} {verb}")
        require(bool(self.runner_up), "everyone wrote the same")

    @property
    def has_circle(self) -> bool:
        """Whether claims go in a circle, so that nobody is first."""
        return bool(self.names) and not self.unbeaten

    def prove_against_ratings(self, said: str) -> None:
        """Prove which decisions stand against the ratings: all of them."""
        expected = _joined([f"{one} over {other}" for one, other in self.against_ratings])
        require(bool(expected) and said == expected, f"{said!r} are {expected}")

    def prove_circular(self, value: str, low: str | None, high: str | None) -> None:
        """Prove how much of the variance runs in circles, where claims go in one."""
        require(self.has_circle, "no claims go in a circle")
        found = self.circles
        require(found is not None and found.value is not None, "circles were not measured")
        assert found is not None
        ends = [f"{100 * (each or 0.0):.1f}" for each in (found.value, found.low, found.high)]
        is_bounded = found.low is not None and found.high is not None
        said = [value, *((low, high) if low is not None else ())]
        require(said == (ends if is_bounded else ends[:1]), f"circles are {ends}, not {said}")

    def prove_counts(self, text: str) -> None:
        """Prove how many pairs of entrants are decided, equivalent and undecided."""
        found = re.fullmatch(
            r"Of ([\d,]+) pairs? of entrants, (?:one is better in (\d+))?,? ?"
            r"(?:they are equivalent in (\d+))?,? ?(?:it is undecided in (\d+))?"
            r"\.( The 8 closest are listed; all are in pairwise_winrates\.csv\.)?",
            text,
        )
        if text == "Fewer than two entrants have a rank, so there is nothing to compare.":
            return require(len(self.names) < 2, f"{self.names} can be compared")
        require(found is not None, f"nobody can read {text!r}")
        assert found is not None
        claims = [self.claim(*pair) for pair in combinations(self.names, 2)]
        counts = [claims.count(each) for each in ("better", "equivalent", "undecided")]
        require(_whole(found[1]) == len(claims), f"there are {len(claims)} pairs")
        require([int(each or 0) for each in found.group(2, 3, 4)] == counts, f"not {counts}")
        is_cut = len(claims) - counts[0] > 8
        return require((found[5] is not None) == is_cut, f"{len(claims) - counts[0]} are open")


def names_in(text: str) -> list[str]:
    """Return the entrants of a list."""
    return re.split(r", | and ", text)


def _joined(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


def _is_share(per_cent: str, points: float | None) -> bool:
    """Tell whether a share is that expected of so many Elo points, rounded either way at a half."""
    odds = 10 ** ((points or 0.0) / 400)
    return points is not None and abs(100 * odds / (1 + odds) - int(per_cent)) <= 0.5 + 1e-6


def patterns(dimension: str) -> list[tuple[str, str, Callable[..., None]]]:
    """Return every sentence: its kind, its pattern and what proves its parts."""
    on, on_this = f"[Oo]n {re.escape(dimension)}", f"On {re.escape(dimension)},"
    record = r"a (?:weighed )?win share of [^()]*\([^()]*\)"
    return [
        ("circle", rf"{on_this} nobody is first: (.*? beats .*?)\.", Facts.prove_circle),
        (
            "undecided",
            rf"{on} it is undecided who is best(?:; ({NAME}) beats ({MANY}))?\.",
            Facts.prove_open,
        ),
        (
            "best",
            rf"({MANY}) (?:is|are) best {on}(?:: (?:it beats|they beat) ({MANY}))?{BRACKETS}\.",
            Facts.prove_best,
        ),
        (
            "equivalent",
            rf"({MANY}) are equivalent {on}{BRACKETS}((?:; [^;()]*?)*)\.",
            Facts.prove_equivalent,
        ),
        (
            "undecided",
            rf"{on} it is undecided between (all \d+ entrants|{MANY}){BRACKETS}"
            r"((?:; [^;()]*?)*)\.",
            Facts.prove_undecided,
        ),
        (
            "copies",
            rf"({MANY}) wrote the same answers, so no prompt can tell them apart\.",
            Facts.prove_copies,
        ),
        ("against", r"Decided against the ratings: ([^.]*)\.", Facts.prove_against_ratings),
        ("unrated", rf"({MANY}) (has|have) no rating: (.*?)\.", Facts.prove_unrated),
        (
            "highest",
            rf"{on_this} ({NAME}) has the highest rating, (.*?) above ({NAME})"
            rf"(?:, with ({record}) against it)?\.",
            Facts.prove_highest,
        ),
        (
            "first",
            rf"{on_this} ({NAME}) comes first and ({NAME}) next"
            rf"(?:, with ({record}) against it)?\.",
            lambda facts, one, other, said: facts.prove_next(one, other, said),
        ),
        (
            "first",
            rf"{on_this} ({MANY}) come first and ({NAME}) next"
            rf"(?:, ({NAME}) with ({record}) against ({NAME}))?\.",
            Facts.prove_first_copies,
        ),
        (
            "shared",
            rf"{on_this} ({MANY}) share the first rank(?:, ({NAME} with {record} against {NAME}))?"
            r"\.",
            Facts.prove_shared,
        ),
        (
            "alike",
            rf"{on_this} ({MANY}) are rated alike, and no pair of theirs was judged\.",
            Facts.prove_alike,
        ),
        (
            "circular",
            r"Circles are ([\d.]+) %(?: \(([\d.]+) to ([\d.]+) %\))? of the variance between the "
            r"entrants\.",
            Facts.prove_circular,
        ),
        (
            "better",
            rf"({IT}) is better than ({MANY}) \(([^()]*)\)\.",
            lambda facts, it, names, basis: facts.prove_claimed("better", it, names, basis),
        ),
        (
            "same",
            rf"({IT}) is equivalent to ({MANY}) \(([^()]*)\)\.",
            lambda facts, it, names, basis: facts.prove_claimed("equivalent", it, names, basis),
        ),
        (
            "open",
            rf"Undecided: whether ({IT}) is better than ({MANY})\.",
            lambda facts, it, names: facts.prove_claimed("undecided", it, names, None),
        ),
        (
            "prompts",
            rf"About ([\d,]+) more prompts would decide between ({IT}) and ({NAME})\.",
            _prove_prompts,
        ),
        (
            "one prompt",
            rf"The first place rests on one prompt: without ([^ ]*) ({NAME}) is not first alone\.",
            lambda facts, prompt, it: facts.prove_fragile("1", prompt, it, "no fewer are enough"),
        ),
        (
            "prompts without",
            rf"The first place rests on (\d+) prompts: without (.*?) ({NAME}) is not first alone; "
            r"(no fewer are enough|fewer than \d+ are not enough|fewer may be enough)\.",
            Facts.prove_fragile,
        ),
        (
            "nothing",
            rf"{on_this} nothing can be said: no pair has been judged\. See the audit for what is "
            r"missing, then run the tournament again\.",
            Facts.prove_nothing_judged,
        ),
        ("no ranking", rf"{on_this} no ranking is possible\.", Facts.prove_no_ranking),
        (
            "one text",
            rf"{on_this} nobody is first: no pair was judged; ([\d,]+) pairs? ha(s|ve) identical "
            r"responses\.",
            Facts.prove_one_text,
        ),
        (
            "no first",
            rf"{on_this} nobody is first: no prompt tells the entrants apart\.",
            Facts.prove_no_first,
        ),
    ]


def _prove_prompts(facts: Facts, number: str, it: str, below: str) -> None:
    facts.prove_it(it)
    require(below == facts.rivals("undecided")[0], f"{below} is not the next undecided one")
    facts.prove_more_prompts(number, facts.leader, below)


def prove(text: str, facts: Facts) -> list[str]:
    """Prove every sentence of an answer or a verdict, and that nothing is left out.

    Returns:
        The kinds of the sentences, in order.

    Raises:
        FalseSentenceError: If a sentence is false or cannot be read, or one is missing.
    """
    kinds: list[str] = []
    same: set[tuple[str, ...]] = set()
    rest = text
    known = patterns(facts.dimension)
    while rest:
        for kind, pattern, proves in known:
            found = re.match(rf"{pattern}(?:\s|$)", rest)
            if found is not None:
                require(found.end() == len(rest) or rest[found.end()] != " ", "two spaces")
                proves(facts, *found.groups())
                kinds.append(kind)
                if kind == "copies":
                    same |= set(combinations(names_in(found[1]), 2))
                rest = rest[found.end() :]
                break
        else:
            raise FalseSentenceError(f"nobody can read {rest!r}")
    _require_all(kinds, facts)
    copies = {pair for pair in combinations(facts.names, 2) if facts.is_copy(*pair)}
    require(copies <= same or "nothing" in kinds, f"{copies - same} wrote the same, unsaid")
    return kinds


VERDICTS = {"highest", "first", "shared", "alike"}
FIRST = {"circle", "best", "equivalent", "undecided", *VERDICTS}
NONE_FIRST = {"nothing", "no ranking", "no first", "one text"}


def _require_all(kinds: Sequence[str], facts: Facts) -> None:
    require(bool(kinds) and kinds[0] in FIRST | NONE_FIRST, f"{kinds} do not say who is first")
    require(not set(kinds[1:]) & (FIRST | NONE_FIRST), f"{kinds} say twice who is first")
    if "nothing" in kinds:
        return
    notes = {row.note for row in facts.rows if row.note}
    require(kinds.count("unrated") == len(notes), f"{notes} are not all said")
    says_so = kinds[0] not in NONE_FIRST and bool(facts.against_ratings)
    require(("against" in kinds) == says_so, f"{facts.against_ratings} are against the ratings")
    is_known = facts.circles is not None and kinds[0] not in NONE_FIRST and facts.has_circle
    require(("circular" in kinds) == is_known, "how much runs in circles?")
    if kinds[0] not in VERDICTS:
        return
    for kind, claim in (("better", "better"), ("same", "equivalent"), ("open", "undecided")):
        require((kind in kinds) == bool(facts.rivals(claim)), f"{claim}: {facts.rivals(claim)}")
    above = [one for one, other in facts.better if other == facts.leader]
    require(not above, f"{above} are better than the first")
    nearest = facts.pair(facts.leader, facts.rivals("undecided")[0]) if "open" in kinds else None
    has_number = nearest is not None and nearest.more_prompts is not None
    require(("prompts" in kinds) == has_number, "how many more prompts would decide?")
    rests = facts.by_name[facts.leader].lead_rests_on
    is_ahead = kinds[0] not in ("shared", "alike")
    says_so = "one prompt" in kinds or "prompts without" in kinds
    require(says_so == (is_ahead and bool(rests)), f"the lead rests on {rests}")


def prove_scope(text: str, n_dimensions: int, *, confidence: float = 0.95) -> None:
    """Prove the sentence on what the claims of several dimensions mean together."""
    found = re.fullmatch(
        r"Claims hold together at ([\d.]+) % within a dimension, not over all (\d+): something "
        r"false stands on such a page in up to (\d+) % of tournaments\.",
        text,
    )
    require((found is not None) == (n_dimensions > 1), f"nobody can read {text!r}")
    if found is not None:
        at_most = f"{min(100.0, 100 * n_dimensions * (1 - confidence)):.0f}"
        expected = (f"{100 * confidence:g}", str(n_dimensions), at_most)
        require(found.groups() == expected, f"{text!r} is not about {expected}")


def prove_counts(text: str, facts: Facts) -> None:
    """Prove the sentence that counts claims."""
    facts.prove_counts(text)
