"""What failed in a run that was executed in this process: its error, and its checks."""

from typing import NoReturn

import dagster as dg

from tournament_assets.foundation.errors import InterruptedWorkError, WorkError
from tournament_assets.graph.automation.jobs import Stage
from tournament_assets.graph.outputs import Check

_INTERRUPTED = "DagsterExecutionInterruptedError"
_CHECK_FAILED = "DagsterAssetCheckFailedError"


def raise_failure(result: dg.ExecuteInProcessResult, stage: Stage, label: str) -> NoReturn:
    """Raise a `WorkError` that says why a run failed; `InterruptedWorkError` if it was stopped.

    Args:
        stage: The stage that it was.
        label: Its partition as people read it; empty if it has none.
    """
    for event in result.all_events:
        data = event.event_specific_data
        error = getattr(data, "error", None)
        if not event.is_failure or error is None:
            continue
        cause = error
        while cause.cause is not None:
            cause = cause.cause
        where = f"{stage.title} ({label})" if label else stage.title
        message = _own_message(cause.message)
        if message.endswith(_INTERRUPTED):
            raise InterruptedWorkError(
                f"{where} was interrupted; what was generated and judged until then is in the "
                "ledger: run the same command again to go on"
            )
        if _CHECK_FAILED in message:
            message = "; ".join(check.sentence for check in failed_checks(result, only_errors=True))
        raise WorkError(f"{where} failed: {message}")
    raise WorkError(f"{stage.title} failed; see the run in the UI")


def _own_message(message: str) -> str:
    """Drop the module path that a serialised exception's message begins with."""
    head, separator, rest = message.strip().partition(": ")
    return rest if separator and head.startswith("tournament_assets.") else message.strip()


def recorded_check(evaluation: dg.AssetCheckEvaluation) -> Check:
    """Return a check's result as it was before Dagster recorded it."""
    metadata = {name: value.value for name, value in evaluation.metadata.items()}
    name, description = evaluation.check_name, evaluation.description or ""
    return Check(name, passed=evaluation.passed, description=description, metadata=metadata)


def failed_checks(result: dg.ExecuteInProcessResult, *, only_errors: bool = False) -> list[Check]:
    """Return the failed checks of a run.

    Args:
        only_errors: Leave out those that only warn.
    """
    return [
        recorded_check(evaluation)
        for evaluation in result.get_asset_check_evaluations()
        if not evaluation.passed
        and not (only_errors and evaluation.severity is not dg.AssetCheckSeverity.ERROR)
    ]
