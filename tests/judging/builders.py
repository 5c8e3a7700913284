"""A pair, a rubric and settings to judge it with, rows of results, and a clock of our own."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import Channel, ReplyRow, TokenUsage
from tournament_assets.judging.costs.prices import PriceList, most_usd
from tournament_assets.judging.requests.columns import (
    CountedRequests,
    KeyPositions,
    ModelRequest,
    columns_of,
)
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import (
    JudgeRequests,
    RequestSettings,
    build_system_message,
)
from tournament_assets.judging.settlement import sessions
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.tournament.judges import Rubric, Waiting

RUBRIC = Rubric("factuality", "1", "# version: 1\nWhich response is truer?")
SETTINGS = RequestSettings(
    judge_model="judge-1",
    max_tokens=1024,
    shows_gold_answer=True,
    shows_expected_behavior=True,
)
PAIR = PairToJudge(
    prompt_id="p1",
    source="recall",
    prompt_text="Which vitamin is lacking in scurvy?",
    entrant_a="ada",
    entrant_b="bob",
    response_a="It is vitamin C.",
    response_b="It is vitamin D.",
    gold_answer="Vitamin C",
)
SCOPE = JudgingScope("tiny", "pilot", "factuality")
START = datetime(2026, 9, 1, 12, tzinfo=UTC)


def turned_round(pair: PairToJudge) -> PairToJudge:
    """Show the same two responses the other way round."""
    return replace(
        pair,
        entrant_a=pair.entrant_b,
        entrant_b=pair.entrant_a,
        response_a=pair.response_b,
        response_b=pair.response_a,
    )


def requests_for(n_pairs: int, *, settings: RequestSettings = SETTINGS) -> JudgeRequests:
    """Build two requests for each of some pairs that differ in their prompt."""
    pairs = [
        replace(PAIR, prompt_id=f"p{number}", prompt_text=f"Question {number}?")
        for number in range(n_pairs)
    ]
    return JudgeRequests(pairs, RUBRIC, settings)


def params_of(user_message: str) -> dict[str, Any]:
    """Write out what a provider is sent, with a prefix that it caches."""
    return {
        "model": "judge-1",
        "max_tokens": 1024,
        "system": [
            {
                "type": "text",
                "text": build_system_message(RUBRIC),
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            }
        ],
        "messages": [{"role": "user", "content": user_message}],
    }


def most_each(
    requests: Sequence[ModelRequest], prices: PriceList, channel: Channel = "batch"
) -> list[float]:
    """The most that each of some requests costs."""
    most = most_usd(requests, prices, channel)
    assert most is not None
    return [float(dollars) for dollars in most]


def count_requests(requests: Sequence[ModelRequest]) -> CountedRequests:
    """Return the distinct ones of some requests of which none was sent."""
    first = KeyPositions(requests).first
    none = np.zeros(len(first), dtype=bool)
    return CountedRequests(columns_of(requests).take(first), none, none, len(requests), 0)


class Approving(sessions.ApproveAnything):
    """An approval by a function, such as one that raises; all is tight if it returns true."""

    def __init__(self, approve: Callable[[Sequence[ModelRequest], Channel], object]) -> None:
        self._approve = approve

    def check(
        self, requests: Sequence[ModelRequest], channel: Channel, _seen: sessions.SeenReplies
    ) -> bool:
        return bool(self._approve(requests, channel))


def keys_of(n_pairs: int) -> list[str]:
    """Return the keys of `requests_for` that many pairs, in order."""
    return [request.request_key for request in requests_for(n_pairs)]


def reply_row(custom_id: str, *, result_type: str = "succeeded", **changed: Any) -> ReplyRow:
    """Build a row of a batch's results; one that succeeded says that A is better."""
    succeeded = result_type == "succeeded"
    row = ReplyRow(
        custom_id=custom_id,
        result_type=result_type,
        text="A is truer.\nVERDICT: A" if succeeded else None,
        stop_reason="end_turn" if succeeded else None,
        error_type=None,
        error_message=None,
        model="judge-1" if succeeded else None,
        usage=TokenUsage(700, 40, 0, 2200) if succeeded else None,
        raw="{}",
    )
    return replace(row, **changed)


def failed_row(custom_id: str, kind: str) -> ReplyRow:
    """Build a row without a reply: `expired`, or `errored:overloaded_error`."""
    result_type, _, error = kind.partition(":")
    return reply_row(custom_id, result_type=result_type, error_type=error or None)


def failure(kind: JudgeFailure, *, retry_after: float | None = None) -> JudgeError:
    """Build what a service raises that fails in some way."""
    return JudgeError(f"it failed as {kind}", failure=kind, retry_after_seconds=retry_after)


def failures(kind: JudgeFailure, times: int) -> list[JudgeError]:
    """Build several failures of one kind."""
    return [failure(kind) for _ in range(times)]


class Clock:
    """A clock that only sleeping moves.

    Attributes:
        seconds: How far it has come.
        naps: How long it was slept, each time.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.naps: list[float] = []
        self._lock = threading.Lock()

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.naps.append(seconds)
            self.seconds += seconds

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)


class Progress:
    """What a person would have seen."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[tuple[int, int]] = []

    def note(self, message: str) -> None:
        self.notes.append(message)

    def advance(self, done: int, total: int) -> None:
        self.steps.append((done, total))

    def heard(self, words: str) -> bool:
        """Whether one of the notes holds some words."""
        return any(words in note for note in self.notes)


def patience(
    clock: Clock, *, sleep: Callable[[float], None] | None = None, **waiting: Any
) -> dict[str, Any]:
    """Wait 1, 2, 4, 4, … seconds, for at most 100, on a clock of our own.

    A creation may take 10 seconds, and the list of batches may be 30 seconds behind.
    """
    waits = {
        "poll_initial_seconds": 1.0,
        "poll_max_seconds": 4.0,
        "deadline_seconds": 100.0,
        "grace_seconds": 30.0,
        **waiting,
    }
    return {
        **waiting_of(**waits),
        "creation_seconds": 10.0,
        "clock": sessions.Clock(sleep or clock.sleep, clock.monotonic, clock.now),
    }


def waiting_of(
    *, prewarms: bool = False, grace_seconds: float = 600.0, **waiting: Any
) -> dict[str, Any]:
    """Return what a session is told of its waits; a deadline may be over at once."""
    return {
        "waiting": Waiting(direct_fallback=True).model_copy(update=waiting),
        "grace_seconds": grace_seconds,
        "prewarms": prewarms,
    }


def quick(deadline_seconds: float = 60.0, **waiting: Any) -> sessions.SettlementTerms:
    """Return the terms of a run with little patience."""
    waits = {"grace_seconds": 0.3, "deadline_seconds": deadline_seconds, **waiting}
    waits = waiting_of(poll_initial_seconds=0.02, poll_max_seconds=0.1, **waits)
    return sessions.SettlementTerms(**waits)


def sizes(batches: Sequence[Sequence[object]]) -> list[int]:
    """Return how many requests each of some batches holds."""
    return [len(batch) for batch in batches]
