import json
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.extras.archives.builders import (
    MODELS,
    RUNS,
    TASKS,
    SmallArchive,
    failed_document,
    failed_line,
    make_archive,
    run_document,
    zero_document,
)
from tournament_assets.extras.archives.audit import audit_archive
from tournament_assets.extras.archives.clawbench import ClawBench
from tournament_assets.extras.archives.harness import LogLine
from tournament_assets.extras.archives.models import (
    audit_models,
    audit_tiers,
    compare_with_logs,
    find_common_support,
    measure_gaps,
    neighbours,
    rank_models,
)
from tournament_assets.extras.archives.readers import READERS
from tournament_assets.extras.archives.report import verdict_sentences
from tournament_assets.extras.archives.rows import GapRow, ModelRow, row_values
from tournament_assets.ratings.intervals import expanded_confidence

PLANNED = len(TASKS) * len(RUNS)


def audits(archive: SmallArchive) -> dict[str, ModelRow]:
    return {audit.model_id: audit for audit in audit_models(archive.read()[1])}


def test_the_four_counts_of_a_model_with_every_kind_of_run(archive: SmallArchive) -> None:
    archive.put("bob", "t1-add", "run1", '{"run_sc')
    archive.run_path("bob", "t1-add", "run2").unlink()
    archive.put("bob", "t1-sort", "run1", zero_document())
    archive.put("bob", "t1-sort", "run2", zero_document(transcript="It tried."))
    archive.put("bob", "t2-mail", "run1", failed_document())
    archive.put("bob", "t2-mail", "run2", run_document(completion=0.5, error="crash"))
    archive.put("bob", "t2-mail", "run3", {**run_document(), "run_score": 0.2})
    bob = audits(archive)["bob"]
    assert (bob.planned, bob.archived, bob.broken, bob.absent, bob.missing) == (12, 10, 1, 1, 2)
    assert (bob.clean, bob.zero, bob.zero_with_response, bob.empty) == (8, 2, 1, 1)
    assert bob.coverage == pytest.approx(8 / 12)
    assert (bob.judge_failed, bob.judged, bob.rejudged) == (1, 7, 0)
    assert bob.judge_mean == pytest.approx(0.8)
    assert bob.at_ceiling == 7
    assert bob.harness_failures == 1
    assert (bob.off_rule, bob.rule_checked) == (1, 9)


