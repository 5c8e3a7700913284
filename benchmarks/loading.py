"""How long definitions take to load, and how long they would take with the heavy libraries.

Run: python -m benchmarks.loading

Every measurement is the processor time of a fresh process. The peer is `import dagster` alone, in
the same run: the ratio says what this project adds to it. What no project of this size can go
below is measured beside it: as many empty assets and jobs, with the same edges and partitions, made
by Dagster alone, without inputs, checks, metadata, kinds, schedules or sensors.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

REPEATS = 7
ROOT = Path(__file__).parents[1]
EMPTY = "as many empty assets, by Dagster alone"
DRAW_SHAPE = f"""
import json
from pathlib import Path
import dagster as dg
from tournament_assets.definitions import load_project
repository = load_project(Path({str(ROOT)!r}), {{}}).get_repository_def()
nodes = [repository.asset_graph.get(k) for k in repository.asset_graph.get_all_asset_keys()]
def axes(definition):
    if definition is None:
        return []
    parts = getattr(definition, "partitions_defs", None)
    named = [(p.name, p.partitions_def) for p in parts] if parts else [("one", definition)]
    return [[name, list(each.get_partition_keys())] for name, each in named]
print(json.dumps({{
    "assets": [
        [n.key.path, [k.path for k in n.parent_keys], axes(n.partitions_def), n.group_name]
        for n in nodes
    ],
    "jobs": [
        [job.name, [key.path for key in job.asset_layer.executable_asset_keys]]
        for job in repository.get_all_jobs()
        if job.asset_layer.executable_asset_keys and not job.name.startswith("__")
    ],
}}))
"""
MAKE_EMPTY = """
import json
import dagster as dg
shape = json.loads({shape!r})
made = {{}}
def partitions(axes):
    text = json.dumps(axes)
    if axes and text not in made:
        parts = {{name: dg.StaticPartitionsDefinition(keys) for name, keys in axes}}
        (*_, one) = parts.values()
        made[text] = dg.MultiPartitionsDefinition(parts) if len(parts) > 1 else one
    return made.get(text)
def empty():
    pass
assets = [
    dg.asset(
        key=dg.AssetKey(path),
        deps=[dg.AssetKey(each) for each in deps],
        partitions_def=partitions(axes),
        group_name=group,
    )(empty)
    for path, deps, axes, group in shape["assets"]
]
jobs = [
    dg.define_asset_job(name, dg.AssetSelection.assets(*map(dg.AssetKey, paths)))
    for name, paths in shape["jobs"]
]
dg.Definitions.validate_loadable(dg.Definitions(assets=assets, jobs=jobs))
"""
LOAD = """
import dagster as dg
from tournament_assets.definitions import defs
dg.Definitions.validate_loadable(defs())
"""
"""As Dagster loads them; the project is the working directory."""
VARIANTS = {
    "import dagster": "import dagster",
    "definitions": LOAD,
    "definitions + torch, transformers, anthropic": (
        f"import anthropic, torch, transformers\n{LOAD}"
    ),
}


def measure(code: str, bytecode: str) -> float:
    """Return the seconds some code takes in a fresh process, the interpreter's start left out.

    Args:
        code: What to run.
        bytecode: A folder where the compiled modules are kept, as those of an installed package
            are, also where the environment forbids to write them beside the sources.
    """
    script = f"import time\nbegan = time.process_time()\n{code}\nprint(time.process_time() - began)"
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    for name in ("PYTHONDONTWRITEBYTECODE", "TOURNAMENT_PROJECT"):
        environment.pop(name, None)
    done = subprocess.run(  # noqa: S603  # our own code
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=ROOT,
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure in random order and print medians and ratios."""
    done = subprocess.run(  # noqa: S603  # our own code
        [sys.executable, "-W", "ignore", "-c", DRAW_SHAPE],
        capture_output=True,
        text=True,
        check=True,
    )
    VARIANTS[EMPTY] = MAKE_EMPTY.format(shape=done.stdout)
    jobs = [name for name in VARIANTS for _ in range(REPEATS)]
    random.Random(0).shuffle(jobs)
    seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    with tempfile.TemporaryDirectory() as bytecode:
        for code in VARIANTS.values():
            measure(code, bytecode)
        for name in jobs:
            seconds[name].append(measure(VARIANTS[name], bytecode))
    peer = statistics.median(seconds["import dagster"])
    print(f"{'loading (median of ' + str(REPEATS) + ')':<48} {'s':>6} {'ratio':>6}")
    for name, values in seconds.items():
        median = statistics.median(values)
        print(f"{name:<48} {median:6.2f} {median / peer:6.2f}")


if __name__ == "__main__":
    main()
