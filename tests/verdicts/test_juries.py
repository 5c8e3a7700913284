from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judging.test_settled_pairs import reply
from tests.ratings.simulated_judges import SimulatedJudge, simulate_presentations
from tests.rows import table_of, verdict_row
from tests.tournament.test_judges import ONE, THREE, TWO, jury_of
from tournament_assets.audits.missingness import measure_coverage
from tournament_assets.audits.prompt_findings import measure_noise
from tournament_assets.judging.requests.pairs import PRESENTATIONS, PairToJudge, draw_share
from tournament_assets.judging.requests.verdict_parsing import (
    settle_pairs,
    settle_panel,
)
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.judge_aware import JudgeAwareFit, fit_judge_aware
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.tournament.asset_rows import JudgeReplyRow, VerdictRow
from tournament_assets.tournament.judges import Judge
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict
from tournament_assets.verdicts.juries import judge_weights, weigh_judges
from tournament_assets.verdicts.table_rows import pair_readings

STRENGTHS = (-0.8, -0.2, 0.3, 0.7)
JUDGES = tuple(each["model"] for each in (ONE, TWO, THREE))
A, B, REFUSED = Verdict.A, Verdict.B, Verdict.REFUSED


def fitted(*discriminations: float, n_prompts: int, seed: int = 1) -> JudgeAwareFit:
    judges = [SimulatedJudge(each, 0.2) for each in discriminations]
    matches, slots = simulate_presentations(STRENGTHS, judges, n_prompts=n_prompts, seed=seed)
    return fit_judge_aware(matches, slots, confidence=0.95)


def test_weights_are_discriminations_shrunken_towards_each_other() -> None:
    fit = fitted(2.0, 1.0, 0.5, n_prompts=200)
    weights = judge_weights(fit, confidence=0.95)
    for each in fit.judges:
        assert each.discrimination is not None
        assert each.discrimination.value is not None
        assert 0.8 < (weights[each.judge] - 1) / (each.discrimination.value - 1) < 1


def test_judges_who_differ_by_no_more_than_their_errors_weigh_alike() -> None:
    weights = judge_weights(fitted(1.0, 1.0, 1.0, n_prompts=40, seed=3), confidence=0.95)
    assert list(weights.values()) == [1.0, 1.0, 1.0]


def test_a_coin_weighs_the_less_the_more_it_said() -> None:
    few, some, many = (
        judge_weights(fitted(1.5, 1.0, 0.0, n_prompts=n), confidence=0.95)["judge_2"]
        for n in (4, 30, 300)
    )
    assert few > 0.6
    assert few > some > many > 0
    assert many < 0.1


def weigh(*said: Sequence[tuple[Verdict, Verdict]]) -> dict[str, float]:
    weigh = weigh_judges(jury_of(ONE, TWO, THREE), "pilot")
    assert weigh is not None
    return dict(weigh(rows_of_jury(*said)))


def rows_of_jury(*said: Sequence[tuple[Verdict, Verdict]]) -> list[VerdictRow]:
    """Return what each judge says of two entrants, prompt by prompt."""
    return [
        verdict_row(f"p{prompt}", *verdicts, settled_by=judge)
        for judge, own in zip(JUDGES, said, strict=True)
        for prompt, verdicts in enumerate(own)
    ]


replies = st.sampled_from([A, B, Verdict.TIE])


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(
            st.lists(st.tuples(replies, replies), min_size=n, max_size=n), min_size=3, max_size=3
        )
    )
)
def test_from_few_pairs_judges_weigh_about_alike_in_whatever_order_they_are(
    said: list[list[tuple[Verdict, Verdict]]],
) -> None:
    weights = weigh(*said)
    kept = len(said[0]) / (len(said[0]) + 40)
    assert all(1 - kept <= each <= 1 + 2 * kept for each in weights.values())
    turned = weigh(*said[::-1])
    assert list(turned.values())[::-1] == pytest.approx(list(weights.values()), abs=1e-6)


def test_a_judge_that_dies_after_four_pairs_does_not_silence_two_who_agree() -> None:
    agreed = [(A, B)] * 18
    dying = [(A, B), (B, A), (A, B), (A, A), *[(REFUSED, REFUSED)] * 14]
    weights = weigh(agreed, agreed, dying)
    assert set(weights.values()) == {1.0}
    rows = rows_of_jury(agreed, agreed, dying)
    settled = [
        settle_panel([row for row in rows if row.prompt_id == f"p{prompt}"], weights, settled_by="")
        for prompt in range(18)
    ]
    assert {row.outcome for row in settled} == {Outcome.A_WINS}


