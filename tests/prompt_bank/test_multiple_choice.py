from typing import Any, Literal

import pytest

from tournament_assets.prompt_bank.multiple_choice import (
    parse_medmcqa,
    parse_medqa,
    parse_questions,
)
from tournament_assets.tournament.errors import InputError

from .builders import at_lines, medqa_row


def medmcqa_row(**changes: Any) -> dict[str, Any]:
    row = {
        "id": "q-1",
        "question": "Which crystals cause gout?",
        "opa": "Uric acid",
        "opb": "Oxalate",
        "opc": "Calcium",
        "opd": "Iron",
        "cop": 1,
        "choice_type": "single",
        "exp": None,
        "subject_name": "Medicine",
        "topic_name": None,
    }
    return row | changes


def gold_answers(*cops: Any, cop_base: Literal[0, 1] | None = None) -> list[str | None]:
    rows = at_lines(*(medmcqa_row(cop=cop) for cop in cops))
    return [question.gold_answer for question in parse_medmcqa(rows, cop_base=cop_base)]


def test_a_zero_in_the_file_makes_cop_count_from_zero() -> None:
    assert gold_answers(0, 1, 3) == ["Uric acid", "Oxalate", "Iron"]


def test_a_four_in_the_file_makes_cop_count_from_one() -> None:
    assert gold_answers(4, 1) == ["Iron", "Uric acid"]


def test_a_file_with_neither_zero_nor_four_is_refused_as_ambiguous() -> None:
    with pytest.raises(InputError, match=r"train.json:1: cop is only ever 1, 2 in this file"):
        gold_answers(1, 2)


def test_the_caller_can_settle_what_cop_counts_from() -> None:
    assert gold_answers(1, 2, cop_base=0) == ["Oxalate", "Calcium"]
    assert gold_answers(1, 2, cop_base=1) == ["Uric acid", "Oxalate"]


def test_a_cop_outside_what_the_caller_said_is_refused() -> None:
    with pytest.raises(InputError, match=r"train.json:2: cop is 4; expected 0 to 3"):
        gold_answers(0, 4, cop_base=0)


def test_a_file_with_both_zero_and_four_is_refused_with_both_places() -> None:
    with pytest.raises(InputError, match=r"0 at train.json:2 and 4 at train.json:3"):
        gold_answers(1, 0, 4)


@pytest.mark.parametrize("unlabelled", [None, -1])
def test_a_row_without_a_correct_option_has_no_gold_answer(unlabelled: int | None) -> None:
    assert gold_answers(0, unlabelled) == ["Uric acid", None]


def test_a_file_without_any_correct_option_is_refused() -> None:
    with pytest.raises(InputError, match="no row of this file has a cop"):
        gold_answers(-1, None)


def test_a_cop_that_became_a_float_on_the_way_is_read() -> None:
    assert gold_answers(0.0, 2.0) == ["Uric acid", "Calcium"]


@pytest.mark.parametrize("cop", [True, "a", 5, -2, 1.5, float("nan")])
def test_a_cop_that_is_no_option_number_is_refused(cop: Any) -> None:
    with pytest.raises(InputError, match=r"train.json:2: cop is .*; expected a whole number"):
        gold_answers(0, cop)


def test_a_blank_gold_option_is_no_gold_answer() -> None:
    (question,) = parse_medmcqa(at_lines(medmcqa_row(opa="  ")), cop_base=1)
    assert question.gold_answer is None


def test_subject_topic_and_choice_type_are_kept() -> None:
    (question,) = parse_medmcqa(
        at_lines(medmcqa_row(topic_name="Joints", choice_type="multi")), cop_base=1
    )
    assert (question.subject, question.category, question.source_id) == (
        "Medicine",
        "Joints",
        "q-1",
    )
    assert question.several_answers


@pytest.mark.parametrize(
    "options",
    [
        {"A": "Uric acid", "B": "Oxalate", "C": None},
        [{"key": "A", "value": "Uric acid"}, {"key": "B", "value": "Oxalate"}],
        [("A", "Uric acid"), ("B", "Oxalate")],
    ],
)
def test_the_letter_finds_its_text_in_every_form_of_options(options: Any) -> None:
    (question,) = parse_medqa(at_lines(medqa_row(options=options)))
    assert question.gold_answer == "Oxalate"
    assert question.options == ("Uric acid", "Oxalate")
    assert question.category == "step1"


def test_an_answer_text_is_enough_where_there_is_no_letter() -> None:
    (question,) = parse_medqa(at_lines(medqa_row(answer_idx=None)))
    assert question.gold_answer == "Oxalate"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"answer": "Iron"}, r"answer is 'Iron' and answer_idx 'B' stands for 'Oxalate'"),
        ({"answer_idx": "E"}, r"answer_idx is 'E'; expected the letter of an option: A, B, C, D"),
        ({"answer_idx": None, "answer": "Gold"}, r"answer is 'Gold' and answer_idx is missing"),
        ({"options": ["Uric acid", "Oxalate"]}, r"options is \['Uric acid', 'Oxalate'\]"),
        ({"question": " "}, r"question is ' '; expected a non-empty text"),
        ({"question": 3}, r"question is 3; expected a text"),
        ({"meta_info": 1}, r"meta_info is 1; expected a text"),
    ],
)
def test_a_contradictory_or_incomplete_row_is_refused(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=rf"train.json:2: {problem}") as caught:
        parse_medqa(at_lines(medqa_row(), medqa_row(**changes)))
    assert len(caught.value.problems) == 1


def test_twenty_problems_are_listed_and_the_others_counted() -> None:
    rows = at_lines(*(medqa_row(question=None) for _ in range(25)))
    with pytest.raises(InputError) as caught:
        parse_medqa(rows)
    assert len(caught.value.problems) == 21
    assert caught.value.problems[-1] == "… and 5 more problems of the same file"


def test_the_format_chooses_how_rows_are_read() -> None:
    (medmcqa,) = parse_questions(at_lines(medmcqa_row()), question_format="medmcqa", cop_base=1)
    (medqa,) = parse_questions(at_lines(medqa_row()), question_format="medqa")
    assert (medmcqa.source, medqa.source) == ("medmcqa", "medqa")
