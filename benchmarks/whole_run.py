"""Peak memory of `tournament run`, by process and by step, with nothing left out.

    python -m benchmarks.whole_run [--entrants 40] [--words 150] [--judging asked|held|none]
                                   [--keep FOLDER] [--compare]

Recorded entrants answer 143 prompts, 93 of them with a gold answer, and every two of them are
judged on three dimensions in both orders: 40 entrants make 591,240 requests, 5 make 7,580. The
command itself is run, Dagster, tables, report and run directory included. The resident memory of
its process is sampled twenty times a second and laid over the steps that Dagster recorded; the
peak is what the kernel says.

By default every request is asked of the loopback judge, in a process of its own (`asked`). `held`
puts invented replies to all of them into the ledger first, which takes a tenth of the time: all
that is left out is sending and harvesting, which `benchmarks.judging` measures alone. `none` asks
nothing with an empty ledger: `judge_replies` then refuses, as it should. `--keep` keeps the
project, so that a second call measures a second run, whose step `run_comparison` reads both
directories; `--compare` then measures `tournament compare` of the two newest by itself.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil
import yaml

from benchmarks.judging import (
    N_PROMPTS,
    N_WITH_GOLD,
    PROMPT_WORDS,
    RESPONSE_WORDS,
    ROOT,
    invent_text,
    running_server,
    stop_server,
)
from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.settlement.records import StoredReply

LIMIT_MB = 1_000.0
SAMPLE_SECONDS = 0.05
REPLY_WORDS = 60
_STEP_NAMES = {"STEP_START": "began", "STEP_SUCCESS": "ended", "STEP_FAILURE": "ended"}


@dataclass(frozen=True, slots=True)
class Sample:
    """What one process held at one moment.

    Attributes:
        at: Seconds since the epoch.
        megabytes: Resident memory, in MB of 10^6 bytes.
    """

    at: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class Step:
    """One step as Dagster recorded it.

    Attributes:
        name: The asset, and its partition.
        began: Seconds since the epoch.
        ended: Seconds since the epoch.
    """

    name: str
    began: float
    ended: float


@dataclass(slots=True)
class Watched:
    """A process and everything it started, as it was sampled.

    Attributes:
        samples: By process id; its own come first.
    """

    samples: dict[int, list[Sample]] = field(default_factory=dict)


def write_project(
    folder: Path, *, n_entrants: int, n_words: int, n_prompts: int = N_PROMPTS
) -> Path:
    """Write a project of recorded entrants; return its configuration."""
    generator = np.random.default_rng(n_entrants)
    n_with_gold = n_prompts * N_WITH_GOLD // N_PROMPTS
    names = [f"entrant_{number:02d}" for number in range(n_entrants)]
    (folder / "responses").mkdir(parents=True)
    (folder / "configs").mkdir()
    (folder / "rubrics").symlink_to(ROOT / "rubrics")
    prompts = [
        {
            "prompt_id": f"p{number:03d}",
            "text": invent_text(generator, PROMPT_WORDS),
            "source": "recall" if number < n_with_gold else "curated",
            **(
                {"gold_answer": invent_text(generator, 3)}
                if number < n_with_gold
                else {"expected_behavior": "hedge"}
            ),
        }
        for number in range(n_prompts)
    ]
    _write_lines(folder / "bank.jsonl", prompts)
    for name in names:
        _write_lines(
            folder / "responses" / f"{name}.jsonl",
            [
                {"prompt_id": each["prompt_id"], "response": invent_text(generator, n_words)}
                for each in prompts
            ],
        )
    template = yaml.safe_load((ROOT / "configs" / "demo.yaml").read_text(encoding="utf-8"))
    config = {
        **template,
        "tournament_id": "large",
        "prompt_bank": {"path": "bank.jsonl"},
        "modes": {
            **template["modes"],
            "pilot": {**template["modes"]["pilot"], "strata": {"recall": 8, "curated": 8}},
        },
        "entrants": [
            {
                "entrant_id": name,
                "loader": "recorded",
                "responses": {"path": f"responses/{name}.jsonl"},
            }
            for name in names
        ],
    }
    (judge,) = template["judges"]
    waiting = {**judge["waiting"], "poll_initial_seconds": 0.5, "deadline_seconds": 7200}
    asked = {"service": "anthropic", "model": "claude-haiku-4-5", "waiting": waiting}
    config["judges"] = [{**judge, **asked}]
    config["judging"] = {**template["judging"], "budget": {"usd": "unlimited"}}
    path = folder / "configs" / "large.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path


def fill_ledger(config_path: Path, *, seed: int) -> int:
    """Put an invented reply to every request into the project's ledger; return how many."""
    from tournament_assets.definitions import default_ledger_url
    from tournament_assets.ledger import Ledger
    from tournament_assets.preparing.existing_work import existing_requests
    from tournament_assets.project.plan import load_plan

    generator = np.random.default_rng(seed)
    plan = load_plan(config_path, {})
    with closing(Ledger(default_ledger_url(plan.project.folder))) as ledger:
        return sum(
            ledger.import_replies(
                _invent_reply(generator, request.request_key, request.params["model"])
                for request in requests
            )
            for requests in existing_requests(
                plan, "headline", plan.config.lead("headline"), ledger=ledger
            ).values()
        )


