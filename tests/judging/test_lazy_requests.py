import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.judging.requests.columns import (
    KeyPositions,
    ModelRequest,
    RequestColumns,
    Selection,
    columns_of,
    with_larger_cap,
    with_smaller_cap,
)
from tournament_assets.judging.requests.pairs import PairToJudge, Presentation, build_match_list
from tournament_assets.judging.requests.requests import (
    JudgeRequest,
    JudgeRequests,
    RequestSettings,
    build_user_message,
    by_pair,
)
from tournament_assets.judging.requests.system_prompt import judge_system_prompt
from tournament_assets.judging.requests.verdict_parsing import VERDICT_SCHEMA
from tournament_assets.tournament.prompts import Prompt, answer_key

from .builders import PAIR, RUBRIC, SETTINGS, keys_of, params_of, requests_for

STRUCTURED = replace(SETTINGS, reply_format="json_schema")


class Watched(Sequence[PairToJudge]):
    """Pairs that notice how often they are looked at."""

    def __init__(self, pairs: Sequence[PairToJudge]) -> None:
        self._pairs = pairs
        self.looks = 0

    def __len__(self) -> int:
        return len(self._pairs)

    @overload
    def __getitem__(self, index: int) -> PairToJudge: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[PairToJudge]: ...

    def __getitem__(self, index: int | slice) -> PairToJudge | Sequence[PairToJudge]:
        self.looks += 1
        return self._pairs[index]


def slow_keys(pairs: Sequence[PairToJudge]) -> Iterator[str]:
    """Compute every key at once, in the most obvious way."""
    for pair in pairs:
        for presentation in (Presentation.AB, Presentation.BA):
            user = build_user_message(pair, presentation, SETTINGS)
            yield fingerprint(params_of(user))


pairs = st.lists(
    st.builds(
        replace,
        st.just(PAIR),
        prompt_text=st.text(max_size=20),
        response_a=st.text(max_size=20),
        response_b=st.text(max_size=20),
        gold_answer=st.none() | st.text(max_size=5),
    ),
    max_size=4,
)


@given(pairs)
def test_the_keys_are_those_of_a_slow_and_obvious_computation(pairs: list[PairToJudge]) -> None:
    requests = JudgeRequests(pairs, RUBRIC, SETTINGS)
    expected = list(slow_keys(pairs))
    assert [request.request_key for request in requests] == expected
    # Once more: now the keys are remembered.
    assert [request.request_key for request in requests] == expected
    assert [fingerprint(request.params) for request in requests] == expected


@given(st.integers(0, 4), st.slices(10))
def test_a_slice_is_the_list_of_its_requests(n_pairs: int, part: slice) -> None:
    requests = requests_for(n_pairs)
    assert requests[part] == list(requests)[part]


def test_positions_count_from_either_end_and_no_further() -> None:
    requests = requests_for(2)
    assert len(requests) == 4
    assert requests[-1] == requests[3]
    for position in (4, -5):
        with pytest.raises(IndexError):
            requests[position]


def test_no_pairs_make_no_requests() -> None:
    assert len(JudgeRequests([], RUBRIC, SETTINGS)) == 0
    assert list(JudgeRequests([], RUBRIC, SETTINGS)) == []


