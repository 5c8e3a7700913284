"""The graph's outputs: report, run directory, and comparison with the previous run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.fingerprints import combine, fingerprint
from tournament_assets.graph.assets.judging import judge_replies
from tournament_assets.graph.assets.ratings import elo_traces
from tournament_assets.graph.assets.responses import entrant_responses
from tournament_assets.graph.outputs import Check, Made, Markdown, known, report_table
from tournament_assets.graph.rows import Inputs, Options, StartedAt, Step, Tables
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.playing_judges import playing_judges
from tournament_assets.provenance.manifest import RunFacts, rubric_texts, run_facts, run_manifest
from tournament_assets.provenance.origins import (
    cost_lines,
    provenance_lines,
)
from tournament_assets.reports.economies import entrant_economies
from tournament_assets.reports.report_tables import document_markdown
from tournament_assets.reports.run.page import READS, iterate_pages
from tournament_assets.reports.run.run_files import FactTables, RunTables, build_run_files
from tournament_assets.reports.run.section_table import SECTIONS
from tournament_assets.reports.sections import Page, SectionRow, in_order, tables_asked, tables_read
from tournament_assets.run_comparison import comparison as comparing
from tournament_assets.run_comparison import gate as gates
from tournament_assets.run_comparison.comparison import RunComparison, compare_runs
from tournament_assets.run_comparison.differences import Change, FlipCount
from tournament_assets.run_comparison.gate import Gate
from tournament_assets.run_comparison.run_reading import read_finished_runs
from tournament_assets.storage.run_directory import (
    find_runs,
    run_directory_name,
    write_run_directory,
)
from tournament_assets.storage.tables import (
    StoredTable,
    WrittenTable,
    parts_of,
    rows_of,
    write_table,
)
from tournament_assets.tournament.asset_rows import (
    MeasureRow,
    ReportPageRow,
)
from tournament_assets.tournament.battles import settings_of_run
from tournament_assets.tournament.config import Mode
from tournament_assets.trust.measures import lights_of
from tournament_assets.verdicts.judge_requests import LedgerAccess

_LISTED_JUDGMENTS = 20
_GATE_CHECK = "gate"


def tables_of(sections: Iterable[SectionRow]) -> tuple[str, ...]:
    """Return the tables of a mode that a page of these sections and its facts are made from."""
    own = (name for row in sections for name in row.reads)
    return tuple(dict.fromkeys((*READS, *tables_read(FactTables), *own)))


_ANCHORS = {
    **{name: f"#{row.name}" for row in reversed(SECTIONS) for name in row.reads},
    **dict.fromkeys(("battles", "entrant_responses", "judge_verdicts"), "#battles"),
    "elo_ratings": "#numbers",
    "judge_replies": "#cost",
    **dict.fromkeys(("leaderboard", "report", "run_artifacts"), ""),
}
"""Where in a report an asset is shown."""


def page_address(
    plan: TournamentPlan, asset: str, mode: Mode, directory: Path | None = None
) -> str | None:
    """Return the address of the page that shows an asset, if it is on a site.

    Args:
        directory: The run's; without it, it is the page of the newest run of the mode.
    """
    site = plan.project.environment.get("TOURNAMENT_SITE_URL")
    if not site or asset not in _ANCHORS:
        return None
    if directory is not None and directory.parent != plan.project.folder / "runs":
        return None
    run = f"runs/{directory.name}" if directory else f"latest/{plan.tournament_id}_{mode}"
    return f"{site.rstrip('/')}/{run}/report.html{_ANCHORS[asset]}"


def report(step: Step, tables: Tables) -> Made[WrittenTable[ReportPageRow]]:
    """The report, as Markdown and as one HTML file, with every battle in it.

    Many battles get separate pages, beside it in the run directory.
    """
    pages = iterate_pages(_page(step, tables))
    (_, html), (_, markdown) = next(pages), next(pages)

    def documents() -> Iterator[ReportPageRow]:
        yield ReportPageRow(format="html", content=html)
        yield ReportPageRow(format="markdown", content=markdown)
        for name, page in pages:
            yield ReportPageRow(format=name, content=page)

    return Made(write_table(ReportPageRow, documents()), metadata={"report": Markdown(markdown)})


def _page(step: Step, tables: Mapping[str, Any]) -> Page:
    plan, config = step.plan, step.plan.config
    read = FactTables(**tables_asked(FactTables, tables))
    facts = _facts(step, read)
    return Page(
        sections=in_order(SECTIONS),
        tables=tables,
        config=config,
        mode=step.mode,
        judge_models=facts.models,
        playing=playing_judges(plan, step.mode, models=facts.models),
        prices={dimension: cost["cost_usd"] for dimension, cost in facts.costs.items()},
        costs=cost_lines(facts.costs),
        economies=entrant_economies(config, read.entrant_responses),
        provenance=provenance_lines(plan, step.mode, facts.inputs, facts.versions),
        versions=str(facts.versions),
        command=facts.command,
        pending=facts.pending,
        left_out=facts.left_out,
    )


def _facts(step: Step, tables: FactTables) -> RunFacts:
    return run_facts(
        step.plan,
        step.mode,
        tables,
        answered=_recorded(step, entrant_responses, step.plan.config.entrant_ids),
        traced=_recorded(step, elo_traces, step.plan.config.dimension_names),
    )


def _recorded(
    step: Step, asset: Callable[..., Any], names: Sequence[str]
) -> dict[str, Mapping[str, Any]]:
    """Return what is recorded of an asset, by dimension or entrant."""
    return {name: step.records(asset.__name__, f"{name}|{step.mode}") or {} for name in names}


@dataclass(frozen=True)
class ArtifactOptions:
    """Options of one run.

    Attributes:
        output_dir: Where run directories go; `runs` in the project folder unless given.
        run_began_at: When the work began, ISO 8601; the start of this run unless given.
        rerun: The rerun that this run belongs to, if any.
    """

    output_dir: str | None = None
    run_began_at: str | None = None
    rerun: str | None = None


def run_artifacts(
    step: Step,
    inputs: Inputs[RunTables],
    tables: Tables,
    options: Options[ArtifactOptions],
    ledger: LedgerAccess,
    started_at: StartedAt,
) -> Made[None]:
    """The run directory `runs/<mode>_<time>/`, written completely or not at all.

    Every materialisation makes a new one; an earlier run is never overwritten.
    """
    finished_at = datetime.now(UTC).replace(microsecond=0)
    facts = _facts(step, inputs)
    began = options.run_began_at or started_at.isoformat()
    lights = lights_of(part for table in tables.values() for part in parts_of(table))
    manifest = _manifest(
        step, inputs, lights, facts, ledger, times=(began, finished_at), rerun=options.rerun
    )
    parent = step.plan.project.folder / Path(options.output_dir or "runs").expanduser()
    name = run_directory_name(step.mode, finished_at)
    settings = settings_of_run(step.plan.config, mode=step.mode, n_permutations=manifest["n_perms"])
    files = build_run_files(inputs, manifest=manifest, settings=settings)
    written = write_run_directory(parent, name, files)
    return Made(
        None,
        metadata={
            "directory": written.folder,
            "report": written.folder / "report.html",
            "files": len(written.fingerprints) + 1,  # and their checksums
            "bytes": written.n_bytes,
            **known({"cost_usd": manifest["cost"]["total_usd"]}),
            "summary": _summary(inputs.report),
        },
        checks=_hold_gate(step, written.folder),
        version=_directory_version(written.fingerprints, inputs.report),
    )


def gate_checks(plan: TournamentPlan) -> Mapping[str, str]:
    """Return the gate's check, if the config has a gate."""
    gate = plan.config.gate
    if gate is None:
        return {}
    return {
        _GATE_CHECK: f"{gate.candidate} is not worse than {gate.baseline} by {gate.margin:g} Elo "
        "points or more; a warning says that neither this nor the contrary is shown."
    }


