import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tournament_assets.foundation.errors import GenerationError, InputError
from tournament_assets.generation.devices import Card, card_index, device_problem, lease_cards


@pytest.mark.parametrize("name", ["auto", "cpu", "cuda", "cuda:3"])
def test_names_of_devices_are_no_problem(name: str) -> None:
    assert device_problem(name) is None


@pytest.mark.parametrize("name", ["foo", "mps", "cuda:", "CUDA", "cuda:one", "gpu", ""])
def test_any_other_name_is_told_with_what_may_stand_there(name: str) -> None:
    problem = device_problem(name)
    assert problem is not None
    assert f"{name!r};" in problem


GIGABYTE = 10**9
FOUR = [Card(f"card-{number}", 80 * GIGABYTE) for number in range(4)]


def lease(folder: Path, cards: Sequence[Card] = FOUR, *, gigabytes: int = 14, **more: Any) -> Any:
    def never(seconds: float) -> None:
        raise TimeoutError

    more = {"log": lambda message: None, "wait": never, **more}
    return lease_cards(cards, needed_bytes=gigabytes * GIGABYTE, folder=folder, **more)


def test_each_lease_is_of_another_card_until_all_are_taken(tmp_path: Path) -> None:
    leases = [lease(tmp_path) for _ in FOUR]
    assert [each.indices for each in leases] == [(0,), (1,), (2,), (3,)]
    with pytest.raises(TimeoutError):
        lease(tmp_path)
    leases[2].give_back()
    assert lease(tmp_path).indices == (2,)


def test_who_finds_no_card_waits_and_says_so_once(tmp_path: Path) -> None:
    held = lease(tmp_path, FOUR[:1])
    said: list[str] = []
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 5:
            held.give_back()

    found = lease(tmp_path, FOUR[:1], log=said.append, wait=wait)
    assert found.indices == (0,)
    assert len(said) == 1


def test_a_named_card_is_the_only_one_that_will_do(tmp_path: Path) -> None:
    held = lease(tmp_path, index=2)
    assert held.indices == (2,)
    with pytest.raises(TimeoutError):
        lease(tmp_path, index=2)
    with pytest.raises(InputError, match=r"'cuda:4'.* 4 cards"):
        lease(tmp_path, index=4)


def test_a_model_larger_than_a_card_takes_as_many_as_it_needs(tmp_path: Path) -> None:
    held = [lease(tmp_path, gigabytes=140), lease(tmp_path, gigabytes=70)]
    assert [each.indices for each in held] == [(0, 1), (2,)]
    with pytest.raises(TimeoutError):
        lease(tmp_path, gigabytes=140)
    # What could not have both has kept neither.
    assert lease(tmp_path, gigabytes=70).indices == (3,)
    with pytest.raises(GenerationError, match=r"takes 400\.0 GB"):
        lease(tmp_path, gigabytes=400)


def test_a_large_card_is_not_left_for_a_smaller_one(tmp_path: Path) -> None:
    cards = [Card("small", 24 * GIGABYTE), Card("large", 80 * GIGABYTE)]
    assert lease(tmp_path, cards, gigabytes=70).indices == (1,)
    assert lease(tmp_path, cards, gigabytes=14).indices == (0,)


def test_a_card_that_another_program_fills_is_passed_over_until_it_has_room(tmp_path: Path) -> None:
    free = [10, 40]

    def look(card: int) -> int:
        return free[card] * GIGABYTE

    cards = [Card(f"card-{n}", 80 * GIGABYTE, look=partial(look, n)) for n in range(2)]
    held = lease(tmp_path, cards, gigabytes=30)
    assert held.indices == (1,)
    said: list[str] = []

    def wait(seconds: float) -> None:
        free[0] = 30

    found = lease(tmp_path, cards, gigabytes=30, log=said.append, wait=wait)
    assert found.indices == (0,)
    assert "30.0 GB" in said[0]


HOLDER = """
import sys
from pathlib import Path
from tournament_assets.generation.devices import Card, lease_cards
cards = [Card(f"card-{number}", 1) for number in range(4)]
held = lease_cards(cards, needed_bytes=1, folder=Path(sys.argv[1]), log=print)
print(held.indices[0], flush=True)
sys.stdin.read()
"""


def test_processes_share_the_cards_and_a_killed_one_gives_its_own_back(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with ExitStack() as stack:
        taken = {}
        for _ in FOUR:
            holder = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            stack.enter_context(holder)
            stack.callback(holder.kill)
            assert holder.stdout is not None
            taken[holder.stdout.readline().strip()] = holder
        assert list(taken) == ["0", "1", "2", "3"]
        taken["1"].kill()
        taken["1"].wait()
        assert lease(tmp_path).indices == (1,)


@pytest.mark.parametrize(("device", "index"), [("cuda:3", 3), ("cuda", None), ("auto", None)])
def test_a_name_may_say_which_card(device: str, index: int | None) -> None:
    assert card_index(device) == index
