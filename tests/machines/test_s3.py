"""Assets in an object store: moto's, over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import s3fs
from moto.server import ThreadedMotoServer

from tests.projects import LOOKING_BACK, make_project

BUCKET = "tournaments"


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run an S3-compatible server, found as the AWS tools find one, and yield a place in it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    try:
        s3fs.S3FileSystem().mkdir(BUCKET)
        yield f"s3://{BUCKET}/assets"
    finally:
        s3fs.S3FileSystem.clear_instance_cache()  # it remembers the server
        server.stop()


@pytest.mark.timeout(900)
def test_a_pilot_stores_the_same_files_in_s3_as_in_a_folder(tmp_path: Path, storage: str) -> None:
    local = make_project(tmp_path / "local", dimensions=["factuality"])
    of_folder = local.run()
    remote = make_project(tmp_path / "remote", dimensions=["factuality"])
    first = remote.run_recorded(environment={"TOURNAMENT_STORAGE": storage})
    files = s3fs.S3FileSystem()
    stored = {
        path.partition("/assets/")[2]: files.cat_file(path)
        for path in files.find(f"{BUCKET}/assets")
        if LOOKING_BACK.isdisjoint(path.split("/"))
    }
    assert stored == local.stored_files()
    assert not (remote.folder / "storage").exists()
    assert first.requests_submitted > 0
    assert first.leaderboard.equals(of_folder.leaderboard)
