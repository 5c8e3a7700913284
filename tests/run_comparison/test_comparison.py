import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from tournament_assets.foundation.estimates import Rating
from tournament_assets.reports.report_tables import document_markdown
from tournament_assets.reports.terminal import print_document
from tournament_assets.run_comparison.comparison import (
    RunComparison,
    compare_runs,
    comparison_document,
    comparison_values,
    summary,
    verdict_line,
)
from tournament_assets.run_comparison.comparison_text import flip_table
from tournament_assets.run_comparison.differences import SettledPair
from tournament_assets.run_comparison.run_reading import FinishedRun
from tournament_assets.tournament.verdicts import Outcome


def comparison_markdown(comparison: RunComparison) -> str:
    return document_markdown(comparison_document(comparison, limit=5))


HOSTILE = "<b>|`x`[a](b)"
HASHES = {"judge_requests": {"facts": "1"}}


def run(
    *outcomes: Outcome, entrant: str = "ada", cost: float | None = 1.5, **manifest: object
) -> FinishedRun:
    pairs = tuple(
        SettledPair(
            name,
            "facts",
            entrant,
            "bob",
            outcome,
            source="recall",
            question="q",
            response_a="a",
            response_b="b",
            requests=(name,),
        )
        for number, outcome in enumerate(outcomes)
        for name in [f"p{number}"]
    )
    return FinishedRun(
        folder=Path("runs/pilot"),
        manifest={"inputs": HASHES, "cost": {"total_usd": cost}, **manifest},
        verdicts={"facts": pairs},
        requests={"facts": frozenset({"key"})},
        standings={
            "facts": (
                Rating(1408.0, 1390.0, 1420.0, entrant=entrant, rank=1),
                Rating(1392.0, entrant="bob", rank=2),
            )
        },
    )


A, B, TIE = Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE


def test_a_flip_without_another_question_is_called_noise() -> None:
    paragraphs = summary(compare_runs(run(A, TIE, B), run(B, TIE, B)))
    assert "Nothing differs" in paragraphs[0]
    assert re.findall(r"On (\w+) .* noise", paragraphs[0]) == ["facts"]
    assert paragraphs[1].startswith("1 of 3 ")
    assert "(33.3 %; 95 %" in paragraphs[1]
    assert "kappa 0.50" in paragraphs[1]


def test_a_flip_of_other_responses_is_never_called_noise() -> None:
    then, now = run(A, TIE, B), run(B, TIE, B)
    other = [replace(pair, response_a="new") for pair in now.verdicts["facts"]]
    paragraphs = summary(compare_runs(then, replace(now, verdicts={"facts": tuple(other)})))
    assert "noise" not in paragraphs[0]
    assert "1 of these" in paragraphs[1]


def with_requests(then: FinishedRun, **keys: str) -> FinishedRun:
    """Let every pair be asked under a key of its prompt, some of them under another one."""
    pairs = tuple(
        replace(pair, requests=(keys.get(pair.prompt_id, pair.prompt_id),))
        for pair in then.verdicts["facts"]
    )
    return replace(then, verdicts={"facts": pairs})


def test_the_judge_was_asked_otherwise_only_where_it_was() -> None:
    then = with_requests(run(A, TIE, B))
    edited = {"judge_requests": {"facts": "2"}}
    now = with_requests(run(A, TIE, A, inputs=edited), p2="edited")
    paragraphs = summary(compare_runs(then, now))
    assert "facts (1 of 3 pairs)." in paragraphs[0]
    assert paragraphs[1].startswith("1 of 1 ")
    assert "(100.0 %;" in paragraphs[1]
    assert "other 2 pairs" in paragraphs[1]
    assert ": 0 flipped." in paragraphs[1]
    values = json.loads(json.dumps(comparison_values(compare_runs(then, now))))
    (changed,) = values["flips"]["changed"]
    assert changed["requests_changed"] is True
    # A run of more pairs has another hash of all requests, and asked nothing otherwise.
    more = with_requests(run(A, TIE, B, A, inputs=edited))
    paragraphs = summary(compare_runs(then, more))
    assert "otherwise" not in paragraphs[0]
    assert paragraphs[1].startswith("0 of 3 ")
    assert "for no pair" in paragraphs[1]
    copied = replace(
        then, verdicts={"facts": tuple(replace(each, requests=()) for each in then.pairs)}
    )
    assert (
        "have (the judge was not asked about 3 of them" in summary(compare_runs(copied, copied))[1]
    )


def test_ratings_of_runs_of_different_size_carry_the_caution() -> None:
    comparison = compare_runs(run(A, B), run(A, B, A))
    assert re.findall(r"Caution: .* (\w+) \((\d), then (\d)\)", summary(comparison)[2]) == [
        ("facts", "2", "3")
    ]
    *_, places = comparison_markdown(comparison).split("## Ratings and places")
    assert "Caution" in places
    assert {each["same_pairs"] for each in comparison_values(comparison)["ratings"]} == {False}
    assert "Caution" in summary(compare_runs(run(A, B), run(A, Outcome.UNJUDGED)))[2]
    assert "Caution" not in summary(compare_runs(run(A, B), run(A, A)))[2]


