"""Sends a finished run to MLflow: settings, ratings and files, as one MLflow run.

A run directory is identified by its manifest's hash, so sending it twice makes one MLflow run.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from tournament_assets.foundation.errors import InputError, WorkError
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.run_comparison.run_reading import FinishedRun
from tournament_assets.tournament.places import url_problem
from tournament_assets.tournament.verdicts import Outcome

_RUN_TAG = "tournament.run"
_SETTINGS = (
    *("mode", "judge", "judge_model", "entrants", "dimensions", "bank_size", "selected_prompts"),
    *("n_perms", "n_bootstraps", "shuffle_seed", "bootstrap_seed", "draw_seed", "is_partial"),
)
_FILES = ("manifest.json", "elo_results.json", "leaderboard.csv", "report.html", "report.md")


def track_in_mlflow(run: FinishedRun, uri: str) -> str:
    """Send a run to MLflow and return the id of the MLflow run.

    Args:
        uri: Where MLflow keeps its runs, as `MLFLOW_TRACKING_URI` names it.
    """
    problem = url_problem(uri, key_place="MLFLOW_TRACKING_TOKEN")
    if uri.startswith(("http://", "https://")) and problem:
        raise InputError(f"--mlflow: {problem}")
    try:
        return _tell(run, MlflowClient(tracking_uri=uri))
    except MlflowException as error:
        raise WorkError(f"MLflow refused {run.folder.name}: {error.message}") from error


def _tell(run: FinishedRun, client: MlflowClient) -> str:
    began, ended = (
        _milliseconds(run.manifest.get(f"{moment}_at")) for moment in ("started", "finished")
    )
    run_id = _find_or_create(run, client, began)
    client.log_batch(
        run_id,
        metrics=[Metric(name, value, ended or 0, 0) for name, value in _metrics(run)],
        params=[
            Param(name, _text(run.manifest[name])) for name in _SETTINGS if name in run.manifest
        ],
        tags=[RunTag(f"trust.{name}", lights) for name, lights in _lights(run)],
    )
    for name in _FILES:
        if (run.folder / name).is_file():
            client.log_artifact(run_id, str(run.folder / name))
    client.set_terminated(run_id, end_time=ended)
    return run_id


def _find_or_create(run: FinishedRun, client: MlflowClient, began: int | None) -> str:
    title = str(run.manifest.get("tournament", "tournament"))
    experiment = client.get_experiment_by_name(title)
    experiment_id = experiment.experiment_id if experiment else client.create_experiment(title)
    identity = fingerprint(dict(run.manifest))
    runs = client.search_runs([experiment_id], f"tags.`{_RUN_TAG}` = '{identity}'")
    if runs:
        return str(runs[0].info.run_id)
    created = client.create_run(
        experiment_id, start_time=began, tags={_RUN_TAG: identity}, run_name=run.folder.name
    )
    return str(created.info.run_id)


def _metrics(run: FinishedRun) -> Iterator[tuple[str, float]]:
    """Return the numbers that are known; an entrant without a rating has no metric."""
    for dimension, standings in run.standings.items():
        for standing in standings:
            values = {"elo": standing.value, "low": standing.low, "high": standing.high}
            for name, value in values.items():
                if value is not None:
                    yield f"{dimension}/{standing.entrant}/{name}", value
    for dimension, pairs in run.verdicts.items():
        yield f"{dimension}/pairs", len(pairs)
        yield f"{dimension}/unjudged", sum(pair.outcome is Outcome.UNJUDGED for pair in pairs)


def _lights(run: FinishedRun) -> Iterator[tuple[str, str]]:
    for dimension, lights in run.manifest.get("trust", {}).items():
        named = {
            state: ", ".join(name for name, light in lights.items() if light == state)
            for state in ("red", "amber")
        }
        parts = (f"{state}: {names}" for state, names in named.items() if names)
        yield dimension, "; ".join(parts) or "no red light"


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _milliseconds(moment: str | None) -> int | None:
    return None if moment is None else int(datetime.fromisoformat(moment).timestamp() * 1000)
