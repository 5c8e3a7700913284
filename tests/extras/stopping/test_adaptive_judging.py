from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.rows import judge_reply_row, verdict_row
from tournament_assets.extras.stopping.adaptive_judging import (
    Course,
    decide,
    verdicts_in_table,
)
from tournament_assets.extras.stopping.decisions import DecisionRow, last_rounds
from tournament_assets.extras.stopping.mode_keys import AdaptiveConfig
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.ratings.matches import code_judgments, pairwise_winrates
from tournament_assets.ratings.prompt_rounds import hashed_order
from tournament_assets.storage.tables import PairKey, make_table, pair_key
from tournament_assets.tournament.asset_rows import JudgeReplyRow, VerdictRow
from tournament_assets.tournament.judges import JudgingConfig
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict
from tournament_assets.verdicts.rounds import RoundsOutcome, outcome_of

ADAPTIVE = AdaptiveConfig(rounds=5, tail=0.25, min_prompts=10)
PROMPTS = tuple(f"prompt {number}" for number in range(100))
JUDGING = JudgingConfig()
TEXTS = {"strong": "yes", "weak": "no", "level": "no, too"}


def pairs_of(prompts: Sequence[str] = PROMPTS, *, same: Sequence[str] = ()) -> list[PairToJudge]:
    names = ("strong", "weak", "level")
    return [
        PairToJudge(
            prompt_id=prompt,
            source="s",
            prompt_text="?",
            entrant_a=first,
            entrant_b=second,
            response_a="same" if prompt in same else TEXTS[first],
            response_b="same" if prompt in same else TEXTS[second],
        )
        for prompt in prompts
        for first, second in (names[:2], names[::2], names[1:])
    ]


def settled(key: PairKey, outcome: Outcome, *, by: str = "m") -> VerdictRow:
    prompt_id, sample, a, b = key
    said = {Outcome.A_WINS: (Verdict.A, Verdict.B), Outcome.B_WINS: (Verdict.B, Verdict.A)}
    verdict_ab, verdict_ba = said.get(outcome, (Verdict.TIE, Verdict.TIE))
    return verdict_row(
        prompt_id,
        verdict_ab,
        verdict_ba,
        sample=sample,
        entrant_a=a,
        entrant_b=b,
        outcome=outcome,
        share=outcome.share,
        settled_by=by,
    )


class Judging:
    """Knows how every pair is settled, and which were asked about."""

    def __init__(self, silent: Sequence[PairKey] = ()) -> None:
        self.silent, self.asked = set(silent), list[PairKey]()

    def __call__(self, pairs: Sequence[PairToJudge]) -> Mapping[PairKey, Sequence[VerdictRow]]:
        keys = [pair_key(pair) for pair in pairs]
        self.asked += keys
        return {key: [settled(key, self.outcome(key))] for key in keys if key not in self.silent}

    def outcome(self, key: PairKey) -> Outcome:
        if key[2] == "strong":
            return Outcome.A_WINS
        return Outcome.A_WINS if int(key[0].split()[1]) % 2 else Outcome.B_WINS


def course(
    judging: Judging,
    pairs: Sequence[PairToJudge] | None = None,
    adaptive: AdaptiveConfig | None = ADAPTIVE,
) -> Course:
    return decide(
        pairs_of() if pairs is None else pairs,
        judging,
        dimension="factuality",
        adaptive=adaptive,
        is_free=lambda pair: pair.response_a == pair.response_b,
    )


def test_a_pair_that_is_clear_stops_and_one_that_is_level_is_judged_whole() -> None:
    judging = Judging()
    found = course(judging)
    rows = {(row.entrant_a, row.entrant_b): row for row in last_rounds(found.rows)}
    assert rows["strong", "weak"].side == rows["strong", "level"].side == "strong"
    assert rows["strong", "weak"].looked_at == 23
    level = rows["weak", "level"]
    assert (level.looked_at, level.not_needed, level.side) == (100, 0, None)
    assert len(level.path) == 100
    assert -1 < min(level.path) <= max(level.path) < 1
    for pair, row in rows.items():
        own = [each for each in found.needed if (each.entrant_a, each.entrant_b) == pair]
        assert len(own) == row.looked_at + len(row.tail) == row.prompts - row.not_needed
    # What is judged in order comes first in the order of the hashes, and the tail does not.
    order = hashed_order(PROMPTS, salt="factuality")
    stopped = rows["strong", "weak"]
    assert set(stopped.tail) <= set(order[stopped.looked_at :])


