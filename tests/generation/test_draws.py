import torch

from tournament_assets.generation.hydra.decoding import RandomNumbers, draw_numbers

from .statistics_of_draws import p_value


def test_a_prompt_always_gets_the_same_numbers_and_another_seed_gets_others() -> None:
    torch.rand(3)  # what happened to the global generator before must not matter
    first = draw_numbers([7, 8], n_positions=5)
    again = draw_numbers([8, 7], n_positions=5)
    assert torch.equal(first.heads, again.heads.flip(0))
    assert torch.equal(first.positions, again.positions.flip(0))
    assert not torch.equal(first.positions[0], first.positions[1])
    assert first.positions.shape == (2, 5, 3)
    assert first.positions.dtype == first.heads.dtype == torch.float64


def test_a_longer_response_begins_with_the_numbers_of_a_shorter_one() -> None:
    longest = draw_numbers([3], n_positions=300)
    for n_positions in (1, 5, 17, 256):
        shorter = draw_numbers([3], n_positions=n_positions)
        assert torch.equal(shorter.heads, longest.heads)
        assert torch.equal(shorter.positions, longest.positions[:, :n_positions])


def test_drawing_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    draw_numbers([3], n_positions=20)
    assert torch.equal(torch.get_rng_state(), before)


def test_every_head_is_drawn_as_often_as_any_other() -> None:
    heads = draw_numbers(range(20_000), n_positions=1).pick_heads(9)
    assert p_value(torch.bincount(heads), torch.ones(9) / 9) > 1e-3


def test_the_largest_number_draws_the_last_head() -> None:
    extremes = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    for n_heads in range(1, 20):
        drawn = RandomNumbers(heads=extremes, positions=torch.empty(2, 0, 3)).pick_heads(n_heads)
        assert drawn.tolist() == [0, n_heads - 1]
