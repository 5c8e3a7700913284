"""The fair comparison of a mode, from what its runs have stored."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tournament_assets.adapters.config_files import load_config
from tournament_assets.adapters.tables import content_version, make_table, table_rows
from tournament_assets.assets.fairness import fair_rows
from tournament_assets.cli.stored_tables import StoredTables
from tournament_assets.definitions import build_plan
from tournament_assets.reports.fair_report import FairReport
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import short


def load_fair_report(
    config_path: Path, mode: Mode, *, excluded: Sequence[str], environment: Mapping[str, str]
) -> FairReport:
    """Return a mode's fair comparison: the stored one, or made anew where somebody is left out.

    Args:
        config_path: The tournament's configuration.
        mode: `pilot` or `headline`.
        excluded: Entrants to leave out.
        environment: The environment variables.

    Raises:
        InputError: If the config cannot be used, nothing is stored, or nobody can be left out so.
    """
    plan = build_plan(load_config(config_path), environment)
    stored = StoredTables(plan, mode, environment=environment)
    left_out = tuple(dict.fromkeys(excluded))
    if left_out:
        selected = stored.of_mode("selected_prompts")
        responses = stored.by("entrant", "entrant_responses", plan.config.entrant_ids)
        verdicts = stored.by("dimension", "judge_verdicts", plan.config.dimension_names)
        stored.raise_if_missing()
        rows = fair_rows(
            plan,
            mode,
            selected=selected,
            responses=responses,
            verdicts=verdicts,
            excluded=left_out,
        )
    else:
        frame = stored.of_mode("fair_comparison")
        stored.raise_if_missing()
        rows = table_rows("fair_comparison", frame)
    if not rows:
        raise InputError(f"the stored comparison of mode {mode!r} holds nobody; expected entrants")
    return FairReport(
        tournament_id=plan.tournament_id,
        mode=mode,
        judge=plan.config.judge_label,
        confidence=plan.config.ratings.confidence,
        rows=rows,
        excluded=left_out,
        version=short(content_version("fair_comparison", make_table("fair_comparison", rows))),
        page=stored.page(),
    )
