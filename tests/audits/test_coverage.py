import pytest

from tournament_assets.audits.missingness import (
    PairReading,
    ReplyReading,
    measure_coverage,
)
from tournament_assets.judging.requests.verdict_parsing import FailureClass
from tournament_assets.tournament.asset_rows import CoverageRow
from tournament_assets.tournament.prompts import GeneratedResponse
from tournament_assets.tournament.verdicts import Outcome, Verdict

from .readings import missing, pair, said


def response(text: str, finish_reason: str = "stop", prompt_id: str = "p1") -> GeneratedResponse:
    return GeneratedResponse(prompt_id, text, finish_reason)


def measure(
    *pairs: PairReading, prompts_unanswered: int = 0, **responses: list[GeneratedResponse]
) -> list[CoverageRow]:
    return measure_coverage(
        "factuality",
        entrants=("cyd", "ada", "bob"),
        prompts_selected=3,
        responses=responses,
        pairs=pairs,
        prompts_unanswered=prompts_unanswered,
    )


def missing_replies(row: CoverageRow) -> tuple[int, int, int, int]:
    refused, unreadable = row.replies_refused, row.replies_unreadable
    return refused, unreadable, row.replies_permanent, row.replies_pending


def test_entrants_keep_the_order_of_the_tables_even_with_nothing_to_count() -> None:
    coverage = measure()
    assert [row.entrant_id for row in coverage] == ["cyd", "ada", "bob"]
    assert (coverage[0].prompts_selected, coverage[0].pairs_planned) == (3, 0)
    assert coverage[0].coverage is None
    assert coverage[0].score_present is coverage[0].score_normalised is None


def test_a_pair_counts_for_both_its_entrants_and_for_nobody_else() -> None:
    cyd, ada, bob = measure(
        pair("ada", "bob", Outcome.A_WINS),
        pair("ada", "cyd", Outcome.TIE),
        pair("ada", "cyd", Outcome.INCONSISTENT),
    )
    assert [row.pairs_planned for row in (ada, bob, cyd)] == [3, 1, 2]
    assert [row.pairs_judged for row in (ada, bob, cyd)] == [3, 1, 2]
    assert [row.pairs_inconsistent for row in (ada, bob, cyd)] == [1, 0, 1]


def test_an_unjudged_pair_stays_planned_and_its_missing_replies_have_reasons() -> None:
    _, ada, bob = measure(
        pair("ada", "bob", replies=(said(Verdict.A), missing(FailureClass.REFUSED))),
        pair("bob", "ada", replies=(missing(None), missing(None))),
        pair("ada", "bob", Outcome.B_WINS),
    )
    for row in (ada, bob):
        assert (row.pairs_planned, row.pairs_judged, row.pairs_inconsistent) == (3, 1, 0)
        assert missing_replies(row) == (1, 0, 0, 2)


@pytest.mark.parametrize("outcome", [Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE])
def test_a_readable_reply_is_not_missing(outcome: Outcome) -> None:
    _, ada, _ = measure(pair("ada", "bob", outcome))
    assert missing_replies(ada) == (0, 0, 0, 0)
    assert ada.infra_remaining == 0


def test_empty_and_truncated_responses_are_answers_that_are_counted() -> None:
    _, ada, bob = measure(
        ada=[response(""), response(" \n"), response("Yes, becau", "length")],
        bob=[response("", "length"), response("No.")],
    )
    assert (ada.responses, ada.empty_responses, ada.truncated_responses) == (3, 2, 1)
    assert (bob.responses, bob.empty_responses, bob.truncated_responses) == (2, 1, 1)
    assert ada.prompts_selected == bob.prompts_selected == 3


def test_the_three_scores_differ_by_what_they_divide_by() -> None:
    # ada: a win, a tie, an inconsistent pair, one unjudged pair, and a prompt nobody was asked of.
    _, ada, _ = measure(
        pair("ada", "bob", Outcome.A_WINS, "p1"),
        pair("ada", "bob", Outcome.TIE, "p2"),
        pair("ada", "bob", Outcome.INCONSISTENT, "p3"),
        pair("ada", "cyd", prompt_id="p3", replies=(missing(None), said(Verdict.A))),
        prompts_unanswered=1,
    )
    assert (ada.pairs_planned, ada.pairs_unanswered) == (6, 2)
    assert (ada.pairs_judged, ada.pairs_clean) == (3, 2)
    assert ada.score_present == (1 + 0.5 + 0.5) / 3
    assert ada.score_clean == (1 + 0.5) / 2
    assert ada.score_normalised == (1 + 0.5 + 0.5) / 6
    assert ada.coverage == 3 / 6


def test_a_pair_with_an_empty_or_cut_off_response_is_not_clean() -> None:
    cyd, ada, bob = measure(
        pair("ada", "bob", Outcome.A_WINS, "p1"),
        pair("ada", "cyd", Outcome.A_WINS, "p1"),
        pair("bob", "cyd", Outcome.A_WINS, "p2"),
        bob=[response("", prompt_id="p1"), response("Yes.", prompt_id="p2")],
        cyd=[response("Yes, bec", "length", prompt_id="p2")],
    )
    assert [row.pairs_judged for row in (ada, bob, cyd)] == [2, 2, 2]
    assert [row.pairs_clean for row in (ada, bob, cyd)] == [1, 0, 1]
    assert (ada.score_clean, bob.score_clean, cyd.score_clean) == (1.0, None, 0.0)


def test_failures_of_infrastructure_are_told_from_the_judges_own() -> None:
    own = (FailureClass.REFUSED, FailureClass.UNREADABLE, FailureClass.CUT_OFF)
    _, ada, _ = measure(
        *(pair("ada", "bob", replies=(missing(failure), said(Verdict.A))) for failure in own),
        *(
            pair("ada", "bob", replies=(missing(failure), said(Verdict.A)))
            for failure in FailureClass
            if failure not in own
        ),
        pair("ada", "bob", replies=(ReplyReading(Verdict.A, was_rejudged=True), said(Verdict.B))),
    )
    assert ada.pairs_judged == 1
    assert ada.infra_remaining == len(FailureClass) - 3
    assert ada.infra_rejudged == 1
