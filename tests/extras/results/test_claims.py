"""Claims about scores: against exact tests, and among equals."""

import json
import os
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from scipy.stats import binomtest, bootstrap, ttest_rel

from tournament_assets.cli import main
from tournament_assets.extras.results.claims import Claims, claim_scores
from tournament_assets.extras.results.reading import ResultOptions, ScoreTable, read_results
from tournament_assets.extras.results.run_readers import run_of_results
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.ratings.matches import code_judgments, pairwise_winrates
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.reports.claims import pair_records
from tournament_assets.tournament.asset_rows import LeaderboardRow
from tournament_assets.tournament.battles import RatingSettings

SWE_BENCH = (396, 396, 394, 388, 387, 384, 384, 382, 378, 320)
"""How many of 500 items the first ten of a public leaderboard resolved."""
SETTINGS = RatingSettings()


def table_of(
    values: NDArray[np.float64], *, groups: Sequence[int] = (), lower_is_better: bool = False
) -> ScoreTable:
    systems = tuple(f"s{column}" for column in range(values.shape[1]))
    places = np.array(groups or range(len(values)))
    return ScoreTable("score", systems, values.astype(float), places, lower_is_better, ())


def claims_of(values: NDArray[np.float64], **about: object) -> Claims:
    return claim_scores(table_of(values, **about), SETTINGS)  # type: ignore[arg-type]


def width(of: Estimate | LeaderboardRow) -> float:
    assert of.low is not None
    assert of.high is not None
    return of.high - of.low


def better_pairs(claims: Claims) -> set[tuple[str, str]]:
    return {(row.entrant_id, below) for row in claims.board.rows for below in row.shown_above}


def drawn_like(counts: Sequence[int], *, n_items: int, seed: int) -> NDArray[np.float64]:
    """Draw scores of 0 and 1 with these sums; what is hard for one system is hard for others."""
    generator = np.random.default_rng(seed)
    ease = generator.normal(size=n_items)
    scores = np.zeros((n_items, len(counts)))
    for column, count in enumerate(counts):
        order = np.argsort(-(ease + generator.normal(size=n_items)))
        scores[order[:count], column] = 1
    return scores


def test_nine_of_ten_submissions_that_are_close_share_the_places_above_the_tenth() -> None:
    for seed in range(5):
        claims = claims_of(drawn_like(SWE_BENCH, n_items=500, seed=seed))
        assert [row.places for row in claims.board.rows] == ["1–9"] * 9 + ["10"]
        assert claims.board.rows[-1].entrant_id == "s9"


def drawn_tables(n_tables: int, *, seed: int) -> Iterator[NDArray[np.float64]]:
    """Draw tables of 0 and 1 of 2 to 10 systems, alike and apart, on items easy and hard."""
    generator = np.random.default_rng(seed)
    for _ in range(n_tables):
        n_systems, n_items = generator.integers(2, 11), generator.choice([50, 100, 200, 500])
        ease = generator.normal(0, generator.choice([0.5, 1.5, 3.0]), size=(n_items, 1))
        skill = generator.normal(0, generator.choice([0.0, 0.2, 0.5]), size=n_systems)
        chance = 1 / (1 + np.exp(-ease - skill))
        yield (generator.random((n_items, n_systems)) < chance).astype(float)


def exactly_better(counts: Sequence[tuple[int, int]]) -> list[bool]:
    """Return which pairs McNemar's exact test decides, by wins and losses, all by Holm's method."""
    chances = [binomtest(won, won + lost).pvalue if won + lost else 1.0 for won, lost in counts]
    decided = [False] * len(counts)
    for rank, index in enumerate(np.argsort(chances)):
        if chances[index] > 0.05 / (len(counts) - rank):
            break
        decided[index] = True
    return decided


def is_near_the_limit(counts: Sequence[tuple[int, int]], index: int) -> bool:
    """Return whether the exact test decides otherwise with two items more for one of the two."""
    now, (won, lost) = exactly_better(counts)[index], counts[index]
    moves = [(w, lo) for w in range(-2, 3) for lo in range(-2, 3) if max(abs(w), abs(lo)) <= 2]
    return any(
        exactly_better([*counts[:index], (won + w, lost + lo), *counts[index + 1 :]])[index] != now
        for w, lo in moves
        if won + w >= 0 and lost + lo >= 0
    )


