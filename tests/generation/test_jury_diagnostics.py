from collections.abc import Sequence

from tournament_assets.generation.hydra.decoded import Decoded, VerifiedToken, describe_decoding


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
