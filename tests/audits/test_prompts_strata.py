import pytest

from tournament_assets.audits.missingness import PairReading
from tournament_assets.audits.prompt_audit import find_stratum_failures
from tournament_assets.tournament.verdicts import Outcome

from .readings import pair

WIN, LOSS, TIE = Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE


def stratum(name: str, outcomes: list[Outcome]) -> list[PairReading]:
    """Outcomes of ada against bob, a prompt each."""
    return [
        pair("ada", "bob", outcome, f"{name}-{number}", stratum=name)
        for number, outcome in enumerate(outcomes)
    ]


def failures(*pairs: PairReading) -> list[str]:
    # Where ada wins bob loses; only ada is looked at.
    found = find_stratum_failures(pairs, entrants=("ada", "bob"))
    return [each.stratum for each in found if each.entrant_id == "ada"]


def test_an_entrant_that_loses_in_one_stratum_only_is_named_with_its_scores() -> None:
    pairs = [
        *stratum("recall", [LOSS] * 11 + [WIN]),
        *stratum("vignette", [WIN] * 11 + [TIE]),
        *stratum("curated", [WIN] * 5 + [TIE] * 3),
    ]
    found, *_ = find_stratum_failures(pairs, entrants=("ada", "bob"))
    assert (found.entrant_id, found.stratum, found.prompts) == ("ada", "recall", 12)
    assert found.inside == pytest.approx(1 / 12)
    assert found.outside == pytest.approx((11 + 0.5 + 5 + 1.5) / 20)


def test_who_loses_everywhere_fails_no_stratum() -> None:
    assert failures(*stratum("recall", [LOSS] * 12), *stratum("vignette", [LOSS] * 9)) == []


def test_who_fails_two_strata_is_not_said_to_fail_one_only() -> None:
    lost = stratum("recall", [LOSS] * 10) + stratum("curated", [LOSS] * 10)
    assert failures(*lost, *stratum("vignette", [WIN] * 60)) == []


def test_a_few_prompts_or_a_small_difference_say_nothing() -> None:
    assert failures(*stratum("recall", [LOSS] * 2), *stratum("vignette", [WIN] * 30)) == []
    assert (
        failures(*stratum("recall", [LOSS, LOSS, WIN]), *stratum("vignette", [WIN, WIN, LOSS]))
        == []
    )


def test_unjudged_pairs_are_no_losses() -> None:
    unjudged = [Outcome.UNJUDGED] * 12
    assert failures(*stratum("recall", unjudged), *stratum("vignette", [WIN] * 12)) == []
