"""What failed in a run of this process: its errors, and its checks."""

from collections.abc import Sequence

import dagster as dg

from tournament_assets.foundation.errors import (
    InterruptedWorkError,
    TournamentError,
    WorkError,
)
from tournament_assets.graph.outputs import Check


def failure_of(errors: Sequence[tuple[str, BaseException]]) -> BaseException:
    """Return the error that says why the steps of a run failed.

    Args:
        errors: What each of them raised, after the step as people read it. An interrupt comes last:
            it ends the run.
    """
    if not errors:
        # Somebody interrupted it between two steps.
        return KeyboardInterrupt()
    where, last = errors[-1]
    if isinstance(last, dg.DagsterExecutionInterruptedError | KeyboardInterrupt):
        return InterruptedWorkError(
            f"{where} was interrupted; what was generated and judged until then is in the "
            "ledger: run the same command again to go on"
        )
    failure = WorkError("\n".join(f"{step} failed: {_sentence(error)}" for step, error in errors))
    failure.__cause__ = last
    return failure


def _sentence(error: BaseException) -> str:
    while error.__cause__ is not None and not isinstance(error, TournamentError):
        error = error.__cause__
    is_ours = isinstance(error, TournamentError)
    return str(error) if is_ours else f"{type(error).__name__}: {error}"


def recorded_check(evaluation: dg.AssetCheckEvaluation) -> Check:
    """Return a check's result as it was before Dagster recorded it."""
    metadata = {name: value.value for name, value in evaluation.metadata.items()}
    name, description = evaluation.check_name, evaluation.description or ""
    return Check(name, passed=evaluation.passed, description=description, metadata=metadata)
