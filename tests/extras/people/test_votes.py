"""Votes from the page, from a file of it, and from other tools."""

import csv
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.battles.builders import CONTAINERS, write_container
from tests.extras.people.builders import SCOPE, desk, pairs, row
from tournament_assets.battles.files import NAMED, NO_FLAG, SELF
from tournament_assets.extras.people import votes as label_votes
from tournament_assets.extras.people.label_records import (
    LabelRecords,
    LabelVote,
    clean_rater,
    sample_id_of,
)
from tournament_assets.extras.people.labelling.page import LabelDesk
from tournament_assets.extras.people.labelling.sampling import draw_label_sample
from tournament_assets.extras.people.votes import (
    ImportedVotes,
    ReadingOptions,
    import_votes,
    read_votes,
    said_as_shown,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.judging.requests.pairs import PairToJudge

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PAIRS = pairs()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[LabelRecords]:
    opened = LabelRecords(f"sqlite:///{tmp_path}/ledger.sqlite")
    yield opened
    opened.close()


def labelled(pair: PairToJudge, winner: str = "a", **changed: Any) -> dict[str, Any]:
    """A row of LMSYS's CSV, shown with entrant b's response first."""
    texts = {"response_a": f"{pair.response_b}\n", "response_b": pair.response_a}
    return {"id": pair.prompt_id, "prompt": pair.prompt_text, **texts, "winner": winner, **changed}


def write(tmp_path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path = tmp_path / "labels.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)
    return path


def take(path: Path, ledger: LabelRecords, **changed: Any) -> ImportedVotes:
    is_random, of = changed.pop("is_random", True), changed.pop("of", PAIRS)
    return label_votes.import_foreign_votes(
        path,
        options=ReadingOptions(**changed),
        pairs=of,
        scope=tuple(SCOPE.values()),
        is_random=is_random,
        ledger=ledger,
    )


def heard(ledger: LabelRecords) -> list[tuple[str, str, str, str, str]]:
    return [
        (each.rater, each.pair.prompt_id, each.pair.entrant_a, each.pair.entrant_b, each.vote)
        for each in ledger.labels(*SCOPE.values())
    ]


def test_labels_are_read_and_twice_is_once(tmp_path: Path, ledger: LabelRecords) -> None:
    path = write(
        tmp_path,
        [
            labelled(PAIRS[0], judge="ana"),
            labelled(PAIRS[4], "model_b", judge="rater 3"),
            labelled(PAIRS[5], "tie (bothbad)", judge="ana"),
        ],
    )
    found = take(path, ledger)
    assert (found.votes, found.added) == (3, 3)
    assert heard(ledger) == [
        ("ana", "p0", "ada", "bob", "b"),
        ("rater 3", "p1", "ada", "cy", "a"),
        ("ana", "p1", "bob", "cy", "both_bad"),
    ]
    first = next(ledger.labels(*SCOPE.values()))
    given = next(ledger.iterate_votes(sample_id_of(*SCOPE.values())))
    assert (given.shown, given.origin) == ("ba", "lmsys")
    # Three of thirty, since somebody says that they are a random draw.
    assert first.pair.chance == 3 / 30
    assert take(path, ledger).added == 0


def test_lmsys_csv_is_read_by_texts_or_by_names(tmp_path: Path, ledger: LabelRecords) -> None:
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
    found = take(write(tmp_path, rows), ledger)
    assert (found.added, found.left_out) == (2, {label_votes.NO_PAIR: 1})
    assert heard(ledger) == [
        ("unnamed 1", "p0", "ada", "cy", "b"),
        ("unnamed 2", "p3", "ada", "bob", "tie"),
    ]
    # More of them extend the sample; all of it has the chance of today.
    more = [rows[1] | {"id": 4, "prompt": "p5"}]
    assert take(write(tmp_path, more), ledger, rater="ben").added == 1
    assert heard(ledger)[2] == ("ben", "p5", "ada", "bob", "tie")
    assert {each.pair.chance for each in ledger.labels(*SCOPE.values())} == {3 / 30}


@pytest.mark.parametrize("container", CONTAINERS)
def test_labels_are_read_in_each_container_and_what_is_not_used_is_counted(
    tmp_path: Path, ledger: LabelRecords, container: str
) -> None:
    several = [json.dumps(["one", "two"])] * 3
    rows = [
        labelled(PAIRS[n], judge="ana", anony=True, turn=1, mood=f"fine {n}")
        | {"model_a": PAIRS[n].entrant_b, "model_b": PAIRS[n].entrant_a}
        for n in range(6)
    ]
    rows[1]["anony"] = False
    rows[2]["model_b"] = rows[2]["model_a"]
    rows[3]["turn"] = 2
    rows[4] |= dict(zip(("prompt", "response_a", "response_b"), several, strict=True))
    rows[5]["winner"] = None
    votes = take(write_container(tmp_path / f"labels.{container}", rows), ledger)
    assert votes.left_out == {NAMED: 1, SELF: 1, label_votes.LATER_TURNS: 2, NO_FLAG: 1}
    assert heard(ledger) == [("ana", "p0", "ada", "bob", "b")]
    rows = [labelled(PAIRS[n], judge="ana", mood=f"fine {n}") for n in range(2)]
    votes = take(write_container(tmp_path / f"more.{container}", rows), ledger)
    assert votes.note == "not used: mood (2 of 2 filled)"


def test_equal_labels_without_a_rater_are_of_different_people(
    tmp_path: Path, ledger: LabelRecords
) -> None:
    path = write(tmp_path, [labelled(PAIRS[0])] * 3)
    assert (take(path, ledger).added, take(path, ledger).added) == (3, 0)
    path = write(tmp_path, [labelled(PAIRS[0], judge=f"{'r' * 70}{n}") for n in range(2)])
    with pytest.raises(InputError, match="rater"):
        take(path, ledger)


def test_an_answer_may_be_a_list(tmp_path: Path, ledger: LabelRecords) -> None:
    pair = replace(PAIRS[0], response_a='["one", "two"]', response_b='["three"]')
    row = {"id": "p0", "response_a": pair.response_a, "response_b": pair.response_b, "winner": "a"}
    assert take(write(tmp_path, [row]), ledger, of=[pair]).added == 1


def test_labels_count_for_what_was_drawn_here_and_nothing_else(
    tmp_path: Path, ledger: LabelRecords
) -> None:
    path = write(tmp_path, [labelled(pair) for pair in PAIRS])
    with pytest.raises(InputError, match="unknown"):
        take(path, ledger, is_random=False)
    sample = draw_label_sample(
        PAIRS, tournament_id="tiny", mode="pilot", dimension="factuality", size=10
    )
    ledger.keep_label_sample(sample)
    for is_random in (False, True):
        found = take(path, ledger, is_random=is_random)
        assert (found.votes, found.left_out) == (10, {label_votes.NOT_DRAWN: 20})
    assert len(heard(ledger)) == 10
    assert ledger.label_sample(*SCOPE.values()) == sample


def test_the_columns_of_the_responses_can_be_named(tmp_path: Path, ledger: LabelRecords) -> None:
    row = {"p": "p0", "links": PAIRS[0].response_a, "rechts": PAIRS[0].response_b, "winner": "b"}
    path = write(tmp_path, [row])
    with pytest.raises(InputError, match="no pair"):
        take(path, ledger)
    assert take(path, ledger, sides=("links", "rechts")).added == 1
    with pytest.raises(InputError, match="and right"):
        take(path, ledger, sides=("links", "right"))


def test_all_problems_of_labels_are_told_at_once(tmp_path: Path, ledger: LabelRecords) -> None:
    wrong = [{"winner": "up"}, {"winner": "", "winner_tie": "0.5"}, {"judge": "\x1b[2J"}]
    path = write(tmp_path, [labelled(PAIRS[0], **each) for each in wrong])
    with pytest.raises(InputError) as caught:
        take(path, ledger)
    assert len(caught.value.problems) == len(wrong)
    for word, problem in zip(("'up'", "winner_", "rater"), caught.value.problems, strict=True):
        assert word in problem
    assert heard(ledger) == []


def test_any_bytes_are_labels_or_are_refused(tmp_path: Path, ledger: LabelRecords) -> None:
    whole = write(tmp_path, [labelled(PAIRS[0])]).read_bytes()
    draw = random.Random(7)
    path = tmp_path / "changed"
    for _ in range(200):
        content = bytearray(whole)
        for _ in range(draw.randint(1, 6)):
            content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(bytes(content))
        with suppress(InputError):
            take(path, ledger)
    with pytest.raises(InputError, match="none"):
        take(tmp_path / "none", ledger)


def read(of: LabelDesk, rows: Any) -> list[LabelVote]:
    return read_votes(
        rows,
        rater="ana",
        sample_id=of.sample.sample_id,
        pairs={each.pair_id: each for each in of.sample.pairs},
        origin="page",
        rubric_hash=None,
        now=NOW,
    )


@pytest.mark.parametrize(
    ("said", "first", "vote"),
    [
        ("A", "a", "a"),
        ("B", "a", "b"),
        ("A", "b", "b"),
        ("B", "b", "a"),
        ("tie", "b", "tie"),
        ("both_bad", "a", "both_bad"),
        ("undo", "b", "undo"),
    ],
)
def test_a_vote_is_for_an_entrant_whichever_side_it_stood_on(
    said: str, first: str, vote: str
) -> None:
    of = desk()
    [found] = read(of, [row(of, 3, said, first=first)])
    assert (found.vote, found.shown) == (vote, "ab" if first == "a" else "ba")
    assert found.given_at == NOW - timedelta(seconds=1.5)
    assert said_as_shown(found) == said


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"id": "x" * 32}, "id is"),
    ({"id": ["0" * 32]}, "id is"),
    ({"pair": "0" * 64}, "pair is"),
    ({"pair": {"a": 1}}, "pair is"),
    ({"first": "0" * 64}, "first is"),
    ({"first": None}, "first is"),
    ({"said": "C"}, "said is"),
    ({"said": ["A"]}, "said is"),
    ({"age": -1}, "age is"),
    ({"age": True}, "age is"),
    ({"age": 10**400}, "age is"),
    ({"age": "1"}, "age is"),
    ({"at": "yesterday"}, "at is"),
    ({"at": "0001-01-01T00:00:00+14:00"}, "at is"),
    ({"at": "2026-03-01T12:00:00"}, "at is"),
    ({"seconds": "4"}, "seconds is"),
    ({"seconds": -4}, "seconds is"),
]


