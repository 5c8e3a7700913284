"""The audits as people read them: what is missing for whom, and the prompts that decide.

Pure functions of the rows of tables "audit" and "prompt_audit", for the report's page, Markdown and
the terminal alike.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tournament_assets.audits.outages import MissingnessCheck
from tournament_assets.reports.formatting import ABSENT, format_count_of, format_share
from tournament_assets.reports.rendering import ReportSection, ReportTable

Row = Mapping[str, Any]

KIND_TITLES: Mapping[str, str] = {
    "judge_failures": "the judge failed on it",
    "all_inconsistent": "every judgment inconsistent",
    "no_winner": "everybody loses or ties",
    "level": "nobody told apart",
    "stratum_failure": "fails one stratum only",
    "connects": "a rating hangs on it",
    "decides_order": "decides the order",
    "moves_rating": "moves ratings most",
    "signal_to_noise": "noise outweighs signal",
}
"""What every kind of finding is called, in the order of the kinds."""

_COUNTS: Mapping[str, str] = {
    "replies_refused": "refused",
    "replies_unreadable": "unreadable",
    "replies_permanent": "impossible",
    "replies_pending": "pending",
    "infra_remaining": "infra left",
    "infra_rejudged": "infra re-judged",
}


def missing_section(
    rows: Sequence[Row], *, check: MissingnessCheck, outages: Sequence[str] = ()
) -> ReportSection:
    """Return "Audit": what is missing, by entrant, and the scores with and without it.

    Args:
        rows: Rows of table "audit".
        check: What the check `even_missingness` says of them.
        outages: What stands first.
    """
    return ReportSection(
        title="Audit",
        sentences=(
            *outages,
            f"{check.sentence[0].upper()}{check.sentence[1:]}.",
            "Present: pairs with two readable replies. Clean: those among them whose replies "
            "agree, about two responses that are neither empty nor cut off. A score is a share of "
            "wins, ties and inconsistent pairs count half; normalised, it divides by what was "
            "planned, so that what is missing earns nothing.",
        ),
        tables=(
            ("Planned and present, by entrant", _present_table(rows)),
            ("Presentations without a verdict, by entrant", _missing_table(rows)),
            ("Scores with and without what is missing", _score_table(rows)),
        ),
    )


def prompts_section(rows: Sequence[Row], *, limit: int = 12) -> ReportSection:
    """Return "Strata and the prompts that decide".

    Args:
        rows: Rows of table "prompt_audit".
        limit: The most rows of each table.
    """
    findings = [row for row in rows if row["is_finding"]]
    measured = [row for row in rows if row["kind"] == "signal_to_noise"]
    sentences = [_summary(findings, len({row["prompt_id"] for row in measured}))]
    hidden = len(findings) - limit
    if hidden > 0:
        sentences.append(f"The first {limit} findings are shown; {hidden} more are in the table.")
    tables = [
        ("Prompts to look at, worst first", _finding_table(findings[:limit])),
        (
            "Prompts without which ratings move most",
            _deciding_table(_top_movers(rows, limit)),
        ),
        ("Signal to noise by stratum", _noise_table(measured)),
    ]
    return ReportSection(
        title="Strata and the prompts that decide",
        sentences=tuple(sentences),
        tables=tuple((title, table) for title, table in tables if table.rows),
    )


def audit_sections(
    audit: Sequence[Row],
    prompt_audit: Sequence[Row],
    *,
    check: MissingnessCheck,
    outages: Sequence[str] = (),
    limit: int = 12,
) -> tuple[ReportSection, ReportSection]:
    """Return both sections.

    Args:
        audit: Rows of table "audit".
        prompt_audit: Rows of table "prompt_audit".
        check: What the check `even_missingness` says.
        outages: What stands first.
        limit: The most rows of each table about prompts.
    """
    return (
        missing_section(audit, check=check, outages=outages),
        prompts_section(prompt_audit, limit=limit),
    )


def _present_table(rows: Iterable[Row]) -> ReportTable:
    return ReportTable(
        headers=(
            "dimension",
            "entrant",
            "answered",
            "empty",
            "cut off",
            "pairs present",
            "not asked",
            "coverage",
        ),
        rows=tuple(
            (
                row["dimension"],
                row["entrant_id"],
                f"{row['responses']} / {row['prompts_selected']}",
                str(row["empty_responses"]),
                str(row["truncated_responses"]),
                f"{row['pairs_judged']} / {row['pairs_planned']}",
                str(row["pairs_unanswered"]),
                format_share(row["coverage"]),
            )
            for row in rows
        ),
        n_labels=2,
    )


def _missing_table(rows: Iterable[Row]) -> ReportTable:
    return ReportTable(
        headers=("dimension", "entrant", *_COUNTS.values()),
        rows=tuple(
            (row["dimension"], row["entrant_id"], *(str(row[name]) for name in _COUNTS))
            for row in rows
        ),
        n_labels=2,
    )


def _score_table(rows: Iterable[Row]) -> ReportTable:
    return ReportTable(
        headers=(
            "dimension",
            "entrant",
            "planned",
            "present",
            "clean",
            "mean",
            "clean mean",
            "normalised",
        ),
        rows=tuple(
            (
                row["dimension"],
                row["entrant_id"],
                str(row["pairs_planned"]),
                str(row["pairs_judged"]),
                str(row["pairs_clean"]),
                format_share(row["score_present"]),
                format_share(row["score_clean"]),
                format_share(row["score_normalised"]),
            )
            for row in rows
        ),
        n_labels=2,
    )


def _summary(findings: Sequence[Row], n_prompts: int) -> str:
    if not findings:
        return f"Nothing stands out among {n_prompts} prompts."
    counts = Counter(row["kind"] for row in findings)
    named = ", ".join(f"{KIND_TITLES[kind]} {counts[kind]}" for kind in KIND_TITLES if counts[kind])
    noun = "finding" if len(findings) == 1 else "findings"
    return f"{len(findings)} {noun} on {n_prompts} prompts: {named}."


def _finding_table(rows: Iterable[Row]) -> ReportTable:
    return ReportTable(
        headers=("dimension", "what", "prompt", "stratum", "finding"),
        rows=tuple(
            (
                row["dimension"],
                KIND_TITLES[row["kind"]],
                row["prompt_id"] or ABSENT,
                row["stratum"],
                row["sentence"],
            )
            for row in rows
        ),
        n_labels=5,
    )


def _top_movers(rows: Iterable[Row], limit: int) -> list[Row]:
    moves = [row for row in rows if row["kind"] == "moves_rating"]
    moves.sort(key=lambda row: (-abs(row["value"]), row["dimension"], row["prompt_id"]))
    order = {
        (row["dimension"], row["prompt_id"]): row["entrants"]
        for row in rows
        if row["kind"] == "decides_order"
    }
    return [
        {**row, "swapped": order.get((row["dimension"], row["prompt_id"]), [])}
        for row in moves[:limit]
    ]


def _deciding_table(rows: Iterable[Row]) -> ReportTable:
    return ReportTable(
        headers=("dimension", "prompt", "stratum", "change places", "moves", "Elo points"),
        rows=tuple(
            (
                row["dimension"],
                row["prompt_id"],
                row["stratum"],
                ", ".join(row["swapped"]) or ABSENT,
                ", ".join(row["entrants"]),
                f"{row['value']:+.1f}",
            )
            for row in rows
        ),
        n_labels=5,
    )


def _noise_table(rows: Sequence[Row]) -> ReportTable:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["dimension"], row["stratum"]), []).append(row)
    return ReportTable(
        headers=("dimension", "stratum", "prompts", "noise outweighs signal", "pairs that flip"),
        rows=tuple(
            (
                dimension,
                stratum,
                str(len(members)),
                format_count_of(sum(row["is_finding"] for row in members), len(members)),
                format_count_of(
                    sum(row["count"] for row in members), sum(row["total"] for row in members)
                ),
            )
            for (dimension, stratum), members in sorted(groups.items())
        ),
        n_labels=2,
    )
