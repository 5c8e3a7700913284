from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ledger.at_once import run_at_once
from tournament_assets.extras.people.label_records import (
    LabelRecords,
    LabelSample,
    LabelVote,
    SampledPair,
    sample_id_of,
)
from tournament_assets.foundation.fingerprints import fingerprint_text

SCOPE = ("tiny", "pilot", "factuality")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def pair(number: int, *, chance: float = 0.5, response_b: str = "beta") -> SampledPair:
    texts = ("What?", "alpha", response_b)
    prompt_digest, digest_a, digest_b = map(fingerprint_text, texts)
    return SampledPair(
        pair_id=f"pair {number} {response_b}",
        position=number,
        prompt_id=f"p{number}",
        entrant_a="ada",
        entrant_b="bob",
        prompt_digest=prompt_digest,
        digest_a=digest_a,
        digest_b=digest_b,
        chance=chance,
        shared=number == 0,
    )


def sample(*pairs: SampledPair, draw: int = 1, dimension: str | None = SCOPE[2]) -> LabelSample:
    return LabelSample(
        sample_id=sample_id_of(SCOPE[0], SCOPE[1], dimension),
        draw=draw,
        tournament_id=SCOPE[0],
        mode=SCOPE[1],
        dimension=dimension,
        method="random",
        seed=7,
        frame_size=12,
        same_text=2,
        overlap=0.2,
        pairs=pairs or (pair(0), pair(1)),
        drawn_at=NOON,
    )


def vote(
    vote_id: str, said: str = "a", *, on: int = 0, rater: str = "ana", at: float = 0.0
) -> LabelVote:
    return LabelVote(
        vote_id=vote_id,
        sample_id=sample_id_of(*SCOPE),
        pair_id=pair(on).pair_id,
        rater=rater,
        vote=said,  # type: ignore[arg-type]
        shown="ba",
        given_at=NOON + timedelta(seconds=at),
        seconds=4.5,
    )


def heard(records: LabelRecords) -> dict[tuple[str, str], str]:
    return {(each.pair.prompt_id, each.rater): each.vote for each in records.labels(*SCOPE)}


def test_a_sample_comes_back_whole_in_a_later_process(
    records: LabelRecords, ledger_url: str
) -> None:
    assert records.label_sample(*SCOPE) is None
    assert list(records.labels(*SCOPE)) == []
    in_general = sample(dimension=None)
    assert records.keep_label_sample(sample())
    assert records.keep_label_sample(in_general)
    records.close()
    later = LabelRecords(ledger_url)
    assert later.label_sample(*SCOPE) == sample()
    assert later.label_sample(*SCOPE[:2], None) == in_general
    assert later.label_sample("tiny", "headline", SCOPE[2]) is None
    later.close()


def test_the_last_vote_of_a_rater_on_a_pair_counts(records: LabelRecords) -> None:
    records.keep_label_sample(sample())
    records.keep_votes([vote("v1", "a"), vote("v2", "tie", rater="ben"), vote("v3", "a", on=1)])
    records.keep_votes([vote("v4", "b", at=5), vote("v5", "undo", on=1, at=9)])
    assert heard(records) == {("p0", "ana"): "b", ("p0", "ben"): "tie"}
    records.keep_votes([vote("v6", "both_bad", on=1, at=12)])
    assert heard(records)["p1", "ana"] == "both_bad"
    assert [each.vote for each in records.iterate_votes(sample_id_of(*SCOPE))] == [
        *("a", "tie", "a", "b", "undo", "both_bad")
    ]
    first = next(records.labels(*SCOPE))
    assert (first.share, first.pair.chance) == (0.0, 0.5)
    assert list(records.iterate_votes(sample_id_of(*SCOPE)))[3] == vote("v4", "b", at=5)


def test_a_vote_that_comes_late_does_not_replace_a_later_one(records: LabelRecords) -> None:
    records.keep_label_sample(sample())
    records.keep_votes([vote("v1", "b", at=60)])
    records.keep_votes([vote("from a file", "a", at=10)])
    assert heard(records) == {("p0", "ana"): "b"}


def test_a_clock_that_is_ahead_makes_no_vote_the_last_for_ever(records: LabelRecords) -> None:
    records.keep_label_sample(sample())
    ahead = replace(vote("v1", "a"), given_at=datetime(2999, 1, 1, tzinfo=UTC))
    records.keep_votes([ahead])
    records.keep_votes([replace(vote("v2", "b"), given_at=datetime(2999, 1, 1, tzinfo=UTC))])
    assert heard(records) == {("p0", "ana"): "b"}


def test_who_stops_early_leaves_a_smaller_random_draw_of_each_stratum(
    records: LabelRecords,
) -> None:
    strata = ["tie", "won", "tie", "won", "won", "won"]
    chances = {"tie": 1.0, "won": 0.1}
    drawn = [
        replace(pair(number), stratum=stratum, chance=chances[stratum])
        for number, stratum in enumerate(strata)
    ]
    records.keep_label_sample(sample(*drawn))
    records.keep_votes([vote(f"v{number}", on=number) for number in range(5)])
    # Both ties of two are labelled, and three of four drawn from forty.
    found = {each.pair.prompt_id: each.pair.chance for each in records.labels(*SCOPE)}
    assert found == pytest.approx({"p0": 1, "p1": 0.075, "p2": 1, "p3": 0.075, "p4": 0.075})
    by_worth = replace(sample(*drawn, draw=2), method="active")
    records.keep_label_sample(by_worth)
    assert {each.pair.chance for each in records.labels(*SCOPE)} == {1.0, 0.1}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(times=st.integers(1, 3), said=st.sampled_from(["a", "b", "tie", "both_bad"]))
def test_twice_is_once(records: LabelRecords, times: int, said: str) -> None:
    records.keep_label_sample(sample())
    known = sum(1 for _ in records.iterate_votes(sample_id_of(*SCOPE)))
    name = f"{said} {known}"
    assert [records.keep_votes([vote(name, said)]) for _ in range(times)] == [1, 0, 0][:times]
    assert records.keep_votes([vote(name, "tie")]) == 0


def test_a_draw_is_written_once_and_a_later_one_counts(
    records: LabelRecords, other_records: LabelRecords
) -> None:
    assert records.keep_label_sample(sample(pair(0), pair(1)))
    assert not other_records.keep_label_sample(sample(pair(5)))
    records.keep_votes([vote("v1"), vote("v2", on=1)])
    changed = pair(1, chance=0.75, response_b="another")
    assert other_records.keep_label_sample(sample(pair(0, chance=0.75), changed, draw=2))
    # What was said of responses that have changed is not said of today's.
    assert [(each.pair.prompt_id, each.pair.chance) for each in records.labels(*SCOPE)] == [
        ("p0", 0.375)  # half of what was drawn is labelled
    ]
    assert not pair(1).is_of(prompt="What?", response_a="alpha", response_b="another")
    assert changed.is_of(prompt="What?", response_a="alpha", response_b="another")


def test_raters_vote_at_the_same_time(records: LabelRecords, other_records: LabelRecords) -> None:
    records.keep_label_sample(sample(*map(pair, range(8))))

    def label(opened: LabelRecords, rater: str) -> None:
        for number in range(8):
            opened.keep_votes([vote(f"{rater} {number}", on=number, rater=rater)])

    run_at_once([lambda: label(records, "ana"), lambda: label(other_records, "ben")])
    assert len(heard(records)) == 16
