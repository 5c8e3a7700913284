"""The summary of a finished run, whichever engine ran it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tournament_assets.audits.missingness import copy_sentences, find_outages
from tournament_assets.foundation.errors import WorkError
from tournament_assets.graph.assets import reports
from tournament_assets.graph.assets.publishing import run_artifacts
from tournament_assets.graph.assets.ratings import win_rates
from tournament_assets.graph.outputs import Check
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.reports.run.page import FIRST_SCREEN
from tournament_assets.reports.trust_tables import red_sentences
from tournament_assets.storage.run_directory import read_manifest
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import CoverageRow, WinRateRow
from tournament_assets.tournament.config import Mode
from tournament_assets.trust.measures import LIGHT_TABLES, lights_of


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a finished run has to show.

    Attributes:
        title: The title of its reports, with the mode.
        question: The question that the tournament answers; empty if none is given.
        leaderboard: The table `leaderboard`.
        win_rates: Rows of the table `win_rates`, of all dimensions.
        requests_submitted: Requests sent to the judge.
        warnings: What the asset checks found, a sentence each, without the red lights.
        outages: What must be said before the leaderboard, a sentence each.
        cautions: What comes next: the judge's red lights, and where texts are copies.
        next_steps: What the report says to do next, a sentence each.
        is_new: Whether this run wrote the directory; if nothing has changed, an earlier one did.
    """

    title: str
    question: str
    leaderboard: pd.DataFrame
    win_rates: tuple[WinRateRow, ...]
    directory: Path
    requests_submitted: int
    responses_generated: int
    confidence: float
    equivalent_within: float
    warnings: tuple[str, ...]
    outages: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    is_new: bool = True


def summarise_run(
    plan: TournamentPlan,
    mode: Mode,
    *,
    table: Callable[[str, str], pd.DataFrame],
    directory: Path | None,
    metadata: Mapping[str, Sequence[Mapping[str, Any]]],
    failed: Sequence[Check],
) -> RunSummary:
    """Return the summary of a finished run.

    Args:
        mode: The mode that ran.
        table: Reads a table by its name and partition, such as `factuality|pilot`.
        directory: The newest run directory.
        metadata: What the materialisations say, by asset, for those that ran.
        failed: The asset checks that failed.
    """
    if directory is None:
        raise WorkError("no run directory is recorded; expected one of a finished run")

    def total(key: str) -> int:
        return sum(int(each.get(key, 0)) for made in metadata.values() for each in made)

    audit = list(rows_of(CoverageRow, table(reports.audit.__name__, mode)))
    lights = lights_of(
        table(name, f"{dimension}|{mode}")
        for name in LIGHT_TABLES
        for dimension in plan.config.dimension_names
    )
    screen = read_manifest(directory)[FIRST_SCREEN] if directory.is_dir() else {}
    return RunSummary(
        title=f"{plan.config.title}, {mode}",
        question=plan.config.report.question,
        leaderboard=table(reports.leaderboard.__name__, mode),
        win_rates=tuple(
            row
            for dimension in plan.config.dimension_names
            for row in rows_of(WinRateRow, table(win_rates.__name__, f"{dimension}|{mode}"))
        ),
        directory=directory,
        requests_submitted=total("requests_submitted_now"),
        responses_generated=total("generated_now"),
        confidence=plan.config.ratings.confidence,
        # The cautions name the red lights; checks of these alone would name them again.
        warnings=tuple(check.sentence for check in failed if not check.metadata.get("only_red")),
        equivalent_within=plan.config.ratings.equivalent_within,
        outages=tuple(each.sentence for each in find_outages(audit, plan.config.checks)),
        cautions=(*red_sentences(lights), *copy_sentences(audit)),
        next_steps=tuple(screen.get("next_steps", ())),
        is_new=run_artifacts.__name__ in metadata,
    )
