from dataclasses import replace

import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Rating, Resampling
from tournament_assets.run_comparison.differences import (
    Change,
    FlipReport,
    Sameness,
    SettledPair,
    compare_inputs,
    compare_judgments,
    compare_standings,
    judge_sameness,
)
from tournament_assets.tournament.verdicts import Outcome

A, B, TIE = Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE
SPLIT, NONE = Outcome.INCONSISTENT, Outcome.UNJUDGED


def pair(number: int, outcome: Outcome, *, source: str | None = "recall") -> SettledPair:
    return SettledPair(
        f"p{number}",
        "facts",
        "ada",
        "bob",
        outcome,
        source=source,
        question="q",
        response_a="ra",
        response_b="rb",
        requests=(f"{number}ab", f"{number}ba"),
    )


def turned(settled: SettledPair) -> SettledPair:
    other = {A: B, B: A}.get(settled.outcome, settled.outcome)
    return replace(
        settled,
        entrant_a=settled.entrant_b,
        entrant_b=settled.entrant_a,
        response_a=settled.response_b,
        response_b=settled.response_a,
        outcome=other,
    )


def compare(*changes: tuple[Outcome, Outcome]) -> FlipReport:
    return compare_judgments(
        [pair(number, then) for number, (then, _) in enumerate(changes)],
        [pair(number, now) for number, (_, now) in enumerate(changes)],
        Resampling(50),
    )


@pytest.mark.parametrize(
    ("then", "now", "change"),
    [
        (A, B, Change.REVERSED),
        (B, A, Change.REVERSED),
        (A, TIE, Change.TIE),
        (TIE, B, Change.TIE),
        (A, SPLIT, Change.INCONSISTENT),
        (SPLIT, TIE, Change.INCONSISTENT),
        (A, NONE, Change.LOST),
        (NONE, SPLIT, Change.GAINED),
        (TIE, TIE, Change.NONE),
        (NONE, NONE, Change.NONE),
    ],
)
def test_every_change_has_its_name(then: Outcome, now: Outcome, change: Change) -> None:
    assert compare((then, now)).pairs[0].change is change


def test_kappa_is_that_of_the_worked_example() -> None:
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: Cohen's kappa is 0.4.
    found = compare(*[(A, A)] * 20, *[(A, B)] * 5, *[(B, A)] * 10, *[(B, B)] * 15)
    assert found.total.flips.count == 15
    assert found.total.flips.n == 50
    assert found.total.agreement.kappa.value == pytest.approx(0.4)
    assert found.total.changes[Change.REVERSED] == 15


def test_a_lost_judgment_is_no_flip_and_in_no_rate() -> None:
    found = compare((A, A), (A, B), (A, NONE), (NONE, TIE), (NONE, NONE))
    assert (found.total.flips.count, found.total.flips.n) == (1, 2)
    assert found.total.changes[Change.LOST] == 1
    assert found.total.changes[Change.GAINED] == 1
    assert [each.change for each in found.changed] == [
        Change.REVERSED,
        Change.LOST,
        Change.GAINED,
    ]


def test_a_run_against_itself_has_no_flip_and_kappa_is_one() -> None:
    found = compare((A, A), (B, B), (TIE, TIE))
    assert found.changed == ()
    assert found.total.agreement.kappa.value == pytest.approx(1)
    only_ties = compare((TIE, TIE), (TIE, TIE))
    assert only_ties.total.agreement.kappa.value is None
    assert only_ties.total.agreement.kappa.note


def test_which_entrant_stands_first_makes_no_difference() -> None:
    then = [pair(0, A), pair(1, B), pair(2, TIE), pair(3, A)]
    now = [pair(0, A), pair(1, A), pair(2, SPLIT), pair(3, TIE)]
    straight = compare_judgments(then, now)
    crossed = compare_judgments(then, [turned(each) for each in now])
    assert crossed == straight
    assert all(each.responses_changed is False for each in crossed.pairs)


def test_a_flip_of_other_texts_is_marked() -> None:
    then = [pair(number, A) for number in range(4)]
    now = [
        pair(0, B),
        replace(pair(1, B), response_b="new"),
        replace(pair(2, B), question="new"),
        replace(pair(3, B), response_a=None),
    ]
    found = compare_judgments(then, now)
    assert [each.responses_changed for each in found.pairs] == [False, True, False, None]
    assert [each.question_changed for each in found.pairs] == [False, False, True, False]
    assert found.total.shown_otherwise == 2


def asked(settled: SettledPair, *keys: str) -> SettledPair:
    return replace(settled, requests=tuple(sorted(set(keys))))


