from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from tests.graph.changed_judge import ChangedJudge
from tests.graph.paid_projects import SECRET, PaidProject, paid_project
from tournament_assets.definitions import build_plan
from tournament_assets.graph.adapter import build_reported_checks
from tournament_assets.graph.table import rows_of
from tournament_assets.loopback.running import LoopbackServer
from tournament_assets.project.config_files import load_config
from tournament_assets.tournament.fingerprints import fingerprint

JOB = "small_check_drift"
OP = "small__judge_drift"
ANCHORS = 8
PRESENTATIONS = 2 * ANCHORS


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PaidProject]:
    """A pilot that is judged; what happens later happens in this order."""
    with paid_project(tmp_path_factory.mktemp("drift")) as paid:
        paid.configure_judge(anchor_pairs=ANCHORS)
        paid.run_recorded()
        yield paid


def launch(paid: PaidProject, **options: Any) -> dg.ExecuteInProcessResult:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ANTHROPIC_API_KEY", SECRET)
        return paid.events(JOB, run_config={"ops": {OP: {"config": options}}})


def check_drift(paid: PaidProject, occasion: str | None) -> dg.ExecuteInProcessResult:
    result = launch(paid) if occasion is None else launch(paid, occasion=occasion)
    assert result.success
    return result


def check_of(result: dg.ExecuteInProcessResult) -> Any:
    (evaluation,) = result.get_asset_check_evaluations()
    assert evaluation.check_name == "judge_has_not_drifted"
    return evaluation


