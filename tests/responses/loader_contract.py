"""What every loader promises; each function checks one promise, for a `LoaderCase`."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

import tournament_assets as ta
from tests.projects import SmallProject, make_project
from tournament_assets.graph.assets.observed_inputs import read_inputs, stamp_inputs
from tournament_assets.graph.plain_runs import PlainRun
from tournament_assets.graph.recipe_book import RecipeBook, up_to_date
from tournament_assets.judging.costs.estimates import JudgingEstimate
from tournament_assets.preparing.estimates import estimate_judging
from tournament_assets.project.config_files import load_config
from tournament_assets.project.plan import TournamentPlan, plan_of
from tournament_assets.storage.tables import content_version
from tournament_assets.tournament.asset_rows import ResponseRow
from tournament_assets.verdicts.judge_requests import open_ledger

NAME = "tested"
N_PROMPTS = 6
"""The prompts of the small project's pilot."""

Change = Callable[[Path], object]
"""Changes an entrant's files, given the project's folder."""


@dataclass(frozen=True, kw_only=True)
class LoaderCase:
    """A loader's entrant in a small project.

    Attributes:
        name: The loader.
        keys: The entrant's keys in the config, but for its id and its loader.
        write: Writes its files.
        edit: Changes what its responses depend on, in a file; None if no file says it.
        touch: Changes what they do not depend on.
        remove: Takes away what preflight has to miss; None if nothing has to be there.
        changed_keys: Keys that its responses depend on, changed.
        environment: Environment variables that it needs.
    """

    name: str
    keys: Mapping[str, Any]
    write: Change = lambda folder: None
    edit: Change | None = None
    touch: Change = lambda folder: None
    remove: Change | None = None
    changed_keys: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def project(self, folder: Path, **generation: Any) -> SmallProject:
        """Make a small project with two recorded entrants, and this one."""
        project = make_project(folder, dimensions=("factuality",))
        self.write(folder)
        self.enter(project)
        if generation:
            project.edit_config(generation=generation)
        return project

    def enter(self, project: SmallProject, **changes: Any) -> None:
        """Put the entrant behind the first two, with changed keys."""
        entrants = yaml.safe_load(project.config_path.read_text())["entrants"][:2]
        tested = {"entrant_id": NAME, "loader": self.name, **self.keys, **changes}
        project.edit_config(entrants=[*entrants, tested])

    def plan(self, project: SmallProject) -> TournamentPlan:
        """Read the project's config."""
        environment = {**project.environment, **self.environment}
        return plan_of(load_config(project.config_path), environment)


def _version(plan: TournamentPlan) -> str | None:
    (version,) = (each for each in read_inputs(plan, "entrants") if each.partition == NAME)
    assert not version.problem, version.problem
    return version.version


def _generated_now(made: PlainRun) -> int:
    """Return how many responses were asked for, where services are asked first or where not."""
    asked = (
        made.metadata.get(key, {})
        for key in [("entrant_requests", ""), ("entrant_responses", NAME)]
    )
    return sum(metadata.get("generated_now", 0) for metadata in asked)


def check_run_and_run_again(case: LoaderCase, folder: Path) -> None:
    """An entrant answers every prompt, and asks for nothing when it runs again."""
    project = case.project(folder)
    first = project.tables("report", environment=case.environment)
    rows = first.frame("entrant_responses", NAME)
    assert len(rows) == N_PROMPTS
    assert first.metadata["entrant_responses", NAME]["source"]
    pages = first.frame("report").set_index("format")["content"]
    assert NAME in pages["markdown"]
    assert f"responses {NAME}" in pages["html"]
    assert content_version(ResponseRow, rows) in pages["html"]
    again = project.tables("entrant_responses", environment=case.environment)
    assert _generated_now(again) == 0
    assert list(again.frame("entrant_responses", NAME)["response"]) == list(rows["response"])


def check_estimate(case: LoaderCase, folder: Path) -> None:
    """An estimate says what is then asked, before the responses exist and when they do."""
    project = case.project(folder)
    first = _estimate(case, project)
    made = project.tables("entrant_responses", environment=case.environment)
    priced = sum(each.workload.to_ask for each in first.responses)
    assert priced == (_generated_now(made) if first.responses else 0)
    second = _estimate(case, project)
    assert sum(each.workload.to_ask for each in second.responses) == 0
    judged = project.tables("judge_replies", environment=case.environment)
    n_asked = len(judged.frame("judge_replies", "factuality"))
    assert [first.to_ask, second.to_ask] == [n_asked, n_asked]


