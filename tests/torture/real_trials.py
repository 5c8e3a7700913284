"""What is done to runs of the command line, and what the next run makes of it."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.torture import steps
from tests.torture.forking import Nursery
from tests.torture.real_runs import RealProject, Reference, kill, real_project
from tests.torture.trials import Outcome

GetReference = Callable[[], Reference]
_PATIENCE_SECONDS = 400.0
_LONG_BATCH_SECONDS = 4.0
_SAID_WHEN_INTERRUPTED = "run the same command again to go on"


@dataclass(frozen=True, slots=True)
class Moment:
    """When a run is killed.

    Attributes:
        share: That share of an unkilled run's time after its start.
        after_asking: So many seconds after the judge accepted the first batch instead.
    """

    share: float = 0.0
    after_asking: float | None = None


def kill_run(moment: Moment, reference: GetReference, nursery: Nursery) -> Outcome:
    """Kill a run and let the next one do what is left."""
    # To be killed after a share of its time it has to be known how long that is.
    unkilled_seconds = 0.0 if moment.after_asking is not None else reference().seconds
    with real_project(nursery) as project:
        process = project.start()
        _wait_until(moment, project, process, unkilled_seconds)
        was_alive = kill(process)
        deaths = (_stage(project),) if was_alive else ()
        problems = [] if was_alive or process.returncode == 0 else [project.said[-2000:]]
        return _finish("runs, kill -9", deaths, problems, project, reference)


def interrupt_run(number: signal.Signals, reference: GetReference, nursery: Nursery) -> Outcome:
    """Interrupt a run that waits for the judge: it says how to go on, and the next one does."""
    with real_project(nursery, processing_seconds=_LONG_BATCH_SECONDS) as project:
        process = project.start()
        project.wait_for_batch(process)
        time.sleep(0.3)
        process.send_signal(number)
        status = process.wait(_PATIENCE_SECONDS)
        problems = []
        if status != 130 or _SAID_WHEN_INTERRUPTED not in project.said:
            problems.append(f"exit code {status} after {number.name}: {project.said[-2000:]}")
        return _finish("runs, interrupted", (number.name,), problems, project, reference)


def kill_step(after_asking: float, reference: GetReference, nursery: Nursery) -> Outcome:
    """Kill the process of the step that asks the judge; its run lives on and fails."""
    with real_project(nursery, processing_seconds=_LONG_BATCH_SECONDS) as project:
        process = project.start(*steps.COMMAND)
        project.wait_for_batch(process)
        time.sleep(after_asking)
        step = steps.find_step_process(process.pid)
        problems = []
        if step is None:
            problems.append(f"the run has no step: {project.said[-2000:]}")
        else:
            os.kill(step, signal.SIGKILL)
        status = process.wait(_PATIENCE_SECONDS)
        if status != 1:
            problems.append(f"exit code {status} of the run whose step was killed")
        return _finish("steps", ("the step alone",), problems, project, reference)


def kill_run_of_step(after_asking: float, reference: GetReference, nursery: Nursery) -> Outcome:
    """Kill the run and leave its step, which goes on judging; the next run meets it."""
    with real_project(nursery, processing_seconds=_LONG_BATCH_SECONDS) as project:
        process = project.start(*steps.COMMAND)
        project.wait_for_batch(process)
        time.sleep(after_asking)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        return _finish("steps", ("the run alone",), [], project, reference)


def kill_judge_of_run(
    after_asking: float, away_seconds: float, reference: GetReference, nursery: Nursery
) -> Outcome:
    """Kill the judge and start it again: the run waits for it, or says that it is not there."""
    with real_project(nursery) as project:
        process = project.start()
        project.wait_for_batch(process)
        time.sleep(after_asking)
        project.judge.kill()
        time.sleep(away_seconds)
        project.judge.restart()
        status = process.wait(_PATIENCE_SECONDS)
        problems = []
        if status and "the work failed" not in project.said:
            problems.append(f"exit code {status}: {project.said[-2000:]}")
        deaths = ("the run ended" if status else "the run went on",)
        return _finish("judge killed", deaths, problems, project, reference, is_cache_cold=True)


def _finish(
    part: str,
    deaths: tuple[str, ...],
    problems: list[str],
    project: RealProject,
    reference: GetReference,
    *,
    is_cache_cold: bool = False,
) -> Outcome:
    problems = [*problems, *project.finish()]
    # A judge that began anew has forgotten its prompt cache: the same replies cost something else.
    may_differ = ("judge_replies", "report") if is_cache_cold else ()
    lost, in_vain, twice, differences = project.compare(reference(), may_differ=may_differ)
    return Outcome(
        part=part,
        deaths=deaths,
        verdicts_lost=lost,
        batches_twice=in_vain,
        requests_twice=twice,
        problems=(*problems, *differences),
    )


def _wait_until(
    moment: Moment,
    project: RealProject,
    process: "subprocess.Popen[bytes]",
    unkilled_seconds: float,
) -> None:
    seconds = moment.share * unkilled_seconds
    if moment.after_asking is not None:
        project.wait_for_batch(process)
        seconds = moment.after_asking
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _stage(project: RealProject) -> str:
    """Say how far a run came."""
    if not project.accounts.batches:
        return "before it asked"
    stored = project.project.stored_files()
    return "after judging" if any("judge_replies" in name for name in stored) else "while judging"
