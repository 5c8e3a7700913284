"""What the page is made of: rows that name functions from tables to sections.

To add a section, write a function that returns a `ReportSection` and give it a row, in `SECTIONS`
of `reports/run/section_table.py` or in the rows of an extra.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, get_args, get_origin

from tournament_assets.audits.fair_comparison import Families
from tournament_assets.reports.battle_pages import BattleTables
from tournament_assets.reports.fair_tables import families_of
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.reports.report_tables import ReportSection
from tournament_assets.storage.tables import (
    ROW_TYPES,
    LoadedTable,
    parts_of,
    rows_by_name,
    rows_of_all,
)
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.config import CheckThresholds, Mode, TournamentConfig
from tournament_assets.tournament.judges import AdaptiveConfig
from tournament_assets.trust.measures import lights_of

BattleLink = Callable[..., str]
"""Makes the address of the battles of a dimension and further filters, or nothing."""
Remarks = Mapping[str, Sequence[str]]
"""Sentences by dimension."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something that should keep a reader from believing a number too soon.

    Attributes:
        short: What it is, in a few words and with its count.
        sentence: The whole of it.
        section: The section of the report that holds the evidence.
        is_red: Whether the numbers should not be used before it is settled.
    """

    short: str
    sentence: str
    section: str
    is_red: bool = False


@dataclass(frozen=True, slots=True)
class SectionRow:
    """One section of the page.

    Its functions are given by name what they ask for: tables by the names of their assets, and
    what else a `Page` has. A parameter of type `Sequence[Row]` gets the rows of all partitions, one
    of type `Mapping[str, Sequence[Row]]` the rows by dimension or entrant, any other the table as
    it was loaded. Where the tournament has no such table and the parameter no default, the
    function is not called.

    Attributes:
        name: The section's anchor in the page.
        make: Returns the section; None where there is nothing to say.
        after: The section that it follows, in the rows of an extra; the one before unless given.
        is_method: Whether it says how the results were made, and stands behind the battles.
        doubts: Returns what should keep a reader from believing the numbers.
        remarks: Returns what the first screen and the verdict say beside who leads.
    """

    name: str
    make: Callable[..., ReportSection | None]
    after: str = ""
    is_method: bool = False
    doubts: Callable[..., Sequence[Doubt]] | None = None
    remarks: Callable[..., Remarks] | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables that its functions ask for."""
        functions = (each for each in (self.make, self.doubts, self.remarks) if each is not None)
        return tuple(dict.fromkeys(name for each in functions for name in tables_read(each)))


def in_order(rows: Iterable[SectionRow]) -> tuple[SectionRow, ...]:
    """Return rows in the order of the page: each that names another one behind that."""
    ordered: list[SectionRow] = []
    for row in rows:
        places = [place for place, each in enumerate(ordered, start=1) if each.name == row.after]
        ordered.insert(places[0] if places else len(ordered), row)
    return tuple(ordered)