def with_rubric(text: str) -> FinishedRun:
    found = run(A, inputs={**HASHES, "rubrics": {"facts": {"version": "1", "hash": text}}})
    return replace(found, rubrics={"facts": text})


def test_what_was_edited_in_a_rubric_is_shown() -> None:
    then, now = with_rubric("# version: 1\nBe right.\nBe brief."), with_rubric("Be <b>right</b>.")
    comparison = compare_runs(then, now)
    (edit,) = comparison_values(comparison)["rubric_edits"]
    assert edit["diff"][-4:] == ("-# version: 1", "-Be right.", "-Be brief.", "+Be <b>right</b>.")
    markdown = comparison_markdown(comparison)
    assert "    +Be <b>right</b>.\n" in markdown  # an indented block knows no markup
    console = Console(file=StringIO(), width=120)
    print_document(comparison_document(comparison, limit=5), console)
    assert isinstance(console.file, StringIO)
    printed = console.file.getvalue().splitlines()
    assert printed[printed.index("-Be brief.") + 1] == "+Be <b>right</b>."
    assert comparison_values(compare_runs(then, then))["rubric_edits"] == []


def test_the_threshold_of_noise_is_the_second_runs_own() -> None:
    def line(**options: float) -> str:
        then, now = run(*[A] * 40), run(*[A] * 40, thresholds={"max_drift_rate": 0.05})
        now = with_requests(now, **{f"p{number}": f"edited {number}" for number in range(40)})
        return verdict_line(compare_runs(then, now, **options))

    assert "(exit code 3): 0 of 40 " in line()
    assert "facts (0.0 % to 8.8 %)." in line()
    assert "(exit code 0): " in line(tolerance=0.1)


def test_an_undefined_kappa_is_explained() -> None:
    edited = with_requests(run(TIE, TIE), p0="edited")
    flips = summary(compare_runs(run(TIE, TIE), edited))[1]
    assert "kappa is undefined" in flips


def test_runs_without_a_common_pair_say_so() -> None:
    flips = summary(compare_runs(run(A), run(A, entrant="eve")))[1]
    assert flips.startswith("No pair")
    assert re.findall(r"(first|second)[a-z ]* 1 pair", flips) == ["first", "second"]


def test_a_rubric_whose_version_line_stayed_is_named() -> None:
    then, now = (
        run(A, inputs={**HASHES, "rubrics": {"facts": {"version": "1", "hash": text}}})
        for text in ("old", "new")
    )
    assert re.findall(r"of (\w+) \(edited", summary(compare_runs(then, now))[0]) == ["facts"]


@pytest.mark.parametrize(("cost", "words"), [(2.0, "$2.00"), (None, "an unknown price")])
def test_the_cost_is_told_and_an_unknown_one_is_no_number(cost: float | None, words: str) -> None:
    sentence = summary(compare_runs(run(A), run(A, cost=cost)))[3]
    assert sentence.index("$1.50") < sentence.index(words)
    assert re.findall(r"; (\d) of .* (\d) answered", sentence) == [("1", "1")]


def test_places_that_change_are_told_and_so_is_who_is_rated_once() -> None:
    then, now = run(A), run(B)
    order = (Rating(1410.0, entrant="bob", rank=1), Rating(1390.0, entrant="ada", rank=2))
    fewer = replace(now, standings={"facts": order[:1]})
    moved = replace(now, standings={"facts": order})
    said = summary(compare_runs(then, moved))[2]
    assert re.findall(r"(\w+) goes from (\d) to (\d)", said) == [
        ("bob", "2", "1"),
        ("ada", "1", "2"),
    ]
    assert re.findall(r"(\w+)'s on (\w+), ([-+.\d]+)", said) == [("bob", "facts", "+18.0")]
    assert ": ada (facts)." in summary(compare_runs(then, fewer))[2]
    assert not re.search(r"\d|ada|bob", summary(compare_runs(then, now))[2])


def test_a_partial_run_is_called_partial_first() -> None:
    paragraph = summary(compare_runs(run(A, is_partial=False), run(A, is_partial=True)))[0]
    assert re.match(r"\w+ second \w+ is PARTIAL", paragraph)


def test_names_from_outside_stay_text_in_markdown() -> None:
    markdown = comparison_markdown(compare_runs(run(A, entrant=HOSTILE), run(B, entrant=HOSTILE)))
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    inline = [token for token in tokens if token.type == "inline"]
    kinds = {child.type for token in inline for child in token.children or []}
    assert kinds <= {"text", "text_special", "softbreak"}
    shown = ["".join(child.content for child in token.children or []) for token in inline]
    assert HOSTILE in shown
    assert f"{HOSTILE} wins" in shown


def test_a_wide_terminal_shows_every_table_whole() -> None:
    console = Console(file=StringIO(), width=120)
    comparison = compare_runs(run(A, TIE), run(B, TIE, mode="x"))
    print_document(comparison_document(comparison, limit=5), console)
    assert isinstance(console.file, StringIO)
    printed = console.file.getvalue()
    for words in ("Flips by dimension and stratum", "ada wins", "bob wins", "1390–1420", "0.0"):
        assert words in printed
    # The only stratum is its dimension's total, which is not repeated.
    assert [row[:2] for row in flip_table(comparison.flips).rows] == [("facts", "all")]
    assert max(map(len, printed.splitlines())) <= 120
