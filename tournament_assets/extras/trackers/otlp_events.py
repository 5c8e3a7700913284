"""Sends every settled pair of a finished run to an OpenTelemetry collector.

Each is an event `gen_ai.evaluation.result`. Its attributes are those of OpenTelemetry's conventions
for generative AI, where they have one:
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/
"""

from collections.abc import Sequence
from datetime import datetime

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import (
    InMemoryLogRecordExporter,
    LogRecordExportResult,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.resources import Resource

from tournament_assets.foundation.errors import InputError, WorkError
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.run_comparison.differences import SettledPair
from tournament_assets.run_comparison.run_reading import FinishedRun
from tournament_assets.tournament.places import url_problem
from tournament_assets.tournament.verdicts import Outcome

EVENT = "gen_ai.evaluation.result"
_SCORES = {Outcome.A_WINS: 1.0, Outcome.TIE: 0.5, Outcome.B_WINS: 0.0}
"""The first entrant's share of the point. A pair that nobody won otherwise has none."""
_AT_ONCE = 512


def send_evaluations(run: FinishedRun, url: str) -> int:
    """Send every pair of a run to a collector and return how many there were.

    Args:
        url: Where the collector takes OTLP over HTTP, such as `http://127.0.0.1:4318`. Keys go into
            `OTEL_EXPORTER_OTLP_HEADERS`.
    """
    problem = url_problem(url, key_place="OTEL_EXPORTER_OTLP_HEADERS")
    if problem:
        raise InputError(f"--otlp: {problem}")
    records = _records(run)
    exporter = OTLPLogExporter(endpoint=f"{url.rstrip('/')}/v1/logs")
    try:
        for start in range(0, len(records), _AT_ONCE):
            result = exporter.export(records[start : start + _AT_ONCE])
            if result is not LogRecordExportResult.SUCCESS:
                raise WorkError(
                    f"the collector at {url} took {start} of {len(records)} events; expected one "
                    "that takes OTLP over HTTP; see whether it runs, and send the run again"
                )
    finally:
        exporter.shutdown()
    return len(records)


def _records(run: FinishedRun) -> Sequence[ReadableLogRecord]:
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(
        Resource({"service.name": "tournament-assets"}), shutdown_on_exit=False
    )
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = provider.get_logger("tournament_assets")
    moment = int(datetime.fromisoformat(run.manifest["finished_at"]).timestamp() * 1e9)
    for pair in run.pairs:
        logger.emit(
            LogRecord(
                event_name=EVENT,
                timestamp=moment,
                observed_timestamp=moment,
                severity_number=SeverityNumber.INFO,
                attributes=_attributes(run, pair),
            )
        )
    records: Sequence[ReadableLogRecord] = exporter.get_finished_logs()
    return records


def _attributes(run: FinishedRun, pair: SettledPair) -> JsonObject:
    """Return what is known of a pair."""
    score = _SCORES.get(pair.outcome)
    scored = {} if score is None else {"gen_ai.evaluation.score.value": score}
    failed = {"error.type": "unjudged"} if pair.outcome is Outcome.UNJUDGED else {}
    return {
        "gen_ai.evaluation.name": pair.dimension,
        "gen_ai.evaluation.score.label": pair.outcome.value,
        **scored,
        **failed,
        "tournament.run": run.folder.name,
        "tournament.name": str(run.manifest.get("tournament", "")),
        "tournament.mode": str(run.manifest.get("mode", "")),
        "tournament.judge_model": str(run.manifest.get("judge_model", "")),
        "tournament.prompt_id": pair.prompt_id,
        "tournament.entrant_a": pair.entrant_a,
        "tournament.entrant_b": pair.entrant_b,
    }