def test_everything_is_needed_where_no_pair_stops() -> None:
    found = course(Judging(), adaptive=None)
    assert found.needed == tuple(pairs_of())
    assert outcome_of(make_table(DecisionRow, found.rows)) is None


def test_a_round_is_asked_only_once_the_one_before_is_whole() -> None:
    order = hashed_order(PROMPTS, salt="factuality")
    judging = Judging(silent=[(order[3], 1, "weak", "level")])
    found = course(judging)
    assert {key[0] for key in judging.asked} == set(order[:23])
    assert {pair.prompt_id for pair in found.needed} == set(order[:23])
    assert len(found.possible) == 300
    assert outcome_of(make_table(DecisionRow, found.rows)) == RoundsOutcome(
        presentations=600,
        presentations_not_needed=0,
        presentations_undecided=6 * 77,
        pairs=300,
        pairs_not_needed=0,
        pairs_undecided=3 * 77,
        weights={},
        decided=frozenset(),
    )


def test_pairs_of_one_text_are_halves_that_are_always_there() -> None:
    order = hashed_order(PROMPTS, salt="factuality")
    same = (order[5], order[50], order[99])
    found = course(Judging(), pairs_of(same=same))
    for row in last_rounds(found.rows):
        assert row.free == 3
        assert not set(same) & set(row.tail)
    needed = {pair_key(pair) for pair in found.needed}
    assert {(name, 1, "strong", "weak") for name in same} <= needed


def test_the_tail_weighs_as_much_as_what_it_stands_for() -> None:
    found = course(Judging())
    outcome = outcome_of(make_table(DecisionRow, found.rows))
    assert outcome is not None
    by_pair: dict[tuple[str, str], float] = {}
    for pair in found.needed:
        two = (pair.entrant_a, pair.entrant_b)
        by_pair[two] = by_pair.get(two, 0.0) + outcome.weight_of(pair_key(pair))
    assert by_pair["weak", "level"] == 100
    # A binomial of 77 draws at 1/4, times 4: a standard error of 15.
    assert by_pair["strong", "weak"] == pytest.approx(100, abs=45)
    assert outcome.decided == frozenset({("strong", "weak"), ("strong", "level")})


def test_what_may_come_is_played_with_the_shares_of_a_pilot() -> None:
    nothing = course(Judging(silent=[pair_key(pair) for pair in pairs_of()]))
    names = [(row.entrant_a, row.entrant_b) for row in last_rounds(nothing.rows)]
    clear, level = (
        nothing.expected_share(dict.fromkeys(names, shares))
        for shares in ((1.0, 1.0, 0.5), (1.0, 0.0, 0.5))
    )
    assert clear is not None
    assert level is not None
    assert 0.23 + 0.25 * 0.77 - 1e-9 <= clear < 0.6 < 0.9 < level <= 1
    assert nothing.expected_share({}) is None


def reply(attempt: int, text: str | None, presentation: str, **changes: Any) -> JudgeReplyRow:
    return judge_reply_row("p", presentation, text, attempt=attempt, **changes)


@pytest.mark.parametrize(
    ("replies", "outcome"),
    [
        ([(1, "VERDICT: A")], Outcome.A_WINS),
        ([(1, "I cannot say."), (2, "VERDICT: A")], Outcome.A_WINS),
        # What is asked again by hand changes no decision.
        ([(1, "I cannot say."), (2, "Nor now."), (3, "VERDICT: A")], Outcome.UNJUDGED),
        ([(1, "I cannot say.")], None),
    ],
)
def test_a_decision_looks_at_what_judging_itself_asks(
    replies: Sequence[tuple[int, str]], outcome: Outcome | None
) -> None:
    rows = [reply(asking, text, "ab") for asking, text in replies]
    table = make_table(JudgeReplyRow, [*rows, reply(1, "VERDICT: B", "ba")])
    assert outcomes_in(table).get(("p", 1, "ada", "bob")) == outcome


