import os
from pathlib import Path

import pytest

from tests.torture.forking import Nursery
from tests.torture.judges import Judge
from tests.torture.lanes import Lanes
from tests.torture.trials import Outcome


def test_a_trial_that_breaks_keeps_no_other_from_its_end_and_no_process_outlives_them(
    tmp_path: Path,
) -> None:
    pids = []

    def leave_a_judge(nursery: Nursery) -> Outcome:
        pids.append(Judge(nursery, tmp_path).pid)
        os.kill(pids[0], 0)
        return Outcome("a trial", ())

    def break_off(_nursery: Nursery) -> Outcome:
        raise OSError("no space")

    with Lanes(1) as lanes:
        outcomes = {outcome.part: outcome for outcome in lanes.run([break_off, leave_a_judge])}
    assert not outcomes["a trial"].is_wrong
    assert outcomes["broken trials"].is_wrong
    assert "no space" in outcomes["broken trials"].problems[0]
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
