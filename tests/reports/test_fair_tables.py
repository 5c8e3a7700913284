import re
from dataclasses import replace
from itertools import combinations

import pytest

from tournament_assets.audits.fair_comparison import Families, fair_comparison_rows
from tournament_assets.foundation.formatting import ABSENT
from tournament_assets.reports.fair_tables import (
    Compared,
    FairReport,
    fair_columns,
    fair_section,
    fair_sentences,
)
from tournament_assets.reports.report_tables import document_markdown
from tournament_assets.tournament.asset_rows import RatingRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.prompts import Prompt
from tournament_assets.tournament.verdicts import Judgment, Outcome

NAMES = ("ada", "<b>bob</b>", "cyd")


UNKNOWN = Families("x", {})


def compared(judgments: list[Judgment], n_prompts: int) -> list[RatingRow]:
    prompts = [f"p{number}" for number in range(n_prompts)]
    return fair_comparison_rows(
        judgments,
        dimension="f",
        entrants=NAMES,
        prompts=[
            Prompt(
                prompt_id=name, text="?", source="even" if index % 2 else "odd", tags=(), extra="{}"
            )
            for index, name in enumerate(prompts)
        ],
        answered={name: {(prompt, 1) for prompt in prompts} for name in NAMES},
        settings=RatingSettings(n_bootstraps=100),
    )


def judged(n_prompts: int, *, outage_from: int | None = None) -> list[Judgment]:
    """Let the first of two win two of three prompts, and the judge be dead for ada from one on."""
    return [
        Judgment(
            f"p{number}",
            "f",
            a,
            b,
            Outcome.UNJUDGED
            if outage_from is not None and number >= outage_from and "ada" in (a, b)
            else (Outcome.A_WINS if number % 3 else Outcome.B_WINS),
        )
        for number in range(n_prompts)
        for a, b in combinations(NAMES, 2)
    ]


def test_where_nothing_is_missing_it_says_that_the_order_is_the_same() -> None:
    sentences = fair_sentences(Compared.of(compared(judged(12), 12), UNKNOWN), dimension="f")
    assert "12 of 12" in sentences[0]
    assert "same" in sentences[1]
    assert len(sentences) == 3


def test_where_pairs_stop_early_common_prompts_claim_nothing_and_pairs_are_counted() -> None:
    """Ada and bob met on four prompts, of which the last stands for nine."""
    stopped = [
        replace(each, weight=9.0 if each.prompt_id == "p3" else 1.0)
        for each in judged(12)
        if (each.entrant_a, each.entrant_b) != NAMES[:2]
        or each.prompt_id in {"p0", "p1", "p2", "p3"}
    ]
    found = Compared.of(compared(stopped, 12), UNKNOWN)
    said = " ".join(fair_sentences(found, dimension="f"))
    assert "4 of 12" in said
    assert "better" not in said
    section = fair_section(compared(stopped, 12), {"f": UNKNOWN}, confidence=0.95)
    assert "shown to be better" not in [name for _, each in section.tables for name in each.headers]
    cells = columns_of(compared(stopped, 12))
    assert set(cells["pairs judged of planned"]) == {"16 of 24", "24 of 24"}


def test_an_outage_is_seen_in_the_orders_and_in_the_prompts() -> None:
    rows = compared(judged(12, outage_from=6), 12)
    sentences = fair_sentences(Compared.of(rows, UNKNOWN), dimension="f")
    assert "6 of 12" in sentences[0]
    shared, _, planned = (each.removesuffix(".").split(" is ")[-1] for each in sentences[1:4])
    assert shared.split(", ") == [*NAMES]
    assert planned.split(", ")[0] == "<b>bob</b>"


def test_of_many_entrants_only_those_whose_rank_differs_are_named() -> None:
    names = [f"e{number:02}" for number in range(9)]
    turned = [*names[1::-1], *names[2:]]
    rows = [
        RatingRow(
            dimension="f",
            method=method,
            basis=basis,
            entrant_id=name,
            rating=1.0 - place / 10,
            rank=place,
            rank_best=place,
        )
        for basis in ("common", "all", "planned")
        for method in ("win_share", "bradley_terry", "gap")
        for place, name in enumerate(names if basis == "common" else turned, 1)
    ]
    rows = [replace(row, n=6) for row in rows]
    said = " ".join(fair_sentences(Compared.of(rows, UNKNOWN), dimension="f"))
    assert re.findall(r"(e\d+) \((\d), not (\d)\)", said) == [
        *(("e01", "1", "2"), ("e00", "2", "1")),
        *(("e01", "1", "2"), ("e00", "2", "1")),
    ]
    assert re.findall(r"\d of [89]", said) == ["2 of 9", "2 of 9", "8 of 8"]
    assert len(said) < 700


