import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.ledger import Ledger
from tournament_assets.ledger.labels import LabelSample, LabelVote, clean_rater, pair_identity
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import fingerprint_text
from tournament_assets.tournament.judges import Rubric
from tournament_assets.workflows.label_votes import (
    import_votes,
    read_votes,
    said_as_shown,
)
from tournament_assets.workflows.labelling import LabelDesk, draw_label_sample

SCOPE: dict[str, Any] = {"tournament_id": "tiny", "mode": "pilot", "dimension": "factuality"}
ENTRANTS = ("ada", "bob", "cy")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def pairs(n_prompts: int = 10, *, same: int = 0) -> list[PairToJudge]:
    """Three pairs a prompt; in the first `same` prompts ada and bob say the same."""
    return [
        PairToJudge(
            prompt_id=f"p{number}",
            source="recall",
            prompt_text=f"What is {number}?",
            entrant_a=first,
            entrant_b=second,
            response_a=f"{first} on {number}",
            response_b=f"{first if number < same and second == 'bob' else second} on {number}",
            gold_answer=f"gold {number}",
            expected_behavior="hedge",
        )
        for number in range(n_prompts)
        for first, second in (("ada", "bob"), ("ada", "cy"), ("bob", "cy"))
    ]


def names(sample: LabelSample) -> list[tuple[str, str, str]]:
    return [(each.prompt_id, each.entrant_a, each.entrant_b) for each in sample.pairs]


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 5), st.booleans())
@settings(max_examples=40, deadline=None)
def test_an_extended_sample_begins_with_what_was_drawn(
    size: int, larger: int, seed: int, by_judge: bool
) -> None:
    of = {
        (pair.prompt_id, pair.entrant_a, pair.entrant_b): "tie" if place % 5 == 0 else "one side"
        for place, pair in enumerate(pairs())
    }
    strata = of if by_judge else None
    first = draw_label_sample(pairs(), **SCOPE, size=size, seed=seed, strata=strata)
    again = draw_label_sample(pairs(), **SCOPE, size=larger, seed=seed, strata=strata, before=first)
    assert len(again.pairs) == min(max(size, larger), 30)
    assert again.draw == 2
    assert names(again)[: len(first.pairs)] == names(first)
    assert [each.shared for each in again.pairs][:size] == [each.shared for each in first.pairs]
    # Drawn at once or in two steps, it is the same sample, with the same chances.
    at_once = draw_label_sample(pairs(), **SCOPE, size=max(size, larger), seed=seed, strata=strata)
    assert at_once.pairs == again.pairs
    sizes = Counter(of.values()) if by_judge else Counter({"": 30})
    drawn = Counter(each.stratum for each in again.pairs)
    for each in again.pairs:
        assert each.chance == drawn[each.stratum] / sizes[each.stratum]
    # As many of each stratum as long as they last, and the chances add up to all there are.
    if by_judge:
        assert abs(drawn["tie"] - drawn["one side"]) <= 1 or drawn["tie"] == 6
    assert sum(1 / each.chance for each in again.pairs) == pytest.approx(
        sum(sizes[stratum] for stratum in drawn)
    )


def test_every_pair_has_the_chance_that_is_written_down() -> None:
    drawn: Counter[tuple[str, str, str]] = Counter()
    for seed in range(600):
        sample = draw_label_sample(pairs(4), **SCOPE, size=3, seed=seed)
        drawn.update(names(sample))
        assert {each.chance for each in sample.pairs} == {0.25}
    # 600 draws of a quarter: a standard deviation is 10.6.
    assert len(drawn) == 12
    assert all(abs(count - 150) < 45 for count in drawn.values())


def test_the_same_text_is_left_out_and_counted() -> None:
    sample = draw_label_sample(pairs(same=4), **SCOPE, size=100)
    assert (sample.frame_size, sample.same_text, len(sample.pairs)) == (26, 4, 26)
    assert all(each.chance == 1 for each in sample.pairs)