def _invent_reply(generator: np.random.Generator, key: str, model: str) -> StoredReply:
    verdict = ("A", "B", "TIE")[generator.integers(3)]
    return StoredReply(
        request_key=key,
        attempt=1,
        channel="batch",
        result_type="succeeded",
        stop_reason="end_turn",
        text=f"{invent_text(generator, REPLY_WORDS)}\n\nVERDICT: {verdict}",
        error_type=None,
        model=model,
        usage=TokenUsage(400, 150, 0, 2_000),
        received_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def _write_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@contextmanager
def watched(process: psutil.Process) -> Iterator[Watched]:
    """Sample a process and its children from a thread, for as long as it is entered."""
    seen = Watched()
    done = threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_SECONDS):
            try:
                for each in [process, *process.children(recursive=True)]:
                    held = each.memory_info().rss / 1e6
                    seen.samples.setdefault(each.pid, []).append(Sample(time.time(), held))
            except psutil.Error:
                continue

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def run_command(
    config: Path, *, url: str, arguments: Sequence[str]
) -> tuple[int, float, Watched, dict[str, float]]:
    """Run the command; return its exit status, its peak in MB, the samples and the clock."""
    folder = config.parents[1]
    environment = {
        **os.environ,
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_BASE_URL": url,
        "DAGSTER_HOME": str(folder / ".dagster"),
    }
    environment.pop("TOURNAMENT_LEDGER_URL", None)
    command = [str(Path(sys.executable).with_name("tournament")), "run"]
    command += ["--config", str(config), "--mode", "headline", *arguments]
    began = time.time()
    process = subprocess.Popen(command, env=environment, cwd=folder)  # noqa: S603 - our own command
    with watched(psutil.Process(process.pid)) as seen:
        # The kernel's own peak, which no sample misses.
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    clock = {"began": began, "ended": time.time()}
    return process.returncode, usage.ru_maxrss * 1024 / 1e6, seen, clock


def compare_newest(folder: Path) -> float:
    """Compare a project's two newest run directories; return the command's peak in MB."""
    newest = sorted((folder / "runs").iterdir(), key=lambda path: path.stat().st_mtime)[-2:]
    if len(newest) < 2:
        raise SystemExit("there is one run directory; call again with --keep for a second one")
    command = [str(Path(sys.executable).with_name("tournament")), "compare", *map(str, newest)]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, cwd=folder)  # noqa: S603 - our own
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if not output.tell():
            raise SystemExit(f"tournament compare printed nothing: exit {process.returncode}")
    return usage.ru_maxrss * 1024 / 1e6


