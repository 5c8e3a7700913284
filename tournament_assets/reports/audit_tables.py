"""Tables and sentences on missing data and decisive prompts, for pages, terminals and JSON."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

from tournament_assets.audits.missingness import (
    MissingnessCheck,
    Outage,
    asked,
    check_missingness,
    copy_sentences,
    find_outages,
)
from tournament_assets.reports.report_tables import Document, ReportSection, ReportTable
from tournament_assets.reports.sections import Doubt
from tournament_assets.reports.trust_tables import amber_sentences, red_sentences
from tournament_assets.tournament.asset_rows import CoverageRow, MeasureRow, PromptFindingRow
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_count_of,
    format_plural,
    format_share,
    list_first,
)

KIND_TITLES: Mapping[str, str] = {
    "decides_order": "decides the order",
    "connects": "a rating depends on it",
    "signal_to_noise": "noise exceeds signal",
    "judge_failures": "the judge failed on it",
    "stratum_failure": "fails one stratum only",
    "moves_rating": "moves ratings most",
    "all_inconsistent": "every judgment inconsistent",
    "equal_scores": "all scores equal",
    "no_winner": "no entrant wins",
}
"""Display names of the kinds of findings, in order."""

"""The most prompts, and strata, that one row names."""


def missing_section(audit: Sequence[CoverageRow], *, checks: CheckThresholds) -> ReportSection:
    """Return "Audit": what is missing, by entrant, and the scores with and without it."""
    evenness = check_missingness(audit, max_spread=checks.max_missing_spread).sentence
    return ReportSection(
        title="Audit",
        sentences=(
            f"{evenness[0].upper()}{evenness[1:]}.",
            "Same text: both responses are the same, so the judge was not asked and neither won. "
            "Judged: asked, and settled by readable replies. Clean: judged pairs whose replies "
            "agree, and identical pairs, about responses that are neither empty nor cut off. A "
            "score is a share of wins; ties, inconsistent and identical pairs count half. "
            "Normalised, it divides by what was planned, so that what is missing earns nothing.",
        ),
        tables=(
            ("Planned and present, and scores with and without it", _present_table(audit)),
            ("Presentations without a verdict, by entrant", _missing_table(audit)),
        ),
        finding=_missing_words(audit),
    )


def audit_doubts(
    audit: Sequence[CoverageRow],
    *,
    checks: CheckThresholds,
    pending: Mapping[str, int],
    left_out: Mapping[str, int],
) -> list[Doubt]:
    """Return doubts about missing, unevenly missing, pending, left-out and identical pairs.

    Args:
        audit: Rows of table "audit".
        checks: How much may be missing, and how unevenly.
        pending: Presentations without a reply yet, by dimension.
        left_out: Pairs that a limit left out, by dimension.
    """
    outages = find_outages(audit, checks)
    doubts = [
        Doubt(each.short, each.sentence, is_red=True, is_first=each.kind == "answers")
        for each in outages
    ]
    if any(pending.values()):
        sentence = (
            "PARTIAL: these ratings were asked for before every reply had come. "
            f"Presentations without a reply yet: {_by_dimension(pending)}."
        )
        doubts.append(Doubt("PARTIAL: replies are still to come", sentence, is_red=True))
    if any(left_out.values()):
        sentence = (
            f"This run was limited to the first pairs. Pairs left out: {_by_dimension(left_out)}."
        )
        doubts.append(Doubt("limited to the first pairs", sentence))
    copies = copy_sentences(audit)
    doubts += [Doubt("most pairs have identical responses", each) for each in copies]
    named = {name for each in outages if each.kind == "answers" for name in each.entrants}
    rest = [row for row in audit if row.entrant_id not in named]
    return [*doubts, *_unjudged_doubts(audit), *_unanswered_doubts(rest)]


_MISSING_REPLIES = (
    "replies_refused",
    "replies_unreadable",
    "replies_permanent",
    "replies_pending",
)
"""Columns of table "audit" that count presentations without a verdict."""


def _by_dimension(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{dimension} {count}" for dimension, count in counts.items() if count)


def _unjudged_doubts(audit: Sequence[CoverageRow]) -> list[Doubt]:
    missing, presentations = Counter[str](), Counter[str]()
    for row in audit:
        missing[row.entrant_id] += sum(getattr(row, name) for name in _MISSING_REPLIES)
        presentations[row.entrant_id] += row.replies_asked
    if not missing.total():
        return []
    # Every presentation shows two entrants, so two rows count it.
    total = format_count_of(math.ceil(missing.total() / 2), presentations.total() // 2)
    by_entrant = "; ".join(
        f"{name} {format_count_of(count, presentations[name])}"
        for name, count in missing.items()
        if count
    )
    short = f"{total} presentations have no verdict"
    sentence = f"{short}; they count as nothing, not as ties. By entrant: {by_entrant}."
    return [Doubt(short, sentence)]


def _unanswered_doubts(audit: Sequence[CoverageRow]) -> list[Doubt]:
    answered = {
        row.entrant_id: f"{row.entrant_id} {row.responses} of {row.prompts_selected}"
        for row in audit
        if row.responses < row.prompts_selected
    }
    if not answered:
        return []
    sentence = (
        f"Not everyone answered every prompt. Prompts answered: {'; '.join(answered.values())}."
    )
    short = f"unanswered prompts of {format_plural(len(answered), 'entrant')}"
    return [Doubt(short, sentence)]


def _missing_words(rows: Sequence[CoverageRow]) -> str:
    # Every pair has two entrants, so two rows count it.
    put, judged = sum(map(asked, rows)) // 2, sum(row.pairs_judged for row in rows) // 2
    same = sum(row.pairs_same_text for row in rows) // 2
    copies = f"; {same:,} more have identical responses and were not judged" if same else ""
    return f"{judged:,} of {put:,} pairs that the judge was asked about are judged{copies}"


@dataclass(frozen=True, slots=True)
class AlikeFindings:
    """Findings of one kind and dimension that differ only in the prompt.

    Attributes:
        rows: Rows of table "prompt_audit", at least one.
    """

    rows: Sequence[PromptFindingRow]

    @property
    def dimension(self) -> str:
        """The quality that was judged."""
        return self.rows[0].dimension

    @property
    def kind(self) -> str:
        """What is said."""
        return self.rows[0].kind

    @property
    def sentence(self) -> str:
        """The first finding in words, and the number of others like it."""
        others = len(self.rows) - 1
        same = {0: "", 1: " The same of 1 more prompt."}
        return f"{self.rows[0].sentence}{same.get(others, f' The same of {others} more prompts.')}"


def fold_findings(rows: Iterable[PromptFindingRow]) -> list[AlikeFindings]:
    """Return the findings by what they can change, folding similar ones.

    Args:
        rows: Rows of table "prompt_audit"; measurements are left out.
    """
    alike: dict[tuple[Any, ...], list[PromptFindingRow]] = {}
    for row in rows:
        if not row.is_finding:
            continue
        words = row.sentence.replace(row.prompt_id or "\0", "")
        key = (row.kind, row.dimension, *row.entrants, row.count, row.total, words)
        alike.setdefault(key, []).append(row)
    kinds = list(KIND_TITLES)
    folded = [AlikeFindings(group) for group in alike.values()]
    return sorted(folded, key=lambda each: kinds.index(each.kind))


def choose_findings(folded: Sequence[AlikeFindings], limit: int) -> list[AlikeFindings]:
    """Return some findings of each kind and dimension, rather than all of the first kind.

    Args:
        folded: Findings by what they can change.
        limit: The most to return.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for index, finding in enumerate(folded):
        groups.setdefault((finding.kind, finding.dimension), []).append(index)
    rounds = zip_longest(*groups.values())
    in_turn = [index for round_ in rounds for index in round_ if index is not None]
    return [folded[index] for index in sorted(in_turn[:limit])]


