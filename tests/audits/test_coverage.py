import pytest

from tournament_assets.audits.coverage import EntrantCoverage, PairReading, measure_coverage
from tournament_assets.tournament.responses import GeneratedResponse
from tournament_assets.tournament.verdicts import Outcome, Verdict

CLEAR = (Verdict.A, Verdict.B)


def pair(
    entrant_a: str,
    entrant_b: str,
    outcome: Outcome,
    verdicts: tuple[Verdict, Verdict] = CLEAR,
) -> PairReading:
    return PairReading(entrant_a, entrant_b, outcome, verdicts)


def response(text: str, finish_reason: str = "stop") -> GeneratedResponse:
    return GeneratedResponse("p1", text, finish_reason)


def measure(*pairs: PairReading, **responses: list[GeneratedResponse]) -> list[EntrantCoverage]:
    return measure_coverage(
        entrants=("cyd", "ada", "bob"), prompts_selected=3, responses=responses, pairs=pairs
    )


def test_entrants_keep_the_order_of_the_tables_even_with_nothing_to_count() -> None:
    coverage = measure()
    assert [row.entrant_id for row in coverage] == ["cyd", "ada", "bob"]
    assert coverage[0] == EntrantCoverage("cyd", 3, 0, 0, 0, 0, 0, 0, {})


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
        pair("ada", "bob", Outcome.UNJUDGED, (Verdict.A, Verdict.REFUSED)),
        pair("bob", "ada", Outcome.UNJUDGED, (Verdict.PENDING, Verdict.PENDING)),
        pair("ada", "bob", Outcome.B_WINS),
    )
    for row in (ada, bob):
        assert (row.pairs_planned, row.pairs_judged, row.pairs_inconsistent) == (3, 1, 0)
        assert row.missing_replies == {Verdict.REFUSED: 1, Verdict.PENDING: 2}


@pytest.mark.parametrize("outcome", [Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE])
def test_a_readable_reply_is_not_missing(outcome: Outcome) -> None:
    _, ada, _ = measure(pair("ada", "bob", outcome, (Verdict.TIE, Verdict.TIE)))
    assert ada.missing_replies == {}


def test_empty_and_truncated_responses_are_answers_that_are_counted() -> None:
    _, ada, bob = measure(
        ada=[response(""), response(" \n"), response("Yes, becau", "length")],
        bob=[response("", "length"), response("No.")],
    )
    assert (ada.responses, ada.empty_responses, ada.truncated_responses) == (3, 2, 1)
    assert (bob.responses, bob.empty_responses, bob.truncated_responses) == (2, 1, 1)
    assert ada.prompts_selected == bob.prompts_selected == 3