def test_a_refusal_that_was_asked_again_by_hand_stays_without_a_verdict() -> None:
    refused = reply(1, None, "ab", stop_reason="refusal")
    table = make_table(
        JudgeReplyRow, [refused, reply(2, "VERDICT: A", "ab"), reply(1, "VERDICT: B", "ba")]
    )
    assert outcomes_in(table) == {("p", 1, "ada", "bob"): Outcome.UNJUDGED}


def outcomes_in(table: pd.DataFrame) -> dict[PairKey, Outcome]:
    pair = replace(pairs_of()[0], prompt_id="p", entrant_a="ada", entrant_b="bob")
    found = verdicts_in_table(table, JUDGING)([pair])
    return {key: row.outcome for key, rows in found.items() for row in rows}


def test_a_match_is_repeated_as_often_as_it_weighs() -> None:
    judgments = [
        Judgment(f"p{number}", "d", "a", "b", Outcome.A_WINS, weight=weight)
        for number, weight in enumerate((1.0, 2.5, 2.5, 5.0))
    ]
    matches = code_judgments(judgments, entrants=("a", "b"))
    repeated = matches.repeated()
    assert np.bincount(repeated.prompt_index).tolist() in ([1, 3, 2, 5], [1, 2, 3, 5])
    assert repeated.n_matches == 11
    assert (repeated.weight == 1).all()
    even = code_judgments(judgments[:1], entrants=("a", "b"))
    assert even.repeated() is even


def test_a_win_rate_weighs_and_its_counts_do_not() -> None:
    judgments = [
        Judgment("p1", "d", "a", "b", Outcome.A_WINS, weight=4.0),
        Judgment("p2", "d", "b", "a", Outcome.A_WINS),
    ]
    (counts,) = pairwise_winrates(judgments)
    assert (counts.wins_a, counts.wins_b, counts.win_rate_a) == (1, 1, 0.8)


def test_several_judges_are_weighed_by_what_they_said_in_the_rounds_before() -> None:
    seen: list[int] = []

    def weigh(known: Sequence[VerdictRow]) -> Mapping[str, float]:
        seen.append(len(known))
        return {"good": 3.0, "coin": 1.0}

    def judge(pairs: Sequence[PairToJudge]) -> Mapping[PairKey, Sequence[VerdictRow]]:
        return {
            pair_key(pair): [
                settled(pair_key(pair), Judging().outcome(pair_key(pair)), by="good"),
                settled(pair_key(pair), Outcome.B_WINS, by="coin"),
            ]
            for pair in pairs
        }

    found = decide(
        pairs_of(),
        judge,
        dimension="factuality",
        adaptive=ADAPTIVE,
        is_free=lambda _: False,
        weigh=weigh,
        count_shown=lambda _: 4,
    )
    assert seen[:2] == [0, 2 * 3 * 23]
    for row, shares in zip(last_rounds(found.rows), found.shares, strict=True):
        assert set(shares.tolist()) == ({0.75} if row.entrant_a == "strong" else {0.75, 0.0})
        assert row.presentations == 4 * row.prompts
        assert row.presentations_not_needed == 4 * row.not_needed


def test_samples_of_a_prompt_are_asked_about_together_and_bet_on_as_their_mean() -> None:
    sampled = [replace(pair, sample=number) for pair in pairs_of() for number in (1, 2)]

    def judge(pairs: Sequence[PairToJudge]) -> Mapping[PairKey, Sequence[VerdictRow]]:
        keys = [pair_key(pair) for pair in pairs]
        return {key: [settled(key, Outcome.TIE if key[1] == 2 else Outcome.A_WINS)] for key in keys}

    found = decide(
        sampled, judge, dimension="factuality", adaptive=ADAPTIVE, is_free=lambda _: False
    )
    outcome = outcome_of(make_table(DecisionRow, found.rows))
    assert outcome is not None
    for row, shares in zip(last_rounds(found.rows), found.shares, strict=True):
        assert (row.prompts, row.pairs) == (100, 200)
        assert set(shares.tolist()) == {0.75}
        assert row.not_needed == 2 * (100 - row.looked_at - len(row.tail))
        for name in row.tail:
            assert outcome.weight_of((name, 2, row.entrant_a, row.entrant_b)) == row.weight == 4
