"""How long a headline waits for services whose batches end a fixed time after their creation.

    python -m benchmarks.one_wait [--latency 60]

`tournament run` asks about three dimensions, and lets several Claude models answer, through the
real SDK, a SQLite ledger and a loopback server. A batch of that server ends so many seconds after
it was created, whatever it holds. The ratio of a stage's wall clock to these seconds says how often
it waited: once for the judge, twice where every reply was unreadable and is asked for again, once
for all entrants. The rest is the machine's, which the first line shows: choose a latency that is
long beside it. Batches are looked at every twentieth of the latency at the longest.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.judging import N_PROMPTS as N_PROMPTS_OF_A_BANK
from benchmarks.judging import N_WITH_GOLD
from benchmarks.whole_run import write_project
from tests.loopback.faults.servers import FaultyServer
from tournament_assets.graph.automation.jobs import Stage
from tournament_assets.graph.run_options import RunOptions
from tournament_assets.launching import run_tournament
from tournament_assets.project.plan import load_plan

N_PROMPTS, N_ENTRANTS, N_WORDS = 24, 4, 40
MODELS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-opus-4-7", "claude-haiku-5-5")
ASKS_JUDGE, ASKS_ENTRANTS = "__ASSET_JOB_large_ask_judge", "__ASSET_JOB_large_ask_entrants"


@dataclass(frozen=True, slots=True)
class Measurement:
    """How long a stage took.

    Attributes:
        what: Which stage of which run.
        latency: Seconds that a batch takes.
        seconds: Wall clock of the stage.
        run_seconds: Wall clock of the whole run.
        batches: Batches of the whole run.
        bar: How many latencies the stage may take.
    """

    what: str
    latency: float
    seconds: float
    run_seconds: float
    batches: int
    bar: float


class StageClock:
    """Measures the stages of a run, by job."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = 0.0

    def start(self, _stage: Stage, _label: str) -> None:
        """Note that a stage begins."""
        self._began = time.monotonic()

    def done(self, stage: Stage, _label: str) -> None:
        """Note that it has ended."""
        took = time.monotonic() - self._began
        self.seconds[stage.job_name] = self.seconds.get(stage.job_name, 0.0) + took


def measure(
    what: str,
    latency: float,
    *,
    job: str,
    bar: float,
    edit: Callable[[dict[str, Any]], None] = lambda _config: None,
    faults: Sequence[str] = (),
) -> Measurement:
    """Run a headline from nothing, and return what one of its stages took."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = write_project(
            folder / "project", n_entrants=N_ENTRANTS, n_words=N_WORDS, n_prompts=N_PROMPTS
        )
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        quick = {"poll_initial_seconds": 0.2, "poll_max_seconds": max(latency / 20, 0.2)}
        config["judges"][0]["waiting"] |= quick
        edit(config)
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        clock = StageClock()
        with FaultyServer(folder / "server", processing_seconds=latency, faults=faults) as server:
            began = time.monotonic()
            run_tournament(
                load_plan(
                    path,
                    {
                        **os.environ,
                        "ANTHROPIC_BASE_URL": server.url,
                        "DAGSTER_HOME": str(folder / "project" / ".dagster_home"),
                        "TOURNAMENT_PROJECT": str(folder / "project"),
                    },
                ),
                RunOptions("headline"),
                on_start=clock.start,
                on_done=clock.done,
            )
            return Measurement(
                what=what,
                latency=latency,
                seconds=clock.seconds[job],
                run_seconds=time.monotonic() - began,
                batches=server.log.batches,
                bar=bar,
            )


def let_claude_play(config: dict[str, Any]) -> None:
    """Let Claude models answer instead of the recorded entrants."""
    config["entrants"] = [
        {
            "entrant_id": model.removeprefix("claude-"),
            "loader": "anthropic_api",
            "model": model,
            "max_new_tokens": 512,
        }
        for model in MODELS
    ]


def main() -> None:
    """Measure a judge with and without second questions, and entrants; print the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--latency", type=float, default=60.0, help="Seconds that a batch takes.")
    latency = parser.parse_args().latency
    os.environ["ANTHROPIC_API_KEY"] = "any"
    print(f"{'what':<44} latency  seconds  ratio   bar  batches  whole run", flush=True)
    n_gold = N_PROMPTS * N_WITH_GOLD // N_PROMPTS_OF_A_BANK
    presentations = N_ENTRANTS * (N_ENTRANTS - 1) * (n_gold + 2 * N_PROMPTS)
    # One request a dimension is asked directly, to warm the cache; all others are in batches.
    second = (f"no_verdict:{presentations - 3}",)
    for what, seconds, job, bar, edit, faults in (
        ("judge, batches that end at once", 0.0, ASKS_JUDGE, 0.0, None, ()),
        ("judge, three dimensions", latency, ASKS_JUDGE, 1.3, None, ()),
        ("judge, every reply asked for again", latency, ASKS_JUDGE, 2.4, None, second),
        (f"{len(MODELS)} Claude entrants", latency, ASKS_ENTRANTS, 1.3, let_claude_play, ()),
    ):
        found = measure(
            what, seconds, job=job, bar=bar, edit=edit or (lambda _config: None), faults=faults
        )
        ratio = f"{found.seconds / found.latency:5.2f}  {found.bar:4.1f}" if found.latency else ""
        print(
            f"{found.what:<44} {found.latency:7.1f}  {found.seconds:7.1f}  {ratio:>11}  "
            f"{found.batches:7d}  {found.run_seconds:7.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
