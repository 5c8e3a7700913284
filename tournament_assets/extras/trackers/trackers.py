"""Tells other tools of a finished run: MLflow, and an OpenTelemetry collector.

MLflow gets settings, ratings and files, as one MLflow run. A run directory is known by the hash of
its manifest: told of twice, it is one run there, too.

A collector gets every settled pair, as an event `gen_ai.evaluation.result`. Its attributes are
those of OpenTelemetry's conventions for generative AI, where they have one:
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-events/
"""

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tournament_assets.run_comparison.differences import SettledPair
from tournament_assets.run_comparison.run_reading import FinishedRun
from tournament_assets.tournament.errors import InputError, WorkError
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.tournament.json_lines import JsonObject
from tournament_assets.tournament.places import url_problem
from tournament_assets.tournament.verdicts import Outcome

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from opentelemetry.sdk._logs import ReadableLogRecord

_RUN_TAG = "tournament.run"
_SETTINGS = (
    *("mode", "judge", "judge_model", "entrants", "dimensions", "bank_size", "selected_prompts"),
    *("n_perms", "n_bootstraps", "shuffle_seed", "bootstrap_seed", "draw_seed", "is_partial"),
)
_FILES = ("manifest.json", "elo_results.json", "leaderboard.parquet", "report.html", "report.md")
EVENT = "gen_ai.evaluation.result"
_SCORES = {Outcome.A_WINS: 1.0, Outcome.TIE: 0.5, Outcome.B_WINS: 0.0}
"""The first entrant's share of the point. A pair that nobody won otherwise has none."""
_AT_ONCE = 512


def track_in_mlflow(run: FinishedRun, uri: str) -> str:
    """Tell MLflow of a run and return the id of the MLflow run.

    Args:
        uri: Where MLflow keeps its runs, as `MLFLOW_TRACKING_URI` names it.

    Raises:
        InputError: If MLflow is not installed, or a secret stands in the address.
        WorkError: If MLflow refuses.
    """
    problem = url_problem(uri, key_place="MLFLOW_TRACKING_TOKEN")
    if uri.startswith(("http://", "https://")) and problem:
        raise InputError(f"--mlflow: {problem}")
    # MLflow tells its makers of its use unless it is told not to.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise InputError(
            "--mlflow was given and MLflow is not installed; "
            "run: pip install 'tournament-assets[mlflow]'"
        ) from error
    try:
        return _tell(run, MlflowClient(tracking_uri=uri))
    except MlflowException as error:
        raise WorkError(f"MLflow refused {run.folder.name}: {error.message}") from error


def _tell(run: FinishedRun, client: "MlflowClient") -> str:
    from mlflow.entities import Metric, Param, RunTag

    began, ended = (
        _milliseconds(run.manifest.get(f"{each}_at")) for each in ("started", "finished")
    )
    run_id = _find_or_create(run, client, began)
    client.log_batch(
        run_id,
        metrics=[Metric(name, value, ended or 0, 0) for name, value in _metrics(run)],
        params=[
            Param(name, _text(run.manifest[name])) for name in _SETTINGS if name in run.manifest
        ],
        tags=[RunTag(f"trust.{name}", lights) for name, lights in _red_lights(run)],
    )
    for name in _FILES:
        if (run.folder / name).is_file():
            client.log_artifact(run_id, str(run.folder / name))
    client.set_terminated(run_id, end_time=ended)
    return run_id


def _find_or_create(run: FinishedRun, client: "MlflowClient", began: int | None) -> str:
    title = str(run.manifest.get("tournament", "tournament"))
    experiment = client.get_experiment_by_name(title)
    experiment_id = experiment.experiment_id if experiment else client.create_experiment(title)
    identity = fingerprint(dict(run.manifest))
    found = client.search_runs([experiment_id], f"tags.`{_RUN_TAG}` = '{identity}'")
    if found:
        return str(found[0].info.run_id)
    created = client.create_run(
        experiment_id, start_time=began, tags={_RUN_TAG: identity}, run_name=run.folder.name
    )
    return str(created.info.run_id)


def _metrics(run: FinishedRun) -> Iterator[tuple[str, float]]:
    """Return the numbers that are known; who has no rating has no metric."""
    for dimension, standings in run.standings.items():
        for each in standings:
            values = {"elo": each.value, "low": each.low, "high": each.high}
            for name, value in values.items():
                if value is not None:
                    yield f"{dimension}/{each.entrant}/{name}", value
    for dimension, pairs in run.verdicts.items():
        yield f"{dimension}/pairs", len(pairs)
        yield f"{dimension}/unjudged", sum(pair.outcome is Outcome.UNJUDGED for pair in pairs)


def _red_lights(run: FinishedRun) -> Iterator[tuple[str, str]]:
    for dimension, lights in run.manifest.get("trust", {}).items():
        red = [name for name, light in lights.items() if light == "red"]
        yield dimension, f"red: {', '.join(red)}" if red else "no red light"


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _milliseconds(moment: str | None) -> int | None:
    return None if moment is None else int(datetime.fromisoformat(moment).timestamp() * 1000)


def send_evaluations(run: FinishedRun, url: str) -> int:
    """Send every pair of a run to a collector and return how many there were.

    Args:
        url: Where the collector takes OTLP over HTTP, such as `http://127.0.0.1:4318`. Keys go into
            `OTEL_EXPORTER_OTLP_HEADERS`.

    Raises:
        InputError: If the exporter is not installed, or the URL is none.
        WorkError: If the collector does not take them.
    """
    problem = url_problem(url, key_place="OTEL_EXPORTER_OTLP_HEADERS")
    if problem:
        raise InputError(f"--otlp: {problem}")
    try:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk._logs.export import LogRecordExportResult
    except ImportError as error:
        raise InputError(
            "--otlp was given and OpenTelemetry's exporter is not installed; "
            "run: pip install 'tournament-assets[opentelemetry]'"
        ) from error
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


def _records(run: FinishedRun) -> "Sequence[ReadableLogRecord]":
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    kept = InMemoryLogRecordExporter()
    provider = LoggerProvider(
        Resource({"service.name": "tournament-assets"}), shutdown_on_exit=False
    )
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
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
    records: Sequence[ReadableLogRecord] = kept.get_finished_logs()
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
