import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.battles.builders import write_lines
from tournament_assets.battles.columns import make_battle_table
from tournament_assets.battles.registry import write_battles
from tournament_assets.cli import battles as command
from tournament_assets.cli import main
from tournament_assets.foundation.errors import InputError
from tournament_assets.tournament.battles import Battle, RatingSettings

QUICK = ("--n-permutations", "4", "--n-bootstraps", "40")


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(
        command.battles_group, list(map(str, arguments)), catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.output


def votes(folder: Path) -> Path:
    path = folder / "votes.jsonl"
    row = {"question_id": "q1", "model_a": "ada", "model_b": "bob", "source": "human"}
    rows = [{**row, "winner": winner} for winner in ("model_a", "tie (bothbad)", None, "model_b")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def own(folder: Path, settings: RatingSettings | None = None) -> Path:
    path = folder / "battles.parquet"
    battles = [
        Battle("ada", "bob", "model_a", "llm-judge", f"p{n}", dimension=dimension, weight=weight)
        for n, (dimension, weight) in enumerate([("facts", 1.0), ("facts", 3.0), ("style", 1.0)])
    ]
    write_battles(path, make_battle_table(battles), format_name="tournament", settings=settings)
    return path


@pytest.mark.parametrize("name", ["import", "export", "rate"])
def test_every_command_explains_itself(name: str) -> None:
    assert len(run(name, "--help").splitlines()) > 10


def test_importing_counts_what_is_left_out(tmp_path: Path) -> None:
    out = tmp_path / "ours.parquet"
    printed = run("import", votes(tmp_path), "--out", out)
    assert "3 battles, judgearena" in printed
    assert "no verdict: 1" in printed
    assert printed.count("3 battles") == 2
    assert "3 battles, tournament" in run("rate", out, *QUICK)


def test_exporting_counts_what_is_lost_and_asks_for_a_dimension(tmp_path: Path) -> None:
    file = own(tmp_path)
    out = tmp_path / "pairs.csv"
    with pytest.raises(InputError, match="--dimension"):
        run("export", file, "--format", "csv", "--out", out)
    printed = run("export", file, "--format", "csv", "--dimension", "facts", "--out", out)
    assert "2 battles, tournament" in printed
    assert "2 battles, csv" in printed
    assert "dimension: 2 battles" in printed
    assert "weight: 1 battles" in printed
    with pytest.raises(InputError, match="facts, style"):
        run("export", file, "--format", "csv", "--dimension", "tone", "--out", tmp_path / "x")


def test_rating_prints_a_table_for_each_dimension_and_what_the_intervals_cover(
    tmp_path: Path,
) -> None:
    printed = run("rate", own(tmp_path), *QUICK)
    for words in ("facts", "style", "ada", "order noise only", "won every match", "2 decisive"):
        assert words in printed
    only = run("rate", own(tmp_path / "again"), "--dimension", "style", *QUICK)
    assert "facts" not in only


def rated(*arguments: str | Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(run("rate", *arguments, "--json"))
    return values


def test_a_file_says_how_it_was_rated_and_options_override_it(tmp_path: Path) -> None:
    kept = RatingSettings(n_permutations=3, n_bootstraps=40, k_factor=32.0, entrants=("bob", "ada"))
    file = own(tmp_path, kept)
    assert RatingSettings.from_dict(rated(file)["settings"]) == kept
    changed = rated(
        file,
        *("--k-factor", "8", "--n-permutations", "2", "--n-bootstraps", "4"),
        *("--shuffle-seed", "1", "--bootstrap-seed", "2"),
        *("--initial-rating", "1000", "--confidence", "0.5"),
    )
    assert RatingSettings.from_dict(changed["settings"]) == RatingSettings(
        n_permutations=2,
        n_bootstraps=4,
        k_factor=8.0,
        entrants=("bob", "ada"),
        shuffle_seed=1,
        bootstrap_seed=2,
        initial_rating=1000.0,
        confidence=0.5,
    )
    # Nobody lost to bob.
    ada, bob = changed["ratings"][0]["elo"]
    assert (ada["mean"], ada["rank"], bob["rank"]) == (None, 1, 2)


def test_one_method_alone_has_one_table(tmp_path: Path) -> None:
    values = rated(own(tmp_path), "--method", "bradley-terry", *QUICK)
    assert [each["elo"] for each in values["ratings"]] == [[], []]
    assert "SEM" not in run("rate", own(tmp_path / "again"), "--method", "bradley-terry", *QUICK)


def test_impossible_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"confidence is 1\.5"):
        run("rate", own(tmp_path), "--confidence", "1.5")
    with pytest.raises(InputError, match=r"k_factor is 0\.0"):
        run("rate", own(tmp_path / "again"), "--k-factor", "0")


def test_an_anchor_moves_every_rating_by_the_same(tmp_path: Path) -> None:
    path = tmp_path / "battles.parquet"
    wins = [("ada", "bob"), ("bob", "cyd"), ("cyd", "ada"), ("ada", "bob")]
    battles = [
        Battle(winner, loser, "model_a", "llm-judge", f"p{n}", dimension="facts")
        for n, (winner, loser) in enumerate(wins * 12)
    ]
    write_battles(path, make_battle_table(battles), format_name="tournament")
    plain, moved = (
        json.loads(run("rate", path, "--json", *QUICK, *options))["ratings"][0]
        for options in ((), ("--anchor", "bob", "1000"))
    )
    for table, columns in (
        ("elo", ("mean", "order_low", "order_high")),
        ("ratings", ("rating", "low")),
    ):
        (bob,) = [row for row in moved[table] if row["entrant_id"] == "bob"]
        assert bob[columns[0]] == pytest.approx(1000)
        shifts = [
            after[name] - before[name]
            for before, after in zip(plain[table], moved[table], strict=True)
            for name in columns
        ]
        assert shifts == pytest.approx([shifts[0]] * len(shifts))
    assert any("bob has 1000" in note for note in moved["notes"])
    with pytest.raises(InputError, match=r"'eve'.*ada"):
        run("rate", path, *QUICK, "--anchor", "eve", "1000")


def test_rating_a_file_by_the_column_of_its_prompts(tmp_path: Path) -> None:
    row = {"model_a": "ada", "model_b": "bob", "winner": "model_a", "source": "human"}
    path = write_lines(tmp_path / "pairs.jsonl", *({**row, "task": f"t{n % 3}"} for n in range(9)))
    assert "--prompt-column" in run("rate", path, *QUICK)
    printed = run("rate", path, "--prompt-column", "task", *QUICK)
    assert "on 3 prompts" in printed


def unconnected(folder: Path) -> Path:
    """Ada beats everyone whom she meets, bob and cyd beat each other, eve and fay are apart."""
    path = folder / "unconnected.jsonl"
    met = [("ada", "bob"), ("ada", "cyd"), ("bob", "cyd"), ("cyd", "bob"), ("eve", "fay")]
    battles = [
        Battle(*pair, "model_a", "human", f"p{prompt}") for prompt in range(8) for pair in met
    ]
    write_battles(path, make_battle_table(battles), format_name="tournament")
    return path


def test_what_wins_do_not_determine_has_no_number_and_a_reason(tmp_path: Path) -> None:
    path = unconnected(tmp_path)
    (found,) = rated(path, *QUICK)["ratings"]
    for name, rating in (("elo", "mean"), ("ratings", "rating")):
        rows = {row["entrant_id"]: row for row in found[name]}
        assert [rows[each][rating] is None for each in ("ada", "bob", "cyd", "eve", "fay")] == [
            *(True, False, False, True, True),
        ]
        for entrant in ("ada", "eve", "fay"):
            assert rows[entrant]["note"]
            beside = "order_" if name == "elo" else ""
            assert rows[entrant][f"{beside}low"] is rows[entrant][f"{beside}high"] is None
    elo = {row["entrant_id"]: row for row in found["elo"]}
    assert [elo[name]["rank"] for name in ("ada", "eve", "fay")] == [1, None, None]
    printed = " ".join(run("rate", path, *QUICK).split())
    assert [printed.count(f"rating of {name}: ") for name in ("ada", "bob", "eve")] == [2, 0, 2]


def test_an_anchor_without_a_rating_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'ada' has"):
        run("rate", unconnected(tmp_path), "--anchor", "ada", "1000", *QUICK)


def test_weights_that_drown_one_another_are_refused(tmp_path: Path) -> None:
    battles = [
        Battle("ada", "bob", "model_a", "human", "p", weight=1e17),
        Battle("ada", "bob", "model_b", "human", "q", weight=1.0),
    ]
    path = tmp_path / "b.parquet"
    write_battles(path, make_battle_table(battles), format_name="tournament")
    with pytest.raises(InputError, match=r"1e\+17"):
        run("rate", path, *QUICK)


def test_signs_that_turn_the_direction_of_a_text_are_shown_as_escapes(tmp_path: Path) -> None:
    path = tmp_path / "b.parquet"
    battles = [
        Battle(*pair, "model_a", "human", f"p{n}", dimension="tone\u2066")
        for n in range(4)
        for pair in (("ada\u202e", "bob"), ("bob", "ada\u202e"))
    ]
    write_battles(path, make_battle_table(battles), format_name="tournament")
    printed = run("rate", path, *QUICK)
    assert "\u202e" not in printed
    assert "\u2066" not in printed
    assert "ada\\u202e" in printed
    as_json = run("rate", path, "--json", *QUICK)
    assert "\u202e" not in as_json
    assert {row["entrant_id"] for row in json.loads(as_json)["ratings"][0]["elo"]} == {
        "ada\u202e",
        "bob",
    }


def scheduled(folder: Path, name: str = "scheduled.parquet", **changes: Any) -> Path:
    """Ada met bob often and ties a lot; the schedule is far from even."""
    path = folder / name
    rows = [
        *[("ada", "bob", "tie")] * 30,
        *[("ada", "bob", "model_a")] * 3,
        *[("ada", "bob", "model_b")] * 2,
        *[("bob", "cyd", "model_a")] * 12,
        *[("bob", "cyd", "model_b")] * 4,
        *[("ada", "cyd", "tie")] * 2,
        *[("ada", "cyd", "model_a")] * 1,
    ]
    settings = changes.pop("settings", None)
    battles = [
        Battle.from_dict(
            {"model_a": a, "model_b": b, "winner": winner, "source": "human"}
            | {"question_id": f"p{n % 11}", **changes}
        )
        for n, (a, b, winner) in enumerate(rows)
    ]
    write_battles(path, make_battle_table(battles), format_name="tournament", settings=settings)
    return path


def test_it_says_where_elo_and_bradley_terry_rank_differently(tmp_path: Path) -> None:
    path = scheduled(tmp_path)
    (found,) = rated(path, "--n-bootstraps", "40")["ratings"]
    means = {row["entrant_id"]: row["mean"] for row in found["elo"]}
    strengths = {row["entrant_id"]: row["rating"] for row in found["ratings"]}
    assert means["bob"] > means["ada"]
    assert strengths["bob"] < strengths["ada"]
    printed = " ".join(run("rate", path, "--n-bootstraps", "40").split())
    assert "Elo puts bob above ada" in printed
    assert "trust Bradley" in printed
    assert "32 ties" in printed


def test_every_model_and_every_two_can_be_asked_for(tmp_path: Path) -> None:
    path = scheduled(tmp_path)
    (found,) = rated(path, "--method", "all", "--pairs", *QUICK)["ratings"]
    davidson = [row for row in found["ratings"] if row["method"] == "davidson"]
    assert {row["entrant_id"] for row in davidson} == {"ada", "bob", "cyd"}
    assert sum(row["rating"] for row in davidson) == pytest.approx(3 * 1400)
    assert found["win_rates"]["bob"] == pytest.approx((2 + 15 + 12) / 51)
    pairs = {(row["entrant_a"], row["entrant_b"]): row for row in found["pairs"]}
    assert pairs["ada", "bob"]["ties"] == 30
    assert pairs["ada", "bob"]["win_rate_a"] == pytest.approx(18 / 35)
    assert pairs["bob", "cyd"]["claim"] == "a_better"
    assert 0 < pairs["bob", "cyd"]["difference_low"] < pairs["bob", "cyd"]["difference"]
    printed = run("rate", path, "--method", "all", "--pairs", *QUICK)
    for words in ("Davidson", "a better", "51.4 %", "56.9 %"):
        assert words in printed


def test_responses_give_ratings_at_equal_style(tmp_path: Path) -> None:
    path, texts = scheduled(tmp_path), tmp_path / "responses.jsonl"
    rows = [
        {"model": model, "question_id": f"p{n}", "response": "word " * (1 + (n * size) % 7)}
        for n in range(11)
        for model, size in (("ada", 2), ("bob", 3), ("cyd", 5))
    ]
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = rated(path, "--responses", texts, *QUICK)["ratings"]
    points = {
        row["entrant_id"]: row["rating"]
        for row in found["ratings"]
        if row["method"].startswith("style")
    }
    assert {"ada", "bob", "cyd", "words"} <= points.keys()
    assert points["words"] is not None
    texts.write_text(json.dumps(rows[0] | {"response": None}) + "\n")
    with pytest.raises(InputError, match=r"responses\.jsonl:1: "):
        run("rate", path, "--responses", texts, *QUICK)


def test_several_files_are_rated_together_with_what_is_doubtful_about_it(tmp_path: Path) -> None:
    people = scheduled(tmp_path, "people.parquet", settings=RatingSettings(k_factor=8.0))
    judged = scheduled(
        tmp_path,
        "judged.parquet",
        source="llm-judge",
        settings=RatingSettings(k_factor=32.0),
    )
    spelt = tmp_path / "spelt.jsonl"
    battles = [
        Battle("ada ", "bo\u0062", "model_a", "human", "p"),
        Battle("ﬁn", "fin", "tie", "human"),
    ]
    write_battles(spelt, make_battle_table(battles), format_name="tournament")
    values = rated(people, judged, spelt, *QUICK)
    assert values["files"] == ["people.parquet", "judged.parquet", "spelt.jsonl"]
    assert values["settings"]["k_factor"] == 8.0
    assert values["ratings"][0]["counts"]["battles"] == 2 * 54 + 2
    settings, sources, *names = values["warnings"]
    assert "k_factor (8.0 and 32.0)" in settings
    assert re.findall(r"\d+", sources) == ["56", "54"]  # by people, by models
    assert ["'ada '" in names[0], "ufb01n" in names[1], len(names)] == [True, True, 2]
    assert rated(people, *QUICK)["warnings"] == []
    assert f"warning: {names[0][:10]}" in run("rate", people, judged, spelt, *QUICK)


def test_an_interval_that_its_resamples_cannot_support_is_refused(tmp_path: Path) -> None:
    path = scheduled(tmp_path)
    with pytest.raises(InputError, match=r"99\.9 %"):
        run("rate", path, "--n-bootstraps", "10", "--confidence", "0.999")
    run("rate", path, "--n-bootstraps", "20", "--confidence", "0.9")


def test_files_that_are_wrong_alike_are_told_of_once(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number}.csv").write_text("a,b\n1,2\n")
    (tmp_path / "torn.jsonl").write_text("[]\n")
    result = CliRunner().invoke(main, ["battles", "rate", *map(str, tmp_path.iterdir())])
    assert result.exit_code == 2
    _, *told = result.stderr.splitlines()
    assert len(told) == 2
    assert any("in 12 files: unknown format (csv with a, b)" in each for each in told)
    assert any("torn.jsonl: " in each for each in told)


def test_counts_of_days_give_the_ratings_of_their_files_together(tmp_path: Path) -> None:
    quick, method = ("--n-bootstraps", "40", "--json"), ("--method", "bradley-terry")
    days = []
    for day in range(2):
        winners = ("model_a", "model_b", "tie")
        rows = [
            {"model_a": "ada", "model_b": "bob", "winner": winners[(n + day) % 3]} for n in range(9)
        ]
        named = [{**row, "source": "human", "question_id": f"q{n}"} for n, row in enumerate(rows)]
        days.append(write_lines(tmp_path / f"{day}.jsonl", *named))
    together = json.loads(run("rate", *days, *quick, "--save-counts", tmp_path / "both"))
    assert "0 battles" not in run("rate", days[0], *quick, "--save-counts", tmp_path / "first")
    added = ("--add", tmp_path / "first")
    assert json.loads(run("rate", days[1], *quick, *added))["ratings"] == together["ratings"]
    alone = json.loads(run("rate", "--add", tmp_path / "both", *quick, *method))
    assert alone["ratings"] == together["ratings"]
    davidson = json.loads(run("rate", "--add", tmp_path / "both", *quick, "--method", "davidson"))
    of_files = json.loads(run("rate", *days, *quick, "--method", "davidson"))
    assert davidson["ratings"][0]["ratings"] == of_files["ratings"][0]["ratings"]
    refused = CliRunner().invoke(
        command.battles_group, ["rate", str(days[0]), *map(str, added), "--method", "elo"]
    )
    assert refused.exit_code == 2
    assert "bradley-terry or davidson alone" in refused.output
