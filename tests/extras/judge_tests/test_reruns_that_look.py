from datetime import timedelta
from pathlib import Path

from tests.graph.paid_projects import paid_project
from tests.graph.rerun_driver import TICK, driver
from tests.graph.test_reruns import messages_of


def test_the_look_at_the_judge_of_a_rerun_whose_place_is_taken_asks_nothing(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path) as paid, driver(paid, anchor_pairs=2) as d:
        (look,) = d.begin_at("check_drift", made="judge_verdicts")
        asked = paid.n_asked
        assert d.run(look)
        assert paid.n_asked == asked + 2 * 2
        (first,) = d.reruns()
        _, requests = d.tick_schedule(TICK + timedelta(days=7))
        assert [d.run(request) for request in requests] == [True]
        (looked,) = first.newest_runs.values()
        assert looked.job_name == "__ASSET_JOB_small_check_drift"
        assert not d.execute_again(looked)
        (revived, _) = d.reruns()
        (again,) = revived.newest_runs.values()
        assert again.run_id != looked.run_id
        assert "one rerun of a mode at a time" in messages_of(d.instance, again)
        assert paid.n_asked == asked + 2 * 2