@pytest.mark.parametrize(
    "n_tables", [60, pytest.param(2_000, marks=[pytest.mark.e2e, pytest.mark.timeout(1200)])]
)
def test_who_is_better_agrees_with_exact_tests_of_every_two(n_tables: int) -> None:
    n_pairs, n_agreed, n_far = 0, 0, 0
    for scores in drawn_tables(n_tables, seed=1):
        pairs = [*combinations(range(scores.shape[1]), 2)]
        leads = [scores[:, a] - scores[:, b] for a, b in pairs]
        counts = [(int((lead > 0).sum()), int((lead < 0).sum())) for lead in leads]
        decided = {frozenset(two) for two in better_pairs(claims_of(scores))}
        for index, ((a, b), expected) in enumerate(zip(pairs, exactly_better(counts), strict=True)):
            is_equal = (frozenset((f"s{a}", f"s{b}")) in decided) == expected
            n_pairs += 1
            n_agreed += is_equal
            n_far += not is_equal and not is_near_the_limit(counts, index)
    assert n_agreed >= 0.98 * n_pairs
    # Holm's later steps are looser than joint intervals, whose quantile is drawn.
    assert n_far <= n_pairs / 1000


@pytest.mark.parametrize(
    "n_tables", [60, pytest.param(int(os.environ.get("EQUALS", "500")), marks=pytest.mark.e2e)]
)
def test_equals_are_rarely_said_to_differ(n_tables: int) -> None:
    generator = np.random.default_rng(2)
    n_false = 0
    for _ in range(n_tables):
        n_systems, n_items = generator.integers(2, 11), generator.choice([100, 200, 500])
        chance = generator.beta(1, 1, size=(n_items, 1))
        scores = (generator.random((n_items, n_systems)) < chance).astype(float)
        n_false += bool(better_pairs(claims_of(scores)))
    assert n_false / n_tables <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n_tables)


@pytest.mark.parametrize("lower_is_better", [False, True])
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_two_systems_compare_as_by_a_paired_t_test_and_a_bootstrap(
    scale: float, lower_is_better: bool
) -> None:
    generator = np.random.default_rng(3)
    n_agreed = 0
    for _ in range(40):
        ease = generator.normal(size=(150, 1))
        scores = scale * (ease + generator.normal(0, 1, size=(150, 2)))
        scores[:, 0] += scale * generator.uniform(0, 0.5)
        claims = claims_of(scores, lower_is_better=lower_is_better)
        (pair,), (lead,) = claims.board.pairs.values(), claims.leads.values()
        upper, lower = (scores[:, int(name[1:])] for name in (pair.upper, pair.lower))
        better, worse = (lower, upper) if lower_is_better else (upper, lower)
        test = ttest_rel(better, worse)
        n_agreed += (pair.claim == "better") == (test.pvalue < 0.05)
        drawn = bootstrap((better - worse,), np.mean, rng=0, n_resamples=2_000).confidence_interval
        error = test.df**-0.5 * np.std(better - worse)
        assert lead.value == pytest.approx((better - worse).mean())
        for found, *expected in (
            (lead.low, test.confidence_interval().low, drawn.low),
            (lead.high, test.confidence_interval().high, drawn.high),
        ):
            assert found == pytest.approx(expected[0], abs=0.3 * error)
            assert found == pytest.approx(expected[1], abs=0.4 * error)
        assert claims.means[pair.upper] == pytest.approx(upper.mean())
    assert n_agreed >= 38


