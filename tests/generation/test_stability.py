from collections import Counter
from itertools import product

import pytest

from tournament_assets.generation.hydra.decoded import (
    stability_radius,
    validity_radius,
    vote_margin,
)


def changes(before: tuple[str, ...], after: tuple[str, ...]) -> int:
    return sum(old != new for old, new in zip(before, after, strict=True))


def all_votes(n_heads: int) -> list[tuple[str, ...]]:
    return list(product("abc", repeat=n_heads))


def wins(token: str, votes: tuple[str, ...]) -> bool:
    counts = Counter(votes)
    return all(counts[token] > count for other, count in counts.items() if other != token)


def keeps_winning(token: str, votes: tuple[str, ...]) -> bool:
    return Counter(votes)[token] == max(Counter(votes).values())


@pytest.mark.parametrize("n_heads", [1, 2, 3, 4, 5])
def test_radii_equal_those_found_by_trying_every_change_of_votes(n_heads: int) -> None:
    everything = all_votes(n_heads)
    for votes in everything[:: max(1, len(everything) // 81)]:
        winner = Counter(votes).most_common(1)[0][0]
        lost = [changes(votes, other) for other in everything if not keeps_winning(winner, other)]
        assert stability_radius(votes) == min(lost, default=n_heads // 2 + 1) - 1
        for target in "abc":
            won = min(changes(votes, other) for other in everything if wins(target, other))
            assert validity_radius(votes, target) == won


def test_nine_heads_that_agree_bear_four_changes() -> None:
    assert vote_margin([7] * 9) == 9
    assert stability_radius([7] * 9) == 4
    assert validity_radius([7] * 9, 7) == 0
    assert validity_radius([7] * 9, 8) == 5


def test_a_tie_bears_no_change() -> None:
    votes = [1, 1, 2, 2, 3]
    assert vote_margin(votes) == 0
    assert stability_radius(votes) == 0


def test_a_tied_token_needs_one_more_vote_to_win() -> None:
    assert validity_radius([1, 1, 2, 2, 3], 1) == 1
    assert validity_radius([1, 1, 2, 2, 3], 3) == 2


def test_a_token_nobody_votes_for_wins_over_scattered_votes_with_two() -> None:
    assert validity_radius(list(range(9)), 99) == 2
