"""The fair comparison as tables and sentences: the same entrants on three denominators."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tournament_assets.audits.fair_comparison import (
    ALL,
    COMMON,
    PLANNED,
    WHOLE,
    Families,
)
from tournament_assets.project.playing_judges import PlayingJudge
from tournament_assets.ratings.rating_methods import BRADLEY_TERRY, GAP, WIN_SHARE, neighbours
from tournament_assets.reports.rating_method_tables import (
    CELLS,
    AnyStanding,
    beside,
    with_interval,
)
from tournament_assets.reports.rendering import render_part
from tournament_assets.reports.report_tables import Cell, Document, ReportSection, ReportTable
from tournament_assets.storage.tables import AnyTable, judge_models_of
from tournament_assets.tournament.asset_rows import RatingRow, by_dimension
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_confidence,
    format_ends,
    format_interval,
    format_plural,
    format_share,
    join_names,
)

_BASES = (COMMON, ALL, PLANNED)
_TEMPLATE = "fair.jinja"


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
            (f"{dimension}: by stratum", stratum_table(each)),
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
        found: dict[tuple[str, str, str], dict[str, RatingRow]] = {}
        for row in rows:
            found.setdefault((row.stratum, row.basis, row.method), {})[row.entrant_id] = row
        return cls(found, families)

    def by(self, method: str, basis: str, stratum: str = WHOLE) -> Mapping[str, RatingRow]:
        """Return the rows of a method on a basis by entrant, best first."""
        return self.rows.get((stratum, basis, method), {})

    @property
    def strata(self) -> list[str]:
        """The strata other than the whole."""
        return [name for name in dict.fromkeys(key[0] for key in self.rows) if name != WHOLE]

    def strata_by(self, kinds: Collection[str] | None) -> list[str]:
        """Return the strata by some of what they are made by, or all of them."""
        return [each for each in self.strata if kinds is None or each.partition(": ")[0] in kinds]

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
        found = self.by(GAP, COMMON)
        rated = neighbours(self.by(BRADLEY_TERRY, COMMON).values())
        return [(found[name], below) for name, below in rated]

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
    turned = [name for name, each in compared.items() if not each.is_one_order]
    if turned:
        return f"the order depends on what is counted on {join_names(turned)}"
    return "the order is the same on the prompts that all share, on all pairs and on planned ones"


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
    return {name: Compared.of(own, families[name]) for name, own in rows.items()}


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
        "entrant": lambda row: row.entrant_id + " (judge's family)" * (row.entrant_id in kin)
    }
    for basis in _BASES:
        columns |= _basis_columns(compared, basis)
    columns["pairs judged\nof planned"] = _judged_of_planned(compared)
    return ReportTable.of(compared.by(WIN_SHARE, COMMON).values(), columns)


def fair_columns(
    compared: Compared, *, strata_by: Collection[str] | None = None
) -> dict[str, Cell[AnyStanding]]:
    """Return what stands beside ratings on all judged pairs: other denominators, and strata.

    Denominators on which everyone has the same share are left out, as where nothing is missing.

    Args:
        compared: The rows of the dimension.
        strata_by: Only strata by these; by all of them unless given.
    """
    columns: dict[str, Cell[AnyStanding]] = {}
    if not compared.is_one_share:
        for basis in (COMMON, PLANNED):
            columns |= _basis_columns(compared, basis)
        columns["pairs judged\nof planned"] = _judged_of_planned(compared)
    for label in compared.strata_by(strata_by):
        n = next(iter(compared.by(BRADLEY_TERRY, COMMON, label).values())).n
        own = compared.by(WIN_SHARE, COMMON, label)
        title = f"{label.partition(': ')[2]}\n({format_plural(n, 'prompt')})"
        columns[title] = beside(own, _share_and_rank)
    return columns


def _basis_columns(compared: Compared, basis: str) -> dict[str, Cell[AnyStanding]]:
    own = compared.by(WIN_SHARE, basis)
    columns = {
        f"{basis}:\nrank": beside(own, CELLS["rank"]),
        f"{basis}:\nwin share": beside(own, CELLS["share"]),
    }
    if basis != PLANNED:
        columns[f"{basis}:\nrating"] = beside(compared.by(BRADLEY_TERRY, basis), _RATING)
    return columns


def _share_and_rank(row: RatingRow) -> str | None:
    return None if row.rating is None else f"{format_share(row.rating)} ({row.rank})"


def _judged_of_planned(compared: Compared) -> Cell[AnyStanding]:
    judged, planned = (compared.by(WIN_SHARE, basis) for basis in (ALL, PLANNED))
    return lambda row: (
        f"{judged[row.entrant_id].n} of {planned[row.entrant_id].n}"
        if row.entrant_id in judged and row.entrant_id in planned
        else None
    )


def gap_table(compared: Compared) -> ReportTable:
    """Return the gaps between neighbours on the common support, best first."""
    gaps = compared.gaps()
    below = {row.entrant_id: name for row, name in gaps}
    return ReportTable.of(
        [row for row, _ in gaps],
        {
            "entrant": CELLS["entrant"],
            "next below": lambda row: below[row.entrant_id],
            "gap": CELLS["rating"],
            "interval of the difference": lambda row: (
                None if row.note else _gap_interval(row.low, row.high)
            ),
            **(
                {"shown to be better": lambda row: "yes" if row.shown_above else "no"}
                if compared.makes_claims
                else {}
            ),
        },
        n_labels=2,
        subject=(0, 1),
    )


def _gap_interval(low: float | None, high: float | None) -> str:
    """Return the ends, with a decimal where rounding would hide their sign."""
    if low is None or high is None or min(abs(low), abs(high)) >= 1:
        return format_interval(low, high, absent="unbounded")
    return format_ends(low, high, _near_zero)


def _near_zero(points: float) -> str:
    if points and abs(points) < 0.05:
        return "above 0" if points > 0 else "below 0"
    return f"{points:.1f}"


def stratum_table(compared: Compared) -> ReportTable:
    """Return everybody's place in every stratum, on its common support."""

    def strength(row: RatingRow) -> RatingRow:
        return compared.by(BRADLEY_TERRY, COMMON, row.stratum)[row.entrant_id]

    return ReportTable.of(
        [
            row
            for label in compared.strata
            for row in compared.by(WIN_SHARE, COMMON, label).values()
        ],
        {
            "by": lambda row: row.stratum.partition(": ")[0],
            "stratum": lambda row: row.stratum.partition(": ")[2],
            "entrant": CELLS["entrant"],
            "prompts": lambda row: CELLS["n"](strength(row)),
            "rank": CELLS["rank"],
            "win share": CELLS["share"],
            "rating": lambda row: _RATING(strength(row)),
        },
        n_labels=3,
    )


