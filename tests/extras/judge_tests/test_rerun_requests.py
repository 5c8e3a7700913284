"""What a scheduled rerun asks besides, in the estimate."""

from pathlib import Path

import pytest

from tests.graph.bills import make_priced_project
from tests.graph.test_judging_estimate import estimate
from tournament_assets.preparing import estimates
from tournament_assets.reports.cost_estimate import estimate_document, estimate_json


def test_a_mode_with_a_schedule_counts_its_anchor_requests_up_to_a_quarter_of_the_pairs(
    tmp_path: Path,
) -> None:
    project = make_priced_project(tmp_path)
    assert estimate(project).anchor_requests == 0
    project.merge_config(modes={"pilot": {"schedule": {"cron": "0 6 * * 1"}}})
    priced = estimate(project)
    # 12 pairs are judged in 24 requests; a quarter of the 40 that are configured is more.
    (workload,) = priced.workloads.values()
    assert priced.price is not None
    planned = workload.dearest_usd(priced.price, discount=priced.batch_discount)
    assert priced.anchor_requests == 2 * 3
    assert priced.anchor_usd == pytest.approx(planned / 4)
    assert estimate_json(priced)["anchors"]["to_ask"] == 6
    assert "6 requests of anchor pairs" in str(estimate_document(priced))
    project.merge_config(judging={"tests": {"anchor_pairs": 2}})
    assert estimate(project).anchor_requests == 2 * 2


def test_nothing_is_counted_that_nobody_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_priced_project(tmp_path)
    project.merge_config(modes={"pilot": {"schedule": {"cron": "0 6 * * 1"}}})
    monkeypatch.setattr(estimates, "added_rows", lambda kind: ())
    assert estimate(project).anchor_requests == 0