@pytest.mark.parametrize(("changed", "problem"), HOSTILE)
def test_a_vote_that_no_page_writes_is_refused(changed: dict[str, Any], problem: str) -> None:
    of = desk()
    with pytest.raises(InputError, match=rf"^vote 2: {problem}"):
        read(of, [row(of, 0), row(of, 1) | changed])


def test_all_problems_are_told_at_once_and_not_more_than_anybody_reads() -> None:
    of = desk()
    with pytest.raises(InputError) as caught:
        read(of, [row(of, 0, said="?"), 7, row(of, 1, said="?", seconds="long")])
    assert [problem.split(" is")[0] for problem in caught.value.problems] == [
        *("vote 1: said", "vote 2: it", "vote 3: said", "vote 3: seconds")
    ]
    with pytest.raises(InputError) as caught:
        read(of, [7] * 1000)
    assert len(caught.value.problems) == 51
    hostile: list[Any] = [None, {}, "A", [row(of, 0)] * 20_001]
    for rows in hostile:
        with pytest.raises(InputError):
            read(of, rows)


@pytest.mark.parametrize("name", ["", "  ", "a" * 61, "a\0b", "a\x1b[2J", None, 7, "\u202eana"])
def test_a_name_that_cannot_be_shown_is_refused(name: object) -> None:
    with pytest.raises(InputError, match="rater"):
        clean_rater(name)
    assert clean_rater("  Ana   Ruiz ") == "Ana Ruiz"


