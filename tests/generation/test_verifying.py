import torch

from tournament_assets.generation.hydra.rounds import Verdict, verify


def test_a_replacement_stands_and_what_was_drafted_after_it_does_not() -> None:
    """Greedily, where heads 1 and 2 want token 0 and head 0 drafts what it likes."""
    drafts = torch.tensor([[0, 0, 0], [0, 1, 0], [2, 0, 0], [0, 0, 1]])
    q = torch.nn.functional.one_hot(drafts, 3).double()
    verdict = verify(
        drafts,
        q,
        verifiers=torch.tensor([10.0, 2.0, 0.0], dtype=torch.float64).expand(4, 3, 3),
        votes=torch.zeros(4, 3, 3, dtype=torch.long),
        beta=1.0,
        temperature=None,
        uniforms=torch.full((4, 3, 2), 0.5, dtype=torch.float64),
    )
    assert verdict.n_standing.tolist() == [3, 2, 1, 3]
    assert verdict.accepted.tolist() == (drafts == 0).tolist()
    assert not verdict.tokens.any()
    standing = torch.arange(3) < torch.tensor([3, 2, 0, 1])[:, None]
    rounds = Verdict(*[column[None] for column in verdict.columns])
    read = rounds.read(standing[None])
    assert len(read) == 6
    assert [(token.draft, token.token, token.resampled) for token in read[3:5]] == [
        (0, 0, False),
        (1, 0, True),
    ]
    assert read[3].votes == (0, 0, 0)


def test_verdicts_of_several_rounds_are_read_prompt_by_prompt() -> None:
    rounds = Verdict.zeros(3, 2, 2, n_heads=4, device=torch.device("cpu"))
    rounds.tokens.copy_(torch.arange(12).reshape(3, 2, 2))  # by round, prompt and draft
    kept = torch.tensor([[[1, 1], [1, 0]], [[1, 0], [0, 0]], [[0, 0], [1, 1]]]).bool()
    assert [token.token for token in rounds.read(kept)] == [0, 1, 4, 2, 10, 11]


def test_a_draft_stands_where_there_is_nothing_to_replace_it_with() -> None:
    """P is what was drafted from; a q that is a little too large makes rejecting possible."""
    p = torch.tensor([[[0.25, 0.75, 0.0]]], dtype=torch.float64)
    verdict = verify(
        torch.tensor([[0]]),
        p * 1.001,
        verifiers=p.log(),
        votes=torch.zeros(1, 1, 3, dtype=torch.long),
        beta=1.0,
        temperature=1.0,
        uniforms=torch.full((1, 1, 2), 0.9999, dtype=torch.float64),
    )
    assert verdict.accepted.item()
    assert verdict.tokens.item() == 0
    assert verdict.overlaps.item() == 1
