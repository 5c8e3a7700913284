from collections.abc import Sequence
from typing import overload

from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.judging.requests.requests import ModelRequest, Selection

from .builders import keys_of, requests_for

REQUESTS = list(requests_for(5))
positions = st.lists(st.integers(0, 9), unique=True)


def keys(selection: Sequence[ModelRequest]) -> list[str]:
    return [request.request_key for request in selection]


@given(positions)
def test_a_selection_is_the_chosen_requests_in_the_chosen_order(chosen: list[int]) -> None:
    selection = Selection(REQUESTS, chosen)
    assert list(selection) == [REQUESTS[position] for position in chosen]
    assert len(selection) == len(chosen)


@given(positions, st.slices(10))
def test_a_slice_of_a_selection_is_a_selection_of_the_slice(chosen: list[int], part: slice) -> None:
    part_of_it = Selection(REQUESTS, chosen)[part]
    assert isinstance(part_of_it, Selection)
    assert list(part_of_it) == [REQUESTS[position] for position in chosen][part]


@given(positions, st.sets(st.integers(0, 9)))
def test_without_leaves_the_others_in_their_order(chosen: list[int], answered: set[int]) -> None:
    left = Selection(REQUESTS, chosen).without({REQUESTS[each].request_key for each in answered})
    assert keys(left) == [REQUESTS[each].request_key for each in chosen if each not in answered]


def test_those_that_were_cut_off_get_twice_the_room_and_keep_their_key() -> None:
    selection = Selection(REQUESTS, [3, 1, 4], {1, 2})
    assert [request.params["max_tokens"] for request in selection] == [1024, 2048, 1024]
    assert keys(selection) == [keys_of(5)[each] for each in (3, 1, 4)]
    assert [each.params["max_tokens"] for each in selection[1:]] == [2048, 1024]
    left = selection.without({keys_of(5)[3]})
    assert [each.params["max_tokens"] for each in left] == [2048, 1024]


def test_a_request_is_built_only_when_it_is_looked_at() -> None:
    class Counting(Sequence[ModelRequest]):
        looks = 0

        def __len__(self) -> int:
            return len(REQUESTS)

        @overload
        def __getitem__(self, index: int) -> ModelRequest: ...

        @overload
        def __getitem__(self, index: slice) -> Sequence[ModelRequest]: ...

        def __getitem__(self, index: int | slice) -> ModelRequest | Sequence[ModelRequest]:
            self.looks += 1
            return REQUESTS[index]

    requests = Counting()
    selection = Selection(requests, range(10))[2:8]
    assert len(selection) == 6
    assert requests.looks == 0
    assert selection[0] == REQUESTS[2]
    assert requests.looks == 1
