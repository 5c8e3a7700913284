import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import dagster as dg
import pytest

from tests.graph.changed_judge import ChangedJudge
from tests.graph.paid_projects import UNTIL_ENDED, PaidProject, paid_project
from tests.ledger.builders import BEGUN_AT, SCOPE, begin_batch
from tests.loopback.faults.servers import FaultyServer
from tournament_assets.definitions import default_ledger_url
from tournament_assets.extras.judge_tests.judge_repeats import (
    RepeatOptions,
    choose_drift_check,
    judge_repeats,
)
from tournament_assets.extras.judge_tests.rows import RetestRow
from tournament_assets.foundation.errors import InputError, WorkError
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.graph.adapter import build_reported_checks
from tournament_assets.graph.outputs import Check, Made
from tournament_assets.graph.resources import LedgerResource
from tournament_assets.graph.rows import Log, Step
from tournament_assets.graph.table import row_of, rows_of
from tournament_assets.ledger import Ledger
from tournament_assets.project.plan import load_plan
from tournament_assets.providers.openers import JudgeConnection
from tournament_assets.storage.tables import StoredTable

JOB = "__ASSET_JOB_small_check_drift"
ANCHORS = 3
DRAWN = 8
PRESENTATIONS = 2 * ANCHORS


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[PaidProject]:
    """A pilot that is judged."""
    with paid_project(tmp_path / "judged") as paid:
        paid.project.merge_config(judging={"tests": {"anchor_pairs": DRAWN}})
        paid.tables("judge_verdicts")
        yield paid


def repeat(
    paid: PaidProject, occasion: str | None, *, wait_seconds: float | None = None
) -> Made[list[RetestRow]]:
    """Call the asset's function on the pilot that is stored."""
    folder = paid.project.folder / "storage" / "small"
    pairs, verdicts = (
        StoredTable(row_of(name).row_type, folder / name / "factuality" / "pilot.parquet")
        for name in ("match_list", "judge_verdicts")
    )
    plan = load_plan(paid.project.config_path, paid.environment)
    log = cast("Log", logging.getLogger("step"))
    return judge_repeats(
        Step(plan, "pilot", "factuality", log, lambda asset, partition: None),
        pairs,
        verdicts,
        RepeatOptions(occasion, wait_seconds),
        LedgerResource(url=default_ledger_url(paid.project.folder)),
        JudgeConnection.from_environment(paid.environment, paid.project.folder),
    )


def check_of(made: Made[list[RetestRow]]) -> Check:
    (check,) = made.checks
    assert check.name == "judge_has_not_drifted"
    return check


def settle_by_hand(paid: PaidProject, keys: dict[str, str]) -> str:
    """Settle a pair from the last lines of the two texts that the ledger holds."""
    with paid.ledger() as ledger:
        texts = {reply.request_key: reply.text for reply in ledger.iterate_replies(keys.values())}
    winners = []
    for side, first, second in (("ab", "a_wins", "b_wins"), ("ba", "b_wins", "a_wins")):
        last = (texts[keys[side]] or "").split("\n")[-1]
        winners.append(
            {"VERDICT: A": first, "VERDICT: B": second, "VERDICT: TIE": "tie"}.get(last, "nobody")
        )
    if "nobody" in winners:
        return "unjudged"
    return winners[0] if winners[0] == winners[1] else "inconsistent"


def flips_by_hand(
    paid: PaidProject, rows: Sequence[RetestRow], occasion: str
) -> tuple[int, int, int]:
    """Count flips, pairs judged both times and pairs not judged, one pair after the other."""
    verdicts = {
        (row["prompt_id"], row["entrant_a"], row["entrant_b"]): row
        for row in paid.rows("judge_verdicts")
    }
    flipped = judged = missing = 0
    for row in rows:
        known = verdicts[row.prompt_id, row.entrant_a, row.entrant_b]
        first = {side: known[f"request_key_{side}"] for side in ("ab", "ba")}
        again = {side: fingerprint([key, "drift", occasion]) for side, key in first.items()}
        then, now = settle_by_hand(paid, first), settle_by_hand(paid, again)
        if now == "unjudged":
            missing += 1
        else:
            judged += 1
            flipped += then != now
    return flipped, judged, missing


