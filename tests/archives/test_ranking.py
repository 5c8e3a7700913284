import json
from pathlib import Path

import numpy as np
import pytest

from tests.archives.builders import (
    RUNS,
    SmallArchive,
    make_archive,
    run_document,
    zero_document,
)
from tournament_assets.archives.models import (
    Gap,
    audit_models,
    find_common_support,
    measure_gaps,
    neighbours,
    rank_models,
)
from tournament_assets.archives.report import verdict_sentences
from tournament_assets.archives.runs import is_clean
from tournament_assets.ratings.intervals import expanded_confidence

TASKS = tuple(f"t1-{number:02}" for number in range(12))


def wide_archive(folder: Path, *, lead: float, noise: float) -> SmallArchive:
    """Two models on twelve tasks; tasks differ a lot, the first model leads on each by as much."""
    archive = make_archive(
        folder,
        fill=False,
        models=[{"model_id": "ada"}, {"model_id": "bob"}],
        plan={"tasks": list(TASKS), "runs": 3},
        n_bootstraps=2000,
    )
    generator = np.random.default_rng(3)
    for place, task in enumerate(TASKS):
        for run in RUNS:
            for model, ahead in (("ada", lead), ("bob", 0.0)):
                score = 0.2 + 0.05 * place + ahead + generator.normal(scale=noise)
                path = folder / "runs" / model / task / f"{run}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                document = {**run_document(), "run_score": float(np.clip(score, 0.02, 1))}
                path.write_text(json.dumps(document))
    return archive


def gap_of(archive: SmallArchive) -> Gap:
    described, contents = archive.read()
    config = described.config
    (gap,) = measure_gaps(rank_models(audit_models(contents, config)), contents, config)
    return gap


def test_a_lead_on_every_task_is_separated_though_tasks_differ_more(tmp_path: Path) -> None:
    gap = gap_of(wide_archive(tmp_path, lead=0.05, noise=0.02))
    assert (gap.higher, gap.lower) == ("ada", "bob")
    assert gap.is_separated
    assert not gap.is_within_noise
    assert gap.low is not None
    assert gap.high is not None
    assert 0 < gap.low < gap.difference < gap.high
    assert gap.difference == pytest.approx(0.05, abs=0.02)


def test_no_lead_is_within_noise(tmp_path: Path) -> None:
    gap = gap_of(wide_archive(tmp_path, lead=0.0, noise=0.1))
    assert gap.is_within_noise


def test_the_interval_is_that_of_a_slow_resampling_of_tasks(tmp_path: Path) -> None:
    archive = wide_archive(tmp_path, lead=0.03, noise=0.1)
    for run in RUNS:
        (tmp_path / "runs" / "ada" / TASKS[0] / f"{run}.json").unlink()
    described, contents = archive.read()
    scores: dict[str, dict[str, list[float]]] = {"ada": {}, "bob": {}}
    for each in contents.runs:
        assert is_clean(each, described.config.scores)
        scores[each.model_id].setdefault(each.task, []).append(each.run_score)

    def difference(tasks: list[str]) -> float:
        means = []
        for model in ("ada", "bob"):
            drawn = [score for task in tasks for score in scores[model].get(task, [])]
            means.append(sum(drawn) / len(drawn))
        return means[0] - means[1]

    generator = np.random.default_rng(99)
    samples = np.sort(
        [
            difference([TASKS[index] for index in generator.integers(12, size=12)])
            for _ in range(3000)
        ]
    )
    outside = (1 - expanded_confidence(0.95, n_units=12)) / 2
    gap = gap_of(archive)
    assert gap.difference * (1 if gap.higher == "ada" else -1) == pytest.approx(
        difference(list(TASKS))
    )
    assert gap.low is not None
    assert gap.high is not None
    width = np.quantile(samples, 1 - outside) - np.quantile(samples, outside)
    assert gap.high - gap.low == pytest.approx(width, rel=0.12)


def test_four_tasks_cannot_tell(tmp_path: Path) -> None:
    described, contents = make_archive(tmp_path).read()
    ranked = rank_models(audit_models(contents, described.config))
    assert [audit.model_id for audit in ranked] == ["ada", "bob", "cyd"]
    for gap in measure_gaps(ranked, contents, described.config):
        assert (gap.low, gap.high, gap.is_separated, gap.is_within_noise) == (
            None,
            None,
            False,
            False,
        )


