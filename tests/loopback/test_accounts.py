from pathlib import Path

import pytest

from tests.loopback.builders import batch_body, judge_params
from tests.loopback.faulty_judges import BATCHES, judge
from tournament_assets.loopback.store import MessageLog, hash_params, read_accounts, read_messages
from tournament_assets.tournament.fingerprints import fingerprint

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
    assert accounts.in_batches == {hash_params(once): 1, hash_params(twice): 2}
    assert accounts.billed_twice == {hash_params(twice): 2}


def test_a_question_in_a_batch_and_in_a_message_is_the_same_question(tmp_path: Path) -> None:
    params = judge_params()
    with judge(directory=tmp_path) as (_, caller):
        caller.create(1)
        assert caller.post(MESSAGES, dict(reversed(params.items()))).status_code == 200
        assert caller.post(MESSAGES, {**params, "max_tokens": 0}).status_code == 400
    accounts = read_accounts(tmp_path)
    assert accounts.accepted == {hash_params(params): 2}
    assert accounts.billed_twice == {hash_params(params): 2}
    assert (accounts.n_requests, accounts.n_messages) == (1, 1)


def test_a_lost_answer_is_in_the_accounts_and_a_refusal_is_not(tmp_path: Path) -> None:
    faults = ("create_drop_after", "create_500", "message_529", "message_drop_after")
    with judge(*faults, directory=tmp_path) as (_, caller):
        for path, body in ((BATCHES, batch_body(2)), (MESSAGES, judge_params())):
            for _ in range(2):
                caller.try_post(path, body)
    accounts = read_accounts(tmp_path)
    assert (len(accounts.batches), accounts.n_requests, accounts.n_messages) == (1, 2, 1)


def test_what_failed_expired_or_was_canceled_is_accepted_and_not_billed(tmp_path: Path) -> None:
    with judge("row_expired", "row_overloaded_error", directory=tmp_path) as (_, caller):
        rows = [
            {"custom_id": f"r{number}", "params": judge_params(str(number))} for number in range(4)
        ]
        rows[3]["params"] = {"model": "no message at all"}
        assert caller.post(BATCHES, {"requests": rows}).status_code == 200
    with judge("never_ends", directory=tmp_path) as (_, caller):
        caller.post(f"{BATCHES}/{caller.create(2)}/cancel")
    accounts = read_accounts(tmp_path)
    assert sum(accounts.accepted.values()) == 6
    assert accounts.billed == {hash_params(judge_params("2")): 1}


def test_a_foreign_batch_is_in_nobodys_accounts(tmp_path: Path) -> None:
    for _ in range(2):
        with judge("foreign_batch", directory=tmp_path) as (server, caller):
            caller.create(2)
    assert server.log.to_dict() == {"batches": 2, "requests": 4, "messages": 0}
    assert read_accounts(tmp_path).n_requests == 4


def test_the_log_goes_on_counting_after_a_restart(tmp_path: Path) -> None:
    for n_before in range(3):
        with judge(directory=tmp_path) as (server, caller):
            before = {"batches": n_before, "requests": 2 * n_before, "messages": n_before}
            assert caller.get("/loopback/log").json() == server.log.to_dict() == before
            caller.create(2)
            caller.post(MESSAGES, judge_params())
    assert len(read_accounts(tmp_path).batches) == 3


def test_a_message_is_one_line_with_its_time_its_question_and_its_model(tmp_path: Path) -> None:
    with judge(directory=tmp_path) as (_, caller):
        caller.post(MESSAGES, judge_params("first"))
        caller.post(MESSAGES, judge_params("second"))
    first, second = read_messages(tmp_path)
    assert first.answered_at < second.answered_at
    assert first.params_hash == hash_params(judge_params("first"))
    assert second.model == "claude-opus-5-5"
    assert len((tmp_path / "messages.jsonl").read_bytes().splitlines()) == 2


def test_a_line_that_a_kill_cut_off_counts_for_nothing_and_spoils_no_other(tmp_path: Path) -> None:
    MessageLog(tmp_path).record(judge_params("one"))
    path = tmp_path / "messages.jsonl"
    path.write_bytes(path.read_bytes() + b'{"answered_at": "20')
    log = MessageLog(tmp_path)
    assert log.n_messages == 1
    log.record(judge_params("two"))
    assert [message.params_hash for message in read_messages(tmp_path)] == [
        hash_params(judge_params("one")),
        hash_params(judge_params("two")),
    ]


def test_a_question_has_the_hash_under_which_the_project_keeps_its_reply() -> None:
    params = judge_params("é \ud800 \N{GRINNING FACE}")
    assert hash_params(params) == fingerprint(params)
    assert hash_params(dict(reversed(params.items()))) == fingerprint(params)


def test_the_accounts_of_no_directory_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a directory"):
        read_accounts(tmp_path / "nowhere")
