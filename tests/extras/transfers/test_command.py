"""`tournament ledger export | import`, from one ledger to another."""

import json
import re
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from tests.graph.paid_projects import PaidProject, paid_project
from tournament_assets.cli import main


def invoke(paid: PaidProject, command: str, *arguments: str) -> Result:
    words = [*command.split(), "--config", str(paid.project.config_path), *arguments]
    return CliRunner().invoke(main, words, env=paid.environment, catch_exceptions=False)


def numbers_in(result: Result) -> list[int]:
    """The numbers behind the path of what was imported: records, new replies, to judge again."""
    assert result.exit_code == 0, result.output
    _, _, counts = " ".join(result.stdout.split()).partition(".jsonl: ")
    return [int(number) for number in re.findall(r"\d+", counts)]


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


def test_wrong_usage_is_refused_before_dagster_is_loaded(tmp_path: Path) -> None:
    script = (
        "import sys; from tournament_assets.cli import main\n"
        "try:\n"
        "    main(['ledger', 'import', '--config', 'absent.yaml'])\n"
        "finally:\n"
        "    assert not {'dagster', 'torch', 'sqlalchemy'} & {*sys.modules}"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2, done.stderr
    assert "FILES" in done.stderr
