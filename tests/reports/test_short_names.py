import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.reports.run.short_names import short_names
from tournament_assets.tournament.config import MOST_LETTERS


@pytest.mark.parametrize(
    ("ids", "labels", "names"),
    [
        (["ada", "bob"], {}, ["ada", "bob"]),
        (["ada", "bob"], {"bob": "Bob 2"}, ["ada", "Bob 2"]),
        (
            ["olmo2-7b-sft-lr1e-5-step1000-best", "olmo2-7b-sft-lr3e-6-step1000-best"],
            {},
            ["lr1e-5", "lr3e-6"],
        ),
        (
            ["meta-llama-3.1", "meta-llama-3.1-70b-instruct-turbo"],
            {},
            ["3.1", "3.1-70b-instruct-turbo"],
        ),
        (
            ["claude-sonnet-4-5-20250929", "gemini-2.5-flash-lite-preview"],
            {},
            ["claude-sonnet-4…20250929", "gemini-2.5-flas…-preview"],
        ),
        (
            ["a" * 30 + "b" * 30, "a" * 30 + "c" + "b" * 30],
            {},
            ["a" * 19 + "… 1", "a" * 19 + "… 2"],
        ),
    ],
)
def test_an_entrant_is_called_by_its_label_or_by_what_its_id_has_for_itself(
    ids: list[str], labels: dict[str, str], names: list[str]
) -> None:
    assert [*short_names(ids, labels).values()] == names


@given(st.lists(st.from_regex(r"\w[\w.-]{0,60}", fullmatch=True), unique=True, max_size=9))
def test_names_are_short_and_differ(ids: list[str]) -> None:
    names = short_names(ids, {})
    assert [*names] == ids
    assert len({*names.values()}) == len(ids)
    assert all(0 < len(name) <= MOST_LETTERS for name in names.values())
