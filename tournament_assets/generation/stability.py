"""How many heads would have to change their vote for another token to win, or for a given one.

Each head votes for the token it thinks most probable. Where every head was trained on its own part
of the data, changing some part of the data changes one vote, so counts of votes bound what an
attacker can do: Levine and Feizi, Deep Partition Aggregation, https://arxiv.org/abs/2006.14768.
"""

from collections import Counter
from collections.abc import Hashable, Sequence


def vote_margin(votes: Sequence[Hashable]) -> int:
    """Votes of the winner minus those of the runner-up, or minus 0 where all agree."""
    first, *others = sorted(Counter(votes).values(), reverse=True)
    return first - max(others, default=0)


def stability_radius(votes: Sequence[Hashable]) -> int:
    """How many votes can change, to whatever token, without the winner losing.

    A tie keeps the winner.

    Args:
        votes: What each head votes for; at least one vote.
    """
    return vote_margin(votes) // 2


def validity_radius(votes: Sequence[Hashable], target: Hashable) -> int:
    """How many votes at least must change for a token to win, with more votes than any other.

    With k votes more for the target, a competitor with c votes has to lose what it has in excess of
    target + k - 1; k suffices as soon as all of this together is no more than k votes.

    Args:
        votes: What each head votes for; at least one vote.
        target: The token that shall win; nobody need vote for it.

    Returns:
        0 where the target wins already.
    """
    counts = Counter(votes)
    own = counts.pop(target, 0)
    changed = 0
    while sum(max(count - own - changed + 1, 0) for count in counts.values()) > changed:
        changed += 1
    return changed