def test_two_who_are_not_neighbours_can_be_separated_where_neighbours_are_not(
    tmp_path: Path,
) -> None:
    archive = wide_archive(tmp_path, lead=0.04, noise=0.1)
    models = [{"model_id": name} for name in ("ada", "bob", "cyd")]
    archive.describe(models=models, plan={"tasks": list(TASKS), "runs": 3}, n_bootstraps=2000)
    for path in (tmp_path / "runs" / "bob").rglob("*.json"):
        document = json.loads(path.read_text())
        document["run_score"] = max(0.02, document["run_score"] - 0.05)
        other = tmp_path / "runs" / "cyd" / path.parent.name / path.name
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_text(json.dumps(document))
    described, contents = archive.read()
    config = described.config
    ranked = rank_models(audit_models(contents, config))
    gaps = measure_gaps(ranked, contents, config)
    assert [(gap.higher, gap.lower) for gap in gaps] == [
        ("ada", "bob"),
        ("ada", "cyd"),
        ("bob", "cyd"),
    ]
    assert [(gap.higher, gap.lower) for gap in neighbours(gaps, ranked)] == [
        ("ada", "bob"),
        ("bob", "cyd"),
    ]
    assert gaps[1].difference == pytest.approx(gaps[0].difference + gaps[2].difference)
    assert gaps[0].is_within_noise
    assert gaps[1].is_separated
    first, not_separated, separated, *_ = verdict_sentences(ranked, gaps, config)
    assert first.startswith("ada has the highest clean mean")
    assert not_separated.startswith("Its lead is not significant over bob (")
    assert "cyd" not in not_separated
    assert separated.startswith("Its lead is significant over cyd (")


def test_the_verdict_names_everybody_the_first_is_not_separated_from(tmp_path: Path) -> None:
    archive = wide_archive(tmp_path, lead=0.0, noise=0.1)
    names = ("ada", "bob", "cyd", "dan")
    archive.describe(
        models=[{"model_id": name} for name in names],
        plan={"tasks": list(TASKS), "runs": 3},
        n_bootstraps=2000,
    )
    generator = np.random.default_rng(4)
    for name, behind in (("cyd", 0.0), ("dan", 0.3)):
        for path in (tmp_path / "runs" / "bob").rglob("*.json"):
            document = json.loads(path.read_text())
            noisy = document["run_score"] - behind + generator.normal(scale=0.1)
            document["run_score"] = float(np.clip(noisy, 0.02, 1))
            other = tmp_path / "runs" / name / path.parent.name / path.name
            other.parent.mkdir(parents=True, exist_ok=True)
            other.write_text(json.dumps(document))
    described, contents = archive.read()
    ranked = rank_models(audit_models(contents, described.config))
    gaps = measure_gaps(ranked, contents, described.config)
    said = verdict_sentences(ranked, gaps, described.config)
    (close,) = [each for each in said if each.startswith("Its lead is not significant")]
    (far,) = [each for each in said if each.startswith("Its lead is significant")]
    assert [name for name in names if name in close] == [
        audit.model_id for audit in sorted(ranked[1:3], key=lambda each: each.model_id)
    ]
    assert "dan (" in far


def test_common_support_holds_what_every_model_has(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    # Without its hardest task cyd looks better than it is; on what all have it does not.
    for run in RUNS:
        archive.run_path("cyd", "t2-plan", run).unlink()
    archive.put("bob", "t1-add", "run1", zero_document())
    archive.put("ada", "t1-add", "run2", "{")
    described, contents = archive.read()
    support = find_common_support(contents, described.config)
    assert (support.n_cells, support.n_clean_cells) == (12 - 3 - 1, 12 - 3 - 2)
    shared = {
        (task, run)
        for task in ("t1-add", "t1-sort", "t2-mail")
        for run in RUNS
        if (task, run) != ("t1-add", "run2")
    }
    for score in support.scores:
        runs = [
            run.run_score
            for run in contents.runs
            if run.model_id == score.model_id and run.cell in shared
        ]
        assert score.mean == pytest.approx(sum(runs) / len(runs))
        clean = [
            run.run_score
            for run in contents.runs
            if run.model_id == score.model_id and run.cell in shared - {("t1-add", "run1")}
        ]
        assert score.clean_mean == pytest.approx(sum(clean) / len(clean))


def test_a_model_without_runs_does_not_empty_the_common_support(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    for path in (archive.folder / "runs" / "cyd").rglob("*.json"):
        path.unlink()
    described, contents = archive.read()
    support = find_common_support(contents, described.config)
    assert support.n_cells == 12
    assert [score.model_id for score in support.scores] == ["ada", "bob"]
    assert len(rank_models(audit_models(contents, described.config))) == 2


def test_an_empty_archive_ranks_nobody(tmp_path: Path) -> None:
    described, contents = make_archive(tmp_path, fill=False).read()
    audits = audit_models(contents, described.config)
    assert rank_models(audits) == ()
    assert measure_gaps((), contents, described.config) == ()
    assert find_common_support(contents, described.config).n_cells == 0
