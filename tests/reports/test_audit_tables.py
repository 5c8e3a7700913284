import io
import json
import math
import re
from dataclasses import replace
from typing import Any

from rich.console import Console

from tournament_assets.audits.prompt_findings import FindingKind
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.reports.audit_tables import (
    KIND_TITLES,
    AuditReport,
    audit_doubts,
    missing_section,
    prompts_section,
)
from tournament_assets.reports.report_tables import document_markdown
from tournament_assets.reports.terminal import print_document
from tournament_assets.tournament.asset_rows import CoverageRow, PromptFindingRow
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.trust.measures import MEASURES

from .builders import audit_row


def prompt_row(kind: FindingKind, prompt_id: str | None, **changes: Any) -> PromptFindingRow:
    row: dict[str, Any] = {
        "dimension": "factuality",
        "kind": kind.value,
        "is_finding": True,
        "prompt_id": prompt_id,
        "stratum": "recall",
        "entrants": (),
        "value": 1.0,
        "count": 3,
        "total": 3,
        "sentence": f"Something about {prompt_id}.",
    }
    return PromptFindingRow(**(row | changes))


AUDIT = [
    audit_row(
        "ada",
        pairs_planned=110,
        pairs_unanswered=10,
        pairs_judged=80,
        pairs_clean=70,
        responses=45,
        replies_refused=30,
        infra_remaining=7,
        infra_rejudged=4,
        coverage=80 / 110,
        score_present=0.5,
        score_clean=None,
        score_normalised=0.25,
    ),
    audit_row(
        "bob",
        pairs_planned=110,
        pairs_unanswered=10,
        pairs_judged=100,
        coverage=100 / 110,
        score_present=0.6,
        score_clean=0.7,
        score_normalised=0.5,
    ),
]
PROMPTS = [
    prompt_row(FindingKind.DECIDES_ORDER, "p1", entrants=("ada", "bob"), value=-12.5),
    prompt_row(FindingKind.SIGNAL_TO_NOISE, "p2", value=0.2, count=1),
    prompt_row(FindingKind.MOVES_RATING, "p1", entrants=("ada",), value=-12.5, is_finding=False),
    prompt_row(FindingKind.MOVES_RATING, "p2", entrants=("bob",), value=20.0, is_finding=False),
    prompt_row(FindingKind.SIGNAL_TO_NOISE, "p1", value=math.inf, count=0, is_finding=False),
    prompt_row(FindingKind.STRATUM_FAILURE, None, value=0.2),
]


def report(audit: list[CoverageRow], prompts: list[PromptFindingRow]) -> AuditReport:
    return AuditReport(
        "demo",
        "pilot",
        audit,
        prompts,
        CheckThresholds(),
        measures=[],
    )


def test_an_audit_names_amber_lights_and_passes() -> None:
    few = Estimate(0.9, 0.6, 1.0, 9, "why")
    light = MEASURES["swap_consistency"].light(few, 0.65, dimension="facts")
    audit = replace(report([audit_row("ada"), audit_row("bob")], []), measures=[light])
    (said,) = audit.first_sentences
    assert "1 of 1 lights amber, too few to tell: swap consistency (about 4 more pairs)" in said
    assert audit.passed
    assert said in document_markdown(audit.document(3))
    assert audit.values["first_sentences"] == (said,)


def test_every_kind_of_finding_has_a_name_in_the_order_of_the_kinds() -> None:
    assert list(KIND_TITLES) == [kind.value for kind in FindingKind]


def test_what_is_missing_stands_by_entrant_with_what_it_is_out_of() -> None:
    section = missing_section(AUDIT, checks=CheckThresholds())
    assert section.title == "Audit"
    (_, present), (_, missing) = section.tables
    dash = "\N{EN DASH}"
    assert present.rows[0] == (
        "factuality",
        "ada",
        "45 / 50",
        "0",
        "0",
        "110",
        "10",
        "0",
        "100",
        "80",
        "70",
        "72.7 %",
        "50.0 %",
        dash,
        "25.0 %",
    )
    assert missing.rows[0] == ("factuality", "ada", "30", "0", "0", "0", "7", "4")


def test_prompts_are_shown_by_what_they_can_change_and_movers_by_how_far() -> None:
    section = prompts_section(PROMPTS, limit=2)
    assert re.findall(r"\d+", section.sentences[0]) == ["3", "2", "1", "1", "1"]
    assert re.findall(r"\d+", section.sentences[-1]) == ["2", "3", "1"]
    (_, findings), (_, movers), (_, noise) = section.tables
    assert [row[2] for row in findings.rows] == ["p1", "p2"]
    assert [row[1:] for row in movers.rows] == [
        ("p2", "recall", "\N{EN DASH}", "bob", "+20.0"),
        ("p1", "recall", "ada, bob", "ada", "-12.5"),
    ]
    assert noise.rows == (("factuality", "recall", "2", "1 of 2 (50.0 %)", "1 of 6 (16.7 %)"),)


