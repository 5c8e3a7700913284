"""What is said of a dimension's entrants: some forms, each with the entrants and numbers it tells.

They follow from the claims on every two entrants (see `claims`), and one template renders them
wherever they are read: page, Markdown, console and notebook. Nothing reads a rendered sentence.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from tournament_assets.audits.more_prompts import MorePrompts
from tournament_assets.reports.claims import (
    MOST_PAIRS,
    PairStatement,
    PairWord,
    Statements,
    against_ratings,
)
from tournament_assets.reports.rendering import render_part
from tournament_assets.tournament.asset_rows import LeaderboardRow, WinRateRow

Names = tuple[str, ...]
_TEMPLATE = "claims.jinja"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What is said of some entrants on a dimension, best first."""

    dimension: str
    names: Names = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Better(Statement):
    """Somebody is best: better than all that wrote something else.

    Attributes:
        beaten: Whom it is better than, best first.
        pair: The first and the next, where the next is the best of the beaten.
    """

    beaten: Names
    pair: PairStatement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalent(Statement):
    """All that may be first are equivalent.

    Attributes:
        margin: The largest difference that does not matter, in Elo points.
        beaten: Whom all of them are better than.
        pair: The two, where they are two.
    """

    margin: float
    beaten: Names = ()
    pair: PairStatement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided(Statement):
    """Several may be first; nobody is named where one alone may, and need not be.

    Attributes:
        is_everybody: Whether they are all that have a place.
        highest: Who has the highest rating, if they are more than two.
        first: The first in the order.
        beaten: Whom all of them are better than.
        also: Whom the first is better than besides.
        pair: The two, where they are two.
    """

    first: str
    is_everybody: bool = False
    highest: str = ""
    beaten: Names = ()
    also: Names = ()
    pair: PairStatement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragile(Statement):
    """Few prompts on which the first place of a best entrant rests.

    Attributes:
        prompts: Without these it is not first alone.
        at_least: No fewer prompts than these are enough for that.
    """

    prompts: Names
    at_least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing(Statement):
    """What there is not, so that nobody is first or somebody has no rating.

    Attributes:
        what: No pair was judged; fewer than two have a rank; no prompt tells the entrants apart;
            every settled pair is of one text; those named have no rating.
        n_pairs: How many pairs are of one text.
        note: Why they have no rating.
    """

    what: Literal["pair", "rank", "difference", "judgment", "rating"]
    n_pairs: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Careful(Statement):
    """What a reader must know beside the claims.

    Attributes:
        why: Claims go in a circle, so that nobody is first; some stand against the ratings; those
            named wrote the same answers.
        pairs: The better and the worse of every two in the circle, or against the ratings.
    """

    why: Literal["circle", "ratings", "copies"]
    pairs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep(Statement):
    """What it takes to show who is best, or to leave few that may be; named is who may be now.

    Attributes:
        more: The prompts that it takes; None if the most that are counted are too few.
        most: Those, in that case.
        pairs: How many more pairs are judged then.
        usd: What answering and judging costs at the prices of the run; None if not known.
    """

    more: MorePrompts | None = None
    most: int = 0
    pairs: int = 0
    usd: float | None = None


def answer(board: Statements, *, equivalent_within: float) -> tuple[Statement, ...]:
    """Return how a dimension ended, and what to be careful about; see also `verdict`.

    Args:
        equivalent_within: The largest difference that does not matter, in Elo points.
    """
    return _outcome(board, equivalent_within), *_cautions(board)


def verdict(board: Statements, *, equivalent_within: float) -> tuple[Statement, ...]:
    """Return the answer, and what the first place of a best entrant rests on.

    Args:
        equivalent_within: The largest difference that does not matter, in Elo points.
    """
    answers = answer(board, equivalent_within=equivalent_within)
    if board.leader is None or not board.best_rests_on:
        return answers
    fragile = Fragile(
        dimension=board.dimension,
        names=board.best[:1],
        prompts=board.best_rests_on,
        at_least=board.leader.lead_rests_on_at_least or 1,
    )
    return *answers, fragile


def _outcome(board: Statements, equivalent_within: float) -> Statement:
    on, leader, runner_up = board.dimension, board.leader, board.runner_up
    if leader is None:
        return Missing(dimension=on, what="rank" if board.is_judged else "pair")
    if runner_up is None:
        return Missing(dimension=on, what="difference")
    if n_pairs := board.n_only_of_one_text:
        return Missing(dimension=on, what="judgment", n_pairs=n_pairs)
    if names := board.circle:
        steps = zip(names, (*names[1:], names[0]), strict=True)
        return Careful(dimension=on, why="circle", pairs=tuple(steps))
    first, beaten = leader.entrant_id, board.in_order(leader.shown_above)
    if names := board.best:
        pair = board.pairs[first, beaten[0]] if beaten[0] == runner_up.entrant_id else None
        return Better(dimension=on, names=names, beaten=beaten, pair=pair)
    names = board.top
    below = board.beaten_by(names)
    pair = board.pairs[names[0], names[1]] if len(names) == 2 else None
    # No prompt tells copies apart, so no interval of theirs says that they are equivalent.
    others = (
        board.pairs[two].claim
        for two in combinations(names, 2)
        if not board.pairs[two].record.is_all_same_text
    )
    if names and {*others} == {"equivalent"}:
        return Equivalent(
            dimension=on, names=names, margin=equivalent_within, beaten=below, pair=pair
        )
    return Undecided(
        dimension=on,
        names=names,
        first=first,
        is_everybody=len(names) == len(board.placed),
        highest=first if len(names) > 2 and board.is_rated_highest(leader) else "",
        beaten=below,
        also=tuple(name for name in beaten if name not in below),
        pair=pair,
    )