def test_scores_are_rated_as_the_settled_pairs_that_a_gate_is_held_on(tmp_path: Path) -> None:
    for scores in drawn_tables(10, seed=4):
        scores[::7, 0] = np.nan
        path = tmp_path / "scores.csv"
        cells = [[f"i{n}", f"g{n // 4}", *row] for n, row in enumerate(scores.tolist())]
        names = ["item", "repo", *(f"s{column}" for column in range(scores.shape[1]))]
        path.write_text("\n".join(",".join(map(str, line)) for line in [names, *cells]))
        table = read_results([path], ResultOptions(group="repo"))
        claims = claim_scores(table, SETTINGS)
        (pairs,) = run_of_results([path], {"group": "repo"}).verdicts.values()
        matches = code_judgments(pairs, entrants=table.systems)
        standings = Evidence(matches=matches, settings=SETTINGS).standings
        assert claims.n_groups == len(matches.prompts) == -(-len(scores) // 4)
        others = {each.entrant: each for each in standings.entrants}
        for row in claims.board.rows:
            other = others[row.entrant_id]
            assert row.rating == pytest.approx(other.value, abs=1e-6)
            # Both resample the groups, each with its own draws.
            assert row.low == pytest.approx(other.low, abs=0.15 * width(row))
        records = pair_records(pairwise_winrates(pairs))
        for two, pair in claims.board.pairs.items():
            assert pair.record.wins == records[two].wins
            assert pair.record.share == pytest.approx(records[two].share)


def test_groups_widen_the_intervals_of_what_they_share() -> None:
    generator = np.random.default_rng(5)
    lead = np.repeat(generator.normal(0.3, 0.5, size=20), 10)
    scores = np.stack([lead, np.zeros(200)], axis=1)
    alone = claims_of(scores)
    grouped = claims_of(scores, groups=[item // 10 for item in range(200)])
    (one,), (other,) = alone.leads.values(), grouped.leads.values()
    assert one.value == other.value
    assert width(other) > 2 * width(one)
    assert (alone.n_groups, grouped.n_groups) == (200, 20)


def test_systems_that_never_met_are_not_said_to_differ() -> None:
    scores = np.array([[1.0, 0.0, np.nan], [np.nan, 1.0, 0.0]] * 40)
    claims = claims_of(scores)
    pair = claims.board.pairs["s0", "s2"]
    assert pair.record.settled == 0
    assert claims.leads["s0", "s2"].value is None
    assert claims_of(np.ones((100, 2))).board.best == ()


def test_equivalent_has_its_margin_wherever_a_pair_is_shown(tmp_path: Path) -> None:
    path, page = tmp_path / "battles.jsonl", tmp_path / "page.html"
    winners = [("model_a", "model_b", *["tie"] * 98)[n % 100] for n in range(400)]
    rows = [
        {"question_id": n, "model_a": "ada", "model_b": "bob", "winner": word, "source": "human"}
        for n, word in enumerate(winners)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    margin = "equivalent within ±20 Elo (47.1–52.9 %)"
    for command in (["claims", "--page", str(page)], ["battles", "rate", "--pairs"]):
        shown = CliRunner().invoke(main, [*command, str(path)], terminal_width=200)
        assert shown.exit_code == 0, shown.output
        assert margin in " ".join(shown.output.split()), command
    assert margin in page.read_text()
    (values,) = json.loads(CliRunner().invoke(main, ["claims", str(path), "--json"]).output)
    assert values["pairs"][0]["claim"] == "equivalent"
    assert values["margin"]["elo"] == 20
    assert values["margin"]["share"] == pytest.approx(1 / (1 + 10 ** (-20 / 400)))


def test_a_verdicts_weight_is_counted_and_pairs_that_stand_for_others_are_refused(
    tmp_path: Path,
) -> None:
    path, scores = tmp_path / "hard.jsonl", (("A>>B", "B>>A"), ("A>B", "B>A"), ("B>A", "A>B"))
    games = [
        {"uid": f"q{n}", "model": "new", "baseline": "old", "judge": "gpt"}
        | {"games": [{"score": score} for score in scores[n % 3]]}
        for n in range(60)
    ]
    path.write_text("\n".join(map(json.dumps, games)))
    (values,) = json.loads(CliRunner().invoke(main, ["claims", str(path), "--json"]).output)
    assert [(row["entrant_id"], row["places"]) for row in values["systems"]] == [
        ("old", "1"),
        ("new", "2"),
    ]
    # The odds are 4 to 1 by weight: of every three prompts one counts three times.
    assert values["pairs"][0]["difference"]["value"] == pytest.approx(400 * np.log10(4))
    assert values["pairs"][0]["claim"] == "better"
    settled = [
        {"question_id": n, "model_a": "ada", "model_b": "bob", "winner": "model_a"}
        | {"source": "llm-judge", "inconsistent": False, "weight": 1.0 + n % 2}
        for n in range(40)
    ]
    path.write_text("\n".join(map(json.dumps, settled)))
    refused = CliRunner().invoke(main, ["claims", str(path)])
    assert refused.exit_code == 2
    assert "20 battles stand for several pairs" in " ".join(refused.output.split())
    rate = ["battles", "rate", str(path), "--pairs", "--json", "--method", "bradley-terry"]
    (rated,) = json.loads(CliRunner().invoke(main, rate).output)["ratings"]
    assert [row["claim"] for row in rated["pairs"]] == [None]


def test_a_page_escapes_names_and_says_what_the_console_and_json_say(tmp_path: Path) -> None:
    name, path, page = "<b>A</b>", tmp_path / "scores.csv", tmp_path / "page.html"
    lines = [f"i{n},{int(n % 3 > 0)},{int(n % 2)}" for n in range(60)]
    path.write_text("\n".join([f"item,{name},B", *lines]))
    command = ["claims", str(path), "--page", str(page)]
    shown = CliRunner().invoke(main, command)
    assert shown.exit_code == 0, shown.output
    (values,) = json.loads(CliRunner().invoke(main, [*command, "--json"]).output)
    html = page.read_text()
    assert name not in html
    assert "&lt;b&gt;A&lt;/b&gt;" in html
    words = values["verdict"].split()
    assert words == shown.output.split()[2 : 2 + len(words)]
    assert [row["mean_score"] for row in values["systems"]] == [pytest.approx(2 / 3), 0.5]
