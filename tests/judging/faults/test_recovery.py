"""Ledgers that are lost while the service still holds what was paid for."""

import shutil
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from tests.judging.builders import SCOPE, Progress, keys_of, requests_for
from tests.loopback.builders import judge_params
from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import (
    BatchStatus,
    ReplyRow,
    SubmittedRequest,
    TakesBatches,
)
from tournament_assets.judging.costs.prices import Spending
from tournament_assets.judging.requests.requests import custom_id
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.judging.settlement.recovery import (
    PlannedRequest,
    RecoveryReport,
    recover_batches,
    refuse_to_repay,
)
from tournament_assets.judging.settlement.sessions import Clock
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.judges import Waiting

from .runs import KEYS, Run, Runner

PLANNED = dict.fromkeys(KEYS, PlannedRequest(SCOPE, "judge-1", "line"))
UNKNOWN = "the ledger does not know them"


WAITING = Waiting(poll_initial_seconds=0.01, poll_max_seconds=0.02, deadline_seconds=20.0)


def lose_ledger(run: Run, path: Path) -> None:
    """Go on with an empty ledger."""
    run.ledger.close()
    run.ledger = Ledger(f"sqlite:///{path}")
    run._path = path


def recover(run: Run, *, service: Any = None, days_later: int = 0, n: int = 3) -> RecoveryReport:
    return recover_batches(
        PLANNED,
        ledger=run.ledger,
        service=service or run.service,
        waiting=WAITING,
        progress=run.progress,
        clock=Clock(now=lambda: datetime.now(UTC) + timedelta(days=days_later)),
        max_readings=n,
    )


def check(run: Run, *, service: Any = None, may_pay_again: bool = False) -> None:
    refuse_to_repay(
        frozenset(KEYS),
        ledger=run.ledger,
        service=service or run.service,
        note=run.progress.note,
        config="configs/small.yaml",
        may_pay_again=may_pay_again,
    )


def held(run: Run) -> list[StoredReply]:
    """Return what the ledger holds, but for when it came."""
    noon = datetime(2026, 9, 1, 12, tzinfo=UTC)
    return [replace(each, received_at=noon) for each in run.ledger.iterate_replies(KEYS)]


def send(run: Run, *names: str) -> str:
    """Submit a batch that no ledger of ours knows."""
    return run.service.create_batch(
        [SubmittedRequest(name, judge_params()) for name in names]
    ).batch_id


def billed(run: Run) -> list[Spending]:
    return run.ledger.spending_since()


def test_an_emptied_ledger_gets_every_reply_back_and_asks_nothing(
    start: Runner, tmp_path: Path
) -> None:
    run = start()
    run.settle()
    before, bill = held(run), billed(run)
    lose_ledger(run, tmp_path / "new.sqlite")
    report = recover(run)
    assert (len(report.taken), report.replies, report.paid_twice) == (1, 4, 0)
    assert held(run) == before
    assert billed(run) == bill
    assert run.states == ["harvested"]
    assert run.is_settled()
    assert run.settle().submitted == 0
    assert run.paid == (1, 4, 0)
    assert recover(run) == RecoveryReport()


def test_a_line_that_is_not_json_does_not_make_a_batch_somebody_elses(
    start: Runner, tmp_path: Path
) -> None:
    run = start("row_unparsable:4")
    run.settle(max_rounds=1, direct_fallback=False)
    lose_ledger(run, tmp_path / "new.sqlite")
    report = recover(run)
    assert (report.foreign, len(report.incomplete), report.replies) == ([], 1, 0)


def test_second_questions_come_back_as_such(start: Runner, tmp_path: Path) -> None:
    run = start("no_verdict:2", "row_expired")
    run.settle()
    before, paid = held(run), run.paid
    assert {reply.attempt for reply in before} == {1, 2}
    lose_ledger(run, tmp_path / "new.sqlite")
    report = recover(run)
    assert (len(report.taken), report.replies) == (paid[0], len(before))
    assert (report.paid_twice, report.without_reply) == (0, 1)
    assert held(run) == before
    assert run.settle().submitted == 0
    assert run.paid == paid


