import math
from itertools import combinations, pairwise

import pytest

from tournament_assets.audits.missingness import PairReading
from tournament_assets.audits.prompt_audit import audit_prompts, find_stratum_failures
from tournament_assets.audits.prompt_findings import FindingKind
from tournament_assets.judging.requests.verdict_parsing import FailureClass
from tournament_assets.tournament.asset_rows import PromptFindingRow
from tournament_assets.tournament.verdicts import Outcome, Verdict

from .readings import missing, pair, said

ENTRANTS = ("ada", "bob", "cyd")
LADDER = (Outcome.A_WINS, Outcome.A_WINS, Outcome.A_WINS)


def prompt(prompt_id: str, *outcomes: Outcome, stratum: str = "recall") -> list[PairReading]:
    """ada against bob, ada against cyd, bob against cyd."""
    return [
        pair(a, b, outcome, prompt_id, stratum=stratum)
        for (a, b), outcome in zip(combinations(ENTRANTS, 2), outcomes, strict=True)
    ]


def findings(*pairs: PairReading, kind: FindingKind | None = None) -> list[PromptFindingRow]:
    return [
        each
        for each in audit_prompts(pairs, dimension="factuality", entrants=ENTRANTS)
        if each.is_finding and kind in (None, each.kind)
    ]


def kinds_of(*outcomes: Outcome) -> set[str]:
    return {each.kind for each in findings(*prompt("p1", *outcomes)) if each.prompt_id == "p1"}


def test_each_broken_prompt_is_called_by_its_own_name() -> None:
    inconsistent, tie = Outcome.INCONSISTENT, Outcome.TIE
    assert FindingKind.ALL_INCONSISTENT in kinds_of(inconsistent, inconsistent, inconsistent)
    assert FindingKind.NO_WINNER in kinds_of(tie, tie, tie)
    assert FindingKind.NO_WINNER in kinds_of(tie, inconsistent, tie)
    # ada beats bob, bob beats cyd, cyd beats ada.
    assert FindingKind.EQUAL_SCORES in kinds_of(Outcome.A_WINS, Outcome.B_WINS, Outcome.A_WINS)
    broken = {FindingKind.ALL_INCONSISTENT, FindingKind.NO_WINNER, FindingKind.EQUAL_SCORES}
    assert not broken & kinds_of(*LADDER)
    assert not broken & kinds_of(Outcome.A_WINS, tie, tie)
    assert not broken & kinds_of(Outcome.UNJUDGED, Outcome.UNJUDGED, tie)


def test_failures_that_gather_on_one_prompt_are_found_and_scattered_ones_are_not() -> None:
    def failed(prompt_id: str) -> list[PairReading]:
        return [
            pair(a, b, prompt_id=prompt_id, replies=(missing(FailureClass.EMPTY), said(Verdict.A)))
            for a, b in combinations(ENTRANTS, 2)
        ]

    sound = [each for n in range(20) for each in prompt(f"p{n}", *LADDER)]
    (found,) = findings(*sound, *failed("dark"), kind=FindingKind.JUDGE_FAILURES)
    assert (found.prompt_id, found.count, found.total) == ("dark", 3, 6)
    assert "3 unreadable; 3 " in found.sentence
    assert "0 of 120" in found.sentence
    everywhere = [each for n in range(20) for each in failed(f"p{n}")]
    assert findings(*everywhere, kind=FindingKind.JUDGE_FAILURES) == []


def test_a_prompt_that_alone_puts_one_before_another_decides_the_order() -> None:
    even = [
        prompt("p1", Outcome.A_WINS, Outcome.A_WINS, Outcome.A_WINS),
        prompt("p2", Outcome.B_WINS, Outcome.A_WINS, Outcome.A_WINS),
        prompt("p3", Outcome.TIE, Outcome.B_WINS, Outcome.A_WINS),
        prompt("p4", Outcome.TIE, Outcome.A_WINS, Outcome.B_WINS),
        prompt("tip", Outcome.A_WINS, Outcome.A_WINS, Outcome.A_WINS),
    ]
    found = findings(*(each for pairs in even for each in pairs), kind=FindingKind.DECIDES_ORDER)
    # By points ada leads bob by 7 to 6; without any of these by nothing.
    assert {each.prompt_id for each in found} == {"p1", "p4", "tip"}
    assert all(each.entrants == ("ada", "bob") for each in found)


