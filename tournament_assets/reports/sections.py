"""The sections of the page, as rows that name functions from tables to sections.

To add a section, write a function that returns a `ReportSection` and give it a row, in `SECTIONS`
of `reports/run/section_table.py` or in the rows of an extra.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, get_args, get_origin

from tournament_assets.audits.fair_comparison import Families
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.project.playing_judges import PlayingJudge
from tournament_assets.reports.battle_pages import BattleTables
from tournament_assets.reports.claims import Statements, statements_by_dimension
from tournament_assets.reports.fair_tables import families_of
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.reports.report_tables import ReportSection
from tournament_assets.storage.tables import (
    LoadedTable,
    parts_of,
    rows_by_name,
    rows_of_all,
)
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.config import (
    CheckThresholds,
    Mode,
    ModeConfig,
    TournamentConfig,
)
from tournament_assets.trust.measures import LIGHT_TABLES, lights_of

BattleLinks = Callable[..., Sequence[tuple[str, str]]]
"""Returns titles and addresses of the pages with a dimension's battles, with further filters."""
Part = Literal["careful", "wins", "judge", "method"]
"""A part of the page: why to be careful, who wins, the judge, or the method."""
Remarks = Mapping[str, Sequence[str]]
"""Sentences by dimension."""


def first_address(pages: Sequence[tuple[str, str]]) -> str:
    """Return the address of the first of some pages; empty without one."""
    return pages[0][1] if pages else ""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason not to trust a number yet.

    Attributes:
        short: The doubt in a few words, with its count.
        sentence: The doubt in full.
        is_red: Whether the numbers should not be used until it is resolved.
        is_first: Whether others may follow from it, so that it stands before them.
        section: The anchor of the report section with the evidence; its row fills it in.
    """

    short: str
    sentence: str
    is_red: bool = False
    is_first: bool = False
    section: str = ""


@dataclass(frozen=True, slots=True)
class SectionRow:
    """One section of the page.

    Its functions get the arguments that their parameters name: tables by the names of their assets,
    and any attribute of a `Page`. A parameter of type `Sequence[Row]` gets the rows of all
    partitions; one of type `Mapping[str, Sequence[Row]]` the rows by dimension or entrant, any
    other type the table as loaded. The function is not called if a table is missing and its
    parameter has no default.

    Attributes:
        name: The section's anchor in the page.
        make: Returns the section; None if there is nothing to say.
        after: For rows of extras, the section that it follows; by default the previous one.
        part: The part of the page that it stands in.
        doubts: Returns doubts about the numbers.
        remarks: Returns remarks for the first screen and the verdict.
        settings: Returns what it reads of the config, besides what decides every page.
    """

    name: str
    make: Callable[..., ReportSection | None]
    after: str = ""
    part: Part = "wins"
    doubts: Callable[..., Sequence[Doubt]] | None = None
    remarks: Callable[..., Remarks] | None = None
    settings: Callable[[TournamentConfig], JsonObject] = lambda _: {}

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables that its functions ask for."""
        functions = (each for each in (self.make, self.doubts, self.remarks) if each is not None)
        return tuple(dict.fromkeys(name for each in functions for name in tables_read(each)))


def in_order(rows: Iterable[SectionRow]) -> tuple[SectionRow, ...]:
    """Return rows in the order of the page: each behind the row it names, if any."""
    ordered: list[SectionRow] = []
    for row in rows:
        places = [place for place, each in enumerate(ordered, start=1) if each.name == row.after]
        ordered.insert(places[0] if places else len(ordered), row)
    return tuple(ordered)


