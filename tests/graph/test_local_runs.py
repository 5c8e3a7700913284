"""Runs in this process: what they need of it."""

import gc

from tournament_assets.graph.local_runs import rare_collections


def test_cycles_are_collected_as_before_once_a_run_has_ended() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.isenabled()
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