def _estimate(case: LoaderCase, project: SmallProject) -> JudgingEstimate:
    plan = case.plan(project)
    with open_ledger(plan.project.ledger_url) as ledger:
        return estimate_judging(plan, "pilot", ledger=ledger)


def check_edit_is_noticed(case: LoaderCase, folder: Path) -> None:
    """Stamp and version move with what counts; the version with nothing else."""
    plan = case.plan(project := case.project(folder))
    stamp, version = stamp_inputs(plan), _version(plan)
    assert stamp is not None
    case.touch(folder)
    assert _version(plan) == version
    if case.edit is not None:
        stamp = stamp_inputs(plan)
        case.edit(folder)
        assert stamp_inputs(plan) != stamp
        assert _version(plan) != version
    version = _version(plan)
    case.enter(project, description="renamed", **case.changed_keys)
    assert (_version(case.plan(project)) != version) == bool(case.changed_keys)


def check_edit_makes_out_of_date(case: LoaderCase, folder: Path) -> None:
    """After an edit, the sensor has to look, and it and `up_to_date` name the entrant."""
    import dagster as dg

    from tournament_assets.graph.automation.edits import look_at_inputs, state_of

    project = case.project(folder)
    project.run_recorded(environment=case.environment)
    with dg.DagsterInstance.from_config(project.environment["DAGSTER_HOME"]) as instance:
        plan = case.plan(project)
        assert up_to_date(RecipeBook(plan, instance, known=read_inputs(plan))).passed
        state = state_of(plan, instance)
        assert state == state_of(plan, instance)
        assert case.edit is not None
        case.edit(folder)
        assert state_of(plan, instance) != state
        assert f"entrants of {NAME}" in look_at_inputs(plan, instance, {}).sentence
        check = up_to_date(RecipeBook(plan, instance, known=read_inputs(plan)))
    assert not check.passed
    assert NAME in check.description


_RUN = """
import sys
from pathlib import Path
from tests.projects import SmallProject
SmallProject(Path(sys.argv[1])).tables("entrant_responses", environment=dict(os.environ))
"""


def check_killed_run_goes_on(case: LoaderCase, folder: Path) -> None:
    """A run that is killed between two responses asks for the others alone."""
    project = case.project(folder, batch_size=1)
    environment = {**os.environ, **project.environment, **case.environment}
    command = [sys.executable, "-c", f"import os{_RUN}", str(folder)]
    with subprocess.Popen(command, env=environment) as process:
        while not (n_kept := _n_kept(project)) and process.poll() is None:
            time.sleep(0.005)
        process.kill()
    n_kept = max(n_kept, _n_kept(project))
    made = project.tables("entrant_responses", environment=case.environment)
    assert len(made.frame("entrant_responses", NAME)) == N_PROMPTS
    assert n_kept
    assert _generated_now(made) == N_PROMPTS - n_kept


def _n_kept(project: SmallProject) -> int:
    path = project.folder / "ledger" / "ledger.sqlite"
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path)) as ledger:
        return int(ledger.execute("SELECT COUNT(*) FROM responses").fetchone()[0])
    return 0


def check_preflight(case: LoaderCase, folder: Path) -> None:
    """A run without what the entrant needs is refused before anything is spent."""
    project = case.project(folder)
    assert case.remove is not None
    case.remove(folder)
    with pytest.raises(ta.InputError) as refused:
        project.run(environment=case.environment)
    assert any(NAME in problem for problem in refused.value.problems)
    assert not (folder / "storage" / "small" / "judge_replies").exists()


def check_samples(case: LoaderCase, folder: Path) -> None:
    """Every prompt is answered in every sample; who answers once says the same in each."""
    project = case.project(folder, n_samples=2)
    rows = project.tables("entrant_responses", environment=case.environment).frame(
        "entrant_responses", NAME
    )
    assert len(rows) == 2 * N_PROMPTS
    (entrant,) = (each for each in case.plan(project).config.entrants if each.entrant_id == NAME)
    if entrant.answers_once:
        assert set(rows.groupby("prompt_id")["response"].nunique()) == {1}


PROMISES = (
    check_run_and_run_again,
    check_estimate,
    check_edit_is_noticed,
    check_preflight,
    check_samples,
)
"""What is checked without Dagster."""
