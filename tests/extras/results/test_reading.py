"""Scores in files of every kind, and what is wrong with files."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tournament_assets.cli import main
from tournament_assets.extras.results.reading import ResultOptions, number_of, read_results
from tournament_assets.foundation.errors import InputError

SCORES = {"a/x": (1, 0, 1, 1, None, 1), "a/y": (0, 0, 1, 0, 1, 1)}
"""Of two systems on the items i0 to i5; one is missing."""
CELLS = [
    (f"i{item}", system, score)
    for system, scores in SCORES.items()
    for item, score in enumerate(scores)
]


def csv_of(rows: Sequence[Sequence[object]], *, delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue()


def wide() -> list[list[object]]:
    header: list[object] = ["item", *SCORES]
    return [header, *([f"i{n}", *row] for n, row in enumerate(zip(*SCORES.values(), strict=True)))]


def lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def inspect_log(system: str) -> dict[str, Any]:
    letter = {1: "C", 0: "I", None: None}
    samples = [
        {"id": item, "epoch": 1, "scores": {"match": {"value": letter[score]}}}
        for item, of, score in CELLS
        if of == system
    ]
    return {"version": 2, "eval": {"task": "t", "model": system}, "samples": samples}


def write_eval(path: Path, log: dict[str, Any]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, sample in enumerate(log.pop("samples")):
            archive.writestr(f"samples/{number}.json", json.dumps(sample))
        archive.writestr("header.json", json.dumps(log))


def lm_eval_row(item: str, score: int | None) -> dict[str, Any]:
    number = int(item[1:])
    doc = {"doc_id": number, "doc": {"q": item}, "resps": [["r"]], "filter": "none"}
    return {**doc, "acc": score, "target": "t"}


def instance(item: str, system: str, score: int | None) -> dict[str, Any]:
    names = {"evaluation_name": "e", "evaluation_id": f"e/{system}", "model_id": system}
    result = {"score": score, "is_correct": bool(score)}
    return {**names, "sample_id": item, "interaction_type": "single_turn", "evaluation": result}


def promptfoo_row(item: str, system: str, score: int | None) -> dict[str, Any]:
    about = {"promptIdx": 0, "testIdx": int(item[1:]), "provider": {"id": system}}
    failed = {"score": 0, "failureReason": 2}  # an error of the request, with a score of 0
    return {**about, **({"score": score, "failureReason": 0} if score is not None else failed)}


def write_all(folder: Path, kind: str) -> list[Path]:
    """Write the scores in one of the kinds of file."""
    folder.mkdir()
    long = [["task_id", "Model", "passed"], *CELLS]
    words = {1: "True", 0: "False", None: "NaN"}
    texts = {
        "wide.csv": csv_of(wide()).encode("utf-8-sig"),
        "semicolons.csv": csv_of(wide(), delimiter=";").encode("utf-16"),
        "long.csv": csv_of(long).encode(),
        "long.csv.gz": gzip.compress(csv_of(long).encode()),
        "words.csv": csv_of([long[0], *((i, s, words[x]) for i, s, x in CELLS)]).encode(),
        "long.jsonl": lines([{"item": i, "model": s, "score": x} for i, s, x in CELLS]).encode(),
        "eee.jsonl": lines([instance(*cell) for cell in CELLS]).encode(),
        "repeated.csv": csv_of(
            [["item", "system", "score", "epoch"], *((*cell, n) for n in (1, 2) for cell in CELLS)]
        ).encode(),
        "promptfoo.json": json.dumps(
            {"results": {"version": 3, "results": [promptfoo_row(*cell) for cell in CELLS]}}
        ).encode(),
    }
    if kind in texts:
        (folder / kind).write_bytes(texts[kind])
        return [folder / kind]
    paths = []
    for number, system in enumerate(SCORES):
        path = folder / f"{number}.{kind}"
        if kind == "eval":
            write_eval(path, inspect_log(system))
        elif kind == "json":
            path.write_text(json.dumps(inspect_log(system)))
        else:
            path = folder / system.replace("/", "_") / "samples_t_2026-01-01T00-00-00.jsonl"
            path.parent.mkdir()
            rows = [lm_eval_row(item, score) for item, of, score in CELLS if of == system]
            path.write_text(lines(rows))
        paths.append(path)
    return paths


@pytest.mark.parametrize(
    "kind",
    [
        *(
            "wide.csv",
            "semicolons.csv",
            "long.csv",
            "long.csv.gz",
            "words.csv",
            "long.jsonl",
            "eee.jsonl",
        ),
        *("repeated.csv", "promptfoo.json", "eval", "json", "jsonl"),
    ],
)
def test_the_same_scores_are_read_from_a_file_of_every_kind(tmp_path: Path, kind: str) -> None:
    table = read_results(write_all(tmp_path / "results", kind), ResultOptions())
    assert [name.replace("_", "/") for name in table.systems] == [*SCORES]
    expected = np.array([*SCORES.values()], dtype=float).T
    np.testing.assert_array_equal(table.values, expected)
    assert any("1 of a" in note for note in table.notes)


WRONG: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "a text for a score": (
        "item,a,b\ni1,1,oops\ni2,x,0\n",
        (),
        ("wrong.csv:2: the score of 'b' is 'oops'", "wrong.csv:3: the score of 'a' is 'x'"),
    ),
    "an infinite score": ("item,a,b\ni1,1,inf\ni2,0,1\n", (), ("'inf'; expected a finite number",)),
    "one score twice": (
        "item,system,score\ni1,a,1\ni1,b,0\ni1,a,0\n",
        (),
        ("wrong.csv:4: 'a' has a second score on item 'i1'", "--repeat"),
    ),
    "one system": (
        "item,model,score\ni1,a,1\n",
        (),
        ("'a' shares no item with another system (it has i1)",),
    ),
    "no row": ("item,a,b\n", (), ("holds no score",)),
    "no byte": ("", (), ("the file is empty",)),
    "other items": (
        "item,model,score\nx1,a,1\nx1,b,0\ny1,c,1\n",
        (),
        ("'c' shares no item with another system (it has y1)",),
    ),
    "columns that are not there": (
        "item,model,score\ni1,a,1\ni1,b,0\n",
        ("--item", "itme", "--group", "repo"),
        ("has no value in 'itme'", "did you mean 'item'?", "has no value in 'repo'"),
    ),
    "several scores": (
        "item,model,f1,bleu\ni1,a,1,1\ni1,b,0,1\n",
        (),
        ("numbers are in f1, bleu; expected one", "--score"),
    ),
    "no name": ("item,model,score\n,a,1\ni1,,0\n", (), ("names no item", "names no system")),
    "an item in two groups": (
        "item,model,score,repo\ni1,a,1,r\ni1,b,0,s\n",
        ("--group", "repo"),
        ("wrong.csv:3: item 'i1' is in group 's'; expected 'r'",),
    ),
}


@pytest.mark.parametrize("name", ["broken.eval", "broken.json", "broken.csv.gz", "absent.csv"])
def test_a_broken_log_is_no_traceback(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "broken.eval":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("samples/1.json", "{")
    elif name != "absent.csv":
        path.write_bytes(b'{"eval": [], "samples": [{"scores": 3}]}')
    result = claims(path)
    assert result.exit_code == 2, result.output
    assert f"{path}: the file cannot be read" in result.stderr


def claims(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["claims", *map(str, arguments)])


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_file_is_said_at_once(tmp_path: Path, case: str) -> None:
    text, options, expected = WRONG[case]
    path = tmp_path / "wrong.csv"
    path.write_text(text)
    result = claims(path, *options)
    assert result.exit_code == 2, result.output
    assert [part for part in expected if part not in result.stderr] == []


def test_options_say_what_columns_do_not(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    rows = [
        {"meta": {"key": item, "part": int(item[1:]) // 2}, "who": s, "f1": x, "f2": 1, "set": part}
        for part in ("dev", "test")
        for item, s, x in CELLS
    ]
    path.write_text(lines(rows))
    options = ResultOptions(
        item="meta.key", system="who", score="f1", group="meta.part", where=(("set", "test"),)
    )
    table = read_results([path], options)
    assert table.systems == tuple(SCORES)
    assert table.groups.tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, 1.0), ("No", 0.0), (" 0.5 ", 0.5), ("n/a", None), (float("nan"), None), ("", None)],
)
def test_a_missing_score_is_no_zero(value: object, expected: float | None) -> None:
    assert number_of(value) == expected
    with pytest.raises(InputError, match="expected a finite number"):
        number_of([value])


def test_battles_are_rated_as_by_battles_rate_and_claimed_of_as_scores_of_the_same(
    tmp_path: Path,
) -> None:
    path = tmp_path / "battles.jsonl"
    rows = [(f"p{n % 60}", ("tie", "a", "b", "a")[n % 4], n) for n in range(90)]
    words = {"a": "model_a", "b": "model_b", "tie": "tie"}
    path.write_text(
        lines(
            [
                {"question_id": prompt, "model_a": "a", "model_b": "b", "source": "human"}
                | {"winner": words[winner]}
                for prompt, winner, _ in rows
            ]
        )
    )
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for name, file in zip("ab", files, strict=True):
        scores = [(n, prompt, int(winner in (name, "tie"))) for prompt, winner, n in rows]
        file.write_text(csv_of([["item", "prompt", "score"], *scores]))
    (of_battles,) = json.loads(claims(path, "--json").output)
    (of_scores,) = json.loads(claims(*files, "--group", "prompt", "--json").output)
    for key in ("upper", "claim", "record"):
        assert of_battles["pairs"][0][key] == of_scores["pairs"][0][key]
    rate = ["battles", "rate", str(path), "--json", "--method", "bradley-terry"]
    (rated,) = json.loads(CliRunner().invoke(main, rate).output)["ratings"]
    ratings = {row["entrant_id"]: row["rating"] for row in rated["ratings"]}
    for each in (of_battles, of_scores):
        assert {row["entrant_id"]: row["rating"] for row in each["systems"]} == pytest.approx(
            ratings
        )


def test_the_gate_takes_results_and_reads_them_as_told(
    tmp_path: Path,
    assert_not_worse: Callable[..., None],
) -> None:
    path = tmp_path / "losses.csv"
    rows = [(f"i{n}", n % 3, n % 3 + 0.5 + n % 2) for n in range(120)]
    path.write_text(csv_of([["item", "new", "old"], *rows]))
    command = ["gate", str(path), "--candidate", "new", "--baseline", "old"]
    as_losses = [*command, "--reading", "lower-is-better", "yes"]
    exits = [CliRunner().invoke(main, each).exit_code for each in (command, as_losses)]
    assert exits == [1, 0]
    about: dict[str, Any] = {"candidate": "new", "baseline": "old"}
    assert_not_worse(path, **about, reading={"lower_is_better": True})
    with pytest.raises(pytest.fail.Exception, match="new is worse than old"):
        assert_not_worse(path, **about)
    result = CliRunner().invoke(main, [*command, "--reading", "lower-is-bettr", "yes"])
    assert "did you mean 'lower_is_better'?" in result.stderr
