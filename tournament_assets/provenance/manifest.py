"""The manifest of a finished run: what it is based on, and how to reproduce it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tournament_assets.audits.missingness import broken_entrants, find_outages
from tournament_assets.foundation.fingerprints import fingerprint_text
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.playing_judges import playing_judges
from tournament_assets.provenance.origins import (
    InputHashes,
    JudgingCost,
    Recorded,
    ReplySummary,
    Versions,
    input_hashes,
    judging_costs,
    judging_waste,
    name_models,
    pairs_left_out,
    read_versions,
    rerun_command,
    summarise_replies,
    version_values,
)
from tournament_assets.reports.economies import entrant_economies
from tournament_assets.reports.run.page import FIRST_SCREEN
from tournament_assets.reports.run.run_files import FactTables, RunTables
from tournament_assets.storage.tables import AnyTable, content_version, rows_of
from tournament_assets.tournament.asset_rows import (
    CoverageRow,
    MeasureRow,
    ReportPageRow,
)
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.prompts import Prompt
from tournament_assets.trust.evidence import length_gains
from tournament_assets.trust.lights import OF, Bias, TrustState
from tournament_assets.trust.measures import ALL_DIMENSIONS, LENGTH_EFFECT, MEASURES
from tournament_assets.verdicts.rounds import outcome_of

if TYPE_CHECKING:
    from tournament_assets.ledger.spending import Waste


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a mode's results are based on, and how they were made.

    Attributes:
        summaries: Summaries of the judge's replies, by dimension.
        inputs: The hash of everything that decides a result, as `input_hashes` returns it.
        versions: What it was made with.
        left_out: Pairs that a limit left out, by dimension.
        not_needed: Pairs that were not needed, by dimension, where pairs stop early.
        pending: Presentations without a reply yet, by dimension.
        costs: Requests, tokens and dollars, by dimension.
        command: The command that reproduces the results.
    """

    summaries: Mapping[str, ReplySummary]
    inputs: InputHashes
    versions: Versions
    left_out: Mapping[str, int]
    not_needed: Mapping[str, int]
    pending: Mapping[str, int]
    costs: Mapping[str, JudgingCost]
    command: str

    @property
    def models(self) -> set[str]:
        """The models that judged."""
        return {model for each in self.summaries.values() for model in each.judge_models}


def run_facts(
    plan: TournamentPlan,
    mode: Mode,
    tables: FactTables,
    *,
    answered: Mapping[str, Recorded],
    traced: Mapping[str, Recorded],
) -> RunFacts:
    """Return the facts that a mode's results are based on.

    Args:
        answered: What is recorded of each entrant's responses.
        traced: What is recorded of the Elo traces on each dimension.
    """
    replies, responses = tables.judge_replies, tables.entrant_responses
    summaries = {dimension: summarise_replies(table) for dimension, table in replies.items()}
    selected = tables.selected_prompts
    left_out = pairs_left_out(plan, selected=selected, responses=responses, replies=summaries)
    not_needed: dict[str, int] = {}
    for dimension, frame in (tables.judging_decisions or {}).items():
        rounds = outcome_of(frame)
        if rounds is not None:
            # Pairs that were not needed, or wait for an earlier round, are not left out by a limit.
            left_out[dimension] -= rounds.pairs_not_needed + rounds.pairs_undecided
            not_needed[dimension] = rounds.pairs_not_needed
    return RunFacts(
        summaries=summaries,
        inputs=input_hashes(
            plan,
            selected=selected,
            responses=responses,
            replies=summaries,
            answered=answered,
        ),
        versions=read_versions(plan.project.folder),
        left_out=left_out,
        not_needed=not_needed,
        pending={dimension: summary.pending for dimension, summary in summaries.items()},
        costs=judging_costs(plan, summaries),
        command=_made_again_by(plan, mode, summaries=summaries, left_out=left_out, traced=traced),
    )


