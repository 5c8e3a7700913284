import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

import pytest
import yaml
from click.testing import CliRunner

from tests.loopback.threaded_servers import LoopbackServer
from tests.projects import (
    SmallProject,
    make_project,
    recorded_responses,
    write_json_lines,
)
from tests.rows import table_of
from tournament_assets.cli import main
from tournament_assets.definitions import build_definitions
from tournament_assets.foundation.errors import WorkError
from tournament_assets.foundation.formatting import format_usd
from tournament_assets.graph.assets.judging import EstimateOptions, judging_estimate
from tournament_assets.graph.outputs import Made
from tournament_assets.graph.partitions import asset_key
from tournament_assets.graph.resources import LedgerResource
from tournament_assets.graph.rows import Log, Step
from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.costs.estimates import JudgingEstimate
from tournament_assets.judging.requests.pairs import (
    PairToJudge,
    build_match_list,
    filter_pairs_for_dimension,
)
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.ledger import Ledger
from tournament_assets.preparing.estimates import estimate_tournament
from tournament_assets.project.plan import (
    TournamentPlan,
    load_plan,
    requests_for_pairs,
    select_prompts,
)
from tournament_assets.project.project_files import (
    load_prompt_bank,
    load_rubric,
)
from tournament_assets.recorded.samples import read_samples
from tournament_assets.reports.cost_estimate import (
    cost_sentences,
    estimate_rows,
)
from tournament_assets.tournament.asset_rows import MatchRow, RequestsRow

from .bills import (
    OPUS,
    begin,
    bill,
    ledger_of,
    ledger_url,
    make_priced_project,
    plan_of,
)

KEY = "sk-test-estimate"
SCOPE = JudgingScope("small", "pilot", "factuality")
# 4 prompts with a gold answer, 6 in all; 3 pairs a prompt; 2 presentations a pair.
PRESENTATIONS = {"factuality": 24, "calibration": 36}


@pytest.fixture(scope="module")
def judge_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackServer]:
    with LoopbackServer(directory=tmp_path_factory.mktemp("judge")) as server:
        yield server