def test_a_model_without_a_folder_is_all_missing(archive: SmallArchive) -> None:
    for path in sorted((archive.folder / "runs" / "cyd").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (archive.folder / "runs" / "cyd").rmdir()
    cyd = audits(archive)["cyd"]
    assert (cyd.planned, cyd.archived, cyd.absent) == (12, 0, 12)
    assert (cyd.coverage, cyd.normalised) == (0, 0)
    assert (cyd.mean, cyd.clean_mean, cyd.judge_mean) == (None, None, None)
    assert archive.read()[1].absent_models == ("cyd",)


# What one file holds: nothing, half a file, or a score that the harness wrote.
cells = st.one_of(
    st.none(),
    st.just("{"),
    st.floats(0, 1, allow_nan=False).map(lambda score: round(score, 3)),
)
filled = st.lists(cells, min_size=PLANNED, max_size=PLANNED)


@given(scores=filled)
def test_means_are_those_of_a_slow_reference(scores: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        archive = make_archive(Path(folder), fill=False)
        places = [(task, run) for task in TASKS for run in RUNS]
        for (task, run), score in zip(places, scores, strict=True):
            if isinstance(score, str):
                archive.put("ada", task, run, score)
            elif score is not None:
                archive.put("ada", task, run, {**run_document(), "run_score": score})
        ada = audits(archive)["ada"]
        tiers = [row for row in audit_tiers(archive.read()[1]) if row.model_id == "ada"]
    kept = [Fraction(score) for score in scores if isinstance(score, float)]
    clean = [score for score in kept if score >= Fraction(0.01)]
    assert ada.archived == len(kept)
    assert ada.broken == scores.count("{")
    assert ada.absent == scores.count(None)
    assert ada.clean + ada.zero + ada.missing == PLANNED
    assert ada.normalised == pytest.approx(float(sum(clean) / PLANNED))
    assert (ada.mean is None) == (not kept)
    if ada.mean is not None:
        assert ada.mean == pytest.approx(float(sum(kept) / len(kept)))
    if ada.clean_mean is not None:
        assert ada.clean_mean == pytest.approx(float(sum(clean) / len(clean)))
        assert ada.clean_mean * ada.coverage == pytest.approx(ada.normalised)
    for tier in tiers:
        members = [
            score
            for (task, _), score in zip(places, scores, strict=True)
            if isinstance(score, float) and f"tier {task[1]}" == tier.tier
        ]
        assert tier.n_archived == len(members)
        if members:
            assert tier.mean == pytest.approx(sum(members) / len(members))


def plain_figures(folder: Path, planned: int) -> dict[str, float]:
    """A model's fifteen figures, read from its files and nothing else, as a short script would."""
    documents = {path: json.loads(path.read_text()) for path in folder.glob("*/run*.json")}
    scores = [document["run_score"] for document in documents.values()]
    clean = [score for score in scores if score >= 0.01]
    judges = [
        each["judge_result"] for each in documents.values() if each["judge_result"]["enabled"]
    ]
    failed = [judge for judge in judges if "restarting" in judge["reason"]]
    tiers: dict[str, list[float]] = {}
    for path, document in documents.items():
        tiers.setdefault(f"tier {path.parent.name[1]}", []).append(document["run_score"])
    return {
        "archived": len(scores),
        "missing": planned - len(scores),
        "clean": len(clean),
        "coverage": len(clean) / planned,
        "mean": sum(scores) / len(scores),
        "clean_mean": sum(clean) / len(clean),
        "normalised": sum(clean) / planned,
        "judge_mean": sum(judge["score"] for judge in judges) / (len(judges) - len(failed)),
        "at_ceiling": sum(each["completion_result"]["score"] == 1 for each in documents.values()),
        "judge_failed": len(failed),
        **{tier: sum(scores) / len(scores) for tier, scores in tiers.items()},
    }


def test_the_figures_of_nine_models_are_those_of_a_plain_script(tmp_path: Path) -> None:
    names, tasks = [f"m{number}" for number in range(9)], [f"t{1 + n % 5}-{n}" for n in range(20)]
    models = [{"model_id": name} for name in names]
    plan = {"tasks": tasks, "runs": list(RUNS)}
    archive = make_archive(tmp_path, fill=False, models=models, plan=plan, conditions={})
    generator = np.random.default_rng(7)
    for name, task, run in product(names, tasks, RUNS):
        kind, judge = generator.choice(6, p=[0.05, 0.1, 0.05, 0.1, 0.35, 0.35]), generator.random()
        documents = [
            zero_document(),
            failed_document(),
            failed_document(completion=0.5),
            run_document(judge=None),
            run_document(judge=judge),
            run_document(judge=judge, completion=0.5),
        ]
        if generator.random() < 0.95:
            archive.put(name, task, run, documents[kind])
    audit = audit_archive(archive.read()[1])
    for row in audit.models:
        means = {tier.tier: tier.mean for tier in audit.tiers if tier.model_id == row.model_id}
        values = {**row_values(row), **means}
        figures = plain_figures(tmp_path / "runs" / row.model_id, len(tasks) * len(RUNS))
        assert len(figures) == 15
        assert {name: values[name] for name in figures} == pytest.approx(figures)


def test_logs_say_why_runs_are_missing(archive: SmallArchive) -> None:
    for run in ("run1", "run2"):
        archive.run_path("cyd", "t2-plan", run).unlink()
    archive.put("cyd", "t1-add", "run1", zero_document())
    archive.log(
        "cyd",
        "starting",
        failed_line("t2-plan", "run2"),
        failed_line("t1-add", "run1"),
        "[7/12] t1-sort (tier1/coding) run 4: - 0.00 C=0.00 T=0.00 B=0.00 timeout",
        "[8/12] t1-sort (tier1/coding) run 3: ~ 0.50 C=0.00 T=1.00 B=1.00",
        failed_line("t9-new", "run1"),
        failed_line("t1-add", "run7"),
    )
    _, contents = archive.read()
    assert contents.log_files == 1
    assert [failure.place for failure in contents.log_failures] == [
        f"logs/cyd.log:{line}" for line in (2, 3, 4, 6, 7)
    ]
    logs = {log.model_id: log for log in compare_with_logs(contents)}
    assert list(logs) == list(MODELS)
    cyd = logs["cyd"]
    assert cyd.failures == {"failed": 4, "scored nothing": 1}
    assert (cyd.missing_explained, cyd.missing_unexplained) == (1, 1)
    assert (cyd.failed_and_archived, cyd.failed_and_zero) == (2, 1)
    assert cyd.unplanned == 2
    assert logs["ada"].failures == {}


class Sweep(ClawBench):
    """ClawBench in a sweep whose one log is of all models."""

    def log_line(self, line: str) -> LogLine | None:
        _, model, task = line.split()
        return LogLine("lost", task, model=model)


def test_one_log_of_all_models_names_them_in_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(READERS, "sweep", Sweep)
    archive = make_archive(tmp_path, logs=["logs/*.log"], reader="sweep")
    for run in RUNS:
        archive.run_path("ada", "t1-add", run).unlink()
    archive.log("sweep", "LOST vendor_ada-2 t1-add", "LOST cyd t1-add", "LOST somebody t1-add")
    _, contents = archive.read("cyd")
    assert [failure.model_id for failure in contents.log_failures] == ["ada", None]
    found = compare_with_logs(contents)
    assert [(log.model_id, dict(log.failures), log.unplanned) for log in found] == [
        ("ada", {"lost": 1}, 0),
        ("bob", {}, 0),
        ("", {"lost": 1}, 1),
    ]
    assert found[0].missing_explained == 3


TWELVE = tuple(f"t1-{number:02}" for number in range(12))


def wide_archive(
    folder: Path, *, lead: float, noise: float, models: tuple[str, ...] = ("ada", "bob")
) -> SmallArchive:
    """Twelve tasks that differ a lot, with runs of ada, who leads on each by as much, and bob."""
    archive = make_archive(
        folder,
        fill=False,
        models=[{"model_id": name} for name in models],
        plan={"tasks": list(TWELVE), "runs": list(RUNS)},
        n_bootstraps=2000,
    )
    generator = np.random.default_rng(3)
    for place, task in enumerate(TWELVE):
        for run in RUNS:
            for model, ahead in (("ada", lead), ("bob", 0.0)):
                score = 0.2 + 0.05 * place + ahead + generator.normal(scale=noise)
                path = folder / "runs" / model / task / f"{run}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                document = {**run_document(), "run_score": float(np.clip(score, 0.02, 1))}
                path.write_text(json.dumps(document))
    return archive


def ranking(archive: SmallArchive) -> tuple[Sequence[ModelRow], Sequence[GapRow], tuple[str, ...]]:
    """The models, their gaps, and the verdict."""
    audit = audit_archive(archive.read()[1])
    return audit.ranked, audit.gaps, verdict_sentences(audit)


def gap_of(archive: SmallArchive) -> GapRow:
    _, (gap,), _ = ranking(archive)
    return gap


def add_model(archive: SmallArchive, name: str, *, behind: float, noise: float = 0.0) -> None:
    """Add a model that scores as bob does, less something."""
    generator = np.random.default_rng(4)
    for path in sorted((archive.folder / "runs" / "bob").rglob("*.json")):
        document = json.loads(path.read_text())
        score = document["run_score"] - behind + generator.normal(scale=noise)
        document["run_score"] = float(np.clip(score, 0.02, 1))
        archive.put(name, path.parent.name, path.stem, document)


def test_a_lead_on_every_task_is_separated_though_tasks_differ_more(tmp_path: Path) -> None:
    gap = gap_of(wide_archive(tmp_path, lead=0.05, noise=0.02))
    assert (gap.higher, gap.lower) == ("ada", "bob")
    assert gap.is_separated
    assert gap.low is not None
    assert gap.high is not None
    assert 0 < gap.low < gap.difference < gap.high
    assert gap.difference == pytest.approx(0.05, abs=0.02)


def test_no_lead_is_within_noise(tmp_path: Path) -> None:
    gap = gap_of(wide_archive(tmp_path, lead=0.0, noise=0.1))
    assert gap.reading == "not significant"


def test_the_interval_is_that_of_a_slow_resampling_of_tasks(tmp_path: Path) -> None:
    archive = wide_archive(tmp_path, lead=0.03, noise=0.1)
    for run in RUNS:
        (tmp_path / "runs" / "ada" / TWELVE[0] / f"{run}.json").unlink()
    _, contents = archive.read()
    scores: dict[str, dict[str, list[float]]] = {"ada": {}, "bob": {}}
    for each in contents.runs:
        assert each.is_clean
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
            difference([TWELVE[index] for index in generator.integers(12, size=12)])
            for _ in range(3000)
        ]
    )
    outside = (1 - expanded_confidence(0.95, n_units=12)) / 2
    gap = gap_of(archive)
    assert gap.difference * (1 if gap.higher == "ada" else -1) == pytest.approx(
        difference(list(TWELVE))
    )
    assert gap.low is not None
    assert gap.high is not None
    width = np.quantile(samples, 1 - outside) - np.quantile(samples, outside)
    assert gap.high - gap.low == pytest.approx(width, rel=0.12)


