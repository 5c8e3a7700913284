"""Time and memory of judging a large tournament, from planning to the last reply.

    python -m benchmarks.judging [--entrants 10 20 40]
    python -m benchmarks.judging --long-lines

Every entrant answers 143 prompts, 93 of them with a gold answer; every two entrants are judged on
three dimensions, in both orders: 40 entrants make 591,240 requests. They are planned, submitted,
polled and harvested through the real SDK and a SQLite ledger, against the loopback judge in a
process of its own. Each size runs in a fresh process, whose peak memory is reported; the ratios
show whether time grows as the number of requests.

The second table reads results of two lines each, up to 50 MB a line, through the real SDK; its
ratios show whether time grows as the length of a line.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.loopback.threaded_servers import ThreadedServer
from tournament_assets.judging.requests.pairs import build_match_list, filter_pairs_for_dimension
from tournament_assets.judging.requests.requests import JudgeRequests, RequestSettings
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.judging.settlement.sessions import JudgingSession, SettlementTerms
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.ledger import Ledger
from tournament_assets.project.config_files import load_config
from tournament_assets.project.project_files import Project, load_rubric
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches
from tournament_assets.tournament.judges import Waiting
from tournament_assets.tournament.prompts import Prompt

ROOT = Path(__file__).parents[1]
N_PROMPTS, N_WITH_GOLD = 143, 93
RESPONSE_WORDS, PROMPT_WORDS = 150, 60
LINE_MEGABYTES = (6, 12, 25, 50)
WORDS = ("dose", "level", "patient", "study", "result", "effect", "risk", "blood", "sign")


@dataclass(frozen=True, slots=True)
class Measurement:
    """What judging one tournament took.

    Attributes:
        entrants: How many entrants.
        requests: Distinct requests, all dimensions together.
        batches: Batches they were cut into.
        seconds: From the first plan to the last reply in the ledger.
        seconds_again: The same once everything is answered: what a second run costs.
        peak_mb: Peak memory of the process that judges.
        server_peak_mb: Peak memory of the loopback judge.
        ledger_mb: Size of the ledger on disk.
    """

    entrants: int
    requests: int
    batches: int
    seconds: float
    seconds_again: float
    peak_mb: float
    server_peak_mb: float
    ledger_mb: float


class Silence:
    """Progress that nobody watches; it says on a terminal how far the work is."""

    def note(self, message: str) -> None:
        """Pass over a message."""

    def advance(self, done: int, total: int) -> None:
        """Show how many of the requests are answered."""
        if sys.stderr.isatty():
            print(f"\r{done:,} of {total:,}", end="", file=sys.stderr)


def invent_text(generator: np.random.Generator, n_words: int) -> str:
    """Return some words that no other text has in this order."""
    return " ".join(WORDS[pick] for pick in generator.integers(len(WORDS), size=n_words))


def judge_tournament(n_entrants: int, folder: Path, url: str) -> tuple[int, int, float, float]:
    """Judge a tournament of invented texts; return requests, batches, and seconds of two runs."""
    generator = np.random.default_rng(n_entrants)
    entrants = [f"entrant_{number}" for number in range(n_entrants)]
    prompts = [
        Prompt(
            prompt_id=f"p{number}",
            text=invent_text(generator, PROMPT_WORDS),
            source="recall" if number < N_WITH_GOLD else "curated",
            gold_answer=invent_text(generator, 3) if number < N_WITH_GOLD else None,
            expected_behavior=None if number < N_WITH_GOLD else "hedge",
        )
        for number in range(N_PROMPTS)
    ]
    responses = {
        (entrant, (prompt.prompt_id, 1)): invent_text(generator, RESPONSE_WORDS)
        for entrant in entrants
        for prompt in prompts
    }
    config = load_config(ROOT / "configs" / "examples" / "tournament1.yaml").config
    project = Project(folder=ROOT, environment={})
    totals = {"requests": 0, "batches": 0}
    seconds: list[float] = []
    with (
        closing(Ledger(f"sqlite:///{folder / 'ledger.sqlite'}")) as ledger,
        closing(AnthropicBatches(base_url=url, api_key="any")) as service,
    ):
        for _ in range(2):
            started = time.perf_counter()
            pairs = build_match_list(prompts, responses, entrants=entrants).pairs
            for dimension, rules in config.dimensions.items():
                requests = JudgeRequests(
                    filter_pairs_for_dimension(pairs, needs_gold_answer=rules.needs_gold_answer),
                    load_rubric(config, project, dimension),
                    RequestSettings(
                        judge_model="loopback-lexical",
                        max_tokens=8192,
                        shows_gold_answer=rules.shows_gold_answer,
                        shows_expected_behavior=rules.shows_expected_behavior,
                    ),
                )
                session = JudgingSession(
                    scope=JudgingScope("large", "headline", dimension),
                    ledger=ledger,
                    service=service,
                    progress=Silence(),
                    terms=SettlementTerms(
                        waiting=Waiting(poll_initial_seconds=0.2, poll_max_seconds=2.0)
                    ),
                )
                tally = settle_requests(session, requests)
                if tally.answered != tally.total:
                    raise SystemExit(f"{tally.total - tally.answered} requests have no reply")
                totals["requests"] += tally.submitted
                totals["batches"] += tally.batches
            seconds.append(time.perf_counter() - started)
    first, again = seconds
    return totals["requests"], totals["batches"], first, again


@contextmanager
def running_server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the loopback judge in a process of its own."""
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.loopback.threaded_servers import LoopbackServer\n"
        "with LoopbackServer(Path(sys.argv[1]), processing_seconds=0) as server:\n"
        "    print(server.url, flush=True)\n"
        "    sys.stdin.read()\n"
        "import resource\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)\n"
    )
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-c", script, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield (process.stdout or sys.stdin).readline().strip(), process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def stop_server(process: subprocess.Popen[str]) -> float:
    """Let the server end and return its peak memory in MB."""
    output, _ = process.communicate("", timeout=60)
    return float(output.split()[-1])


