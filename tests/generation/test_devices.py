import pytest

from tournament_assets.generation.devices import device_problem


@pytest.mark.parametrize("name", ["auto", "cpu", "cuda", "cuda:3", "mps"])
def test_names_of_devices_are_no_problem(name: str) -> None:
    assert device_problem(name) is None


@pytest.mark.parametrize("name", ["foo", "cuda:", "CUDA", "cuda:one", "gpu", ""])
def test_any_other_name_is_told_with_what_may_stand_there(name: str) -> None:
    problem = device_problem(name)
    assert problem is not None
    assert f"TOURNAMENT_DEVICE is {name!r}; expected auto" in problem
