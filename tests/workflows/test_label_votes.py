import csv
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.workflows.test_labelling import pairs
from tournament_assets.battles.formats.label_tools import FORMATS, ReadingOptions
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.errors import InputError
from tournament_assets.workflows import label_votes
from tournament_assets.workflows.label_votes import ImportedLabels
from tournament_assets.workflows.labelling import draw_label_sample

SCOPE = ("tiny", "pilot", "factuality")
PAIRS = pairs()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    yield opened
    opened.close()


def task(pair: PairToJudge, selected: object = "left", **changed: Any) -> dict[str, Any]:
    """A task of Label Studio's JSON export, shown with entrant b's response on the left."""
    annotation = {
        "id": 70,
        "completed_by": {"id": 3, "email": "ana@example.org"},
        "was_cancelled": False,
        "created_at": "2026-03-01T12:00:00.000000Z",
        "lead_time": 7.5,
        "result": [
            {
                "from_name": "pw",
                "to_name": "text1,text2",
                "type": "pairwise",
                "value": {"selected": selected},
            }
        ],
        **changed,
    }
    data = {"question": pair.prompt_text, "text1": pair.response_b, "text2": f"{pair.response_a}\n"}
    return {"id": 12, "data": data, "annotations": [annotation]}


def record(pair: PairToJudge, value: object = "A", **changed: Any) -> dict[str, Any]:
    """A record of `dataset.records.to_json`."""
    return {
        "id": f"record {pair.prompt_id}",
        "fields": {"response_a": pair.response_a, "response_b": pair.response_b},
        "metadata": {"prompt_id": pair.prompt_id},
        "suggestions": {},
        "responses": {"better": [{"value": value, "user_id": "u-1"}]},
        **changed,
    }


def write(tmp_path: Path, rows: Sequence[Mapping[str, Any]], *, as_csv: bool = False) -> Path:
    path = tmp_path / ("labels.csv" if as_csv else "labels.json")
    if not as_csv:
        path.write_text(json.dumps(rows))
        return path
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def take(path: Path, format_name: str, ledger: Ledger, **changed: Any) -> ImportedLabels:
    is_random = changed.pop("is_random", True)
    return label_votes.import_foreign_votes(
        path,
        format_name=format_name,
        options=ReadingOptions(**changed),
        pairs=PAIRS,
        scope=SCOPE,
        is_random=is_random,
        ledger=ledger,
    )


def heard(ledger: Ledger) -> list[tuple[str, str, str, str, str]]:
    return [
        (each.rater, each.pair.prompt_id, each.pair.entrant_a, each.pair.entrant_b, each.vote)
        for each in ledger.labels(*SCOPE)
    ]


def test_label_studio_s_export_is_read_and_twice_is_once(tmp_path: Path, ledger: Ledger) -> None:
    rows = [
        task(PAIRS[0]),
        task(PAIRS[4], "right", completed_by=3),
        task(PAIRS[5], result=[{"type": "choices", "value": {"choices": ["Both bad"]}}]),
        task(PAIRS[6], was_cancelled=True),
        task(PAIRS[7], result=[]),
    ]
    path = write(tmp_path, rows)
    found = take(path, "label-studio", ledger)
    assert (found.votes, found.added) == (3, 3)
    assert found.left_out == {"skipped by the rater": 1, "no answer": 1}
    assert heard(ledger) == [
        ("ana@example.org", "p0", "ada", "bob", "b"),
        ("rater 3", "p1", "ada", "cy", "a"),
        ("ana@example.org", "p1", "bob", "cy", "both_bad"),
    ]
    first = next(ledger.labels(*SCOPE))
    assert (first.shown, first.seconds, first.origin) == ("ba", 7.5, "label-studio")
    assert first.given_at.isoformat() == "2026-03-01T12:00:00+00:00"
    # Three of thirty, since somebody says that they are a random draw.
    assert first.pair.chance == 3 / 30
    assert take(path, "label-studio", ledger).added == 0


def test_both_versions_of_argilla_s_records_are_read(tmp_path: Path, ledger: Ledger) -> None:
    earlier = record(
        PAIRS[3],
        responses=[
            {"user_id": "u-2", "status": "submitted", "values": {"better": {"value": "tie"}}},
            {"user_id": "u-3", "status": "draft", "values": {"better": {"value": "B"}}},
        ],
    )
    path = write(tmp_path, [record(PAIRS[0], "Response B is better"), earlier])
    found = take(path, "argilla", ledger)
    assert (found.added, found.left_out) == (2, {"not submitted": 1})
    assert heard(ledger) == [("u-1", "p0", "ada", "bob", "b"), ("u-2", "p1", "ada", "bob", "tie")]