def _hold_gate(step: Step, folder: Path) -> list[Check]:
    """Check a new run against the config's gate: an error if it is worse, else a warning."""
    asked = step.plan.config.gate
    if asked is None:
        return []
    looks_file = folder.parent / gates.HISTORY
    try:
        (run,) = read_finished_runs([folder])
        looks = gates.read_looks(looks_file)
        held = gates.hold_gate(run, gates.GateSettings(**asked.model_dump()), history=looks)
        gates.remember(looks_file, held, looks)
    except (InputError, OSError) as error:
        # The run is written and paid for: a failure of the gate must not discard it.
        problem = f"{step.where}: undecided, the gate cannot be held: {error}"
        return [Check(_GATE_CHECK, passed=False, description=problem)]
    return [gate_check(held, where=step.where)]


def gate_check(held: Gate, *, where: str) -> Check:
    """Return what a gate says as a check: an error only where the candidate is worse."""
    return Check(
        _GATE_CHECK,
        passed=held.passage is gates.Passage.NOT_WORSE,
        description=f"{where}: {' '.join(gates.gate_sentences(held))}",
        metadata={
            "passage": held.passage.value,
            "exit_code": held.passage.exit_code,
            "looks_before": held.looks_before,
            "dimensions": report_table(gates.gate_table(held)),
        },
        is_error=held.passage is gates.Passage.WORSE,
    )


def _manifest(
    step: Step,
    inputs: RunTables,
    lights: Sequence[MeasureRow],
    facts: RunFacts,
    ledger: LedgerAccess,
    *,
    times: tuple[str, datetime],
    rerun: str | None,
) -> dict[str, Any]:
    with ledger.open() as opened:
        waste = opened.waste_of(step.plan.tournament_id, step.mode)
    return run_manifest(
        step.plan,
        step.mode,
        facts,
        tables=inputs,
        lights=lights,
        rubrics=rubric_texts(
            facts.inputs, _recorded(step, judge_replies, step.plan.config.dimension_names)
        ),
        waste=waste,
        started_at=times[0],
        finished_at=times[1],
        rerun=rerun,
    )


