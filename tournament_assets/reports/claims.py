"""Who is best, who is equivalent and what is undecided, in words that the tables bear out.

Every sentence about entrants rests on a claim of two of them in table "win_rates", or on the places
that follow from all claims together; see `ratings.standings`. *Better*, *beats* and *best* are said
where the joint interval of the difference excludes 0, *equivalent* where it lies within the margin
that does not matter, and *undecided* of everything else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from tournament_assets.ratings.standings import Claim
from tournament_assets.tournament.asset_rows import LeaderboardRow, WinRateRow
from tournament_assets.tournament.estimates import Estimate
from tournament_assets.tournament.formatting import (
    format_confidence,
    format_gap,
    format_interval,
    format_plural,
    format_share,
    join_names,
)

STOPS_EARLY = "pairs stop early"
"""The leaderboard's note on a judge that is not asked about every pair."""

_MOST_NAMES = 4
"""Most entrants that a short sentence names."""


PairWord = Literal["better", "worse", "equivalent", "undecided"]
"""What is claimed of the first of two."""


@dataclass(frozen=True, slots=True)
class PairRecord:
    """How one entrant fared against another.

    Attributes:
        wins: Judged pairs that it won.
        losses: Judged pairs that the other won.
        ties: Judged pairs that both presentations called a tie.
        inconsistent: Judged pairs whose two presentations disagree.
        same_text: Pairs whose two responses are the same text; the judge was not asked.
        unjudged: Pairs without two readable replies.
        share: Its share of the settled pairs, ties as halves; None where none was settled.
    """

    wins: int = 0
    losses: int = 0
    ties: int = 0
    inconsistent: int = 0
    same_text: int = 0
    unjudged: int = 0
    share: float | None = None

    @property
    def settled(self) -> int:
        """All pairs but the unjudged."""
        return self.wins + self.losses + self.ties + self.inconsistent + self.same_text

    @property
    def is_all_same_text(self) -> bool:
        """Whether all their responses are the same, so that nothing can tell the two apart."""
        return self.same_text > 0 and self.same_text == self.settled + self.unjudged

    @property
    def sentence(self) -> str:
        """The win share with its counts; ties count half."""
        rest = {"inconsistent": self.inconsistent, "same text": self.same_text}
        named = "".join(f", {name} {count}" for name, count in rest.items() if count)
        return (
            f"a win share of {format_share(self.share)} "
            f"(wins {self.wins}, loses {self.losses}, ties {self.ties}{named} of {self.settled})"
        )


@dataclass(frozen=True, slots=True)
class PairStatement:
    """What is known of two entrants, the upper one first.

    Attributes:
        claim: Whether the upper one is better, the two are equivalent, or it is undecided; worse
            only where decisions go in a circle.
        difference: The upper one's rating less the lower one's, with its joint interval.
        more_prompts: About how many more prompts would decide; None where none is known to.
        record: How the upper one fared.
    """

    upper: str
    lower: str
    claim: PairWord
    difference: Estimate
    more_prompts: int | None
    record: PairRecord

    @property
    def is_decided(self) -> bool:
        """Whether one of the two is better."""
        return self.claim in ("better", "worse")

    @property
    def expected(self) -> Estimate:
        """The upper one's expected share of the wins: its Elo difference as a probability."""
        value, low, high = (
            None if each is None else expected_share(each)
            for each in (self.difference.value, self.difference.low, self.difference.high)
        )
        return Estimate(value, low, high, self.difference.n)

    @property
    def in_brackets(self) -> str:
        """The numbers of the claim, in brackets; nothing where the two never met."""
        if not self.is_decided and self.expected.value is not None:
            found = self.expected
            said = f"{self.upper}'s expected win share is {format_share(found.value, decimals=0)}"
            if found.low is not None and found.high is not None:
                ends = (format_share(end, decimals=0) for end in (found.low, found.high))
                said += f", {'–'.join(ends).replace(' %–', '–')}"
            if self.more_prompts is not None:
                said += f"; about {self.more_prompts:,} more prompts would decide"
            return f" ({said})"
        if self.record.share is None:
            return ""
        share = format_share(self.record.share, decimals=0)
        return f" ({share} of {format_plural(self.record.settled, 'settled pair')})"


def expected_share(points: float) -> float:
    """Return the share of wins expected of an entrant that is so many Elo points above another."""
    return float(1 / (1 + 10 ** (-points / 400)))