@given(
    pairs,
    st.builds(
        replace,
        st.just(SETTINGS),
        reply_format=st.sampled_from(("line", "json_schema")),
        temperature=st.none() | st.just(0.5),
        breaks_templates=st.booleans(),
        shows_gold_answer=st.booleans(),
        shows_expected_behavior=st.booleans(),
        further=st.just({}) | st.just({"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        identity=st.just({}) | st.just({"service": "http://127.0.0.1:1"}),
    ),
    st.text('\ud800\x00"\\é<|im_start|>think/\n', max_size=40),
)
def test_columns_are_those_of_the_requests_built_one_by_one(
    pairs: list[PairToJudge], settings: RequestSettings, strange: str
) -> None:
    pairs = [*pairs, replace(PAIR, response_b=strange, expected_behavior=strange)]
    requests = JudgeRequests(pairs, RUBRIC, settings)
    identity = settings.identity
    built = [
        replace(
            each,
            request_key=fingerprint(
                {**identity, "params": each.params} if identity else each.params
            ),
        )
        for each in requests
    ]
    quick, slow = requests.columns, columns_of(built)
    for name in RequestColumns.__slots__:
        assert getattr(quick, name).tolist() == getattr(slow, name).tolist()
    assert [each.request_key for each in built] == list(quick.keys())


def test_the_columns_of_a_selection_are_those_of_its_requests() -> None:
    chosen = Selection(REQUESTS, [3, 1, 4], {1, 2})
    for selection in (chosen, chosen.capped(300), chosen[1:].capped(5000)):
        quick, slow = selection.columns, columns_of(list(selection))
        assert quick.caps.tolist() == slow.caps.tolist()
        assert list(quick.keys()) == list(slow.keys())
        assert ((quick.sizes >= slow.sizes) & (quick.sizes <= slow.sizes + 2)).all()


def test_a_request_is_built_only_when_it_is_looked_at() -> None:
    watched = Watched([PAIR] * 5)
    requests = JudgeRequests(watched, RUBRIC, SETTINGS)
    assert len(requests) == 10
    assert watched.looks == 0
    first = list(requests.columns.keys())
    # Iterating ends where the sequence does, with one look too many.
    assert watched.looks == 6
    assert requests[7].prompt_id == "p1"
    assert watched.looks == 7
    assert list(requests.columns.keys()) == first == [each.request_key for each in requests[:]]
    assert watched.looks == 17


def test_of_many_requests_only_the_keys_are_kept_and_as_bytes() -> None:
    n_pairs, length = 300, 10_000
    long = [replace(PAIR, prompt_text=f"{number}" + "x" * length) for number in range(n_pairs)]
    KeyPositions([])  # what this imports is not counted
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    requests = JudgeRequests(long, RUBRIC, SETTINGS)
    for request in requests:
        assert request.request_key
    kept = tracemalloc.get_traced_memory()[0] - before
    positions = KeyPositions(requests)
    found = tracemalloc.get_traced_memory()[0] - before - kept
    tracemalloc.stop()
    # The requests themselves would be 2 * 300 * 20 KB: the system prefix and the prompt. A key as
    # a text takes 113 bytes, and its place in a dictionary as many again.
    assert kept < 2 * n_pairs * 100
    assert found < 2 * n_pairs * 100
    assert len(positions) == 2 * n_pairs


@given(st.lists(st.integers(0, 9), max_size=30))
def test_each_different_request_is_found_where_it_stands_first(chosen: list[int]) -> None:
    distinct = list(requests_for(5))
    requests = [distinct[number] for number in chosen]
    expected: dict[str, int] = {}
    for position, request in enumerate(requests):
        expected.setdefault(request.request_key, position)
    positions = KeyPositions(requests)
    assert list(positions.items()) == list(expected.items())
    assert all((each.request_key in positions) == (each in requests) for each in distinct)


def test_digests_that_begin_alike_are_told_apart() -> None:
    keys = ["0" * 16 + f"{number:048x}" for number in (7, 2, 7, 5)]
    requests = [ModelRequest(key, {"model": "m", "max_tokens": 1, "messages": []}) for key in keys]
    assert dict(KeyPositions(requests)) == {keys[0]: 0, keys[1]: 1, keys[3]: 3}
    with pytest.raises(KeyError):
        KeyPositions(requests)["0" * 64]


def test_all_requests_share_one_system_prefix() -> None:
    first, second, *_ = requests_for(2)
    assert first.params["system"] is second.params["system"]


def test_a_judge_that_answers_in_json_is_told_so_and_held_to_the_schema() -> None:
    request, plain = (JudgeRequests([PAIR], RUBRIC, each)[0] for each in (STRUCTURED, SETTINGS))
    assert request.params["output_config"] == {
        "format": {"type": "json_schema", "schema": VERDICT_SCHEMA}
    }
    system: Any = request.params["system"]
    assert system[0]["text"].startswith(judge_system_prompt("json_schema").strip())
    assert request.params["messages"] == plain.params["messages"]
    assert request.request_key == fingerprint(request.params) != plain.request_key
    assert "output_config" not in plain.params


def test_a_question_with_more_room_keeps_its_key_and_everything_else() -> None:
    request = requests_for(1)[0]
    larger = with_larger_cap(request)
    assert larger.request_key == request.request_key
    assert larger.params == {**request.params, "max_tokens": 2048}
    assert request.params["max_tokens"] == 1024
    smaller = with_smaller_cap(request, 300)
    assert (smaller.request_key, smaller.params["max_tokens"]) == (request.request_key, 300)
    assert with_smaller_cap(request, 3000).params == request.params
    # Thinking has its own budget, which services want to be below the cap.
    thinking: Any = {**larger.params, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert with_smaller_cap(replace(larger, params=thinking), 300).params["max_tokens"] == 1324


def test_requests_are_a_sequence_like_any_other() -> None:
    requests = requests_for(2)
    assert isinstance(requests, JudgeRequests)
    assert requests[2] in requests
    assert requests.index(requests[2]) == 2
    assert [each.prompt_id for each in reversed(requests)] == ["p1", "p1", "p0", "p0"]
    assert all(isinstance(each, JudgeRequest) for each in requests)


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


def test_a_selection_looks_at_a_request_only_when_it_is_looked_at_itself() -> None:
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


def test_pairs_that_are_made_anew_are_known_by_what_they_are() -> None:
    bank = [Prompt(f"p{number}", "?", "recall") for number in range(2)]
    responses = {(each, answer_key(prompt)): each for each in "abc" for prompt in bank}
    pairs = build_match_list(bank, responses, entrants="abc").pairs
    requests = [JudgeRequests(part, RUBRIC, SETTINGS) for part in (pairs, pairs[1::2])]
    shown = [(each.prompt_id, each.entrant_a, each.entrant_b) for each in by_pair(pairs, requests)]
    assert len(shown) == sum(map(len, requests)) == 2 * (6 + 3)
    assert shown[:2] == [("p0", "a", "b")] * 2
    assert shown[2:6] == [("p0", "a", "c")] * 4
