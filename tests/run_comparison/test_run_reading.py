import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tournament_assets.run_comparison.run_reading import read_finished_runs
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import fingerprint_text
from tournament_assets.tournament.verdicts import Outcome

PAIR = {"prompt_id": "p1", "sample": 1, "source": "recall", "entrant_a": "ada", "entrant_b": "bob"}
VERDICT = {
    **PAIR,
    "request_key_ab": "k",
    "attempt_ab": 1,
    "reply_ab": "VERDICT: A",
    "request_key_ba": "l",
    "attempt_ba": 1,
    "reply_ba": None,
    "share": 1.0,
    "weight": 1.0,
}
MATCH = {
    **PAIR,
    "dimension": "facts",
    "prompt_text": "why?",
    "response_a": "so",
    "response_b": "\u2028no",
}
UNRATED: dict[str, Any] = {
    "dimension": "facts",
    "rank": None,
    "rating": None,
    "low": None,
    "high": None,
}
JUDGED = {
    "dimensions": ["facts"],
    "inputs": {"rubrics": {"facts": {"version": "1", "hash": fingerprint_text("Be right.")}}},
}


def write_run(folder: Path, **changes: Any) -> Path:
    """Write a small run directory; a change replaces a file, None leaves it out."""
    files: dict[str, Any] = {
        "manifest": {"dimensions": ["facts"], "inputs": {}},
        "leaderboard": [{**UNRATED, "entrant_id": name} for name in ("ada", "bob")],
        "verdicts": [{**VERDICT, "outcome": "a_wins"}],
        "matches": [MATCH],
        "rubrics": None,
        **changes,
    }
    for name in ("verdicts", "matches", "rubrics"):
        (folder / name).mkdir(parents=True)
    for name, path in (
        ("manifest", "manifest.json"),
        ("verdicts", "verdicts/facts.jsonl"),
        ("matches", "matches/matches.jsonl"),
        ("rubrics", "rubrics/facts.txt"),
    ):
        content = files[name]
        if isinstance(content, list):
            content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        elif isinstance(content, dict):
            content = json.dumps(content)
        if content is not None:
            (folder / path).write_text(content, encoding="utf-8")
    if files["leaderboard"] is not None:
        write_leaderboard(folder, files["leaderboard"])
    return folder


def write_leaderboard(folder: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), folder / "leaderboard.parquet")


def test_a_run_directory_gives_its_pairs_with_what_was_shown(tmp_path: Path) -> None:
    (run,) = read_finished_runs([write_run(tmp_path / "run")])
    (pair,) = run.pairs
    assert (pair.prompt_id, pair.source, pair.outcome) == ("p1", "recall", Outcome.A_WINS)
    assert None not in (pair.question, pair.response_a, pair.response_b)
    assert pair.response_a != pair.response_b
    assert run.requests == {"facts": {"k"}}


def test_who_has_no_rank_is_not_rated(tmp_path: Path) -> None:
    (run,) = read_finished_runs([write_run(tmp_path / "run")])
    assert [(each.rank, each.value) for each in run.standings["facts"]] == [(None, None)] * 2


def test_a_run_directory_gives_what_the_judge_was_told(tmp_path: Path) -> None:
    told = write_run(tmp_path / "run", manifest=JUDGED, rubrics="Be right.\n")
    assert read_finished_runs([told])[0].rubrics == {"facts": "Be right."}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"manifest": None}, "found no manifest.json"),
        ({"manifest": "{"}, "manifest.json: is not JSON"),
        ({"manifest": "[]"}, "manifest.json: holds list; expected an object"),
        ({"manifest": {"dimensions": ["../facts"]}}, "expected names"),
        ({"leaderboard": None}, "leaderboard.parquet: the file is missing"),
        ({"leaderboard": [{"entrant_id": "ada"}]}, "leaderboard.parquet: has no readable ratings"),
        ({"verdicts": None}, "facts.jsonl: the file is missing"),
        ({"verdicts": "[]\n"}, "facts.jsonl:1: the line holds list"),
        ({"verdicts": [VERDICT]}, "facts.jsonl:1: has no 'outcome'"),
        ({"verdicts": [{**VERDICT, "outcome": "won"}]}, "'won' is not a valid Outcome"),
        (
            {"verdicts": [{**VERDICT, "outcome": "tie"}] * 2},
            "facts.jsonl:2: has the pair of 'ada' and 'bob' a second time",
        ),
        (
            {"matches": [{**VERDICT, "dimension": "facts"}]},
            "matches/matches.jsonl:1: has no 'prompt_text'",
        ),
        ({"verdicts": [{**PAIR, "outcome": "tie"}]}, "facts.jsonl:1: has no 'request_key_ab'"),
        ({"manifest": JUDGED}, "facts.txt: the file is missing"),
        ({"manifest": JUDGED, "rubrics": "Be brief."}, "is not the text that the judge had"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_finished_runs([write_run(tmp_path / "run", **changes)])
    assert words in str(caught.value)


def test_without_the_texts_the_pairs_are_still_there(tmp_path: Path) -> None:
    (run,) = read_finished_runs([write_run(tmp_path / "run", matches=None)])
    assert [(pair.question, pair.response_a) for pair in run.pairs] == [(None, None)]