def run_manifest(
    plan: TournamentPlan,
    mode: Mode,
    facts: RunFacts,
    *,
    tables: RunTables,
    lights: Sequence[MeasureRow],
    rubrics: Mapping[str, str],
    waste: Waste,
    started_at: str,
    finished_at: datetime,
    rerun: str | None,
) -> dict[str, Any]:
    """Return what a run's `manifest.json` holds.

    Args:
        facts: What its results rest on.
        lights: What the lights on the judge show, all dimensions.
        rubrics: The rubrics' texts by dimension, where known.
        waste: Spending without use.
        started_at: When the work began, ISO 8601.
        finished_at: When it ended.
        rerun: The rerun that it is the result of; None for a run that a person began.
    """
    config, names = plan.config, plan.config.dimension_names
    n_samples, n_others = config.generation.n_samples, len(config.entrant_ids) - 1
    bank, commit = tables.prompt_bank, facts.versions.project_commit
    audit = list(rows_of(CoverageRow, tables.audit))
    outages = find_outages(audit, config.checks)
    gains = _length_gains(tables.match_list, lights, confidence=config.ratings.confidence)
    playing = playing_judges(plan, mode, models=facts.models)
    prices = [cost["cost_usd"] for cost in facts.costs.values()]
    listed = [price for price in prices if price is not None]
    return {
        "tournament": config.tournament_id,
        "mode": mode,
        "config": plan.config_path.as_posix(),
        "judge": config.label_of(mode),
        "judge_model": name_models(facts.models),
        "entrants": list(config.entrant_ids),
        "dimensions": list(names),
        "bank_size": len(bank),
        "selected_prompts": len(tables.selected_prompts) // n_samples,
        **({"samples_of_each_prompt": n_samples} if n_samples > 1 else {}),
        "pairs": {dimension: each.pairs for dimension, each in facts.summaries.items()},
        "pairs_left_out_by_limit": facts.left_out,
        **({"pairs_not_needed": facts.not_needed} if facts.not_needed else {}),
        "replies_pending": sum(facts.pending.values()),
        "is_partial": any(facts.pending.values()),
        "outages": [each.sentence for each in outages],
        **({"missing": [asdict(each) for each in outages]} if outages else {}),
        **({"broken_entrants": broken} if (broken := broken_entrants(audit)) else {}),
        "trust": {
            name: lights_here
            for name in (*names, ALL_DIMENSIONS)
            if (lights_here := _lights(lights, name)) or name in names
        },
        **({"length_gains": gains} if gains else {}),
        **({"judges_that_play": [asdict(each) for each in playing]} if playing else {}),
        # Those planned for every two entrants.
        "prompts_planned": {row.dimension: row.pairs_planned // max(n_others, 1) for row in audit},
        "n_perms": next(iter(tables.elo_traces.values())).ratings.shape[0],
        "shuffle_seed": config.ratings.shuffle_seed,
        "draw_seed": config.modes[mode].draw_seed,
        "bootstrap_seed": config.ratings.bootstrap_seed,
        "n_bootstraps": config.ratings.n_bootstraps,
        "started_at": started_at,
        "finished_at": finished_at.isoformat(),
        "rerun": rerun,
        "versions": version_values(facts.versions),
        "project_commit": None if commit is None else asdict(commit),
        "thresholds": config.checks.model_dump(),
        "inputs": {"prompt_bank": content_version(Prompt, bank), **asdict(facts.inputs)},
        "cost": {
            "total_usd": round(sum(listed), 6) if len(listed) == len(prices) else None,
            "by_dimension": facts.costs,
            "waste": judging_waste(waste),
        },
        "command": facts.command,
        "rubrics": dict(rubrics),
        "economies": [
            asdict(economy) for economy in entrant_economies(config, tables.entrant_responses)
        ],
        FIRST_SCREEN: _first_screen(tables),
    }


def _first_screen(tables: RunTables) -> dict[str, Any]:
    pages = rows_of(ReportPageRow, tables.report)
    screen: dict[str, Any] = json.loads(
        next(page.content for page in pages if page.format == FIRST_SCREEN)
    )
    return screen


def _made_again_by(
    plan: TournamentPlan,
    mode: Mode,
    *,
    summaries: Mapping[str, ReplySummary],
    left_out: Mapping[str, int],
    traced: Mapping[str, Recorded],
) -> str:
    """Return the command that reproduces these results, with the run's options."""
    command = rerun_command(plan, mode)
    models = {model for each in summaries.values() for model in each.judge_models}
    if len(models) == 1 and models != {plan.config.lead(mode).model}:
        command += f" --judge-model {shlex.quote(*models)}"
    permutations = traced[plan.config.dimension_names[0]].get("permutations")
    if permutations not in (None, plan.config.ratings.n_permutations):
        command += f" --n-perms {permutations}"
    limits = [summaries[dimension].pairs for dimension, n in left_out.items() if n]
    return command + (f" --limit-pairs {max(limits)}" if limits else "")


def rubric_texts(inputs: InputHashes, recorded: Mapping[str, Recorded]) -> dict[str, str]:
    """Return the texts that the dimensions were judged by, where they are still known.

    Args:
        inputs: What `input_hashes` returned.
        recorded: What is recorded of the judge's replies on each dimension.
    """
    texts: dict[str, str] = {}
    for dimension, rubric in inputs.rubrics.items():
        text = str(recorded[dimension].get("rubric_text", ""))
        if fingerprint_text(text) == rubric["hash"]:
            texts[dimension] = text
    return texts


def _lights(lights: Sequence[MeasureRow], dimension: str) -> dict[str, str]:
    return {
        OF.join(filter(None, (row.measure, row.subject))): str(row.state)
        for row in lights
        if row.dimension == dimension
    }


def _length_gains(
    matches: Mapping[str, AnyTable], lights: Sequence[MeasureRow], *, confidence: float
) -> dict[str, dict[str, dict[str, float]]]:
    """Return what each entrant gains by length, where a light on length is red."""
    red = {
        row.dimension
        for row in lights
        if row.state == TrustState.RED and MEASURES[row.measure].bias is Bias.LENGTH
    }
    return {
        row.dimension: length_gains(matches[row.dimension], row.estimate, confidence=confidence)
        for row in lights
        if row.measure == LENGTH_EFFECT and row.dimension in red and row.low is not None
    }