def test_a_prompt_whose_move_is_not_known_is_no_mover_by_zero_points() -> None:
    unknown = prompt_row(FindingKind.MOVES_RATING, "p3", value=None, entrants=("ada",))
    still = replace(unknown, prompt_id="p4", value=0.04)
    titles = dict(prompts_section([*PROMPTS, unknown, still], limit=12).tables)
    movers = titles["Prompts without which ratings move most"]
    assert [row[1] for row in movers.rows] == ["p2", "p1"]
    assert prompts_section(PROMPTS[:1], limit=12).finding == "1 finding on prompts"


def test_an_order_that_one_prompt_decides_stands_before_forty_prompts_that_nobody_wins() -> None:
    def row(kind: FindingKind, prompt_id: str, words: str, **changes: Any) -> PromptFindingRow:
        return prompt_row(kind, prompt_id, sentence=f"On {prompt_id} {words}.", **changes)

    rows = [
        *(row(FindingKind.NO_WINNER, f"p{n}", "nobody wins") for n in range(40)),
        row(FindingKind.NO_WINNER, "odd", "nobody wins", count=2),
        *(row(FindingKind.SIGNAL_TO_NOISE, f"p{n}", f"the ratio is 0.{n}") for n in range(20)),
        *(row(FindingKind.DECIDES_ORDER, f"p{n}", f"{n} moves") for n in range(9)),
        row(FindingKind.DECIDES_ORDER, "p1", "1 moves", dimension="calibration"),
        row(FindingKind.CONNECTS, "p7", "hangs"),
    ]
    section = prompts_section(rows, limit=7)
    shown = section.tables[0][1].rows
    kinds = {title: kind for kind, title in KIND_TITLES.items()}
    assert [(cells[0], kinds[cells[1]], cells[2]) for cells in shown] == [
        ("factuality", "decides_order", "p0"),
        ("factuality", "decides_order", "p1"),
        ("calibration", "decides_order", "p1"),
        ("factuality", "connects", "p7"),
        ("factuality", "signal_to_noise", "p0"),
        ("factuality", "signal_to_noise", "p1"),
        ("factuality", "no_winner", "p0, p1, p2 and 37 more"),
    ]
    assert "39 more" in shown[-1][-1]
    # 2 + 1 + 1 + 2 single rows and one of 40 are shown, of 72 findings.
    assert re.findall(r"\d+", section.sentences[-1]) == ["7", "33", "26"]


def test_nothing_to_say_is_said_without_empty_tables() -> None:
    section = prompts_section([], limit=12)
    assert len(section.sentences) == 1
    assert section.tables == ()


def test_a_table_has_as_many_cells_in_each_row_as_headers() -> None:
    for section in report(AUDIT, PROMPTS).document(12).sections:
        for _, table in section.tables:
            assert {len(row) for row in table.rows} == {len(table.headers)}


def test_what_is_red_is_printed_first_and_hostile_names_stay_text() -> None:
    names = ("<script>", "[bold]x")
    audit = [replace(row, entrant_id=name) for row, name in zip(AUDIT, names, strict=True)]
    prompts = [replace(row, prompt_id="<b>|p") for row in PROMPTS]
    found = report(audit, prompts)
    out = io.StringIO()
    print_document(found.document(5), Console(file=out, width=120))
    assert out.getvalue().startswith("Judge outage")
    assert "[bold]x" in out.getvalue()
    page = document_markdown(found.document(5))
    assert re.match(r"> \*\*\w+:\*\* Judge outage", page.splitlines()[2])
    assert "<script>" not in page
    assert "<b>" not in page
    assert "\\|p" in page


def test_json_holds_every_number_and_nothing_that_json_has_no_word_for() -> None:
    values = report(AUDIT, PROMPTS).values
    text = json.dumps(values, allow_nan=False)
    assert json.loads(text)["prompt_audit"][4]["value"] == "inf"
    assert values["passed"] is False
    assert report([audit_row("ada"), audit_row("bob")], []).values["passed"] is True


def doubts_of(*audit: CoverageRow, **checks: Any) -> list[str]:
    found = audit_doubts(audit, checks=CheckThresholds(**checks), pending={}, left_out={})
    return [doubt.short for doubt in found]


def test_a_broken_entrant_is_named_first_with_what_it_returned() -> None:
    silent = replace(audit_row("silent"), empty_responses=50)
    absent = replace(audit_row("absent"), responses=20)

    first, second, *_ = doubts_of(audit_row("fine"), silent, absent)

    assert first == "silent left 50 of 50 answers empty"
    assert second == "absent answered 20 of 50 prompts"
    assert not any("returned" in each for each in doubts_of(audit_row("fine"), audit_row("too")))


def test_missing_verdicts_are_said_as_a_share_beside_the_limit() -> None:
    audit = [audit_row(name, pairs_judged=90, pairs_clean=90) for name in ("fine", "too")]

    (short,) = [each for each in doubts_of(*audit, max_unjudged_rate=0.02) if "limit" in each]

    assert short == "missing: 10.0 % of factuality (limit 2.0 %)"
