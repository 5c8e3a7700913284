from collections import Counter
from collections.abc import Sequence
from itertools import product

import pytest

from tournament_assets.generation.hydra.decoded import (
    Decoded,
    VerifiedToken,
    describe_decoding,
    stability_radius,
    validity_radius,
    vote_margin,
)


def verified(*, draft: int, token: int, votes: tuple[int, ...], entropy: float) -> VerifiedToken:
    return VerifiedToken(
        draft=draft,
        token=token,
        resampled=draft != token,
        entropy=entropy,
        overlap=0.5,
        suppression=0.5,
        votes=votes,
    )


def test_radii_are_those_of_the_votes_and_of_the_token_that_stands() -> None:
    votes = (7, 7, 7, 5, 7, 6, 7)
    assert vote_margin(votes) == 4
    assert stability_radius(votes) == 2
    assert validity_radius(votes, 5) == 3  # then 5 has four votes and 7 two


def test_a_response_counts_its_replacements_from_its_first_token() -> None:
    response = Decoded(
        token_ids=(1, 2, 3),
        finish_reason="length",
        head=0,
        verified=(
            verified(draft=1, token=1, votes=(1,), entropy=0.5),
            verified(draft=9, token=2, votes=(2,), entropy=1.5),
            verified(draft=8, token=3, votes=(3,), entropy=1.0),
        ),
    )
    assert response.resampled_positions == (1, 2)


def test_without_a_jury_there_is_nothing_to_tell() -> None:
    response = Decoded(token_ids=(1,), finish_reason="stop", head=4)
    assert response.resampled_positions == ()


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


def read(ids: Sequence[int]) -> str:
    """Read tokens that are characters; 0 is a special token, and outer white space is cut off."""
    return "".join(chr(token) for token in ids if token).strip()


def decoded(text: str, drafts: dict[int, str]) -> Decoded:
    """Build a response whose drafts at some positions were replaced; it ends with a token 0."""
    ids = [*map(ord, text), 0]
    verified = tuple(
        VerifiedToken(
            draft=ord(drafts[position]) if position in drafts else token,
            token=token,
            resampled=position in drafts,
            entropy=1 / 3,
            overlap=0.5,
            suppression=0.25,
            votes=(token, token, token, 7, 7),
        )
        for position, token in enumerate(ids)
    )
    return Decoded(token_ids=tuple(ids), finish_reason="stop", head=4, verified=verified)


def test_a_replacement_is_found_in_the_text() -> None:
    written = decoded("  a dog", {4: "h", 6: "t"})
    text = read(written.token_ids)
    resampled = describe_decoding(written, read=read, text=text)["jury"]["resampled"]
    assert [row["position"] for row in resampled] == [4, 6]
    assert [(row["draft"], row["replacement"]) for row in resampled] == [("h", "d"), ("t", "g")]
    assert [text[row["start"] : row["end"]].strip() for row in resampled] == ["d", "g"]


def test_a_replacement_that_text_does_not_show_has_no_length() -> None:
    written = decoded("ab", {2: "c"})
    (row,) = describe_decoding(written, read=read, text="ab")["jury"]["resampled"]
    assert (row["start"], row["end"], row["replacement"]) == (2, 2, "")


def test_every_token_has_its_numbers() -> None:
    jury = describe_decoding(decoded("ab", {}), read=read, text="ab")["jury"]
    assert jury["entropy"] == [0.3333] * 3
    assert jury["margin"] == [1, 1, 1]
    assert jury["stability_radius"] == [0, 0, 0]
    assert jury["validity_radius"] == [0, 0, 0]
    assert jury["resampled"] == []


def test_without_a_jury_there_is_only_the_head() -> None:
    alone = Decoded(token_ids=(97, 0), finish_reason="stop", head=2)
    assert describe_decoding(alone, read=read, text="a") == {"head": 2}
