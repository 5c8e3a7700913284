import inspect
import json
import math
import re
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, assert_type

import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, given, settings

import tournament_assets as ta
from tests.battles.builders import any_battles, fight, problems_of
from tests.projects import ENTRANTS, SmallProject, make_project
from tournament_assets import python_api, python_results
from tournament_assets.battles.columnar import Columns, frame_parts
from tournament_assets.battles.columns import (
    BATTLE_SCHEMA,
    battles_of,
    encode_battle_table,
    make_battle_table,
)
from tournament_assets.tournament.battles import Battle

ALL_COLUMNS = Columns({name: (name,) for name in BATTLE_SCHEMA.names}, None)
MARKUP = "<script>alert(1)</script>"


def frame_of(*battles: Battle) -> pd.DataFrame:
    return pd.DataFrame([battle.to_dict() for battle in battles])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> SmallProject:
    project = make_project(tmp_path_factory.mktemp("small"), dimensions=["calibration"])
    project.edit_config(ratings={"n_permutations": 20, "n_bootstraps": 100})
    return project


@pytest.fixture(scope="module")
def steps() -> list[str]:
    return []


@pytest.fixture(scope="module")
def run(project: SmallProject, steps: list[str]) -> ta.Run:
    return ta.load(project.config_path, environment={}).run("pilot", progress=steps.append)


def test_what_is_exported_is_what_the_module_defines_and_what_that_takes_and_raises() -> None:
    defined = {
        name
        for name, value in vars(python_api).items()
        if not name.startswith("_")
        and getattr(value, "__module__", "") in (python_api.__name__, python_results.__name__)
    } - {python_results.show_html.__name__, python_results.Shown.__name__}
    others = {"InputError", "RatingSettings", "TournamentComponent", "TournamentError", "WorkError"}
    assert set(ta.__all__) == defined | others
    assert set(ta.__all__) <= set(dir(ta))
    assert ta.__all__ == sorted(ta.__all__)


@pytest.mark.parametrize("name", ta.__all__)
def test_every_exported_name_and_member_is_there_typed_and_documented(name: str) -> None:
    exported = getattr(ta, name)
    members = {name: exported} | {
        member: getattr(value, "fget", value)
        for member, value in vars(exported).items()
        if inspect.isclass(exported)
        and exported.__module__ in (python_api.__name__, python_results.__name__)
        and not member.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, property))
    }
    for member, value in members.items():
        assert inspect.getdoc(value), member
        if inspect.isfunction(value):
            assert value.__annotations__.get("return"), member


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'rank'"):
        ta.rank  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import tournament_assets", ("dagster", "numpy", "pandas", "pyarrow", "pydantic")),
        (
            "import tournament_assets as ta; ta.rate",
            ("dagster", "torch", "matplotlib", "anthropic"),
        ),
        (
            "from tournament_assets import cli; "
            "[cli.main.get_command(None, name) for name in 'battles compare gate'.split()]",
            ("dagster", "torch", "matplotlib", "anthropic"),
        ),
    ],
)
def test_what_is_not_used_is_not_imported(code: str, absent: tuple[str, ...]) -> None:
    script = f"import sys; {code}; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_run_needs_no_home_of_dagster(
    project: SmallProject, run: ta.Run, steps: list[str]
) -> None:
    assert_type(run, ta.Run)
    assert_type(run.frame, pd.DataFrame)
    assert run.directory.parent == project.folder / "runs"
    assert list(run.frame["entrant_id"]) == ["careful", "mixed", "sloppy"]
    margin = run.win_rates[["margin_elo", "margin_share"]].drop_duplicates()
    assert margin.values.tolist() == [[20.0, pytest.approx(1 / (1 + 10 ** (-20 / 400)))]]
    assert (project.folder / ".dagster_home").is_dir()
    assert steps[0].startswith("prompt bank")
    assert steps[-1].startswith("leaderboard")
    assert run.warnings is not None


def test_a_run_that_is_opened_is_the_run_that_was_made(project: SmallProject, run: ta.Run) -> None:
    (found,) = ta.load(project.config_path, environment={}).runs("pilot")
    pd.testing.assert_frame_equal(found.frame, run.frame)
    assert found._repr_html_() == run._repr_html_()
    assert (found.directory, found.warnings) == (run.directory, None)
    assert ta.load(project.config_path, environment={}).runs("headline") == ()


