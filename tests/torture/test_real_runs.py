import time

import pytest

from tests.torture.forking import Nursery
from tests.torture.real_runs import Reference, kill, real_project, run_unkilled


@pytest.fixture(scope="module")
def unkilled(nursery: Nursery) -> Reference:
    return run_unkilled(nursery)


def test_a_run_that_is_killed_while_it_judges_leaves_the_next_one_to_end_as_if_nothing_had_been(
    nursery: Nursery, unkilled: Reference
) -> None:
    with real_project(nursery) as project:
        process = project.start()
        project.wait_for_batch(process)
        time.sleep(0.2)
        assert kill(process)
        assert not any("judge_replies" in name for name in project.project.stored_files())
        assert project.finish() == []
        assert project.compare(unkilled) == (0, 0, 0, [])


def test_a_run_whose_judge_is_killed_goes_on_or_says_so_and_nothing_is_lost(
    nursery: Nursery, unkilled: Reference
) -> None:
    with real_project(nursery) as project:
        process = project.start()
        project.wait_for_batch(process)
        project.judge.kill()
        time.sleep(0.5)
        project.judge.restart()
        assert not process.wait(400) or "the work failed" in project.said
        assert project.finish() == []
        # A judge that began again has forgotten its prompt cache: the same replies cost more.
        found = project.compare(unkilled, may_differ=("judge_replies", "report"))
        assert found == (0, 0, 0, [])