def test_a_pair_whose_response_has_changed_keeps_its_place_and_is_another_pair() -> None:
    first = draw_label_sample(pairs(), **SCOPE, size=9)
    place = 4
    changed = [
        replace(pair, response_b="another")
        if (pair.prompt_id, pair.entrant_a, pair.entrant_b) == names(first)[place]
        else pair
        for pair in pairs()
    ]
    again = draw_label_sample(changed, **SCOPE, size=9, before=first)
    assert names(again) == names(first)
    new = [
        one.pair_id != other.pair_id for one, other in zip(first.pairs, again.pairs, strict=True)
    ]
    assert [number for number, is_new in enumerate(new) if is_new] == [place]


def test_a_sample_over_more_prompts_holds_what_was_drawn_with_chances_of_today() -> None:
    first = draw_label_sample(pairs(10), **SCOPE, size=15)
    more = draw_label_sample(pairs(20), **SCOPE, size=15, before=first)
    assert set(names(first)) < set(names(more))
    assert {each.chance for each in more.pairs} == {len(more.pairs) / 60}


@pytest.mark.parametrize("changed", [{"seed": 1}, {"strata": {}}])
def test_a_sample_is_extended_only_as_it_was_drawn(changed: dict[str, Any]) -> None:
    first = draw_label_sample(pairs(), **SCOPE, size=5)
    with pytest.raises(InputError, match="only be extended as it was drawn"):
        draw_label_sample(pairs(), **SCOPE, size=9, before=first, **changed)


def test_a_changed_verdict_of_a_drawn_pair_is_refused() -> None:
    strata = {(each.prompt_id, each.entrant_a, each.entrant_b): "tie" for each in pairs()}
    first = draw_label_sample(pairs(), **SCOPE, size=5, strata=strata)
    strata[names(first)[2]] = "one side"
    with pytest.raises(InputError, match="was drawn where the judge said 'tie'"):
        draw_label_sample(pairs(), **SCOPE, size=9, strata=strata, before=first)


def desk(
    size: int = 20, *, overlap: float = 0.2, dimension: str | None = "factuality"
) -> LabelDesk:
    sample = draw_label_sample(
        pairs(), **{**SCOPE, "dimension": dimension}, size=size, overlap=overlap
    )
    of_id = {pair_identity(pair, "tiny", "pilot", dimension)["pair_id"]: pair for pair in pairs()}
    rubric = Rubric(dimension="factuality", version="1", text="# version: 1\n\nTruer is better.")
    drawn = {each.pair_id for each in sample.pairs}
    return LabelDesk(
        sample=sample,
        texts={name: pair for name, pair in of_id.items() if name in drawn},
        rubrics={"factuality": rubric},
        shows_gold_answer=dimension is not None,
    )


def vote(of: LabelDesk, place: int, rater: str, said: str = "a", at: float = 0) -> LabelVote:
    return LabelVote(
        vote_id=f"{rater} {place} {at}",
        sample_id=of.sample.sample_id,
        pair_id=of.sample.pairs[place].pair_id,
        rater=rater,
        vote=said,  # type: ignore[arg-type]
        shown="ab",
        given_at=NOW + timedelta(seconds=at),
        seconds=place,
    )


def test_raters_share_the_overlap_and_part_the_rest() -> None:
    of = desk()
    shared = [each.pair_id for each in of.sample.pairs if each.shared]
    states = {name: of.rater_state(name, [], ["ana", "ben"]) for name in ("ana", "ben")}
    ana, ben = (set(state["order"]) for state in states.values())
    assert len(shared) == 4
    assert ana & ben == set(shared)
    assert ana | ben == {each.pair_id for each in of.sample.pairs}
    assert (len(ana), len(ben)) == (12, 12)
    assert set(states["ana"]["others"]) == ben - ana
    # Everybody labels in the order of drawing, so that whoever stops leaves a random sample.
    position = {each.pair_id: each.position for each in of.sample.pairs}
    for state in states.values():
        places = [position[each] for each in state["order"]]
        assert places == sorted(places)


