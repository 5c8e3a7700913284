import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.loopback.faults.servers import FaultyServer
from tests.projects import SmallProject, bank_rows, make_project
from tests.responses.builders import claude
from tests.rows import table_rows
from tournament_assets.foundation.errors import InputError, WorkError
from tournament_assets.preparing.estimates import estimate_tournament
from tournament_assets.project.plan import load_plan
from tournament_assets.reports.cost_estimate import cost_sentences
from tournament_assets.storage.tables import decode_parquet
from tournament_assets.tournament.asset_rows import ResponseRow

from .paid_projects import SECRET, PaidProject

BANK_ORDER = [row["prompt_id"] for row in bank_rows()]
LABEL = "This is the loopback service, which is no language model."


def describe(project: SmallProject, **changes: Any) -> None:
    """Let a Claude model be one of two entrants."""
    recorded = yaml.safe_load(project.config_path.read_text())["entrants"][0]
    bought = claude(**changes).model_dump(mode="json", exclude_unset=True)
    project.edit_config(entrants=[recorded, bought])


def serve(folder: Path, *faults: str, processing_seconds: float = 0) -> FaultyServer:
    return FaultyServer(folder / "server", processing_seconds=processing_seconds, faults=faults)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallProject:
    # Dagster is told the name of the variable, not what is in it.
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    project = make_project(tmp_path / "project", service="anthropic", dimensions=("calibration",))
    describe(project)
    return project


def rows(project: SmallProject, mode: str = "headline") -> list[dict[str, Any]]:
    folder = project.folder / "storage" / "small" / "entrant_responses" / "claude"
    payload = (folder / f"{mode}.parquet").read_bytes()
    return table_rows(ResponseRow, decode_parquet(ResponseRow, payload))


def prompts_in_batches(server: FaultyServer) -> list[str]:
    """Every prompt that the entrant was asked in a batch, judge requests left out."""
    return [
        request.params["messages"][0]["content"]
        for batch in server.store.list_newest_first()
        for request in batch.iterate_requests()
        if "system" not in request.params
    ]


def test_a_claude_model_plays_and_what_is_gone_is_bought_again_only_on_request(
    project: SmallProject, tmp_path: Path
) -> None:
    with serve(tmp_path, "archived", "stop_refusal") as server:
        paid = PaidProject(project, server)
        paid.let_length_win()
        with pytest.raises(WorkError, match=r"\(headline\).*--pay-again"):
            paid.run(mode="headline")
        summary = paid.run(mode="headline", pay_again=True)
        assert summary.responses_generated == 11
        assert set(summary.leaderboard["entrant_id"]) == {"careful", "claude"}
        (warning,) = summary.warnings
        assert re.search(r"1 of 12 .* a filter withheld ", warning)
        found = rows(project)
        names = [row["prompt_id"] for row in found]
        assert names == [name for name in BANK_ORDER if name in names]
        assert len(names) == 11
        assert all(row["response"].startswith(LABEL) for row in found)
        assert json.loads(found[0]["diagnostics"]) == {"served_model": "claude-opus-5-5"}
        assert Counter(prompts_in_batches(server)) == {row["text"]: 2 for row in bank_rows()}
        sent = server.log.to_dict()
        stored = project.stored_files()
        again = paid.run(mode="headline")
        assert (again.responses_generated, again.requests_submitted) == (0, 0)
        assert server.log.to_dict() == sent
    assert project.stored_files() == stored
    files = [path for path in project.folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_a_key_that_is_not_set_is_told_before_the_run_unless_the_loopback_answers(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "project", dimensions=("calibration",))
    describe(project)
    with pytest.raises(InputError, match=r"'claude' .*ANTHROPIC_API_KEY"):
        project.run("pilot")
    describe(project, model="loopback-echo")
    made = project.tables("entrant_responses")
    assert made.metadata["entrant_requests", ""]["generated_now"] == 6
    assert all(row["response"].startswith(LABEL) for row in rows(project, "pilot"))


def test_a_budget_for_responses_is_estimated_and_kept_before_anything_is_asked(
    project: SmallProject, tmp_path: Path
) -> None:
    project.edit_config(generation={"budget": {"usd": 0.01}})
    told = estimate_tournament(load_plan(project.config_path, project.environment), "headline")
    assert [(each.entrant_id, each.workload.to_ask) for each in told.responses] == [("claude", 12)]
    assert told.response_problem is not None
    assert "generation.budget.usd" in told.response_problem
    asked, budget = cost_sentences("responses", told)
    assert "claude-opus-5-5): 12 " in asked
    assert budget.count("$0.0100") == 2
    with serve(tmp_path) as server:
        paid = PaidProject(project, server)
        with pytest.raises(WorkError, match=r"generation\.budget\.usd"):
            paid.tables("entrant_responses", mode="headline")
        assert server.log.requests == 0
        project.edit_config(generation={"budget": {"usd": 1.0}})
        paid.tables("entrant_responses", mode="headline")
        assert len(rows(project)) == 12
