import pytest
import torch

from tournament_assets.generation.responding import (
    choose_batch_size,
    free_bytes,
    is_out_of_memory,
    measure_peak,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate`"),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"
        ),
        MemoryError(),
    ],
)
def test_every_way_of_saying_that_memory_ran_out_is_understood(error: Exception) -> None:
    assert is_out_of_memory(error)


def test_what_ran_out_while_a_graph_was_recorded_is_found_behind_the_error_of_the_recording() -> (
    None
):
    error = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    assert not is_out_of_memory(error)
    error.__context__ = torch.OutOfMemoryError("CUDA out of memory")
    assert is_out_of_memory(error)


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    assert not is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))
    assert not is_out_of_memory(ValueError("out of memory"))


def test_the_peak_counts_what_is_alive_at_once_and_no_view() -> None:
    with torch.inference_mode(), measure_peak(CPU) as peak:
        given = torch.ones(250, 1000)  # a megabyte
        for _ in range(5):
            twice = given * 2
            part = twice[:100].t()
            part.add_(1)
            del twice, part
    assert peak.n_bytes == 2_000_000


def test_what_was_there_before_is_not_counted() -> None:
    weights = torch.ones(1000, 1000)
    with measure_peak(CPU) as peak:
        weights.t().mul_(2)
    assert peak.n_bytes == 0


def test_a_batch_is_the_largest_power_of_two_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    for free, rows in ((10**9, 16), (7_200_000, 4), (2_900_000, 2), (1, 1)):
        monkeypatch.setattr(
            "tournament_assets.generation.responding.free_bytes", lambda device, free=free: free
        )
        assert choose_batch_size(lambda: torch.ones(250, 1000), device=CPU) == rows


def test_where_not_even_one_row_has_room_the_smallest_batch_is_chosen() -> None:
    def fail() -> None:
        raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED")

    assert choose_batch_size(fail, device=CPU) == 1


def test_any_other_error_of_the_trial_comes_out() -> None:
    def fail() -> None:
        raise RuntimeError("device-side assert")

    with pytest.raises(RuntimeError, match="device-side"):
        choose_batch_size(fail, device=CPU)


def test_this_machine_has_free_memory() -> None:
    assert free_bytes(CPU) > 0
