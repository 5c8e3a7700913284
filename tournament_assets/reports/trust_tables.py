"""The trust panel as a table: a row per light, in words, with its number and advice."""

from collections.abc import Mapping, Sequence

from tournament_assets.reports.claims import Statements
from tournament_assets.reports.report_tables import (
    HtmlCell,
    ReportSection,
    ReportTable,
    light_class,
)
from tournament_assets.reports.sections import Doubt
from tournament_assets.tournament.asset_rows import (
    LeaderboardRow,
    MeasureRow,
    WinRateRow,
    by_dimension,
)
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_confidence,
    format_plural,
    format_share,
    join_names,
)
from tournament_assets.trust.lights import TrustState
from tournament_assets.trust.measures import CIRCLES, MEASURES, UNJUDGED

_NAMED_LIGHTS = 3
"""Most red lights that one line names."""
_TOLD = (TrustState.RED, TrustState.AMBER, TrustState.GREEN)


def trust_table(rows: Sequence[MeasureRow]) -> ReportTable:
    """Return the panel of one dimension, a row per measure; of entrants, the worst.

    Args:
        rows: Rows of table "measures" of one dimension.
    """
    return ReportTable.of(
        _worst_entrants(rows),
        {
            "measure": lambda row: _panel_title(row.measure, row.subject),
            "light": lambda row: row.state,
            "value (interval)": _with_interval,
            "n": lambda row: row.n,
            "threshold": lambda row: _threshold(row.measure, row.threshold),
            "behind it": _behind,
        },
    )


def light_sentence(row: MeasureRow) -> str:
    """Describe what a light shows, and what to do if it is red.

    Args:
        row: One line of the panel.
    """
    measure, title = MEASURES[row.measure], _title(row.measure, row.subject)
    if row.value is None:
        return f"{title}: not measured ({row.estimate.why})."
    interval = (
        f", interval {_number(row.low, row.unit)} to {_number(row.high, row.unit)}"
        if row.low is not None and row.high is not None
        else ""
    )
    limit = _threshold(row.measure, row.threshold)
    against = f"; {limit} expected" if row.threshold is not None else ""
    amber = "amber, " if row.state == TrustState.AMBER else ""
    sentence = (
        f"{title}: {amber}{_number(row.value, row.unit)}{interval}{against} ({_behind(row)})."
    )
    if row.state != TrustState.RED:
        return sentence
    leans = measure.lean_of(row.value)
    return " ".join(filter(None, (sentence, leans and f"The judge {leans}.", measure.advice)))


def red_sentences(rows: Sequence[MeasureRow]) -> list[str]:
    """Return the sentences that precede any number: the red lights, by dimension.

    Args:
        rows: Rows of table "measures", all dimensions.
    """
    sentences = []
    for dimension, own in by_dimension(rows).items():
        red, missing = _tests(own, TrustState.RED), _too_much_unjudged(own)
        if red:
            listed = "; ".join(map(_red_clause, red))
            sentences.append(
                f"The judge on {dimension}: {len(red)} of {len(_tests(own))} lights red. "
                f"{listed[0].upper()}{listed[1:]}. See the trust panel before using these ratings."
            )
        if missing:
            sentences.append(f"Missing on {dimension}: {_missing_shares(missing)}.")
    return sentences


def _red_clause(row: MeasureRow) -> str:
    leans = MEASURES[row.measure].lean_of(row.value)
    return (
        f"{_title(row.measure, row.subject)} {_with_interval(row)}, "
        f"{f'it {leans}, ' if leans else ''}"
        f"{_threshold(row.measure, row.threshold)} expected, n = {row.n}"
    )


def amber_sentences(rows: Sequence[MeasureRow]) -> list[str]:
    """Return the amber lights by dimension, with how many more would tell.

    Args:
        rows: Rows of table "measures", all dimensions.
    """
    return [
        f"The judge on {dimension}: {len(amber)} of {len(_tests(own))} lights amber, too few to "
        f"tell: {join_names([_amber_clause(row) for row in amber])}."
        for dimension, own in by_dimension(rows).items()
        if (amber := _tests(own, TrustState.AMBER))
    ]


def _amber_clause(row: MeasureRow) -> str:
    more = _more(row)
    return _title(row.measure, row.subject) + (f" ({more})" if more else "")