def test_four_tasks_cannot_tell(tmp_path: Path) -> None:
    ranked, gaps, _ = ranking(make_archive(tmp_path))
    assert [audit.model_id for audit in ranked] == ["ada", "bob", "cyd"]
    for gap in gaps:
        assert (gap.low, gap.high, gap.reading) == (None, None, "unknown")


def test_two_who_are_not_neighbours_can_be_separated_where_neighbours_are_not(
    tmp_path: Path,
) -> None:
    archive = wide_archive(tmp_path, lead=0.04, noise=0.1, models=("ada", "bob", "cyd"))
    add_model(archive, "cyd", behind=0.05)
    ranked, gaps, (leader, not_separated, separated, *_) = ranking(archive)
    pairs = [("ada", "bob"), ("ada", "cyd"), ("bob", "cyd")]
    assert [(gap.higher, gap.lower) for gap in gaps] == pairs
    assert [(gap.higher, gap.lower) for gap in neighbours(gaps, ranked)] == [pairs[0], pairs[2]]
    first, both, second = (gap.difference for gap in gaps)
    assert both == pytest.approx(first + second)
    assert gaps[0].reading == "not significant"
    assert gaps[1].is_separated
    assert leader.startswith("ada ")
    assert [name in not_separated for name in ("bob (", "cyd")] == [True, False]
    assert [name in separated for name in ("bob", "cyd (")] == [False, True]


