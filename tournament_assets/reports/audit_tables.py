"""Tables and sentences on missing data and decisive prompts, for pages, terminals and JSON."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any

from tournament_assets.audits.missingness import (
    MISSING_REPLIES,
    MissingnessCheck,
    Outage,
    check_missingness,
    copy_sentences,
    find_outages,
)
from tournament_assets.foundation.formatting import (
    Display,
    format_count_of,
    format_plural,
    list_first,
)
from tournament_assets.reports.rendering import render_part
from tournament_assets.reports.report_tables import (
    Document,
    ReportSection,
    ReportTable,
    select_columns,
)
from tournament_assets.reports.sections import Doubt
from tournament_assets.reports.trust_tables import amber_sentences, red_sentences
from tournament_assets.tournament.asset_rows import CoverageRow, MeasureRow, PromptFindingRow
from tournament_assets.tournament.config import CheckThresholds

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

_TEMPLATE = "audit.jinja"
_WHOSE = ("dimension", "entrant_id")
_ANSWERS = ("answered", "empty_responses", "truncated_responses")
_PAIRS = (
    *("pairs_planned", "pairs_unanswered", "pairs_same_text", "pairs_asked", "pairs_judged"),
    *("pairs_clean", "coverage", "score_present", "score_clean", "score_normalised"),
)


def missing_section(audit: Sequence[CoverageRow], *, checks: CheckThresholds) -> ReportSection:
    """Return "Audit": what is missing, by entrant, and the scores with and without it."""
    evenness = check_missingness(audit, max_spread=checks.max_missing_spread).sentence
    thoughts = ("thoughts_cut",) if any(row.thoughts_cut for row in audit) else ()
    present = select_columns(CoverageRow, *_WHOSE, *_ANSWERS, *thoughts, *_PAIRS)
    missing = select_columns(
        CoverageRow, *_WHOSE, *MISSING_REPLIES, "infra_remaining", "infra_rejudged"
    )
    # Every pair has two entrants, so two rows count it.
    counts = (
        sum(getattr(row, name) for row in audit) // 2
        for name in ("pairs_judged", "pairs_asked", "pairs_same_text")
    )
    return ReportSection(
        title="Audit",
        sentences=tuple(render_part(_TEMPLATE, "missing", evenness)),
        tables=(
            (
                "Planned and present, and scores with and without it",
                ReportTable.of(audit, present, n_labels=2),
            ),
            (
                "Presentations without a verdict, by entrant",
                ReportTable.of(audit, missing, n_labels=2),
            ),
        ),
        finding=render_part(_TEMPLATE, "judged", *counts)[0],
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
    named = {name for each in outages if each.kind == "answers" for name in each.entrants}
    unanswered = {
        row.entrant_id: f"{row.entrant_id} {row.responses} of {row.prompts_selected}"
        for row in audit
        if row.entrant_id not in named and row.responses < row.prompts_selected
    }
    return [
        *(
            Doubt(each.short, each.sentence, is_red=True, is_first=each.kind == "answers")
            for each in outages
        ),
        *_doubts("partial", pending, is_red=True),
        *_doubts("limited", left_out),
        *_doubts("copied", copy_sentences(audit)),
        *_doubts("unjudged", *_unjudged(audit)),
        *_doubts("unanswered", list(unanswered.values())),
    ]


def _doubts(part: str, *values: Any, is_red: bool = False) -> list[Doubt]:
    """Return a doubt in a few words and in full, if there is something to say."""
    lines = render_part(_TEMPLATE, part, *values)
    return [Doubt(lines[0], lines[1], is_red=is_red)] if lines else []


def _unjudged(audit: Sequence[CoverageRow]) -> tuple[str, list[str]]:
    """Return how many presentations have no verdict, in all and by entrant."""
    missing, planned = Counter[str](), Counter[str]()
    for row in audit:
        missing[row.entrant_id] += sum(getattr(row, name) for name in MISSING_REPLIES)
        planned[row.entrant_id] += row.replies_asked
    # Every presentation shows two entrants, so two rows count it.
    total = format_count_of(math.ceil(missing.total() / 2), planned.total() // 2)
    return total, [
        f"{name} {format_count_of(count, planned[name])}"
        for name, count in missing.items()
        if count
    ]


def _list_some(names: Iterable[str]) -> str:
    return list_first(list(dict.fromkeys(names)))


@dataclass(frozen=True, slots=True)
class AlikeFindings:
    """Findings of one kind and dimension that differ only in the prompt.

    Attributes:
        sentence: The first finding in words, and the number of others like it.
    """

    dimension: Annotated[str, Display("dimension")]
    kind: Annotated[str, Display("what", KIND_TITLES.get)]
    prompts: Annotated[
        Sequence[str | None], Display("prompt", lambda ids: ids[0] and _list_some(ids))
    ]
    strata: Annotated[Sequence[str], Display("stratum", _list_some)]
    sentence: Annotated[str, Display("finding")]


def fold_findings(rows: Iterable[PromptFindingRow]) -> list[AlikeFindings]:
    """Return the findings by what they can change, folding similar ones.

    Args:
        rows: Rows of table "prompt_audit"; measurements are left out.
    """
    alike: dict[tuple[Any, ...], list[PromptFindingRow]] = {}
    for row in rows:
        if row.is_finding:
            words = row.sentence.replace(row.prompt_id or "\0", "")
            key = (row.kind, row.dimension, *row.entrants, row.count, row.total, words)
            alike.setdefault(key, []).append(row)
    folded = [
        AlikeFindings(
            first.dimension,
            first.kind,
            [row.prompt_id for row in (first, *others)],
            [row.stratum for row in (first, *others)],
            first.sentence
            + (f" The same of {format_plural(len(others), 'more prompt')}." if others else ""),
        )
        for first, *others in alike.values()
    ]
    return sorted(folded, key=lambda finding: [*KIND_TITLES].index(finding.kind))


def choose_findings(folded: Sequence[AlikeFindings], limit: int) -> list[AlikeFindings]:
    """Return some findings of each kind and dimension, rather than all of the first kind.

    Args:
        folded: Findings by what they can change.
        limit: The most to return.
    """
    n_alike: Counter[tuple[str, str]] = Counter()
    turns = []
    for index, finding in enumerate(folded):
        group = finding.kind, finding.dimension
        turns.append((n_alike[group], index))
        n_alike[group] += 1
    return [folded[index] for index in sorted(index for _, index in sorted(turns)[:limit])]


def prompts_section(prompt_audit: Sequence[PromptFindingRow], *, limit: int) -> ReportSection:
    """Return "Strata and the prompts that decide".

    Args:
        prompt_audit: Rows of table "prompt_audit".
        limit: The most rows of each table.
    """
    findings = [row for row in prompt_audit if row.is_finding]
    measured = [row for row in prompt_audit if row.kind == "signal_to_noise"]
    counts = Counter(row.kind for row in findings)
    folded = fold_findings(prompt_audit)
    worst = choose_findings(folded, limit)
    hidden = len(findings) - sum(len(finding.prompts) for finding in worst)
    columns = select_columns(AlikeFindings, "dimension", "kind", "prompts", "strata", "sentence")
    tables = {
        "Prompts to look at, worst first": ReportTable.of(worst, columns, n_labels=4, subject=(2,)),
        "Prompts without which ratings move most": _deciding_table(prompt_audit, limit),
        "Signal to noise by stratum": _noise_table(measured),
    }
    return ReportSection(
        title="Strata and the prompts that decide",
        finding=f"{format_plural(len(findings), 'finding')} on prompts"
        if findings
        else "no prompt stands out",
        sentences=tuple(
            render_part(
                _TEMPLATE,
                "prompts",
                len(findings),
                len({row.prompt_id for row in measured}),
                [f"{title} {counts[kind]}" for kind, title in KIND_TITLES.items() if counts[kind]],
                *(len(worst), len(folded), hidden),
            )
        ),
        tables=tuple((title, table) for title, table in tables.items() if table.rows),
    )


def _top_movers(rows: Iterable[PromptFindingRow], limit: int) -> list[PromptFindingRow]:
    """Return the prompts that move ratings furthest; none that moves them by +0.0."""
    measured = (row for row in rows if row.kind == "moves_rating")
    moves = [row for row in measured if abs(row.value or 0.0) >= 0.05]
    moves.sort(key=lambda row: (-abs(row.value or 0.0), row.dimension, row.prompt_id or ""))
    return moves[:limit]


def _deciding_table(rows: Sequence[PromptFindingRow], limit: int) -> ReportTable:
    swapped = {
        (row.dimension, row.prompt_id): ", ".join(row.entrants)
        for row in rows
        if row.kind == "decides_order"
    }
    return ReportTable.of(
        _top_movers(rows, limit),
        {
            **select_columns(PromptFindingRow, "dimension", "prompt_id", "stratum"),
            "change places": lambda row: swapped.get((row.dimension, row.prompt_id)) or None,
            **select_columns(PromptFindingRow, "entrants", "value"),
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
    """Both audits of one mode of a tournament; its fields are keys of its JSON.

    Attributes:
        audit: Rows of table "audit".
        prompt_audit: Rows of table "prompt_audit".
        checks: How much may be missing, and how unevenly.
        measures: Rows of tables of measures that have a light, all dimensions.
    """

    tournament: str
    mode: str
    audit: Sequence[CoverageRow]
    prompt_audit: Sequence[PromptFindingRow]
    checks: CheckThresholds
    measures: Sequence[MeasureRow]

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
            f"{self.tournament}, {self.mode}: audit",
            (
                missing_section(self.audit, checks=self.checks),
                prompts_section(self.prompt_audit, limit=limit),
            ),
            warnings=self.first_sentences,
        )

    @property
    def passed(self) -> bool:
        """Whether nothing is missing that a reader must be told of first, and no light is red."""
        return self.check.passed and not self.outages and not red_sentences(self.measures)

    @property
    def first_sentences(self) -> tuple[str, ...]:
        """Sentences that precede everything else: outages, red and amber lights, copied texts."""
        return (
            *(outage.sentence for outage in self.outages),
            *red_sentences(self.measures),
            *amber_sentences(self.measures),
            *copy_sentences(self.audit),
        )

    @property
    def values(self) -> dict[str, Any]:
        """Every number of both audits, for JSON; a ratio without bound is the text "inf"."""
        check = {name: getattr(self.check, name) for name in ("passed", "largest_spread")}
        values = asdict(self) | {
            "passed": self.passed,
            "outages": [asdict(outage) for outage in self.outages],
            "even_missingness": asdict(self.check) | check,
            "first_sentences": self.first_sentences,
        }
        del values["checks"]
        for row in values["prompt_audit"]:
            row["value"] = "inf" if row["value"] in (math.inf, -math.inf) else row["value"]
        return values
