from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tournament_assets.ledger import Ledger
from tournament_assets.tournament.prompts import GeneratedResponse

from .builders import numbered_keys

FRESH_ENTRANTS = (f"entrant {number}" for number in count())


def test_responses_come_back_whole_in_a_later_process(ledger: Ledger, ledger_url: str) -> None:
    full = GeneratedResponse("p1", "Ja – 5 µg 😀\n", "stop", 7, 12, {"b": [1, None], "a": 0.5})
    bare = GeneratedResponse("p2", "", "recorded")
    ledger.keep_responses("entrant", [("f1", full), ("f2", bare)])
    ledger.close()
    later = Ledger(ledger_url)
    assert later.responses("entrant", ["f1", "f2", "f3"]) == {"f1": full, "f2": bare}
    assert later.responses("another entrant", ["f1", "f2"]) == {}
    later.close()


def test_the_first_response_stays(ledger: Ledger) -> None:
    first, second = (GeneratedResponse("p1", text, "stop") for text in ("first", "second"))
    ledger.keep_responses("entrant", [("f1", first)])
    ledger.keep_responses("entrant", [("f1", second), ("f2", second)])
    assert ledger.responses("entrant", ["f1", "f2"]) == {"f1": first, "f2": second}


def test_a_response_that_no_database_could_store_is_not_lost(ledger: Ledger) -> None:
    broken = GeneratedResponse("p\0", "a \ud83d b\0", "stop\udfff", 1, 2, {"x\0": "\ud800"})
    ledger.keep_responses("entrant", [("f1", broken)])
    assert ledger.responses("entrant", ["f1"])["f1"] == GeneratedResponse(
        "p\ufffd", "a \ufffd b\ufffd", "stop\ufffd", 1, 2, {"x\0": "\ud800"}
    )


def test_more_responses_than_one_query_can_name_are_looked_up(ledger: Ledger) -> None:
    keys = numbered_keys(1201)
    ledger.keep_responses("e", [(key, GeneratedResponse(key, "", "stop")) for key in keys])
    found = ledger.responses("e", iter([*keys, "another"]))
    assert {key: response.prompt_id for key, response in found.items()} == {
        key: key for key in keys
    }


def test_no_responses_are_found_for_no_prompts(ledger: Ledger) -> None:
    ledger.keep_responses("entrant", [])
    assert ledger.responses("entrant", []) == {}


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["f1", "f2", "f3"]),
            st.builds(
                GeneratedResponse,
                prompt_id=st.just("p"),
                text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
                finish_reason=st.sampled_from(["stop", "length"]),
                prompt_tokens=st.none() | st.integers(0, 2**31 - 1),
                response_tokens=st.none() | st.integers(0, 2**31 - 1),
                diagnostics=st.dictionaries(st.text(max_size=3), st.integers() | st.none()),
            ),
        ),
        max_size=6,
    )
)
def test_what_is_kept_is_the_first_response_of_each_prompt(
    ledger: Ledger, responses: list[tuple[str, GeneratedResponse]]
) -> None:
    entrant = next(FRESH_ENTRANTS)
    expected: dict[str, GeneratedResponse] = {}
    for key, response in responses:
        ledger.keep_responses(entrant, [(key, response)])
        expected.setdefault(key, response)
    assert ledger.responses(entrant, ["f1", "f2", "f3"]) == expected