@pytest.fixture
def served(judge_server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    environment = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": judge_server.url}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment


@pytest.fixture
def project(tmp_path: Path) -> SmallProject:
    return make_priced_project(tmp_path / "project")


def pilot_pairs(plan: TournamentPlan, dimension: str) -> Sequence[PairToJudge]:
    bank = load_prompt_bank(plan.project.folder / "bank.jsonl")
    entrants = plan.config.entrant_ids
    prompts = select_prompts(plan.config, "pilot", bank)
    texts = {
        (entrant, (row.prompt_ids[0], 1)): row.response or ""
        for entrant in entrants
        for row in read_samples(plan.project.folder / f"responses_{entrant}.jsonl").samples
    }
    return filter_pairs_for_dimension(
        build_match_list(prompts, texts, entrants=entrants).pairs,
        needs_gold_answer=plan.config.dimensions[dimension].needs_gold_answer,
    )


def materialise(project: SmallProject, judge_model: str | None = None) -> Made[list[RequestsRow]]:
    """Call the asset's function on the pilot's pairs."""
    plan = plan_of(project)
    match_lists = {
        dimension: table_of(
            MatchRow,
            [{"dimension": dimension, **asdict(pair)} for pair in pilot_pairs(plan, dimension)],
        )
        for dimension in plan.config.dimension_names
    }
    return judging_estimate(
        Step(
            plan, "pilot", "", cast("Log", logging.getLogger("step")), lambda asset, partition: None
        ),
        match_lists,
        EstimateOptions(judge_model=judge_model),
        LedgerResource(url=ledger_url(project)),
    )


def check(result: Made[list[RequestsRow]], name: str) -> tuple[bool, str]:
    """Return whether a check passed, and what it says."""
    (found,) = [each for each in result.checks if each.name == name]
    return found.passed, found.description


def estimate(project: SmallProject) -> JudgingEstimate:
    return estimate_tournament(load_plan(project.config_path, project.environment), "pilot")


def test_the_estimate_is_a_table_of_what_is_to_be_asked_and_its_price(tmp_path: Path) -> None:
    project = make_priced_project(tmp_path / "project", dimensions=tuple(PRESENTATIONS))
    result = materialise(project)
    rows = {row.dimension: row for row in result.value}
    assert list(rows) == list(PRESENTATIONS)
    for dimension, presentations in PRESENTATIONS.items():
        row = rows[dimension]
        assert row.asked == OPUS
        assert row.presentations == row.to_ask == presentations
        assert row.output_tokens == presentations * 512
        prices = (row.usd_all_hits, row.usd_uncached, row.usd_no_hits)
        least, plain, most = (usd or 0 for usd in prices)
        assert 0 < least < plain < most
        assert row.usd_observed is None
    metadata = result.metadata
    assert metadata["to_ask"] == 60
    total = sum(row.usd_no_hits or 0 for row in rows.values())
    assert metadata["usd_no_hits"] == pytest.approx(total, abs=1e-6)
    assert metadata["prices_of"] >= "2026-09"
    assert metadata["usd_spent_this_month"] == 0
    assert "No budget" in metadata["budget"]
    assert "prompt caching" in metadata["prices"].text
    passed, words = check(result, "within_budget")
    assert passed
    assert "pilot: " in words
    assert f"{format_usd(total)}" in words


def test_the_command_and_the_asset_agree(project: SmallProject) -> None:
    metadata = materialise(project).metadata
    told = estimate(project)
    assert told.to_ask == metadata["to_ask"] == 24
    assert told.total_usd(None) == pytest.approx(metadata["usd_uncached"], abs=1e-6)


def test_another_judge_model_can_be_priced(project: SmallProject) -> None:
    result = materialise(project, judge_model="claude-sonnet-5-5")
    assert {row.asked for row in result.value} == {"claude-sonnet-5-5"}


def test_judging_alone_waits_for_the_estimate(project: SmallProject) -> None:
    plan = plan_of(project)
    definitions = build_definitions([plan], project.folder, project.environment)
    node = definitions.resolve_asset_graph().get(asset_key(plan, "judging_estimate"))
    assert node.child_keys == {
        asset_key(plan, name) for name in ("judge_requests", "judge_replies")
    }
    assert {key.path[-1] for key in node.parent_keys} == {"match_list", "price_list", "rubrics"}


def test_a_budget_that_is_too_small_ends_the_run_before_the_first_request(
    project: SmallProject,
    judge_server: LoopbackServer,
    served: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", project.environment["DAGSTER_HOME"])
    project.merge_config(judging={"budget": {"usd": 0.01}})
    before = judge_server.log.to_dict()
    arguments = ["--config", str(project.config_path), "--mode", "pilot"]
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == 1
    assert "within_budget: pilot: " in result.output
    assert "judging.budget.usd" in result.output
    assert judge_server.log.to_dict() == before
    assert not (project.folder / "runs").exists()
    told = CliRunner().invoke(main, ["estimate", *arguments])
    assert told.exit_code == 0
    assert "$0.0100" in told.output
    assert "warning: " in told.output
    scripted = json.loads(CliRunner().invoke(main, ["estimate", *arguments, "--json"]).output)
    assert scripted["is_within_budget"] is False


def test_what_was_paid_is_spent_and_a_budget_that_is_used_up_still_lets_it_be_rated(
    project: SmallProject, judge_server: LoopbackServer, served: dict[str, str]
) -> None:
    project.merge_config(judging={"budget": {"usd": 5.0}})
    project.tables("judge_verdicts", environment=served, limit_pairs=6)
    asked = judge_server.log.requests
    told = estimate(project)
    assert told.budget is not None
    assert 0 < told.budget.spent_usd == told.month.usd
    project.merge_config(judging={"budget": {"usd": 0.0}})
    with pytest.raises(WorkError, match="within_budget"):
        project.tables("judge_verdicts", environment=served)
    project.tables("elo_ratings", environment=served, limit_pairs=6)
    project.tables("elo_ratings", environment=served, skip_judging=True)
    assert judge_server.log.requests == asked


def test_the_estimate_says_how_many_waits_it_takes_where_not_all_fits_at_max_tokens(
    project: SmallProject,
) -> None:
    project.merge_config(judging={"budget": {"usd": 1000.0}})
    told = estimate(project)
    most = told.most_usd
    assert most is not None
    assert told.planned_usd is not None
    assert told.planned_usd < most
    assert format_usd(most) in cost_sentences("budget", told)[0]
    assert told.waits == 1
    project.merge_config(judging={"budget": {"usd": most * 0.8}})
    sliced = estimate(project)
    assert sliced.budget_problem is None
    assert sliced.waits == 2
    assert " about 2 batches" in cost_sentences("budget", sliced)[0]


def test_the_loopback_judge_has_no_budget_and_no_cache_to_pay_for(tmp_path: Path) -> None:
    free = make_project(tmp_path / "free", dimensions=["factuality"])
    free.merge_config(judging={"budget": {"usd": 0.0}})
    result = materialise(free)
    assert check(result, "within_budget")[0]
    assert check(result, "caching_pays")[0]
    assert result.metadata["usd_no_hits"] == 0


def test_a_model_without_a_price_is_refused_only_where_there_is_a_budget_to_keep(
    tmp_path: Path,
) -> None:
    unpriced = make_project(tmp_path / "unpriced", service="anthropic", dimensions=["factuality"])
    assert check(materialise(unpriced), "within_budget")[0]
    unpriced.merge_config(judging={"budget": {"usd": 100.0}})
    passed, words = check(materialise(unpriced), "within_budget")
    assert not passed
    assert "claude-pilot" in words


def test_the_advice_on_a_model_without_a_price_works(
    tmp_path: Path, judge_server: LoopbackServer, served: dict[str, str]
) -> None:
    unpriced = make_project(tmp_path / "unpriced", service="anthropic", dimensions=["factuality"])
    unpriced.merge_config(judging={"budget": {"usd": 100.0}})
    passed, words = check(materialise(unpriced), "within_budget")
    assert not passed
    advice = yaml.safe_load(words.split("such as ")[1].split(", or remove")[0])
    assert list(advice["judging"]["prices"]) == ["claude-pilot"]
    unpriced.merge_config(**advice)
    told = estimate(unpriced)
    assert told.price_source == "judging.prices"
    # A request of some tokens and a reply of 450, at $4 and $20, in a batch.
    workload = told.workloads["factuality"]
    tokens = workload.to_ask * workload.prefix_tokens + workload.message_tokens
    dollars = (tokens * 4 + workload.output_tokens * 20) * 0.5 / 1e6
    assert told.total_usd(None) == pytest.approx(dollars)
    assert check(materialise(unpriced), "within_budget")[0]
    before = judge_server.log.requests
    unpriced.tables("judge_verdicts", environment=served)
    assert judge_server.log.requests == before + 24
    assert estimate(unpriced).month.usd > 0


def test_the_service_counts_a_sample_of_every_dimension_where_it_is_asked_to(
    tmp_path: Path,
    judge_server: LoopbackServer,
    served: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = make_priced_project(tmp_path / "project", dimensions=tuple(PRESENTATIONS))
    # A tokenizer with shorter tokens than the estimate takes for granted.
    monkeypatch.setattr("tournament_assets.loopback.messages._CHARACTERS_PER_TOKEN", 2.5)
    before = judge_server.log.to_dict()
    arguments = ["estimate", "--config", str(project.config_path), "--mode", "pilot"]
    plain = CliRunner().invoke(main, arguments)
    assert "4 characters each" in plain.output
    counted = CliRunner().invoke(main, [*arguments, "--count-tokens"])
    assert counted.exit_code == 0, counted.output
    words = " ".join(counted.output.split())
    assert "factuality 20 requests, \N{MULTIPLICATION SIGN}1.60" in words
    assert judge_server.log.to_dict() == before
    environment = {**project.environment, **served}
    by_characters = estimate(project)
    by_service = estimate_tournament(
        load_plan(project.config_path, environment), "pilot", counts_tokens=True
    )
    for dimension in PRESENTATIONS:
        one, other = by_characters.workloads[dimension], by_service.workloads[dimension]
        assert (other.counted, other.to_ask) == (20, one.to_ask)
        assert other.message_tokens == pytest.approx(1.6 * one.message_tokens, rel=0.01)
        assert other.prefix_tokens == pytest.approx(1.6 * one.prefix_tokens, rel=0.01)


@pytest.mark.parametrize("ties", [True, False])
def test_a_jury_costs_the_same_whether_its_requests_are_looked_up_or_not(
    project: SmallProject, ties: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.seat({"model": OPUS}, {"model": "claude-haiku-4-5", "share": 0.5})
    project.merge_config(judging={"identical_responses_tie": ties})
    quickly = estimate(project)
    monkeypatch.setattr(Ledger, "has_asked", lambda ledger, model: True)
    slowly = estimate(project)
    for name in ("planned_usd", "most_usd"):
        assert getattr(quickly, name) == pytest.approx(getattr(slowly, name), rel=1e-9)
    assert estimate_rows(quickly) == estimate_rows(slowly)


def test_identical_responses_are_not_priced_unless_the_judge_is_asked_about_them(
    project: SmallProject,
) -> None:
    write_json_lines(project.folder / "responses_mixed.jsonl", recorded_responses("careful"))
    workload = estimate(project).workloads["factuality"]
    # One of a prompt's three pairs is a response and its copy; the other two are the same pair.
    assert (workload.presentations, workload.identical) == (24, 8)
    assert workload.to_ask == 8
    project.merge_config(judging={"identical_responses_tie": False})
    asked = estimate(project).workloads["factuality"]
    # Both presentations of a response and its copy are one request.
    assert (asked.presentations, asked.identical, asked.to_ask) == (24, 0, 8 + 4)


def test_what_was_billed_is_learned_from(project: SmallProject) -> None:
    hit = TokenUsage(output_tokens=100, cache_read_input_tokens=2000)
    miss = TokenUsage(output_tokens=100, cache_creation_input_tokens=2000)
    with ledger_of(project) as ledger:
        bill(ledger, "n1", [hit] * 12 + [miss] * 28)
    told = estimate(project)
    assert told.observation is not None
    assert told.observation.n_replies == 40
    assert told.workloads["factuality"].output_tokens == 24 * 100
    # 40 * 100 output tokens at $20, 12 * 2,000 at $0.20 and 28 * 2,000 at $8, in batches.
    assert told.month.usd == pytest.approx((80_000 + 4_800 + 448_000) * 0.5 / 1e6)
    result = materialise(project)
    passed, words = check(result, "caching_pays")
    assert not passed
    assert "30 %" in words
    assert result.metadata["observed_hit_rate"] == pytest.approx(0.3)
    assert all(row.usd_observed is not None for row in result.value)


def keys_to_ask(project: SmallProject) -> list[str]:
    plan = plan_of(project)
    asked = requests_for_pairs(
        plan,
        pilot_pairs(plan, "factuality"),
        load_rubric(plan.config, plan.project, "factuality"),
        judge=plan.config.lead("pilot", model=OPUS),
    )
    return [request.request_key for request in asked]


def test_what_is_under_way_is_committed_and_not_planned_once_more(project: SmallProject) -> None:
    planned = estimate(project).planned_usd
    assert planned is not None
    project.merge_config(judging={"budget": {"usd": planned}})
    with ledger_of(project) as ledger:
        begin(ledger, "n1", keys_to_ask(project)[:18], scope=SCOPE)
    told = estimate(project)
    workload = told.workloads["factuality"]
    assert (workload.under_way, workload.to_ask) == (18, 6)
    assert told.planned_usd == pytest.approx(planned / 4, rel=0.02)
    assert told.budget is not None
    assert told.budget.committed_usd == pytest.approx(planned * 3 / 4, rel=0.02)


def test_what_another_tournament_or_nobody_will_collect_is_asked_again(
    project: SmallProject,
) -> None:
    keys = keys_to_ask(project)
    with ledger_of(project) as ledger:
        begin(ledger, "n1", keys)
        begin(ledger, "n2", keys, scope=SCOPE, channel="direct")
    assert estimate(project).to_ask == len(keys) == 24
