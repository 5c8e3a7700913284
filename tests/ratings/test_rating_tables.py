import math
from collections.abc import Mapping

import numpy as np
import pytest

from tournament_assets.ratings.elo import DIVIDED, NO_MATCH, WON_ALL
from tournament_assets.ratings.intervals import expanded_percentile_interval
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.ratings.rating_tables import anchor_shift, elo_rows, trace_elo
from tournament_assets.tournament.asset_rows import EloRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.errors import InputError

from .builders import outright, tie, win

SETTINGS = RatingSettings(k_sweep=(8.0, 16.0), n_permutations=40, n_bootstraps=400)
NAMES = ("ada", "bob", "cyd", "idle")


def rate(
    wins: Mapping[tuple[int, int], float], *, n_prompts: int
) -> tuple[list[EloRow], list[EloRow]]:
    """Rate matches where the first of each pair wins its share of the prompts, evenly spread.

    Returns:
        The rows of the primary K-factor, and the others.
    """
    winners, losers, prompts = [], [], []
    for (first, second), share in wins.items():
        for prompt in range(n_prompts):
            has_won = int((prompt + 1) * share) > int(prompt * share)
            winners.append(first if has_won else second)
            losers.append(second if has_won else first)
            prompts.append(prompt)
    matches = outright(
        entrants=NAMES,
        prompts=tuple(f"prompt {number:03}" for number in range(n_prompts)),
        winners=np.array(winners),
        losers=np.array(losers),
        prompt_index=np.array(prompts),
    )
    traces = trace_elo(matches, SETTINGS)
    rows = elo_rows(matches, traces, dimension="d", settings=SETTINGS)
    return [row for row in rows if row.is_primary], [row for row in rows if not row.is_primary]


def test_places_and_letters_say_who_is_told_apart() -> None:
    primary, others = rate({(0, 1): 0.5, (0, 2): 0.9, (1, 2): 0.9}, n_prompts=60)
    by_name = {row.entrant_id: row for row in primary}
    assert set(by_name["ada"].shown_above) == {"cyd"}
    assert by_name["cyd"].shown_above == ()
    places = {name: (row.rank_best, row.rank_worst) for name, row in by_name.items()}
    assert places == {"ada": (1, 2), "bob": (1, 2), "cyd": (3, 3), "idle": (None, None)}
    assert by_name["ada"].group == by_name["bob"].group == "a"
    assert by_name["cyd"].group == "b"
    assert all(row.shown_above == () and row.group is None for row in others)


def test_who_never_played_has_no_place_and_a_note() -> None:
    primary, _ = rate({(0, 1): 0.6, (0, 2): 0.7, (1, 2): 0.6}, n_prompts=30)
    (idle,) = [row for row in primary if row.entrant_id == "idle"]
    assert idle.sampling_low is None
    assert idle.group is None
    assert str(idle.note).startswith(NO_MATCH)
    assert {row.note for row in primary if row is not idle} == {None}


def test_whoever_won_everything_has_a_place_and_no_number() -> None:
    primary, others = rate({(0, 1): 1.0, (0, 2): 1.0, (1, 2): 0.5}, n_prompts=30)
    ada = primary[0]
    assert (ada.entrant_id, ada.rank) == ("ada", 1)
    assert ada.note == WON_ALL
    assert ada.shown_above == ("bob", "cyd")
    numbers = ("mean", "sem", "order_low", "order_high", "sampling_low", "sampling_high")
    assert {getattr(ada, name) for name in numbers} == {None}
    assert all(row.mean is None for row in others if row.entrant_id == "ada")


def test_groups_that_never_met_have_no_places_among_one_another() -> None:
    apart, _ = rate({(0, 1): 0.6, (2, 3): 0.9}, n_prompts=40)
    for row in apart:
        assert (row.mean, row.rank, row.rank_best, row.group) == (None,) * 4
        assert row.shown_above == ()
        assert row.note == DIVIDED


def test_whom_only_ties_connect_has_no_place() -> None:
    # Elo knows no ties: it has nothing to say of cyd, whatever else would tell it from the others.
    judgments = [
        *(tie("cyd", other, f"p{n}") for other in ("ada", "bob") for n in range(40)),
        *(win(*(("ada", "bob") if n % 4 else ("bob", "ada")), f"p{n}") for n in range(40)),
    ]
    matches = code_judgments(judgments, entrants=NAMES)
    rows = elo_rows(matches, trace_elo(matches, SETTINGS), dimension="d", settings=SETTINGS)
    ada, bob, *others = [row for row in rows if row.is_primary]
    assert (ada.rank_worst, ada.shown_above, bob.rank_best) == (1, ("bob",), 2)
    for row in others:
        assert (row.rank_best, row.group) == (None, None)


@pytest.mark.parametrize(("n_prompts", "is_told"), [(7, False), (8, True)])
def test_whoever_won_everything_is_above_once_that_is_no_luck(
    n_prompts: int, is_told: bool
) -> None:
    # Some pair of six is won throughout 7 prompts by luck in up to 6 / 64 = 9 % of the tournaments.
    everyone = {(0, 1): 1.0, (0, 2): 1.0, (0, 3): 1.0, (1, 2): 0.5, (1, 3): 0.5, (2, 3): 0.5}
    primary, _ = rate(everyone, n_prompts=n_prompts)
    (ada,) = [row for row in primary if row.entrant_id == "ada"]
    assert ada.shown_above == (("bob", "cyd", "idle") if is_told else ())


@pytest.mark.parametrize(("n_prompts", "has_interval"), [(5, False), (6, True)])
def test_a_handful_of_prompts_gives_no_interval(n_prompts: int, has_interval: bool) -> None:
    samples = np.random.default_rng(0).normal(size=(200, 2))
    interval = expanded_percentile_interval(samples, confidence=0.95, n_units=n_prompts)
    assert bool(np.isfinite(interval.low).all()) is has_interval
    primary, _ = rate({(0, 1): 0.5, (0, 2): 0.7, (1, 2): 0.5}, n_prompts=n_prompts)
    (ada,) = [row for row in primary if row.entrant_id == "ada"]
    assert (ada.sampling_low is not None) is has_interval


def test_the_named_model_gets_the_named_rating() -> None:
    ratings = [1380.0, 1420.0, None]
    shift = anchor_shift(NAMES[:3], ratings, model="bob", rating=1114.0)
    assert [rating + shift for rating in ratings if rating is not None] == [1074.0, 1114.0]


def test_an_unknown_model_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InputError, match=r"'zoe'.*'ada'.*'cyd'"):
        anchor_shift(NAMES[:3], [1.0, 2.0, 3.0], model="zoe", rating=1000.0)


def test_a_model_without_a_rating_and_a_rating_without_a_value_are_refused_together() -> None:
    with pytest.raises(InputError) as raised:
        anchor_shift(NAMES[:3], [1.0, 2.0, None], model="cyd", rating=math.nan)
    assert len(raised.value.problems) == 2