@dataclass(frozen=True, kw_only=True, eq=False)
class Page:
    """The input of a page's sections: facts about a run, and its tables.

    Attributes:
        sections: The rows of its sections, in order.
        tables: Tables by the names of their assets; tables of several partitions are mappings.
        config: The tournament's.
        mode: The mode that is reported.
        judge_models: The models that replied.
        prices: US dollars that judging cost, by dimension; None where no price is known.
        costs: The costs by purpose, as text.
        economies: The entrants' cost and speed, in the order of the config.
        playing: The judges that are also entrants.
        provenance: The hash, seed or version of everything that determines the result.
        versions: Versions of the program, Python and libraries.
        command: The command that repeats this report.
        pending: Presentations without a reply yet, by dimension.
        left_out: Pairs that a limit left out, by dimension.
        links: Makes the addresses of battles.
    """

    sections: Sequence[SectionRow]
    tables: Mapping[str, LoadedTable]
    config: TournamentConfig
    mode: Mode
    judge_models: AbstractSet[str]
    prices: Mapping[str, float | None] = field(default_factory=dict)
    costs: Sequence[tuple[str, str]] = ()
    economies: Sequence[EntrantEconomy] = ()
    playing: Sequence[PlayingJudge] = ()
    provenance: Sequence[tuple[str, str]] = ()
    versions: str = ""
    command: str = ""
    pending: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    links: BattleLinks = lambda *_, **__: ()

    @property
    def judge_model(self) -> str:
        """The judge model; several only for a jury or after a change of judge."""
        return ", ".join(sorted(self.judge_models))

    @property
    def judge_label(self) -> str:
        """The kind of judge."""
        return self.config.label_of(self.mode)

    @property
    def judge_is_language_model(self) -> bool:
        """Whether the judge is a language model, so that verdicts are about quality."""
        return all(each.row.is_language_model for each in self.config.judges_of(self.mode))

    @property
    def confidence(self) -> float:
        """Coverage of the intervals."""
        return self.config.ratings.confidence

    @property
    def equivalent_within(self) -> float:
        """The largest difference that does not matter, in Elo points."""
        return self.config.ratings.equivalent_within

    @property
    def checks(self) -> CheckThresholds:
        """The thresholds of the checks."""
        return self.config.checks

    @property
    def mode_config(self) -> ModeConfig:
        """What the config says about the mode."""
        return self.config.mode(self.mode)

    @property
    def battles(self) -> BattleTables | None:
        """The battle browser's data; None if the pairs are not known."""
        tables: BattleTables | None = self.ask(BattleTables)
        return tables

    @cached_property
    def families(self) -> Mapping[str, Families]:
        """The families of judges and entrants, by dimension."""
        families: Mapping[str, Families] = self.ask(families_of)
        return families

    @cached_property
    def statements(self) -> Mapping[str, Statements]:
        """What the tables say of the entrants, by dimension."""
        statements: Mapping[str, Statements] = self.ask(statements_by_dimension)
        return statements

    @cached_property
    def lights(self) -> Sequence[MeasureRow]:
        """The lights on the judge, of all tables of measures, in the order of the panel."""
        tables = [each for name, each in self.tables.items() if name in LIGHT_TABLES]
        return lights_of(part for each in tables for part in parts_of(each))

    @cached_property
    def remarks(self) -> Remarks:
        """The sections' remarks on each dimension."""
        found: dict[str, list[str]] = {}
        for row in self.sections:
            for name, sentences in ((row.remarks and self.ask(row.remarks)) or {}).items():
                found.setdefault(name, []).extend(sentences)
        return found

    @cached_property
    def all_doubts(self) -> Sequence[Doubt]:
        """The doubts about the result: entrants that do not answer, then red ones, then others.

        Later sections are the basis of earlier ones.
        """
        found = [
            replace(doubt, section=row.name)
            for row in reversed(self.sections)
            if row.doubts is not None
            for doubt in self.ask(row.doubts) or ()
        ]
        return sorted(found, key=lambda doubt: (not doubt.is_first, not doubt.is_red))

    def ask(self, make: Callable[..., Any]) -> Any:
        """Call a function with the arguments it names; None if a table that it needs is missing."""
        parameters = inspect.signature(make).parameters
        given = {name: getattr(self, name) for name in parameters if _is_known(name)}
        given |= tables_asked(make, self.tables)
        needed = (name for name, each in parameters.items() if each.default is each.empty)
        return make(**given) if given.keys() >= set(needed) else None


def tables_asked(make: Callable[..., Any], tables: Mapping[str, LoadedTable]) -> dict[str, Any]:
    """Return the tables that a function asks for, each in the form of its parameter's type."""
    parameters = inspect.signature(make).parameters
    return {
        name: _as_asked(each.annotation, tables[name])
        for name, each in parameters.items()
        if name in tables
    }


def _as_asked(kind: Any, table: LoadedTable) -> Any:
    """Return a table in the form that a parameter's annotation asks for."""
    last = (get_args(kind) or (None,))[-1]
    if isinstance(last, type) and is_dataclass(last):
        return rows_of_all(last, table)
    (row_type,) = get_args(last) if get_origin(last) is Sequence else (None,)
    return table if row_type is None else rows_by_name(row_type, table)


def _is_known(name: str) -> bool:
    return hasattr(Page, name) or name in {each.name for each in fields(Page)}


def tables_read(make: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the tables that a function asks for."""
    bound = make.keywords if isinstance(make, partial) else {}
    names = inspect.signature(make).parameters
    own = (name for name in names if not _is_known(name) and name not in bound)
    return (*own, *(LIGHT_TABLES if "lights" in names else ()))
