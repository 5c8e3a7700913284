"""Who leads, by how much, and which entrants the judgments do not separate, in words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tournament_assets.tournament.asset_rows import EloRow, WinRateRow
from tournament_assets.tournament.formatting import (
    format_confidence,
    format_gap,
    format_share,
    join_names,
)

STOPS_EARLY = "pairs stop early"
"""The leaderboard's note on a judge that is not asked about every pair."""


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
    """

    wins: int
    losses: int
    ties: int
    inconsistent: int
    same_text: int
    unjudged: int

    @property
    def settled(self) -> int:
        """All pairs but the unjudged."""
        return self.wins + self.losses + self.ties + self.inconsistent + self.same_text

    @property
    def is_all_same_text(self) -> bool:
        """Whether all their responses are the same, so that nothing can separate the two."""
        return self.same_text > 0 and self.same_text == self.settled + self.unjudged

    @property
    def sentence(self) -> str:
        """The win share with its counts; ties count half."""
        share = (self.wins + (self.settled - self.wins - self.losses) / 2) / self.settled
        rest = {"inconsistent": self.inconsistent, "same text": self.same_text}
        named = "".join(f", {name} {count}" for name, count in rest.items() if count)
        return (
            f"a win share of {format_share(share)} "
            f"(wins {self.wins}, loses {self.losses}, ties {self.ties}{named} of {self.settled})"
        )


_NEVER_MET = PairRecord(0, 0, 0, 0, 0, 0)


def pair_records(win_rates: Sequence[WinRateRow]) -> dict[tuple[str, str], PairRecord]:
    """Return how each entrant fared against each other one.

    Args:
        win_rates: Rows of table "win_rates" of one dimension.
    """
    records = {}
    for row in win_rates:
        a, b = row.entrant_a, row.entrant_b
        rest = (row.ties, row.inconsistent, row.same_text, row.unjudged)
        records[a, b] = PairRecord(row.wins_a, row.wins_b, *rest)
        records[b, a] = PairRecord(row.wins_b, row.wins_a, *rest)
    return records


@dataclass(frozen=True, slots=True)
class Separation:
    """Which entrants the judgments separate from the leader.

    An entrant is separated when the simultaneous interval of its difference to the leader lies
    wholly on one side of 0; see `ratings.significance`. Otherwise these judgments do not decide
    between the two.

    Attributes:
        leader: The entrant in the first place, or None if fewer than two have a place.
        same_answers: Entrants that wrote the same answers as the leader to every prompt.
        runner_up: The next entrant; None if there is none.
        lead: Elo points between their means; None where one of them has no rating.
        separated: Entrants shown to be below the leader, best first.
        not_separated: The other rated entrants, best first, without the leader's copies.
        no_upper_bound: Those among them whose interval is open above.
        leader_is_unbounded: Whether the leader's own interval is open below.
        unrated: Entrants without a place.
    """

    leader: str | None
    same_answers: tuple[str, ...]
    runner_up: str | None
    lead: float | None
    separated: tuple[str, ...]
    not_separated: tuple[str, ...]
    no_upper_bound: tuple[str, ...]
    leader_is_unbounded: bool
    unrated: tuple[str, ...]


def is_rated(row: EloRow) -> bool:
    """Whether an entrant is rated; old tables also have numbers for entrants that never played."""
    return rated_mean(row) is not None


def rated_mean(row: EloRow) -> float | None:
    """Return the mean rating of a row that is rated (`is_rated`), in Elo points."""
    return row.mean if row.n_entrant_matches else None


def judges_of(rows: Iterable[EloRow]) -> str:
    """Return the kinds of judges behind a leaderboard."""
    return "; ".join(sorted({row.judge for row in rows if row.judge is not None}))


def _gap(upper: EloRow, lower: EloRow) -> float | None:
    high, low = rated_mean(upper), rated_mean(lower)
    return None if high is None or low is None else high - low


def separation(rows: Sequence[EloRow]) -> Separation:
    """Find which entrants are separated from the leader.

    Args:
        rows: Rows of table "leaderboard" of one dimension, best entrant first.
    """
    placed = [row for row in rows if row.n_entrant_matches and row.rank is not None]
    rated = sorted(placed, key=lambda row: (row.rank is None, row.rank))
    unrated = tuple(row.entrant_id for row in rows if row not in placed)
    if len(rated) < 2:
        return Separation(None, (), None, 0.0, (), (), (), False, unrated)
    leader = rated[0]
    copies = [row for row in rated[1:] if row.entrant_id in leader.same_answers_as]
    others = [row for row in rated[1:] if row not in copies]
    both = [leader, *others[:1]]
    below = [row.entrant_id in leader.shown_above for row in others]
    return Separation(
        leader=leader.entrant_id,
        same_answers=tuple(row.entrant_id for row in copies),
        runner_up=others[0].entrant_id if others else None,
        lead=_gap(leader, both[-1]),
        separated=tuple(
            row.entrant_id for row, is_below in zip(others, below, strict=True) if is_below
        ),
        not_separated=tuple(
            row.entrant_id for row, is_below in zip(others, below, strict=True) if not is_below
        ),
        no_upper_bound=tuple(
            row.entrant_id for row in others if is_rated(row) and row.sampling_high is None
        ),
        leader_is_unbounded=is_rated(leader) and leader.sampling_low is None,
        unrated=unrated,
    )


_MOST_NAMES = 4
"""Most entrants that the answer names."""


def answer_sentence(
    rows: Sequence[EloRow], win_rates: Sequence[WinRateRow], *, dimension: str
) -> str:
    """Describe who is best on a dimension in one short sentence; see also `verdict_sentence`.

    Two entrants are level when the judgments do not separate them.

    Args:
        rows: Rows of table "leaderboard" of one dimension, best entrant first.
        win_rates: Rows of table "win_rates" of the same dimension.
    """
    found = separation(rows)
    if found.leader is None or found.runner_up is None:
        return verdict_sentence(rows, win_rates, dimension=dimension)
    records = pair_records(win_rates)
    row_of = {row.entrant_id: row for row in rows}
    top = (found.leader, *found.same_answers, *found.not_separated)
    if len(top) == 1:
        of = "all " if len(found.separated) > 1 and not found.unrated else ""
        beaten = _named(found.separated, of=of)
        share = _shares(records, top, found.separated[:1])
        against = f" against {found.runner_up}, the next" if len(found.separated) > 1 else ""
        sentence = f"{found.leader} beats {beaten} on {dimension}" + (
            f", {share}{against}." if share else "."
        )
        return " ".join([sentence, *_briefly_unrated(rows)])
    is_everyone = len(top) > _MOST_NAMES and not (found.separated or found.unrated)
    names = f"All {len(top)} entrants" if is_everyone else _named(top)
    sentence = f"{names} are level on {dimension}"
    beaten_by_all = [
        name for name in found.separated if all(name in row_of[each].shown_above for each in top)
    ]
    beaten_by_first = [name for name in found.separated if name not in beaten_by_all]
    if beaten_by_all:
        subject = "both" if len(top) == 2 else f"all {len(top)}"
        share = _shares(records, top, beaten_by_all)
        sentence += f"; {subject} beat {_named(beaten_by_all)}, {share}"
    if beaten_by_first:
        share = _shares(records, top[:1], beaten_by_first)
        also = "also " if beaten_by_all else ""
        sentence += f"; {found.leader} {also}beats {_named(beaten_by_first)}, {share}"
    if not found.separated and len(top) == 2:
        share = _shares(records, top[:1], top[1:])
        sentence += f", {share}" if share else ""
    elif not found.separated:
        sentence += f"; {found.leader} is rated highest"
    copies = (*found.same_answers, found.leader) if found.same_answers else ()
    same = [f"{join_names(sorted(copies))} wrote the same answers."] if copies else []
    return " ".join([f"{sentence}.", *same, *_briefly_unrated(rows)])


def _briefly_unrated(rows: Sequence[EloRow]) -> list[str]:
    unrated = [row.entrant_id for row in rows if not is_rated(row)]
    if not unrated:
        return []
    return [
        f"Elo rates {'no entrant' if len(unrated) == len(rows) else f'all but {_named(unrated)}'}."
    ]


def _named(names: Sequence[str], *, of: str = "") -> str:
    if len(names) <= _MOST_NAMES:
        return join_names(names)
    return f"{of}{len(names)} others" if of else f"{names[0]} and {len(names) - 1} others"


def _shares(
    records: Mapping[tuple[str, str], PairRecord], winners: Sequence[str], losers: Sequence[str]
) -> str:
    """Return the win shares of some against others; ties are half a win for each."""
    met = [records[pair] for pair in product(winners, losers) if pair in records]
    settled = sum(each.settled for each in met)
    if not settled:
        return ""
    won = sum(each.wins + (each.settled - each.wins - each.losses) / 2 for each in met) / settled
    digits = 0 if abs(won - 0.5) >= 0.005 else 1
    return f"{100 * won:.{digits}f} % to {100 * (1 - won):.{digits}f} %"


def verdict_sentence(
    rows: Sequence[EloRow],
    win_rates: Sequence[WinRateRow] = (),
    *,
    dimension: str,
    confidence: float = 0.95,
) -> str:
    """Describe in plain words who leads on a dimension and what the intervals do not decide.

    Args:
        rows: Rows of table "leaderboard" of one dimension, best entrant first.
        win_rates: Rows of table "win_rates", which may be of other dimensions too.
        confidence: Coverage of the sampling intervals.
    """
    found = separation(rows)
    if found.leader is None:
        return _undecided_sentence(rows, dimension=dimension)
    copies = _same_answers(rows)
    if found.runner_up is None:
        return " ".join([f"On {dimension}, no entrant can lead.", *copies, *_unrated(rows, found)])
    leaders = join_names((found.leader, *found.same_answers))
    is_one = not found.same_answers
    lead, its, has = ("leads", "its", "has") if is_one else ("lead", "their", "have")
    basis = f"({format_confidence(confidence)} intervals of the difference, prompts resampled)"
    if STOPS_EARLY in (rows[0].judge or ""):
        basis = "(decided while judging, all pairs together)"
    records = pair_records([row for row in win_rates if row.dimension == dimension])
    record = records.get((found.leader, found.runner_up), _NEVER_MET)
    against = f"{record.sentence} against {found.runner_up}" if record.settled else ""
    if found.lead is None:
        come = "comes" if is_one else "come"
        leads = f"{come} first" + (f", with {against}" if against else "")
    else:
        shared = f"which {found.runner_up} shares"
        gap = f"{format_gap(found.lead)} above {found.runner_up}" if found.lead else shared
        leads = f"{has} the highest mean, {gap}" + (f", with {against}" if against else "")
    if not found.not_separated:
        leads = leads.replace(f"{has} the highest mean, ", f"{lead}: {its} mean is ")
        sentences = [
            f"On {dimension}, {leaders} {leads}, and {its} lead over "
            f"{join_names(found.separated)} is significant {basis}."
        ]
    else:
        nobody = "" if found.separated else "no lead is significant: "
        sentences = [
            f"On {dimension}, {nobody}{leaders} {leads}, but {its} lead over "
            f"{join_names(found.not_separated)} is not significant {basis}."
        ]
        if found.leader_is_unbounded:
            sentences.append(f"The judgments set no lower bound for {found.leader}.")
        if found.no_upper_bound:
            sentences.append(
                f"The judgments set no upper bound for {join_names(found.no_upper_bound)}."
            )
        if found.separated:
            sentences.append(
                f"{its.capitalize()} lead over {join_names(found.separated)} is significant."
            )
        sentences.append("Judging more prompts would narrow the intervals.")
    sentences += [*copies, *_fragile_lead(rows, found), *_unrated(rows, found)]
    return " ".join(sentences)


def _same_answers(rows: Sequence[EloRow]) -> list[str]:
    groups = dict.fromkeys(
        tuple(sorted((row.entrant_id, *row.same_answers_as))) for row in rows if row.same_answers_as
    )
    return [
        f"{join_names(group)} wrote the same answers, so no prompt can tell them apart."
        for group in groups
    ]


_MOST_PROMPTS = 3
"""Most prompts that a sentence names."""


def _fragile_lead(rows: Sequence[EloRow], found: Separation) -> list[str]:
    row = next(each for each in rows if each.entrant_id == found.leader)
    prompts = row.lead_rests_on
    if not prompts or not found.lead:
        return []
    if len(prompts) == 1:
        return [f"The lead over {found.runner_up} rests on one prompt: {prompts[0]}."]
    named = ", ".join(prompts[:_MOST_PROMPTS])
    more = ", …" if len(prompts) > _MOST_PROMPTS else ""
    return [
        f"Without any one of {len(prompts)} prompts ({named}{more}) it would not be ahead of "
        f"{found.runner_up}."
    ]


def _unrated(rows: Sequence[EloRow], found: Separation) -> list[str]:
    # Entrants with a place but no rating are included.
    without = [row for row in rows if row.entrant_id in found.unrated or not is_rated(row)]
    if not without:
        return []
    names_of: dict[str | None, list[str]] = {}
    for row in without:
        names_of.setdefault(row.note if row.n_entrant_matches else None, []).append(row.entrant_id)
    idle = names_of.pop(None, [])
    reasons = [f"{join_names(names)} ({note})" for note, names in names_of.items()]
    if idle:
        verb = "has" if len(idle) == 1 else "have"
        reasons.append(f"{join_names(idle)} {verb} no decisive match")
    if found.leader is not None and len(without) == len(rows):
        why = "the decisive matches give an order and no distances"
        return [f"Elo rates no entrant here, because {why}: {'; '.join(reasons)}."]
    return [f"Not rated: {'; '.join(reasons)}."]


def _undecided_sentence(rows: Sequence[EloRow], *, dimension: str) -> str:
    if all(row.win_rate is None for row in rows):
        return (
            f"On {dimension}, nothing can be said: no pair has been judged. "
            "See the audit for what is missing, then run the tournament again."
        )
    if len(rows) > 1 and all(len(row.same_answers_as) == len(rows) - 1 for row in rows):
        return f"On {dimension}, no entrant can lead. {' '.join(_same_answers(rows))}"
    return (
        f"On {dimension}, no ranking is possible: no match is decisive, because every judged "
        "pair was a tie or got two verdicts that disagree. Judge more prompts, or write a rubric "
        "that tells the responses apart."
    )


MOST_PAIRS = 12
"""Most pairs that are listed, closest first."""


@dataclass(frozen=True, slots=True)
class UnseparatedPair:
    """Two entrants whose difference could be 0.

    Attributes:
        upper: The one with the better place.
        gap: Elo points between their means; None where one of them has no rating.
        record: How the upper one fared against the lower.
    """

    upper: str
    lower: str
    gap: float | None
    record: PairRecord


def unseparated_pairs(
    rows: Sequence[EloRow], win_rates: Sequence[WinRateRow]
) -> list[UnseparatedPair]:
    """Return the pairs of entrants that are not separated, closest first.

    Two entrants are separated when one of them is shown to be above the other; see
    `ratings.significance`.

    Args:
        rows: Rows of table "leaderboard" of one dimension.
        win_rates: Rows of table "win_rates" of the same dimension.
    """
    records = pair_records(win_rates)
    rated = sorted(
        (row for row in rows if row.n_entrant_matches and row.rank is not None),
        key=lambda row: (row.rank, row.entrant_id),
    )
    pairs = [
        UnseparatedPair(
            upper.entrant_id,
            lower.entrant_id,
            _gap(upper, lower),
            records.get((upper.entrant_id, lower.entrant_id), _NEVER_MET),
        )
        for index, upper in enumerate(rated)
        for lower in rated[index + 1 :]
        if lower.entrant_id not in upper.shown_above and upper.entrant_id not in lower.shown_above
    ]
    return sorted(
        pairs, key=lambda pair: (pair.gap is None, pair.gap or 0.0, pair.upper, pair.lower)
    )


def unseparated_sentence(n_unseparated: int, n_rated: int) -> str:
    """Describe how many pairs of entrants have no significant difference."""
    n_pairs = n_rated * (n_rated - 1) // 2
    if not n_pairs:
        return "Fewer than two entrants are rated, so there is nothing to compare."
    if not n_unseparated:
        return (
            f"Every two entrants differ significantly, all {n_pairs} pairs."
            if n_pairs > 1
            else "The two entrants differ significantly."
        )
    verb = "has" if n_unseparated == 1 else "have"
    more = f" The {MOST_PAIRS} closest are listed." if n_unseparated > MOST_PAIRS else ""
    return f"{n_unseparated} of {n_pairs} pairs of entrants {verb} no significant difference.{more}"
