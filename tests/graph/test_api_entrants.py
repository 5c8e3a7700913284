import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.responses import JSONResponse

from tests.chat_server import (
    MODEL,
    ChatServer,
    api_entrant,
    completion,
    refusal,
)
from tests.projects import SmallProject, bank_rows, make_project
from tests.rows import table_rows
from tournament_assets.definitions import default_ledger_url
from tournament_assets.foundation.errors import InputError, WorkError
from tournament_assets.ledger import Ledger
from tournament_assets.preparing.estimates import estimate_tournament
from tournament_assets.project.plan import load_plan
from tournament_assets.reports.cost_estimate import cost_sentences
from tournament_assets.storage.tables import decode_parquet
from tournament_assets.tournament.asset_rows import ResponseRow
from tournament_assets.tournament.prompts import Prompt, parse_prompt_bank

KEY = "sk-served-0123456789"
BANK_ORDER = [row["prompt_id"] for row in bank_rows()]


@pytest.fixture
def project(tmp_path: Path, chat: ChatServer) -> SmallProject:
    project = make_project(tmp_path / "project", dimensions=("calibration",))
    describe(project, chat)
    return project


def describe(project: SmallProject, chat: ChatServer, **changes: Any) -> None:
    """Let a server answer for one of two entrants."""
    recorded = yaml.safe_load(project.config_path.read_text())["entrants"][0]
    served = {
        "entrant_id": "served",
        "loader": "openai_api",
        "base_url": chat.url,
        "model": MODEL,
        "max_new_tokens": 64,
        "max_concurrency": 3,
        **changes,
    }
    project.edit_config(entrants=[recorded, served])


def served_rows(project: SmallProject, mode: str = "headline") -> list[dict[str, Any]]:
    folder = project.folder / "storage" / "small" / "entrant_responses" / "served"
    payload = (folder / f"{mode}.parquet").read_bytes()
    return table_rows(ResponseRow, decode_parquet(ResponseRow, payload))


def kept(project: SmallProject) -> dict[str, str]:
    """What the ledger holds of the served entrant, by prompt id."""
    entrant = api_entrant()
    with closing(Ledger(default_ledger_url(project.folder))) as ledger:
        found = ledger.responses(
            entrant.fingerprint(entrant.content_hash),
            [prompt.fingerprint for prompt in bank()],
            cuts_thoughts=False,
        )
    return {response.prompt_id: response.text for response in found.values()}


def bank() -> list[Prompt]:
    return parse_prompt_bank([(f"bank:{n}", row) for n, row in enumerate(bank_rows(), 1)])


def test_a_served_model_plays_and_a_second_run_needs_no_server(
    project: SmallProject, chat: ChatServer
) -> None:
    describe(project, chat, base_url={"env": "SERVED_URL"})
    summary = project.run("headline", environment={"SERVED_URL": chat.url})
    assert summary.responses_generated == len(BANK_ORDER)
    assert set(summary.leaderboard["entrant_id"]) == {"careful", "served"}
    assert sorted(asked.prompt for asked in chat.asked) == sorted(p.text for p in bank())
    rows = served_rows(project)
    assert [row["prompt_id"] for row in rows] == BANK_ORDER
    assert rows[0]["response"] == f"Answer to: {bank()[0].text}"
    assert (rows[0]["prompt_tokens"], rows[0]["response_tokens"]) == (7, 5)
    assert json.loads(rows[0]["diagnostics"])["served_model"] == "tiny-as-served"
    assert all(json.loads(row["diagnostics"])["seconds"] > 0 for row in rows)
    page = (summary.directory / "report.html").read_text()
    assert "another model answered for served" in page
    assert f"12 of 12 (100.0 %) by {MODEL}-as-served" in re.sub(r"&#\d+;|'", "", page)
    stored = project.stored_files()
    chat.forget()
    assert project.run("headline").responses_generated == 0
    assert (chat.asked, chat.looks) == ([], 0)
    assert project.stored_files() == stored


def test_the_audit_says_that_another_model_answered_for_an_entrant(project: SmallProject) -> None:
    made = project.tables("audit", mode="headline")
    found = made.metadata["audit", ""]["answered_by"]
    assert found.startswith("served: ")
    assert f"{len(BANK_ORDER)} of {len(BANK_ORDER)} " in found
    assert "by 'tiny-as-served'" in found


