import pytest
import torch

from tournament_assets.generation.models.base_models import decoding_threads


def test_a_small_model_is_decoded_on_one_thread_and_a_large_one_on_all() -> None:
    before = torch.get_num_threads()
    with decoding_threads(1_500_000):
        assert torch.get_num_threads() == 1
    with decoding_threads(7_000_000_000):
        assert torch.get_num_threads() == before
    assert torch.get_num_threads() == before


def test_the_number_of_threads_comes_back_after_an_error() -> None:
    def fail() -> None:
        with decoding_threads(1_500_000):
            raise KeyError

    before = torch.get_num_threads()
    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == before
