import pytest

from tournament_assets.judging.settlement import harvest
from tournament_assets.tournament.errors import JudgeError, JudgeFailure, JudgeWaitingError

from .runs import KEYS, Run, Runner, true_verdict

pytestmark = pytest.mark.e2e


def assert_read_in_the_end_and_paid_once(run: Run) -> None:
    tally = run.settle()
    assert (tally.batches, tally.answered, tally.failed, tally.paid_twice) == (1, 4, 0, 0)
    assert run.states == ["harvested"]
    for _ in range(2):
        assert run.is_settled()
        assert run.paid == (1, 4, 0)
        assert run.settle().submitted == 0


@pytest.mark.parametrize(
    ("faults", "note"),
    [
        (("poll_404:3",), "404"),
        (("poll_5xx:4",), "again"),
        (("unknown_status:2",), ""),
        (("results_cut_mid_line",), "gave 2 of 4"),
        (("results_cut_mid_line_silent",), "gave 2 of 4"),
        (("results_cut_at_line",), "gave 2 of 4"),
        (("results_cut_at_line_silent",), "gave 2 of 4"),
        (("results_cut_mid_line:6", "results_cut_at_line:2"), "gave 2 of 4"),
        (("results_missing_row",), "gave 3 of 4"),
        (("results_garbage_line",), ""),
        (("results_blank_line",), ""),
        (("results_split_crlf",), ""),
        (("results_duplicate_same",), ""),
    ],
)
def test_a_look_or_a_reading_that_went_wrong_is_repeated_and_everything_paid_once(
    start: Runner, faults: tuple[str, ...], note: str
) -> None:
    run = start(*faults)
    assert_read_in_the_end_and_paid_once(run)
    assert not note or run.progress.heard(note)


def test_a_batch_that_is_never_known_stays_open_until_it_is(
    start: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harvest, "_UNKNOWN_SECONDS", 0.2)
    run = start("poll_404:always")
    with pytest.raises(JudgeError, match="--pay-again") as caught:
        run.settle()
    assert caught.value.failure is JudgeFailure.UNKNOWN
    assert run.states == ["created"]
    assert run.paid == (1, 4, 0)


@pytest.mark.parametrize("fault", ["ended_without_url", "foreign_host", "relative_url"])
def test_results_are_read_at_the_configured_address_whatever_url_a_batch_names(
    start: Runner, fault: str, protocol: str
) -> None:
    # In OpenAI's protocol no address but the name of a file can be missing.
    is_nameless = (fault, protocol) == ("ended_without_url", "openai_batch")
    run = start(f"{fault}:{2 if is_nameless else 'always'}")
    assert_read_in_the_end_and_paid_once(run)
    assert run.progress.heard("again") is is_nameless


@pytest.mark.parametrize("fault", ["results_redirect", "poll_redirect"])
def test_a_redirected_reading_stops_the_run_and_is_read_by_the_next(
    start: Runner, fault: str
) -> None:
    run = start(fault)
    with pytest.raises(JudgeError, match=r"302.*http://localhost:") as seen:
        run.settle()
    assert seen.value.failure is JudgeFailure.FATAL
    assert run.states == ["created"]
    assert run.ledger.answered_keys(KEYS) == set()
    assert run.settle().resumed == 1
    assert run.is_settled()
    assert run.paid == (1, 4, 0)


def test_of_two_rows_that_contradict_each_other_the_first_counts(start: Runner) -> None:
    run = start("results_duplicate_different")
    assert_read_in_the_end_and_paid_once(run)
    assert [run.verdicts(key) for key in KEYS] == [[true_verdict(key)] for key in KEYS]


def test_a_row_that_is_counted_and_missing_for_good_is_not_bought_again(start: Runner) -> None:
    run = start("results_missing_row:5")
    tally = run.settle()
    assert (tally.failed, tally.batches, tally.answered, len(tally.withheld)) == (0, 1, 3, 1)
    assert run.paid == (1, 4, 0)
    assert run.states == ["created"]
    assert run.settle().answered == 4
    assert run.is_settled()
    assert run.paid == (1, 4, 0)


@pytest.mark.parametrize(
    ("fault", "n_read"), [("results_stay_short", 2), ("results_stay_empty", 0)]
)
def test_results_that_stay_short_are_bought_again_only_if_somebody_says_so(
    start: Runner, fault: str, n_read: int
) -> None:
    run = start(fault)
    for _ in range(2):
        tally = run.settle()
        assert (tally.answered, len(tally.withheld)) == (n_read, 4 - n_read)
        assert run.paid == (1, 4, 0)
        assert run.states == ["created"]
        assert run.progress.heard(f" {4 - n_read} of its")
        assert run.progress.heard("without --pay-again")
    tally = run.settle(may_pay_again=True)
    assert (tally.answered, tally.submitted, tally.withheld) == (4, 4 - n_read, set())
    assert run.states == ["lost", "harvested"]
    assert run.is_settled()
    assert run.paid == (2, 8 - n_read, 0)


