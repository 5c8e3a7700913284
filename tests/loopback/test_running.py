import re
import subprocess
import sys
import threading
from pathlib import Path

import httpx2
import pytest

from tests.loopback.builders import Caller
from tests.loopback.threaded_servers import LoopbackServer
from tournament_assets.loopback.addresses import is_loopback
from tournament_assets.loopback.running import serve


def test_a_restarted_server_knows_the_batches_in_its_directory(tmp_path: Path) -> None:
    with LoopbackServer(tmp_path) as server, Caller(server) as caller:
        batch_id = caller.create(4)
        url = caller.wait(batch_id)["results_url"]
        before = caller.get(url).text
    with LoopbackServer(tmp_path) as server, Caller(server) as caller:
        url = caller.wait(batch_id)["results_url"]
        assert url.startswith(server.url)
        assert caller.get(url).text == before
        assert server.log.to_dict() == {"batches": 1, "requests": 4, "messages": 0}


def test_nothing_listens_and_no_thread_runs_after_the_end() -> None:
    before = set(threading.enumerate())
    with LoopbackServer() as server:
        assert server.url.startswith("http://127.0.0.1:")
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(server.url, trust_env=False)
    ours = [each for each in set(threading.enumerate()) - before if each.name == "loopback judge"]
    assert ours == []


def test_two_servers_run_side_by_side() -> None:
    with LoopbackServer() as one, LoopbackServer() as two, Caller(one) as caller:
        caller.create(1)
        assert (one.log.batches, two.log.batches) == (1, 0)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", ""])  # noqa: S104
def test_serving_to_other_machines_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{host!r};")):
        serve(host, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_addresses_of_this_machine_are_loopback(host: str) -> None:
    assert is_loopback(host)


def test_importing_the_loopback_judge_imports_nothing_of_the_project() -> None:
    code = (
        "import sys, tournament_assets.loopback.running\n"
        "print([name for name in sys.modules if name.startswith('tournament_assets.')\n"
        "       and not name.startswith('tournament_assets.loopback')\n"
        "       and name != 'tournament_assets.lazy_names'])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
