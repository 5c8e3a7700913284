from pathlib import Path

from tests.graph.paid_projects import paid_project
from tests.graph.rerun_driver import TICK, driver
from tests.graph.test_reruns import made_in
from tournament_assets.graph.automation.reruns import begin_rerun


def test_a_scheduled_rerun_looks_at_the_judge_last_and_one_after_an_edit_does_not(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path) as paid, driver(paid, anchor_pairs=2) as d:
        assert d.rerun()
        (scheduled,) = d.reruns()
        assert made_in(d.instance, scheduled.newest_run)[-1] == "judge_repeats"
        asked = paid.n_asked
        assert asked == 8 * 3 * 2 + 2 * 2
        bank = paid.project.folder / "bank.jsonl"
        bank.write_text(bank.read_text().replace('"text": "', '"text": "Please: ', 1))
        (request,) = begin_rerun(d.plan, "headline", began_at=TICK, reason="edit")
        assert d.run(request)
        _, after_edit = d.reruns()
        assert "judge_repeats" not in made_in(d.instance, after_edit.newest_run)