def metadata_of(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = result.get_asset_materialization_events()
    metadata = event.step_materialization_data.materialization.metadata
    return {name: value.value for name, value in metadata.items()}


def settle_by_hand(paid: PaidProject, keys: dict[str, str], row: dict[str, Any]) -> str:
    """Settle a pair from the last lines of the two texts that the ledger holds."""
    with paid.ledger() as ledger:
        texts = {reply.request_key: reply.text for reply in ledger.iterate_replies(keys.values())}
    winners = []
    for side, first, second in (("ab", "a_wins", "b_wins"), ("ba", "b_wins", "a_wins")):
        last = (texts[keys[side]] or "").split("\n")[-1]
        assert row["dimension"] == "factuality"
        winners.append(
            {"VERDICT: A": first, "VERDICT: B": second, "VERDICT: TIE": "tie"}.get(last, "nobody")
        )
    if "nobody" in winners:
        return "unjudged"
    return winners[0] if winners[0] == winners[1] else "inconsistent"


def flips_by_hand(paid: PaidProject, occasion: str) -> tuple[int, int, int]:
    """Count flips, pairs judged both times and pairs not judged, one pair after the other."""
    verdicts = {
        (row["prompt_id"], row["entrant_a"], row["entrant_b"]): row
        for row in paid.rows("judge_verdicts")
    }
    flipped = judged = missing = 0
    for row in paid.rows("judge_drift"):
        known = verdicts[row["prompt_id"], row["entrant_a"], row["entrant_b"]]
        first = {side: known[f"request_key_{side}"] for side in ("ab", "ba")}
        again = {side: fingerprint([key, "drift", occasion]) for side, key in first.items()}
        then, now = settle_by_hand(paid, first, row), settle_by_hand(paid, again, row)
        if now == "unjudged":
            missing += 1
        else:
            judged += 1
            flipped += then != now
    return flipped, judged, missing


def test_the_same_judge_flips_nothing_and_is_asked_for_the_anchors_alone(
    judged: PaidProject,
) -> None:
    stored = judged.project.stored_files()
    before = judged.server.log.requests
    result = check_drift(judged, "monday")
    assert judged.server.log.requests - before == PRESENTATIONS
    assert check_of(result).passed
    numbers = metadata_of(result)
    assert (numbers["flip_rate"], numbers["anchors_judged"]) == (0.0, ANCHORS)
    assert numbers["requests_submitted_now"] == PRESENTATIONS
    assert {row["occasion"] for row in judged.rows("judge_drift")} == {"monday"}
    assert all(row["earlier_occasion"] is None for row in judged.rows("judge_drift"))
    after = judged.project.stored_files()
    changed = {name for name, content in after.items() if stored.get(name) != content}
    assert {name.split("/")[1] for name in changed} == {"judge_drift"}


def test_the_same_occasion_is_not_paid_for_twice(judged: PaidProject) -> None:
    before = judged.server.log.requests
    rows = judged.rows("judge_drift")
    assert metadata_of(check_drift(judged, "monday"))["requests_submitted_now"] == 0
    assert judged.server.log.requests == before
    assert judged.rows("judge_drift") == rows


def test_the_ui_shows_the_check_and_repeats_it_for_nothing(judged: PaidProject) -> None:
    before = judged.server.log.requests
    graph = judged.definitions().resolve_asset_graph()
    shown = {(key.asset_key.path[-1], key.name) for key in graph.asset_check_keys}
    assert ("judge_drift", "judge_has_not_drifted") in shown
    plan = build_plan(load_config(judged.project.config_path), judged.environment)
    (check,) = build_reported_checks(plan, rows_of(plan).values())
    with dg.DagsterInstance.from_config(judged.project.environment["DAGSTER_HOME"]) as instance:
        found = check(dg.build_asset_check_context(instance=instance))
    never = check(dg.build_asset_check_context())
    assert isinstance(found, dg.AssetCheckResult)
    assert isinstance(never, dg.AssetCheckResult)
    assert found.passed
    assert "factuality, pilot: " in (found.description or "")
    assert not never.passed
    assert "the job small_check_drift looks" in (never.description or "")
    assert judged.server.log.requests == before


def test_the_next_occasion_asks_anew_and_looks_back(judged: PaidProject) -> None:
    before = judged.server.log.requests
    result = check_drift(judged, "tuesday")
    assert judged.server.log.requests - before == PRESENTATIONS
    rows = judged.rows("judge_drift")
    assert {row["earlier_occasion"] for row in rows} == {"monday"}
    assert not any(row["flipped_since"] for row in rows)
    assert metadata_of(result)["flip_rate_since_earlier"] == 0.0
    # An occasion of long ago is compared with what was before it, not with what came later.
    check_drift(judged, "monday")
    assert {row["earlier_occasion"] for row in judged.rows("judge_drift")} == {None}


def test_a_judge_that_has_changed_is_found(judged: PaidProject) -> None:
    with ChangedJudge("hedges once") as server:
        result = check_drift(replace(judged, server=server), "wednesday")
        assert server.log.requests == PRESENTATIONS
    flipped, both, missing = flips_by_hand(judged, "wednesday")
    assert 0 < flipped < both == ANCHORS
    assert missing == 0
    numbers = metadata_of(result)
    assert numbers["flip_rate"] == flipped / both
    assert numbers["flip_rate_since_earlier"] == flipped / both
    assert sum(row["flipped"] for row in judged.rows("judge_drift")) == flipped
    check = check_of(result)
    assert not check.passed
    assert numbers["flip_rate_low"] > 0.10
    assert f"{flipped} of {both} anchor pairs" in check.description
    assert "10.0 % (checks.max_drift_rate): the judge has drifted" in check.description
    assert "judge everything by another judge_model" in check.description


def test_what_is_not_judged_is_neither_a_flip_nor_agreement(judged: PaidProject) -> None:
    with LoopbackServer(processing_seconds=0, faults=("row_invalid_request_error:3",)) as server:
        result = check_drift(replace(judged, server=server), "thursday")
    flipped, both, missing = flips_by_hand(judged, "thursday")
    assert (flipped, both + missing) == (0, ANCHORS)
    assert missing in (2, 3)
    numbers = metadata_of(result)
    assert (numbers["anchors_judged"], numbers["anchors_unjudged"]) == (both, missing)
    unjudged = [row for row in judged.rows("judge_drift") if row["outcome"] == "unjudged"]
    assert len(unjudged) == missing
    assert all(row["flipped"] is None and row["flipped_since"] is None for row in unjudged)
    assert f"counted as neither: {missing}" in check_of(result).description


def test_an_occasion_that_waits_for_its_batch_is_gone_on_with(judged: PaidProject) -> None:
    with LoopbackServer(processing_seconds=1) as server:
        slow = replace(judged, server=server)
        assert not launch(slow, occasion="friday", wait_seconds=0.0).success
        result = check_drift(slow, None)
        assert server.log.requests == PRESENTATIONS
    assert metadata_of(result)["occasion"] == "friday"


def test_an_edited_rubric_is_no_drift_and_costs_nothing(judged: PaidProject) -> None:
    rubric = judged.project.folder / "rubrics" / "factuality.txt"
    text = rubric.read_text()
    before = judged.server.log.requests
    rubric.write_text(text + "\nPrefer the shorter one.\n")
    result = check_drift(judged, "saturday")
    rubric.write_text(text)
    assert judged.server.log.requests == before
    assert judged.rows("judge_drift") == []
    check = check_of(result)
    assert not check.passed
    assert "none of them by the rubric and the texts as they are now" in check.description
    assert "flip_rate" not in metadata_of(result)