def test_the_audit_counts_the_replies_of_every_judge_of_a_jury() -> None:
    said = {
        (judge, presentation): text
        for judge, texts in zip(JUDGES, (("A", "B"), ("A", "B"), (None, None)), strict=True)
        for presentation, text in zip(PRESENTATIONS, texts, strict=True)
    }
    replies = [
        replace(
            reply("p1", presentation, text and f"VERDICT: {text}"),
            judge_model=judge,
            request_key=f"{judge} {presentation.value}",
            result_type="succeeded" if text else "errored",
            channel="direct",
        )
        for (judge, presentation), text in said.items()
    ]
    row = settle_panel(settle_pairs(replies), dict.fromkeys(JUDGES, 1.0), settled_by="all")
    (found,) = pair_readings(
        table_of(VerdictRow, [asdict(row)]),
        table_of(JudgeReplyRow, [asdict(each) for each in replies]),
        reply_format="line",
        in_batches=JUDGES[:1],
    )
    assert (found.outcome, len(found.replies)) == (Outcome.A_WINS, 6)
    # Both judges answered directly; of one whose requests go in batches, that was the second try.
    assert [each.was_rejudged for each in found.replies] == [True, True, *[False] * 4]
    (coverage,) = measure_coverage(
        "factuality", entrants=["ada"], prompts_selected=1, responses={}, pairs=[found]
    )
    assert (coverage.replies_asked, coverage.replies_permanent) == (6, 2)
    assert measure_noise("p1", [found]).n_disagreements == 0


def test_a_split_jury_shows_replies_of_a_judge_that_said_something() -> None:
    rows = [
        verdict_row("p1", A, B, settled_by=JUDGES[0]),
        verdict_row("p1", B, A, settled_by=JUDGES[1]),
        verdict_row("p1", REFUSED, REFUSED, settled_by=JUDGES[2]),
    ]
    weights = dict(zip(JUDGES, (1.0, 1.0, 1.5), strict=True))
    found = settle_panel(rows, weights, settled_by="all")
    assert found.outcome is Outcome.INCONSISTENT
    assert found.verdict_ab is A


def rating_errors(seed: int, n_prompts: int = 60) -> dict[str, float]:
    """Return how far two biased judges are off in Elo, root mean square, each alone and in turn."""
    rng = np.random.default_rng(seed)
    names, truth = ("ada", "bob", "cyd", "dan", "eve"), rng.normal(0, 0.6, 5)
    turn = [f"loopback-{name}" for name in ("one", "two")]
    opinions = {name: truth + rng.normal(0, 0.5, 5) for name in turn}
    pairs = [
        PairToJudge(f"p{number}", "recall", "Why?", a, b, "one", "two")
        for number in range(n_prompts)
        for a, b in combinations(names, 2)
    ]

    def judged(by: Mapping[str, Sequence[PairToJudge]]) -> float:
        judgments = []
        for name, share in by.items():
            scale = dict(zip(names, opinions[name], strict=True))
            for pair in share:
                chance = 1 / (1 + np.exp(scale[pair.entrant_b] - scale[pair.entrant_a]))
                outcome = Outcome.A_WINS if rng.random() < chance else Outcome.B_WINS
                judgments.append(
                    Judgment(pair.prompt_id, "f", pair.entrant_a, pair.entrant_b, outcome)
                )
        fit = fit_bradley_terry(code_judgments(judgments, entrants=names))
        rated = np.array([each.value for each in fit], dtype=np.float64) * np.log(10) / 400
        return float(np.std(rated - truth) * 400 / np.log(10))

    judges = [Judge(service="loopback", model=name).in_turn(turn) for name in turn]
    return {
        "in turn": judged({each.model: draw_share(pairs, each) for each in judges}),
        **{name: judged({name: pairs}) for name in turn},
    }


@pytest.mark.parametrize("n", [20, pytest.param(200, marks=pytest.mark.e2e)])
def test_two_biased_judges_in_turn_come_nearer_to_the_truth_than_either_alone(n: int) -> None:
    errors = [rating_errors(seed) for seed in range(n)]
    mean = {name: float(np.mean([each[name] for each in errors])) for name in errors[0]}
    in_turn = mean.pop("in turn")
    assert in_turn < 0.85 * min(mean.values()), (in_turn, mean)