def test_every_prompt_is_measured_and_findings_come_first_by_kind_and_badness() -> None:
    pairs = [
        *prompt("p1", *LADDER),
        *prompt("p2", Outcome.B_WINS, Outcome.B_WINS, Outcome.B_WINS),
        *prompt("p3", Outcome.INCONSISTENT, Outcome.A_WINS, Outcome.TIE),
        *prompt("p4", Outcome.INCONSISTENT, Outcome.INCONSISTENT, Outcome.INCONSISTENT),
    ]
    rows = audit_prompts(pairs, dimension="factuality", entrants=ENTRANTS)
    measured = [each for each in rows if each.kind is FindingKind.SIGNAL_TO_NOISE]
    assert {each.prompt_id for each in measured} == {"p1", "p2", "p3", "p4"}
    assert {each.prompt_id for each in measured if each.is_finding} == {"p3", "p4"}
    flags = [each.is_finding for each in rows]
    assert flags == sorted(flags, reverse=True)
    order = [kind.value for kind in FindingKind]
    reds = [each for each in rows if each.is_finding]
    for earlier, later in pairwise(reds):
        assert order.index(earlier.kind) <= order.index(later.kind)
    moves = [abs(each.value or 0) for each in rows if each.kind is FindingKind.MOVES_RATING]
    assert moves == sorted(moves, reverse=True)
    assert rows == audit_prompts(reversed(pairs), dimension="factuality", entrants=ENTRANTS)


def test_without_pairs_there_is_nothing_to_say() -> None:
    assert audit_prompts([], dimension="factuality", entrants=ENTRANTS) == []


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


def test_what_a_prompt_moves_counts_a_pair_as_often_as_it_stands_for_others() -> None:
    won = {"p1": (Outcome.A_WINS, 1.0), "p2": (Outcome.A_WINS, 5.0), "p3": (Outcome.B_WINS, 2.0)}
    won |= {"p4": (Outcome.B_WINS, 1.0)}
    rows = audit_prompts(
        [pair("ada", "bob", each, name, weight=weight) for name, (each, weight) in won.items()],
        dimension="factuality",
        entrants=ENTRANTS[:2],
    )
    moves = {row.prompt_id: row.value for row in rows if row.kind is FindingKind.MOVES_RATING}

    def rating_of_ada(without: str = "") -> float:
        wins = sum(
            w for name, (each, w) in won.items() if each is Outcome.A_WINS and name != without
        )
        all_ = sum(weight for name, (_, weight) in won.items() if name != without)
        return 200 * math.log10(wins / (all_ - wins))

    # Both move alike, and the first in the order of the tables is named.
    for name, move in moves.items():
        assert move == pytest.approx(rating_of_ada(name or "") - rating_of_ada(), abs=0.06)
    assert moves.keys() == won.keys()
    # Without p2 the two are 1 to 3, with it 6 to 3: they change places.
    swaps = {row.prompt_id for row in rows if row.kind is FindingKind.DECIDES_ORDER}
    assert swaps == {"p2"}


def test_a_stratum_is_failed_by_what_its_pairs_stand_for() -> None:
    def on_a_prompt(name: str, weight: float) -> list[PairReading]:
        return [
            pair("ada", "bob", Outcome.B_WINS, name, weight=weight),
            pair("ada", "cyd", Outcome.A_WINS, name),
        ]

    others = [pair("ada", "bob", Outcome.A_WINS, f"q{n}", stratum="vignette") for n in range(8)]
    for weight, failed in ((5.0, ["ada"]), (1.0, [])):
        own = [each for n in range(8) for each in on_a_prompt(f"p{n}", weight)]
        found = find_stratum_failures([*own, *others], entrants=ENTRANTS)
        assert [each.entrant_id for each in found if each.entrant_id == "ada"] == failed