def test_an_estimate_counts_what_is_left_to_ask(project: SmallProject, run: ta.Run) -> None:
    tournament = ta.load(project.config_path, environment={})
    pilot, headline = tournament.estimate("pilot"), tournament.estimate("headline")
    assert (pilot.requests, pilot.usd) == (0, 0.0)
    assert headline.requests == headline.frame["to_ask"].sum() > 0
    assert "Nothing" in pilot._repr_html_()


def test_a_run_shows_its_cautions_its_ladder_and_its_table(run: ta.Run) -> None:
    shown = run._repr_html_()
    assert run.ladder.address in shown
    assert all(f">{name}<".encode() in run.ladder.svg for name in ENTRANTS)
    for name in run.frame["entrant_id"]:
        assert f">{name}</th>" in shown
    manifest = {
        **run.manifest,
        "outages": ["No judge."],
        "trust": {"tone": {"a": "red", "b": "amber"}},
    }
    doubtful = ta.Run(run.directory, manifest)
    assert doubtful.cautions[0] == "No judge."
    assert "tone: red: a." in doubtful.cautions[1]
    assert "tone: amber, too few to tell: b." in doubtful.cautions[2]
    shown = doubtful._repr_html_()
    assert shown.index("No judge.") < shown.index("<img") < shown.index("<table")


def test_every_result_prints_what_it_shows(project: SmallProject, run: ta.Run) -> None:
    tournament = ta.load(project.config_path, environment=project.environment)
    frame = pd.DataFrame({"model_a": ["ada"], "model_b": ["bob"], "winner": ["model_a"]})
    gate = run.gate(candidate="careful", baseline="sloppy")
    results: list[tuple[object, tuple[str, ...]]] = [
        (tournament, ("entrants", "careful")),
        (tournament.estimate("pilot"), ("What judging costs", "calibration")),
        (run, ("careful", "calibration", *run.cautions)),
        (run.compare(run), ("no judgment flipped", run.directory.name)),
        (gate, ("careful against sloppy", "undecided")),
    ]
    for result, words in results:
        printed = " ".join(str(result).split())
        assert all(each in printed for each in words), printed
    assert "ada" in str(ta.rate(frame, method="elo"))


def test_what_comes_from_outside_is_escaped(run: ta.Run) -> None:
    rated = ta.rate(frame_of(fight(model_a=MARKUP, dimension=MARKUP)))
    of_run = ta.Run(run.directory, {**run.manifest, "tournament": MARKUP, "outages": [MARKUP]})
    for shown in (rated, of_run, ta.Picture(b"<svg/>", f'"{MARKUP}')):
        html = shown._repr_html_()
        assert "<script" not in html
        assert "&lt;script&gt;" in html


def test_battles_of_a_run_give_its_ratings(run: ta.Run) -> None:
    rated = ta.rate(run.battles, ["elo", "bradley-terry"], settings=run.rating_settings)
    by_method = {name: rows.set_index("entrant_id") for name, rows in rated.frame.groupby("method")}
    board = run.frame.set_index("entrant_id")
    elo, strength = by_method["elo"], by_method["bradley_terry"]
    for ours, theirs in (
        (elo["rating"], board["elo"]),
        (strength["rank"], board["rank"]),
        (strength["rating"], board["rating"]),
        (strength["low"], board["low"]),
    ):
        found, expected = (dict(each.astype(float)) for each in (ours, theirs))
        assert found == pytest.approx(expected, rel=1e-9, nan_ok=True)


def test_a_run_compared_with_itself_is_the_same(run: ta.Run) -> None:
    comparison = run.compare(run.directory)
    assert_type(comparison, ta.Comparison)
    assert comparison.sameness == "same"
    assert list(comparison.frame["difference"]) == [0.0] * 3
    assert comparison.sentences[0] in comparison._repr_html_()


def test_a_judge_that_is_no_language_model_lets_nobody_pass(run: ta.Run) -> None:
    gate = run.gate(candidate="careful", baseline="sloppy")
    assert (gate.passage, gate.is_not_worse) == ("undecided", False)
    assert list(gate.frame["passage"]) == ["undecided"]
    assert "not a language model" in gate._repr_html_()


