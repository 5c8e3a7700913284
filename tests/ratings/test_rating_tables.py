import math
from collections.abc import Mapping

import numpy as np
import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.ratings.elo import DIVIDED, NO_MATCH, WON_ALL
from tournament_assets.ratings.intervals import expanded_percentile_interval
from tournament_assets.ratings.matches import Matches, code_judgments, pairwise_winrates
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import BRADLEY_TERRY, rating_rows
from tournament_assets.ratings.rating_tables import anchor_shift, claimed, elo_rows, trace_elo
from tournament_assets.tournament.asset_rows import EloRow, RatingRow
from tournament_assets.tournament.battles import RatingSettings

from .builders import ENTRANTS, outright, simulate_judgments, tie, win

SETTINGS = RatingSettings(k_sweep=(8.0, 16.0), n_permutations=40, n_bootstraps=400)
NAMES = ("ada", "bob", "cyd", "idle")


def tournament(wins: Mapping[tuple[int, int], float], *, n_prompts: int) -> Matches:
    """Return matches where the first of each pair wins its share of the prompts, evenly spread."""
    winners, losers, prompts = [], [], []
    for (first, second), share in wins.items():
        for prompt in range(n_prompts):
            has_won = int((prompt + 1) * share) > int(prompt * share)
            winners.append(first if has_won else second)
            losers.append(second if has_won else first)
            prompts.append(prompt)
    return outright(
        entrants=NAMES,
        prompts=tuple(f"prompt {number:03}" for number in range(n_prompts)),
        winners=np.array(winners),
        losers=np.array(losers),
        prompt_index=np.array(prompts),
    )


def elo(matches: Matches) -> tuple[list[EloRow], list[EloRow]]:
    """Return the rows of the primary K-factor, and the others."""
    rows = elo_rows(matches, trace_elo(matches, SETTINGS), dimension="d", settings=SETTINGS)
    return [row for row in rows if row.is_primary], [row for row in rows if not row.is_primary]


def places(matches: Matches) -> dict[str, RatingRow]:
    """Return the rows of Bradley-Terry, by entrant."""
    evidence = Evidence(matches=matches, settings=SETTINGS, tells_apart=True)
    rows = rating_rows(evidence, [BRADLEY_TERRY], dimension="d")
    return {row.entrant_id: row for row in rows}


def test_places_and_letters_say_who_is_told_apart() -> None:
    rows = places(tournament({(0, 1): 0.5, (0, 2): 0.9, (1, 2): 0.9}, n_prompts=60))
    assert rows["ada"].shown_above == rows["bob"].shown_above == ("cyd",)
    assert rows["cyd"].shown_above == rows["idle"].shown_above == ()
    best_to_worst = {name: (row.rank_best, row.rank_worst) for name, row in rows.items()}
    assert best_to_worst == {"ada": (1, 2), "bob": (1, 2), "cyd": (3, 3), "idle": (None, None)}
    assert [rows[name].rank for name in NAMES] == [1, 1, 3, None]
    assert [rows[name].group for name in NAMES] == ["a", "a", "b", None]


def test_who_never_played_has_no_place_and_a_note() -> None:
    matches = tournament({(0, 1): 0.6, (0, 2): 0.7, (1, 2): 0.6}, n_prompts=30)
    primary, _ = elo(matches)
    (idle,) = [row for row in primary if row.entrant_id == "idle"]
    assert (idle.rank, idle.order_low) == (None, None)
    assert str(idle.note).startswith(NO_MATCH)
    assert {row.note for row in primary if row is not idle} == {None}
    assert (places(matches)["idle"].rank, places(matches)["idle"].low) == (None, None)


def test_whoever_won_everything_has_a_place_and_no_number() -> None:
    matches = tournament({(0, 1): 1.0, (0, 2): 1.0, (1, 2): 0.5}, n_prompts=30)
    primary, others = elo(matches)
    ada = primary[0]
    assert (ada.entrant_id, ada.rank) == ("ada", 1)
    assert ada.note == WON_ALL
    assert {getattr(ada, name) for name in ("mean", "sem", "order_low", "order_high")} == {None}
    assert all(row.mean is None for row in others if row.entrant_id == "ada")
    first = next(iter(places(matches).values()))
    assert (first.entrant_id, first.rank, first.rating) == ("ada", 1, None)
    assert first.shown_above == ("bob", "cyd")