def test_what_somebody_has_labelled_is_nobody_else_s_unless_it_is_shared() -> None:
    of = desk()
    everything = [vote(of, place, "ana") for place in range(20)]
    state = of.rater_state("ben", everything, ["ana"])
    assert state["order"] == [each.pair_id for each in of.sample.pairs if each.shared]
    assert state["others"] == []
    assert of.rater_state("ana", everything, [])["order"] == []
    assert of.rater_state("ana", everything, [])["seconds"] == 9.5
    taken_back = [*everything, vote(of, 7, "ana", "undo", at=9)]
    state = of.rater_state("ana", taken_back, [])
    assert state["order"] == [of.sample.pairs[7].pair_id]
    assert of.sample.pairs[7].pair_id not in [pair_id for pair_id, _ in state["done"]]


def test_a_page_holds_no_name_and_shows_sides_in_both_orders() -> None:
    of = desk(30)
    sides = Counter[bool]()
    for rater in ("ana", "ben"):
        values = of.page_values(rater, of.rater_state(rater, [], [rater]))
        texts = {name: values["pairs"][name] for name in values["order"]}
        for name, shown in texts.items():
            pair = of.texts[name]
            assert {shown["A"], shown["B"]} == {pair.response_a, pair.response_b}
            assert shown["first"] == fingerprint_text(shown["A"])
            assert shown["gold"] == pair.gold_answer
            sides[shown["A"] == pair.response_a] += 1
        for shown in texts.values():
            del shown["A"], shown["B"]
        written = json.dumps(values)
        assert not any(f'"{name}"' in written or f"{name} " in written for name in ENTRANTS)
    assert min(sides.values()) > 15  # of 60


def test_the_expected_behaviour_is_shown_as_the_judge_is_shown_it() -> None:
    of = replace(desk(), shows_expected_behavior=True)
    pair_id, pair = next(iter(of.texts.items()))
    assert of._shown(pair_id, pair, "ana")["expected"] is None
    without = replace(pair, gold_answer=None)
    assert of._shown(pair_id, without, "ana")["expected"] == "hedge"
    assert desk()._shown(pair_id, without, "ana")["expected"] is None


def row(of: LabelDesk, place: int, said: str = "A", *, first: str = "a", **changed: Any) -> Any:
    pair = of.sample.pairs[place]
    return {
        "id": f"{place:032x}",
        "pair": pair.pair_id,
        "first": pair.digest_a if first == "a" else pair.digest_b,
        "said": said,
        "age": 1500,
        "seconds": 4.2,
        **changed,
    }


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
    with pytest.raises(InputError, match="the rater is"):
        clean_rater(name)
    assert clean_rater("  Dr. Ana   Ruiz ") == "Dr. Ana Ruiz"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    yield opened
    opened.close()


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


def test_a_file_of_votes_that_comes_twice_counts_once(tmp_path: Path, ledger: Ledger) -> None:
    of = desk()
    ledger.keep_label_sample(of.sample)
    given = [row(of, 0, at="2026-03-01T12:00:00Z"), row(of, 1, "tie", at="2026-03-01T12:00:09Z")]
    path = votes_file(tmp_path, of, given)
    assert import_votes(path, tournament_id="tiny", ledger=ledger).added == 2
    assert import_votes(path, tournament_id="tiny", ledger=ledger).added == 0
    found = list(ledger.labels("tiny", "pilot", "factuality"))
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
    tmp_path: Path, ledger: Ledger, changed: dict[str, Any], words: list[str]
) -> None:
    of = desk()
    ledger.keep_label_sample(of.sample)
    path = votes_file(tmp_path, of, [row(of, 0)], **changed)
    with pytest.raises(InputError) as caught:
        import_votes(path, tournament_id="tiny", ledger=ledger)
    said = "\n".join(caught.value.problems)
    assert [word for word in words if word not in said] == []
    assert list(ledger.iterate_votes(of.sample.sample_id)) == []


def test_votes_of_another_tournament_are_refused(tmp_path: Path, ledger: Ledger) -> None:
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
def test_a_file_that_is_none_is_refused(tmp_path: Path, ledger: Ledger, content: bytes) -> None:
    path = tmp_path / "votes.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"votes\.json"):
        import_votes(path, tournament_id="tiny", ledger=ledger)
    with pytest.raises(InputError, match="cannot be read"):
        import_votes(tmp_path / "none.json", tournament_id="tiny", ledger=ledger)


def test_any_bytes_are_votes_or_are_refused(tmp_path: Path, ledger: Ledger) -> None:
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
    assert refused > 100
