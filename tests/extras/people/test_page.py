"""Drawing pairs for people to label, dealing them out, and the page on which they are labelled."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.extras.people.builders import desk, row, shown_pairs
from tournament_assets.extras.people.label_records import LabelRecords, LabelVote
from tournament_assets.extras.people.labelling.page import LabelDesk, write_label_page
from tournament_assets.extras.people.votes import import_votes
from tournament_assets.foundation.fingerprints import fingerprint_text

ENTRANTS = ("ada", "bob", "cy")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


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
    shared = shown_pairs(of, shared=True)
    states = {name: of.rater_state(name, [], ["ana", "ben"]) for name in ("ana", "ben")}
    ana, ben = (set(state["order"]) for state in states.values())
    assert len(shared) == 4
    assert ana & ben == set(shared)
    assert ana | ben == {*shown_pairs(of)}
    assert (len(ana), len(ben)) == (12, 12)
    assert set(states["ana"]["others"]) == ben - ana
    # Everybody labels in one order, so that whoever stops leaves a random sample.
    order = of.rater_state("cat", [], [])["order"]
    for state in states.values():
        assert state["order"] == [each for each in order if each in state["order"]]


def test_what_somebody_has_labelled_is_nobody_else_s_unless_it_is_shared() -> None:
    of = desk()
    everything = [vote(of, place, "ana") for place in range(20)]
    state = of.rater_state("ben", everything, ["ana"])
    assert state["order"] == sorted(shown_pairs(of, shared=True))
    assert state["others"] == []
    assert of.rater_state("ana", everything, [])["order"] == []
    assert of.rater_state("ana", everything, [])["seconds"] == 9.5
    taken_back = [*everything, vote(of, 7, "ana", "undo", at=9)]
    state = of.rater_state("ana", taken_back, [])
    assert state["order"] == [shown_pairs(of)[7]]
    assert shown_pairs(of)[7] not in [name for name, _ in state["done"]]


def test_a_page_holds_no_name_and_shows_sides_in_both_orders() -> None:
    of = desk(30)
    sides = Counter[bool]()
    pairs = {of.shown_id(pair_id): pair for pair_id, pair in of.texts.items()}
    for rater in ("ana", "ben"):
        values = of.page_values(rater, of.rater_state(rater, [], [rater]))
        texts = {name: values["pairs"][name] for name in values["order"]}
        for name, shown in texts.items():
            pair = pairs[name]
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


DESK = desk()


def test_a_file_to_send_holds_one_rater_s_pairs_and_no_name(
    tmp_path: Path, ledger: LabelRecords
) -> None:
    path = tmp_path / "label.html"
    count = write_label_page(path, DESK, "ana", ledger=ledger, raters=["ana", "ben"])
    text = path.read_text()
    work = json.loads(text.split('id="work">')[1].split("</script>")[0])
    assert len(work["order"]) == len(work["pairs"]) == count == 12
    assert "connect-src" not in text
    for pair in work["pairs"].values():
        del pair["A"], pair["B"]
    assert not any(f'"{name}"' in json.dumps(work) for name in ENTRANTS)
    assert work["rubric"] == DESK.rubric_hash
    # What it saves can be taken back.
    saved = tmp_path / "votes.json"
    votes = [row(DESK, 0, at="2026-03-01T12:00:00.000Z")]
    head = {"format": "tournament-votes", "version": 1, "rubric": work["rubric"]}
    saved.write_text(
        json.dumps({"sample": DESK.sample.sample_id, "rater": "ana", "votes": votes, **head})
    )
    assert import_votes(saved, tournament_id="tiny", ledger=ledger).added == 1
