"""The fair comparison as tables and sentences: the same entrants on three denominators."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tournament_assets.audits.fair_comparison import (
    ALL,
    COMMON,
    GAP,
    PLANNED,
    WHOLE,
    WIN_SHARE,
    Families,
    entrant_family,
    judge_family,
    neighbours,
)
from tournament_assets.ratings.rating_methods import BRADLEY_TERRY
from tournament_assets.reports.rating_method_tables import CELLS, beside, with_interval
from tournament_assets.reports.report_tables import Cell, Document, ReportSection, ReportTable
from tournament_assets.storage.tables import AnyTable, judge_models_of
from tournament_assets.tournament.asset_rows import RatingRow
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.formatting import (
    format_confidence,
    format_ends,
    format_interval,
    join_names,
)

_ORDERS = {
    COMMON: "on the prompts that all share",
    ALL: "on all judged pairs",
    PLANNED: "where what is missing counts as nothing",
}
_MOST_NAMED = 6
"""Most entrants that a sentence names; of more it gives the number."""


def families_of(
    config: TournamentConfig,
    mode: Mode,
    judge_verdicts: Mapping[str, AnyTable],
    *,
    excluded: Sequence[str] = (),
) -> dict[str, Families]:
    """Return the families of judges and entrants, by dimension.

    Args:
        judge_verdicts: That table of every dimension.
        excluded: Entrants to leave out.
    """
    entrants = {
        entrant.entrant_id: entrant_family(entrant, named=config.families)
        for entrant in config.entrants
        if entrant.entrant_id not in excluded
    }
    found = {}
    for dimension, frame in judge_verdicts.items():
        judge_model = ", ".join(sorted(judge_models_of(frame))) or config.lead(mode).model
        own = judge_family(judge_model, named=config.families)
        found[dimension] = Families(judge_model, own, entrants)
    return found


def fair_section(
    fair_comparison: Sequence[RatingRow],
    families: Mapping[str, Families],
    *,
    confidence: float,
    strata_by: Collection[str] | None = None,
) -> ReportSection:
    """Return the report section that compares all entrants on equal terms.

    Args:
        fair_comparison: Rows of the table, all dimensions.
        families: Who judged and who answered, by dimension.
        strata_by: Only strata by these, such as `source`; by all of them unless given.
    """
    rows = fair_comparison
    dimensions = list(dict.fromkeys(row.dimension for row in rows))
    compared = {
        name: Compared.of([row for row in rows if row.dimension == name], families[name])
        for name in dimensions
    }
    sentences = [" ".join(fair_sentences(each, dimension=name)) for name, each in compared.items()]
    tables = [
        table
        for dimension, each in compared.items()
        for table in (
            (dimension, fair_table(each)),
            (f"{dimension}: gaps between neighbours", gap_table(each)),
            (f"{dimension}: by stratum", stratum_table(each, strata_by=strata_by)),
        )
        if table[1].rows
    ]
    return ReportSection(
        "Fair comparison",
        (*sentences, *fair_notes(confidence=confidence)),
        tuple(tables),
        finding=_order_words(compared),
        one_at_a_time=True,
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """One dimension: rows by stratum, basis, method and entrant, best first, and the families."""

    rows: Mapping[tuple[str, str, str], Mapping[str, RatingRow]]
    families: Families

    @classmethod
    def of(cls, rows: Sequence[RatingRow], families: Families) -> "Compared":
        """Sort the rows of table "fair_comparison" of one dimension."""
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


def _order_words(compared: Mapping[str, Compared]) -> str:
    turned = [
        name for name, each in compared.items() if len({each.order(basis) for basis in _ORDERS}) > 1
    ]
    if turned:
        return f"the order depends on what is counted on {join_names(turned)}"
    return "the order is the same on the prompts that all share, on all pairs and on planned ones"


def fair_notes(*, confidence: float) -> tuple[str, ...]:
    """Describe what the numbers are."""
    return (
        "Common: only prompts that every entrant answered and on which every pair was judged. All: "
        "every judged pair. Planned: points over all planned pairs, so that whatever is missing "
        "counts as nothing. A win share is wins and half the ties; ranks are by win share.",
        f"Ratings are Bradley–Terry, on the Elo scale; intervals are at "
        f"{format_confidence(confidence)}, prompts resampled. Who is better than "
        "the next is claimed as on the ladder, for all pairs of entrants together; a gap without a "
        "bound says that the prompts do not tell how large it is.",
    )


def fair_sentences(compared: Compared, *, dimension: str) -> list[str]:
    """Describe whether the denominators agree, who is better than the next, and shared families.

    Args:
        compared: The rows of the dimension, sorted.
    """
    common = compared.by(BRADLEY_TERRY, COMMON)
    if not common:
        return [f"On {dimension}, there is nothing to compare."]
    prompts, planned = (
        next(iter(compared.by(BRADLEY_TERRY, basis).values())).n for basis in (COMMON, PLANNED)
    )
    sentences = [
        f"On {dimension}, everyone answered and was judged on {prompts} of {planned} planned "
        "prompts."
    ]
    orders = {basis: compared.order(basis) for basis in _ORDERS}
    if not prompts:
        sentences.append("There is no like-for-like comparison: no prompt has every pair judged.")
    elif len(set(orders.values())) == 1:
        sentences.append("The order is the same on all three denominators.")
    elif len(common) > _MOST_NAMED:
        sentences += _turned_sentences(compared)
    else:
        sentences += [
            f"The order {_ORDERS[basis]} is {_in_words(order)}." for basis, order in orders.items()
        ]
    gaps = compared.gaps()
    if gaps:
        unsure = [f"{row.entrant_id} than {below}" for row, below in gaps if not row.shown_above]
        sentences.append(_neighbour_sentence(len(gaps), unsure))
    return [*sentences, *_family_sentences(compared)]


def _neighbour_sentence(n_gaps: int, unsure: Sequence[str]) -> str:
    if not unsure:
        return "On the common prompts everyone is better than the next below."
    if len(unsure) > _MOST_NAMED:
        return (
            f"On the common prompts {len(unsure)} of {n_gaps} entrants are not shown to be better "
            "than the next below."
        )
    return f"Not shown to be better on the common prompts: {join_names(unsure)}."


def _turned_sentences(compared: Compared) -> list[str]:
    """Describe changes of place between the common prompts and the other two denominators."""
    common = compared.by(WIN_SHARE, COMMON)
    sentences = []
    for basis in (ALL, PLANNED):
        own = compared.by(WIN_SHARE, basis)
        moved = [
            f"{name} ({CELLS['rank'](row)}, not {CELLS['rank'](common[name])})"
            for name, row in own.items()
            if row.rank != common[name].rank
        ]
        sentences.append(
            f"{len(moved)} of {len(own)} entrants "
            f"{'has' if len(moved) == 1 else 'have'} another rank "
            f"{_ORDERS[basis]}: {_shortened(moved)}."
            if moved
            else f"The order {_ORDERS[basis]} is that of the common prompts."
        )
    return sentences


def _shortened(names: Sequence[str]) -> str:
    """Return a shortened list of names; the table has them all."""
    if len(names) <= _MOST_NAMED:
        return join_names(names)
    return join_names([*names[: _MOST_NAMED - 1], f"{len(names) - _MOST_NAMED + 1} others"])


def _family_sentences(compared: Compared) -> list[str]:
    families = compared.families
    rated = compared.by(BRADLEY_TERRY, COMMON)
    names = [name for name in dict.fromkeys((*families.entrants, *rated)) if name in rated]
    shared = {name: families.is_shared_with(name) for name in names}
    kin = [name for name, is_kin in shared.items() if is_kin]
    unknown = [name for name, is_kin in shared.items() if is_kin is None]
    judge = families.judge_model
    sentences = []
    if kin:
        sentences.append(
            f"The judge {judge} is of the same family ({families.judge}) as "
            f"{join_names(kin)}; judges tend to favour their own."
        )
    if unknown:
        sentences.append(
            f"Whether the judge {judge} is of one family with {_shortened(unknown)} is not known; "
            "the config can say so (families)."
        )
    return sentences


def fair_table(compared: Compared) -> ReportTable:
    """Return everybody on the three denominators, best on the common support first."""
    shares = {basis: compared.by(WIN_SHARE, basis) for basis in _ORDERS}
    kin = compared.families.is_shared_with
    columns: dict[str, Cell[RatingRow]] = {
        "entrant": lambda row: row.entrant_id + " (judge's family)" * bool(kin(row.entrant_id))
    }
    for basis, own in shares.items():
        columns[f"{basis}:\nrank"] = beside(own, CELLS["rank"])
        columns[f"{basis}:\nwin share"] = beside(own, CELLS["share"])
        if basis != PLANNED:
            columns[f"{basis}:\nrating"] = beside(compared.by(BRADLEY_TERRY, basis), _RATING)
    columns["pairs judged\nof planned"] = lambda row: (
        f"{shares[ALL][row.entrant_id].n} of {shares[PLANNED][row.entrant_id].n}"
    )
    return ReportTable.of(shares[COMMON].values(), columns)


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
            "interval of the difference": lambda row: _gap_interval(row.low, row.high),
            "shown to be better": lambda row: "yes" if row.shown_above else "no",
        },
        n_labels=2,
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


def stratum_table(compared: Compared, *, strata_by: Collection[str] | None = None) -> ReportTable:
    """Return everybody's place in every stratum, on its common support.

    Args:
        compared: The rows of the dimension.
        strata_by: Only strata by these; by all of them unless given.
    """
    labels = [
        label
        for label in compared.strata
        if strata_by is None or label.partition(": ")[0] in strata_by
    ]

    def strength(row: RatingRow) -> RatingRow:
        return compared.by(BRADLEY_TERRY, COMMON, row.stratum)[row.entrant_id]

    return ReportTable.of(
        [row for label in labels for row in compared.by(WIN_SHARE, COMMON, label).values()],
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


def _in_words(order: Sequence[Sequence[str]]) -> str:
    return ", ".join(" = ".join(names) for names in order) or "not known"


_RATING = with_interval(unrated="not rated", unbounded="unbounded")
_COLUMNS = ReportTable(
    headers=("shown as", "column of fair_comparison", "rows"),
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
        rows: Rows of table "fair_comparison".
        families: Who judged and who answered, by dimension.
        excluded: Entrants left out; if any, the rows differ from the stored ones.
        version: Content hash of the rows; that of the stored table if no entrant is left out.
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
        "has a row for every dimension, stratum, basis and entrant."
    )
