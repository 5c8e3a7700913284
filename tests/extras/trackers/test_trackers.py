"""What MLflow and an OpenTelemetry collector hold after they were told of a run."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.loopback.threaded_servers import ThreadedServer
from tests.reports.builders import leader_row
from tests.run_comparison.test_run_reading import VERDICT, write_run
from tournament_assets.cli import main

MANIFEST = {
    "tournament": "small",
    "mode": "pilot",
    "judge_model": "claude-test",
    "entrants": ["ada", "bob"],
    "dimensions": ["facts"],
    "inputs": {},
    "trust": {"facts": {"position_bias": "red", "swap_consistency": "green", "length": "amber"}},
    "started_at": "2026-11-22T22:44:16+00:00",
    "finished_at": "2026-11-22T22:45:39+00:00",
}
BOARD = [
    leader_row("ada", 1400.0, interval=(1380.5, 1420.5), dimension="facts"),
    leader_row("bob", None, dimension="facts", rank=None),
]
OUTCOMES = ("a_wins", "b_wins", "tie", "inconsistent", "unjudged")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(
        tmp_path / "pilot_1",
        manifest=MANIFEST,
        leaderboard=BOARD,
        verdicts=[
            {**VERDICT, "prompt_id": f"p{number}", "outcome": outcome}
            for number, outcome in enumerate(OUTCOMES)
        ],
        matches=None,
    )


def track(run: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["track", str(run), *options])


def test_an_mlflow_file_store_holds_the_run_once_however_often_it_is_told(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "mlruns").as_uri()
    assert [track(run, "--mlflow", uri).exit_code for _ in range(2)] == [0, 0]
    client = mlflow.MlflowClient(tracking_uri=uri)
    (found,) = client.search_runs([client.get_experiment_by_name("small").experiment_id])
    assert found.info.run_name == "pilot_1"
    assert found.info.status == "FINISHED"
    assert found.info.end_time - found.info.start_time == 83_000
    # bob is not rated, so nothing is said of bob.
    assert found.data.metrics == {
        "facts/ada/elo": 1400.0,
        "facts/ada/low": 1380.5,
        "facts/ada/high": 1420.5,
        "facts/pairs": 5,
        "facts/unjudged": 1,
    }
    assert found.data.params["entrants"] == "ada, bob"
    assert found.data.params["judge_model"] == "claude-test"
    assert found.data.tags["trust.facts"] == "red: position_bias; amber: length"
    files = {each.path for each in client.list_artifacts(found.info.run_id)}
    assert files == {"manifest.json", "leaderboard.csv"}


def test_what_mlflow_refuses_is_said_in_its_words(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    result = track(run, "--mlflow", (tmp_path / "mlruns").as_uri())
    assert result.exit_code == 1
    assert "refused pilot_1: " in result.stderr
    assert "filesystem" in result.stderr


class Collector:
    """Keeps the bodies that it is sent, or refuses them."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.status = 200

    async def take(self, request: Request) -> Response:
        self.bodies.append(await request.body())
        return Response(status_code=self.status)


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    kept = Collector()
    app = Starlette(routes=[Route("/v1/logs", kept.take, methods=["POST"])])
    with ThreadedServer(app) as server:
        yield kept, server.url


def test_a_collector_gets_an_event_for_every_pair_and_a_score_only_where_there_is_one(
    run: Path, collector: tuple[Collector, str]
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    kept, url = collector
    result = track(run, "--otlp", url)
    assert re.findall(r"\d+", result.output) == ["5"]
    (body,) = kept.bodies
    (resource,) = ExportLogsServiceRequest.FromString(body).resource_logs
    (scope,) = resource.scope_logs
    assert {record.event_name for record in scope.log_records} == {"gen_ai.evaluation.result"}
    told = [
        {each.key: each.value.double_value or each.value.string_value for each in record.attributes}
        for record in scope.log_records
    ]
    assert [each["gen_ai.evaluation.score.label"] for each in told] == list(OUTCOMES)
    assert [each.get("gen_ai.evaluation.score.value") for each in told] == [
        1.0,
        "",
        0.5,
        None,
        None,
    ]
    assert [each.get("error.type") for each in told] == [None] * 4 + ["unjudged"]
    assert {each["gen_ai.evaluation.name"] for each in told} == {"facts"}
    assert {each["tournament.run"] for each in told} == {"pilot_1"}
    assert [each["tournament.prompt_id"] for each in told] == ["p0", "p1", "p2", "p3", "p4"]


def test_a_collector_that_refuses_is_no_success(
    run: Path, collector: tuple[Collector, str]
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    kept, url = collector
    kept.status = 400
    result = track(run, "--otlp", url)
    assert result.exit_code == 1
    assert "0 of 5" in result.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "no tool to send the run to"),
        (("--otlp", "http://ada:secret@127.0.0.1:1"), "OTEL_EXPORTER_OTLP_HEADERS"),
        (("--mlflow", "http://ada:secret@127.0.0.1:1"), "MLFLOW_TRACKING_TOKEN"),
    ],
)
def test_bad_addresses_are_refused_and_secrets_not_repeated(
    run: Path, options: tuple[str, ...], words: str
) -> None:
    result = track(run, *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "secret" not in result.output