def read_steps(home: Path, *, since: float) -> list[Step]:
    """Return the steps that Dagster recorded in its home, in the order they began."""
    import dagster as dg

    steps: list[Step] = []
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for run in instance.get_runs():
            began: dict[str, float] = {}
            for entry in instance.all_logs(run.run_id):
                kind = entry.dagster_event.event_type_value if entry.dagster_event else ""
                if entry.timestamp < since or kind not in _STEP_NAMES or entry.step_key is None:
                    continue
                if _STEP_NAMES[kind] == "began":
                    began[entry.step_key] = entry.timestamp
                else:
                    name = entry.step_key.split("__", 1)[-1]
                    partition = run.tags.get("dagster/partition", "")
                    label = f"{name} ({partition})" if partition else name
                    steps.append(Step(label, began[entry.step_key], entry.timestamp))
    return sorted(steps, key=lambda step: step.began)


def print_steps(steps: Sequence[Step], samples: Sequence[Sample], *, at_least_mb: float) -> None:
    """Print what each step held when it began and at its peak."""
    print(f"{'step':<52} {'seconds':>8} {'before MB':>10} {'peak MB':>8}")
    hidden = 0
    for step in steps:
        held = [each.megabytes for each in samples if step.began <= each.at <= step.ended]
        before = [each.megabytes for each in samples if each.at < step.began][-1:]
        if not held or (before and max(held) - before[0] < at_least_mb):
            hidden += 1
            continue
        print(
            f"{step.name:<52} {step.ended - step.began:8.1f} {(before or [0.0])[0]:10.0f} "
            f"{max(held):8.0f}"
        )
    if hidden:
        print(f"and {hidden} steps that grew by less than {at_least_mb:.0f} MB")


def main() -> None:
    """Run a tournament, print the peaks, and fail where the bound is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entrants", type=int, default=40)
    parser.add_argument("--words", type=int, default=RESPONSE_WORDS, help="words of a response")
    parser.add_argument("--judging", choices=("asked", "held", "none"), default="asked")
    parser.add_argument("--keep", type=Path, help="keep the project here, or go on with it")
    parser.add_argument("--compare", action="store_true", help="compare the two newest runs too")
    parser.add_argument("--at-least", type=float, default=5.0, help="hide steps that grew less, MB")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary) / "project").resolve()
        config = folder / "configs" / "large.yaml"
        if not config.is_file():
            config = write_project(folder, n_entrants=options.entrants, n_words=options.words)
            if options.judging == "held":
                print(f"{fill_ledger(config, seed=options.entrants):,} replies are in the ledger")
        with running_server(Path(temporary) / "server") as (url, server):
            status, peak, seen, clock = run_command(
                config,
                url=url,
                arguments=["--skip-judging"] if options.judging == "none" else [],
            )
            server_peak = stop_server(server)
        if not (folder / ".dagster").is_dir():
            raise SystemExit(status)
        print_steps(
            read_steps(folder / ".dagster", since=clock["began"]),
            next(iter(seen.samples.values()), []),
            at_least_mb=options.at_least,
        )
        children = list(seen.samples.values())[1:]
        largest = max((each.megabytes for held in children for each in held), default=0.0)
        print(f"{len(children)} processes that it started; the largest held {largest:.0f} MB")
        if options.compare:
            compared = compare_newest(folder)
            print(f"tournament compare of two such runs: peak {compared:.0f} MB")
            peak = max(peak, compared)
    seconds = clock["ended"] - clock["began"]
    print(
        f"{options.entrants} entrants, judging {options.judging}: exit {status} after "
        f"{seconds:.0f} s; peak {peak:.0f} MB of at most {LIMIT_MB:.0f}; "
        f"the judge's own process {server_peak:.0f} MB"
    )
    if max(peak, largest) >= LIMIT_MB:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
