"""The fair comparison as tables and sentences: the same entrants on three denominators."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from tournament_assets.audits.fair_comparison import (
    ALL,
    COMMON,
    PLANNED,
    WHOLE,
    Families,
)
from tournament_assets.foundation.formatting import (
    ABSENT,
    Display,
    format_confidence,
    format_ends,
    format_interval,
    format_plural,
    format_rating,
    join_names,
)
from tournament_assets.project.playing_judges import PlayingJudge
from tournament_assets.ratings.rating_methods import BRADLEY_TERRY, GAP, WIN_SHARE, neighbours
from tournament_assets.reports.rating_method_tables import AnyStanding, beside
from tournament_assets.reports.rendering import render_part
from tournament_assets.reports.report_tables import (
    Cell,
    Document,
    ReportSection,
    ReportTable,
    select_columns,
)
from tournament_assets.storage.tables import AnyTable, judge_models_of
from tournament_assets.tournament.asset_rows import RatingRow, by_dimension
from tournament_assets.tournament.config import Mode, TournamentConfig

_BASES = (COMMON, ALL, PLANNED)
_TEMPLATE = "fair.jinja"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the comparison: what it shows of which rows."""

    title: Annotated[str, Display("shown as", lambda title: title.replace("\n", " "))]
    name: Annotated[str, Display("column", lambda name: _FIELDS.get(name, name))]
    method: str
    basis: str

    @property
    def rows(self) -> Annotated[str, Display("rows of fair_comparison; basis = all: of ratings")]:
        """The rows that hold it."""
        return f"{self.method}; basis = {self.basis}"

    def of(self, compared: "Compared", stratum: str = WHOLE) -> Cell[AnyStanding]:
        """Return the column of one dimension."""
        return beside(compared.by(self.method, self.basis, stratum), self.name)


_FIELDS = {
    "share": "rating",
    "share_and_rank": "rating, rank",
    "rating_and_interval": "rating, low, high",
}
"""The fields behind what is shown of a row."""
_SHOWN = (
    ("rank", "rank", WIN_SHARE),
    ("win share", "share", WIN_SHARE),
    ("rating", "rating_and_interval", BRADLEY_TERRY),
)
_ON_BASES = tuple(
    _Column(f"{basis}:\n{title}", name, method, basis)
    for basis in _BASES
    for title, name, method in _SHOWN
    if (method, basis) != (BRADLEY_TERRY, PLANNED)
)
_PAIRS = "pairs judged\nof planned"
_SHARE_AND_RANK = _Column("in a stratum", "share_and_rank", WIN_SHARE, COMMON)
_RATING = _Column("rating in a stratum", "rating_and_interval", BRADLEY_TERRY, COMMON)


def families_of(
    config: TournamentConfig,
    mode: Mode,
    judge_verdicts: Mapping[str, AnyTable],
    *,
    playing: Sequence[PlayingJudge],
    excluded: Sequence[str] = (),
) -> dict[str, Families]:
    """Return who is of a family with the judges, by dimension, as far as the config says.

    Args:
        judge_verdicts: That table of every dimension.
        playing: The judges that are also entrants.
        excluded: Entrants to leave out.
    """
    named, families = config.families, {}
    entrants = [name for name in config.entrant_ids if name not in excluded]
    for dimension, frame in judge_verdicts.items():
        models = sorted(judge_models_of(frame)) or [config.lead(mode).model]
        of_judges = {named[model] for model in models if model in named}
        shared = {
            name: f"family {named[name]}" for name in entrants if named.get(name) in of_judges
        }
        shared |= {
            each.entrant_id: each.same
            for each in playing
            if each.judge in models and each.entrant_id in entrants
        }
        families[dimension] = Families(", ".join(models), shared)
    return families