def test_the_odds_of_two_models_are_their_wins() -> None:
    battles = [fight(question_id=f"q{number}") for number in range(3)]
    rated = ta.rate(frame_of(*battles, fight("model_b", question_id="q3")))
    ada, bob = rated.frame["rating"]
    assert list(rated.frame["entrant_id"]) == ["ada", "bob"]
    assert ada - bob == pytest.approx(400 * math.log10(3), abs=1e-6)


def test_methods_without_intervals_have_none() -> None:
    battles = [fight(winner) for winner in ("model_a", "model_b", "tie", "model_a")]
    frame = ta.rate(frame_of(*battles), "davidson").frame
    assert list(frame["method"].unique()) == ["davidson"]
    assert frame["low"].isna().all()
    assert frame["rating"].notna().all()


def test_who_has_no_rating_has_no_rank_and_a_reason() -> None:
    frame = ta.rate(frame_of(fight()), "elo").frame
    assert frame["rating"].isna().all()
    assert frame["rank"].isna().all()
    assert frame["note"].notna().all()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(any_battles())
def test_battles_come_out_of_a_frame_as_they_went_in(battles: list[Battle]) -> None:
    frame = make_battle_table(battles).to_pandas()
    assert battles_in(frame) == battles


def battles_in(frame: pd.DataFrame) -> list[Battle]:
    parts = frame_parts(frame, ALL_COLUMNS, Counter())
    return list(battles_of(encode_battle_table(parts)))


def test_ids_that_are_numbers_here_and_absent_there_are_read() -> None:
    frame = frame_of(fight(), fight(), fight())
    frame = frame.assign(question_id=[7.0, math.nan, 8.0], turn=[1.0, 2.0, math.nan])
    assert [(each.question_id, each.turn) for each in battles_in(frame)] == [
        ("7", 1),
        (None, 2),
        ("8", None),
    ]


def test_rows_without_a_winner_are_left_out_and_counted() -> None:
    frame = pd.concat([frame_of(fight()), frame_of(fight()).assign(winner=None)])
    rated = ta.rate(frame)
    assert rated.left_out == {"no verdict": 1}
    assert "no verdict: 1" in rated._repr_html_()


def test_everything_that_is_wrong_with_a_frame_is_told_by_its_row() -> None:
    frame = frame_of(fight("ada"), fight(weight=-1.0), fight(model_b="ada"))
    frame.index = pd.Index([10, 20, 30])
    lines = problems_of(lambda: ta.rate(frame))
    assert [line.split(":")[0] for line in lines] == ["row 10", "row 20"]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame({"winner": ["tie"]}), "no column 'model_a', 'model_b'"),
        (frame_of(fight()).assign(winner=None), "holds no battle among its 1 rows"),
        (pd.concat([frame_of(fight())] * 2, axis=1), "'model_a' more than once"),
    ],
)
def test_a_frame_that_is_no_list_of_battles_is_refused(frame: pd.DataFrame, words: str) -> None:
    assert any(words in problem for problem in problems_of(lambda: ta.rate(frame)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "glicko"}, "the rating method is 'glicko'; expected one of elo"),
        ({"settings": ta.RatingSettings(n_bootstraps=5)}, "5 resamples cannot support"),
        ({"settings": ta.RatingSettings(confidence=2.0)}, "confidence is 2.0"),
        ({"dimensions": ["tone"]}, "no battle is on the dimension 'tone'"),
    ],
)
def test_a_method_or_setting_that_is_impossible_is_refused(
    options: dict[str, Any], words: str
) -> None:
    (problem,) = problems_of(lambda: ta.rate(frame_of(fight()), **options))
    assert words in problem


