"""Counts of battles against a slow, obvious reference, against drawn prompts, and in parts."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.simulated_tournaments import Design, draw_tournament
from tests.battles.builders import any_battles, fight, problems_of
from tournament_assets.battles import counts as counting
from tournament_assets.battles.columns import make_battle_table
from tournament_assets.battles.counts import (
    BattleCounts,
    BattlePool,
    UncountableError,
    hashes_of,
)
from tournament_assets.battles.rating import rate_battles, rate_table
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import ResampledWins, rate_resamples
from tournament_assets.ratings.intervals import sampling_intervals
from tournament_assets.ratings.matches import Matches
from tournament_assets.reports.claims import pair_records
from tournament_assets.tournament.battles import Battle, RatingSettings

FEW = Resampling(7, 3)
_WORD = 2**64 - 1


def count(
    *files: Sequence[Battle],
    resampling: Resampling = FEW,
    preferences: str = "winner",
    at_once: int = 2,
    counts_from: int | None = 0,
    keeps: bool = False,
) -> BattlePool:
    """Count the battles of files, each in parts."""
    pool = BattlePool(resampling, preferences, keeps=keeps, counts_from=counts_from)
    for file in files:
        for place in range(0, len(file), at_once):
            part = make_battle_table(file[place : place + at_once])
            pool.add(part, begins_file=place == 0)
    return pool


def counts_of(pool: BattlePool, dimension: str | None = None) -> BattleCounts:
    counts = pool.of(dimension)
    assert counts is not None
    return counts


def plainly(battles: list[Battle]) -> list[Battle]:
    return [replace(each, weight=1.0) for each in battles]


countable = any_battles().map(plainly)


def mixed(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)


def hash_of(text: str) -> int:
    """Hash as the kernel should, with Python's own integers."""
    content, step = text.encode(), 0x9E3779B97F4A7C15
    value = mixed(len(content) * step & _WORD)
    for here in range(0, len(content), 8):
        word = int.from_bytes(content[here : here + 8], "little")
        value = mixed(((value ^ word) + step) & _WORD)
    return value


