import pytest

from tournament_assets.extras.banks.multiple_choice import parse_medqa
from tournament_assets.extras.banks.recasting import OpenQuestion, WhyLeftOut, recast

from .builders import at_lines, mcq, medqa_row

GOUT = "Which crystals cause gout?"


def open_text(stem: str) -> str | None:
    result = recast(mcq(stem))
    return result.text if isinstance(result, OpenQuestion) else None


@pytest.mark.parametrize(
    ("stem", "text"),
    [
        (
            "Which of the following is the most likely diagnosis?",
            "What is the most likely diagnosis?",
        ),
        (
            "He took rest. Based on this, which of the following is the best next step?",
            "He took rest. Based on this, what is the best next step?",
        ),
        (
            "Which of the following is most appropriate treatment of E. coli infection?",
            "What is the most appropriate treatment of E. coli infection?",
        ),
        (
            "Which of the following medications most likely caused the rash?",
            "Which medication most likely caused the rash?",
        ),
        (
            "Which of the following best explains this patient's hypercalcemia?",
            "What best explains this patient's hypercalcemia?",
        ),
        (
            "Which among the following is the commonest site of ectopic pregnancy -",
            "What is the commonest site of ectopic pregnancy?",
        ),
        (
            "Which is the most common site of tuberculosis?",
            "What is the most common site of tuberculosis?",
        ),
        ("Most common cause of stroke is:", "What is the most common cause of stroke?"),
        (
            "Drug of choice for absence seizures is",
            "What is the drug of choice for absence seizures?",
        ),
        (
            "A child coughs. Most likely diagnosis?",
            "A child coughs. What is the most likely diagnosis?",
        ),
    ],
)
def test_a_stem_that_mentions_options_in_passing_is_reworded(stem: str, text: str) -> None:
    result = recast(mcq(stem))
    assert isinstance(result, OpenQuestion)
    assert (result.text, result.rewritten) == (text, True)


@pytest.mark.parametrize(
    ("stem", "text"),
    [
        ("Which vitamin comes only from animals:", "Which vitamin comes only from animals?"),
        (
            "Gout is due to crystals of what substance?",
            "Gout is due to crystals of what substance?",
        ),
        ("Name the nerve of the diaphragm", "Name the nerve of the diaphragm."),
        (
            "He is not well except at night. What is the cause?",
            "He is not well except at night. What is the cause?",
        ),
        (
            "The clinical picture is that of gout. What drug helps?",
            "The clinical picture is that of gout. What drug helps?",
        ),
    ],
)
def test_a_stem_that_is_a_question_keeps_its_words(stem: str, text: str) -> None:
    result = recast(mcq(stem))
    assert isinstance(result, OpenQuestion)
    assert (result.text, result.rewritten) == (text, False)


@pytest.mark.parametrize(
    ("stem", "reason"),
    [
        ("All of the following cause gout except", WhyLeftOut.NEGATED),
        ("Which of the following is not a cause of gout?", WhyLeftOut.NEGATED),
        ("Which drug is least likely to cause gout?", WhyLeftOut.NEGATED),
        ("True about gout is", WhyLeftOut.TRUE_OR_FALSE),
        ("Which statement about gout is correct?", WhyLeftOut.TRUE_OR_FALSE),
        ("What is shown in the image of the joint?", WhyLeftOut.IMAGE),
        ("The ECG is shown. What is the diagnosis?", WhyLeftOut.IMAGE),
        ("Which of the following is associated with gout?", WhyLeftOut.STEM_NEEDS_OPTIONS),
        ("Which of the following is the most likely finding?", WhyLeftOut.STEM_NEEDS_OPTIONS),
        ("Of the following, which is the most common cause?", WhyLeftOut.STEM_NEEDS_OPTIONS),
        ("Match the pairs. What do urate crystals cause?", WhyLeftOut.STEM_NEEDS_OPTIONS),
        ("Which of these is the cause of gout?", WhyLeftOut.STEM_NEEDS_OPTIONS),
        ("Which is seen in gout?", WhyLeftOut.STEM_NEEDS_OPTIONS),
        ("What holds of gout, all are seen?", WhyLeftOut.STEM_NEEDS_OPTIONS),
        ("Gout is inherited as", WhyLeftOut.NOT_A_QUESTION),
        ("Is gout painful in the night?", WhyLeftOut.NOT_A_QUESTION),
        ("What is gout?", WhyLeftOut.TOO_SHORT),
    ],
)
def test_a_stem_that_needs_its_options_is_left_out(stem: str, reason: WhyLeftOut) -> None:
    assert recast(mcq(stem)) is reason


@pytest.mark.parametrize(
    "gold_answer",
    [
        *("All of the above", "None", "none of these.", "All", "Both", "True", "Any of the above"),
        *("a", "B", "ab", "A and B", "Both a & b", "(a) and (c)", "Only A", "Either A or B"),
        *("1,2,3", "1, 2 and 3 are correct", "i, ii and iii", "All are true"),
    ],
)
def test_a_gold_answer_about_the_options_is_left_out(gold_answer: str) -> None:
    assert recast(mcq(GOUT, gold_answer)) is WhyLeftOut.GOLD_NEEDS_OPTIONS


@pytest.mark.parametrize(
    "gold_answer",
    ["Vitamin C", "Both kidneys", "Above knee amputation", "CEA", "4", "III", "9 and 22", "IgA"],
)
def test_a_gold_answer_that_only_resembles_a_label_is_kept(gold_answer: str) -> None:
    assert isinstance(recast(mcq(GOUT, gold_answer)), OpenQuestion)


def test_a_long_gold_answer_of_separators_is_read_at_once() -> None:
    assert isinstance(recast(mcq(GOUT, "a" + " , " * 500 + "x")), OpenQuestion)


def test_rows_without_one_answer_are_left_out() -> None:
    assert recast(mcq(GOUT, None)) is WhyLeftOut.NO_GOLD_ANSWER
    several = mcq(GOUT, several_answers=True)
    assert recast(several) is WhyLeftOut.SEVERAL_ANSWERS


def test_lines_of_a_table_in_the_stem_are_kept() -> None:
    (question,) = parse_medqa(
        at_lines(
            medqa_row(
                question="Results show the following:\nNa  140\n\nK 5\n"
                "Which of the following is the most likely diagnosis?"
            )
        )
    )
    assert open_text(question.stem) == (
        "Results show the following:\nNa 140\nK 5\nWhat is the most likely diagnosis?"
    )