def prompts_section(prompt_audit: Sequence[PromptFindingRow], *, limit: int) -> ReportSection:
    """Return "Strata and the prompts that decide".

    Args:
        prompt_audit: Rows of table "prompt_audit".
        limit: The most rows of each table.
    """
    rows = prompt_audit
    findings = [row for row in rows if row.is_finding]
    measured = [row for row in rows if row.kind == "signal_to_noise"]
    sentences = [_summary(findings, len({row.prompt_id for row in measured}))]
    folded = fold_findings(rows)
    worst = choose_findings(folded, limit)
    hidden = len(findings) - sum(len(each.rows) for each in worst)
    if folded:
        sentences.append(
            "They are ordered by what they can change: the ranking first. Identical findings share "
            "a row."
        )
    if hidden:
        sentences.append(
            f"Shown are the worst of each kind and dimension, {len(worst)} of {len(folded)} rows; "
            f"{hidden} more findings are in the table prompt_audit."
        )
    tables = [
        ("Prompts to look at, worst first", _finding_table(worst)),
        (
            "Prompts without which ratings move most",
            _deciding_table(rows, limit),
        ),
        ("Signal to noise by stratum", _noise_table(measured)),
    ]
    return ReportSection(
        title="Strata and the prompts that decide",
        finding=f"{format_plural(len(findings), 'finding')} on prompts"
        if findings
        else "no prompt stands out",
        sentences=tuple(sentences),
        tables=tuple((title, table) for title, table in tables if table.rows),
    )


