from pathlib import Path

import numpy as np
import pytest

from tests.archives.builders import (
    MODELS,
    RUNS,
    SmallArchive,
    failed_document,
    make_archive,
    run_document,
    zero_document,
)
from tournament_assets.audits.archive_conditions import Sameness, audit_conditions
from tournament_assets.audits.archive_tasks import (
    TaskAudit,
    audit_tasks,
    find_tier_failures,
    measure_spread,
)


def tasks(archive: SmallArchive) -> dict[str, TaskAudit]:
    described, contents = archive.read()
    return {audit.task: audit for audit in audit_tasks(contents, described.config)}


def everywhere(archive: SmallArchive, task: str, document: dict[str, object]) -> None:
    for model in MODELS:
        for run in RUNS:
            archive.put(model, task, run, document)


def test_tasks_that_say_nothing_of_models_are_found(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    everywhere(archive, "t1-add", zero_document())
    rejected = run_document(completion=0.0, transcript="A right answer in other words.")
    everywhere(archive, "t2-mail", rejected)
    for model in ("ada", "bob"):
        for run in RUNS:
            archive.put(model, "t2-plan", run, failed_document(completion=0.5))
    found = tasks(archive)
    assert any("scored nothing" in each for each in found["t1-add"].findings)
    assert not any("verifier may refuse" in each for each in found["t1-add"].findings)
    assert found["t1-sort"].findings == ("every run of every model has completion at the ceiling",)
    assert found["t2-mail"].findings == (
        "completion is 0 in every run, and the models did something in 9 of 9: the verifier may "
        "refuse what is right",
    )
    assert found["t2-plan"].findings == ("judging failed in 6 of 9 runs",)


def test_one_models_failures_are_no_cluster(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    for run in RUNS:
        archive.put("ada", "t2-plan", run, failed_document(completion=0.5))
        archive.put("bob", "t2-plan", run, run_document(completion=0.5))
        archive.run_path("cyd", "t2-plan", run).unlink()
    assert tasks(archive)["t2-plan"].findings == ()


def test_what_only_one_model_cannot_do_is_said(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    for run in RUNS:
        archive.put("bob", "t2-plan", run, zero_document())
    assert tasks(archive)["t2-plan"].findings == (
        "only bob scored nothing, and did so in every run",
    )
    archive.put("bob", "t2-plan", "run2", run_document(completion=0.5))
    assert tasks(archive)["t2-plan"].findings == ()


def test_harness_failures_of_several_models_are_a_cluster(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    everywhere(archive, "t2-plan", run_document(completion=0.5, harness={"error": "no disk"}))
    assert tasks(archive)["t2-plan"].findings == ("the harness failed in 9 of 9 runs",)


def test_a_task_that_one_model_has_compares_nothing(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    for model in ("ada", "bob"):
        for run in RUNS:
            archive.run_path(model, "t1-add", run).unlink()
    assert tasks(archive)["t1-add"].findings == ("fewer than two models have it",)


def test_a_model_that_fails_one_tier_only_is_named(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    for task in ("t2-mail", "t2-plan"):
        for run in RUNS[:2]:
            archive.put("bob", task, run, zero_document())
    # It fails everything, so no tier tells anything of it.
    for task in ("t1-add", "t1-sort", "t2-mail", "t2-plan"):
        for run in RUNS[:2]:
            archive.put("cyd", task, run, zero_document())
    described, contents = archive.read()
    assert find_tier_failures(contents, described.config) == []
    for task in ("t2-mail", "t2-plan", "t1-add", "t1-sort"):
        for run in RUNS[:2]:
            archive.put("cyd", task, run, run_document())
    described, contents = archive.read()
    (failure,) = find_tier_failures(contents, described.config)
    assert (failure.model_id, failure.tier, failure.zero, failure.archived) == (
        "bob",
        "tier 2",
        4,
        6,
    )
    assert (failure.elsewhere, failure.others) == (0, 0)


def test_spread_of_a_worked_example() -> None:
    # Means 2, 5, 8 with one unit of variance inside: MSB 27, MSW 1, F 27 on paper.
    spread = measure_spread([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert spread.ratio == pytest.approx(27)
    assert spread.between_runs == pytest.approx(1)
    assert spread.between_models == pytest.approx(np.sqrt(26 / 3))


def test_spread_finds_again_what_was_put_in() -> None:
    generator = np.random.default_rng(5)
    models = generator.normal(scale=2, size=(400, 1))
    sizes = generator.integers(2, 6, size=400)
    noise = [generator.normal(scale=0.5, size=size) for size in sizes]
    groups = [list(mean + errors) for mean, errors in zip(models[:, 0], noise, strict=True)]
    spread = measure_spread(groups)
    assert spread.between_models == pytest.approx(2, rel=0.1)
    assert spread.between_runs == pytest.approx(0.5, rel=0.1)


def test_spread_needs_two_models_and_two_runs_of_one() -> None:
    assert measure_spread([[0.1, 0.2]]).ratio is None
    assert measure_spread([[0.1], [0.2]]).between_runs is None
    assert measure_spread([[], [0.2, 0.3]]).between_models is None


def test_conditions_are_compared_over_every_run(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    described, contents = archive.read()
    image, verifiers = audit_conditions(contents, described.config)
    assert (image.sameness, verifiers.sameness) == (Sameness.SAME, Sameness.STATED)
    archive.put("bob", "t1-add", "run1", run_document(environment={}))
    described, contents = archive.read()
    image, _ = audit_conditions(contents, described.config)
    assert (image.sameness, image.silent) == (Sameness.INCOMPLETE, 1)
    archive.put("bob", "t1-add", "run1", run_document(environment={"image": "harness:5"}))
    described, contents = archive.read()
    image, _ = audit_conditions(contents, described.config)
    assert image.sameness is Sameness.DIFFERENT
    assert image.values["harness:5"] == {"bob": 1}
