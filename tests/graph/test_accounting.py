import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tournament_assets.foundation.errors import WorkError
from tournament_assets.graph.run_summaries import RunSummary
from tournament_assets.judging.costs.prices import load_newest_prices
from tournament_assets.tournament.judges import ConfiguredPrice

from .paid_projects import PaidProject, paid_project

PRESENTATIONS = 24
THREE_EXPIRE = "row_expired:3"


def manifest_of(summary: RunSummary) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((summary.directory / "manifest.json").read_text())
    return manifest


def test_nothing_is_rated_while_a_presentation_is_pending(tmp_path: Path) -> None:
    with paid_project(tmp_path, "row_expired:always") as paid:
        paid.project.edit_judges(waiting={"max_rounds": 1})
        with pytest.raises(WorkError, match="24 presentations"):
            paid.run()
        assert not (paid.project.folder / "storage" / "small" / "judge_verdicts").exists()
        # `judge_replies` does not ask again for what `judge_requests` asked in vain.
        assert (paid.server.log.batches, paid.n_asked) == (1, PRESENTATIONS)


def test_a_run_sends_what_keeps_failing_in_as_many_rounds_as_are_configured(tmp_path: Path) -> None:
    with paid_project(tmp_path, "row_expired:always") as paid:
        paid.project.edit_judges(waiting={"max_rounds": 2})
        for n_runs in (1, 2):
            with pytest.raises(WorkError, match="24 presentations"):
                paid.tables("judge_verdicts")
            assert (paid.server.log.batches, paid.n_asked) == (
                2 * n_runs,
                2 * n_runs * PRESENTATIONS,
            )


def test_the_accounting_check_stops_the_run_and_says_what_is_missing(tmp_path: Path) -> None:
    with paid_project(tmp_path, THREE_EXPIRE) as paid:
        paid.project.edit_judges(waiting={"max_rounds": 1})
        with pytest.raises(WorkError, match=r"24 presentations .* 21 .* 3 pending.*--partial"):
            paid.run()
        assert (paid.project.folder / "storage" / "small" / "judge_verdicts").exists()
        assert not (paid.project.folder / "storage" / "small" / "elo_ratings").exists()


def test_the_next_run_asks_only_for_what_is_pending(tmp_path: Path) -> None:
    with paid_project(tmp_path, THREE_EXPIRE) as paid:
        paid.project.edit_judges(waiting={"max_rounds": 1})
        paid.let_length_win()
        with pytest.raises(WorkError):
            paid.tables("judge_verdicts")
        summary = paid.run()
        assert summary.requests_submitted == 3
        assert summary.warnings == ()
        assert paid.server.log.requests == PRESENTATIONS + 3


def test_a_partial_rating_says_so_in_everything_people_read(tmp_path: Path) -> None:
    with paid_project(tmp_path, THREE_EXPIRE) as paid:
        paid.project.edit_judges(waiting={"max_rounds": 1})
        summary = paid.run(partial=True)
        (warning,) = [each for each in summary.warnings if each.startswith("accounting")]
        assert "PARTIAL" in warning
        for name in ("report.md", "report.html"):
            assert "PARTIAL" in (summary.directory / name).read_text()
        assert manifest_of(summary)["is_partial"] is True


def test_results_that_are_counted_and_not_handed_out_are_not_bought_again(tmp_path: Path) -> None:
    with paid_project(tmp_path, "results_stay_short") as paid:
        with pytest.raises(WorkError, match=r" 12 pending.*--pay-again"):
            paid.tables("judge_verdicts")
        made = paid.tables("judge_verdicts", partial=True)
        checks = made.checks["judge_verdicts", "factuality"]
        (accounting,) = (each for each in checks if each.name == "accounting")
        assert (accounting.passed, accounting.metadata["unread"]) == (False, 12)
        assert (paid.server.log.batches, paid.server.log.requests) == (1, PRESENTATIONS)
        pending = [row for row in paid.rows("judge_replies") if row["result_type"] == "pending"]
        assert [row["error_type"] for row in pending] == ["unread"] * 12
        again = paid.run(pay_again=True)
        assert again.requests_submitted == 12
        assert not any(warning.startswith("accounting") for warning in again.warnings)
        assert manifest_of(again)["cost"]["waste"]["requests_lost"] == 12
        assert paid.server.log.requests == PRESENTATIONS + 12


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PaidProject, RunSummary]]:
    """A project whose pilot lacks nothing."""
    with paid_project(tmp_path_factory.mktemp("whole")) as paid:
        paid.let_length_win()
        yield paid, paid.run()


def test_a_whole_rating_says_nothing_of_the_kind(whole: tuple[PaidProject, RunSummary]) -> None:
    _, summary = whole
    assert "PARTIAL" not in (summary.directory / "report.md").read_text()
    assert manifest_of(summary)["is_partial"] is False


def test_identical_responses_are_a_pair_that_nobody_is_asked_about(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid:
        paid.make_alike("careful", "mixed")
        summary = paid.run()
        assert summary.requests_submitted == 8  # the other two pairs of each prompt are one pair
        alike = [
            row
            for row in paid.rows("judge_verdicts")
            if {row["entrant_a"], row["entrant_b"]} == {"careful", "mixed"}
        ]
        assert len(alike) == 4
        assert {row["outcome"] for row in alike} == {"same_text"}
        assert all("identical" in row["reason_ab"] for row in alike)
        assert '"presentations_identical": 8' in json.dumps(manifest_of(summary))


def test_identical_responses_are_asked_about_if_the_config_says_so(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid:
        paid.make_alike("careful", "mixed")
        paid.project.merge_config(judging={"identical_responses_tie": False})
        paid.tables("judge_verdicts")
        assert paid.n_asked == 8 + 4  # both presentations are one request
        assert {row["result_type"] for row in paid.rows("judge_replies")} == {"succeeded"}


def test_a_structured_reply_is_asked_for_and_read(
    whole: tuple[PaidProject, RunSummary],
) -> None:
    paid, _ = whole
    paid.project.merge_config(judging={"reply_format": "json_schema"})
    asked = paid.n_asked
    made = paid.tables("judge_verdicts")
    assert paid.n_asked - asked == PRESENTATIONS
    assert all(row["reply"].startswith("{") for row in paid.rows("judge_replies"))
    assert made.warnings == ()


def test_long_replies_end_a_run_within_its_budget_and_what_was_paid_can_be_rated(
    tmp_path: Path,
) -> None:
    price = {"input": 4.0, "output": 20.0}
    with paid_project(tmp_path, "reply_long:always") as paid:
        paid.project.edit_judges(max_tokens=4096)
        paid.project.merge_config(
            judging={"prices": {"claude-pilot": price}, "budget": {"usd": 0.3}}
        )
        # What is expected of them fits; that they took all of max_tokens shows in the first slice.
        with pytest.raises(WorkError, match=r" \$0\.30 .*budget"):
            paid.tables("judge_verdicts")
        n_paid = paid.server.log.requests
        assert 0 < n_paid < PRESENTATIONS
        with paid.ledger() as ledger:
            spendings = ledger.spending_since()
        assert sum(each.usage.output_tokens for each in spendings) == 4096 * n_paid
        bill = load_newest_prices({"claude-pilot": ConfiguredPrice.model_validate(price)}).add_up(
            spendings
        )
        assert 0.15 < bill.usd <= 0.3
        paid.tables("elo_ratings", skip_judging=True)
        assert paid.server.log.requests == n_paid