def _present_table(rows: Sequence[CoverageRow]) -> ReportTable:
    has_thoughts = any(row.thoughts_cut for row in rows)
    return ReportTable.of(
        rows,
        {
            "dimension": lambda row: row.dimension,
            "entrant": lambda row: row.entrant_id,
            "answered": lambda row: f"{row.responses} / {row.prompts_selected}",
            "empty": lambda row: row.empty_responses,
            "cut off": lambda row: row.truncated_responses,
            **({"cut off in thought": lambda row: row.thoughts_cut} if has_thoughts else {}),
            "pairs planned": lambda row: row.pairs_planned,
            "unanswered": lambda row: row.pairs_unanswered,
            "same text": lambda row: row.pairs_same_text,
            "asked": asked,
            "judged": lambda row: row.pairs_judged,
            "clean": lambda row: row.pairs_clean,
            "coverage": lambda row: format_share(row.coverage),
            "mean": lambda row: format_share(row.score_present),
            "clean mean": lambda row: format_share(row.score_clean),
            "normalised": lambda row: format_share(row.score_normalised),
        },
        n_labels=2,
    )


def _missing_table(rows: Iterable[CoverageRow]) -> ReportTable:
    return ReportTable.of(
        rows,
        {
            "dimension": lambda row: row.dimension,
            "entrant": lambda row: row.entrant_id,
            "refused": lambda row: row.replies_refused,
            "unreadable": lambda row: row.replies_unreadable,
            "impossible": lambda row: row.replies_permanent,
            "pending": lambda row: row.replies_pending,
            "infra left": lambda row: row.infra_remaining,
            "infra re-judged": lambda row: row.infra_rejudged,
        },
        n_labels=2,
    )


def _summary(findings: Sequence[PromptFindingRow], n_prompts: int) -> str:
    if not findings:
        return f"Nothing stands out among {n_prompts} prompts."
    counts = Counter(row.kind for row in findings)
    named = ", ".join(f"{KIND_TITLES[kind]} {counts[kind]}" for kind in KIND_TITLES if counts[kind])
    return f"{format_plural(len(findings), 'finding')} on {n_prompts} prompts: {named}."


def _finding_table(folded: Iterable[AlikeFindings]) -> ReportTable:
    return ReportTable.of(
        folded,
        {
            "dimension": lambda each: each.dimension,
            "what": lambda each: KIND_TITLES[each.kind],
            "prompt": lambda each: list_first([row.prompt_id or ABSENT for row in each.rows]),
            "stratum": lambda each: list_first(
                list(dict.fromkeys(row.stratum for row in each.rows))
            ),
            "finding": lambda each: each.sentence,
        },
        n_labels=4,
        subject=(2,),
    )


def _top_movers(rows: Iterable[PromptFindingRow], limit: int) -> list[PromptFindingRow]:
    """Return the prompts that move ratings furthest; none that moves them by +0.0."""
    movers = (row for row in rows if row.kind == "moves_rating")
    moves = [row for row in movers if abs(row.value or 0.0) >= 0.05]
    moves.sort(key=lambda row: (-abs(row.value or 0.0), row.dimension, row.prompt_id or ""))
    return moves[:limit]


