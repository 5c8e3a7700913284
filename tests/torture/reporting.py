"""What came of the kills, as a text for people."""

from tests.torture.torturing import Report

_COLUMNS = {
    "kills": "kills",
    "adopted": "batches adopted",
    "verdicts_lost": "verdicts lost",
    "batches_twice": "batches twice",
    "requests_twice": "batch replies twice",
    "direct_twice": "direct replies twice",
}
_SHOWN_PROBLEMS = 20


def describe(report: Report, *, seconds: float) -> str:
    """Return the counts by place of death, what is wrong, and the sums."""
    lines: list[str] = []
    last_part = ""
    for (part, place), counts in sorted(report.rows.items()):
        if part != last_part:
            lines += ["", part] if lines else [part]
            last_part = part
        told = [f"{counts['kills']:>6}  {place:<40}"]
        told += [
            f"{counts[name]} {title}"
            for name, title in _COLUMNS.items()
            if name != "kills" and counts[name]
        ]
        lines.append("  ".join(told).rstrip())
    lines += ["", *(f"left out: {name}: there is no PostgreSQL here" for name in report.skipped)]
    lines += [f"WRONG: {outcome}"[:3000] for outcome in report.wrong[:_SHOWN_PROBLEMS]]
    totals = report.totals
    lines += [
        f"{totals['kills']:,} kills in {len(report.outcomes):,} trials, {seconds:,.0f} s: "
        f"{totals['verdicts_lost']} verdicts lost, "
        f"{totals['batches_twice']} batches submitted twice, "
        f"{totals['requests_twice']} of their replies paid for twice, "
        f"{totals['wrong']} trials wrong",
        f"{totals['adopted']} batches that nobody had confirmed were adopted; "
        f"{totals['direct_twice']} direct replies were under way at a kill and paid for twice",
    ]
    return "\n".join(lines)
