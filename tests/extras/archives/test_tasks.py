from pathlib import Path

import numpy as np
import pytest

from tests.extras.archives.builders import (
    MODELS,
    RUNS,
    SmallArchive,
    failed_document,
    failed_line,
    make_archive,
    run_document,
    zero_document,
)
from tournament_assets.extras.archives.models import audit_conditions
from tournament_assets.extras.archives.rows import FindingKind, FindingRow
from tournament_assets.extras.archives.tasks import (
    find_task_problems,
    measure_spread,
)


def findings(archive: SmallArchive) -> list[FindingRow]:
    _, contents = archive.read()
    return find_task_problems(contents)


def kinds(archive: SmallArchive, task: str) -> list[str]:
    return [finding.kind.value for finding in findings(archive) if finding.task == task]


def everywhere(archive: SmallArchive, task: str, document: dict[str, object]) -> None:
    for model in MODELS:
        for run in RUNS:
            archive.put(model, task, run, document)


def test_tasks_that_say_nothing_of_models_are_found_worst_first(archive: SmallArchive) -> None:
    everywhere(archive, "t1-add", zero_document())
    rejected = run_document(completion=0.0, transcript="A right answer in other words.")
    everywhere(archive, "t2-mail", rejected)
    for model in ("ada", "bob"):
        for run in RUNS:
            archive.put(model, "t2-plan", run, failed_document(completion=0.5))
    assert [(finding.kind.value, finding.task) for finding in findings(archive)] == [
        ("judge_failures", "t2-plan"),
        ("all_zero", "t1-add"),
        ("never_passed", "t2-mail"),
        ("all_at_ceiling", "t1-sort"),
    ]
    failed, _, rejecting, _ = findings(archive)
    assert (failed.count, failed.total) == (6, 9)
    assert "9 of 9" in rejecting.sentence


def test_one_models_failures_are_no_cluster(archive: SmallArchive) -> None:
    for run in RUNS:
        archive.put("ada", "t2-plan", run, failed_document(completion=0.5))
        archive.put("bob", "t2-plan", run, run_document(completion=0.5))
        archive.run_path("cyd", "t2-plan", run).unlink()
    assert kinds(archive, "t2-plan") == []