def test_a_prompt_without_an_answer_is_missing_and_a_check_says_why(
    project: SmallProject, chat: ChatServer
) -> None:
    chat.fail("number 2 in", JSONResponse(completion(None, refusal="No colours.")), times=2)
    chat.fail("number 5 in", refusal(422, "broken"), times=2)
    made = project.tables("entrant_responses", mode="headline")
    missing = ["recall-2", "recall-5"]
    expected = [name for name in BANK_ORDER if name not in missing]
    assert [row["prompt_id"] for row in served_rows(project)] == expected
    (warning,) = made.warnings
    assert warning.startswith("response_coverage: ")
    assert "2 of 12 " in warning
    assert "(recall-2, recall-5)" in warning
    assert "No colours." in warning
    assert set(kept(project)) == set(expected)


def test_a_refused_key_is_told_before_the_run_and_written_nowhere(
    project: SmallProject, chat: ChatServer, capfd: pytest.CaptureFixture[str]
) -> None:
    chat.key = "another"
    describe(project, chat, api_key_env="SERVED_KEY")
    with pytest.raises(InputError, match=r"'served'.* 401") as caught:
        project.run("pilot", environment={"SERVED_KEY": KEY})
    assert not chat.asked
    # Refused in the middle of the run, after the look.
    chat.key = KEY
    chat.fail("", refusal(401, f"the key {KEY} has expired"))
    with pytest.raises(WorkError, match=r" 401.*\[key\] "):
        project.run("pilot", environment={"SERVED_KEY": KEY})
    assert len(chat.asked) == 1
    project.run("pilot", environment={"SERVED_KEY": KEY})
    files = [path for path in project.folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    said = capfd.readouterr()
    assert KEY not in said.out + said.err + str(caught.value)


def test_a_key_that_is_not_set_is_told_before_the_run(
    project: SmallProject, chat: ChatServer
) -> None:
    describe(project, chat, api_key_env="SERVED_KEY")
    with pytest.raises(InputError, match="SERVED_KEY"):
        project.run("pilot")
    assert chat.looks == 0


def test_a_budget_is_estimated_and_kept_and_a_larger_one_goes_on(
    project: SmallProject, chat: ChatServer
) -> None:
    chat.usage = {"prompt_tokens": 30, "completion_tokens": 64}
    project.merge_config(
        judging={"prices": {MODEL: {"input": 1000.0, "output": 1000.0}}},
        generation={"budget": {"usd": 0.01}},
    )
    told = estimate_tournament(load_plan(project.config_path, project.environment), "headline")
    assert [(each.entrant_id, each.workload.to_ask) for each in told.responses] == [("served", 12)]
    assert told.response_problem is not None
    assert "generation.budget.usd" in told.response_problem
    assert "12 to ask, $" in cost_sentences("responses", told)[0]
    for budget, n_asked in ((0.01, 0), (1.0, 3)):
        project.edit_config(generation={"budget": {"usd": budget}})
        with pytest.raises(WorkError, match=r"generation\.budget\.usd"):
            project.tables("entrant_responses", mode="headline")
        assert len(chat.asked) >= n_asked
        assert len(chat.asked) * 0.094 <= budget
    project.edit_config(generation={"budget": {"usd": 10.0}})
    project.tables("entrant_responses", mode="headline")
    assert len(chat.asked) == len(served_rows(project)) == 12
    assert (
        cost_sentences(
            "responses",
            estimate_tournament(load_plan(project.config_path, project.environment), "headline"),
        )
        == []
    )


def test_a_server_that_is_not_there_is_told_before_the_run(
    project: SmallProject, chat: ChatServer
) -> None:
    describe(project, chat, base_url="http://127.0.0.1:1/v1")
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:1;"):
        project.run("pilot")


def test_a_model_that_nobody_knows_is_told_before_anything_is_generated(
    project: SmallProject, chat: ChatServer
) -> None:
    described = {"service": "openai_api", "base_url": chat.url, "model": f"{MODEL}x"}
    project.edit_judges(**described)
    hint = rf"{MODEL}x.*; did you mean {MODEL!r}\?"
    with pytest.raises(InputError, match=rf"the judge 'pilot'.*{hint}"):
        project.run("pilot")
    project.edit_judges(**{**described, "base_url": "http://127.0.0.1:1/v1"})
    with pytest.raises(InputError, match=r"the judge 'pilot'.*http://127\.0\.0\.1:1;"):
        project.run("pilot")
    describe(project, chat, model=f"{MODEL}x")
    with pytest.raises(InputError, match=rf"entrant 'served'.*{hint}"):
        project.run("pilot")
    assert not chat.asked
