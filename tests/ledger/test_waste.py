from dataclasses import replace

from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.ledger import Ledger
from tournament_assets.ledger.spending import Waste

from .builders import SCOPE, begin_batch, billed, failure

NO_TOKENS = TokenUsage()


def test_a_new_ledger_has_wasted_nothing(ledger: Ledger) -> None:
    assert ledger.waste_of("tiny", "pilot") == Waste(0, NO_TOKENS, 0, 0, 0)


def test_what_came_back_from_a_batch_that_was_written_off_is_not_wasted(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", ["k1", "k2", "k3", "k4", "k5"])
    begin_batch(ledger, "n2", ["k1", "k3"])
    ledger.record_rows("n2", [("k1", billed(1, 2, 3, 4)), ("k3", billed(1, 2, 3, 4))])
    ledger.record_rows("n1", [("k1", billed(1, 2, 3, 4)), ("k2", billed(1, 2, 3, 4))])
    ledger.record_failures("n1", [("k4", failure("overloaded_error"))] * 2)
    ledger.record_closed("n1", state="lost")
    waste = ledger.waste_of("tiny", "pilot")
    assert (waste.replies_paid_twice, waste.requests_lost) == (1, 2)


def test_waste_is_told_by_tournament_and_mode(ledger: Ledger) -> None:
    other_dimension = replace(SCOPE, dimension="calibration", purpose="agreement")
    begin_batch(ledger, "n1", ["k1", "k2"])
    begin_batch(ledger, "n2", ["k1", "k2"], scope=other_dimension)
    begin_batch(ledger, "n3", ["k3", "k4", "k5"])
    begin_batch(ledger, "n4", ["k6"], scope=other_dimension)
    begin_batch(ledger, "n5", ["k7"], scope=replace(SCOPE, mode="headline"))
    begin_batch(ledger, "n6", ["k7"], scope=replace(SCOPE, tournament_id="other"))
    ledger.record_rows("n1", [("k1", billed(1, 2, 3, 4)), ("k2", billed(1, 2, 3, 4))])
    ledger.record_rows("n2", [("k1", billed(10, 20, 30, 40)), ("k2", billed(1, 1, 1, 1))])
    unparsable = failure(None, result_type="unparsable")
    ledger.record_failures("n1", [("k1", unparsable), ("k2", unparsable)])
    ledger.record_failures("n1", [("k1", failure("overloaded_error"))])
    ledger.record_closed("n3", state="abandoned")
    ledger.record_closed("n4", state="lost")
    ledger.record_closed("n5", state="lost")
    begin_batch(ledger, "n7", ["k8"], scope=replace(SCOPE, tournament_id="other"))
    ledger.record_failures("n7", [("k8", unparsable)])
    ledger.record_closed("n7", state="harvested")
    ledger.record_closed("n6", state="abandoned")
    assert ledger.waste_of("tiny", "pilot") == Waste(
        replies_paid_twice=2,
        usage=TokenUsage(11, 21, 31, 41),
        requests_never_confirmed=3,
        requests_lost=1,
        requests_unparsable=2,
    )
    assert ledger.waste_of("tiny", "headline") == Waste(0, NO_TOKENS, 0, 1, 0)
    assert ledger.waste_of("other", "pilot") == Waste(0, NO_TOKENS, 1, 0, 1)
