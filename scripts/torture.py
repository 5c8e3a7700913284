"""Kill processes that judge: `python -m scripts.torture [--openai] [--quick] [--kills N]`.

A process that settles requests is killed with SIGKILL at every boundary of its calls to the ledger
and the service, and at random times; so are whole runs, their steps, and the judge. The next
process does what is left. Ledgers are deleted or torn, and filled again under kills by what
`tournament ledger recover` does. What was paid for is told by the judge's own log. Exits with 1 if
a verdict was lost, or if anything was paid for twice that could have been paid for once.
"""

import argparse
import sys
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tests.torture.planning import LONG, LONG_OPENAI, SHORT, SHORT_OPENAI
from tests.torture.reporting import describe
from tests.torture.torturing import Report, torture


def main() -> int:
    """Kill as planned, and print what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="kill as little as the tests do")
    parser.add_argument("--openai", action="store_true", help="speak OpenAI's protocol")
    parser.add_argument("--kills", type=int, help="draw so many of the planned trials")
    parser.add_argument("--seed", default="0", help="the same seed plans the same kills")
    parser.add_argument("--jobs", type=int, default=2, help="trials under way at a time")
    arguments = parser.parse_args()
    if arguments.jobs < 1 or (arguments.kills is not None and arguments.kills < 1):
        parser.error("--jobs and --kills are at least 1")
    long, short = (LONG_OPENAI, SHORT_OPENAI) if arguments.openai else (LONG, SHORT)
    sizes = short if arguments.quick else long
    began = time.perf_counter()
    with _progress() as progress:
        task = progress.add_task("killing", total=None, note="")

        def listen(done: int, total: int, report: Report) -> None:
            totals = report.totals
            note = f"{totals['kills']} kills, {totals['wrong']} wrong"
            progress.update(task, completed=done, total=total, note=note)

        report = torture(
            sizes,
            seed=arguments.seed,
            jobs=arguments.jobs,
            at_most=arguments.kills,
            listen=listen,
        )
    print(describe(report, seconds=time.perf_counter() - began))
    return 1 if report.wrong else 0


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(file=sys.stderr),
        disable=not sys.stderr.isatty(),
    )


if __name__ == "__main__":
    sys.exit(main())
