from dataclasses import asdict

import pytest

from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict


def judged(outcome: Outcome) -> Judgment:
    return Judgment("p1", "factuality", "ada", "bob", outcome)


def test_only_a_b_and_tie_are_verdicts() -> None:
    assert {verdict for verdict in Verdict if verdict.is_decided} == {
        Verdict.A,
        Verdict.B,
        Verdict.TIE,
    }


@pytest.mark.parametrize(
    ("outcome", "winner"),
    [
        (Outcome.A_WINS, "ada"),
        (Outcome.B_WINS, "bob"),
        (Outcome.TIE, None),
        (Outcome.INCONSISTENT, None),
        (Outcome.UNJUDGED, None),
    ],
)
def test_only_a_decisive_judgment_has_a_winner(outcome: Outcome, winner: str | None) -> None:
    assert judged(outcome).winner == winner
    assert outcome.is_decisive is (winner is not None)


def test_an_unjudged_pair_is_not_an_inconsistent_one() -> None:
    assert [outcome for outcome in Outcome if judged(outcome).inconsistent] == [
        Outcome.INCONSISTENT
    ]


def test_words_in_stored_tables_stay_the_same() -> None:
    assert [verdict.value for verdict in Verdict] == [
        "A",
        "B",
        "TIE",
        "refused",
        "unreadable",
        "permanent",
        "pending",
    ]
    assert [outcome.value for outcome in Outcome] == [
        "a_wins",
        "b_wins",
        "tie",
        "inconsistent",
        "same_text",
        "unjudged",
    ]


def test_a_pair_of_a_row_holds_all_that_the_row_says_of_it() -> None:
    pair = Judgment("p1", "factuality", "ada", "bob", Outcome.TIE, 5.0, 0.25, 2)
    row = {**asdict(pair), "outcome": "tie", "source": "s"}
    assert Judgment.of(pair) == Judgment.of(row) == pair
    for name in asdict(pair):
        with pytest.raises(KeyError, match=name):
            Judgment.of({key: value for key, value in row.items() if key != name})
    with pytest.raises(ValueError, match="draw"):
        Judgment.of({**row, "outcome": "draw"})
