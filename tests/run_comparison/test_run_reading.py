import json
from pathlib import Path
from typing import Any

import pytest

from tests.reports.builders import leader_row
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.fingerprints import fingerprint_text
from tournament_assets.reports.csv_tables import write_csv_table
from tournament_assets.run_comparison.run_reading import read_finished_runs
from tournament_assets.tournament.asset_rows import LeaderboardRow
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
JUDGED = {
    "dimensions": ["facts"],
    "inputs": {"rubrics": {"facts": {"version": "1", "hash": fingerprint_text("Be right.")}}},
    "rubrics": {"facts": "Be right."},
}


def write_run(folder: Path, **changes: Any) -> Path:
    """Write a small run directory; a change replaces a file, None leaves it out."""
    files: dict[str, Any] = {
        "manifest": {"dimensions": ["facts"], "inputs": {}},
        "leaderboard": [
            leader_row(name, None, dimension="facts", rank=None) for name in ("ada", "bob")
        ],
        "verdicts": [{**VERDICT, "outcome": "a_wins"}],
        "matches": [MATCH],
        **changes,
    }
    for name in ("verdicts", "matches"):
        (folder / name).mkdir(parents=True)
    for name, path in (
        ("manifest", "manifest.json"),
        ("verdicts", "verdicts/facts.jsonl"),
        ("matches", "matches/matches.jsonl"),
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


def write_leaderboard(folder: Path, rows: list[LeaderboardRow] | bytes) -> None:
    content = rows if isinstance(rows, bytes) else write_csv_table(LeaderboardRow, rows)
    (folder / "leaderboard.csv").write_bytes(content)


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
    judged = write_run(tmp_path / "run", manifest=JUDGED)
    assert read_finished_runs([judged])[0].rubrics == {"facts": "Be right."}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"manifest": None}, "manifest.json: the manifest cannot be read"),
        ({"manifest": "{"}, "manifest.json: the manifest cannot be read (Expecting"),
        ({"manifest": "[]"}, "manifest.json: the manifest is list; expected a JSON object"),
        ({"manifest": {"dimensions": ["../facts"]}}, "expected names"),
        ({"leaderboard": None}, "leaderboard.csv: "),
        ({"leaderboard": b"entrant_id\nada\n"}, "leaderboard.csv: the header has no dimension"),
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
        (
            {"manifest": {**JUDGED, "rubrics": {"facts": "Be brief."}}},
            "is not the text that the judge had",
        ),
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
