"""What came of the kills, as a text for people."""

from collections import Counter

from tests.torture.torturing import Report

_COLUMNS = {
    "kills": "kills",
    "adopted": "adopted",
    "verdicts_lost": "lost",
    "batches_twice": "batches",
    "requests_twice": "replies",
    "direct_twice": "direct",
}
_LEGEND = """\
kills: processes killed, of which the next one went on with the work
adopted: batches whose sender was killed before it had written down their name, and that were found
lost: verdicts that are not what they are when nobody is killed
batches: batches submitted twice
replies: replies of batches that were paid for twice
direct: replies to direct messages that were under way at a kill, and paid for twice"""
_WIDTH = 44
_SHOWN = 20


def describe(report: Report, *, seconds: float) -> str:
    """Return the counts by place of death and by part, what is wrong, and the sums."""
    lines = [_line("killed where", _COLUMNS)]
    parts: dict[str, Counter[str]] = {}
    for (part, place), counts in sorted(report.rows.items()):
        if part not in parts:
            lines += ["", part]
        parts.setdefault(part, Counter()).update(counts)
        lines.append(_line(f"  {place}", counts))
    totals = report.totals
    lines += ["", _line("all together", _COLUMNS)]
    lines += [_line(f"  {part}", counts) for part, counts in parts.items()]
    lines += [_line("  all", totals), "", _LEGEND, ""]
    lines += [f"left out: {name}: there is no PostgreSQL here" for name in report.skipped]
    lines += [f"WRONG: {outcome}"[:3000] for outcome in report.wrong[:_SHOWN]]
    lines.append(
        f"{totals['kills']:,} kills in {len(report.outcomes):,} trials, {seconds:,.0f} s: "
        f"{totals['verdicts_lost']} verdicts lost, {totals['batches_twice']} batches submitted "
        f"twice, {totals['requests_twice']} replies of batches paid for twice; of direct replies "
        f"at most {report.most_at_once:.0f} at a kill; {totals['wrong']} trials wrong"
    )
    return "\n".join(lines)


def _line(name: str, values: "dict[str, str] | Counter[str]") -> str:
    return f"{name:<{_WIDTH}}" + "".join(f"{values[column]:>9}" for column in _COLUMNS)
