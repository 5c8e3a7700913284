"""What a run does about every fault of a service: one table, and one test that goes through it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.loopback.faults.catalogue import CATALOGUE
from tournament_assets.foundation.errors import JudgeError, JudgeFailure, JudgeWaitingError
from tournament_assets.judging.settlement import harvest
from tournament_assets.providers.anthropic import message_batches
from tournament_assets.providers.openai import services
from tournament_assets.tournament.verdicts import Verdict

from .runs import FIRST, KEYS, Run, Runner, true_verdict

TRUE = true_verdict(FIRST)
UNREADABLE = Verdict.UNREADABLE
DONE, INTENT, SENT = "harvested", "intent", "created"
GONE, LOST, NO = "abandoned", "lost", "refused"


@dataclass(frozen=True)
class Then:
    """One run, and what must hold after it; what is None is not looked at.

    Attributes:
        paid: The batches, the requests in them and the direct messages that were accepted so far.
        states: What became of every batch, in the order in which they were begun.
        tally: What the run counts, by name.
        fails: How it fails; True for a wait that was given up.
        left: What is left to do: `nothing`, as after a run with which nothing goes wrong; `no
            verdict` can be had, and nothing is left either; `the first` request has no answer;
            `all` have none; `something`.
        verdicts: What the replies to the first request say, one for each attempt.
        channels: How the replies to the first request came.
        naps: How long was waited first; a number is a wait among others, True is any.
        untold: What a person does not hear.
        policy: How patient the run is.
        pays_again: Whether it may pay again.
        also: What else is looked at.
    """

    paid: tuple[int, int, int] | None = None
    states: list[str] | None = None
    tally: Mapping[str, int] = field(default_factory=dict)
    fails: JudgeFailure | bool = False
    left: str = "nothing"
    verdicts: list[Verdict] | None = None
    channels: list[str] | None = None
    naps: list[float] | float | bool | None = None
    untold: str = "\0"
    policy: Mapping[str, Any] = field(default_factory=dict)
    pays_again: bool = False
    also: Callable[[Run], object] = lambda _: None

    def check(self, run: Run, said: str) -> None:
        """Let a run settle its requests, and look at what came of it."""
        if self.fails:
            with pytest.raises(JudgeError, match=said) as caught:
                run.settle(may_pay_again=self.pays_again, **self.policy)
            if self.fails is True:
                assert isinstance(caught.value, JudgeWaitingError)
            else:
                assert caught.value.failure is self.fails
        else:
            tally = run.settle(may_pay_again=self.pays_again, **self.policy)
            found = {name: getattr(tally, name) for name in self.tally}
            found = {name: n if isinstance(n, int) else len(n) for name, n in found.items()}
            assert found == self.tally
            assert not said or run.progress.heard(said)
        assert not run.progress.heard(self.untold)
        for name in ("paid", "states", "channels"):
            expected = getattr(self, name)
            assert expected is None or getattr(run, name) == expected, name
        assert self.verdicts is None or run.verdicts() == self.verdicts
        self._check_what_is_left(run)
        if isinstance(self.naps, list):
            assert run.naps[: len(self.naps)] == self.naps
        elif self.naps is not None:
            assert run.naps if self.naps is True else self.naps in run.naps
        self.also(run)

    def _check_what_is_left(self, run: Run) -> None:
        assert run.is_done is (self.left in ("nothing", "no verdict"))
        assert run.is_settled() is (self.left == "nothing")
        if self.left in ("the first", "all"):
            answered = set(KEYS) - {FIRST} if self.left == "the first" else set()
            assert run.ledger.answered_keys(KEYS) == answered


class Rule:
    """What is done about some faults.

    Args:
        faults: Faults that strike together, and what a person hears of them in the first run, and
            in later ones that fail; `|` divides those of which nothing in particular is heard.
        runs: The runs, one after the other. One more must ask nothing where nothing is left.
        of: The protocol that it is about; None is both.
    """

    def __init__(self, faults: Mapping[str, str] | str, *runs: Then, of: str | None = None) -> None:
        if isinstance(faults, str):
            faults = {" ".join(each.split()): "" for each in faults.split("|")}
        self.heard, self.runs, self.of = faults, runs, of


def settled(batches: int = 1, requests: int = 4, direct: int = 0, **more: Any) -> Then:
    """Let a run end with every verdict; so much was paid."""
    return Then((batches, requests, direct), **more)


def stopped(how: JudgeFailure | bool, states: list[str], left: str = "all", **more: Any) -> Then:
    """Let a run fail after one batch was sent."""
    return Then((1, 4, 0), states, fails=how, left=left, **more)


def each_once(run: Run) -> None:
    assert [run.verdicts(key) for key in KEYS] == [[true_verdict(key)] for key in KEYS]


def failed_as_named(run: Run) -> None:
    (name,) = {fault for fault in run.server.plan.struck if fault.startswith("row_")}
    assert run.ledger.failed_keys(KEYS) == {FIRST: name.removeprefix("row_")}


def half_is_cancelled(run: Run) -> None:
    assert list(run.ledger.failed_keys(KEYS).values()) == ["canceled"] * 2


def refused_as_named(run: Run) -> None:
    assert [f"row_{reply.error_type}" for reply in run.replies()] == run.server.plan.struck


def is_billed_unseen(run: Run) -> None:
    assert list(run.ledger.failed_keys(KEYS).values()) == ["unparsable"]
    assert run.failure_messages[0].startswith('{"custom_id": "')
    assert run.ledger.waste_of("tiny", "pilot").requests_unparsable == 1
    assert [lost.n_requests for lost in run.ledger.unbilled_batches()] == [1]


def one_bill_is_none(run: Run) -> None:
    assert [reply.usage for key in KEYS for reply in run.replies(key)].count(None) == 1


def bill_of_the_first_is_none(run: Run) -> None:
    assert [reply.usage for reply in run.replies()] == [None]


def every_request_was_invalid(run: Run) -> None:
    kinds = {reply.error_type for key in KEYS for reply in run.replies(key)}
    assert kinds == {"invalid_request_error"}


def cached(writes: int, reads: int) -> Then:
    """Let the four replies write and read the cache so often."""

    def look(run: Run) -> None:
        usages = [reply.usage for key in KEYS for reply in run.replies(key) if reply.usage]
        assert len(usages) == 4
        assert sum(usage.cache_creation_input_tokens > 0 for usage in usages) == writes
        assert sum(usage.cache_read_input_tokens > 0 for usage in usages) == reads
        (spent,) = run.ledger.spending_since()
        found = (spent.n_replies, spent.n_cache_hits, spent.n_cache_writes)
        assert found == (4, reads, writes)

    return settled(also=look)


def asked_directly(answered: int = 1, *, lost: int = 0, **more: Any) -> Then:
    """Let a request that failed be asked directly: a reply that may be lost is paid for again."""
    tally = {"direct": 1, "answered": 4, "batches": 1, "failed": 1 + lost}
    more |= {"channels": ["direct"], **DIRECT}
    return settled(1, 4, answered, states=[DONE] * (2 + lost), tally=tally, **more)


NOTHING: dict[str, Any] = {}
DIRECT: dict[str, Any] = {"policy": {"max_rounds": 1}}
FOUND = {"adopted": 1, "batches": 1, "submitted": 4, "abandoned": 0}
READ = {"batches": 1, "answered": 4, "failed": 0, "paid_twice": 0}
STOPS = "stop_tool_use | stop_max_tokens | stop_pause_turn"
SILENT = f"{STOPS} | text_empty | content_empty | no_verdict | two_verdicts | verdict_abstain"
ODD = (
    "stop_sequence | stop_unknown | schema_ignored | thinking_first | verdict_markdown"
    " | verdict_quoted"
)


def directly(faults: str) -> str:
    """Name the same faults of direct replies, behind a row that has to be asked for directly."""
    return " | ".join(f"row_expired direct_{fault.strip()}" for fault in faults.split("|"))


def short(n_read: int) -> tuple[Then, ...]:
    """Let results that stay short be bought again only if somebody says so."""
    tally = {"answered": n_read, "withheld": 4 - n_read}
    again = {"answered": 4, "submitted": 4 - n_read, "withheld": 0}
    unread = Then((1, 4, 0), [SENT], tally, left="something")
    bought = settled(2, 8 - n_read, states=[LOST, DONE], tally=again, pays_again=True)
    return unread, unread, bought


# fmt: off
TABLE = (
    # A creation that was accepted and not confirmed is found and paid once.
    Rule(dict.fromkeys((
        "create_drop_after", "create_500_after", "create_504_after", "create_529_after",
        "create_html_502_after", "create_no_id", "create_drop_after foreign_batch",
        "create_hang:20"), "msgbatch_"), settled(states=[DONE], tally=FOUND)),
    Rule({"create_drop_after list_lag:3": "msgbatch_"},
         settled(states=[DONE], tally=FOUND, naps=[0.02, 0.04, 0.08])),
    # One that was not accepted is looked for, as long as the list may lag, and sent again.
    Rule("create_drop | create_500 | create_504 | create_529 | create_html_502"
         "| create_drop foreign_batch",
         settled(states=[GONE, DONE], tally={**FOUND, "adopted": 0, "abandoned": 4}, naps=True)),
    # A service that says that it has no room is looked at once, and then waited for.
    Rule("create_529:5", settled(states=[GONE] * 5 + [DONE], policy={"grace_seconds": 60.0},
                                 naps=[0.02, 0.04, 0.08, 0.1, 0.1])),
    Rule("create_drop:2 create_drop_after", settled(states=[GONE, GONE, DONE])),
    Rule({"create_500:3": "answered 500"},
         Then((0, 0, 0), [GONE] * 3, fails=JudgeFailure.AMBIGUOUS, left="all"), settled()),
    # Here the protocol ends: the list never shows what was accepted.
    Rule("create_drop_after list_lag:always",
         settled(2, 8, tally={"abandoned": 4, "answered": 4})),
    # One look at the list finds a batch that bears our name; Anthropic's protocol lists none.
    *(Rule("create_drop_after never_ends foreign_batch",
           stopped(True, [state], policy={"deadline_seconds": 0.0}), of=protocol)
      for protocol, state in (("anthropic", INTENT), ("openai_batch", SENT))),
    # What somebody has to mend stops the run before anything is paid.
    Rule({"create_401": "key", "create_402": "credit", "create_403": "key",
          "create_credit": "add credit",
          "create_spend_limit": "spend limit", "create_redirect": "http://localhost:"},
         Then((0, 0, 0), [NO], fails=JudgeFailure.FATAL, left="all", naps=[]),
         settled(states=[NO, DONE], tally={"answered": 4})),
    # A rate limit is waited out, as long as it says or with growing patience.
    Rule("create_429", settled(states=[NO, DONE], naps=[1.0])),
    Rule("create_429_bare:3", settled(states=[NO] * 3 + [DONE], naps=[0.02, 0.04, 0.08])),
    # A batch that is too large is halved until the service takes it.
    Rule("create_413",
         settled(2, 4, states=[NO, DONE, DONE], tally={"batches": 2, "submitted": 4})),
    Rule("create_413_above:1", settled(4, 4, states=[NO, NO, DONE, DONE, NO, DONE, DONE],
                                       tally={"batches": 4, "submitted": 4})),
    Rule({"model_404": "'judge-1'"}, settled(tally={"answered": 4})),
    # A look or a reading that went wrong is repeated, and everything is paid once.
    Rule({"poll_404:3": "404", "poll_5xx:4": "again", "unknown_status:2": "",
          "results_cut_mid_line": "gave 2 of 4", "results_cut_mid_line_silent": "gave 2 of 4",
          "results_cut_at_line": "gave 2 of 4", "results_cut_at_line_silent": "gave 2 of 4",
          "results_cut_mid_line:6 results_cut_at_line:2": "gave 2 of 4",
          "results_missing_row": "gave 3 of 4", "results_foreign_row": "returned 1 rows",
          "results_garbage_line": "", "results_blank_line": "", "results_split_crlf": "",
          "results_duplicate_same": "", "results_duplicate_different": ""},
         settled(states=[DONE], tally=READ, also=each_once)),
    # Results are read at the configured address, whatever URL a batch names.
    Rule("foreign_host:always | relative_url:always",
         settled(states=[DONE], tally=READ, untold="again")),
    Rule("ended_without_url:always",
         settled(states=[DONE], tally=READ, untold="again"), of="anthropic"),
    # In OpenAI's protocol no address but the name of a file can be missing.
    Rule({"ended_without_url:2": "again"}, settled(states=[DONE], tally=READ), of="openai_batch"),
    Rule(dict.fromkeys(("results_redirect", "poll_redirect"), r"302.*http://localhost:"),
         stopped(JudgeFailure.FATAL, [SENT]), settled(tally={"resumed": 1})),
    Rule({"poll_404:always": "--pay-again"}, stopped(JudgeFailure.UNKNOWN, [SENT])),
    # A row that is counted and missing for good is not bought again.
    Rule("results_missing_row:5",
         Then((1, 4, 0), [SENT], {"failed": 0, "batches": 1, "answered": 3, "withheld": 1},
              left="something"), settled(tally={"answered": 4})),
    *(Rule({fault: said}, *short(n_read))
      for fault, n_read in (("results_stay_short", 2), ("results_stay_empty", 0))
      for said in (f" {4 - n_read} of its", "without --pay-again")),
    # A line that is never JSON costs its own request one more asking, and no third one.
    Rule("row_unparsable", settled(
        2, 5, states=[DONE] * 2, also=is_billed_unseen,
        tally={"answered": 4, "failed": 1, "unparsable": 1, "batches": 2})),
    Rule({"row_unparsable:9": "without --pay-again"},
         *[Then((2, 8, 0), [DONE] * 2, {"answered": 0, "withheld": 4}, left="something")] * 2,
         Then((3, 12, 0), left="something", pays_again=True),
         settled(4, 13, tally={"answered": 4, "withheld": 0}, pays_again=True)),
    Rule("create_drop_after row_unparsable:5",
         Then((2, 8, 0), tally={"adopted": 1}, left="something")),
    Rule("usage_huge", settled(states=[DONE], tally=READ, also=one_bill_is_none)),
    # A result of a type of tomorrow is asked again; OpenAI's file of errors was not announced.
    Rule("results_unknown_type",
         settled(2, 5, tally={"failed": 1, "batches": 2, "answered": 4}), of="anthropic"),
    Rule("results_unknown_type",
         settled(tally={"failed": 0, "batches": 1, "answered": 4}), of="openai_batch"),
    Rule("create_drop_after poll_404 results_cut_mid_line results_cut_at_line",
         settled(tally={"adopted": 1})),
    Rule("create_413_above:1 create_drop_after results_cut_at_line_silent:2"
         "| create_413_above:1 create_drop_after results_missing_row:2",
         settled(4, 4, tally={"adopted": 1})),
    Rule({"never_ends": "1 of 1 batches"},
         *[stopped(True, [SENT], policy={"deadline_seconds": 0.3})] * 2),
    # Results that are gone are paid again only if somebody says so.
    Rule({"archived": "--pay-again"}, *[stopped(JudgeFailure.LOST, [SENT])] * 2,
         settled(2, 8, states=[LOST, DONE], pays_again=True,
                 tally={"answered": 4, "submitted": 4})),
    # A batch that is refused as a whole stops the run; Anthropic answers every request by itself.
    Rule({"batch_refused": "batch msgbatch_"},
         stopped(JudgeFailure.INVALID, [NO]), settled(2, 8, tally={"answered": 4}),
         of="openai_batch"),
    Rule({"batch_refused": "batch msgbatch_"},
         stopped(JudgeFailure.INVALID, [DONE], "no verdict"), of="anthropic"),
    Rule({"all_invalid": "batch msgbatch_"},
         stopped(JudgeFailure.INVALID, [DONE], "no verdict", also=every_request_was_invalid)),
    # A request that failed in passing is asked again by itself.
    Rule("row_rate_limit_error | row_api_error | row_overloaded_error | row_timeout_error"
         "| row_unknown_error_type | row_expired",
         settled(2, 5, states=[DONE] * 2, also=failed_as_named,
                 tally={"failed": 1, "batches": 2, "submitted": 5, "answered": 4})),
    # A person who cancels a batch means that it is not to be asked again, until the next run.
    Rule({"row_canceled": "3 replies came.* 1 requests were cancelled"},
         stopped(JudgeFailure.FATAL, [DONE], "the first", also=failed_as_named),
         settled(2, 5, tally={"submitted": 1})),
    Rule({"batch_canceled": "2 replies came.* 2 requests were cancelled"},
         stopped(JudgeFailure.FATAL, [DONE], "something", also=half_is_cancelled),
         settled(2, 6, tally={"submitted": 2, "answered": 4})),
    # One that can never succeed is not.
    Rule("row_invalid_request_error | row_request_too_large",
         Then((1, 4, 0), tally={"failed": 0, "batches": 1, "answered": 4}, left="no verdict",
              verdicts=[Verdict.PERMANENT], also=refused_as_named)),
    # One that nobody can answer stops the run, and is asked by the next.
    Rule({f"row_{name}_error": rf": 1 requests .*{name}_error: " for name in
          ("authentication", "billing", "permission", "not_found")},
         stopped(JudgeFailure.FATAL, [DONE], "the first"), settled(2, 5, tally={"submitted": 1})),
    Rule({"row_credit:2": ": 2 requests .*billing_error: .* add credit"},
         stopped(JudgeFailure.FATAL, [DONE], "something"), settled(2, 6, tally={"submitted": 2})),
    # What fails in every round is asked directly: all four, four and one of them, and one more.
    Rule("row_expired:9", settled(3, 12, 1, tally={"batches": 3, "direct": 1, "answered": 4})),
    Rule("row_overloaded_error:4",
         Then(tally={"answered": 0}, left="all",
              policy={"max_rounds": 1, "direct_fallback": False}),
         Then(tally={"answered": 4})),
    Rule("row_expired message_drop", asked_directly(lost=1)),
    # A message has no name under which its answer could be had: here the protocol ends.
    Rule("row_expired message_drop_after", asked_directly(2, lost=1)),
    Rule("row_expired message_429_bare:3", asked_directly()),
    Rule("row_expired message_429", asked_directly(naps=1.0)),
    Rule("row_expired message_500:2", asked_directly(lost=2)),
    Rule("row_expired message_529:3", asked_directly(lost=3)),
    Rule("row_expired message_529:4",
         Then(states=[DONE] * 5, tally={"direct": 1, "failed": 5, "answered": 3},
              left="the first", **DIRECT), settled(2, 5)),
    Rule({"row_expired message_401": "key", "row_expired message_credit": "add credit",
          "row_expired message_spend_limit": "spend limit",
          "row_expired message_redirect": "http://localhost:"},
         stopped(JudgeFailure.FATAL, [DONE, NO], "the first", **DIRECT), settled(2, 5)),
    Rule("row_expired message_400",
         Then((1, 4, 0), tally={"direct": 1, "answered": 4}, left="no verdict",
              verdicts=[Verdict.PERMANENT], **DIRECT)),
    Rule("row_expired direct_usage_huge",
         settled(1, 4, 1, also=bill_of_the_first_is_none, **DIRECT)),
    # A reply without a verdict is asked for once more, and left at that.
    Rule(SILENT, settled(2, 5, tally={"second_questions": 1, "batches": 2, "submitted": 5},
                         verdicts=[UNREADABLE, TRUE])),
    Rule(directly(SILENT),
         settled(2, 5, 1, tally={"direct": 1, "second_questions": 1, "batches": 2},
                 verdicts=[UNREADABLE, TRUE], channels=["direct", "batch"], **DIRECT)),
    Rule("no_verdict:5 | verdict_abstain:5 | stop_max_tokens:5",
         Then((2, 8, 0), tally={"second_questions": 4}, left="no verdict",
              verdicts=[UNREADABLE] * 2)),
    # What asking again cannot mend is final, and an unusual reply is read as it was meant.
    *(Rule(rename(faults), Then((1, 4, n_direct), tally={"second_questions": 0}, verdicts=[verdict],
                                left="nothing" if verdict is TRUE else "no verdict", **more))
      for faults, verdict in (("stop_refusal", Verdict.REFUSED),
                              ("stop_context_window", Verdict.PERMANENT), (ODD, TRUE))
      for rename, n_direct, more in ((str, 0, NOTHING), (directly, 1, DIRECT))),
    # The other protocol bills no writing to the cache.
    Rule("", cached(1, 3), of="anthropic"),
    Rule("below_minimum", cached(0, 0), of="anthropic"),
    Rule("hit_rate:0.34", cached(3, 1), of="anthropic"),
    Rule("cache_expiry:0", cached(4, 0), of="anthropic"),
)
# fmt: on
CASES = [
    pytest.param(
        *(protocol, faults, said, rule),
        id=f"{protocol}-{faults}",
        marks=[pytest.mark.e2e] if protocol == "openai_batch" else [],
    )
    for rule in TABLE
    for faults, said in rule.heard.items()
    for protocol in ("anthropic", "openai_batch")
    if rule.of in (None, protocol)
]
IN_THE_TESTS_OF_BUDGETS = {
    f"{channel}{name}"
    for channel in ("", "direct_")
    for name in ("reply_long", "reply_thinks", "reply_thinks_twice")
}


@pytest.mark.parametrize(("protocol", "faults", "said", "rule"), CASES)
def test_a_run_does_about_a_fault_what_the_table_says(
    start: Runner, monkeypatch: pytest.MonkeyPatch, faults: str, said: str, rule: Rule
) -> None:
    if "create_hang" in faults:
        for adapter in (message_batches, services):
            monkeypatch.setattr(adapter, "_CREATE_SECONDS", 0.5)
    if faults == "poll_404:always":
        monkeypatch.setattr(harvest, "_UNKNOWN_SECONDS", 0.2)
    run = start(*faults.split())
    for number, then in enumerate(rule.runs):
        then.check(run, said if not number or (then.fails) else "")
    if run.is_done:
        paid = run.paid
        assert run.settle().submitted == 0
        rule.runs[-1]._check_what_is_left(run)
        assert run.paid == paid


def test_every_fault_of_the_catalogue_is_in_the_table() -> None:
    names = {name for rule in TABLE for faults in rule.heard for name in faults.split()}
    met = {name.partition(":")[0] for name in names}
    assert met | IN_THE_TESTS_OF_BUDGETS == CATALOGUE.keys()
