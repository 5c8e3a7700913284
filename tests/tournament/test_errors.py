import pickle

import pytest

from tournament_assets.tournament import errors
from tournament_assets.tournament.errors import InputError, Problems, TournamentError, WorkError


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