API: Any = ta
"""The package without its types."""


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda _: API.load(3), ("load: config is 3 (int)", "a text or a path or a dict")),
        (lambda _: API.load(None), ("config is None",)),
        (lambda run: API.load(run), ("config is a Run",)),
        (lambda _: API.load("a", environment={"KEY": 5}), ("environment is a dict", "a dict")),
        (lambda run: API.open_run(run), ("directory is a Run", "a path")),
        (lambda _: API.compare(1, 2), ("run_a is 1", "run_b is 2", "a Run or a text or a path")),
        (lambda run: run.compare(4), ("other is 4",)),
        (lambda run: run.gate(candidate="a", baseline="b", margin="20"), ("margin is '20'",)),
        (lambda run: run.gate(candidate="a", baseline="b", dimensions="tone"), ("a list, each",)),
        (lambda _: API.rate("battles.csv"), ("battles is 'battles.csv'", "a DataFrame")),
        (
            lambda _: API.rate(pd.DataFrame(), settings={"k_factor": 3}),
            ("a dict", "RatingSettings"),
        ),
        (lambda _: API.compare_answers([1], judge="x"), ("answers is a list", "a DataFrame")),
        (lambda _: API.compare_answers("x", judge="y"), ("x: the file cannot be read",)),
        (
            lambda _: API.compare_answers(pd.DataFrame(), judge=None, budget="5", rubric=3),
            ("judge is None", "budget is '5'", "rubric is 3"),
        ),
        (
            lambda _: API.compare_answers(pd.DataFrame({"a": [1]}), judge="loopback-lexical"),
            ("it has 'a'", 'such as columns={"prompt": "COLUMN"}'),
        ),
    ],
)
def test_an_argument_of_another_type_is_refused_in_a_sentence(
    call: Any, words: tuple[str, ...], run: ta.Run
) -> None:
    said = "\n".join(problems_of(lambda: call(run)))
    assert all(each in said for each in words), said


def test_a_dict_is_a_config_that_becomes_a_file_of_the_project(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    keys = yaml.safe_load(project.config_path.read_text())
    keys["tournament_id"] = "mine"
    tournament = ta.load(keys, folder=tmp_path)
    assert tournament.config_path == tmp_path / "configs" / "mine.yaml"
    assert (
        tournament.estimate("pilot").requests
        == ta.load(project.config_path).estimate("pilot").requests
    )
    keys["judges"][0]["modle"] = keys["judges"][0].pop("model")
    said = problems_of(lambda: ta.load(keys, folder=tmp_path))
    assert any("unknown key 'judges.0.modle'" in each for each in said)
    assert all(re.match(r"the config: [^\d]", each) for each in said)
    assert tournament.config.tournament_id == "mine"
    theirs = yaml.safe_load(project.config_path.read_text())
    (problem,) = problems_of(lambda: ta.load(theirs, folder=tmp_path))
    assert problem.startswith(f"{project.config_path}: ")
    (problem,) = problems_of(lambda: ta.load({"a": {1, 2}.__iter__()}, folder=tmp_path))
    assert "expected dicts, lists, texts and numbers" in problem


def test_a_config_a_mode_or_a_run_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ta.InputError, match="absent"):
        ta.load(tmp_path / "absent.yaml")
    tournament = ta.load(make_project(tmp_path / "small").config_path)
    with pytest.raises(ta.InputError, match="'pilto'"):
        tournament.run("pilto")
    with pytest.raises(ta.InputError, match=r"manifest\.json"):
        ta.open_run(tmp_path)


def test_a_run_of_another_version_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"tournament": "small", "mode": "pilot"}))
    run = ta.open_run(tmp_path)
    with pytest.raises(ta.InputError, match="run the mode again"):
        _ = run.frame
    (tmp_path / "leaderboard.csv").write_bytes(b"entrant_id\nada\n")
    with pytest.raises(ta.InputError, match="run the mode again"):
        _ = run.frame


def test_a_tournament_keeps_the_environment_to_itself(project: SmallProject) -> None:
    tournament = ta.load(project.config_path, environment={"ANTHROPIC_API_KEY": "secret-key"})
    assert "secret-key" not in repr(tournament) + tournament._repr_html_()
    assert ", ".join(ENTRANTS) in tournament._repr_html_()


def test_a_run_warns_of_nothing_that_libraries_call_beta(
    project: SmallProject, run: ta.Run
) -> None:
    assert run.manifest
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        ta.load(project.config_path, environment={}).run("pilot", limit_pairs=2)
    assert [each for each in heard if "/dagster/" not in each.filename] == []
    assert {each.category for each in heard} <= {DeprecationWarning}
