"""The graph in one table: every asset, and the jobs that make them.

Assets, jobs, settings versions and the page of stored tables are made of these rows. To add
an asset, write its function in `assets/`, its row here, and the class of its table's rows in
`tournament/asset_rows.py`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tournament_assets.foundation.extensions import (
    added_rows,
    refuse_row,
    rows_by_extension,
    versions_that_add,
)
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.graph import settings
from tournament_assets.graph.assets import (
    judging,
    observed_inputs,
    prompts,
    publishing,
    ratings,
    reports,
    responses,
    trust,
    verdicts,
)
from tournament_assets.graph.rows import (
    DIMENSION,
    ENTRANT,
    MODE,
    MODE_BY_DIMENSION,
    MODE_BY_ENTRANT,
    AssetRow,
    Axis,
    Blocking,
    JobRow,
    Where,
)
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.provenance.origins import read_versions, version_values
from tournament_assets.reports.run.section_table import SECTIONS
from tournament_assets.responses.entrant_responses import served_entrants
from tournament_assets.trust.measures import EVIDENCE_TABLES, LIGHT_TABLES

_CORE_JOBS = (
    JobRow("inputs", "inputs", part_of="begin"),
    JobRow("prompts", "prompt bank and selection"),
    JobRow("ask_entrants", "responses of served entrants"),
    JobRow("responses", "responses"),
    JobRow("pairs", "pairs to judge"),
    JobRow("price", "price of judging", prepares="judge_replies"),
    JobRow("ask_judge", "replies of the judge", prepares="judge_replies"),
    JobRow("judging", "judging and ratings"),
    JobRow("report", "leaderboard and report"),
)
JOBS: tuple[JobRow, ...] = (*_CORE_JOBS, *added_rows("jobs", _CORE_JOBS))
"""The jobs in run order; the assets of a job all have the same partitions.