def test_groups_that_never_met_have_no_places_among_one_another() -> None:
    matches = tournament({(0, 1): 0.6, (2, 3): 0.9}, n_prompts=40)
    for row in elo(matches)[0]:
        assert (row.mean, row.rank, row.note) == (None, None, DIVIDED)
    for each in places(matches).values():
        assert (each.rating, each.rank, each.rank_best, each.group) == (None,) * 4
        assert each.shown_above == ()


def test_whom_only_ties_connect_has_no_place_by_elo() -> None:
    # Elo knows no ties: it has nothing to say of cyd, whatever else would tell it from the others.
    judgments = [
        *(tie("cyd", other, f"p{n}") for other in ("ada", "bob") for n in range(40)),
        *(win(*(("ada", "bob") if n % 4 else ("bob", "ada")), f"p{n}") for n in range(40)),
    ]
    matches = code_judgments(judgments, entrants=NAMES)
    ada, bob, *others = elo(matches)[0]
    assert [(row.entrant_id, row.rank) for row in (ada, bob)] == [("ada", 1), ("bob", 2)]
    assert {row.rank for row in others} == {None}
    assert [places(matches)[name].rank for name in NAMES] == [1, 3, 2, None]


@pytest.mark.parametrize(("n_prompts", "is_told"), [(7, False), (8, True)])
def test_whoever_won_everything_is_above_once_that_is_no_luck(
    n_prompts: int, is_told: bool
) -> None:
    # Some pair of six is won throughout 7 prompts by luck in up to 6 / 64 = 9 % of the tournaments.
    everyone = {(0, 1): 1.0, (0, 2): 1.0, (0, 3): 1.0, (1, 2): 0.5, (1, 3): 0.5, (2, 3): 0.5}
    ada = places(tournament(everyone, n_prompts=n_prompts))["ada"]
    assert ada.shown_above == (("bob", "cyd", "idle") if is_told else ())


@pytest.mark.parametrize(("n_prompts", "has_interval"), [(5, False), (6, True)])
def test_a_handful_of_prompts_gives_no_interval(n_prompts: int, has_interval: bool) -> None:
    samples = np.random.default_rng(0).normal(size=(200, 2))
    interval = expanded_percentile_interval(samples, confidence=0.95, n_units=n_prompts)
    assert bool(np.isfinite(interval.low).all()) is has_interval


@pytest.mark.parametrize("sign", [1, -1])
def test_claims_are_told_in_the_order_of_the_names(sign: int) -> None:
    strengths = [2.0 * sign * index for index in range(4)]
    judgments = simulate_judgments(strengths, n_prompts=80, seed=0)
    matches = code_judgments(judgments, entrants=ENTRANTS[::-1])
    found = Evidence(matches=matches, settings=SETTINGS).standings
    for row in claimed(pairwise_winrates(judgments), found):
        assert row.entrant_a < row.entrant_b
        assert row.claim == ("b_better" if sign == 1 else "a_better")
        assert row.difference_low is not None
        assert row.difference is not None
        assert row.difference_high is not None
        assert row.difference_low < row.difference < row.difference_high
        nearer = row.difference_high if sign == 1 else row.difference_low
        assert sign * nearer < 0


def test_two_without_a_place_have_no_claim() -> None:
    judgments = [win("ada", "bob"), win("cyd", "dee")]
    matches = code_judgments(judgments, entrants=ENTRANTS)
    found = Evidence(matches=matches, settings=SETTINGS).standings
    pairs = pairwise_winrates(judgments)
    assert claimed(pairs, found) == pairs


def test_the_named_model_gets_the_named_rating() -> None:
    ratings = {"ada": 1380.0, "bob": 1420.0, "cyd": None}
    shift = anchor_shift(ratings, model="bob", rating=1114.0)
    assert [rating + shift for rating in ratings.values() if rating] == [1074.0, 1114.0]


def test_an_unknown_model_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InputError, match=r"'zoe'.*ada.*cyd"):
        anchor_shift({"ada": 1.0, "cyd": 3.0}, model="zoe", rating=1000.0)


def test_a_model_without_a_rating_and_a_rating_without_a_value_are_refused_together() -> None:
    with pytest.raises(InputError) as raised:
        anchor_shift({"ada": 1.0, "cyd": None}, model="cyd", rating=math.nan)
    assert len(raised.value.problems) == 2
