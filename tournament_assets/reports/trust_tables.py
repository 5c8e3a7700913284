"""The trust panel as a table: a row per light, in words, with its number and advice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from tournament_assets.foundation.formatting import (
    ABSENT,
    Display,
    format_confidence,
    format_share,
    join_names,
)
from tournament_assets.reports.claims import Statements
from tournament_assets.reports.rendering import render_part
from tournament_assets.reports.report_tables import (
    HtmlText,
    ReportSection,
    ReportTable,
    light_text,
    select_columns,
)
from tournament_assets.reports.sections import Doubt
from tournament_assets.tournament.asset_rows import MeasureRow, by_dimension
from tournament_assets.trust.lights import Measure, TrustState
from tournament_assets.trust.measures import CIRCLES, MEASURES, UNJUDGED

_TEMPLATE = "trust.jinja"
_LIT = (TrustState.RED, TrustState.AMBER, TrustState.GREEN)


@dataclass(frozen=True, slots=True)
class Light:
    """A number about the judge as people see it.

    Attributes:
        row: A row of a table of measures that have a light.
    """

    row: MeasureRow

    @property
    def measure(self) -> Measure:
        """What was measured."""
        return MEASURES[self.row.measure]

    @property
    def title(self) -> str:
        """The measure, and the entrant or judge that it is about."""
        return ": ".join(filter(None, (self.measure.title, self.row.subject)))

    @property
    def line(self) -> Annotated[str, Display("measure")]:
        """The title of its line of the panel, where one entrant stands for all."""
        is_worst = self.row.measure == UNJUDGED
        return self.title.replace(": ", ", worst entrant: ", 1) if is_worst else self.title

    @property
    def state(self) -> Annotated[str, Display("light", light_text)]:
        """What it shows."""
        return str(self.row.state)

    @property
    def value(self) -> str:
        """The number with its unit."""
        return _number(self.row.value, self.row.unit)

    @property
    def ends(self) -> str:
        """The ends of its interval; empty without one."""
        if self.row.low is None or self.row.high is None:
            return ""
        low, high = (
            _number(end, self.row.unit).removesuffix(" Elo")
            for end in (self.row.low, self.row.high)
        )
        return f"{low.removesuffix(' %')} to {high}"

    @property
    def number(self) -> Annotated[str, Display("value (interval)")]:
        """The number with its interval."""
        return f"{self.value} ({self.ends})" if self.ends else self.value

    @property
    def n(self) -> Annotated[int, Display("n")]:
        """What it was counted over."""
        return self.row.n

    @property
    def threshold(self) -> Annotated[str | None, Display("threshold")]:
        """What is expected of the number; None where the config names no limit."""
        limit, measure = self.row.threshold, self.measure
        if limit is None:
            return None
        if measure.expected != "near":
            return f"{measure.expected} {_number(limit, measure.unit)}"
        if measure.unit == "points":
            return f"within ±{limit:.0f} Elo"
        return f"{100 * (0.5 - limit):.1f} to {format_share(0.5 + limit)}"

    @property
    def leans(self) -> str:
        """What the number says of the judge; empty where it says nothing of a direction."""
        return self.measure.lean_of(self.row.value)

    @property
    def more(self) -> str:
        """About how many more would turn an amber light red or green; empty if unknown."""
        row = self.row
        if row.threshold is None or row.low is None or row.high is None:
            return ""
        more = self.measure.needed(row.estimate, row.threshold)
        if more is None:
            return "so near its limit that a hundred times as many would not tell"
        rounding = 10 ** max(0, len(str(more)) - 2)
        about = -(-more // rounding) * rounding
        return f"about {about:,} more {self.measure.counted}{'' if about == 1 else 's'}"

    @property
    def behind(self) -> Annotated[str, Display("behind it")]:
        """The counts behind it; of an amber light, also how many more would tell."""
        amber = ("too few to tell", self.more) if self.row.state == TrustState.AMBER else ()
        return "; ".join(filter(None, (self.row.estimate.why, ": ".join(filter(None, amber)))))


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ABSENT
    if unit == "share":
        return format_share(value)
    if unit == "points":
        return f"{value:+.0f} Elo" if round(value) else "0 Elo"
    return f"{value:.3f}" if unit == "p" else f"{value:.2f}"


def trust_table(rows: Sequence[MeasureRow]) -> ReportTable:
    """Return the panel of one dimension, a row per measure; of entrants, the worst.

    Args:
        rows: Rows of table "measures" of one dimension.
    """
    columns = select_columns(Light, "line", "state", "number", "n", "threshold", "behind")
    return ReportTable.of(map(Light, _worst_entrants(rows)), columns)


def light_sentence(row: MeasureRow) -> str:
    """Describe what a light shows, and what to do if it is red.

    Args:
        row: One line of the panel.
    """
    return render_part(_TEMPLATE, "light", Light(row))[0]


def red_sentences(rows: Sequence[MeasureRow]) -> list[str]:
    """Return the sentences that precede any number: the red lights, by dimension.

    Args:
        rows: Rows of table "measures", all dimensions.
    """
    return [
        line
        for dimension, members in by_dimension(rows).items()
        for line in render_part(
            _TEMPLATE,
            *("red", dimension, _tests(members, TrustState.RED), len(_tests(members))),
            _too_much_unjudged(members),
        )
    ]


def amber_sentences(rows: Sequence[MeasureRow]) -> list[str]:
    """Return the amber lights by dimension, with how many more would tell.

    Args:
        rows: Rows of table "measures", all dimensions.
    """
    return [
        line
        for dimension, members in by_dimension(rows).items()
        if (amber := _tests(members, TrustState.AMBER))
        for line in render_part(_TEMPLATE, "amber", dimension, amber, len(_tests(members)))
    ]


def _tests(rows: Sequence[MeasureRow], state: TrustState | None = None) -> list[Light]:
    """Return the lights of tests of the judge, which unjudged pairs are not; of one state if given.

    A test that was not measured, or has no threshold, is none of them.
    """
    states = _LIT if state is None else (state,)
    return [Light(row) for row in rows if row.state in states and row.measure != UNJUDGED]


def _too_much_unjudged(rows: Sequence[MeasureRow]) -> list[Light]:
    missing = (row for row in rows if row.measure == UNJUDGED and row.state == TrustState.RED)
    return [Light(row) for row in missing]


def red_summary(rows: Sequence[MeasureRow]) -> str:
    """Return the red lights of all dimensions in a few words; empty if there is none.

    Args:
        rows: Rows of table "measures", all dimensions.
    """
    red, missing = _tests(rows, TrustState.RED), _too_much_unjudged(rows)
    names = list(dict.fromkeys(light.measure.title for light in red))
    worst = sorted(missing, key=lambda light: light.row.value or 0.0)[-1:]
    lines = render_part(_TEMPLATE, "summary", names, len(red), len(_tests(rows)), worst)
    return "; ".join(lines)


def trust_section(lights: Sequence[MeasureRow], *, confidence: float) -> ReportSection | None:
    """Return the report section on whether the judge can be trusted.

    Args:
        lights: Rows of tables of measures that have a light, all dimensions.
    """
    if not lights:
        return None
    red = [Light(row) for row in lights if row.state == TrustState.RED]
    n_amber = len(_tests(lights, TrustState.AMBER))
    measures = dict.fromkeys(MEASURES[row.measure] for row in lights)
    advice = dict.fromkeys((light.measure, light.leans) for light in red)
    (finding,) = render_part(
        _TEMPLATE, "finding", red_summary(lights), len(_tests(lights)), n_amber
    )
    numbers = ReportSection(
        "Every number, by dimension",
        tuple(render_part(_TEMPLATE, "numbers", format_confidence(confidence))),
        tuple(
            (dimension, trust_table(_measured(members)))
            for dimension, members in by_dimension(lights).items()
        ),
        finding="with n, threshold, and what is behind it",
        one_at_a_time=True,
    )
    meanings = ReportTable(
        ("measure", "what it means"),
        tuple((measure.title, measure.meaning) for measure in measures),
        look="pairs",
    )
    what_to_do = ReportTable(
        ("red", "what to do"),
        tuple(
            (f"{measure.title}: the judge {leans}" if leans else measure.title, measure.advice)
            for measure, leans in advice
        ),
    )
    return ReportSection(
        "Trust panel",
        (*amber_sentences(lights), *_unlit_sentences(lights)),
        (
            ("The judge on each dimension", trust_matrix(lights)),
            *((("What to do about what is red", what_to_do),) if red else ()),
        ),
        finding=finding,
        folds=(numbers, ReportSection("What each light means", (), (("", meanings),))),
        is_open=True,
    )


def trust_doubts(lights: Sequence[MeasureRow]) -> list[Doubt]:
    """Return the red lights as one doubt, if there are any."""
    sentences = red_sentences(lights)
    return [Doubt(red_summary(lights), " ".join(sentences), is_red=True)] if sentences else []


def circle_remarks(
    measures: Sequence[MeasureRow], *, statements: Mapping[str, Statements]
) -> dict[str, tuple[str]]:
    """Return how much runs in circles on every dimension on which claims go in one.

    Args:
        measures: Rows of the table, all dimensions.
        statements: What is known of the entrants, by dimension.
    """
    shares = {
        row.dimension: row for row in measures if row.measure == CIRCLES and row.value is not None
    }
    return {
        name: (f"Circles are {Light(shares[name]).number} of the variance between the entrants.",)
        for name, board in statements.items()
        if name in shares and board.circle
    }


def trust_matrix(rows: Sequence[MeasureRow]) -> ReportTable:
    """Return a row per measure and a column per dimension, without unmeasured measures.

    For a measure of every entrant it shows the worst.

    Args:
        rows: Rows of table "measures", all dimensions.
    """
    dimensions = list(dict.fromkeys(row.dimension for row in rows))
    lines: dict[tuple[str, str | None], dict[str, Light]] = {}
    for row in _measured(_worst_entrants(rows)):
        subject = None if row.measure == UNJUDGED else row.subject
        lines.setdefault((row.measure, subject), {})[row.dimension] = Light(row)
    texts = []
    for (measure, subject), lights in lines.items():
        title = MEASURES[measure].title + (", worst entrant" if measure == UNJUDGED else "")
        cells = (_cell(lights[name]) if name in lights else ABSENT for name in dimensions)
        limit = next(iter(lights.values())).threshold or ABSENT
        texts.append((": ".join(filter(None, (title, subject))), *cells, limit))
    return ReportTable(("measure", *dimensions, "expected"), tuple(texts))


def _cell(light: Light) -> HtmlText:
    return light_text(
        light.state,
        f"{light.state}: {light.number}",
        light.value,
        small=", ".join(filter(None, (light.state, light.ends))),
    )


def _worst_entrants(rows: Sequence[MeasureRow]) -> list[MeasureRow]:
    """Return the rows, of those on entrants' unjudged pairs the largest share per dimension."""
    unjudged = by_dimension(row for row in rows if row.measure == UNJUDGED)
    worst = {
        name: max(members, key=lambda row: row.value or 0.0) for name, members in unjudged.items()
    }
    return [row for row in rows if row.measure != UNJUDGED or row is worst[row.dimension]]


def _unlit_sentences(rows: Sequence[MeasureRow]) -> list[str]:
    """Describe what was measured on no dimension, in a sentence for each way to measure it."""
    measured = {row.measure for row in _measured(rows)}
    titles: dict[str | None, dict[str, None]] = {}
    for row in rows:
        if row.measure not in measured:
            titles.setdefault(row.remedy, {})[MEASURES[row.measure].title] = None
    words = ("; ".join(filter(None, (join_names([*of]), way))) for way, of in titles.items())
    return [f"Not measured, so neither green nor red: {lights}." for lights in words]


def _measured(rows: Sequence[MeasureRow]) -> list[MeasureRow]:
    return [row for row in rows if row.state != TrustState.NOT_MEASURED]