def with_copies(n_asked: int, n_copies: int, *, rubric: str, flipped: int = 0) -> list[SettledPair]:
    """Pairs that were asked under one rubric, some of them settled otherwise, and copies."""
    return [
        *(
            asked(pair(number, B if number < flipped else A), f"{rubric}{number}ab", f"{number}ba")
            for number in range(n_asked)
        ),
        *(asked(pair(1000 + number, TIE)) for number in range(n_copies)),
    ]


def test_flips_are_counted_over_the_pairs_that_an_edit_could_touch() -> None:
    # 157 of 192 pairs are copies, and 600 of another dimension were asked the same.
    other = [
        replace(asked(pair(number, A), f"{number}"), dimension="style") for number in range(600)
    ]
    then = with_copies(35, 157, rubric="old") + other
    found = compare_judgments(then, with_copies(35, 157, rubric="new") + other)
    assert (found.total.flips.count, found.total.flips.n) == (0, 35)
    assert found.total.flips.high == pytest.approx(0.0989, abs=1e-4)
    assert found.asked_otherwise == {"facts": 35}
    assert found.copies == 157
    assert found.rest is not None
    assert (found.rest.flips.count, found.rest.flips.n) == (0, 757)
    assert [(each.dimension, each.flips.n) for each in found.by_dimension] == [
        ("facts", 35),
        ("style", 0),
    ]


def test_pairs_of_the_same_requests_are_one_question() -> None:
    # Three entrants gave the same response, so the judge was asked once about all three pairs.
    def pairs(rubric: str, outcome: Outcome) -> list[SettledPair]:
        return [
            replace(asked(pair(number, outcome), f"{rubric}{number}"), entrant_a=name)
            for number in range(13)
            for name in ("ada", "cyd", "dan")
        ]

    then, now = pairs("old", A), pairs("new", A)
    now[0] = replace(now[0], outcome=B)
    found = compare_judgments(then, now)
    assert (found.total.flips.count, found.total.flips.n) == (1, 39)
    assert (found.total.questions.count, found.total.questions.n) == (1, 13)
    assert decided(compare_judgments(then, pairs("new", A))) is Sameness.UNDECIDED


def decided(found: FlipReport, *, places: int = 0, ratings: int = 0) -> Sameness:
    return judge_sameness(
        found, tolerance=0.1, places_changed=places, ratings_moved=ratings
    ).sameness


def sampled(n_prompts: int, n_samples: int, rubric: str, *, flipped: int = 0) -> list[SettledPair]:
    """Pairs of several samples of each prompt; on some prompts all are settled otherwise."""
    return [
        replace(
            asked(pair(number, B if number < flipped else A), f"{rubric}{number}/{sample}"),
            sample=sample,
        )
        for number in range(n_prompts)
        for sample in range(1, n_samples + 1)
    ]


@pytest.mark.parametrize(
    ("n_prompts", "flipped", "expected"),
    [
        (40, 0, Sameness.SAME),
        (34, 0, Sameness.UNDECIDED),  # as 272 independent questions they would be the same
        (35, 6, Sameness.UNDECIDED),  # as 280 independent questions they would differ
        (35, 9, Sameness.DIFFERS),
        (1, 0, Sameness.UNDECIDED),
        (1, 1, Sameness.UNDECIDED),
    ],
)
def test_samples_that_always_agree_say_no_more_than_their_prompts(
    n_prompts: int, flipped: int, expected: Sameness
) -> None:
    now = sampled(n_prompts, 8, "new", flipped=flipped)
    found = compare_judgments(sampled(n_prompts, 8, "old"), now, Resampling(50))
    questions = found.total.questions
    assert (questions.count, questions.n) == (8 * flipped, 8 * n_prompts)
    assert decided(found) is expected


@pytest.mark.parametrize(
    ("n", "flipped", "expected"),
    [
        (35, 0, Sameness.SAME),  # at most 9.9 %
        (34, 0, Sameness.UNDECIDED),  # at most 10.2 %
        (35, 3, Sameness.UNDECIDED),
        (35, 9, Sameness.DIFFERS),  # at least 14.2 %
        (5, 5, Sameness.DIFFERS),
        (5, 1, Sameness.UNDECIDED),
    ],
)
def test_runs_differ_or_are_the_same_where_the_whole_interval_says_so(
    n: int, flipped: int, expected: Sameness
) -> None:
    then = with_copies(n, 200, rubric="old")
    now = with_copies(n, 200, rubric="new", flipped=flipped)
    assert decided(compare_judgments(then, now)) is expected


def test_where_nothing_was_asked_otherwise_and_nothing_flipped_a_few_pairs_suffice() -> None:
    few = with_copies(3, 1, rubric="old")
    same = compare_judgments(few, few)
    assert decided(same) is Sameness.SAME
    assert decided(same, places=2) is Sameness.UNDECIDED
    assert decided(same, ratings=2) is Sameness.UNDECIDED
    assert decided(compare_judgments(few, few[:-1])) is Sameness.UNDECIDED
    assert decided(compare_judgments(few, [])) is Sameness.UNDECIDED
    noisy = with_copies(3, 1, rubric="old", flipped=3)
    assert decided(compare_judgments(few, noisy)) is Sameness.DIFFERS


