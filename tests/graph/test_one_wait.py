from pathlib import Path

import pytest

from tournament_assets.definitions import build_plan
from tournament_assets.graph.table import rows_of
from tournament_assets.project.config_files import load_config
from tournament_assets.tournament.errors import WorkError

from .paid_projects import UNTIL_ENDED, PaidProject, paid_project

DIMENSIONS = ("factuality", "calibration")


def n_open(paid: PaidProject) -> int:
    with paid.ledger() as ledger:
        return sum(len(batches) for batches in ledger.open_scopes("small").values())


def test_every_dimension_is_sent_before_any_batch_has_ended_and_collected_by_the_next_run(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path, dimensions=DIMENSIONS, processing_seconds=UNTIL_ENDED) as paid:
        paid.configure_judge(deadline_seconds=0.2)
        with pytest.raises(WorkError, match=r"replies of the judge \(pilot\) failed: 1 of 1"):
            paid.run()
        assert paid.server.log.batches == n_open(paid) == len(DIMENSIONS)
        asked = paid.server.log.requests
        paid.end_batches()
        paid.configure_judge(deadline_seconds=60)
        summary = paid.run()
        assert summary.requests_submitted == 0
        assert (paid.server.log.batches, paid.server.log.requests) == (len(DIMENSIONS), asked)
        assert n_open(paid) == 0


def test_every_served_entrant_is_asked_before_any_batch_has_ended(tmp_path: Path) -> None:
    with paid_project(tmp_path, dimensions=DIMENSIONS, processing_seconds=UNTIL_ENDED) as paid:
        paid.configure_judge(deadline_seconds=0.2)
        models = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5")
        paid.project.edit_config(
            entrants=[
                {
                    "entrant_id": model.split("-")[1],
                    "loader": "anthropic_api",
                    "model": model,
                    "max_new_tokens": 512,
                }
                for model in models
            ]
        )
        with pytest.raises(WorkError, match=r"responses of served entrants \(pilot\) failed: "):
            paid.run()
        asked = [batch.n_requests for batch in paid.server.store.list_newest_first()]
        assert asked == [6, 6, 6]
        assert paid.n_asked == 18
        plan = build_plan(load_config(paid.project.config_path), paid.environment)
        # Nothing is generated here, so nobody holds a place in the pool.
        assert rows_of(plan)["entrant_responses"].pool(plan) is None
        paid.end_batches()
        paid.configure_judge(deadline_seconds=60)
        paid.let_length_win()
        assert paid.run().responses_generated == 18
        in_batches = [batch.n_requests for batch in paid.server.store.list_newest_first()]
        assert in_batches[-3:] == [6, 6, 6]