def test_kin_of_the_judge_are_named_with_what_they_share() -> None:
    families = Families("claude-x", {"ada": "same model", "cyd": "family claude"})
    rows = compared(judged(6), 6)
    words = " ".join(fair_sentences(Compared.of(rows, families), dimension="f"))
    assert "claude-x is of one family with ada (same model) and cyd (family claude);" in words
    table = dict(fair_section(rows, {"f": families}, confidence=0.95).tables)["f"]
    assert {row[0].split()[0] for row in table.rows if "family" in row[0]} == {"ada", "cyd"}


def test_strata_and_gaps_have_tables_of_their_own() -> None:
    section = fair_section(compared(judged(12), 12), {"f": UNKNOWN}, confidence=0.95)
    _, (_, gaps), (_, strata) = section.tables
    assert len(gaps.rows) == 2
    assert gaps.rows[0][1] == gaps.rows[1][0]
    assert strata.names == (
        "entrant",
        *("source: even (6 prompts)", "source: even: rating"),
        *("source: odd (6 prompts)", "source: odd: rating"),
    )
    assert {len(row) for row in strata.rows} == {5}


def columns_of(rows: list[RatingRow]) -> dict[str, list[str | int | None]]:
    """Return what stands beside the ladder for each entrant, by column."""
    found = fair_columns(Compared.of(rows, UNKNOWN))
    own = [
        row for row in rows if (row.method, row.stratum, row.basis) == ("win_share", "all", "all")
    ]
    return {name.replace("\n", " "): [cell(row) for row in own] for name, cell in found.items()}


def test_beside_the_ladder_stand_strata_and_only_denominators_that_differ() -> None:
    whole = columns_of(compared(judged(12), 12))
    assert list(whole) == ["even (6 prompts)", "odd (6 prompts)"]
    shares = [cell for cells in whole.values() for cell in cells]
    assert all(re.fullmatch(r"[\d.]+ % \([123]\)", str(cell)) for cell in shares)
    assert list(columns_of(compared(judged(2), 2))) == [
        "even (1 prompt)",
        "odd (1 prompt)",
    ]
    lost = columns_of(compared(judged(12, outage_from=6), 12))
    assert list(lost)[:6] == [
        *("common: rank", "common: win share", "common: rating"),
        *("planned: rank", "planned: win share", "pairs judged of planned"),
    ]
    assert set(lost["pairs judged of planned"]) == {"12 of 24", "18 of 24"}


@pytest.mark.parametrize(
    ("low", "said"),
    [(-0.04, "below 0 to"), (0.04, "above 0 to"), (-0.3, "-0.3 to"), (0.0, "0.0 to")],
)
def test_an_end_near_zero_says_on_which_side_it_is(low: float, said: str) -> None:
    rows = compared(judged(12), 12)
    rows = [replace(row, low=low, high=83.2) for row in rows]
    cells = dict(fair_section(rows, {"f": UNKNOWN}, confidence=0.95).tables)[
        "f: gaps between neighbours"
    ].rows
    assert f"{said} 83.2" in [cell for row in cells for cell in row]


def test_a_gap_without_a_bound_is_separated_where_the_ladder_separates_it() -> None:
    rows = compared(judged(12), 12)
    rows = [replace(row, low=None, high=None, shown_above=("x",)) for row in rows]
    section = fair_section(rows, {"f": UNKNOWN}, confidence=0.95)
    assert "everyone is better than the next" in section.sentences[0]
    cells = dict(section.tables)["f: gaps between neighbours"].rows
    assert {row[3:] for row in cells} == {("unbounded", "yes")}


def test_where_judging_stopped_early_no_gap_has_an_interval_and_no_note_speaks_of_one() -> None:
    stopped = [replace(each, weight=5.0 if each.prompt_id == "p3" else 1.0) for each in judged(12)]
    whole, early = (
        fair_section(compared(each, 12), {"f": UNKNOWN}, confidence=0.95)
        for each in (judged(12), stopped)
    )
    for section, is_without in ((whole, False), (early, True)):
        cells = dict(section.tables)["f: gaps between neighbours"].rows
        assert {row[3] == ABSENT for row in cells} == {is_without}
        said = " ".join(section.sentences)
        assert ("without a bound" in said) != is_without
        assert "intervals are at 95 %" in said


def test_names_are_harmless_in_markdown() -> None:
    report = FairReport(
        tournament="t",
        mode="pilot",
        judge="nobody",
        confidence=0.95,
        fair_comparison=compared(judged(6), 6),
        families={"f": UNKNOWN},
        excluded=("dot|dash",),
        content_hash="abc",
        page="none",
    )
    text = document_markdown(report.document)
    assert "<b>" not in text
    assert "&lt;b&gt;bob" in text
    assert "dot\\|dash" in text
    assert re.findall(r"hash (\w+)", text) == ["abc"]