def pair_records(win_rates: Sequence[WinRateRow]) -> dict[tuple[str, str], PairRecord]:
    """Return how each entrant fared against each other one.

    Args:
        win_rates: Rows of table "win_rates" of one dimension.
    """
    records = {}
    for row in win_rates:
        a, b, share = row.entrant_a, row.entrant_b, row.win_rate_a
        rest = (row.ties, row.inconsistent, row.same_text, row.unjudged)
        records[a, b] = PairRecord(row.wins_a, row.wins_b, *rest, share)
        records[b, a] = PairRecord(
            row.wins_b, row.wins_a, *rest, None if share is None else 1 - share
        )
    return records


def judges_of(rows: Iterable[LeaderboardRow]) -> str:
    """Return the kinds of judges behind a leaderboard."""
    return "; ".join(sorted({row.judge for row in rows if row.judge is not None}))


@dataclass(frozen=True, slots=True)
class Statements:
    """All that is known of a dimension's entrants.

    Attributes:
        dimension: The quality that was judged.
        placed: Entrants with a rank, best first.
        pairs: Every two of the placed ones, the upper one first.
    """

    dimension: str
    placed: tuple[LeaderboardRow, ...]
    pairs: Mapping[tuple[str, str], PairStatement]

    @classmethod
    def of(
        cls, rows: Sequence[LeaderboardRow], win_rates: Sequence[WinRateRow], *, dimension: str
    ) -> "Statements":
        """Return the statements that the tables make.

        Args:
            rows: Rows of table "leaderboard" of one dimension, best entrant first.
            win_rates: Rows of table "win_rates"; those of other dimensions are ignored.
        """
        own = [row for row in win_rates if row.dimension == dimension]
        met = {frozenset((row.entrant_a, row.entrant_b)): row for row in own}
        records = pair_records(own)
        placed = tuple(row for row in rows if row.rank is not None)
        return cls(
            dimension,
            placed,
            {
                (upper.entrant_id, lower.entrant_id): _pair(
                    upper,
                    lower,
                    met.get(frozenset((upper.entrant_id, lower.entrant_id))),
                    records.get((upper.entrant_id, lower.entrant_id), PairRecord()),
                )
                for upper, lower in combinations(placed, 2)
            },
        )

    @property
    def leader(self) -> LeaderboardRow | None:
        """The first in the order; None if fewer than two have a place."""
        return self.placed[0] if len(self.placed) > 1 else None

    @property
    def runner_up(self) -> LeaderboardRow | None:
        """The next that wrote other answers than the leader."""
        if self.leader is None:
            return None
        return next(
            (row for row in self.placed[1:] if row.entrant_id not in self.leader.same_answers_as),
            None,
        )

    @property
    def top(self) -> tuple[LeaderboardRow, ...]:
        """Those that may be first: nobody is shown to be above them, but for a circle."""
        return tuple(row for row in self.placed if row.rank_best == 1)

    @property
    def nobody_is_first(self) -> bool:
        """Whether for everyone somebody is better, so that claims go in a circle."""
        beaten = {name for row in self.placed for name in row.shown_above}
        return all(row.entrant_id in beaten for row in self.placed)

    @property
    def circle(self) -> tuple[str, ...]:
        """Entrants of the top of whom one is better than the next, and the last than the first."""
        above = {
            lower: row.entrant_id for row in reversed(self.placed) for lower in row.shown_above
        }
        name = next((row.entrant_id for row in self.top if row.entrant_id in above), None)
        path: list[str] = []
        while name is not None and name not in path:
            path.append(name)
            name = above[name]
        if name is None:
            return ()
        members = path[path.index(name) :][::-1]
        first = members.index(self.in_order(members)[0])
        return tuple(members[first:] + members[:first])

    @property
    def best(self) -> tuple[str, ...]:
        """The first, and who wrote the same and beats the same, if that is above all others."""
        leader = self.leader
        if leader is None or not self._is_above_all(leader):
            return ()
        alike = (row for row in self.placed if row.entrant_id in leader.same_answers_as)
        equals = (row for row in alike if {*leader.shown_above} <= {*row.shown_above})
        return (leader.entrant_id, *(row.entrant_id for row in equals))

    def _is_above_all(self, entrant: LeaderboardRow) -> bool:
        """Whether claims lead from an entrant to all that wrote something else."""
        below = {row.entrant_id: row.shown_above for row in self.placed}
        reached: set[str] = set()
        waiting = [entrant.entrant_id]
        while waiting:
            found = {*below[waiting.pop()]} - reached
            reached |= found
            waiting += found
        return {*below} <= reached | {entrant.entrant_id, *entrant.same_answers_as}

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Return some entrants best first."""
        known = {*names}
        return [row.entrant_id for row in self.placed if row.entrant_id in known]

    def is_rated_highest(self, entrant: LeaderboardRow) -> bool:
        """Whether nobody else has so high a rating, or stands above all that are rated."""
        return (
            entrant.rating is not None
            and entrant.rank == 1
            and all(
                row.rating is None or row.rating < entrant.rating
                for row in self.placed
                if row.entrant_id != entrant.entrant_id
            )
        )

    def beaten_by(self, names: Sequence[str]) -> list[str]:
        """Return those that every one of some is better than, best first."""
        above = [set(row.shown_above) for row in self.placed if row.entrant_id in names]
        return [
            row.entrant_id
            for row in self.placed
            if row.entrant_id not in names and all(row.entrant_id in each for each in above)
        ]


def _pair(
    upper: LeaderboardRow, lower: LeaderboardRow, row: WinRateRow | None, record: PairRecord
) -> PairStatement:
    claim: PairWord = "undecided"
    if lower.entrant_id in upper.shown_above:
        claim = "better"
    elif upper.entrant_id in lower.shown_above:
        claim = "worse"
    if row is None:
        return PairStatement(upper.entrant_id, lower.entrant_id, claim, Estimate(), None, record)
    if row.claim == Claim.EQUIVALENT:
        claim = "equivalent"
    ends = row.difference, row.difference_low, row.difference_high
    if row.entrant_a != upper.entrant_id:
        value, high, low = (None if each is None else -each for each in ends)
    else:
        value, low, high = ends
    return PairStatement(
        upper.entrant_id,
        lower.entrant_id,
        claim,
        Estimate(value, low, high, record.settled),
        row.more_prompts,
        record,
    )


def answer_sentence(
    rows: Sequence[LeaderboardRow], win_rates: Sequence[WinRateRow], *, dimension: str
) -> str:
    """Describe who is best on a dimension in one short sentence; see also `verdict_sentence`.

    Args:
        rows: Rows of table "leaderboard" of one dimension, best entrant first.
        win_rates: Rows of table "win_rates" of the same dimension.
    """
    found = Statements.of(rows, win_rates, dimension=dimension)
    if found.leader is None or found.runner_up is None:
        return verdict_sentence(rows, win_rates, dimension=dimension)
    said = _about_the_circle(found) if found.nobody_is_first else _about_the_top(found)
    return " ".join([f"{said}.", *_copies(found.placed), *_without_rating(rows)])


def _about_the_circle(found: Statements) -> str:
    return f"On {found.dimension}, nobody is first: {_steps(found.circle)}"


def _steps(circle: Sequence[str]) -> str:
    following = (*circle[1:], *circle[:1])
    return join_names(
        [f"{one} beats {other}" for one, other in zip(circle, following, strict=True)]
    )


def _about_the_top(found: Statements) -> str:
    leader = found.placed[0]
    top = [row.entrant_id for row in found.top]
    if found.best:
        return _about_the_best(found, leader)
    if {*top} <= {leader.entrant_id, *leader.same_answers_as}:
        return f"On {found.dimension} it is undecided who is best"
    below = found.beaten_by(top)
    both = "both" if len(top) == 2 else f"all {len(top)}"
    tail = f"; {both} beat {name_some(below)}" if below else ""
    pairs = [found.pairs[pair] for pair in combinations(top, 2)]
    if all(pair.claim == "equivalent" for pair in pairs):
        return f"{name_some(top)} are equivalent on {found.dimension}{_numbers_of(pairs)}{tail}"
    also = [name for name in found.in_order(leader.shown_above) if name not in below]
    if also:
        tail += f"; {leader.entrant_id}{' also' if below else ''} beats {name_some(also)}"
    is_everyone = len(top) == len(found.placed) > _MOST_NAMES
    between = f"all {len(top)} entrants" if is_everyone else name_some(top)
    said = f"On {found.dimension} it is undecided between {between}{_numbers_of(pairs)}"
    if len(top) > 2 and found.is_rated_highest(leader):
        said += f"; {leader.entrant_id} is rated highest"
    if found.circle:
        tail += f"; in a circle, {_steps(found.circle)}"
    return f"{said}{tail}"


def _about_the_best(found: Statements, leader: LeaderboardRow) -> str:
    beaten, is_one = found.in_order(leader.shown_above), len(found.best) == 1
    of = "all " if len(beaten) + len(leader.same_answers_as) + 1 == len(found.placed) else ""
    said = f"{join_names(found.best)} {'is' if is_one else 'are'} best on {found.dimension}"
    if beaten:
        said += f": {'it beats' if is_one else 'they beat'} {name_some(beaten, of=of)}"
    next_one = found.runner_up
    if next_one is not None and next_one.entrant_id == next(iter(beaten), None):
        brackets = found.pairs[leader.entrant_id, next_one.entrant_id].in_brackets
        if len(beaten) > 1 and brackets:
            brackets = f"{brackets[:-1]} against {next_one.entrant_id}, the next)"
        said += brackets
    return said


def _numbers_of(pairs: Sequence[PairStatement]) -> str:
    return pairs[0].in_brackets if len(pairs) == 1 else ""


def name_some(names: Sequence[str], *, of: str = "") -> str:
    """Return a few names, or the first and the number of the others."""
    if len(names) <= _MOST_NAMES:
        return join_names(names)
    return f"{of}{len(names)} others" if of else f"{names[0]} and {len(names) - 1} others"


def _without_rating(rows: Sequence[LeaderboardRow]) -> list[str]:
    names_of: dict[str, list[str]] = {}
    for row in rows:
        if row.note:
            names_of.setdefault(row.note, []).append(row.entrant_id)
    return [
        f"{name_some(names)} {'has' if len(names) == 1 else 'have'} no rating: {note}."
        for note, names in names_of.items()
    ]


def _copies(rows: Sequence[LeaderboardRow]) -> list[str]:
    same = {row.entrant_id: row.same_answers_as for row in rows}
    groups: list[tuple[str, ...]] = []
    for pair in combinations(same, 2):
        if pair[1] not in same[pair[0]] or any({*pair} <= {*group} for group in groups):
            continue
        group: tuple[str, ...] = pair
        for name in same:
            if name not in group and all(name in same[member] for member in group):
                group = (*group, name)
        groups.append(tuple(name for name in same if name in group))
    return [
        f"{join_names(group)} wrote the same answers, so no prompt can tell them apart."
        for group in groups
    ]


def verdict_sentence(
    rows: Sequence[LeaderboardRow],
    win_rates: Sequence[WinRateRow] = (),
    *,
    dimension: str,
    confidence: float = 0.95,
) -> str:
    """Describe in plain words who is first on a dimension and what is not decided.

    Args:
        rows: Rows of table "leaderboard" of one dimension, best entrant first.
        win_rates: Rows of table "win_rates", which may be of other dimensions too.
        confidence: With which all claims of the dimension hold together.
    """
    found = Statements.of(rows, win_rates, dimension=dimension)
    if found.leader is None:
        return _nothing_to_say(rows, dimension=dimension)
    rest = [*_copies(rows), *_without_rating(rows)]
    if found.runner_up is None:
        return " ".join(
            [f"On {dimension}, nobody is first: no prompt tells the entrants apart.", *rest]
        )
    if found.nobody_is_first:
        return " ".join([f"{_about_the_circle(found)}.", *rest])
    sentences = [
        _first(found, found.leader, found.runner_up),
        *_by_claim(found, found.leader, confidence=confidence),
        *_fragile_lead(found.leader, found.runner_up),
    ]
    return " ".join([*sentences, *rest])


def _first(found: Statements, leader: LeaderboardRow, next_one: LeaderboardRow) -> str:
    pair = found.pairs[leader.entrant_id, next_one.entrant_id]
    against = f", with {pair.record.sentence} against" if pair.record.settled else ""
    where = f"On {found.dimension}, {leader.entrant_id}"
    if leader.rank == next_one.rank:
        equals = [
            row.entrant_id
            for row in found.placed
            if row.rank == leader.rank and row.entrant_id not in leader.same_answers_as
        ]
        shown = against.replace(",", f", {leader.entrant_id}", 1) if len(equals) == 2 else ""
        shown += f" {next_one.entrant_id}" if shown else ""
        return f"On {found.dimension}, {join_names(equals)} share the first rank{shown}."
    against += " it" if against else ""
    if not found.is_rated_highest(leader) or pair.difference.value is None:
        return f"{where} comes first and {next_one.entrant_id} next{against}."
    gap = f"{format_gap(pair.difference.value)} above {next_one.entrant_id}"
    return f"{where} has the highest rating, {gap}{against}."


def _by_claim(found: Statements, leader: LeaderboardRow, *, confidence: float) -> list[str]:
    """Return what is claimed of the leader and everyone else, a sentence for each claim."""
    basis = f"({format_confidence(confidence)} intervals of all differences together)"
    if STOPS_EARLY in (leader.judge or ""):
        basis = "(decided while judging, all pairs together)"
    names: dict[str, list[str]] = {}
    for (upper, lower), pair in found.pairs.items():
        if upper == leader.entrant_id and lower not in leader.same_answers_as:
            names.setdefault(pair.claim, []).append(lower)
    is_alone = sum(row.rank == leader.rank for row in found.placed) == 1
    it, its_name = ("it", "It") if is_alone else (leader.entrant_id,) * 2
    sentences = []
    if better := names.get("better"):
        sentences.append(f"{its_name} is better than {join_names(better)} {basis}.")
    if worse := names.get("worse"):
        verb = "beats" if len(worse) == 1 else "beat"
        sentences.append(f"{join_names(worse)} {verb} {it} {basis}.")
    if equivalent := names.get("equivalent"):
        sentences.append(f"{its_name} is equivalent to {join_names(equivalent)} {basis}.")
    if undecided := names.get("undecided"):
        sentences.append(f"Undecided: whether {it} is better than {join_names(undecided)}.")
        pair = found.pairs[leader.entrant_id, undecided[0]]
        if pair.more_prompts is not None:
            sentences.append(
                f"About {pair.more_prompts:,} more prompts would decide between {it} and "
                f"{undecided[0]}."
            )
    return sentences


_MOST_PROMPTS = 3
"""Most prompts that a sentence names."""


def _fragile_lead(leader: LeaderboardRow, runner_up: LeaderboardRow) -> list[str]:
    prompts = leader.lead_rests_on
    if not prompts or leader.rank == runner_up.rank:
        return []
    if len(prompts) == 1:
        return [
            f"The first place rests on one prompt: without {prompts[0]} {leader.entrant_id} is not "
            "first alone."
        ]
    named = ", ".join(prompts[:_MOST_PROMPTS])
    more = ", …" if len(prompts) > _MOST_PROMPTS else ""
    least = leader.lead_rests_on_at_least or 1
    fewer = (
        "no fewer are enough"
        if least == len(prompts)
        else f"fewer than {least} are not enough"
        if least > 1
        else "fewer may be enough"
    )
    return [
        f"The first place rests on {len(prompts)} prompts: without {named}{more} "
        f"{leader.entrant_id} is not first alone; {fewer}."
    ]


def _nothing_to_say(rows: Sequence[LeaderboardRow], *, dimension: str) -> str:
    if not any(row.n for row in rows):
        return (
            f"On {dimension}, nothing can be said: no pair has been judged. "
            "See the audit for what is missing, then run the tournament again."
        )
    notes = " ".join(_without_rating(rows))
    return f"On {dimension}, no ranking is possible. {notes}".rstrip()


MOST_PAIRS = 12
"""Most pairs that are listed, closest first."""


def open_pairs(found: Statements) -> list[PairStatement]:
    """Return the pairs of entrants of which neither is better, closest first."""
    pairs = [pair for pair in found.pairs.values() if not pair.is_decided]
    return sorted(
        pairs,
        key=lambda pair: (
            pair.difference.value is None,
            abs(pair.difference.value or 0.0),
            pair.upper,
            pair.lower,
        ),
    )


def pairs_sentence(found: Statements) -> str:
    """Describe how many pairs of entrants are decided, equivalent and undecided."""
    if not found.pairs:
        return "Fewer than two entrants have a rank, so there is nothing to compare."
    claims = [pair.claim for pair in found.pairs.values()]
    n_open = len(open_pairs(found))
    counts = {
        "one is better": len(claims) - n_open,
        "they are equivalent": claims.count("equivalent"),
        "it is undecided": claims.count("undecided"),
    }
    said = ", ".join(f"{words} in {n}" for words, n in counts.items() if n)
    more = f" The {MOST_PAIRS} closest are listed." if n_open > MOST_PAIRS else ""
    return f"Of {format_plural(len(found.pairs), 'pair')} of entrants, {said}.{more}"


def format_difference(pair: PairStatement) -> str:
    """Return a difference in Elo points with its joint interval."""
    if pair.difference.value is None:
        return "open"
    ends = format_interval(pair.difference.low, pair.difference.high, absent="unbounded")
    return f"{pair.difference.value:+.1f} ({ends})"