def measure(n_entrants: int) -> Measurement:
    """Judge a tournament of that many entrants in this process."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with running_server(folder / "server") as (url, process):
            requests, batches, seconds, again = judge_tournament(n_entrants, folder, url)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            server_peak = stop_server(process)
        ledger_mb = sum(path.stat().st_size for path in folder.glob("ledger.sqlite*")) / 1e6
    return Measurement(n_entrants, requests, batches, seconds, again, peak, server_peak, ledger_mb)


def print_table(measurements: Sequence[Measurement]) -> None:
    """Print what each size took, and how the time of a request compares with the smallest's."""
    print(
        "entrants  requests  batches  seconds  requests/s  time per request  again s  "
        "peak MB  server MB  ledger MB"
    )
    first = measurements[0]
    for each in measurements:
        ratio = (each.seconds / each.requests) / (first.seconds / first.requests)
        print(
            f"{each.entrants:8d}  {each.requests:8,d}  {each.batches:7d}  {each.seconds:7.1f}  "
            f"{each.requests / each.seconds:10.0f}  {ratio:15.2f}x  {each.seconds_again:7.1f}  "
            f"{each.peak_mb:7.0f}  {each.server_peak_mb:9.0f}  {each.ledger_mb:9.0f}"
        )


def read_two_lines(megabytes: int) -> float:
    """Return the seconds that reading results takes whose two lines are that long."""
    text = "x" * (megabytes * 1_000_000)
    message = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    row = {"custom_id": "r", "result": {"type": "succeeded", "message": message}}
    line = json.dumps(row).encode() + b"\n"
    counts = {"processing": 0, "succeeded": 2, "errored": 0, "canceled": 0, "expired": 0}

    async def answer(request: Request) -> Response:
        if request.url.path.endswith("/results"):
            chunks = (
                line[at : at + 65_536] for _ in range(2) for at in range(0, len(line), 65_536)
            )
            return StreamingResponse(chunks)
        return JSONResponse(
            {
                "id": "b",
                "processing_status": "ended",
                "request_counts": counts,
                "results_url": f"{request.url}/results",
            }
        )

    with (
        ThreadedServer(Starlette(routes=[Route("/{path:path}", answer)])) as server,
        closing(AnthropicBatches(base_url=server.url, api_key="any")) as service,
    ):
        started = time.perf_counter()
        lengths = [len(row.text or "") for row in service.iterate_results("b")]
        seconds = time.perf_counter() - started
    if lengths != [len(text)] * 2:
        raise SystemExit(f"lines of {lengths} characters were read; expected two of {len(text)}")
    return seconds


def measure_long_lines() -> None:
    """Print what reading long lines takes, and how a megabyte compares with the shortest's."""
    print("MB a line  seconds   MB/s  time per MB")
    first = 0.0
    for megabytes in LINE_MEGABYTES:
        seconds = min(read_two_lines(megabytes) for _ in range(3))
        first = first or seconds / megabytes
        print(
            f"{megabytes:9d}  {seconds:7.2f}  {2 * megabytes / seconds:5.0f}  "
            f"{seconds / megabytes / first:10.2f}x"
        )


def main() -> None:
    """Measure every size in a fresh process and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entrants", type=int, nargs="+", default=[10, 20, 40])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--long-lines", action="store_true", help="Read long lines, nothing else.")
    arguments = parser.parse_args()
    if arguments.long_lines:
        measure_long_lines()
        return
    if arguments.one:
        print(json.dumps(asdict(measure(arguments.entrants[0]))))
        return
    measurements = []
    for n_entrants in arguments.entrants:
        done = subprocess.run(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "benchmarks.judging", "--one", "--entrants", str(n_entrants)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        measurements.append(Measurement(**json.loads(done.stdout)))
        print_table(measurements)
    measure_long_lines()


if __name__ == "__main__":
    main()