def test_a_line_that_is_never_json_costs_its_own_request_one_more_asking(start: Runner) -> None:
    run = start("row_unparsable")
    tally = run.settle()
    assert (tally.answered, tally.failed, tally.unparsable, tally.batches) == (4, 1, 1, 2)
    assert run.states == ["harvested", "harvested"]
    assert run.is_settled()
    assert run.paid == (2, 5, 0)
    assert list(run.ledger.failed_keys(KEYS).values()) == ["unparsable"]
    assert run.failure_messages[0].startswith('{"custom_id": "')
    assert run.ledger.waste_of("tiny", "pilot").requests_unparsable == 1
    assert [lost.n_requests for lost in run.ledger.unbilled_batches()] == [1]
    assert run.settle().submitted == 0


def test_lines_that_are_never_json_are_paid_twice_at_most_unless_somebody_says_so(
    start: Runner,
) -> None:
    run = start("row_unparsable:9")
    for _ in range(2):
        tally = run.settle()
        assert (tally.answered, len(tally.withheld)) == (0, 4)
        assert run.states == ["harvested", "harvested"]
        assert run.paid == (2, 8, 0)
        assert run.progress.heard("without --pay-again")
    run.settle(may_pay_again=True)
    assert run.paid == (3, 12, 0)
    tally = run.settle(may_pay_again=True)
    assert (tally.answered, tally.withheld) == (4, set())
    assert run.paid == (4, 13, 0)


def test_a_batch_whose_only_line_is_never_json_is_adopted_by_the_name_in_it(start: Runner) -> None:
    run = start("create_drop_after", "row_unparsable:5")
    tally = run.settle()
    assert tally.adopted == 1
    assert run.paid == (2, 8, 0)


def test_a_bill_beyond_64_bits_is_no_bill_and_the_reply_counts(start: Runner) -> None:
    run = start("usage_huge")
    assert_read_in_the_end_and_paid_once(run)
    usages = [reply.usage for key in KEYS for reply in run.replies(key)]
    assert len(usages) == 4
    assert usages.count(None) == 1


def test_a_row_that_nobody_asked_for_is_not_used(start: Runner) -> None:
    run = start("results_foreign_row")
    assert_read_in_the_end_and_paid_once(run)
    assert run.progress.heard("returned 1 rows")


def test_a_result_of_a_type_of_tomorrow_is_asked_again(start: Runner, protocol: str) -> None:
    run = start("results_unknown_type")
    tally = run.settle()
    if protocol == "openai_batch":  # it is in the file of errors, which nobody announced
        assert (tally.failed, tally.batches, tally.answered) == (0, 1, 4)
        return
    assert (tally.failed, tally.batches, tally.answered) == (1, 2, 4)
    assert run.is_settled()
    assert run.paid == (2, 5, 0)
    assert run.settle().submitted == 0


def test_an_unconfirmed_batch_whose_results_break_off_is_found_and_paid_once(
    start: Runner,
) -> None:
    run = start("create_drop_after", "poll_404", "results_cut_mid_line", "results_cut_at_line")
    assert run.settle().adopted == 1
    assert run.is_settled()
    assert run.paid == (1, 4, 0)


@pytest.mark.parametrize("fault", ["results_cut_at_line_silent", "results_missing_row"])
def test_an_unconfirmed_batch_of_one_whose_row_is_missing_is_found_and_paid_once(
    start: Runner, fault: str
) -> None:
    run = start("create_413_above:1", "create_drop_after", f"{fault}:2")
    assert run.settle().adopted == 1
    assert run.is_settled()
    assert run.paid == (4, 4, 0)


def test_a_batch_that_never_ends_is_left_open_and_nothing_is_sent_again(start: Runner) -> None:
    run = start("never_ends")
    for _ in range(2):
        with pytest.raises(JudgeWaitingError, match="1 of 1 batches"):
            run.settle(deadline_seconds=0.3)
        assert run.states == ["created"]
        assert run.paid == (1, 4, 0)


def test_results_that_are_archived_are_paid_again_only_if_somebody_says_so(start: Runner) -> None:
    run = start("archived")
    for _ in range(2):
        with pytest.raises(JudgeError, match="--pay-again") as caught:
            run.settle()
        assert caught.value.failure is JudgeFailure.LOST
        assert run.states == ["created"]
    tally = run.settle(may_pay_again=True)
    assert (tally.answered, tally.submitted) == (4, 4)
    assert run.states == ["lost", "harvested"]
    assert run.is_settled()
    assert run.paid == (2, 8, 0)


def test_a_batch_that_is_refused_as_a_whole_stops_the_run_and_is_not_waited_for(
    start: Runner, protocol: str
) -> None:
    run = start("batch_refused")
    with pytest.raises(JudgeError, match="batch msgbatch_"):
        run.settle()
    if protocol == "anthropic":  # it has no word for that, and answers every request by itself
        return
    assert run.states == ["refused"]
    assert run.settle().answered == 4
    assert run.is_settled()
    assert run.paid == (2, 8, 0)


def test_a_batch_of_requests_that_are_all_invalid_stops_the_run_and_is_kept(start: Runner) -> None:
    run = start("all_invalid")
    with pytest.raises(JudgeError, match="batch msgbatch_") as caught:
        run.settle()
    assert caught.value.failure is JudgeFailure.INVALID
    assert run.states == ["harvested"]
    assert run.is_done
    assert {reply.error_type for key in KEYS for reply in run.replies(key)} == {
        "invalid_request_error"
    }
    assert run.settle().submitted == 0
    assert run.paid == (1, 4, 0)
