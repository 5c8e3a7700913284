"""ClawBench's runs: https://github.com/openclaw/clawbench, `schemas.py` and `scorer.py` of 0.4."""

import re
from collections.abc import Mapping
from typing import Any

from tournament_assets.extras.archives.documents import (
    is_blank,
    number_of,
    score_at,
    text_of,
)
from tournament_assets.extras.archives.harness import (
    JudgeOutcome,
    JudgeState,
    LogLine,
    NewScore,
    RewritingReader,
    ScoredRun,
    Weighting,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.recorded.sample_formats import value_at

_FLOOR = 0.9999
_COMPONENTS = {
    "completion": "completion_result.score",
    "trajectory": "trajectory_result.score",
    "behaviour": "behavior_result.score",
}
_SEMANTIC = Weighting(
    "without a verifier",
    "where the task has no verifier and the judge gave a score",
    {"completion": 0.2, "trajectory": 0.2, "behaviour": 0.1, "judge": 0.5},
)
_AT_CEILING = Weighting(
    "at the ceiling",
    f"where completion is at least {_FLOOR} and the judge gave a score",
    {"completion": 0.4, "trajectory": 0.3, "behaviour": 0.2, "judge": 0.1},
)
_WITHOUT_JUDGE = Weighting(
    "without the judge",
    "all other runs",
    {"completion": 0.4, "trajectory": 0.3, "behaviour": 0.2},
)
_PHRASES = (
    *("gateway is restarting", "judge execution failed", "judge failed to run"),
    *("judge call failed", "judge timed out"),
)
"""What ClawBench records as the reason when judging failed; the score beside it is then 0."""
_OF_THE_CALL = {"confidence", "duration_ms", "rubric_hits", "rubric_misses"}
"""Keys whose values come only from the call that gave the judge's score."""
_FAILED = re.compile(r"ERROR clawbench\.harness: Run (\S+)/(\d+) failed")
_NOTHING = re.compile(r"\[\d+/\d+\]\s+(\S+)\s+\([^)]*\)\s+run\s+(\d+):\s+\S\s+0\.00\b")


class ClawBench(RewritingReader):
    """Reads files `<task>/run0.json`, … of the tasks `t1-…` to `t5-…`, scored by `weightings`."""

    weightings = (_SEMANTIC, _AT_CEILING, _WITHOUT_JUDGE)
    deciding = "completion"

    def run_names(self, count: int) -> tuple[str, ...]:
        """Return the names of a task's runs, from run0 on."""
        return tuple(f"run{number}" for number in range(count))

    def tier(self, task: str) -> str:
        """Return the tier in a task's name: `tier 1` for `t1-sort-mail`."""
        match = re.match(r"t(\d)-", task)
        return "other" if match is None else f"tier {match[1]}"

    def read(self, document: Mapping[str, Any]) -> ScoredRun:
        """Read a run from the content of its file."""
        run_score = score_at(document, "run_score")
        if run_score is None:
            raise InputError("run_score is missing; expected the run's score")
        scores = {name: score_at(document, key) for name, key in _COMPONENTS.items()}
        is_at_ceiling = (scores["completion"] or 0.0) >= _FLOOR
        with_judge = _AT_CEILING if is_at_ceiling else _WITHOUT_JUDGE
        has_verifier = value_at(document, "completion_result.total_assertions") != 0
        messages = value_at(document, "transcript.messages")
        return ScoredRun(
            run_score=run_score,
            components=scores,
            with_judge=with_judge if has_verifier else _SEMANTIC,
            without_judge=_WITHOUT_JUDGE,
            is_at_ceiling=is_at_ceiling,
            judge=_judge(document),
            is_empty=None if messages is None else not any(map(_says_something, messages)),
            failure=text_of(document.get("error")),
        )

    def log_line(self, line: str) -> LogLine | None:
        """Return the run that failed or scored nothing; progress lines count runs from 1."""
        if failed := _FAILED.search(line):
            return LogLine("failed", failed[1], f"run{failed[2]}")
        if nothing := _NOTHING.match(line.strip()):
            return LogLine("scored nothing", nothing[1], f"run{int(nothing[2]) - 1}")
        return None

    def rewrite(
        self, document: Mapping[str, Any], new: NewScore, run_score: float
    ) -> Mapping[str, Any]:
        """Return the new `judge_result` and `run_score`."""
        before = document["judge_result"]
        threshold = number_of(before.get("passing_threshold"))
        fields = {
            "score": new.score,
            "reason": new.reason,
            "error": None,
            "model": new.model,
            "token_usage": new.usage,
            "passed": None if threshold is None else new.score >= threshold,
        }
        stale = _OF_THE_CALL | {key for key in ("token_usage", "passed") if fields[key] is None}
        after = {
            **{name: fields.get(name, old) for name, old in before.items() if name not in stale},
            "score": new.score,
            "reason": new.reason,
            "rejudged_at": new.received_at,
            "rejudged_by": new.model,
        }
        return {"judge_result": after, "run_score": run_score}


def _says_something(message: Any) -> bool:
    if not isinstance(message, Mapping) or message.get("role") != "assistant":
        return False
    return not (is_blank(message.get("text")) and is_blank(message.get("tool_calls")))


def _judge(document: Mapping[str, Any]) -> JudgeOutcome:
    result = document.get("judge_result") or {}
    if not isinstance(result, Mapping):
        raise InputError(f"judge_result is {result!r:.80}; expected an object")
    if not result.get("enabled"):
        return JudgeOutcome()
    score = score_at(document, "judge_result.score")
    reason = text_of(result.get("reason"))
    lowered = " ".join(reason.lower().split())
    is_rejudged = not is_blank(result.get("rejudged_at"))
    # Beside another score, such words are the judge's own, of a run that met such an error.
    seems_failed = score == 0 and (not lowered or any(phrase in lowered for phrase in _PHRASES))
    error = text_of(result.get("error") or None)
    if score is None or error or (seems_failed and not is_rejudged):
        return JudgeOutcome(JudgeState.FAILED, reason=reason or error, recorded=score)
    state = JudgeState.REJUDGED if is_rejudged else JudgeState.SCORED
    return JudgeOutcome(state, score, reason, text_of(result.get("rejudged_by")) or None, score)
