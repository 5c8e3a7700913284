"""A project whose judge has a price, and bills in its ledger that another tournament ran up."""

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import yaml

from tests.projects import SmallProject, make_project
from tournament_assets.judging.batch_service import Channel, ReplyRow, TokenUsage
from tournament_assets.judging.settlement.records import BatchIntent, JudgingScope, Lease
from tournament_assets.ledger import Ledger
from tournament_assets.project.plan import TournamentPlan, load_plan

OPUS = "claude-opus-5-5"
ELSEWHERE = JudgingScope("another", "headline", "tone")


def make_priced_project(
    folder: Path, *, dimensions: Sequence[str] = ("factuality",)
) -> SmallProject:
    """Make a project whose pilot is judged by a model with a price, without a budget."""
    project = make_project(folder, service="anthropic", dimensions=dimensions)
    judges = yaml.safe_load(project.config_path.read_text())["judges"]
    judges[0]["model"] = OPUS
    project.edit_config(judges=judges)
    return project


def plan_of(project: SmallProject) -> TournamentPlan:
    return load_plan(project.config_path, project.environment)


def ledger_url(project: SmallProject) -> str:
    return f"sqlite:///{project.folder / 'ledger' / 'ledger.sqlite'}"


def ledger_of(project: SmallProject) -> closing[Ledger]:
    return closing(Ledger(ledger_url(project)))


def begin(
    ledger: Ledger,
    nonce: str,
    keys: Sequence[str],
    *,
    model: str = OPUS,
    scope: JudgingScope = ELSEWHERE,
    channel: Channel = "batch",
) -> None:
    """Write down that a batch was sent, or that some requests are being asked one by one."""
    lease = ledger.acquire_lease(scope)
    assert isinstance(lease, Lease)
    ledger.record_intent(lease, BatchIntent(nonce, model, 1, channel, datetime.now(UTC), keys))
    ledger.release_lease(lease)


def bill(ledger: Ledger, nonce: str, usages: Sequence[TokenUsage], *, model: str = OPUS) -> None:
    """Write down a harvested batch of another tournament, a reply for each usage."""
    keys = [f"{nonce}-{number}" for number in range(len(usages))]
    begin(ledger, nonce, keys, model=model)
    rows = [
        ReplyRow(
            result_type="succeeded",
            text="VERDICT: A",
            stop_reason="end_turn",
            model=model,
            usage=usage,
        )
        for usage in usages
    ]
    ledger.record_rows(nonce, list(zip(keys, rows, strict=True)))
    ledger.record_closed(nonce, state="harvested")