def test_the_verdict_names_everybody_the_first_is_not_separated_from(tmp_path: Path) -> None:
    names = ("ada", "bob", "cyd", "dan")
    archive = wide_archive(tmp_path, lead=0.0, noise=0.1, models=names)
    add_model(archive, "cyd", behind=0.0, noise=0.1)
    add_model(archive, "dan", behind=0.3, noise=0.1)
    ranked, _, (_, close, far, *_) = ranking(archive)
    second_and_third = sorted(audit.model_id for audit in ranked[1:3])
    assert [name for name in names if name in close] == second_and_third
    assert "dan (" in far


def test_common_support_holds_what_every_model_has(archive: SmallArchive) -> None:
    # Without its hardest task cyd looks better than it is; on what all have it does not.
    for run in RUNS:
        archive.run_path("cyd", "t2-plan", run).unlink()
    archive.put("bob", "t1-add", "run1", zero_document())
    archive.put("ada", "t1-add", "run2", "{")
    _, contents = archive.read()
    support = find_common_support(contents)
    assert {(row.n_cells, row.n_clean_cells) for row in support} == {(12 - 3 - 1, 12 - 3 - 2)}
    shared = {
        (task, run)
        for task in ("t1-add", "t1-sort", "t2-mail")
        for run in RUNS
        if (task, run) != ("t1-add", "run2")
    }
    for score in support:
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


def test_a_model_without_runs_does_not_empty_the_common_support(archive: SmallArchive) -> None:
    for path in (archive.folder / "runs" / "cyd").rglob("*.json"):
        path.unlink()
    _, contents = archive.read()
    support = find_common_support(contents)
    assert [(row.n_cells, row.model_id) for row in support] == [(12, "ada"), (12, "bob")]
    assert len(rank_models(audit_models(contents))) == 2


def test_an_empty_archive_ranks_nobody(tmp_path: Path) -> None:
    _, contents = make_archive(tmp_path, fill=False).read()
    audits = audit_models(contents)
    assert rank_models(audits) == []
    assert measure_gaps((), contents) == []
    assert find_common_support(contents) == []
