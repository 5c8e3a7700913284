import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.tournament.hydra_entrants import CORRECTNESS_PROMPT, fill_in

HARMFUL = [
    "{response}",
    "{prompt}",
    "{",
    "}}",
    "{0}",
    "{prompt.__class__}",
    r"\1 \g<0> \n",
    "%s $x",
]


def test_the_correctness_prompt_holds_the_question_the_answer_and_both_replies() -> None:
    assert fill_in(CORRECTNESS_PROMPT, prompt="Which vitamin?", response="Vitamin C.") == (
        "Is the answer correct? Reply with A for yes or B for no.\n"
        "Question: Which vitamin?\nAnswer: Vitamin C."
    )


@pytest.mark.parametrize("prompt", HARMFUL)
@pytest.mark.parametrize("response", HARMFUL)
def test_marks_and_braces_in_the_texts_mean_nothing(prompt: str, response: str) -> None:
    filled = fill_in("a {prompt} b {response} c", prompt=prompt, response=response)
    assert filled == "a " + prompt + " b " + response + " c"


@given(
    prompt=st.text(),
    response=st.text(),
    outside=st.tuples(*[st.text(alphabet="{}ab \\") for _ in range(3)]),
)
def test_whatever_the_texts_are_they_are_put_in_as_they_stand(
    prompt: str, response: str, outside: tuple[str, str, str]
) -> None:
    before, between, after = outside
    for first, second, template in (
        (prompt, response, f"{before}{{prompt}}{between}{{response}}{after}"),
        (response, prompt, f"{before}{{response}}{between}{{prompt}}{after}"),
    ):
        filled = fill_in(template, prompt=prompt, response=response)
        assert filled == before + first + between + second + after


def test_other_braces_of_a_template_stay() -> None:
    template = 'Reply {"correct": "A"} or {}: {prompt} / {response} {other}'
    assert fill_in(template, prompt="p", response="r") == (
        'Reply {"correct": "A"} or {}: p / r {other}'
    )
