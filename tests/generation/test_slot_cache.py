import torch
from torch import Tensor
from transformers import DynamicCache

from tournament_assets.generation.hydra.slot_cache import SlotCache, mask_slots

from .hydra_builders import build_model, randn

N_SLOTS = 6


def new_cache(*, n_rows: int = 3, layers: tuple[int, ...] = (4, 5)) -> SlotCache:
    shape = (n_rows, 2, N_SLOTS, 3)
    return SlotCache.zeros(layers, shape=shape, dtype=torch.float32, device="cpu")


def some(n_rows: int, n_tokens: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    keys, values = randn(2, n_rows, 2, n_tokens, 3, generator=generator)
    return keys, values


def test_a_token_is_kept_in_the_slot_of_its_position() -> None:
    cache = new_cache()
    slots = torch.tensor([[0, 1], [3, 4], [5, 2]])
    new_keys, new_values = some(3, 2)
    keys, values = cache.at(slots).update(new_keys, new_values, 4)
    for row in range(3):
        for token in range(2):
            slot = slots[row, token]
            assert torch.equal(keys[row, :, slot], new_keys[row, :, token])
            assert torch.equal(values[row, :, slot], new_values[row, :, token])
    assert int((keys != 0).sum()) == new_keys.numel()
    assert keys.shape == (3, 2, N_SLOTS, 3)
    assert int((cache.keys[5] != 0).sum()) == 0


def test_a_slot_can_be_written_again() -> None:
    cache = new_cache(n_rows=1)
    for seed in (1, 2):
        keys, values = some(1, 1, seed=seed)
        cache.at(torch.tensor([[3]])).update(keys, values, 5)
    assert torch.equal(cache.keys[5][:, :, 3:4], keys)
    assert int((cache.values[5] != 0).sum()) == values.numel()


def test_a_token_sees_its_own_slot_and_those_before() -> None:
    mask = mask_slots(torch.tensor([[0, 1], [4, 5]]), n_slots=N_SLOTS, dtype=torch.float32)
    assert set(mask.flatten().tolist()) == {0.0, float("-inf")}  # attention adds it to its scores
    seen = mask == 0
    assert seen.shape == (2, 1, 2, N_SLOTS)
    assert seen.sum(dim=-1).tolist() == [[[1, 2]], [[5, 6]]]
    assert seen[1, 0, 0].tolist() == [True] * 5 + [False]


def test_a_layer_may_be_shown_the_first_slots_only() -> None:
    whole, shown = new_cache(), new_cache()
    slots = torch.tensor([[0, 1], [3, 2], [1, 2]])
    all_keys, all_values = whole.at(slots).update(*some(3, 2), 4)
    keys, values = shown.at(slots, n_seen=4).update(*some(3, 2), 4)
    assert torch.equal(keys, all_keys[:, :, :4])
    assert torch.equal(values, all_values[:, :, :4])
    assert torch.equal(shown.keys[4], whole.keys[4])


def test_a_layer_of_olmo2_takes_it_in_place_of_its_own_cache() -> None:
    model = build_model()
    generator = torch.Generator().manual_seed(0)
    hidden = randn(2, 5, 16, generator=generator)
    config = model.config
    own, ours = (
        DynamicCache(config=config),
        SlotCache.zeros([0], shape=(2, 4, 9, 4), dtype=torch.float32, device="cpu"),
    )
    for token in range(5):
        positions = torch.full((2, 1), token)
        rotary = model.model.rotary_emb(hidden, position_ids=positions)
        expected, got = (
            model.model.layers[0](
                hidden[:, token : token + 1],
                attention_mask=mask,
                position_embeddings=rotary,
                past_key_values=cache,
            )
            for cache, mask in (
                (own, None),
                (ours.at(positions), mask_slots(positions, n_slots=9, dtype=torch.float32)),
            )
        )
        torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)


def attend(cache: SlotCache) -> Tensor:
    """Let one token at position 2 attend to what row 0 of layer 4 holds."""
    query = torch.ones(1, 2, 1, 3)
    seen = mask_slots(torch.tensor([[2]]), n_slots=N_SLOTS, dtype=torch.float32)
    return torch.nn.functional.scaled_dot_product_attention(
        query, cache.keys[4][:1], cache.values[4][:1], attn_mask=seen
    )


def test_a_new_cache_holds_zeros_where_memory_that_was_only_allocated_holds_nan() -> None:
    """A hidden slot's weight is 0, and 0 times NaN is NaN."""
    was = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(mode=True)  # torch now fills what it only allocates
    try:
        assert torch.empty(3).isnan().all()
        cache = new_cache()
    finally:
        torch.use_deterministic_algorithms(mode=was)
    for tensor in (*cache.keys.values(), *cache.values.values()):
        assert torch.equal(tensor, torch.zeros(3, 2, N_SLOTS, 3))


def test_what_stands_in_hidden_slots_changes_nothing_as_long_as_it_is_a_number() -> None:
    cache = new_cache()
    cache.at(torch.arange(3).expand(3, -1)).update(*some(3, 3), 4)
    clean = attend(cache)
    cache.keys[4][:, :, 3:] = 7.0
    cache.values[4][:, :, 3:] = -9.0
    assert torch.equal(attend(cache), clean)