def _summary(report: StoredTable) -> Markdown:
    pages = rows_of(ReportPageRow, report)
    return Markdown(next(page.content for page in pages if page.format == "markdown"))


def _directory_version(fingerprints: Mapping[str, str], report: StoredTable) -> str:
    # These hold times, so two runs with the same results would differ in them.
    dated = ("manifest.json", "report.md", "report.html")
    pages = (fingerprint(page.content) for page in rows_of(ReportPageRow, report))
    files = (each for name, each in sorted(fingerprints.items()) if name not in dated)
    return combine([*files, *pages])


def run_comparison(step: Step) -> Made[list[MeasureRow]]:
    """This run compared with the previous one: what differs, flipped and moved, and the cost.

    It reads only the two run directories, and nothing depends on it. `tournament compare` does the
    same for any two runs.
    """
    recorded = step.records(run_artifacts.__name__, step.mode) or {}
    if "directory" not in recorded:
        return _nothing("No run directory is recorded for this mode: run run_artifacts first.")
    now = Path(str(recorded["directory"]))
    found = find_runs(now.parent, tournament_id=step.plan.tournament_id, mode=step.mode)
    then = found.before(now)
    if now not in found.directories:
        sentence = f"{now} cannot be found here any more, or its manifest cannot be read."
    elif then is None:
        sentence = (
            f"{now.name} is the first run of this mode in {now.parent}: there is nothing to "
            "compare with yet."
        )
    else:
        made = _compare(step, then, now)
        return Made(made.value, metadata={**made.metadata, **_passed_over(found.problems)})
    return _nothing(sentence, found.problems)


def _nothing(sentence: str, problems: Sequence[str] = ()) -> Made[list[MeasureRow]]:
    return Made([], metadata={"verdict": sentence, **_passed_over(problems)})


def _passed_over(problems: Sequence[str]) -> dict[str, str]:
    return {"passed_over": "; ".join(problems)} if problems else {}


def _compare(step: Step, then: Path, now: Path) -> Made[list[MeasureRow]]:
    """Compare two directories, or say why they cannot be."""
    try:
        comparison = compare_runs(*read_finished_runs([then, now]))
        return Made(
            _comparison_rows(comparison, then, now),
            metadata={**_comparison_metadata(comparison), "then": then, "now": now},
        )
    except InputError as error:
        return _nothing(f"{now.name} cannot be compared with {then.name}: {error}")
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        # A directory of another version can hold anything under the names that are known.
        step.log.warning(f"{then} and {now} cannot be compared", exc_info=True)
        return _nothing(
            f"{now.name} cannot be compared with {then.name}: a file is not as this version "
            f"writes it ({type(error).__name__}: {error})."
        )


def _comparison_rows(comparison: RunComparison, then: Path, now: Path) -> list[MeasureRow]:
    flips = comparison.flips
    return [
        MeasureRow.of(
            found,
            dimension=dimension,
            measure=measure,
            subject=then.name,
            other=now.name,
            stratum=count.source,
            unit=unit,
        )
        for total in flips.by_dimension
        if (dimension := total.dimension) is not None
        for count in (
            *(each for each in flips.by_stratum if each.dimension == dimension),
            total,
        )
        for measure, unit, found in flip_measures(count)
    ]


def flip_measures(count: FlipCount) -> Iterator[tuple[str, str, Estimate]]:
    """Yield the measures of a group of pairs, each with its unit."""
    yield "flip_rate", "share", count.flips
    yield "kappa", "kappa", count.agreement.kappa
    counts = {
        "flipped": count.flipped,
        **{change.value: n for change, n in count.changes.items()},
        "other_texts": count.shown_otherwise,
    }
    for name, number in counts.items():
        yield name, "count", Estimate.of_count(number)


def _comparison_metadata(comparison: RunComparison) -> dict[str, Any]:
    flips, moves = comparison.flips, comparison.moves
    both = [count for count in (flips.total, flips.rest) if count is not None]
    differences = [abs(move.difference) for move in moves if move.difference is not None]
    cost = comparing.comparison_values(comparison)["cost"]
    numbers = {
        "flip_rate": flips.total.flips.value,
        "kappa": flips.total.agreement.kappa.value,
        "largest_rating_move": max(differences, default=None),
        "cost_then_usd": cost["then_usd"],
        "cost_now_usd": cost["now_usd"],
    }
    page = document_markdown(comparing.comparison_document(comparison, limit=_LISTED_JUDGMENTS))
    return {
        "verdict": " ".join(comparing.summary(comparison)),
        "comes_to_the_same": comparing.verdict_line(comparison),
        "comparison": Markdown(page),
        "judgments_flipped": flips.total.flipped,
        "judgments_settled_in_both": flips.total.flips.n,
        "pairs_asked_otherwise": sum(flips.asked_otherwise.values()),
        "judgments_lost": sum(count.changes[Change.LOST] for count in both),
        "judgments_gained": sum(count.changes[Change.GAINED] for count in both),
        "places_changed": sum(move.is_of_place for move in moves),
        **known(numbers),
    }