def test_the_same_judge_flips_nothing_and_is_paid_once_an_occasion_for_the_anchors_alone(
    judged: PaidProject,
) -> None:
    before = judged.server.log.requests
    made = repeat(judged, "monday")
    assert judged.server.log.requests - before == PRESENTATIONS
    assert check_of(made).passed
    assert (made.metadata["flip_rate"], made.metadata["anchors_judged"]) == (0.0, ANCHORS)
    assert made.metadata["requests_submitted_now"] == PRESENTATIONS
    assert {(row.occasion, row.name) for row in made.value} == {(1, "monday")}
    again = repeat(judged, "monday")
    assert again.metadata["requests_submitted_now"] == 0
    assert judged.server.log.requests - before == PRESENTATIONS
    assert again.value == made.value


def test_the_job_stores_the_anchors_and_the_ui_shows_its_check_for_nothing(
    judged: PaidProject,
) -> None:
    graph = judged.definitions().resolve_asset_graph()
    shown = {(key.asset_key.path[-1], key.name) for key in graph.asset_check_keys}
    assert ("judge_repeats", "judge_has_not_drifted") in shown
    stored = judged.project.stored_files()
    assert judged.events(JOB).success
    after = judged.project.stored_files()
    changed = {name for name, content in after.items() if stored.get(name) != content}
    assert {name.split("/")[1] for name in changed} == {"judge_repeats"}
    before = judged.server.log.requests
    plan = load_plan(judged.project.config_path, judged.environment)
    (check,) = build_reported_checks(plan, rows_of(plan).values())
    with dg.DagsterInstance.from_config(judged.project.environment["DAGSTER_HOME"]) as instance:
        found = check(dg.build_asset_check_context(instance=instance))
    never = check(dg.build_asset_check_context())
    assert isinstance(found, dg.AssetCheckResult)
    assert isinstance(never, dg.AssetCheckResult)
    assert found.passed
    assert "factuality, pilot: " in (found.description or "")
    assert not never.passed
    assert "small_test_judge" in (never.description or "")
    assert judged.server.log.requests == before


def test_the_next_occasion_asks_anew_and_looks_back(judged: PaidProject) -> None:
    repeat(judged, "monday")
    before = judged.server.log.requests
    made = repeat(judged, "tuesday")
    assert judged.server.log.requests - before == PRESENTATIONS
    names = {(row.occasion, row.name) for row in made.value}
    assert names == {(1, "monday"), (2, "tuesday")}
    assert made.metadata["earlier_occasion"] == "monday"
    assert made.metadata["flip_rate_since_earlier"] == 0.0
    # An occasion of long ago is compared with what was before it, not with what came later.
    assert {row.name for row in repeat(judged, "monday").value} == {"monday"}


def test_a_judge_that_has_changed_is_found(judged: PaidProject) -> None:
    repeat(judged, "tuesday")
    with ChangedJudge("hedges once") as server:
        made = repeat(replace(judged, server=server), "wednesday")
        assert server.log.requests == PRESENTATIONS
    now = [row for row in made.value if row.name == "wednesday"]
    flipped, both, missing = flips_by_hand(judged, now, "wednesday")
    assert 0 < flipped < both == ANCHORS
    assert missing == 0
    assert made.metadata["flip_rate"] == flipped / both
    assert made.metadata["flip_rate_since_earlier"] == flipped / both
    assert sum(row.outcome != row.expected for row in now) == flipped
    check = check_of(made)
    assert not check.passed
    assert made.metadata["flip_rate_low"] > check.metadata["max_drift_rate"] == 0.10
    assert f"{flipped} of {both} " in check.description
    assert "the judge has drifted" in check.description


