import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tournament_assets.prompt_bank.bank_building import build_bank_rows
from tournament_assets.prompt_bank.multiple_choice import MultipleChoiceQuestion
from tournament_assets.prompt_bank.recasting import LeftOut
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.prompts import parse_prompt_bank

from .builders import at_lines, mcq


def test_the_built_rows_are_a_valid_bank() -> None:
    questions = [
        mcq("Which crystals cause gout?", source_id="q-1", subject="Medicine"),
        mcq("Most common cause of stroke is", "Infarction", source="medqa"),
    ]
    build = build_bank_rows(questions, counts={"medmcqa": 1, "medqa": 1}, seed=0)
    medmcqa, medqa = parse_prompt_bank(at_lines(*build.rows))
    assert (medmcqa.text, medmcqa.subject) == ("Which crystals cause gout?", "Medicine")
    assert medmcqa.extra == {"source_id": "q-1"}
    assert (medqa.text, medqa.tags) == ("What is the most common cause of stroke?", ("rewritten",))
    assert medqa.prompt_id.startswith("medqa-")
    assert len(medqa.prompt_id) == len("medqa-") + 8


def test_every_question_read_is_counted_once() -> None:
    questions = [
        mcq("Which crystals cause gout?"),
        mcq("which crystals cause GOUT", source_id="again"),
        mcq("Which bone breaks most often?", "Radius"),
        mcq("Which bone breaks most often?", "Clavicle"),
        mcq("True about gout is"),
        mcq("Which nerve moves the diaphragm?", "Phrenic nerve"),
    ]
    counts = build_bank_rows(questions, counts={"medmcqa": 1}, seed=0).counts["medmcqa"]
    assert counts.left_out == {
        LeftOut.TRUE_OR_FALSE: 1,
        LeftOut.CONFLICTING_ANSWERS: 2,
        LeftOut.DUPLICATE: 1,
    }
    assert (counts.read, counts.eligible, counts.drawn) == (6, 2, 1)


def test_the_same_text_in_both_sets_is_asked_once() -> None:
    questions = [mcq("Which crystals cause gout?", source=name) for name in ("medqa", "medmcqa")]
    build = build_bank_rows(questions, counts={"medmcqa": 1}, seed=0)
    assert [row["source"] for row in build.rows] == ["medmcqa"]
    assert build.counts["medqa"].left_out == {LeftOut.DUPLICATE: 1}


def test_two_questions_that_would_share_an_identifier_are_not_both_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tournament_assets.prompt_bank.recasting._ID_LENGTH", 0)
    questions = [mcq(f"Which crystals cause disease {number}?") for number in range(3)]
    counts = build_bank_rows(questions, counts={"medmcqa": 1}, seed=0).counts["medmcqa"]
    assert (counts.eligible, counts.left_out) == (1, {LeftOut.DUPLICATE: 2})


def test_asking_for_more_than_there_is_names_every_source() -> None:
    questions = [mcq("Which crystals cause gout?"), mcq("True about gout is")]
    with pytest.raises(InputError) as caught:
        build_bank_rows(questions, counts={"medmcqa": 2, "medqa": 1}, seed=-1)
    seed, medmcqa, medqa = caught.value.problems
    assert seed == "the seed is -1; expected 0 or more"
    assert medmcqa.startswith("the count of medmcqa is 2; expected at most 1")
    assert "of the 2 questions read" in medmcqa
    assert medqa.startswith("the count of medqa is 1; expected at most 0")


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(InputError, match="the count of medmcqa is -1; expected 0 or more"):
        build_bank_rows([], counts={"medmcqa": -1}, seed=0)


# Few stems and answers, so that duplicates and conflicts are drawn too.
questions_of_both_sets = st.lists(
    st.builds(
        mcq,
        st.sampled_from(
            [f"Which crystals cause disease {number}?" for number in range(8)]
            + ["which crystals cause disease 1", "True about gout is", "Most common site is:"]
        ),
        st.sampled_from(["Uric acid", "uric acid", "Oxalate", "All of the above", None]),
        source=st.sampled_from(["medmcqa", "medqa"]),
        source_id=st.sampled_from([None, "q-1", "q-2"]),
        subject=st.sampled_from([None, "Medicine", "Surgery"]),
    ),
    max_size=30,
)


def drawable(questions: list[MultipleChoiceQuestion]) -> dict[str, int]:
    counts = build_bank_rows(questions, counts={}, seed=0).counts
    return {source: count.eligible for source, count in counts.items()}


@given(questions=questions_of_both_sets, seed=st.integers(0, 2**32), data=st.data())
@settings(deadline=None)
def test_the_order_of_the_questions_does_not_change_the_build(
    questions: list[MultipleChoiceQuestion], seed: int, data: st.DataObject
) -> None:
    counts = {
        source: data.draw(st.integers(0, eligible))
        for source, eligible in drawable(questions).items()
    }
    shuffled = data.draw(st.permutations(questions))
    build = build_bank_rows(questions, counts=counts, seed=seed)
    assert build == build_bank_rows(shuffled, counts=counts, seed=seed)
    assert len(build.rows) == sum(counts.values())


@given(questions=questions_of_both_sets, seed=st.integers(0, 2**32))
@settings(deadline=None)
def test_texts_and_identifiers_are_unique_and_all_questions_accounted_for(
    questions: list[MultipleChoiceQuestion], seed: int
) -> None:
    build = build_bank_rows(questions, counts=drawable(questions), seed=seed)
    texts = [row["text"].casefold() for row in build.rows]
    assert len(set(texts)) == len(texts)
    assert len({row["prompt_id"] for row in build.rows}) == len(texts)
    for counts in build.counts.values():
        assert counts.read == sum(counts.left_out.values()) + counts.eligible


@given(seed=st.integers(0, 2**32), smaller=st.integers(0, 20), larger=st.integers(0, 20))
@settings(deadline=None)
def test_a_larger_count_keeps_what_a_smaller_one_drew(seed: int, smaller: int, larger: int) -> None:
    smaller, larger = sorted((smaller, larger))
    questions = [mcq(f"Which crystals cause disease {number}?") for number in range(20)]
    few = build_bank_rows(questions, counts={"medmcqa": smaller}, seed=seed)
    many = build_bank_rows(questions, counts={"medmcqa": larger}, seed=seed)
    assert {row["prompt_id"] for row in few.rows} <= {row["prompt_id"] for row in many.rows}


def test_another_seed_draws_other_questions() -> None:
    questions = [mcq(f"Which crystals cause disease {number}?") for number in range(100)]
    one = build_bank_rows(questions, counts={"medmcqa": 10}, seed=1)
    two = build_bank_rows(questions, counts={"medmcqa": 10}, seed=2)
    assert one.rows != two.rows


def test_the_draw_of_one_set_does_not_depend_on_the_other() -> None:
    ours = [mcq(f"Which crystals cause disease {number}?") for number in range(20)]
    theirs = [mcq(f"Which virus causes disease {number}?", source="medqa") for number in range(20)]
    alone = build_bank_rows(theirs, counts={"medqa": 5}, seed=3)
    both = build_bank_rows(ours + theirs, counts={"medmcqa": 7, "medqa": 5}, seed=3)
    assert alone.rows == both.rows[7:]
