"""The results of the Python API: estimates, ratings, comparisons, gate results and pictures.

Each holds its values, offers them as a pandas frame, and displays itself in a notebook.
"""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import pandas as pd
import pyarrow as pa
from rich.console import Console

from tournament_assets.battles.rating import BattleRatings
from tournament_assets.foundation.estimates import Rating
from tournament_assets.judging.costs.estimates import JudgingEstimate
from tournament_assets.ratings.rating_methods import (
    ELO,
    METHODS,
)
from tournament_assets.ratings.rating_tables import rows_of_ratings
from tournament_assets.reports.battle_sections import battle_sections
from tournament_assets.reports.cost_estimate import estimate_document, estimate_rows
from tournament_assets.reports.rendering import render_template
from tournament_assets.reports.report_tables import Document, ReportSection
from tournament_assets.reports.terminal import print_document
from tournament_assets.run_comparison.comparison import (
    RunComparison,
    comparison_document,
    summary,
    verdict_line,
)
from tournament_assets.run_comparison.differences import Sameness
from tournament_assets.run_comparison.gate import (
    Gate,
    Passage,
    gate_document,
    gate_sentences,
)
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import RatingRow, RequestsRow
from tournament_assets.tournament.battles import RatingSettings

_SHOWN_CHANGES = 20


class Shown:
    """A result that prints as text what a notebook shows as HTML."""

    def _document(self) -> Document:
        raise NotImplementedError

    def __str__(self) -> str:
        printed = io.StringIO()
        print_document(self._document(), Console(file=printed, width=100, highlight=False))
        return printed.getvalue().rstrip()

    def _repr_html_(self) -> str:
        shown = self._document()
        return show_html(shown.title, shown.sections, first_lines=shown.warnings)


@dataclass(frozen=True)
class PriceEstimate(Shown):
    """The estimated cost of judging a mode.

    Attributes:
        values: Every number of it.
    """

    values: JudgingEstimate = field(repr=False)

    @property
    def requests(self) -> int:
        """Requests that are still to be sent."""
        return self.values.to_ask

    @property
    def usd(self) -> float | None:
        """Their highest expected cost in US dollars; None if no price is known."""
        return self.values.planned_usd

    @property
    def frame(self) -> pd.DataFrame:
        """Requests, tokens and prices, one row per dimension; columns as in `judging_estimate`."""
        return make_table(RequestsRow, estimate_rows(self.values))

    def _document(self) -> Document:
        return replace(estimate_document(self.values), title="What judging costs")


@dataclass(frozen=True)
class Picture:
    """A picture that a notebook shows.

    Attributes:
        svg: The picture, as an SVG file.
        alt: Its description for screen readers.
    """

    svg: bytes = field(repr=False)
    alt: str

    def _repr_html_(self) -> str:
        return render_template("picture.html.jinja", address=self.address, alt=self.alt)

    @property
    def address(self) -> str:
        """A data URL that holds the picture; as an image it cannot run scripts."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg).decode('ascii')}"


@dataclass(frozen=True)
class Ratings(Shown):
    """Ratings from battles alone.

    Attributes:
        dimensions: The ratings of each dimension, with counts, win rates and notes.
        settings: How they were rated.
        left_out: Number of rows that are not battles, by reason.
        warnings: Possible problems of rating the battles together.
    """

    dimensions: tuple[BattleRatings, ...] = field(repr=False)
    settings: RatingSettings
    left_out: Mapping[str, int]
    warnings: tuple[str, ...]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row for each dimension, method and model, best first: rows of table "ratings"."""
        rows = [row for each in self.dimensions for row in _rated_models(each)]
        return make_table(RatingRow, rows)

    def _document(self) -> Document:
        left_out = tuple(f"left out, {why}: {count}" for why, count in self.left_out.items())
        sections = battle_sections(self.dimensions, self.settings)
        return Document("Ratings", [*sections, ReportSection("", left_out)], self.warnings)


def _rated_models(ratings: BattleRatings) -> list[RatingRow]:
    elo = (
        Rating(row.mean, None, None, row.n_entrant_matches, row.note, entrant=row.entrant_id)
        for row in ratings.elo
        if row.is_primary
    )
    rows = [*rows_of_ratings(elo, ELO), *ratings.ratings]
    return [
        replace(row, dimension=ratings.dimension or "")
        for row in rows
        if not METHODS[row.method].beside
    ]