The inputs come first, observed by the jobs that begin a rerun. The price of judging is known before
anything is asked, and a price that the budget does not allow ends the run there.
"""


_observed = partial(AssetRow, job="inputs", stored_as="file")


def _entrant_kinds(plan: TournamentPlan) -> set[str]:
    return {"parquet", *(entrant.kind for entrant in plan.config.entrants if entrant.kind)}


# What was paid for again when everybody was asked is not to be paid for a third time.
_BOUGHT_BEFORE = frozenset({"pay_again"})
_prompts = partial(AssetRow, stage="prompts", job="prompts", axes=MODE)
# No pool: a step that waits for a judge blocks nothing else.
_judging = partial(AssetRow, stage="judging", job="judging", axes=MODE_BY_DIMENSION)
_rating = partial(AssetRow, stage="ratings", job="judging", axes=MODE_BY_DIMENSION)


def _named(plan: TournamentPlan) -> list[Any]:
    prices = observed_inputs.prices_version(plan)
    return [plan.config.fingerprint, plan.config_path.as_posix(), prices]


_report = partial(AssetRow, stage="report", job="report", axes=MODE, names=_named)

_CORE = (
    _observed(observed_inputs.prompt_file, stage="prompts"),
    _observed(observed_inputs.entrants, stage="responses", axes=ENTRANT),
    _observed(observed_inputs.rubrics, stage="judging", axes=DIMENSION),
    _observed(observed_inputs.price_list, stage="judging"),
    _prompts(
        prompts.prompt_bank,
        after=("prompt_file",),
        checks={"bank_integrity": "Every prompt once, with what its dimension needs."},
    ),
    _prompts(prompts.selected_prompts, settings=settings.draw_settings),
    AssetRow(
        responses.entrant_requests,
        stage="responses",
        job="ask_entrants",
        axes=MODE,
        after=("entrants",),
        kinds=_entrant_kinds,
        where=Where(lambda plan: bool(served_entrants(plan)), "where an entrant is behind an API"),
    ),
    AssetRow(
        responses.entrant_responses,
        stage="responses",
        job="responses",
        axes=MODE_BY_ENTRANT,
        settings=settings.responding_settings,
        after=("entrants", "entrant_requests"),
        untold=_BOUGHT_BEFORE,
        checks={
            "response_coverage": "Every selected prompt is answered.",
            "no_empty_response": "Every response says something.",
            "no_thought_in_response": "No response holds a mark of a thought or a chat template.",
        },
        kinds=_entrant_kinds,
        # Recorded and served entrants need no GPU.
        where=Where(on_gpu=lambda plan: any(each.generates_here for each in plan.config.entrants)),
    ),
    AssetRow(
        prompts.match_list,
        stage="judging",
        job="pairs",
        axes=MODE_BY_DIMENSION,
        settings=settings.pairing_settings,
        stored_as="stream",
    ),
    AssetRow(
        judging.judging_estimate,
        stage="judging",
        job="price",
        axes=MODE,
        after=("rubrics", "price_list"),
        checks={
            "caching_pays": "The judge's prompt cache saves more than it costs.",
            "judge_does_not_play": "No judge is also an entrant, by what the config shows.",
            "within_budget": Blocking("What is still to be asked costs no more than may be spent."),
        },
    ),
    AssetRow(
        judging.judge_requests,
        stage="judging",
        job="ask_judge",
        axes=MODE,
        after=("rubrics", "judging_estimate"),
        settings=settings.asking_settings,
        kinds=judging.judge_kinds,
    ),
    _judging(
        judging.judge_replies,
        after=("rubrics", "judging_estimate", "judge_requests"),
        untold=_BOUGHT_BEFORE,
        settings=settings.asking_settings,
        stored_as="stream",
        checks={"judge_is_who_was_asked": "Every reply comes from the one model that was asked."},
        kinds=judging.judge_kinds,
    ),
    _judging(
        verdicts.jury,
        settings=settings.jury_settings,
        where=Where(lambda plan: bool(plan.config.juries), "of several judges"),
    ),
    _judging(
        verdicts.judge_verdicts,
        settings=settings.reading_settings,
        stored_as="stream",
        checks={
            "unjudged_rate": "Few pairs lack two readable replies.",
            "inconsistency_rate": "Few pairs change their winner when the responses swap places.",
            "same_text_rate": "At least half of the pairs have two different responses.",
            "accounting": Blocking(
                "Every planned presentation has a verdict or a reason why there is none, and "
                "none is still pending."
            ),
        },
    ),
    _rating(
        ratings.elo_traces,
        settings=settings.rating_settings,
        stored_as="arrays",
        kinds={"numpy"},
    ),
    _rating(ratings.elo_ratings, settings=settings.rating_settings),
    _rating(
        ratings.ratings,
        settings=settings.versioned(settings.rating_settings, versions_that_add("methods")),
    ),
    _rating(ratings.win_rates, settings=settings.rating_settings),
    _rating(
        trust.measures,
        tables=EVIDENCE_TABLES,
        settings=settings.versioned(settings.trusting_settings, versions_that_add("measures")),
        checks=trust.trust_checks,
    ),
    _report(reports.battles, stored_as="stream"),
    _report(
        reports.audit,
        settings=settings.noticing_settings,
        checks={
            "even_missingness": (
                "No entrant misses more verdicts or answers than the others, beyond chance."
            )
        },
    ),
    _report(reports.prompt_audit),
    _report(reports.fair_comparison, settings=settings.comparing_settings),
    _report(reports.leaderboard, settings=settings.noticing_settings),
    _report(
        publishing.report,
        tables=publishing.tables_of(SECTIONS),
        settings=settings.versioned(
            settings.reporting_settings, versions_that_add("sections", "measures", "methods")
        ),
        stored_as="stream",
        kinds={"html", "markdown"},
        # What is made of it follows; asking git is not for every step.
        names=lambda plan: [*_named(plan), version_values(read_versions(plan.project.folder))],
    ),
    _report(
        publishing.run_artifacts,
        tables=LIGHT_TABLES,
        stored_as="folder",
        checks=publishing.gate_checks,
        kinds={"json", "parquet", "html"},
    ),
    _report(
        publishing.run_comparison,
        after=("run_artifacts",),
        kinds={"parquet", "markdown"},
        where=Where(words="this run and the one before"),
    ),
)


def _in_order(rows: Iterable[AssetRow], added: Iterable[AssetRow]) -> tuple[AssetRow, ...]:
    """Return rows with the added ones among them: before the first that reads one, or last."""
    ordered = list(rows)
    for row in added:
        places = [place for place, other in enumerate(ordered) if row.name in other.input_types]
        ordered.insert(places[0] if places else len(ordered), row)
    return tuple(ordered)


def _added_assets() -> Iterator[AssetRow]:
    """Yield the rows that fit into the job that they name."""
    axes: dict[str, tuple[Axis, ...] | None] = {job.name: None for job in JOBS}
    axes |= {row.job: row.axes for row in _CORE}
    for extension, row in rows_by_extension("assets", _CORE):
        problem = f"the asset {row.name!r} of {extension} has the job {row.job!r}"
        if row.job not in axes:
            refuse_row(
                f"{problem}; expected one of {', '.join(axes)}; add a row to jobs", extension
            )
        elif row.job != "inputs" and axes[row.job] not in (None, row.axes):
            refuse_row(
                f"{problem} and the axes {row.axes}; expected {axes[row.job]}, which all assets of "
                "that job have; give it a job of its own",
                extension,
            )
        else:
            axes[row.job] = row.axes
            yield replace(row, settings=settings.versioned(row.settings, extension.versions))


ASSETS: tuple[AssetRow, ...] = _in_order(_CORE, _added_assets())
"""Those that an asset reads stand before it."""


def row_of(name: str) -> AssetRow:
    """Return the row of an asset, whichever tournaments have it."""
    return next(row for row in ASSETS if row.name == name)


def rows_of(plan: TournamentPlan) -> dict[str, AssetRow]:
    """Return the rows that a tournament has, by the assets' names."""
    return {row.name: row for row in ASSETS if row.where.holds(plan)}


def jobs_of(plan: TournamentPlan) -> list[JobRow]:
    """Return the jobs that make anything of what a tournament has, in the order they run."""
    makes = {row.job for row in rows_of(plan).values()}
    return [job for job in JOBS if job.name in makes]


def settings_versions(plan: TournamentPlan) -> dict[str, str]:
    """Return the version of every asset that has settings, by the asset's name."""
    return {row.name: fingerprint(row.settings(plan)) for row in ASSETS if row.settings is not None}