def torn_logs(run: Run, folder: Path) -> list[Path]:
    """Copy the ledger once for each transaction in its log, with all that followed torn off."""
    log = Path(f"{run._path}-wal").read_bytes()
    frames = range(32, len(log), 24 + 4096)  # a header, then a header and a page each
    commits = [at for at in frames if struct.unpack(">I", log[at + 4 : at + 8])[0]]
    paths = [folder / f"torn-{number}.sqlite" for number, _ in enumerate(commits)]
    for path, end in zip(paths, [*commits[1:], len(log)], strict=True):
        shutil.copy(run._path, path)
        Path(f"{path}-wal").write_bytes(log[:end])
    return paths


def knows(run: Run) -> tuple[tuple[str, int], ...]:
    """Return what the ledger holds of each batch: what became of it, and how many replies."""
    return tuple((state, run.n_replies_of(nonce)) for nonce, state in run.batches)


@pytest.mark.e2e
def test_a_log_that_is_torn_anywhere_is_filled_again_and_nothing_is_bought_twice(
    start: Runner, tmp_path: Path
) -> None:
    run = start("no_verdict:2", "row_expired")
    run.settle()
    before, paid = held(run), run.paid
    assert {reply.attempt for reply in before} == {1, 2}
    known: list[tuple[tuple[str, int], ...]] = []
    for path in torn_logs(run, tmp_path):
        lose_ledger(run, path)
        known.append(knows(run))
        run.forget_leases()  # whoever held one when the log was torn is gone
        recover(run)
        tally = run.settle()
        assert (tally.submitted, tally.direct, run.paid) == (0, 0, paid), known[-1]
        assert held(run) == before, known[-1]
        assert tally.paid_twice == 0
        assert set(run.states) == {"harvested"}
    # The first batch alone: named, sent, read in part, and read.
    assert known[0] == ()
    assert {(("intent", 0),), (("created", 0),), (("created", 3),), (("harvested", 3),)} < {*known}


class BreaksOff:
    """A service whose results break off after some rows, but for the first readings."""

    def __init__(self, service: TakesBatches, n_rows: int, *, whole: int = 0) -> None:
        self._service = service
        self._n_rows = n_rows
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    def iterate_results(self, batch_id: str) -> Iterator[ReplyRow]:
        self._whole -= 1
        for number, row in enumerate(self._service.iterate_results(batch_id)):
            if number == self._n_rows and self._whole < 0:
                raise JudgeError("it broke off", failure=JudgeFailure.TRANSIENT)
            yield row


def test_a_recovery_that_breaks_off_keeps_what_it_read_and_goes_on_from_there(
    start: Runner, tmp_path: Path
) -> None:
    run = start()
    run.settle()
    lose_ledger(run, tmp_path / "new.sqlite")
    broken = recover(run, service=cast("TakesBatches", BreaksOff(run.service, 0)), n=1)
    assert (len(broken.incomplete), broken.replies, run.states) == (1, 0, [])
    # The third reading is the one that keeps rows: two before it look whose batch it is.
    cut = recover(run, service=cast("TakesBatches", BreaksOff(run.service, 2, whole=2)), n=1)
    assert (len(cut.incomplete), cut.replies, run.states) == (1, 2, ["recovering"])
    (unread,) = run.ledger.unbilled_batches()
    assert (unread.n_requests, unread.is_lost, unread.most_usd) == (2, True, None)
    rest = recover(run)
    assert (len(rest.taken), rest.replies, run.states) == (1, 2, ["harvested"])
    assert run.ledger.unbilled_batches() == []
    assert run.is_settled()
    assert run.paid == (1, 4, 0)


def test_a_reply_that_is_taken_back_without_its_cost_counts_as_billed_unseen(
    start: Runner, tmp_path: Path
) -> None:
    run = start("usage_huge")
    run.settle()
    before = sum(each.n_requests for each in run.ledger.unbilled_batches())
    assert before == 1
    lose_ledger(run, tmp_path / "new.sqlite")
    assert recover(run).replies == 4
    (unpriced,) = run.ledger.unbilled_batches()
    assert (unpriced.n_requests, unpriced.is_lost, unpriced.most_usd) == (1, True, None)


class LongBatch:
    """A service that holds one batch, and looks how much of it is kept as it hands it out."""

    def __init__(self, keys: Sequence[str], ledger: Ledger) -> None:
        self._keys = keys
        self._ledger = ledger
        self.most_on_the_way = 0

    def list_batches(self) -> Iterator[BatchStatus]:
        yield BatchStatus("batch-0", has_ended=True, n_requests=len(self._keys))

    def iterate_results(self, _batch_id: str) -> Iterator[ReplyRow]:
        for number, key in enumerate(self._keys):
            if number % 100 == 0 and self._ledger.batch_states(nonces={"0123456789ab"}):
                kept = len(self._ledger.answered_keys(self._keys))
                self.most_on_the_way = max(self.most_on_the_way, number - kept)
            yield ReplyRow(
                custom_id=custom_id("0123456789ab", key),
                result_type="succeeded",
                stop_reason="end_turn",
                text="VERDICT: A",
            )


