import threading
import time
from pathlib import Path

from tests.loopback.builders import Caller, batch_body, judge_params
from tests.loopback.faulty_judges import BATCHES, judge, results
from tests.loopback.killable import KillableServer
from tournament_assets.loopback.store import hash_params, read_accounts


def test_what_was_answered_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    with KillableServer(tmp_path) as server, Caller(server.url) as caller:
        batch_id = caller.create(3)
        assert caller.post("/v1/messages", judge_params("asked directly")).status_code == 200
        server.kill()
    accounts = read_accounts(tmp_path)
    assert [each.batch_id for each in accounts.batches] == [batch_id]
    assert accounts.in_messages == {hash_params(judge_params("asked directly")): 1}
    with judge(directory=tmp_path) as (again, caller):
        assert again.log.to_dict() == {"batches": 1, "requests": 3, "messages": 1}
        assert len(results(caller, batch_id).text.splitlines()) == 3


def test_a_kill_while_a_batch_is_written_leaves_no_batch_and_no_debris(tmp_path: Path) -> None:
    body = batch_body(20_000, system="Judge well. " * 20)
    with KillableServer(tmp_path) as server, Caller(server.url) as caller:
        asking = threading.Thread(target=caller.try_post, args=(BATCHES, body))
        asking.start()
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("*.partial")):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        server.kill()
        asking.join()
    assert len(list(tmp_path.glob("*.partial"))) == 1
    assert read_accounts(tmp_path).batches == ()
    with judge(directory=tmp_path) as (again, _):
        assert list(tmp_path.glob("*.partial")) == []
        assert again.log.batches == 0
