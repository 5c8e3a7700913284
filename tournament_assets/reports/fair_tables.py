"""The fair comparison as people read it: the same entrants on three denominators."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from tournament_assets.audits.fair_comparison import ALL, COMMON, PLANNED, WHOLE
from tournament_assets.reports.rendering import render_template
from tournament_assets.reports.report_tables import (
    ReportSection,
    ReportTable,
    print_table,
    print_text,
)
from tournament_assets.tournament.asset_rows import FairRow
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_confidence,
    format_interval,
    format_rating,
    format_share,
    join_names,
)

_ORDERS = {
    COMMON: "on the prompts that all share",
    ALL: "on all judged pairs",
    PLANNED: "where what is missing counts as nothing",
}
_MOST_NAMED = 6
"""Entrants that a sentence names; of more it counts them, and the tables name them."""


def fair_section(
    rows: Sequence[FairRow], *, confidence: float, strata_by: Collection[str] | None = None
) -> ReportSection:
    """Return the section of a report that compares everybody on equal terms.

    Args:
        rows: Rows of table "fair_comparison", all dimensions.
        confidence: Coverage of the intervals.
        strata_by: Only strata by these, such as `source`; by all of them unless given.
    """
    dimensions = list(dict.fromkeys(row.dimension for row in rows))
    sentences = [" ".join(fair_sentences(rows, dimension=name)) for name in dimensions]
    tables = [
        table
        for dimension in dimensions
        for table in (
            (dimension, fair_table(rows, dimension=dimension)),
            (f"{dimension}: gaps between neighbours", gap_table(rows, dimension=dimension)),
            (
                f"{dimension}: by stratum",
                stratum_table(rows, dimension=dimension, strata_by=strata_by),
            ),
        )
        if table[1].rows
    ]
    return ReportSection(
        "Fair comparison",
        (*sentences, *fair_notes(confidence=confidence)),
        tuple(tables),
        finding=_order_words(rows, dimensions),
        one_at_a_time=True,
    )


def _order_words(rows: Sequence[FairRow], dimensions: Sequence[str]) -> str:
    turned = [
        name
        for name in dimensions
        if len(
            {_order([row for row in _whole(rows, name) if row.basis == basis]) for basis in _ORDERS}
        )
        > 1
    ]
    if turned:
        return f"the order depends on what is counted on {join_names(turned)}"
    return "the order is the same on the prompts that all share, on all pairs and on planned ones"


def fair_notes(*, confidence: float) -> tuple[str, ...]:
    """Say what the numbers are.

    Args:
        confidence: Coverage of the intervals.
    """
    return (
        "Common: only prompts that every entrant answered and on which every pair was judged. All: "
        "every judged pair. Planned: points over all planned pairs, so that whatever is missing "
        "counts as nothing. A win share is wins and half the ties; ranks are by win share.",
        f"Ratings are Bradley–Terry, on the Elo scale; intervals are at "
        f"{format_confidence(confidence)}, prompts resampled. Neighbours differ "
        "significantly by the rule of the ladder, for all pairs of entrants together; a gap "
        "without a bound says that the prompts do not tell how large it is.",
    )


def fair_sentences(rows: Sequence[FairRow], *, dimension: str) -> list[str]:
    """Say whether the three denominators agree, which gaps are significant, who judges its own kin.

    Args:
        rows: Rows of table "fair_comparison".
        dimension: The quality that was judged.
    """
    whole = _whole(rows, dimension)
    by_basis = {basis: [row for row in whole if row.basis == basis] for basis in _ORDERS}
    common = by_basis[COMMON]
    if not common:
        return [f"On {dimension}, there is nothing to compare."]
    prompts, planned = common[0].prompts, by_basis[PLANNED][0].prompts
    sentences = [
        f"On {dimension}, everyone answered and was judged on {prompts} of {planned} planned "
        "prompts."
    ]
    orders = {basis: _order(own) for basis, own in by_basis.items()}
    if not prompts:
        sentences.append("There is no like-for-like comparison: no prompt has every pair judged.")
    elif len(set(orders.values())) == 1:
        sentences.append("The order is the same on all three denominators.")
    elif len(common) > _MOST_NAMED:
        sentences += _turned_sentences(by_basis)
    else:
        sentences += [
            f"The order {_ORDERS[basis]} is {_in_words(order)}." for basis, order in orders.items()
        ]
    gaps = [row for row in common if row.next_below is not None]
    level = _by_rank([row for row in gaps if not row.gap_beyond_noise])
    if gaps:
        sentences.append(_neighbour_sentence(gaps, level))
    return [*sentences, *_family_sentences(common)]


def _neighbour_sentence(gaps: Sequence[FairRow], level: Sequence[FairRow]) -> str:
    if not level:
        return "Every two neighbours on the common prompts differ significantly."
    if len(level) > _MOST_NAMED:
        return (
            f"{len(level)} of {len(gaps)} entrants do not differ significantly from the next below "
            "on the common prompts."
        )
    named = join_names([f"{row.entrant_id} above {row.next_below}" for row in level])
    return f"No significant difference on the common prompts: {named}."


def _turned_sentences(by_basis: Mapping[str, Sequence[FairRow]]) -> list[str]:
    """Say who changes places between the common prompts and the other two denominators."""
    places = {basis: {row.entrant_id: row for row in rows} for basis, rows in by_basis.items()}
    sentences = []
    for basis in (ALL, PLANNED):
        moved = [
            f"{row.entrant_id} ({_rank(row)}, not {_rank(places[COMMON][row.entrant_id])})"
            for row in _by_share(by_basis[basis])
            if row.share_rank != places[COMMON][row.entrant_id].share_rank
        ]
        sentences.append(
            f"{len(moved)} of {len(by_basis[basis])} entrants "
            f"{'has' if len(moved) == 1 else 'have'} another rank "
            f"{_ORDERS[basis]}: {_shortened(moved)}."
            if moved
            else f"The order {_ORDERS[basis]} is that of the common prompts."
        )
    return sentences


def _shortened(names: Sequence[str]) -> str:
    """Return a list of names that ends after a few: the table has them all."""
    if len(names) <= _MOST_NAMED:
        return join_names(names)
    return join_names([*names[: _MOST_NAMED - 1], f"{len(names) - _MOST_NAMED + 1} others"])


def _family_sentences(rows: Sequence[FairRow]) -> list[str]:
    kin = [row.entrant_id for row in rows if row.same_family]
    unknown = [row.entrant_id for row in rows if row.same_family is None]
    judge = rows[0].judge_model
    sentences = []
    if kin:
        sentences.append(
            f"The judge {judge} is of the same family ({rows[0].judge_family}) as "
            f"{join_names(kin)}; judges tend to favour their own."
        )
    if unknown:
        sentences.append(
            f"Whether the judge {judge} is of one family with {_shortened(unknown)} is not known; "
            "the config can say so (families)."
        )
    return sentences


def fair_table(rows: Sequence[FairRow], *, dimension: str) -> ReportTable:
    """Return everybody on the three denominators, best on the common support first.

    Args:
        rows: Rows of table "fair_comparison".
        dimension: The quality that was judged.
    """
    whole = _whole(rows, dimension)
    places = {(row.basis, row.entrant_id): row for row in whole}
    names = [row.entrant_id for row in _by_share([r for r in whole if r.basis == COMMON])]
    lines = []
    for name in names:
        common, everything, planned = (places[basis, name] for basis in (COMMON, ALL, PLANNED))
        flag = " (judge's family)" if common.same_family else ""
        lines.append(
            (
                f"{name}{flag}",
                _rank(common),
                format_share(common.share),
                _rating(common),
                _rank(everything),
                format_share(everything.share),
                _rating(everything),
                _rank(planned),
                format_share(planned.share),
                f"{everything.pairs} of {planned.pairs}",
            )
        )
    return ReportTable(
        headers=(
            "entrant",
            "common:\nrank",
            "common:\nwin share",
            "common:\nrating",
            "all:\nrank",
            "all:\nwin share",
            "all:\nrating",
            "planned:\nrank",
            "planned:\nwin share",
            "pairs judged\nof planned",
        ),
        rows=tuple(lines),
    )


def gap_table(rows: Sequence[FairRow], *, dimension: str) -> ReportTable:
    """Return the gaps between neighbours on the common support, best first.

    Args:
        rows: Rows of table "fair_comparison".
        dimension: The quality that was judged.
    """
    common = [row for row in _whole(rows, dimension) if row.basis == COMMON]
    return ReportTable(
        headers=("entrant", "next below", "gap", "interval of the difference", "verdict"),
        rows=tuple(
            (
                row.entrant_id,
                row.next_below,
                f"{row.gap:.0f}",
                _gap_interval(row.gap_low, row.gap_high),
                "significant" if row.gap_beyond_noise else "not significant",
            )
            for row in _by_rank(common)
            if row.next_below is not None
        ),
        n_labels=2,
    )


def _gap_interval(low: float | None, high: float | None) -> str:
    """Return the ends with a decimal where whole points would hide on which side of 0 they are."""
    if low is None or high is None or min(abs(low), abs(high)) >= 1:
        return format_interval(low, high, absent="unbounded")
    return f"{_near_zero(low)} to {_near_zero(high)}"


def _near_zero(points: float) -> str:
    if points and abs(points) < 0.05:
        return "above 0" if points > 0 else "below 0"
    return f"{points:.1f}"


def stratum_table(
    rows: Sequence[FairRow], *, dimension: str, strata_by: Collection[str] | None = None
) -> ReportTable:
    """Return everybody's place in every stratum, on its common support.

    Args:
        rows: Rows of table "fair_comparison".
        dimension: The quality that was judged.
        strata_by: Only strata by these; by all of them unless given.
    """
    strata = [
        row
        for row in rows
        if row.dimension == dimension
        and row.stratum_by != WHOLE
        and row.basis == COMMON
        and (strata_by is None or row.stratum_by in strata_by)
    ]
    keys = list(dict.fromkeys((row.stratum_by, row.stratum) for row in strata))
    return ReportTable(
        headers=("by", "stratum", "entrant", "prompts", "rank", "win share", "rating"),
        rows=tuple(
            (
                stratum_by,
                stratum,
                row.entrant_id,
                str(row.prompts),
                _rank(row),
                format_share(row.share),
                _rating(row),
            )
            for stratum_by, stratum in keys
            for row in _by_share(
                [r for r in strata if (r.stratum_by, r.stratum) == (stratum_by, stratum)]
            )
        ),
        n_labels=3,
    )


def _whole(rows: Sequence[FairRow], dimension: str) -> list[FairRow]:
    return [row for row in rows if row.dimension == dimension and row.stratum_by == WHOLE]


def _by_share(rows: Sequence[FairRow]) -> list[FairRow]:
    return sorted(rows, key=lambda row: (row.share_rank is None, row.share_rank))


def _by_rank(rows: Sequence[FairRow]) -> list[FairRow]:
    return sorted(rows, key=lambda row: (row.rank is None, row.rank))


def _order(rows: Sequence[FairRow]) -> tuple[tuple[str, ...], ...]:
    """Return the entrants best first, those of equal share together."""
    ranks = sorted({row.share_rank for row in rows if row.share_rank is not None})
    return tuple(tuple(row.entrant_id for row in rows if row.share_rank == rank) for rank in ranks)


def _in_words(order: Sequence[Sequence[str]]) -> str:
    return ", ".join(" = ".join(names) for names in order) or "not known"


def _rank(row: FairRow) -> str:
    return ABSENT if row.share_rank is None else str(row.share_rank)


def _rating(row: FairRow) -> str:
    if row.rating is None:
        return "not rated"
    interval = format_interval(row.sampling_low, row.sampling_high, absent="unbounded")
    return f"{format_rating(row.rating)} ({interval})"


_COLUMNS = ReportTable(
    headers=("shown as", "column of fair_comparison", "rows"),
    rows=(
        ("common: rank, all: rank, planned: rank", "share_rank", "basis = common, all, planned"),
        ("win share", "share (points / pairs)", "of the same basis"),
        ("rating", "rating", "basis = common, all"),
        ("interval behind a rating", "sampling_low, sampling_high", "of the same basis"),
        ("pairs judged of planned", "pairs", "basis = all, and basis = planned"),
        ("(judge's family)", "same_family", "basis = common"),
        ("prompts in a sentence", "prompts", "basis = common, and basis = planned"),
        ("next below, gap", "next_below, gap", "basis = common"),
        ("interval of the difference", "gap_low, gap_high", "basis = common"),
        ("significant, not significant", "gap_beyond_noise", "basis = common"),
        ("by, stratum", "stratum_by, stratum", "basis = common; elsewhere stratum_by = all"),
    ),
    n_labels=3,
)


@dataclass(frozen=True, slots=True)
class FairReport:
    """A fair comparison and what it was made of.

    Attributes:
        tournament_id: Whose it is.
        mode: A mode of the tournament, such as `pilot`.
        judge: What kind of judge that was.
        confidence: Coverage of the intervals.
        rows: Rows of table "fair_comparison".
        excluded: Entrants that were left out; then the rows are not the stored ones.
        version: The content hash of the rows, which is that of the stored table if nobody was left
            out.
        page: Where the newest run's page is; a sentence that says why if there is none.
    """

    tournament_id: str
    mode: str
    judge: str
    confidence: float
    rows: Sequence[FairRow]
    excluded: tuple[str, ...]
    version: str
    page: str


def fair_markdown(report: FairReport) -> str:
    """Return the comparison as Markdown, with the column that every number comes from.

    Args:
        report: The comparison.
    """
    section = fair_section(report.rows, confidence=report.confidence)
    return render_template(
        "fair_comparison.md.jinja",
        title=f"Fair comparison: {report.tournament_id}, {report.mode}",
        facts=_facts(report),
        sentences=section.sentences,
        tables=section.tables,
        origin=_origin(report),
        columns=_COLUMNS,
    )


def fair_values(report: FairReport) -> dict[str, Any]:
    """Return every number of the comparison, for JSON.

    Args:
        report: The comparison.
    """
    section = fair_section(report.rows, confidence=report.confidence)
    return {
        "tournament": report.tournament_id,
        "mode": report.mode,
        "judge": report.judge,
        "confidence": report.confidence,
        "excluded": list(report.excluded),
        "content_hash": report.version,
        "page": report.page,
        "summary": list(section.sentences),
        "fair_comparison": [asdict(row) for row in report.rows],
    }


def print_fair_report(report: FairReport, console: Console) -> None:
    """Print the comparison on a terminal.

    Args:
        report: The comparison.
        console: Where to print.
    """
    section = fair_section(report.rows, confidence=report.confidence)
    for line in _facts(report):
        print_text(line, console, style="dim")
    for title, cells in section.tables:
        print_table(title, cells, console)
    console.print()
    for sentence in section.sentences:
        print_text(sentence, console)


def _facts(report: FairReport) -> list[str]:
    facts = [
        f"tournament: {report.tournament_id}, mode: {report.mode}",
        f"judge: {report.judge}; model: "
        f"{join_names(sorted({str(row.judge_model) for row in report.rows}))}",
        f"page: {report.page}",
    ]
    if report.excluded:
        facts.append(f"left out, as if they had not taken part: {join_names(report.excluded)}")
    return facts


def _origin(report: FairReport) -> str:
    if report.excluded:
        return (
            "Rated anew without those left out, from the stored tables judge_verdicts, "
            "selected_prompts and entrant_responses, by what makes the table fair_comparison; its "
            f"rows would have the content hash {report.version}. Prompts that only an excluded "
            "entrant did not answer were never judged, so they are missing here too."
        )
    return (
        f"The table fair_comparison of the mode {report.mode}, content hash {report.version}; it "
        "has a row for every dimension, stratum, basis and entrant."
    )
