from typing import Any

import pytest

from tests.trust.test_panel import ENOUGH
from tournament_assets.extras.people.human_agreement import HumanAgreement, measure_human_agreement
from tournament_assets.extras.people.measures import HUMAN_AGREEMENT
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Estimate, Resampling
from tournament_assets.tournament.battles import Battle
from tournament_assets.trust.lights import TrustState

WINNERS = {"a": "model_a", "b": "model_b", "t": "tie", "x": "tie (bothbad)"}


def battles(source: str, words: str, **changes: Any) -> list[Battle]:
    """Build one battle of ada and bob for each letter, on prompts of their own."""
    return [
        Battle(
            **{
                "model_a": "ada",
                "model_b": "bob",
                "question_id": f"p{number}",
                "source": source,
                "winner": WINNERS[word],
                **changes,
            }
        )
        for number, word in enumerate(words)
    ]


def compare(judge: list[Battle], human: list[Battle]) -> HumanAgreement:
    return measure_human_agreement(judge, human, Resampling(50))


def test_kappa_is_that_of_a_textbook_table() -> None:
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: kappa is 0.4.
    found = compare(
        battles("llm-judge", "a" * 20 + "b" * 5 + "a" * 10 + "b" * 15),
        battles("human", "a" * 20 + "a" * 5 + "b" * 10 + "b" * 15),
    )
    assert found.overall.kappa.value == pytest.approx(0.4)
    assert found.overall.share.value == pytest.approx(0.7)
    assert found.overall.kappa.low is not None
    assert found.overall.kappa.high is not None
    assert found.overall.kappa.low < 0.4 < found.overall.kappa.high


def test_it_makes_no_difference_which_model_comes_first() -> None:
    judge = battles("llm-judge", "aabbt")
    swapped = battles("human", "bbaat", model_a="bob", model_b="ada")
    assert compare(judge, swapped).overall.share.value == 1.0


def test_both_kinds_of_tie_are_ties_and_decisive_agreement_leaves_them_out() -> None:
    found = compare(battles("llm-judge", "abtta"), battles("human", "abxab"))
    assert (found.overall.n, found.overall.share.value) == (5, 0.6)
    assert found.decisive.n == 3
    assert found.decisive.share.value == pytest.approx(2 / 3)


def test_only_shared_prompts_and_pairs_are_compared_and_the_others_counted() -> None:
    judge = [*battles("llm-judge", "aab"), *battles("llm-judge", "a", model_b="cyd")]
    human = [*battles("human", "aabb"), *battles("human", "aa", question_id=None)]
    found = compare(judge, human)
    assert found.overall.n == 3
    assert (found.n_only_judge, found.n_only_human) == (1, 1)


def test_several_votes_count_as_the_most_frequent_and_a_draw_is_shared() -> None:
    votes = [
        *battles("human", "ab"),
        *battles("human", "bb"),
        *battles("human", "bb"),
    ]
    found = compare(battles("llm-judge", "bb"), votes)
    assert (found.overall.n, found.overall.share.value) == (2, 1.0)
    drawn = compare(battles("llm-judge", "bb"), votes[:4])
    assert (drawn.overall.n, drawn.overall.share.value) == (2, 0.75)
    assert (drawn.decisive.n, drawn.decisive.share.value) == (1, 1.0)


def test_a_verdict_that_flips_is_half_right_about_a_winner_and_wrong_about_a_tie() -> None:
    flips = battles("llm-judge", "ttt", inconsistent=True)
    found = compare(flips, battles("human", "abt"))
    assert found.overall.n == 3
    assert found.overall.share.value == pytest.approx(1 / 3)
    # A tie is right about the third and about nothing else.
    tied = compare(battles("llm-judge", "ttt"), battles("human", "abt"))
    assert tied.overall.share.value == pytest.approx(1 / 3)
    assert compare(flips[:2], battles("human", "ab")).overall.share.value == 0.5
    assert found.decisive.n == 0


def test_battles_on_the_wrong_side_or_of_two_dimensions_are_refused() -> None:
    with pytest.raises(InputError, match=r"'human'.*'llm-judge'"):
        compare(battles("human", "a"), battles("human", "a"))
    judge = [*battles("llm-judge", "a", dimension="x"), *battles("llm-judge", "a", dimension="y")]
    with pytest.raises(InputError, match="dimensions x, y"):
        compare(judge, battles("human", "a"))


def test_nothing_shared_has_no_agreement_and_says_so() -> None:
    found = compare([], battles("human", "a"))
    assert (found.overall.share.value, found.overall.kappa.value) == (None, None)
    assert found.overall.kappa.note is not None


def test_agreement_is_red_below_its_threshold_and_not_at_it() -> None:
    below, at = (Estimate(each, each - 0.001, each + 0.001, n=ENOUGH) for each in (0.49, 0.5))
    assert HUMAN_AGREEMENT.state_of(below, 0.5) is TrustState.RED
    assert HUMAN_AGREEMENT.state_of(at, 0.5) is not TrustState.RED
