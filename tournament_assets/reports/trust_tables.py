"""The trust panel as a table: a row per light, in words, with its number and advice."""

from collections.abc import Sequence

from tournament_assets.reports.report_tables import HtmlCell, ReportSection, ReportTable
from tournament_assets.reports.sections import Doubt
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_confidence,
    format_share,
    join_names,
)
from tournament_assets.trust.lights import TrustState
from tournament_assets.trust.measures import MEASURES, UNJUDGED

_NAMED_LIGHTS = 3
"""Most red lights that one line names."""


def trust_table(rows: Sequence[MeasureRow]) -> ReportTable:
    """Return the panel of one dimension, a row per measure.

    Args:
        rows: Rows of table "measures" of one dimension.
    """
    return ReportTable.of(
        rows,
        {
            "measure": lambda row: _title(row.measure, row.subject),
            "light": lambda row: row.state,
            "value (interval)": _with_interval,
            "n": lambda row: row.n,
            "threshold": lambda row: _threshold(row.measure, row.threshold),
            "behind it": lambda row: row.note or "",
        },
    )


def light_sentence(row: MeasureRow) -> str:
    """Describe what a light shows, and what to do unless it is green.

    Args:
        row: One line of the panel.
    """
    measure, title = MEASURES[row.measure], _title(row.measure, row.subject)
    if row.value is None:
        return f"{title}: not measured ({row.note})."
    interval = (
        f", interval {_number(row.low, row.unit)} to {_number(row.high, row.unit)}"
        if row.low is not None and row.high is not None
        else ""
    )
    limit = _threshold(row.measure, row.threshold)
    against = f"; {limit} expected" if row.threshold is not None else ""
    sentence = f"{title}: {_number(row.value, row.unit)}{interval}{against} ({row.note})."
    return f"{sentence} {measure.advice}" if row.state == TrustState.RED else sentence


def red_sentences(rows: Sequence[MeasureRow]) -> list[str]:
    """Return the sentences that precede any number: the red lights, by dimension.

    Args:
        rows: Rows of table "measures", all dimensions.
    """
    sentences = []
    for dimension in dict.fromkeys(row.dimension for row in rows):
        own = [row for row in rows if row.dimension == dimension]
        red = [row for row in own if row.state == TrustState.RED]
        lit = len(red) + sum(row.state == TrustState.GREEN for row in own)
        if red:
            listed = "; ".join(
                f"{_title(row.measure, row.subject)} {_with_interval(row)}, "
                f"{_threshold(row.measure, row.threshold)} expected, "
                f"n = {row.n}"
                for row in red
            )
            sentences.append(
                f"The judge on {dimension}: {len(red)} of {lit} lights red. {listed[0].upper()}"
                f"{listed[1:]}. "
                "See the trust panel before using these ratings."
            )
    return sentences


def red_summary(rows: Sequence[MeasureRow]) -> str:
    """Return the red lights of all dimensions in a few words; empty if there is none.

    Args:
        rows: Rows of table "measures", all dimensions.
    """
    red = [row for row in rows if row.state == TrustState.RED]
    lit = len(red) + sum(row.state == TrustState.GREEN for row in rows)
    if not red:
        return ""
    names = list(dict.fromkeys(MEASURES[row.measure].title for row in red))
    named = names if len(names) <= _NAMED_LIGHTS else [*names[:2], f"{len(names) - 2} more"]
    return f"{len(red)} of {lit} lights on the judge are red ({join_names(named)})"


def trust_section(lights: Sequence[MeasureRow], *, confidence: float) -> ReportSection | None:
    """Return the report section on whether the judge can be trusted.

    Args:
        lights: Rows of tables of measures that have a light, all dimensions.
    """
    if not lights:
        return None
    rows = lights
    dimensions = list(dict.fromkeys(row.dimension for row in rows))
    red = [row for row in rows if row.state == TrustState.RED]
    green = [row for row in rows if row.state == TrustState.GREEN]
    numbers = ReportSection(
        "Every number, by dimension",
        (
            *(_summary(dimension, rows) for dimension in dimensions),
            "Every number is over pairs that the judge was asked about, n counts distinct requests "
            "or pairs of them, and pairs of one text are in none. Intervals are at "
            f"{format_confidence(confidence)} and by prompt: Wilson's with the effective number of "
            "units for shares, prompts resampled for kappas, the sandwich for Elo points. A light "
            "goes by the number itself, so where the threshold lies inside the interval it may be "
            "chance; for slots and for length it is red only where the interval leaves out no "
            "effect at all. What was not measured is never green.",
        ),
        tuple(
            (name, trust_table([row for row in rows if row.dimension == name]))
            for name in dimensions
        ),
        finding="with n, threshold, and what is behind it",
        one_at_a_time=True,
    )
    return ReportSection(
        "Trust panel",
        tuple(_unlit_sentences(rows)),
        (
            ("The judge on each dimension", trust_matrix(rows)),
            *((("What to do about what is red", _advice_table(red)),) if red else ()),
        ),
        finding=red_summary(rows) or f"none of {len(green)} lights on the judge is red",
        folds=(numbers, ReportSection("What each light means", (), (("", _meaning_table(rows)),))),
        is_open=True,
    )


