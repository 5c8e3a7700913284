"""Every exception the project raises on purpose.

    TournamentError
    ├── InputError            bad config, bank, rubric, responses: refused before anything is spent
    │   └── ExtensionError    an extension cannot be used
    └── WorkError             the input was good, the work failed
        ├── InterruptedWorkError  somebody stopped it; what was paid for is kept
        ├── GenerationError   a model could not be loaded or did not answer
        ├── JudgeError            a service refused, failed or answered nonsense
        │   └── JudgeWaitingError  what was asked is paid and kept, and its time has not come
        ├── BudgetError       the plan costs more than may be spent
        ├── VerdictParseError a judge's reply holds no readable verdict
        ├── RatingError       the judgments do not determine a rating
        └── LedgerError       the ledger contradicts itself or cannot be used

The command line turns `InputError` into exit code 2, `WorkError` into exit code 1, and
`InterruptedWorkError` into 130.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TypeVar

from tournament_assets.foundation.formatting import list_first

Item = TypeVar("Item")
Made = TypeVar("Made")


class TournamentError(Exception):
    """Anything this project raises on purpose."""


class InputError(TournamentError):
    """Input that cannot be used, with every problem found in it.

    Attributes:
        problems: One sentence each: where, what was found, what was expected, what to do.
    """

    def __init__(self, problems: str | Iterable[str]) -> None:
        listed = (problems,) if isinstance(problems, str) else problems
        self.problems = tuple(dict.fromkeys(listed))
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type["InputError"], tuple[tuple[str, ...]]]:
        return (type(self), (self.problems,))


class ExtensionError(InputError):
    """An extension that cannot be imported, or that has a row of another one's name."""


def fold_problems(problems: Iterable[str]) -> list[str]:
    """Return problems with those that many files share as one, in the place of the first.

    A problem is of a file where it begins with a path, with or without a line, and a colon.
    """
    by_text: dict[str, list[str]] = {}
    for problem in problems:
        place, _, text = problem.partition(": ")
        of_file = text and " " not in place and re.search(r"[./\\]", place)
        by_text.setdefault(text if of_file else problem, []).append(place)
    folded: list[str] = []
    for text, places in by_text.items():
        if len(places) < _MANY_FILES or text.startswith(places[0]):
            folded += [text if text.startswith(place) else f"{place}: {text}" for place in places]
        else:
            files = {place.partition(":")[0] for place in places}
            noun = "files" if len(files) == len(places) else "places"
            folded.append(f"in {len(places)} {noun}: {text} ({list_first(places, 5)})")
    return folded


_MANY_FILES = 3
_MOST_OF_A_FILE = 50


class WorkError(TournamentError):
    """Work that failed although its input was good."""


class InterruptedWorkError(WorkError):
    """Somebody stopped the work; what was paid for until then is kept."""


class GenerationError(WorkError):
    """A model could not be loaded, or did not answer."""


class JudgeFailure(StrEnum):
    """What can be done after a failure of the judging service."""

    FATAL = "fatal"
    """Nothing can succeed until somebody acts: a refused key, no credit, a spend limit."""
    INVALID = "invalid"
    """The request was refused, and would be refused again unchanged."""
    TOO_LARGE = "too_large"
    """The batch was refused for its size; its halves may be accepted."""
    NOT_ACCEPTED = "not_accepted"
    """The request was certainly not accepted now, and may be later: a rate limit, no network."""
    AMBIGUOUS = "ambiguous"
    """It is not known whether the request was accepted."""
    OVERLOADED = "overloaded"
    """The service says that it has no room; one look shows whether it accepted a batch."""
    TRANSIENT = "transient"
    """A look that failed and costs nothing to repeat."""
    UNKNOWN = "unknown"
    """The service knows nothing of that name, or not yet."""
    LOST = "lost"
    """The service no longer keeps the results, which were paid for."""


class JudgeError(WorkError):
    """The judging service refused, failed, or answered something that makes no sense.

    Attributes:
        failure: What the failure means for what is done next.
        retry_after_seconds: How long the service asks to wait; None if it does not say.
        fields: The request's fields that a refusal names.
    """

    def __init__(
        self,
        message: str,
        *,
        failure: JudgeFailure = JudgeFailure.FATAL,
        retry_after_seconds: float | None = None,
        fields: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.retry_after_seconds = retry_after_seconds
        self.fields = fields


class JudgeWaitingError(JudgeError):
    """Work that is under way and not lost, but that this process has stopped waiting for."""


class BudgetError(WorkError):
    """A plan that costs more than may be spent; it was refused before its first request."""


class VerdictParseError(WorkError):
    """A judge's reply that holds no readable verdict."""


class RatingError(WorkError):
    """Judgments that do not determine a rating."""


class LedgerError(WorkError):
    """The ledger contradicts itself or cannot be used."""


class Problems:
    """Collects what is wrong with an input, so that all of it is reported at once.

    Args:
        of_file: Whether they are of one file: the first 50 are spelled out, others counted.

    Attributes:
        found: The problems that are spelled out.
    """

    def __init__(self, *, of_file: bool = False) -> None:
        self.found: list[str] = []
        self._most = _MOST_OF_A_FILE if of_file else None
        self._n_others = 0

    def add(self, problem: str) -> None:
        """Note one problem: where, what was found, what was expected, what to do."""
        if self._most is None or len(self.found) < self._most:
            self.found.append(problem)
        else:
            self._n_others += 1

    def extend(self, problems: Iterable[str]) -> None:
        """Note several problems."""
        for problem in problems:
            self.add(problem)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Note the problems of an `InputError` that is raised within."""
        try:
            yield
        except InputError as error:
            self.extend(error.problems)

    def __bool__(self) -> bool:
        return bool(self.found)

    def raise_if_any(
        self, placed: Callable[[Sequence[str]], Sequence[str]] = lambda problems: problems
    ) -> None:
        """Raise them all.

        Args:
            placed: Adds to problems where they are.
        """
        if self._n_others:
            raise InputError(
                [*placed(self.found), f"… and {self._n_others} more problems of the same file"]
            )
        if self.found:
            raise InputError(placed(self.found))


def make_each(make: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
    """Make something from each item.

    Raises:
        InputError: With every problem of every item.
    """
    results: list[Made] = []
    problems = Problems()
    for item in items:
        with problems.collected():
            results.append(make(item))
    problems.raise_if_any()
    return results
