import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tournament_assets.cli import main
from tournament_assets.foundation.errors import WorkError

from .paid_projects import PaidProject, paid_project


def invoke(paid: PaidProject, command: str, *arguments: str) -> Result:
    words = [*command.split(), "--config", str(paid.project.config_path), *arguments]
    return CliRunner().invoke(main, words, env=paid.environment, catch_exceptions=False)


def numbers_in(result: Result) -> list[int]:
    """The numbers behind the path of what was imported: records, new replies, to judge again."""
    assert result.exit_code == 0, result.output
    _, _, counts = " ".join(result.stdout.split()).partition(".jsonl: ")
    return [int(number) for number in re.findall(r"\d+", counts)]


def test_what_failed_is_listed_and_then_judged_again_one_by_one(tmp_path: Path) -> None:
    with paid_project(tmp_path, "stop_refusal:1", "row_expired:2") as paid:
        paid.project.edit_judges(waiting={"max_rounds": 1, "max_direct": 0})
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


def test_replies_move_to_another_ledger_and_are_not_paid_for_again(tmp_path: Path) -> None:
    with paid_project(tmp_path / "first") as paid, paid_project(tmp_path / "second") as other:
        paid.tables("judge_verdicts")
        out = tmp_path / "out"
        written = invoke(paid, "ledger export", "--mode", "pilot", "--out", str(out))
        assert written.exit_code == 0, written.output
        path = out / "judgments_factuality.jsonl"
        assert f"{path}: 24 replies" in written.stdout
        kept = invoke(other, "ledger import", str(path))
        assert numbers_in(kept) == [24, 24, 0]
        again = invoke(other, "ledger import", str(path))
        assert numbers_in(again) == [24, 0, 0]
        other.tables("judge_verdicts")
        assert other.n_asked == 0
        assert other.rows("judge_verdicts") == paid.rows("judge_verdicts")
        with other.ledger() as ledger:
            assert ledger.spending_since() == []


def test_the_words_of_a_gateway_are_judged_again_and_never_become_a_verdict(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path / "first") as paid, paid_project(tmp_path / "second") as other:
        paid.tables("judge_verdicts")
        invoke(paid, "ledger export", "--mode", "pilot", "--out", str(tmp_path))
        path = tmp_path / "judgments_factuality.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows[0]["reply"] = "Gateway is restarting"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        kept = invoke(other, "ledger import", str(path))
        assert numbers_in(kept) == [24, 23, 1]
        listed = invoke(other, "rejudge", "--mode", "pilot", "--dry-run")
        assert "infrastructure" in listed.stdout
        other.tables("judge_verdicts", rejudge=True)
        assert other.server.log.to_dict()["messages"] == 1
        assert other.server.log.batches == 0