def test_of_a_large_batch_a_part_at_a_time_is_on_its_way_into_the_ledger(tmp_path: Path) -> None:
    keys = keys_of(800)
    with closing(Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")) as ledger:
        service = LongBatch(keys, ledger)
        report = recover_batches(
            dict.fromkeys(keys, PlannedRequest(SCOPE, "judge-1", "line")),
            ledger=ledger,
            service=cast("TakesBatches", service),
            waiting=WAITING,
            progress=Progress(),
        )
    assert (len(report.taken), report.replies) == (1, len(keys)) == (1, 1600)
    assert 0 < service.most_on_the_way <= 500


def test_only_what_is_planned_is_taken_and_the_rest_is_counted(
    start: Runner, tmp_path: Path
) -> None:
    run = start()
    run.settle()
    lose_ledger(run, tmp_path / "new.sqlite")
    other = requests_for(4)[7].request_key
    unplanned = send(run, custom_id("0123456789ab", other))
    foreign = send(run, "request-1")
    mixed = send(run, custom_id("0123456789ac", other), custom_id("0123456789ac", KEYS[0]))
    report = recover(run)
    assert (report.unplanned, report.foreign) == ([unplanned], [foreign])
    assert report.taken[1:] == [mixed]
    assert (report.replies, report.paid_twice) == (5, 1)
    assert run.ledger.answered_keys([other]) == {other}
    assert recover(run).taken == []


def test_what_the_service_no_longer_keeps_is_not_looked_at(start: Runner, tmp_path: Path) -> None:
    run = start()
    run.settle()
    lose_ledger(run, tmp_path / "new.sqlite")
    assert recover(run, days_later=30) == RecoveryReport()
    assert recover(run, days_later=28).replies == 4


def test_a_batch_that_was_written_off_and_exists_is_taken_back_and_counted_as_waste(
    start: Runner,
) -> None:
    run = start("create_drop_after", "list_lag:always")
    run.settle()
    assert run.states == ["abandoned", "harvested"]
    assert run.paid == (2, 8, 0)
    report = recover(run)
    assert (len(report.taken), report.replies, report.paid_twice) == (1, 0, 4)
    assert run.states == ["harvested", "harvested"]
    waste = run.ledger.waste_of(SCOPE.tournament_id, SCOPE.mode)
    assert (waste.replies_paid_twice, waste.requests_never_confirmed) == (4, 0)


@pytest.mark.parametrize("fault", ["archived", "never_ends"])
def test_a_batch_that_cannot_be_read_is_told(start: Runner, tmp_path: Path, fault: str) -> None:
    run = start(fault)
    with pytest.raises(JudgeError):
        run.settle(deadline_seconds=0.2)
    lose_ledger(run, tmp_path / "new.sqlite")
    report = recover(run)
    assert len(report.gone if fault == "archived" else report.in_progress) == 1
    assert held(run) == []


def test_nothing_is_sent_that_the_service_was_paid_for_without_the_ledger_knowing(
    start: Runner, tmp_path: Path
) -> None:
    run = start()
    check(run)
    run.settle()
    check(run)
    assert not run.progress.heard(UNKNOWN)
    lose_ledger(run, tmp_path / "new.sqlite")
    with pytest.raises(JudgeError, match=rf"1 batches \(msgbatch_.*{UNKNOWN}"):
        check(run)
    check(run, may_pay_again=True)
    assert run.progress.heard(UNKNOWN)
    recover(run)
    check(run)


class Fails:
    """A service that fails at one thing, in one way."""

    def __init__(self, service: TakesBatches, name: str, failure: JudgeFailure) -> None:
        self._service = service
        self._name = name
        self._failure = failure

    def __getattr__(self, name: str) -> Any:
        return self._fail if name == self._name else getattr(self._service, name)

    def _fail(self, *_given: object) -> None:
        raise JudgeError("broken", failure=self._failure)


def start_forgotten(start: Runner, tmp_path: Path) -> Run:
    """Have every request answered, and lose the ledger."""
    run = start()
    run.settle()
    lose_ledger(run, tmp_path / "new.sqlite")
    return run


@pytest.mark.parametrize(
    ("name", "failure", "heard"),
    [
        # That it is unknown what was forgotten is told.
        ("list_batches", JudgeFailure.TRANSIENT, ["broken; "]),
        ("list_batches", JudgeFailure.INVALID, ["broken; "]),
        ("iterate_results", JudgeFailure.INVALID, ["broken; "]),
        # So is a batch whose results fail for now; of one whose results are gone nothing can be.
        ("iterate_results", JudgeFailure.TRANSIENT, ["1 batches", UNKNOWN]),
        ("iterate_results", JudgeFailure.LOST, []),
        ("iterate_results", JudgeFailure.UNKNOWN, []),
    ],
)
def test_a_look_for_what_was_forgotten_that_fails_is_told_and_stops_nothing(
    start: Runner, tmp_path: Path, name: str, failure: JudgeFailure, heard: list[str]
) -> None:
    run = start_forgotten(start, tmp_path)
    check(run, service=Fails(run.service, name, failure))
    assert all(map(run.progress.heard, heard))
    assert heard or not (run.progress.heard("1 batches") or run.progress.heard("not known"))


@pytest.mark.parametrize("name", ["list_batches", "iterate_results"])
def test_a_service_that_refuses_for_good_stops_before_anything_is_sent(
    start: Runner, tmp_path: Path, name: str
) -> None:
    run = start_forgotten(start, tmp_path)
    with pytest.raises(JudgeError, match="broken"):
        check(run, service=Fails(run.service, name, JudgeFailure.FATAL))


def start_beside_one_under_way(start: Runner) -> Run:
    """Leave a batch in progress, and have another one that the ledger does not know."""
    run = start("never_ends")
    with pytest.raises(JudgeError):
        run.settle(deadline_seconds=0.2)
    assert run.states == ["created"]
    send(run, *(custom_id("0123456789ab", key) for key in KEYS))
    return run


def test_a_batch_under_way_that_is_out_of_reach_keeps_no_forgotten_one_from_being_taken_back(
    start: Runner,
) -> None:
    run = start_beside_one_under_way(start)
    service = Fails(run.service, "get_batch", JudgeFailure.LOST)
    assert recover(run, service=service).replies == len(KEYS)
    assert sorted(run.states) == ["created", "harvested"]


def test_a_service_that_refuses_to_say_how_far_a_batch_is_stops_a_recovery(start: Runner) -> None:
    run = start_beside_one_under_way(start)
    with pytest.raises(JudgeError, match="broken"):
        recover(run, service=Fails(run.service, "get_batch", JudgeFailure.FATAL))


def test_a_batch_that_looks_like_ours_is_told(start: Runner) -> None:
    run = start()
    send(run, "request-1")
    check(run)
    assert not run.progress.heard(UNKNOWN)
    send(run, custom_id("0123456789ab", requests_for(4)[7].request_key))
    check(run)
    assert run.progress.heard("1 batches (msgbatch_")
    assert run.progress.heard(UNKNOWN)


def test_a_batch_in_progress_of_the_size_that_is_about_to_be_sent_is_told(
    start: Runner, protocol: str
) -> None:
    run = start("never_ends")
    send(run, "a", "b", "c", "d")
    check(run)
    # Where our own name stands beside a batch, one without it is somebody else's.
    assert run.progress.heard(UNKNOWN) is (protocol == "anthropic")


def test_a_batch_in_progress_that_has_a_name_of_ours_is_told(start: Runner) -> None:
    run = start("never_ends")
    send(run, *(custom_id("0123456789ab", key) for key in KEYS))
    check(run)
    assert run.progress.heard(UNKNOWN)


class DiesOnceAccepted(BreaksOff):
    """A service whose caller is killed before it hears that a batch was accepted."""

    def create_batch(self, requests: Iterable[SubmittedRequest]) -> BatchStatus:
        self._service.create_batch(requests)
        raise KeyboardInterrupt


def test_a_batch_whose_creation_was_not_confirmed_is_left_to_its_own_run(start: Runner) -> None:
    run = start()
    whole = run.service
    run.service = cast("TakesBatches", DiesOnceAccepted(whole, 0))
    with pytest.raises(KeyboardInterrupt):
        run.settle()
    run.service = whole
    check(run)
    assert (recover(run).taken, run.states) == ([], ["intent"])
    assert run.settle().adopted == 1
    assert run.paid == (1, 4, 0)