def _cautions(board: Statements) -> Iterator[Statement]:
    """Yield the decisions against the ratings, who wrote the same, and who has no rating."""
    if not board.is_judged:
        return
    if pairs := against_ratings(board.placed):
        yield Careful(dimension=board.dimension, why="ratings", pairs=tuple(pairs))
    for names in _copies(board.rows):
        yield Careful(dimension=board.dimension, why="copies", names=names)
    for note in dict.fromkeys(row.note for row in board.rows if row.note):
        names = tuple(row.entrant_id for row in board.rows if row.note == note)
        yield Missing(dimension=board.dimension, what="rating", names=names, note=note)


def _copies(rows: Sequence[LeaderboardRow]) -> list[Names]:
    same = {row.entrant_id: row.same_answers_as for row in rows}
    groups: list[Names] = []
    for pair in combinations(same, 2):
        if pair[1] not in same[pair[0]] or any({*pair} <= {*group} for group in groups):
            continue
        group: Names = pair
        for name in same:
            if name not in group and all(name in same[member] for member in group):
                group = (*group, name)
        groups.append(tuple(name for name in same if name in group))
    return groups


def claim_counts(board: Statements) -> Mapping[PairWord, int]:
    """Return how many pairs of entrants are decided (better), equivalent and undecided."""
    return Counter("better" if pair.is_decided else pair.claim for pair in board.pairs.values())


def verdict_sentence(
    rows: Sequence[LeaderboardRow],
    win_rates: Sequence[WinRateRow] = (),
    *,
    dimension: str,
    equivalent_within: float,
) -> str:
    """Return the verdict in words; `win_rates` may hold rows of other dimensions."""
    board = Statements.of(rows, win_rates, dimension=dimension)
    return render(verdict(board, equivalent_within=equivalent_within))


def render(statements: Sequence[Statement]) -> str:
    """Return statements as sentences."""
    forms = ((type(statement).__name__.lower(), statement) for statement in statements)
    lines = (line for form in forms for line in render_part(_TEMPLATE, *form))
    return " ".join(filter(None, lines))


@dataclass(frozen=True, slots=True)
class Headline:
    """What the first screen says before anything else.

    Attributes:
        label: The result in a few words.
        sentence: Who is best on what, in at most two lines.
        heads: Who is best or may be, in a few words for each dimension.
    """

    label: str
    sentence: str
    heads: tuple[str, ...]


def state_headline(
    outcomes: Sequence[Statement], names: Mapping[str, str], *, is_red: bool = False
) -> Headline:
    """Say in short who is best on what; dimensions that ended alike are named together.

    Args:
        outcomes: How each dimension ended.
        names: What the entrants are called.
        is_red: Whether there is a red doubt.
    """
    ends = [replace(end, names=tuple(names[name] for name in end.names)) for end in outcomes]
    alike: dict[tuple[str, frozenset[str]], list[Statement]] = {}
    for end in ends:
        alike.setdefault((type(end).__name__, frozenset(end.names)), []).append(end)
    parts = [
        (form, members[0], [member.dimension for member in members])
        for (form, _), members in alike.items()
    ]
    return Headline(
        DO_NOT_RELY if is_red else next(label for label, holds in _LABELS if holds(ends)),
        "".join(render_part(_TEMPLATE, "headline", parts)),
        tuple("".join(render_part(_TEMPLATE, "head", type(end).__name__, end)) for end in ends),
    )


def _are(ends: Sequence[Statement], *forms: type[Statement]) -> bool:
    return all(isinstance(end, forms) for end in ends)


DO_NOT_RELY = "Do not rely on this"
_LABELS: tuple[tuple[str, Callable[[Sequence[Statement]], bool]], ...] = (
    ("Nobody is first", lambda ends: _are(ends, Missing, Careful)),
    (
        "One is best",
        lambda ends: (
            _are(ends, Better) and len({end.names for end in ends}) == 1 == len(ends[0].names)
        ),
    ),
    ("Copies are best", lambda ends: _are(ends, Better) and len({end.names for end in ends}) == 1),
    ("Different by quality", lambda ends: any(isinstance(end, Better) for end in ends)),
    ("Equivalent at the top", lambda ends: _are(ends, Equivalent)),
    ("Undecided at the top", lambda _: True),
)
"""The first whose condition holds is the label of a run without a red doubt."""


def render_counts(board: Statements, *, equivalent_within: float) -> str:
    """Describe how many pairs of entrants are decided, equivalent and undecided."""
    values = (len(board.pairs), claim_counts(board), MOST_PAIRS, equivalent_within)
    return " ".join(filter(None, render_part(_TEMPLATE, "counts", *values)))
