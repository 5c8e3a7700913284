"""`tournament track`."""

import os
from pathlib import Path

import click

from tournament_assets.cli import echo
from tournament_assets.foundation.errors import InputError
from tournament_assets.run_comparison.run_reading import read_finished_runs


@click.command("track")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--mlflow", metavar="URI", help="The server or database in which MLflow keeps runs.")
@click.option("--otlp", metavar="URL", help="A collector that takes OTLP over HTTP.")
def track_command(run: Path, mlflow: str | None, otlp: str | None) -> None:
    """Send the finished run directory RUN to other tools. It sends no request to a judge.

    MLflow gets one run in the experiment named after the tournament: settings, ratings with their
    intervals, red lights on the judge, and the report. Sending it again updates the same run. The
    collector gets an event gen_ai.evaluation.result for every pair and dimension.

    \b
    tournament track runs/headline_20261104T101500Z --mlflow http://127.0.0.1:5000
    tournament track runs/headline_20261104T101500Z --otlp http://127.0.0.1:4318
    """  # noqa: D301 (\b tells click to keep the lines that follow)
    if mlflow is None and otlp is None:
        raise InputError("no tool to send the run to; expected --mlflow URI, --otlp URL or both")
    (finished,) = read_finished_runs([run])
    if mlflow is not None:
        # MLflow sends usage telemetry unless it is switched off.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        try:
            from tournament_assets.extras.trackers.mlflow_tracking import track_in_mlflow
        except ImportError as error:
            raise _missing("--mlflow", "MLflow", "mlflow") from error
        echo(f"MLflow has it as run {track_in_mlflow(finished, mlflow)}")
    if otlp is not None:
        try:
            from tournament_assets.extras.trackers.otlp_events import send_evaluations
        except ImportError as error:
            raise _missing("--otlp", "OpenTelemetry's exporter", "opentelemetry") from error
        echo(f"the collector took {send_evaluations(finished, otlp)} events")


def _missing(option: str, what: str, extra: str) -> InputError:
    return InputError(
        f"{option} was given and {what} is not installed; "
        f"run: pip install 'tournament-assets[{extra}]'"
    )
