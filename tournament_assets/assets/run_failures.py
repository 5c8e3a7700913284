"""What a run that was executed here says of its failure and of its checks."""

from typing import NoReturn

import dagster as dg

from tournament_assets.assets.jobs import Stage
from tournament_assets.tournament.errors import WorkError

_INTERRUPTED = "DagsterExecutionInterruptedError"
_CHECK_FAILED = "DagsterAssetCheckFailedError"


def raise_failure(result: dg.ExecuteInProcessResult, stage: Stage, label: str) -> NoReturn:
    """Say why a run has failed.

    Args:
        result: The run.
        stage: The stage that it was.
        label: Its partition as people read it; empty if it has none.

    Raises:
        WorkError: Always.
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
            raise WorkError(
                f"{where} was interrupted; what was generated and judged until then is in the "
                "ledger: run the same command again to go on"
            )
        if _CHECK_FAILED in message:
            message = "; ".join(failed_checks(result, only_errors=True))
        raise WorkError(f"{where} failed: {message}")
    raise WorkError(f"{stage.title} failed; see the run in the UI")


def _own_message(message: str) -> str:
    """Drop the module path that a serialised exception's message begins with."""
    head, separator, rest = message.strip().partition(": ")
    return rest if separator and head.startswith("tournament_assets.") else message.strip()


def failed_checks(result: dg.ExecuteInProcessResult, *, only_errors: bool = False) -> list[str]:
    """Return what the checks of a run found, a sentence each.

    Args:
        result: The run.
        only_errors: Leave out those that only warn.
    """
    return [
        f"{evaluation.check_name}: {evaluation.description}"
        for evaluation in result.get_asset_check_evaluations()
        if not evaluation.passed
        and not (only_errors and evaluation.severity is not dg.AssetCheckSeverity.ERROR)
    ]
