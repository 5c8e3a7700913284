"""The case of an archive among the numbers in `tests/golden`."""

from itertools import product
from pathlib import Path
from random import Random

from tests.extras.archives.builders import (
    RUNS,
    failed_document,
    failed_line,
    make_archive,
    run_document,
    zero_document,
)
from tests.golden.cases import command
from tests.golden.frozen_tables import Numbers, read_json


def archive(folder: Path) -> Numbers:
    """The audit of an archive with every trouble, and its report after judging again."""
    tasks = [f"t{tier}-{number:02}" for tier in (1, 2) for number in range(8)]
    made = make_archive(folder, fill=False, plan={"tasks": tasks, "runs": list(RUNS)})
    rng = Random(28)
    for (place, model), task, run in product(enumerate(("ada", "bob", "cyd")), tasks, RUNS):
        luck, skill, judge = (round(rng.random(), 3) for _ in range(3))
        document = run_document(
            completion=1.0 if task == "t1-00" else min(1.0, luck + 0.4),
            trajectory=skill * (1 - 0.4 * place),
            judge=judge if judge > 0.1 else None,
        )
        made.put(model, task, run, document)
    made.put("bob", "t1-03", "run1", failed_document())
    made.put("cyd", "t1-01", "run1", '{"run_score": 0.4, "tra')
    made.put("cyd", "t2-05", "run1", zero_document())
    made.run_path("cyd", "t2-06", "run2").unlink()
    made.log("cyd", failed_line("t2-06", "run2"))
    audit = read_json("audit", command("archive", "audit", made.description_path, "--json"))
    command("archive", "rejudge", made.description_path)
    report = command("archive", "report", made.description_path, "--json")
    return audit | read_json("report", report)


CASES = (archive,)
