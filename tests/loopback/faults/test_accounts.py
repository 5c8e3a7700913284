import threading
from pathlib import Path

from tests.loopback.builders import Caller, batch_body, judge_params, wait_for
from tests.loopback.faults.accounts import MessageLog, read_accounts, read_messages
from tests.loopback.faults.faulty_judges import BATCHES, judge, results
from tests.loopback.faults.killable import KillableServer
from tournament_assets.foundation.fingerprints import fingerprint

MESSAGES = "/v1/messages"


def test_the_accounts_name_the_batches_and_count_their_requests(tmp_path: Path) -> None:
    with judge(directory=tmp_path) as (server, caller):
        first, second = caller.create(3), caller.create(2)
        accounts = read_accounts(tmp_path)
        assert [(each.batch_id, each.n_requests) for each in accounts.batches] == [
            (first, 3),
            (second, 2),
        ]
        assert accounts.n_requests == server.log.requests == 5
    known = read_accounts(tmp_path)
    assert known == accounts
    assert known.batches[0].created_at < known.batches[1].created_at


def test_a_question_paid_for_twice_shows_although_it_has_another_name(tmp_path: Path) -> None:
    once, twice = judge_params("once"), judge_params("twice")
    with judge(directory=tmp_path) as (_, caller):
        for name in ("a", "b"):
            rows = [{"custom_id": name, "params": twice}]
            rows += [{"custom_id": "c", "params": once}] if name == "a" else []
            assert caller.post(BATCHES, {"requests": rows}).status_code == 200
    accounts = read_accounts(tmp_path)
    assert accounts.in_batches == {fingerprint(once): 1, fingerprint(twice): 2}
    assert accounts.billed == {fingerprint(once): 1, fingerprint(twice): 2}


def test_a_question_in_a_batch_and_in_a_message_is_the_same_question(tmp_path: Path) -> None:
    params = judge_params()
    with judge(directory=tmp_path) as (_, caller):
        caller.create(1)
        assert caller.post(MESSAGES, dict(reversed(params.items()))).status_code == 200
        assert caller.post(MESSAGES, {**params, "max_tokens": 0}).status_code == 400
    accounts = read_accounts(tmp_path)
    assert accounts.in_batches == accounts.in_messages == {fingerprint(params): 1}
    assert accounts.billed == {fingerprint(params): 2}
    assert (accounts.n_requests, accounts.n_messages) == (1, 1)


def test_a_lost_answer_is_in_the_accounts_and_a_refusal_is_not(tmp_path: Path) -> None:
    faults = ("create_drop_after", "create_500", "message_529", "message_drop_after")
    with judge(*faults, directory=tmp_path) as (_, caller):
        for path, body in ((BATCHES, batch_body(2)), (MESSAGES, judge_params())):
            for _ in range(2):
                caller.try_post(path, body)
    accounts = read_accounts(tmp_path)
    assert (len(accounts.batches), accounts.n_requests, accounts.n_messages) == (1, 2, 1)


def test_what_failed_or_expired_is_accepted_and_not_billed(tmp_path: Path) -> None:
    with judge("row_expired", "row_overloaded_error", directory=tmp_path) as (_, caller):
        rows = [
            {"custom_id": f"r{number}", "params": judge_params(str(number))} for number in range(4)
        ]
        rows[3]["params"] = {"model": "no message at all"}
        assert caller.post(BATCHES, {"requests": rows}).status_code == 200
    accounts = read_accounts(tmp_path)
    assert sum(accounts.in_batches.values()) == 4
    assert accounts.billed == {fingerprint(judge_params("2")): 1}


def test_the_log_goes_on_counting_after_a_restart(tmp_path: Path) -> None:
    for n_before in range(3):
        with judge(directory=tmp_path) as (server, caller):
            before = {"batches": n_before, "requests": 2 * n_before, "messages": n_before}
            assert server.log.to_dict() == before
            caller.create(2)
            caller.post(MESSAGES, judge_params())
    assert len(read_accounts(tmp_path).batches) == 3


def test_a_line_that_a_kill_cut_off_counts_for_nothing_and_spoils_no_other(tmp_path: Path) -> None:
    MessageLog(tmp_path).record(judge_params("one"))
    path = tmp_path / "messages.jsonl"
    path.write_bytes(path.read_bytes() + b'{"question": "20')
    log = MessageLog(tmp_path)
    assert log.n_messages == 1
    log.record(judge_params("two"))
    assert list(read_messages(tmp_path)) == [
        fingerprint(judge_params("one")),
        fingerprint(judge_params("two")),
    ]


def test_what_was_answered_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    with KillableServer(tmp_path) as server, Caller(server.url) as caller:
        batch_id = caller.create(3)
        assert caller.post("/v1/messages", judge_params("asked directly")).status_code == 200
        server.kill()
    accounts = read_accounts(tmp_path)
    assert [each.batch_id for each in accounts.batches] == [batch_id]
    assert accounts.in_messages == {fingerprint(judge_params("asked directly")): 1}
    with judge(directory=tmp_path) as (again, caller):
        assert again.log.to_dict() == {"batches": 1, "requests": 3, "messages": 1}
        assert len(results(caller, batch_id).text.splitlines()) == 3


def test_a_kill_while_a_batch_is_written_leaves_no_batch(tmp_path: Path) -> None:
    body = batch_body(20_000, system="Judge well. " * 20)
    with KillableServer(tmp_path) as server, Caller(server.url) as caller:
        asking = threading.Thread(target=caller.try_post, args=(BATCHES, body))
        asking.start()
        wait_for(lambda: bool(list(tmp_path.glob("*.partial"))))
        server.kill()
        asking.join()
    assert len(list(tmp_path.glob("*.partial"))) == 1
    assert read_accounts(tmp_path).batches == ()
    with judge(directory=tmp_path) as (again, _):
        assert again.log.batches == 0