def votes_file(tmp_path: Path, of: LabelDesk, rows: Sequence[Any], **changed: Any) -> Path:
    path = tmp_path / "votes.json"
    values = {
        "format": "tournament-votes",
        "version": 1,
        "sample": of.sample.sample_id,
        "rubric": of.rubric_hash,
        "rater": "ana",
        "votes": rows,
        **changed,
    }
    path.write_text(json.dumps(values))
    return path


def test_a_file_of_votes_that_comes_twice_counts_once(tmp_path: Path, ledger: LabelRecords) -> None:
    of = desk()
    ledger.keep_label_sample(of.sample)
    given = [row(of, 0, at="2026-03-01T12:00:00Z"), row(of, 1, "tie", at="2026-03-01T12:00:09Z")]
    path = votes_file(tmp_path, of, given)
    assert import_votes(path, tournament_id="tiny", ledger=ledger).added == 2
    assert import_votes(path, tournament_id="tiny", ledger=ledger).added == 0
    found = list(ledger.iterate_votes(of.sample.sample_id))
    assert [(each.rater, each.vote, each.origin) for each in found] == [
        *(("ana", "a", "file"), ("ana", "tie", "file"))
    ]
    assert found[0].rubric_hash == of.rubric_hash


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sample": "another"}, ["sample is 'another'"]),
        ({"sample": ["x"]}, ["sample is"]),
        ({"format": "x", "version": 9}, ["format and version are"]),
        ({"rater": "\x1b"}, ["the rater is"]),
        ({"rubric": "<script>"}, ["rubric is"]),
        ({"votes": "A"}, ["the votes are str"]),
        ({"votes": [{}], "rater": 1, "version": 2}, ["format", "rater", "id", "pair", "said"]),
    ],
)
def test_a_hostile_file_of_votes_is_refused_whole(
    tmp_path: Path, ledger: LabelRecords, changed: dict[str, Any], words: list[str]
) -> None:
    of = desk()
    ledger.keep_label_sample(of.sample)
    path = votes_file(tmp_path, of, [row(of, 0)], **changed)
    with pytest.raises(InputError) as caught:
        import_votes(path, tournament_id="tiny", ledger=ledger)
    said = "\n".join(caught.value.problems)
    assert [word for word in words if word not in said] == []
    assert list(ledger.iterate_votes(of.sample.sample_id)) == []


def test_votes_of_another_tournament_are_refused(tmp_path: Path, ledger: LabelRecords) -> None:
    of = desk()
    ledger.keep_label_sample(of.sample)
    with pytest.raises(InputError, match="sample is"):
        import_votes(votes_file(tmp_path, of, []), tournament_id="other", ledger=ledger)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * 9_000_000,
    ],
)
def test_a_file_that_is_none_is_refused(
    tmp_path: Path, ledger: LabelRecords, content: bytes
) -> None:
    path = tmp_path / "votes.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"votes\.json"):
        import_votes(path, tournament_id="tiny", ledger=ledger)
    with pytest.raises(InputError, match=r"none\.json"):
        import_votes(tmp_path / "none.json", tournament_id="tiny", ledger=ledger)


def test_any_bytes_are_votes_or_are_refused(tmp_path: Path, ledger: LabelRecords) -> None:
    of = desk()
    ledger.keep_label_sample(of.sample)
    whole = votes_file(tmp_path, of, [row(of, place) for place in range(3)]).read_bytes()
    draw = random.Random(5)
    path = tmp_path / "votes.json"
    refused = 0
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(bytes(content))
        try:
            import_votes(path, tournament_id="tiny", ledger=ledger)
        except InputError:
            refused += 1
