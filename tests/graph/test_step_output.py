"""What a step prints: in Dagster's files, which the UI shows, and on the terminal."""

import gc
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tournament_assets.graph.local_runs import rare_collections

PRINTED = "below Python\n" + "".join(f"line {number} of a step\n" for number in range(20_000))

PROGRAM = """
import json, os, sys
from pathlib import Path
import dagster as dg
import psutil
from tournament_assets.graph.local_runs import output_repeated_by_threads

@dg.asset
def talkative():
    os.write(1, b"below Python\\n")
    for number in range(20_000):
        print(f"line {number} of a step")
    print("a warning", file=sys.stderr)
    yield dg.MaterializeResult(metadata={"children": len(psutil.Process().children())})

home = Path(sys.argv[1])
with dg.DagsterInstance.from_config(str(home)) as instance, output_repeated_by_threads():
    result = dg.materialize([talkative], instance=instance)
    (captured,) = [
        event.logs_captured_data
        for event in result.all_events
        if event.event_type is dg.DagsterEventType.LOGS_CAPTURED
    ]
    log_key = [result.run_id, "compute_logs", captured.file_key]
    data = instance.compute_log_manager.get_log_data(log_key)
    (made,) = result.asset_materializations_for_node("talkative")
found = {
    "out": data.stdout.decode(),
    "err": data.stderr.decode(),
    "children": made.metadata["children"].value,
}
(home / "found.json").write_text(json.dumps(found))
"""


@dataclass(frozen=True)
class Shown:
    """What the UI shows of a step's output, and how many processes its process had started."""

    out: str
    err: str
    children: int


def run_step(home: Path, stdout: int) -> tuple[Shown, subprocess.CompletedProcess[bytes]]:
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(home)]
    ended = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, timeout=120, check=False)
    return Shown(**json.loads((home / "found.json").read_text())), ended


def test_what_a_step_prints_stands_in_the_ui_and_on_the_terminal_without_another_process(
    tmp_path: Path,
) -> None:
    shown, ended = run_step(tmp_path, subprocess.PIPE)
    assert shown.out == PRINTED
    assert ended.stdout.decode() == PRINTED
    assert "a warning\n" in shown.err
    assert ended.stderr.count(b"a warning\n") == 1
    assert shown.children == 0


def test_output_goes_on_to_the_file_where_nobody_listens_any_more(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        shown, ended = run_step(tmp_path, writer)
    finally:
        os.close(writer)
    assert shown.out == PRINTED
    assert b"Traceback" not in ended.stderr


def test_cycles_are_collected_as_before_once_a_run_has_ended() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.isenabled()
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