def trust_doubts(lights: Sequence[MeasureRow]) -> list[Doubt]:
    """Return the red lights as one doubt, if there are any."""
    found = red_sentences(lights)
    return [Doubt(red_summary(lights), " ".join(found), is_red=True)] if found else []


def trust_matrix(rows: Sequence[MeasureRow]) -> ReportTable:
    """Return a row per measure and a column per dimension, without unmeasured measures.

    For a measure of every entrant it shows the worst.

    Args:
        rows: Rows of table "measures", all dimensions.
    """
    dimensions = list(dict.fromkeys(row.dimension for row in rows))
    lines: dict[tuple[str, str | None], dict[str, MeasureRow]] = {}
    for row in rows:
        if row.state == TrustState.NOT_MEASURED:
            continue
        subject = None if row.measure == UNJUDGED else row.subject
        cells = lines.setdefault((row.measure, subject), {})
        held = cells.get(row.dimension)
        if held is None or (row.value or 0.0) > (held.value or 0.0):
            cells[row.dimension] = row
    texts, html = [], {}
    for number, ((measure, subject), cells) in enumerate(lines.items()):
        title = _title(measure, subject)
        if measure == UNJUDGED:
            title = f"{title}, worst entrant"
        texts.append(
            (
                title,
                *(_cell(cells.get(dimension)) for dimension in dimensions),
                _threshold(measure, next(iter(cells.values())).threshold),
            )
        )
        for column, dimension in enumerate(dimensions, start=1):
            if dimension in cells:
                html[number, column] = _html_cell(cells[dimension])
    return ReportTable(("measure", *dimensions, "expected"), tuple(texts), html=html)


def _cell(row: MeasureRow | None) -> str:
    return ABSENT if row is None else f"{row.state}: {_with_interval(row)}"


def _html_cell(row: MeasureRow) -> HtmlCell:
    value, _, interval = _with_interval(row).partition(" (")
    state = str(row.state)
    return HtmlCell(
        value,
        small=f"{state}{', ' if interval else ''}{interval.removesuffix(')')}",
        css="label",
        light=_LIGHTS.get(state, "light unknown"),
    )


_LIGHTS = {"green": "light good", "red": "light bad"}


def _unlit_sentences(rows: Sequence[MeasureRow]) -> list[str]:
    """Describe in one sentence what was measured on no dimension."""
    measured = {row.measure for row in rows if row.state != TrustState.NOT_MEASURED}
    unmeasured = dict.fromkeys(row.measure for row in rows if row.measure not in measured)
    titles = [MEASURES[measure].title for measure in unmeasured]
    return [f"Not measured, so neither green nor red: {join_names(titles)}."] if titles else []


def _summary(dimension: str, rows: Sequence[MeasureRow]) -> str:
    own = [row for row in rows if row.dimension == dimension]
    by_state = {
        state: [_title(row.measure, row.subject) for row in own if row.state == state]
        for state in TrustState
    }
    red, green = by_state[TrustState.RED], by_state[TrustState.GREEN]
    sentence = (
        f"On {dimension}, {len(red)} of {len(red) + len(green)} lights are red: {join_names(red)}."
        if red
        else f"On {dimension}, none of {len(green)} lights is red."
    )
    if by_state[TrustState.NO_THRESHOLD]:
        sentence += (
            " Measured, without a threshold in the config: "
            f"{join_names(by_state[TrustState.NO_THRESHOLD])}."
        )
    if by_state[TrustState.NOT_MEASURED]:
        sentence += f" Not measured: {join_names(by_state[TrustState.NOT_MEASURED])}."
    return sentence


def _advice_table(red: Sequence[MeasureRow]) -> ReportTable:
    measures = [MEASURES[name] for name in dict.fromkeys(row.measure for row in red)]
    return ReportTable.of(
        measures, {"red": lambda each: each.title, "what to do": lambda each: each.advice}
    )


def _meaning_table(rows: Sequence[MeasureRow]) -> ReportTable:
    measures = [MEASURES[name] for name in dict.fromkeys(row.measure for row in rows)]
    return ReportTable.of(
        measures, {"measure": lambda each: each.title, "what it means": lambda each: each.meaning}
    )


def _title(measure: str, subject: str | None) -> str:
    title = MEASURES[measure].title
    return title if subject is None else f"{title}: {subject}"


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ABSENT
    if unit == "share":
        return format_share(value)
    if unit == "points":
        return f"{value:+.0f} Elo" if round(value) else "0 Elo"
    return f"{value:.3f}" if unit == "p" else f"{value:.2f}"


def _with_interval(row: MeasureRow) -> str:
    value = _number(row.value, row.unit)
    if row.low is None or row.high is None:
        return value
    low, high = (_number(end, row.unit).removesuffix(" Elo") for end in (row.low, row.high))
    return f"{value} ({low.removesuffix(' %')} to {high})"


def _threshold(name: str, threshold: float | None) -> str:
    measure = MEASURES[name]
    if threshold is None:
        return ABSENT
    if measure.expected != "near":
        return f"{measure.expected} {_number(threshold, measure.unit)}"
    if measure.unit == "points":
        return f"within ±{threshold:.0f} Elo"
    return f"{100 * (0.5 - threshold):.1f} to {format_share(0.5 + threshold)}"
