from pathlib import Path

import pytest

from tournament_assets.tournament.errors import WorkError

from .paid_projects import PaidProject, paid_project

DIMENSIONS = ("factuality", "calibration")


def n_open(paid: PaidProject) -> int:
    with paid.ledger() as ledger:
        return sum(len(batches) for batches in ledger.open_scopes("small").values())


def test_every_dimension_is_sent_before_any_batch_has_ended_and_collected_by_the_next_run(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path, dimensions=DIMENSIONS, processing_seconds=20) as paid:
        paid.configure_judge(deadline_seconds=0.2)
        with pytest.raises(WorkError, match=r"replies of the judge \(pilot\) failed: 1 of 1"):
            paid.run()
        assert paid.server.log.batches == n_open(paid) == len(DIMENSIONS)
        asked = paid.server.log.requests
        paid.wait_until_ended()
        paid.configure_judge(deadline_seconds=60)
        summary = paid.run()
        assert summary.requests_submitted == 0
        assert (paid.server.log.batches, paid.server.log.requests) == (len(DIMENSIONS), asked)
        assert n_open(paid) == 0
