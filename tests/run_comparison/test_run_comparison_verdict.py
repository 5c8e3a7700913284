from dataclasses import replace

import pytest

from tests.run_comparison.test_run_comparison import TIE, A, B, run
from tournament_assets.run_comparison.comparison import compare_runs, verdict_sentences
from tournament_assets.run_comparison.differences import Standing
from tournament_assets.tournament.verdicts import Outcome


def inputs(version: str | None, text: str = "1", **more: object) -> dict[str, object]:
    rubric = {} if version is None else {"facts": {"version": version, "hash": text}}
    return {"judge_requests": {"facts": text}, "rubrics": rubric, **more}


@pytest.mark.parametrize(
    ("then", "now", "cause"),
    [
        (inputs("1"), inputs("2", "2"), "facts's rubric went from version 1 to version 2"),
        (
            inputs("1"),
            inputs("1", "2"),
            "facts's rubric was edited (its version line is the same)",
        ),
        (inputs(None), inputs("1"), "facts's rubric was added"),
        (inputs("1"), inputs(None), "facts's rubric was taken out"),
        (
            inputs("1", responses={"ada": "1", "bob": "1"}, config="1"),
            inputs("1", responses={"ada": "2", "bob": "2"}, config="2"),
            "the responses of ada and bob changed; the configuration changed",
        ),
        (
            {"judge_requests": {"facts": "1"}},
            {"judge_requests": {"facts": "2"}},
            "the judge's requests differ on facts",
        ),
    ],
)
def test_what_changed_stands_beside_what_flipped(
    then: dict[str, object], now: dict[str, object], cause: str
) -> None:
    said = verdict_sentences(compare_runs(run(A, A, inputs=then), run(A, TIE, inputs=now)))
    assert said == f"1 of 2 judgments flipped after {cause}. No entrant changes place."


def test_where_nothing_differs_it_says_so() -> None:
    said = verdict_sentences(compare_runs(run(A), run(B)))
    assert said.startswith("1 of 1 judgments flipped, and nothing differs in the inputs. ")
    nothing = verdict_sentences(compare_runs(run(A), run(Outcome.UNJUDGED)))
    assert nothing.startswith("No pair was settled in both runs")


def test_places_that_change_are_told() -> None:
    order = (Standing("bob", 1, 1410.0, None, None), Standing("ada", 2, 1390.0, None, None))
    moved = replace(run(A), standings={"facts": order})
    assert verdict_sentences(compare_runs(run(A), moved)).endswith(
        "Places change: bob from 2 to 1 on facts; ada from 1 to 2 on facts."
    )


def test_a_partial_run_does_not_pass_for_whole() -> None:
    said = verdict_sentences(compare_runs(run(A, is_partial=False), run(A, is_partial=True)))
    assert "nothing differs in the inputs" in said
    assert said.endswith("The second run is PARTIAL: it was rated before every reply had come.")