def weights_of(value: int, resampling: Resampling) -> list[int]:
    """Look the weights of a prompt up, one resample after the other."""
    step = 0x9E3779B97F4A7C15
    seed = hash_of(f"{counting.SCHEME}, seed {resampling.seed}")
    weights = []
    for resample in range(resampling.n):
        quantile = 0
        for place in range(8):
            number = (resample * 8 + place) * 256 + (value >> 8 * place & 255)
            word = mixed(seed + (number // 4 + 1) * step & _WORD)
            quantile ^= word >> 16 * (number % 4) & 0xFFFF
        chances = (24_109, 48_219, 60_273, 64_292, 65_296, 65_497, 65_531, 65_535)
        weights.append(sum(quantile >= chance for chance in chances))
    return weights


@settings(deadline=None, max_examples=30)
@given(countable)
def test_counts_are_the_battles_weighted_one_after_the_other(battles: list[Battle]) -> None:
    battles = [replace(each, question_id=each.question_id or "some") for each in battles]
    counted = count(battles)
    assert counted.n_battles == len(battles)
    for dimension in counted.tallies:
        counts = counts_of(counted, dimension)
        chosen = [each for each in battles if each.dimension == dimension]
        resampled = counts.resampled(0.95)
        names = sorted({name for each in chosen for name in (each.model_a, each.model_b)})
        assert resampled.entrants == tuple(names)
        expected = np.zeros((1 + FEW.n, len(names), len(names)))
        for battle in chosen:
            sides = names.index(battle.model_a), names.index(battle.model_b)
            weights = [1, *weights_of(hash_of(str(battle.question_id)), FEW)]
            for ahead, behind, gain in ((*sides, "model_a"), (*sides[::-1], "model_b")):
                share = 0.5 if battle.is_tie else float(battle.winner == gain)
                expected[:, ahead, behind] += share * np.array(weights)
        np.testing.assert_array_equal(resampled.wins, expected[0])
        np.testing.assert_array_equal(resampled.start()(FEW.n), expected[1:])
        draw = resampled.start()
        np.testing.assert_array_equal(np.concatenate([draw(3), draw(4)]), expected[1:])
        assert counts.n_prompts == len({each.question_id for each in chosen})


@given(st.lists(st.text(max_size=40), min_size=1, max_size=5), st.integers(0, 4))
def test_a_text_is_hashed_alike_wherever_it_stands(texts: list[str], start: int) -> None:
    texts = [text.encode(errors="ignore").decode() for text in texts]
    hashes = hashes_of(pa.array(texts, pa.string()).slice(start))
    assert hashes.tolist() == [hash_of(text) for text in texts[start:]]


@settings(deadline=None, max_examples=20)
@given(st.lists(countable, min_size=1, max_size=3), st.data())
def test_counts_of_days_add_up_to_those_of_the_whole_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[Battle]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("counts")
    count(*files).save(folder / "whole")
    added = BattlePool(FEW, "winner", counts_from=0)
    for place in data.draw(st.permutations(range(len(files)))):
        count(files[place]).save(folder / str(place))
        added.add_file(folder / str(place))
    added.save(folder / "added")
    assert (folder / "added").read_bytes() == (folder / "whole").read_bytes()


@pytest.mark.parametrize("changes", [{"seed": 4}, {"n": 8}], ids=str)
def test_counts_of_another_seed_or_number_of_resamples_are_refused(
    tmp_path: Path, changes: dict[str, int]
) -> None:
    path = tmp_path / "counts"
    count([fight()]).save(path)
    (problem,) = problems_of(lambda: BattlePool(replace(FEW, **changes), "winner").add_file(path))
    assert "count the battles again" in problem
    path.write_bytes(path.read_bytes()[:-40])
    (problem,) = problems_of(lambda: BattlePool(FEW, "winner").add_file(path))
    assert "cannot be read as counts" in problem


@pytest.mark.parametrize("name", ["0/pairs", "0/ties", "0/sums", "a compressed file", "a pipe"])
def test_a_file_of_counts_that_somebody_else_has_written_is_refused(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "counts.npz"
    count([fight()]).save(path)
    with np.load(path, allow_pickle=False) as file:
        arrays = {each: file[each] for each in file.files}
    path.unlink()
    if name == "a pipe":
        os.mkfifo(path)
    elif name in arrays:
        arrays[name] = -1 - arrays[name]
        np.savez(path, **arrays)
    else:
        np.savez_compressed(path, **arrays)
    counted = BattlePool(FEW, "winner")
    (problem,) = problems_of(lambda: counted.add_file(path))
    assert "cannot be read as counts" in problem
    assert not counted.n_battles


@pytest.mark.parametrize(
    "battle", [fight(weight=2.0), fight(sample=2), fight("tie", pref=0.4)], ids=repr
)
def test_only_battles_that_are_won_lost_or_tied_outright_are_counted(battle: Battle) -> None:
    with pytest.raises(UncountableError):
        count([fight(), battle], preferences="share")


@pytest.mark.parametrize(
    ("largest", "kind"), [(8, np.uint16), (2**14, np.int32), (2**29, np.int64)]
)
def test_sums_take_the_bits_that_the_largest_may_need(
    largest: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    battles = [fight(question_id="q"), fight("tie", question_id="p")] * 3
    expected = counts_of(count(battles)).resampled(0.95).start()(FEW.n)
    monkeypatch.setattr(counting, "_LARGEST_WEIGHT", largest)
    counts = counts_of(count(battles))
    assert counts._sums.dtype == kind
    np.testing.assert_array_equal(counts.resampled(0.95).start()(FEW.n), expected)


def test_prompts_beyond_the_most_are_not_told_apart_alike_in_parts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(counting, "MOST_PROMPTS", 4)
    battles = [fight(question_id=f"q{number % 6}") for number in range(12)]
    assert (counts_of(count(battles)).n_prompts, counts_of(count(battles[:4])).n_prompts) == (4, 4)
    assert not counts_of(count(battles[:4])).has_more_prompts
    for files in ([battles], [battles[:3], battles[3:]], [battles[:4], battles[4:8], battles[8:]]):
        pool = BattlePool(FEW, "winner")
        for number, file in enumerate(files):
            count(file).save(tmp_path / f"{len(files)} {number}")
            pool.add_file(tmp_path / f"{len(files)} {number}")
        pool.save(tmp_path / f"{len(files)}")
        assert counts_of(pool).has_more_prompts
    assert len({(tmp_path / str(n)).read_bytes() for n in (1, 2, 3)}) == 1


def test_weights_are_those_of_poisson_and_of_any_three_prompts_independent() -> None:
    n = 20_000
    tables = counting._random_tables(n, 5)
    hashes = np.array([hash_of(f"prompt {number}") for number in range(24)], dtype=np.uint64)
    weights = np.array([weights_by_tables(tables, int(value)) for value in hashes], dtype=float)
    error = 5 / np.sqrt(n)
    np.testing.assert_allclose(weights.mean(axis=1), 1.0, atol=error)
    np.testing.assert_allclose(weights.var(axis=1), 1.0, atol=2 * error)
    centred = weights - 1
    assert np.abs(np.corrcoef(weights) - np.eye(len(weights))).max() < error
    for a, b, c in itertools.islice(itertools.combinations(centred, 3), 500):
        assert abs((a * b * c).mean()) < 2 * error


def weights_by_tables(tables: NDArray[np.uint16], value: int) -> NDArray[np.int64]:
    quantile = np.bitwise_xor.reduce(
        [tables[place, value >> 8 * place & 255] for place in range(8)]
    )
    chances = [24_109, 48_219, 60_273, 64_292, 65_296, 65_497, 65_531, 65_535]
    return np.asarray(np.searchsorted(chances, quantile, side="right"), dtype=np.int64)


def as_battles(matches: Matches) -> list[Battle]:
    winners = {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}
    return [
        fight(
            winners[preference],
            model_a=matches.entrants[first],
            model_b=matches.entrants[second],
            question_id=matches.prompts[prompt],
        )
        for first, second, prompt, preference in zip(
            matches.first, matches.second, matches.prompt_index, matches.preference, strict=True
        )
    ]


@pytest.mark.parametrize(
    "design",
    [
        Design(400, 0.0),
        Design(120, 2.0),
        Design(150, 1.0, undecided=0.7),
        Design(400, 0.5, missing=0.9),
    ],
    ids=["independent", "clusters", "ties", "sparse"],
)
def test_intervals_are_as_wide_as_those_of_drawn_prompts_and_ratings_equal(design: Design) -> None:
    matches = draw_tournament(design, np.random.default_rng(8))
    resampling = Resampling(4_000, 0, 0.9)
    counts = counts_of(count(as_battles(matches), resampling=resampling, at_once=9_999))

    def widths(tables: ResampledWins) -> NDArray[np.float64]:
        intervals = sampling_intervals(rate_resamples(tables), confidence=0.9)
        return np.array([(each.high or 0.0) - (each.low or 0.0) for each in intervals])

    drawn, weighted = ResampledWins.of(matches, resampling), counts.resampled(0.9)
    np.testing.assert_array_equal(weighted.wins, drawn.wins)
    ratio = widths(weighted) / widths(drawn)
    assert ratio.mean() == pytest.approx(1.0, abs=0.03)
    assert ratio == pytest.approx(np.ones(ratio.size), abs=0.06)


def test_many_battles_are_rated_alike_kept_and_counted() -> None:
    battles = as_battles(draw_tournament(Design(30, 0.5), np.random.default_rng(1)))
    chosen = RatingSettings(n_bootstraps=50, n_permutations=3)
    alone, beside_elo = (
        count(battles, resampling=chosen.resampling, at_once=500, counts_from=100, keeps=keeps)
        for keeps in (False, True)
    )
    assert alone.table is None
    by_counts = ["bradley-terry", "davidson"]
    (counted,) = rate_battles(alone, settings=chosen, methods=by_counts, pairs=True)
    (both,) = rate_battles(beside_elo, settings=chosen, methods=[*by_counts, "elo"], pairs=True)
    assert both.elo
    assert counted.by("bradley_terry") == both.by("bradley_terry")
    (drawn,) = rate_table(
        make_battle_table(battles), settings=chosen, methods=by_counts, pairs=True
    )
    for rated in (counted, both):
        assert rated.by("davidson") == drawn.by("davidson")
        assert (rated.counts, rated.win_rates) == (drawn.counts, drawn.win_rates)
        records = [pair_records(each.pairs) for each in (rated, drawn)]
        assert records[0] == records[1]
    points = [[row.rating for row in each.by("bradley_terry")] for each in (drawn, counted)]
    assert points[0] == points[1]
    assert drawn.by("bradley_terry") != counted.by("bradley_terry")
