"""Judgments that come from files."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from tests.extras.transfers.test_judgment_files import RECORD, replied
from tests.judging.builders import turned_round
from tests.projects import (
    SmallProject,
    bank_rows,
    make_project,
    recorded_responses,
    write_json_lines,
)
from tournament_assets.extras.transfers.judgment_files import write_judgments
from tournament_assets.extras.transfers.transfers import import_files, import_judgments
from tournament_assets.foundation.errors import InputError
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.ledger import Ledger
from tournament_assets.preparing.existing_work import (
    existing_requests,
    known_responses,
    load_bank_and_selection,
)
from tournament_assets.project.plan import TournamentPlan, load_plan
from tournament_assets.tournament.entrants import AnthropicApiEntrant


def key_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")) as ledger:
        yield ledger


def test_thousands_of_rows_are_imported_in_a_few_transactions(
    tmp_path: Path, ledger: Ledger
) -> None:
    path = tmp_path / "judgments_factuality.jsonl"
    words = {True: "VERDICT: A", False: "Gateway is restarting"}
    write_judgments(
        path,
        (
            replied(request_key=key_of(number), text=words[number % 10 > 0])
            for number in range(5000)
        ),
    )
    commits: list[object] = []
    sa.event.listen(ledger._engine, "commit", commits.append)
    (report,) = import_judgments([path], ledger=ledger)
    assert (report.records, report.added, report.failures) == (5000, 4500, 500)
    assert len(commits) <= 12
    assert set(ledger.failed_keys([key_of(10), key_of(11)])) == {key_of(10)}
    (again,) = import_judgments([path], ledger=ledger)
    assert again.added == 0


def plan_of(project: SmallProject) -> TournamentPlan:
    return load_plan(project.config_path, {})


def cached_row(pair: PairToJudge, *, swap: bool = False, **changes: Any) -> dict[str, Any]:
    """Build a row as the cache of an earlier program kept it."""
    return {
        "cache_key": "0123456789ab",
        "judge_model": "claude-pilot",
        "prompt_id": pair.prompt_id,
        "entrant_a": pair.entrant_a,
        "entrant_b": pair.entrant_b,
        "position_swap": swap,
        "response_a": pair.response_a,
        "response_b": pair.response_b,
        "raw_text": "Better.\nVERDICT: A",
        **changes,
    }


def short_key(pair: PairToJudge, rubric: str, *, swap: bool, is_ascii: bool = True) -> str:
    values = {
        "rubric_text": rubric,
        "judge_model": "claude-pilot",
        "prompt_id": pair.prompt_id,
        "entrant_a": pair.entrant_a,
        "entrant_b": pair.entrant_b,
        "position_swap": swap,
        "response_a": pair.response_a,
        "response_b": pair.response_b,
    }
    return hashlib.sha256(
        json.dumps(values, sort_keys=True, ensure_ascii=is_ascii).encode()
    ).hexdigest()[:12]


def test_the_rows_of_an_earlier_cache_answer_todays_requests_or_are_counted(
    tmp_path: Path, ledger: Ledger
) -> None:
    project = make_project(tmp_path / "project", service="anthropic", dimensions=("factuality",))
    plan = plan_of(project)
    requests = existing_requests(plan, "pilot", plan.config.lead("pilot"), ledger=ledger)[
        "factuality"
    ]
    one, two, three, four, five, *_ = requests.pairs
    rubric = (project.folder / "rubrics" / "factuality.txt").read_text()
    no_texts: dict[str, Any] = {"response_a": None, "response_b": None}
    turned = turned_round(two)
    matching = [
        cached_row(one, raw_text="First.\nVERDICT: B"),
        cached_row(one),  # the later one of two is the cache's
        cached_row(one, swap=True, raw_text="VERDICT: TIE"),
        cached_row(turned, raw_text="turned\nVERDICT: A"),
        cached_row(three, swap=True, cache_key=short_key(three, rubric, swap=True), **no_texts),
        cached_row(four, raw_text="Gateway is restarting"),
    ]
    others = [
        cached_row(five, response_a="Something else."),
        cached_row(five, judge_model="claude-of-old"),
        cached_row(five, prompt_id="nobody-asked"),
        cached_row(five, **no_texts),
        cached_row(five, entrant_b="stranger"),
        cached_row(five, raw_text=None),
        cached_row(five, judge_model=None),
    ]
    path = tmp_path / "judgments_factuality.jsonl"
    write_json_lines(path, [*others, *matching])
    (report,) = import_files([path], plan, ledger=ledger)
    assert (report.records, report.added, report.failures) == (13, 4, 1)
    assert report.unmatched == len(others)
    texts = {
        position: reply.text
        for position, request in enumerate(requests)
        for reply in ledger.iterate_replies([request.request_key])
    }
    assert texts == {
        0: "Better.\nVERDICT: A",
        1: "VERDICT: TIE",
        3: "turned\nVERDICT: A",
        5: "Better.\nVERDICT: A",
    }
    assert set(ledger.failed_keys([requests[6].request_key])) == {requests[6].request_key}


def test_a_row_without_texts_is_known_by_its_hash_however_it_was_computed(
    tmp_path: Path, ledger: Ledger
) -> None:
    project = make_project(tmp_path / "project", service="anthropic", dimensions=("factuality",))
    rubric_path = project.folder / "rubrics" / "factuality.txt"
    rubric_path.write_text(rubric_path.read_text() + "\nNaïve answers are worse.\n", "utf-8")
    rubric = rubric_path.read_text("utf-8")
    plan = plan_of(project)
    requests = existing_requests(plan, "pilot", plan.config.lead("pilot"), ledger=ledger)[
        "factuality"
    ]
    one, two, *_ = requests.pairs
    nothing: dict[str, Any] = {"response_a": None, "response_b": None, "raw_text": None}
    turned = turned_round(two)
    rows = [
        cached_row(
            one,
            cache_key=short_key(one, rubric, swap=False, is_ascii=False),
            **nothing | {"judge_model": None},
            verdict="B",
            created_at="2026-03-01T12:00:00",
        ),
        # Its entrants were the other way round, so its order was too.
        cached_row(
            turned,
            cache_key=short_key(turned, rubric, swap=True),
            swap=True,
            **nothing,
            verdict="TIE",
            timestamp="2026-03-01T12:00:00+02:00",
        ),
    ]
    path = tmp_path / "judgments_factuality.jsonl"
    write_json_lines(path, rows)
    (report,) = import_files([path], plan, ledger=ledger)
    assert (report.added, report.unmatched) == (2, 0)
    kept = {
        position: (reply.text, reply.received_at)
        for position, request in enumerate(requests)
        for reply in ledger.iterate_replies([request.request_key])
    }
    assert kept == {
        0: ("VERDICT: B", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        2: ("VERDICT: TIE", datetime(2026, 3, 1, 10, tzinfo=UTC)),
    }


def test_an_export_is_no_earlier_cache_though_its_rows_have_short_keys(
    tmp_path: Path, ledger: Ledger
) -> None:
    plan = plan_of(make_project(tmp_path / "project", dimensions=("factuality",)))
    path = tmp_path / "judgments_factuality.jsonl"
    write_judgments(path, [RECORD])
    row = json.loads(path.read_text())
    write_json_lines(path, [{"cache_key": RECORD.reply.request_key[:12], **row}])
    (report,) = import_files([path], plan, ledger=ledger)
    assert (report.records, report.added, report.unmatched) == (1, 1, 0)


def test_a_key_that_is_not_twelve_digits_makes_no_earlier_cache(
    tmp_path: Path, ledger: Ledger
) -> None:
    plan = plan_of(make_project(tmp_path / "project", dimensions=("factuality",)))
    path = tmp_path / "judgments_factuality.jsonl"
    write_json_lines(path, [{"cache_key": "0123456789ab0"}])
    with pytest.raises(InputError, match="request_key"):
        import_files([path], plan, ledger=ledger)


def project_with_claude(tmp_path: Path) -> tuple[SmallProject, str]:
    """Make a project of a recorded entrant, whose name is returned, and of one behind an API."""
    project = make_project(tmp_path / "project", service="anthropic", dimensions=("factuality",))
    claude = {
        "entrant_id": "claude",
        "loader": "anthropic_api",
        "model": "claude-opus-5-5",
        "max_new_tokens": 512,
    }
    recorded = yaml.safe_load(project.config_path.read_text())["entrants"][0]
    project.edit_config(entrants=[recorded, claude])
    return project, recorded["entrant_id"]


def test_the_responses_of_an_earlier_cache_are_kept_for_the_prompts_they_answer(
    tmp_path: Path, ledger: Ledger
) -> None:
    project, name = project_with_claude(tmp_path)
    plan = plan_of(project)
    first, second, third, *_ = bank_rows()
    rows = [
        {
            "cache_key": "0123456789ab",
            "prompt_id": first["prompt_id"],
            "response": "One.",
            "finish_reason": "length",
        },
        {"prompt_id": second["prompt_id"], "prompt": second["text"], "response": "Two."},
        {"prompt_id": third["prompt_id"], "prompt": "Another question?", "response": "Three."},
        {"prompt_id": "nobody-asked", "response": "Four."},
        {"prompt_id": third["prompt_id"], "entrant_id": "gpt", "response": "Five."},
    ]
    path = tmp_path / "responses_claude.jsonl"
    write_json_lines(path, rows)
    own = tmp_path / f"responses_{name}.jsonl"
    write_json_lines(own, [*recorded_responses(name), rows[0]])
    bought, known = import_files([path, own], plan, ledger=ledger)
    assert (bought.records, bought.added, bought.unmatched) == (5, 2, 3)
    assert (known.added, known.unmatched) == (0, 1)
    bank, prompts = load_bank_and_selection(plan, "headline")
    entrant = plan.config.entrants[1]
    assert known_responses(plan, entrant, bank, prompts, ledger=ledger) == {
        (first["prompt_id"], 1): "One.",
        (second["prompt_id"], 1): "Two.",
    }
    assert isinstance(entrant, AnthropicApiEntrant)
    kept = ledger.responses(
        entrant.fingerprint(entrant.content_hash),
        [prompt.fingerprint for prompt in prompts],
        cuts_thoughts=False,
    )
    assert {response.prompt_id: response.finish_reason for response in kept.values()} == {
        first["prompt_id"]: "length",
        second["prompt_id"]: "recorded",
    }


def test_judgments_are_matched_to_the_responses_of_the_same_cache(
    tmp_path: Path, ledger: Ledger
) -> None:
    project, recorded = project_with_claude(tmp_path)
    plan = plan_of(project)
    row = bank_rows()[0]
    responses = tmp_path / "responses_claude.jsonl"
    write_json_lines(responses, [{"prompt_id": row["prompt_id"], "response": "One."}])
    judgments = tmp_path / "judgments_factuality.jsonl"
    texts = {each["prompt_id"]: each["response"] for each in recorded_responses(recorded)}
    judged = {
        "cache_key": "0123456789ab",
        "judge_model": "claude-headline",
        "prompt_id": row["prompt_id"],
        "entrant_a": recorded,
        "entrant_b": "claude",
        "position_swap": False,
        "response_a": texts[row["prompt_id"]],
        "response_b": "One.",
        "verdict": "B",
    }
    write_json_lines(judgments, [judged])
    reports = import_files([judgments, responses], plan, ledger=ledger)
    assert {each.path.name: (each.added, each.unmatched) for each in reports} == {
        responses.name: (1, 0),
        judgments.name: (1, 0),
    }


@pytest.mark.parametrize("name", ["judgments_beauty.jsonl", "responses_nobody.jsonl"])
def test_a_cache_file_of_nothing_in_the_config_is_refused(
    tmp_path: Path, ledger: Ledger, name: str
) -> None:
    plan = plan_of(make_project(tmp_path / "project", dimensions=("factuality",)))
    write_json_lines(tmp_path / name, [{"cache_key": "0123456789ab"}])
    with pytest.raises(InputError, match="rename"):
        import_files([tmp_path / name], plan, ledger=ledger)
