from tournament_assets.generation.hydra.decoded import Decoded, VerifiedToken


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
    token = verified(draft=7, token=5, votes=(7, 7, 7, 5, 7, 6, 7), entropy=1.0)
    assert token.margin == 4
    assert token.stability_radius == 2
    assert token.validity_radius == 3  # then 5 has four votes and 7 two


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
    assert response.replacements == ((9, 2), (8, 3))
    assert response.mean_entropy == 1.0


def test_without_a_jury_there_is_nothing_to_tell() -> None:
    response = Decoded(token_ids=(1,), finish_reason="stop", head=4)
    assert response.resampled_positions == ()
    assert response.replacements == ()
    assert response.mean_entropy is None
