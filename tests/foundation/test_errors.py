import pickle

import pytest

from tournament_assets.foundation import errors
from tournament_assets.foundation.errors import (
    InputError,
    Problems,
    TournamentError,
    WorkError,
    fold_problems,
    make_each,
)


def test_an_input_error_shows_every_problem_on_a_line_of_its_own() -> None:
    error = InputError(["a.yaml:1: one", "a.yaml:2: two"])
    assert str(error).splitlines() == ["a.yaml:1: one", "a.yaml:2: two"]
    assert error.problems == ("a.yaml:1: one", "a.yaml:2: two")


def test_a_single_sentence_is_one_problem() -> None:
    assert InputError("empty bank").problems == ("empty bank",)


def test_an_input_error_keeps_its_problems_on_the_way_to_another_process() -> None:
    copy = pickle.loads(pickle.dumps(InputError(["one", "two"])))  # noqa: S301
    assert isinstance(copy, InputError)
    assert copy.problems == ("one", "two")


def test_bad_input_and_failed_work_are_told_apart() -> None:
    work = {
        errors.GenerationError,
        errors.JudgeError,
        errors.VerdictParseError,
        errors.RatingError,
        errors.LedgerError,
    }
    assert all(issubclass(kind, WorkError) for kind in work)
    assert issubclass(InputError, TournamentError)
    assert not issubclass(InputError, WorkError)


def test_no_problem_raises_nothing() -> None:
    problems = Problems()
    assert not problems
    problems.raise_if_any()


def test_all_problems_are_raised_at_once() -> None:
    problems = Problems()
    problems.add("one")
    problems.extend(["two", "three"])
    assert problems
    with pytest.raises(InputError) as caught:
        problems.raise_if_any()
    assert caught.value.problems == ("one", "two", "three")


def test_what_is_wrong_with_many_files_alike_is_said_once() -> None:
    files = [f"runs/{number}.csv:7" for number in range(12)]
    others = ["the bank is empty", "a.csv: torn", "b.csv: torn", "the judge: no key"]
    shown = fold_problems(
        [others[0], *(f"{each}: not text; save it" for each in files), *others[1:]]
    )
    assert shown == [
        others[0],
        "in 12 files: not text; save it (runs/0.csv:7, runs/1.csv:7, runs/2.csv:7, runs/3.csv:7, "
        "runs/4.csv:7 and 7 more)",
        *others[1:],
    ]
    assert fold_problems(["no key", "no key", "no key"]) == ["no key"] * 3


def test_every_item_is_tried_before_any_is_refused() -> None:
    def double(number: int) -> int:
        if number < 0:
            raise InputError(f"{number} is negative")
        return 2 * number

    assert make_each(double, [1, 2]) == [2, 4]
    with pytest.raises(InputError) as caught:
        make_each(double, [-1, 2, -3])
    assert caught.value.problems == ("-1 is negative", "-3 is negative")