def _deciding_table(rows: Sequence[PromptFindingRow], limit: int) -> ReportTable:
    swapped = {
        (row.dimension, row.prompt_id): row.entrants for row in rows if row.kind == "decides_order"
    }
    return ReportTable.of(
        _top_movers(rows, limit),
        {
            "dimension": lambda row: row.dimension,
            "prompt": lambda row: row.prompt_id,
            "stratum": lambda row: row.stratum,
            "change places": lambda row: (
                ", ".join(swapped.get((row.dimension, row.prompt_id), ())) or None
            ),
            "moves": lambda row: ", ".join(row.entrants),
            "Elo points": lambda row: f"{row.value:+.1f}",
        },
        n_labels=5,
        subject=(1,),
    )


def _noise_table(rows: Sequence[PromptFindingRow]) -> ReportTable:
    groups: dict[tuple[str, str], list[PromptFindingRow]] = {}
    for row in rows:
        groups.setdefault((row.dimension, row.stratum), []).append(row)
    return ReportTable.of(
        [members for _, members in sorted(groups.items())],
        {
            "dimension": lambda rows: rows[0].dimension,
            "stratum": lambda rows: rows[0].stratum,
            "prompts": len,
            "noise exceeds signal": lambda rows: format_count_of(
                sum(row.is_finding for row in rows), len(rows)
            ),
            "pairs that flip": lambda rows: format_count_of(
                sum(row.count for row in rows), sum(row.total for row in rows)
            ),
        },
        n_labels=2,
    )


@dataclass(frozen=True)
class AuditReport:
    """Both audits of one mode of a tournament.

    Attributes:
        audit: Rows of table "audit".
        prompt_audit: Rows of table "prompt_audit".
        checks: How much may be missing, and how unevenly.
        trust: Rows of table "measures", all dimensions.
    """

    tournament_id: str
    mode: str
    audit: Sequence[CoverageRow]
    prompt_audit: Sequence[PromptFindingRow]
    checks: CheckThresholds
    trust: Sequence[MeasureRow]

    @cached_property
    def check(self) -> MissingnessCheck:
        """The result of the check `even_missingness`."""
        return check_missingness(self.audit, max_spread=self.checks.max_missing_spread)

    @cached_property
    def outages(self) -> Sequence[Outage]:
        """What a reader must know first."""
        return find_outages(self.audit, self.checks)

    def document(self, limit: int) -> Document:
        """Return both sections, with at most `limit` rows in each table about prompts."""
        return Document(
            f"{self.tournament_id}, {self.mode}: audit",
            (
                missing_section(self.audit, checks=self.checks),
                prompts_section(self.prompt_audit, limit=limit),
            ),
            warnings=self.first_sentences,
        )

    @property
    def passed(self) -> bool:
        """Whether nothing is missing that a reader must be told of first, and no light is red."""
        return self.check.passed and not self.outages and not red_sentences(self.trust)

    @property
    def first_sentences(self) -> tuple[str, ...]:
        """Sentences that precede everything else: outages, red and amber lights, copied texts."""
        return (
            *(outage.sentence for outage in self.outages),
            *red_sentences(self.trust),
            *amber_sentences(self.trust),
            *copy_sentences(self.audit),
        )


def audit_values(report: AuditReport) -> dict[str, Any]:
    """Return every number of both audits, for JSON; a ratio without bound is the text "inf"."""
    return {
        "tournament": report.tournament_id,
        "mode": report.mode,
        "passed": report.passed,
        "outages": [asdict(outage) for outage in report.outages],
        "even_missingness": {
            "passed": report.check.passed,
            "max_spread": report.check.max_spread,
            "largest_spread": report.check.largest_spread,
            "answers": asdict(report.check.answers),
            "verdicts": {name: asdict(each) for name, each in report.check.verdicts.items()},
        },
        "first_sentences": list(report.first_sentences),
        "audit": [asdict(row) for row in report.audit],
        "measures": [asdict(row) for row in report.trust],
        "prompt_audit": [
            asdict(row) | ({"value": "inf"} if row.value in (math.inf, -math.inf) else {})
            for row in report.prompt_audit
        ],
    }
