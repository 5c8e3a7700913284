import torch

from tournament_assets.generation.verifying import verify


def test_a_replacement_stands_and_what_was_drafted_after_it_does_not() -> None:
    """Greedily, where heads 1 and 2 want token 0 and head 0 drafts what it likes."""
    drafts = torch.tensor([[0, 0, 0], [0, 1, 0], [2, 0, 0], [0, 0, 1]])
    q = torch.nn.functional.one_hot(drafts, 3).double()
    jury_logits = torch.tensor([5.0, 1.0, 0.0]).expand(3, 4, 3, 3)
    verdict = verify(
        drafts,
        q,
        jury_logits,
        heads=torch.zeros(4, dtype=torch.long),
        beta=1.0,
        temperature=None,
        uniforms=torch.full((4, 3, 2), 0.5, dtype=torch.float64),
    )
    assert verdict.n_standing.tolist() == [3, 2, 1, 3]
    assert verdict.accepted.tolist() == (drafts == 0).tolist()
    assert not verdict.tokens.any()
    read = verdict.read([3, 2, 0, 1])
    assert [len(tokens) for tokens in read] == [3, 2, 0, 1]
    assert [(token.draft, token.token, token.resampled) for token in read[1]] == [
        (0, 0, False),
        (1, 0, True),
    ]
    assert read[1][0].votes == (0, 0, 0)