def fair_section(
    rows: Sequence[RatingRow], families: Mapping[str, Families], *, confidence: float
) -> ReportSection:
    """Return the section that compares all entrants on equal terms.

    Args:
        rows: Rows of tables "fair_comparison" and "ratings", all dimensions.
        families: Who judged and who answered, by dimension.
    """
    compared = sort_compared(rows, (), families)
    tables = [
        table
        for dimension, each in compared.items()
        for table in (
            (dimension, fair_table(each)),
            (f"{dimension}: gaps between neighbours", gap_table(each)),
            *(((f"{dimension}: by stratum", stratum_table(each)),) if each.strata else ()),
        )
        if table[1].rows
    ]
    return ReportSection(
        "Fair comparison",
        (
            *(" ".join(fair_sentences(each, dimension=name)) for name, each in compared.items()),
            *fair_notes(compared.values(), confidence=confidence),
        ),
        tuple(tables),
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """One dimension: rows by stratum, basis, method and entrant, best first, and the families."""

    rows: Mapping[tuple[str, str, str], Mapping[str, RatingRow]]
    families: Families

    @classmethod
    def of(cls, rows: Sequence[RatingRow], families: Families) -> "Compared":
        """Sort the rows of tables "fair_comparison" and "ratings" of one dimension."""
        sorted_rows: dict[tuple[str, str, str], dict[str, RatingRow]] = {}
        for row in rows:
            key = row.stratum, row.basis, row.method
            sorted_rows.setdefault(key, {})[row.entrant_id] = row
        return cls(sorted_rows, families)

    def by(self, method: str, basis: str, stratum: str = WHOLE) -> Mapping[str, RatingRow]:
        """Return the rows of a method on a basis by entrant, best first."""
        return self.rows.get((stratum, basis, method), {})

    @property
    def strata(self) -> list[str]:
        """The strata other than the whole."""
        return [name for name in dict.fromkeys(key[0] for key in self.rows) if name != WHOLE]

    @property
    def is_one_share(self) -> bool:
        """Whether everyone has the same win share on all three denominators."""
        shares = [
            {name: row.rating for name, row in self.by(WIN_SHARE, basis).items()}
            for basis in _BASES
        ]
        return all(each == shares[0] for each in shares)

    def gaps(self) -> list[tuple[RatingRow, str]]:
        """The gaps on the common prompts, best first, each with the entrant next below."""
        gaps = self.by(GAP, COMMON)
        rated = neighbours(self.by(BRADLEY_TERRY, COMMON).values())
        return [(gaps[name], below) for name, below in rated]

    def order(self, basis: str) -> tuple[tuple[str, ...], ...]:
        """The entrants, best first, those of equal share grouped."""
        rows = self.by(WIN_SHARE, basis).values()
        ranks = sorted({row.rank for row in rows if row.rank is not None})
        return tuple(
            tuple(sorted(row.entrant_id for row in rows if row.rank == rank)) for rank in ranks
        )

    @property
    def is_one_order(self) -> bool:
        """Whether the order is the same on all three denominators."""
        return len({self.order(basis) for basis in _BASES}) == 1

    def moved(self, basis: str) -> list[str]:
        """The entrants whose rank differs from that on the common prompts, with both ranks."""
        common = self.by(WIN_SHARE, COMMON)
        return [
            f"{name} ({row.rank or ABSENT}, not {common[name].rank or ABSENT})"
            for name, row in self.by(WIN_SHARE, basis).items()
            if row.rank != common[name].rank
        ]

    @property
    def has_intervals(self) -> bool:
        """Whether differences have intervals: not where pairs stop early."""
        return not any(row.note for row, _ in self.gaps())

    @property
    def makes_claims(self) -> bool:
        """Whether anybody could be better on the common prompts: not where pairs stop early."""
        return any(row.rank_best for row in self.by(BRADLEY_TERRY, COMMON).values())

    @property
    def unsure(self) -> list[str]:
        """The entrants that are not shown to be better than the next below."""
        return [
            f"{row.entrant_id} than {below}" for row, below in self.gaps() if not row.shown_above
        ]

    @property
    def n_entrants(self) -> int:
        """The number of entrants."""
        return len(self.by(BRADLEY_TERRY, COMMON))

    def n_prompts(self, basis: str) -> int:
        """The number of prompts of a basis."""
        return next(iter(self.by(BRADLEY_TERRY, basis).values())).n

    @property
    def kin(self) -> list[str]:
        """The entrants that share the judge's model or family, with what they share."""
        shared, rated = self.families.shared, self.by(BRADLEY_TERRY, COMMON)
        return [f"{name} ({shared[name]})" for name in shared if name in rated]


def order_words(compared: Mapping[str, Compared]) -> str:
    """Say in a few words whether the denominators agree on the order."""
    turned = [name for name, fair in compared.items() if not fair.is_one_order]
    return render_part(_TEMPLATE, "order", turned)[0]


def sort_compared(
    fair_comparison: Sequence[RatingRow],
    ratings: Sequence[RatingRow],
    families: Mapping[str, Families],
) -> dict[str, Compared]:
    """Return the rows of both tables, sorted, by dimension.

    Args:
        fair_comparison: Rows of the table, all dimensions.
        ratings: Likewise.
        families: Who judged and who answered, by dimension.
    """
    rows = by_dimension((*fair_comparison, *ratings))
    return {name: Compared.of(members, families[name]) for name, members in rows.items()}


def fair_notes(compared: Iterable[Compared], *, confidence: float) -> list[str]:
    """Explain the three denominators, and the gaps where any has an interval."""
    has_intervals = any(each.has_intervals for each in compared)
    return render_part(_TEMPLATE, "notes", format_confidence(confidence), has_intervals)


def fair_sentences(compared: Compared, *, dimension: str) -> list[str]:
    """Describe whether the denominators agree, who is better than the next, and shared families.

    Args:
        compared: The rows of the dimension, sorted.
    """
    if not compared.n_entrants:
        return [f"On {dimension}, there is nothing to compare."]
    return render_part(_TEMPLATE, "comparison", dimension, compared)


def fair_table(compared: Compared) -> ReportTable:
    """Return everybody on the three denominators, best on the common support first."""
    kin = compared.families.shared
    columns: dict[str, Cell[AnyStanding]] = {
        "entrant": lambda row: row.entrant_id + " (judge's family)" * (row.entrant_id in kin),
        **_on_bases(compared, _BASES),
    }
    return ReportTable.of(compared.by(WIN_SHARE, COMMON).values(), columns)


def fair_columns(compared: Compared) -> dict[str, Cell[AnyStanding]]:
    """Return what stands beside ratings on all judged pairs: other denominators, and sources.

    Denominators on which everyone has the same share are left out, as where nothing is missing.

    Args:
        compared: The rows of the dimension.
    """
    columns = {} if compared.is_one_share else _on_bases(compared, (COMMON, PLANNED))
    for label in compared.strata:
        if label.startswith(_SOURCE):
            columns |= _in_stratum(compared, label, label.removeprefix(_SOURCE))
    return columns


_SOURCE = "source: "
"""What the label of a stratum of prompts of one source begins with."""


def _in_stratum(compared: Compared, label: str, title: str) -> dict[str, Cell[AnyStanding]]:
    n = next(iter(compared.by(BRADLEY_TERRY, COMMON, label).values())).n
    return {f"{title}\n({format_plural(n, 'prompt')})": _SHARE_AND_RANK.of(compared, label)}


def _on_bases(compared: Compared, bases: Collection[str]) -> dict[str, Cell[AnyStanding]]:
    judged, planned = (
        {name: row.n for name, row in compared.by(WIN_SHARE, basis).items()}
        for basis in (ALL, PLANNED)
    )
    pairs = {name: f"{n} of {planned[name]}" for name, n in judged.items() if name in planned}
    return {
        **{column.title: column.of(compared) for column in _ON_BASES if column.basis in bases},
        _PAIRS: lambda row: pairs.get(row.entrant_id),
    }


def gap_table(compared: Compared) -> ReportTable:
    """Return the gaps between neighbours on the common support, best first."""
    columns: dict[str, Cell[tuple[RatingRow, str]]] = {
        "entrant": lambda gap: gap[0].entrant_id,
        "next below": lambda gap: gap[1],
        "gap": lambda gap: format_rating(gap[0].rating),
        "interval of the difference": lambda gap: _gap_interval(gap[0]),
    }
    if compared.makes_claims:
        columns["shown to be better"] = lambda gap: "yes" if gap[0].shown_above else "no"
    return ReportTable.of(compared.gaps(), columns, n_labels=2, subject=(0, 1))


def _gap_interval(row: RatingRow) -> str | None:
    """Return the ends, with a decimal where rounding would hide their sign."""
    low, high = row.low, row.high
    if row.note:
        return None
    if low is None or high is None or min(abs(low), abs(high)) >= 1:
        return format_interval(low, high, absent="unbounded")
    return format_ends(low, high, _near_zero)


def _near_zero(points: float) -> str:
    if points and abs(points) < 0.05:
        return "above 0" if points > 0 else "below 0"
    return f"{points:.1f}"


def stratum_table(compared: Compared) -> ReportTable:
    """Return everybody's place and rating in every stratum, on its common support."""
    columns: dict[str, Cell[AnyStanding]] = {"entrant": lambda row: row.entrant_id}
    for label in compared.strata:
        columns |= _in_stratum(compared, label, label)
        columns[f"{label}:\nrating"] = _RATING.of(compared, label)
    return ReportTable.of(compared.by(WIN_SHARE, COMMON).values(), columns)


_ORIGINS = (
    *_ON_BASES,
    _SHARE_AND_RANK,
    _RATING,
    _Column("which stratum", "stratum", f"{WIN_SHARE}, {BRADLEY_TERRY}", COMMON),
    _Column(_PAIRS, "n", WIN_SHARE, f"{ALL}, {PLANNED}"),
    _Column("prompts", "n", BRADLEY_TERRY, f"{COMMON}, {PLANNED}"),
    _Column("gap", "rating", GAP, COMMON),
    _Column("interval of the difference", "low, high", GAP, COMMON),
    _Column("shown to be better", "shown_above", GAP, COMMON),
)


@dataclass(frozen=True, slots=True)
class FairReport:
    """A fair comparison and its sources; its fields are the keys of its JSON.

    Attributes:
        judge: The kind of judge.
        fair_comparison: Rows of that table, and those of "ratings" on all judged pairs.
        families: Who judged and who answered, by dimension.
        excluded: Entrants left out; if any, the rows differ from the stored ones.
        content_hash: That of "fair_comparison"; of what it would be if an entrant is left out.
        page: Path of the newest run's page, or a sentence saying why there is none.
    """

    tournament: str
    mode: str
    judge: str
    confidence: float
    fair_comparison: Sequence[RatingRow]
    families: Mapping[str, Families]
    excluded: tuple[str, ...]
    content_hash: str
    page: str

    @property
    def section(self) -> ReportSection:
        """The comparison."""
        return fair_section(self.fair_comparison, self.families, confidence=self.confidence)

    @property
    def values(self) -> dict[str, Any]:
        """Every number of the comparison, for JSON."""
        return {**asdict(self), "summary": self.section.sentences}

    @property
    def document(self) -> Document:
        """The comparison as a document that names the column behind each number."""
        section = self.section
        models = join_names(sorted({each.judge_model for each in self.families.values()}))
        origins = ReportTable.of(_ORIGINS, select_columns(_Column, "title", "name", "rows"), 3)
        facts, origin = (
            tuple(render_part(_TEMPLATE, part, self, models)) for part in ("facts", "origin")
        )
        return Document(
            f"Fair comparison: {self.tournament}, {self.mode}",
            (
                ReportSection("", facts, is_note=True),
                ReportSection("", section.sentences),
                *(ReportSection(title, tables=(("", table),)) for title, table in section.tables),
                ReportSection("Where every number comes from", origin, (("", origins),)),
            ),
        )