_Column = tuple[pa.DataType, Callable[[Any], Any]]
_COMPARED: Mapping[str, _Column] = {
    "dimension": (pa.string(), attrgetter("dimension")),
    "entrant_id": (pa.string(), attrgetter("entrant_id")),
    "rank_a": (pa.int64(), lambda move: move.then and move.then.rank),
    "rank_b": (pa.int64(), lambda move: move.now and move.now.rank),
    "mean_a": (pa.float64(), lambda move: move.then and move.then.value),
    "mean_b": (pa.float64(), lambda move: move.now and move.now.value),
    "difference": (pa.float64(), attrgetter("difference")),
}
_GATED: Mapping[str, _Column] = {
    "dimension": (pa.string(), attrgetter("test.dimension")),
    "passage": (pa.string(), attrgetter("passage.value")),
    "difference": (pa.float64(), attrgetter("test.difference.value")),
    "low": (pa.float64(), attrgetter("test.difference.low")),
    "high": (pa.float64(), attrgetter("test.difference.high")),
    "p_not_worse": (pa.float64(), attrgetter("p_not_worse")),
    "p_worse": (pa.float64(), attrgetter("p_worse")),
}
"""Columns of the frames of comparisons and gate results, and how their values are read."""


@dataclass(frozen=True)
class Comparison(Shown):
    """Two finished runs side by side.

    Attributes:
        values: Everything that was compared.
    """

    values: RunComparison = field(repr=False)

    @property
    def sameness(self) -> Sameness:
        """Whether the runs agree: `same`, `differs` significantly, or `undecided`."""
        return self.values.verdict.sameness

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict, then what differs in inputs, judgments, places and cost."""
        return (verdict_line(self.values), *summary(self.values))

    @property
    def frame(self) -> pd.DataFrame:
        """Every entrant's standing in both runs, one row per dimension and entrant.

        Columns: `dimension`, `entrant_id`, `rank_a`, `rank_b`, `mean_a`, `mean_b`, `difference`; an
        entrant in only one run has no values for the other.
        """
        return _frame_of(self.values.moves, _COMPARED)

    def _document(self) -> Document:
        document = comparison_document(self.values, limit=_SHOWN_CHANGES)
        names = " and ".join(run.folder.name for run in (self.values.then, self.values.now))
        return replace(document, title=names, warnings=())


@dataclass(frozen=True)
class GateResult(Shown):
    """Whether a candidate passes a run's gate, and why.

    Attributes:
        values: Every number of it.
    """

    values: Gate = field(repr=False)

    @property
    def passage(self) -> Passage:
        """The gate's verdict: `not worse`, `worse` or `undecided`."""
        return self.values.passage

    @property
    def is_not_worse(self) -> bool:
        """Whether the candidate passes; an undecided one does not."""
        return self.passage is Passage.NOT_WORSE

    @property
    def sentences(self) -> tuple[str, ...]:
        """The gate's verdict, and what leaves it undecided."""
        return tuple(gate_sentences(self.values))

    @property
    def frame(self) -> pd.DataFrame:
        """The candidate compared with the baseline, one row per dimension.

        Columns: `dimension`, `passage`, `difference`, `low`, `high`, `p_not_worse`, `p_worse`.
        """
        return _frame_of(self.values.dimensions, _GATED)

    def _document(self) -> Document:
        return gate_document(self.values)


def _frame_of(rows: Sequence[Any], columns: Mapping[str, _Column]) -> pd.DataFrame:
    """Make a frame of rows in which missing values stay missing and integers stay integers."""
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    values = [{name: read(row) for name, (_, read) in columns.items()} for row in rows]
    frame: pd.DataFrame = pa.Table.from_pylist(values, schema=schema).to_pandas(
        types_mapper=pd.ArrowDtype
    )
    return frame


def show_html(
    title: str,
    sections: Sequence[ReportSection],
    *,
    first_lines: Sequence[str] = (),
    picture: str = "",
) -> str:
    """Show a result; whatever comes from outside is escaped in the template."""
    return render_template(
        "result.html.jinja",
        title=title,
        sections=sections,
        first_lines=first_lines,
        picture=picture,
    )