_RATING = with_interval(unrated="not rated", unbounded="unbounded")
_COLUMNS = ReportTable(
    headers=("shown as", "column", "rows of fair_comparison; basis = all: of ratings"),
    rows=(
        (
            "common: rank, all: rank, planned: rank",
            "rank",
            "win_share; basis = common, all, planned",
        ),
        ("win share", "rating", "win_share, of the same basis"),
        ("rating", "rating", "bradley_terry; basis = common, all"),
        ("interval behind a rating", "low, high", "bradley_terry, of the same basis"),
        ("pairs judged of planned", "n", "win_share; basis = all, and basis = planned"),
        ("prompts in a sentence", "n", "bradley_terry; basis = common, and basis = planned"),
        ("gap", "rating", "gap; basis = common"),
        ("interval of the difference", "low, high", "gap; basis = common"),
        ("shown to be better", "shown_above", "gap; basis = common"),
        ("by, stratum", "stratum", "basis = common; elsewhere stratum = all"),
    ),
    n_labels=3,
)


@dataclass(frozen=True, slots=True)
class FairReport:
    """A fair comparison and its sources.

    Attributes:
        judge: The kind of judge.
        rows: Rows of table "fair_comparison", and those of "ratings" on all judged pairs.
        families: Who judged and who answered, by dimension.
        excluded: Entrants left out; if any, the rows differ from the stored ones.
        version: Content hash of "fair_comparison"; of what it would be if an entrant is left out.
        page: Path of the newest run's page, or a sentence saying why there is none.
    """

    tournament_id: str
    mode: str
    judge: str
    confidence: float
    rows: Sequence[RatingRow]
    families: Mapping[str, Families]
    excluded: tuple[str, ...]
    version: str
    page: str


def fair_document(report: FairReport) -> Document:
    """Return the comparison as a document that names the column behind each number."""
    section = fair_section(report.rows, report.families, confidence=report.confidence)
    return Document(
        f"Fair comparison: {report.tournament_id}, {report.mode}",
        (
            ReportSection("", tuple(_facts(report)), is_note=True),
            ReportSection("", section.sentences),
            *(ReportSection(title, tables=(("", table),)) for title, table in section.tables),
            ReportSection("Where every number comes from", (_origin(report),), (("", _COLUMNS),)),
        ),
    )


def fair_values(report: FairReport) -> dict[str, Any]:
    """Return every number of the comparison, for JSON."""
    section = fair_section(report.rows, report.families, confidence=report.confidence)
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


def _facts(report: FairReport) -> list[str]:
    facts = [
        f"tournament: {report.tournament_id}, mode: {report.mode}",
        f"judge: {report.judge}; model: "
        f"{join_names(sorted({each.judge_model for each in report.families.values()}))}",
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
        "has a row for every dimension, stratum, basis and entrant, but those on all judged pairs "
        "of all prompts, which stand in the table ratings."
    )