def test_what_is_not_judged_is_neither_a_flip_nor_agreement(judged: PaidProject) -> None:
    repeat(judged, "wednesday")
    with FaultyServer(processing_seconds=0, faults=("row_invalid_request_error:3",)) as server:
        made = repeat(replace(judged, server=server), "thursday")
    now = [row for row in made.value if row.name == "thursday"]
    flipped, both, missing = flips_by_hand(judged, now, "thursday")
    assert (flipped, both + missing) == (0, ANCHORS)
    assert missing in (2, 3)
    numbers = made.metadata
    assert (numbers["anchors_judged"], numbers["anchors_unjudged"]) == (both, missing)
    unjudged = [row for row in now if row.outcome == "unjudged"]
    assert len(unjudged) == missing


def test_an_occasion_that_waits_for_its_batch_is_gone_on_with(judged: PaidProject) -> None:
    with FaultyServer(processing_seconds=UNTIL_ENDED) as server:
        slow = replace(judged, server=server)
        with pytest.raises(WorkError):
            repeat(slow, "friday", wait_seconds=0.0)
        slow.end_batches()
        made = repeat(slow, None)
        assert server.log.requests == PRESENTATIONS
    assert made.metadata["occasion"] == "friday"


def test_an_edited_rubric_is_no_drift_and_costs_nothing(judged: PaidProject) -> None:
    rubric = judged.project.folder / "rubrics" / "factuality.txt"
    before = judged.server.log.requests
    rubric.write_text(rubric.read_text() + "\nPrefer the shorter one.\n")
    made = repeat(judged, "saturday")
    assert judged.server.log.requests == before
    assert made.value == []
    check = check_of(made)
    assert not check.passed
    assert "no anchor pair" in check.description
    assert "flip_rate" not in made.metadata


MONDAY, TUESDAY = (replace(SCOPE, purpose=f"drift {day}") for day in ("monday", "tuesday"))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    yield opened
    opened.close()


def choose(ledger: Ledger, given: str | None = None, *, days: float = 1) -> str:
    return choose_drift_check(
        given,
        tournament_id=SCOPE.tournament_id,
        values={"mode": SCOPE.mode, "dimension": SCOPE.dimension},
        ledger=ledger,
        now=BEGUN_AT + timedelta(days=days),
    )


def test_an_occasion_without_a_name_is_today(ledger: Ledger) -> None:
    assert choose(ledger) == "2026-03-02"


def test_the_newest_occasion_that_waits_for_a_batch_is_gone_on_with(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", scope=TUESDAY, begun_at=BEGUN_AT + timedelta(hours=1))
    begin_batch(ledger, "n2", scope=MONDAY)
    assert choose(ledger) == "tuesday"
    assert choose(ledger, " rerun 7 ") == "rerun 7"
    ledger.record_closed("n1", state="harvested")
    assert choose(ledger) == "monday"
    ledger.record_closed("n2", state="harvested")
    assert choose(ledger) == "2026-03-02"


def test_what_waits_for_longer_than_a_week_is_another_occasion(ledger: Ledger) -> None:
    begin_batch(ledger, "n1", scope=MONDAY)
    assert choose(ledger, days=6.9) == "monday"
    assert choose(ledger, days=7.1) == "2026-03-08"


def test_what_else_waits_is_no_occasion(ledger: Ledger) -> None:
    begin_batch(ledger, "n1")
    begin_batch(ledger, "n2", scope=replace(MONDAY, mode="headline"))
    begin_batch(ledger, "n3", scope=replace(MONDAY, dimension="calibration"))
    begin_batch(ledger, "n4", scope=replace(MONDAY, tournament_id="other"))
    assert choose(ledger) == "2026-03-02"


def test_a_blank_name_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InputError, match="' '"):
        choose(ledger, " ")