def test_flips_of_pairs_that_were_asked_the_same_count_as_well() -> None:
    def pairs(rubric: str, style: Outcome) -> list[SettledPair]:
        others = (replace(asked(pair(n, style), f"{n}"), dimension="style") for n in range(50))
        return [*with_copies(60, 0, rubric=rubric), *others]

    assert decided(compare_judgments(pairs("old", A), pairs("new", A))) is Sameness.SAME
    assert decided(compare_judgments(pairs("old", A), pairs("new", B))) is Sameness.DIFFERS


def test_every_verdict_has_an_exit_code_of_its_own_and_none_is_that_of_bad_input() -> None:
    codes = {sameness: sameness.exit_code for sameness in Sameness}
    assert codes == {Sameness.SAME: 0, Sameness.DIFFERS: 1, Sameness.UNDECIDED: 3}


def test_strata_add_up_to_their_dimension() -> None:
    then = [
        *(pair(number, A, source=source) for number, source in enumerate(["z", "y", "z"])),
        replace(pair(9, A), dimension="style", source=None),
    ]
    now = [replace(each, outcome=B if each.source == "z" else A) for each in then]
    found = compare_judgments(then, now)
    counts = {(each.dimension, each.source): each.flips for each in found.by_stratum}
    assert list(counts) == [("facts", "y"), ("facts", "z")]
    assert [flips.count for flips in counts.values()] == [0, 2]
    assert [(each.dimension, each.flips.n) for each in found.by_dimension] == [
        ("facts", 3),
        ("style", 1),
    ]


def test_pairs_of_one_run_alone_are_counted_apart() -> None:
    found = compare_judgments([pair(0, A), pair(1, A)], [pair(1, A), pair(2, A), pair(3, B)])
    assert found.total.flips.n == 1
    assert found.only_then == {"facts": 1}
    assert found.only_now == {"facts": 2}
    assert compare_judgments([], [pair(0, A)]).total.flips.value is None


@pytest.mark.parametrize("other", [[], [0], [1]])
def test_a_pair_that_is_there_twice_in_either_run_is_refused(other: list[int]) -> None:
    twice, others = [pair(0, A), turned(pair(0, A))], [pair(number, A) for number in other]
    with pytest.raises(InputError, match=r"'p0'.*twice"):
        compare_judgments(twice, others)
    with pytest.raises(InputError, match=r"'p0'.*twice"):
        compare_judgments(others, twice)


def standing(name: str, rank: int | None, mean: float | None) -> Rating:
    return Rating(mean, entrant=name, rank=rank)


def test_moves_are_from_the_first_run_to_the_second_and_missing_is_no_number() -> None:
    then = [standing("ada", 1, 1410.0), standing("bob", 2, 1390.0), standing("cy", None, None)]
    now = [standing("bob", 1, 1405.5), standing("ada", 2, 1394.5), standing("cy", 3, 1200.0)]
    moves = compare_standings({"facts": then, "old": then}, {"facts": [*now], "new": now})
    found = {move.entrant_id: (move.difference, move.is_of_place) for move in moves}
    assert found == {"bob": (15.5, True), "ada": (-15.5, True), "cy": (None, False)}
    assert [move.entrant_id for move in moves] == ["bob", "ada", "cy"]
    left = compare_standings({"facts": then}, {"facts": now[:1]})
    assert [(move.entrant_id, move.now is None) for move in left] == [
        ("bob", False),
        ("ada", True),
        ("cy", True),
    ]


def test_times_and_costs_are_no_inputs() -> None:
    then = {"mode": "pilot", "started_at": "1", "cost": {"total_usd": 1}, "pairs": {"facts": 3}}
    found = compare_inputs(then, {**then, "started_at": "2", "cost": {}, "pairs": {}})
    assert found.changes == ()


def test_what_differs_is_named_and_so_is_what_one_run_has_alone() -> None:
    then = {"inputs": {"responses": {"ada": "1", "bob": "2"}}, "entrants": ["ada", "bob"]}
    now = {
        "inputs": {"responses": {"ada": "9"}, "weather": "3"},
        "entrants": ["ada"],
        "moon": {"is": "full"},
    }
    found = compare_inputs(then, now)
    assert [(each.name, each.then, each.now) for each in found.changes] == [
        ("inputs.responses.ada", "1", "9"),
        ("inputs.responses.bob", "2", None),
        ("entrants", ["ada", "bob"], ["ada"]),
        ("inputs.weather", None, "3"),
        ("moon.is", None, "full"),
    ]
    assert found.names("inputs.responses.") == ["ada", "bob"]