def test_failed_judging_that_chance_would_spread_so_is_no_cluster(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    for model in MODELS:
        for task in ("t1-add", "t1-sort", "t2-mail"):
            archive.put(model, task, "run1", failed_document())
    assert FindingKind.JUDGE_FAILURES not in {finding.kind for finding in findings(archive)}
    # The same number on one task is more than chance puts there.
    archive = make_archive(tmp_path / "gathered")
    everywhere(archive, "t1-sort", failed_document())
    assert "judge_failures" in kinds(archive, "t1-sort")


def wide_archive(folder: Path) -> SmallArchive:
    """Nine models, five tasks, three runs each: 27 runs a task."""
    models = [f"m{number}" for number in range(9)]
    tasks = [f"t{number}" for number in range(5)]
    archive = make_archive(
        folder,
        fill=False,
        models=[{"model_id": model} for model in models],
        plan={"tasks": tasks, "runs": list(RUNS)},
    )
    for model in models:
        for task in tasks:
            for run in RUNS:
                archive.put(model, task, run, run_document(completion=0.5))
    return archive


def test_a_task_lost_to_the_harness_is_found_with_what_the_logs_say(tmp_path: Path) -> None:
    archive = wide_archive(tmp_path)
    lost = [(f"m{number}", run) for number in range(6) for run in RUNS][:16]
    for model, run in lost:
        archive.run_path(model, "t3", run).unlink()
    for model in {model for model, _ in lost}:
        archive.log(model, *(failed_line("t3", run) for name, run in lost if name == model))
    archive.run_path("m8", "t1", "run2").unlink()
    (found,) = findings(archive)
    assert (found.kind, found.task) == (FindingKind.MISSING_RUNS, "t3")
    assert (found.count, found.total) == (16, 27)
    assert "(failed 16)" in found.sentence


def test_every_task_that_lost_half_its_runs_is_found(tmp_path: Path) -> None:
    archive = wide_archive(tmp_path)
    for task in ("t0", "t1", "t2", "t3", "t4"):
        for number in range(9):
            for run in RUNS[:2]:
                archive.run_path(f"m{number}", task, run).unlink()
    assert [finding.kind.value for finding in findings(archive)] == ["missing_runs"] * 5
    assert "no log" in findings(archive)[0].sentence


@pytest.mark.parametrize("stray", [0, 1, 2])
def test_a_stray_zero_of_another_model_hides_no_model_that_never_scores(
    stray: int, archive: SmallArchive
) -> None:
    for run in RUNS:
        archive.put("bob", "t2-plan", run, zero_document())
        archive.put("cyd", "t2-plan", run, run_document(completion=0.5))
    for run in RUNS[:stray]:
        archive.put("ada", "t2-plan", run, zero_document())
    found = [finding for finding in findings(archive) if finding.task == "t2-plan"]
    assert [(finding.kind.value, finding.models) for finding in found] == [
        ("model_fails", ("bob",))
    ]
    assert f" {stray} of 6" in found[0].sentence
    archive.put("bob", "t2-plan", "run2", run_document(completion=0.5))
    assert kinds(archive, "t2-plan") == []


def test_harness_failures_of_several_models_are_a_cluster(archive: SmallArchive) -> None:
    everywhere(archive, "t2-plan", run_document(completion=0.5, error="no disk"))
    assert kinds(archive, "t2-plan") == ["harness_failures"]


def test_a_task_that_one_model_has_compares_nothing(archive: SmallArchive) -> None:
    for model in ("ada", "bob"):
        for run in RUNS:
            archive.run_path(model, "t1-add", run).unlink()
    assert kinds(archive, "t1-add") == ["missing_runs", "one_model"]


def test_a_task_of_which_only_the_log_is_left_is_found(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, plan={"tasks": 5, "runs": list(RUNS)})
    for model in MODELS:
        archive.log(model, *(failed_line("t3-lost", run) for run in RUNS))
    assert kinds(archive, "t3-lost") == ["missing_runs", "one_model"]
    # Nobody can say which of six were the five that were planned.
    archive.log("ada", failed_line("t3-lost", "run1"), failed_line("t4-more", "run1"))
    assert kinds(archive, "t3-lost") == []


def test_spread_of_a_worked_example() -> None:
    # Means 2, 5, 8 with one unit of variance inside: MSB 27, MSW 1 on paper.
    spread = measure_spread([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert spread["signal_to_noise"] == pytest.approx(26)
    assert spread["between_runs"] == pytest.approx(1)
    assert spread["between_models"] == pytest.approx(np.sqrt(26 / 3))


def test_spread_finds_again_what_was_put_in() -> None:
    generator = np.random.default_rng(5)
    models = generator.normal(scale=2, size=(400, 1))
    sizes = generator.integers(2, 6, size=400)
    noise = [generator.normal(scale=0.5, size=size) for size in sizes]
    groups = [list(mean + errors) for mean, errors in zip(models[:, 0], noise, strict=True)]
    spread = measure_spread(groups)
    assert spread["between_models"] == pytest.approx(2, rel=0.1)
    assert spread["between_runs"] == pytest.approx(0.5, rel=0.1)


def test_spread_needs_two_models_and_two_runs_of_one() -> None:
    for groups in ([[0.1, 0.2]], [[0.1], [0.2]], [[], [0.2, 0.3]]):
        assert measure_spread(groups) == {}


def test_conditions_are_compared_over_every_run(archive: SmallArchive) -> None:
    def image() -> dict[tuple[str | None, str | None], int | None]:
        *rows, stated = audit_conditions(archive.read()[1])
        assert (stated.condition, stated.sameness) == ("verifiers", "stated, not checked")
        assert {(row.condition, row.sameness) for row in rows} == {("image", sameness)}
        return {(row.value, row.model_id): row.runs for row in rows}

    sameness = "identical"
    assert image() == {("harness:4", model): 12 for model in MODELS}
    archive.put("bob", "t1-add", "run1", run_document(environment={}))
    sameness = "not in every run"
    assert image()[None, "bob"] == 1
    archive.put("bob", "t1-add", "run1", run_document(environment={"image": "harness:5"}))
    sameness = "different"
    assert image()["harness:5", "bob"] == 1
