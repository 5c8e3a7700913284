from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tournament_assets.cli import main
from tournament_assets.foundation.errors import WorkError

from .paid_projects import PaidProject, paid_project


def invoke(paid: PaidProject, command: str, *arguments: str) -> Result:
    words = [*command.split(), "--config", str(paid.project.config_path), *arguments]
    return CliRunner().invoke(main, words, env=paid.environment, catch_exceptions=False)


def test_what_failed_is_listed_and_then_judged_again_one_by_one(tmp_path: Path) -> None:
    with paid_project(tmp_path, "stop_refusal:1", "row_expired:2") as paid:
        paid.project.edit_judges(waiting={"max_rounds": 1})
        with pytest.raises(WorkError, match="2 pending"):
            paid.tables("judge_verdicts")
        listed = invoke(paid, "rejudge", "--mode", "pilot", "--dry-run")
        assert listed.exit_code == 0, listed.output
        assert "3 presentations failed" in listed.stdout
        assert "refused" in listed.stdout
        assert "expired" in listed.stdout
        assert paid.server.log.messages == 0
        done = invoke(paid, "rejudge", "--mode", "pilot")
        assert done.exit_code == 0, done.output
        assert paid.server.log.messages == 3
        rows = paid.rows("judge_replies")
        again = [row for row in rows if row["channel"] == "direct"]
        assert len(again) == 3
        assert {row["channel"] for row in again} == {"direct"}
        # The refusal stays beside the reply that counts.
        assert sorted(row["attempt"] for row in again) == [1, 1, 2]
        assert all(row["outcome"] != "unjudged" for row in paid.rows("judge_verdicts"))
        nothing = invoke(paid, "rejudge", "--mode", "pilot", "--dry-run")
        assert nothing.exit_code == 0
        assert "failed" not in nothing.stdout