def test_lmsys_csv_is_read_by_texts_or_by_names(tmp_path: Path, ledger: Ledger) -> None:
    none = {"winner_model_a": 0, "winner_model_b": 0, "winner_tie": 0}
    rows = [
        {
            "id": 1,
            "model_a": "cy",
            "model_b": "ada",
            "prompt": json.dumps([PAIRS[1].prompt_text]),
            "response_a": json.dumps([PAIRS[1].response_b]),
            "response_b": json.dumps([PAIRS[1].response_a]),
            **none,
            "winner_model_a": 1,
        },
        {"id": 2, "model_a": "ada", "model_b": "bob", "prompt": "p3", **none, "winner_tie": 1},
        {"id": 3, "model_a": "ada", "model_b": "zoe", "prompt": "p3", **none, "winner_tie": 1},
    ]
    rows = [dict.fromkeys(rows[0], "") | row for row in rows]
    found = take(write(tmp_path, rows, as_csv=True), "lmsys", ledger)
    assert (found.added, found.left_out) == (2, {label_votes.NO_PAIR: 1})
    assert heard(ledger) == [
        ("unnamed 1", "p0", "ada", "cy", "b"),
        ("unnamed 2", "p3", "ada", "bob", "tie"),
    ]
    # More of them extend the sample; all of it has the chance of today.
    more = [rows[1] | {"id": 4, "prompt": "p5"}]
    assert take(write(tmp_path, more, as_csv=True), "lmsys", ledger, rater="ben").added == 1
    assert heard(ledger)[2] == ("ben", "p5", "ada", "bob", "tie")
    assert {each.pair.chance for each in ledger.labels(*SCOPE)} == {3 / 30}


def test_labels_count_for_what_was_drawn_here_and_nothing_else(
    tmp_path: Path, ledger: Ledger
) -> None:
    path = write(tmp_path, [record(pair) for pair in PAIRS])
    with pytest.raises(InputError, match="these pairs were chosen are unknown"):
        take(path, "argilla", ledger, is_random=False)
    sample = draw_label_sample(
        PAIRS, tournament_id="tiny", mode="pilot", dimension="factuality", size=10
    )
    ledger.keep_label_sample(sample)
    for is_random in (False, True):
        found = take(path, "argilla", ledger, is_random=is_random)
        assert (found.votes, found.left_out) == (10, {label_votes.NOT_DRAWN: 20})
    assert len(heard(ledger)) == 10
    assert ledger.label_sample(*SCOPE) == sample


def test_texts_of_no_pair_and_of_no_choice_are_counted(tmp_path: Path, ledger: Ledger) -> None:
    other = record(PAIRS[0])
    other["metadata"] = {"prompt_id": "another"}
    path = write(tmp_path, [record(PAIRS[0]), other])
    assert take(path, "argilla", ledger).left_out == {label_votes.NO_PAIR: 1}


def test_the_keys_of_the_responses_can_be_named(tmp_path: Path, ledger: Ledger) -> None:
    row = task(PAIRS[0])
    row["data"] = {"p": "p0", "links": PAIRS[0].response_a, "rechts": PAIRS[0].response_b}
    path = write(tmp_path, [row])
    with pytest.raises(InputError, match="no pair of the mode"):
        take(path, "label-studio", ledger)
    assert take(path, "label-studio", ledger, sides=("links", "rechts")).added == 1
    with pytest.raises(InputError, match="links and right hold no text"):
        take(path, "label-studio", ledger, sides=("links", "right"))


def test_all_problems_are_told_at_once(tmp_path: Path, ledger: Ledger) -> None:
    rows: list[Any] = [
        task(PAIRS[0], "up"),
        {"data": {}},
        7,
        task(PAIRS[1], result=[{"type": "choices", "value": {"choices": ["a", "b"]}}]),
        task(PAIRS[1], result=["x"]),
        task(PAIRS[1], completed_by="\x1b[2J"),
        task(PAIRS[2], {"a": 1}),
    ]
    path = write(tmp_path, rows)
    with pytest.raises(InputError) as caught:
        take(path, "label-studio", ledger)
    words = [
        "'up'",
        "data or annotations is missing",
        "it is int",
        "several answers",
        "a result is",
        "rater",
        "answer is",
    ]
    found = caught.value.problems
    assert len(found) == len(words)
    assert [word for word, problem in zip(words, found, strict=True) if word not in problem] == []
    assert heard(ledger) == []


@pytest.mark.parametrize("format_name", FORMATS)
def test_any_bytes_are_labels_or_are_refused(
    tmp_path: Path, ledger: Ledger, format_name: str
) -> None:
    row = task(PAIRS[0]) if format_name == "label-studio" else record(PAIRS[0])
    flat = {"id": 1, "model_a": "ada", "model_b": "bob", "prompt": "p0", "winner": "tie"}
    is_csv = format_name == "lmsys"
    whole = write(tmp_path, [flat if is_csv else row], as_csv=is_csv).read_bytes()
    draw = random.Random(7)
    path = tmp_path / "changed"
    for _ in range(200):
        content = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(bytes(content))
        try:
            take(path, format_name, ledger)
        except InputError:
            continue
    for hostile in (b"", b"[", b"[" * 100_000, b"\xff", b"{}"):
        path.write_bytes(hostile)
        if is_csv:
            continue
        with pytest.raises(InputError):
            take(path, format_name, ledger)
    with pytest.raises(InputError, match="cannot be read"):
        take(tmp_path / "none", format_name, ledger)