@dataclass(frozen=True, kw_only=True, eq=False)
class Page:
    """What the sections of a page are made from: what is known of a run, and its tables.

    Attributes:
        sections: The rows of its sections, in order.
        tables: Tables by the names of their assets; of several partitions a mapping.
        config: The tournament's.
        mode: The mode that is reported.
        judge_models: The models that replied.
        prices: US dollars that judging cost, by dimension; None where no price is known.
        costs: What was spent on what, as people read it.
        economies: What the entrants cost and how fast they write, in the order of the config.
        provenance: The hash, seed or version of everything that decides the result.
        versions: What it was made with: program, Python and libraries.
        command: The command that makes this report again.
        pending: Presentations without a reply yet, by dimension.
        left_out: Pairs that a limit left out, by dimension.
        link: Makes the addresses of battles.
    """

    sections: Sequence[SectionRow]
    tables: Mapping[str, LoadedTable]
    config: TournamentConfig
    mode: Mode
    judge_models: AbstractSet[str]
    prices: Mapping[str, float | None] = field(default_factory=dict)
    costs: Sequence[tuple[str, str]] = ()
    economies: Sequence[EntrantEconomy] = ()
    provenance: Sequence[tuple[str, str]] = ()
    versions: str = ""
    command: str = ""
    pending: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    link: BattleLink = lambda *_, **__: ""

    @property
    def judge_model(self) -> str:
        """The model that judged; more than one only of a jury, or after a run with another one."""
        return ", ".join(sorted(self.judge_models))

    @property
    def judge_label(self) -> str:
        """What kind of judge that is."""
        return self.config.label_of(self.mode)

    @property
    def judge_is_language_model(self) -> bool:
        """Whether the verdicts say anything about quality."""
        return all(each.row.is_language_model for each in self.config.judges_of(self.mode))

    @property
    def confidence(self) -> float:
        """Coverage of the intervals."""
        return self.config.ratings.confidence

    @property
    def checks(self) -> CheckThresholds:
        """Where checks turn red."""
        return self.config.checks

    @property
    def adaptive(self) -> AdaptiveConfig | None:
        """How pairs stop in this mode, if they do."""
        return self.config.mode(self.mode).adaptive

    @property
    def battles(self) -> BattleTables | None:
        """What the battle browser shows; None where the pairs are not known."""
        if "match_list" not in self.tables:
            return None
        names = ("match_list", "judge_verdicts", "judge_replies", "entrant_responses")
        tables: Any = [self.tables[name] for name in names]
        return BattleTables(*tables)

    @cached_property
    def families(self) -> Mapping[str, Families]:
        """Who judged and who answered, by dimension."""
        verdicts: Any = self.tables["judge_verdicts"]
        return families_of(self.config, self.mode, verdicts)

    @cached_property
    def lights(self) -> Sequence[MeasureRow]:
        """The lights on the judge, of all tables of measures, in the order of the panel."""
        tables = [each for name, each in self.tables.items() if ROW_TYPES[name] is MeasureRow]
        return lights_of(part for each in tables for part in parts_of(each))

    @cached_property
    def remarks(self) -> Remarks:
        """What the sections say of each dimension beside who leads."""
        found: dict[str, list[str]] = {}
        for row in self.sections:
            for name, sentences in ((row.remarks and self.ask(row.remarks)) or {}).items():
                found.setdefault(name, []).extend(sentences)
        return found

    @cached_property
    def all_doubts(self) -> Sequence[Doubt]:
        """What speaks against the result: what is red first, and how it was made before what it is.

        What stands further down on the page is what stands above it rests on.
        """
        found = [
            doubt
            for row in reversed(self.sections)
            if row.doubts is not None
            for doubt in self.ask(row.doubts) or ()
        ]
        return sorted(found, key=lambda doubt: not doubt.is_red)

    def ask(self, make: Callable[..., Any]) -> Any:
        """Call a function with what it asks for; None where a table is missing that it needs."""
        given: dict[str, Any] = {}
        for name, parameter in inspect.signature(make).parameters.items():
            if _is_known(name):
                given[name] = getattr(self, name)
            elif name in self.tables:
                given[name] = _as_asked(parameter.annotation, self.tables[name])
            elif parameter.default is parameter.empty:
                return None
        return make(**given)


def _as_asked(kind: Any, table: LoadedTable) -> Any:
    """Return a table as the annotation of a parameter says."""
    last = (get_args(kind) or (None,))[-1]
    if isinstance(last, type) and is_dataclass(last):
        return rows_of_all(last, table)
    (row_type,) = get_args(last) if get_origin(last) is Sequence else (None,)
    return table if row_type is None else rows_by_name(row_type, table)


def _is_known(name: str) -> bool:
    return hasattr(Page, name) or name in {each.name for each in fields(Page)}


def tables_read(make: Callable[..., Any]) -> tuple[str, ...]:
    """Return the tables that a function asks for by the names of their assets."""
    return tuple(name for name in inspect.signature(make).parameters if name in ROW_TYPES)