def _more(row: MeasureRow) -> str:
    """Return about how many more would turn an amber light red or green; empty if unknown."""
    measure = MEASURES[row.measure]
    if row.threshold is None or row.low is None or row.high is None:
        return ""
    more = measure.needed(row.estimate, row.threshold)
    if more is None:
        return "so near its limit that a hundred times as many would not tell"
    rounding = 10 ** max(0, len(str(more)) - 2)
    about = -(-more // rounding) * rounding
    return f"about {about:,} more {measure.counted}{'' if about == 1 else 's'}"


def _tests(rows: Sequence[MeasureRow], state: TrustState | None = None) -> list[MeasureRow]:
    """Return the lights of tests of the judge, which unjudged pairs are not; of one state if given.

    A test that was not measured, or has no threshold, is none of them.
    """
    states = _TOLD if state is None else (state,)
    return [row for row in rows if row.state in states and row.measure != UNJUDGED]


def _too_much_unjudged(rows: Sequence[MeasureRow]) -> list[MeasureRow]:
    return [row for row in rows if row.measure == UNJUDGED and row.state == TrustState.RED]


def red_summary(rows: Sequence[MeasureRow]) -> str:
    """Return the red lights of all dimensions in a few words; empty if there is none.

    Args:
        rows: Rows of table "measures", all dimensions.
    """
    red, parts = _tests(rows, TrustState.RED), []
    if red:
        names = list(dict.fromkeys(MEASURES[row.measure].title for row in red))
        named = names if len(names) <= _NAMED_LIGHTS else [*names[:2], f"{len(names) - 2} more"]
        parts.append(
            f"{len(red)} of {len(_tests(rows))} lights on the judge are red ({join_names(named)})"
        )
    if missing := _too_much_unjudged(rows):
        worst = max(missing, key=lambda row: row.value or 0.0)
        parts.append(f"missing on {worst.dimension}: {_missing_shares([worst])}")
    return "; ".join(parts)


def _missing_shares(rows: Sequence[MeasureRow]) -> str:
    shares = [f"{_number(row.value, row.unit)} of {row.subject}'s pairs" for row in rows]
    return f"{join_names(shares)} (limit {_number(rows[0].threshold, rows[0].unit)})"


def trust_section(lights: Sequence[MeasureRow], *, confidence: float) -> ReportSection | None:
    """Return the report section on whether the judge can be trusted.

    Args:
        lights: Rows of tables of measures that have a light, all dimensions.
    """
    if not lights:
        return None
    rows, panels = lights, by_dimension(lights)
    red = [row for row in rows if row.state == TrustState.RED]
    amber = _tests(rows, TrustState.AMBER)
    n = len(_tests(rows))
    lit = f"none of {format_plural(n, 'light')} on the judge is red" if n else ""
    finding = red_summary(rows) or lit or "nothing could be measured"
    numbers = ReportSection(
        "Every number, by dimension",
        (
            "Every number is over pairs that the judge was asked about, n counts distinct requests "
            "or pairs of them, and identical pairs are in none. Intervals are at "
            f"{format_confidence(confidence)} and by prompt: Wilson's with the effective number of "
            "units for shares, prompts resampled for kappas, the sandwich for Elo points. A light "
            "is green where the whole interval is inside the limits, red where it is outside, and "
            "amber where both are possible: too few to tell. Sooner red are swap consistency, by "
            "its number, and flips and longer wins, where the number is outside and the interval "
            "excludes one half; cycles and unjudged pairs go by the number alone. What was not "
            "measured is never green.",
        ),
        tuple((dimension, trust_table(_measured(own))) for dimension, own in panels.items()),
        finding="with n, threshold, and what is behind it",
        one_at_a_time=True,
    )
    return ReportSection(
        "Trust panel",
        (*amber_sentences(rows), *_unlit_sentences(rows)),
        (
            ("The judge on each dimension", trust_matrix(rows)),
            *((("What to do about what is red", _advice_table(red)),) if red else ()),
        ),
        finding=f"{finding}; {len(amber)} amber: too few to tell" if amber else finding,
        folds=(numbers, ReportSection("What each light means", (), (("", _meaning_table(rows)),))),
        is_open=True,
    )


def trust_doubts(lights: Sequence[MeasureRow]) -> list[Doubt]:
    """Return the red lights as one doubt, if there are any."""
    found = red_sentences(lights)
    return [Doubt(red_summary(lights), " ".join(found), is_red=True)] if found else []


def circle_remarks(
    measures: Sequence[MeasureRow],
    leaderboard: Mapping[str, Sequence[LeaderboardRow]],
    win_rates: Mapping[str, Sequence[WinRateRow]],
) -> dict[str, tuple[str]]:
    """Return how much runs in circles on every dimension on which claims go in one.

    Args:
        measures: Rows of the table, all dimensions.
        leaderboard: Rows of the table by dimension, best entrant first.
        win_rates: Rows of the table by dimension.
    """
    shares = {
        row.dimension: row for row in measures if row.measure == CIRCLES and row.value is not None
    }
    return {
        name: (f"Circles are {_with_interval(shares[name])} of the variance between the entrants.",)
        for name, rows in leaderboard.items()
        if name in shares and Statements.of(rows, win_rates[name], dimension=name).circle
    }


def trust_matrix(rows: Sequence[MeasureRow]) -> ReportTable:
    """Return a row per measure and a column per dimension, without unmeasured measures.

    For a measure of every entrant it shows the worst.

    Args:
        rows: Rows of table "measures", all dimensions.
    """
    dimensions = list(dict.fromkeys(row.dimension for row in rows))
    lines: dict[tuple[str, str | None], dict[str, MeasureRow]] = {}
    for row in _worst_entrants(rows):
        if row.state != TrustState.NOT_MEASURED:
            subject = None if row.measure == UNJUDGED else row.subject
            lines.setdefault((row.measure, subject), {})[row.dimension] = row
    texts, html = [], {}
    for number, ((measure, subject), cells) in enumerate(lines.items()):
        texts.append(
            (
                _panel_title(measure, subject),
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
        light=light_class(state),
    )


def _worst_entrants(rows: Sequence[MeasureRow]) -> list[MeasureRow]:
    """Return the rows, of those on entrants' unjudged pairs the largest share per dimension."""
    worst: dict[str, MeasureRow] = {}
    for row in rows:
        held = worst.get(row.dimension)
        if row.measure == UNJUDGED and (held is None or (row.value or 0.0) > (held.value or 0.0)):
            worst[row.dimension] = row
    return [row for row in rows if row.measure != UNJUDGED or row is worst[row.dimension]]


def _behind(row: MeasureRow) -> str:
    """Return what is behind a light; of an amber one, also how many more would tell."""
    amber = ("too few to tell", _more(row)) if row.state == TrustState.AMBER else ()
    return "; ".join(filter(None, (row.estimate.why, ": ".join(filter(None, amber)))))


def _unlit_sentences(rows: Sequence[MeasureRow]) -> list[str]:
    """Describe what was measured on no dimension, in a sentence for each way to measure it."""
    measured = {row.measure for row in _measured(rows)}
    titles: dict[str | None, dict[str, None]] = {}
    for row in rows:
        if row.measure not in measured:
            titles.setdefault(row.remedy, {})[MEASURES[row.measure].title] = None
    said = ("; ".join(filter(None, (join_names([*of]), way))) for way, of in titles.items())
    return [f"Not measured, so neither green nor red: {each}." for each in said]


def _measured(rows: Sequence[MeasureRow]) -> list[MeasureRow]:
    return [row for row in rows if row.state != TrustState.NOT_MEASURED]


def _advice_table(red: Sequence[MeasureRow]) -> ReportTable:
    told = dict.fromkeys((row.measure, MEASURES[row.measure].lean_of(row.value)) for row in red)
    return ReportTable(
        headers=("red", "what to do"),
        rows=tuple(
            (
                f"{MEASURES[name].title}: the judge {leans}" if leans else MEASURES[name].title,
                MEASURES[name].advice,
            )
            for name, leans in told
        ),
    )


def _meaning_table(rows: Sequence[MeasureRow]) -> ReportTable:
    measures = [MEASURES[name] for name in dict.fromkeys(row.measure for row in rows)]
    return ReportTable(
        ("measure", "what it means"),
        tuple((each.title, each.meaning) for each in measures),
        look="pairs",
    )


def _title(measure: str, subject: str | None) -> str:
    title = MEASURES[measure].title
    return title if subject is None else f"{title}: {subject}"


def _panel_title(measure: str, subject: str | None) -> str:
    title = MEASURES[measure].title
    return ": ".join(
        filter(None, (f"{title}, worst entrant" if measure == UNJUDGED else title, subject))
    )


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
