from dataclasses import replace

import pytest

from tournament_assets.foundation.estimates import Estimate
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import MatchRow
from tournament_assets.trust.evidence import length_gains, marked_responses


def words(*counts: int, pair: tuple[str, str], first: int = 0) -> list[MatchRow]:
    """Matches of two entrants on a prompt each; of a words against three, b always has three."""
    return [
        MatchRow(
            prompt_id=f"p{number}",
            source="s",
            dimension="x",
            entrant_a=pair[0],
            entrant_b=pair[1],
            prompt_text="?",
            response_a=" ".join(["word"] * count),
            response_b="one two three",
        )
        for number, count in enumerate(counts, start=first)
    ]


def gains_of(rows: list[MatchRow], effect: Estimate) -> dict[str, dict[str, float]]:
    return length_gains(make_table(MatchRow, rows), effect, confidence=0.95)


def test_length_gains_the_effect_s_far_end_where_every_difference_is_typical() -> None:
    alike = [*words(*[7] * 9, pair=("ada", "bob"))]
    rewarded = gains_of(alike, Estimate(150.0, 110.0, 190.0))
    assert rewarded == {"ada": {"bob": pytest.approx(190.0)}}
    penalised = gains_of(alike, Estimate(-150.0, -190.0, -110.0))
    assert penalised == {"ada": {"bob": pytest.approx(-190.0)}}


def test_who_differs_in_length_by_chance_alone_gains_nothing() -> None:
    chance = words(7, 1, 7, 1, 7, 1, 3, 3, pair=("ada", "bob"))
    longer = words(7, 9, 7, 8, 7, 9, 7, 9, pair=("cyd", "bob"))
    gains = gains_of([*chance, *longer], Estimate(100.0, 100.0, 100.0))
    assert gains.keys() == {"cyd"}
    # Half the words of a typical pair differ; the interval's far end is beyond that.
    assert 100 < gains["cyd"]["bob"] < 150


def test_the_samples_of_a_prompt_are_one_prompt() -> None:
    once = words(7, 9, 5, 8, 4, pair=("ada", "bob"))
    again = [replace(row, sample=sample) for row in once for sample in (1, 2, 3)]
    effect = Estimate(100.0, 90.0, 120.0)
    assert gains_of(again, effect) == {
        "ada": {"bob": pytest.approx(gains_of(once, effect)["ada"]["bob"])}
    }


def test_no_pair_and_a_single_prompt_say_nothing_of_length() -> None:
    effect = Estimate(100.0, 90.0, 120.0)
    assert gains_of([], effect) == gains_of(words(9, pair=("ada", "bob")), effect) == {}


def test_thoughts_that_were_judged_are_counted_for_each_entrant() -> None:
    rows = words(3, 4, 5, 6, pair=("ada", "bob"))
    rows[1] = replace(rows[1], response_a="<think>Hm.</think> Four")
    rows[2] = replace(rows[2], response_a="[THINK]Hm.[/THINK] Five")
    shares = marked_responses(make_table(MatchRow, [*rows, replace(rows[1], sample=2)]))
    assert (shares["ada"].value, shares["ada"].n) == (3 / 5, 5)
    assert shares["ada"].note == "3 of 5 responses hold <think> and [THINK]"
    assert shares["bob"] == Estimate(0.0, 0.0, 0.0, 5)
