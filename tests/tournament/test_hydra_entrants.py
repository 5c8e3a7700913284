from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tournament_assets.tournament.hydra_entrants import (
    CORRECTNESS_PROMPT,
    CustomPoeEntrant,
    HydraHeads,
    ShardFiles,
    UncertaintyFiles,
    fill_in,
)
from tournament_assets.tournament.places import Location

HERE = Location(path="weights")
SECURITY = ShardFiles(folder=Location(path="security"), rank=8)
ROBUSTNESS = ShardFiles(
    folder=Location(path="robustness"),
    rank=16,
    checkpoint_files="shard_{head}/*/checkpoint_step_{step}.pt",
)
UNCERTAINTY = UncertaintyFiles(folder=Location(path="uncertainty"), rank=16)
HEADS = HydraHeads(n_heads=3, security=SECURITY, robustness=ROBUSTNESS, uncertainty=UNCERTAINTY)


def describe(**changes: Any) -> CustomPoeEntrant:
    fields: dict[str, Any] = {
        "entrant_id": "poe",
        "loader": "custom_poe",
        "weights": HERE,
        "hydra": HEADS,
        "rob_checkpoint": -1,
        "temperature": 0.98,
    }
    return CustomPoeEntrant(**{**fields, **changes})


def test_each_head_needs_its_own_file_of_each_adapter() -> None:
    needed = describe(needs_uncertainty=True).needed_shards
    assert list(needed) == ["security", "robustness", "uncertainty"]
    assert needed["security"].names == ("shard_0_lora.pt", "shard_1_lora.pt", "shard_2_lora.pt")
    assert needed["robustness"].names == needed["security"].names
    assert needed["uncertainty"].names == ("checkpoint_final.pt",)


def test_no_robustness_checkpoint_means_the_security_adapter_alone() -> None:
    entrant = describe(rob_checkpoint=None)
    assert list(entrant.adapters) == ["security"]
    assert list(entrant.needed_shards) == ["security"]


def test_an_earlier_checkpoint_is_found_by_its_step() -> None:
    needed = describe(rob_checkpoint=400).needed_shards["robustness"]
    assert needed.names[1] == "shard_1/*/checkpoint_step_400.pt"


def test_alpha_is_twice_the_rank_unless_it_is_given() -> None:
    assert SECURITY.scale == 2.0
    assert SECURITY.model_copy(update={"alpha": 4.0}).scale == 0.5


def test_moving_files_and_renaming_do_not_generate_anything_again() -> None:
    moved = HEADS.model_copy(
        update={"security": SECURITY.model_copy(update={"folder": Location(env="S")})}
    )
    same = describe(entrant_id="other", description="x", weights=Location(env="W"), hydra=moved)
    assert same.fingerprint("content") == describe().fingerprint("content")


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 0.5},
        {"temperature": None},
        {"beta": 0.125},
        {"bypass_jury": True},
        {"max_new_tokens": 20},
        {"system_prompt": "Be brief."},
        {"rob_checkpoint": None},
        {"needs_uncertainty": True},
        {"hydra": HEADS.model_copy(update={"heads_depth": 2})},
        {
            "hydra": HEADS.model_copy(
                update={"security": SECURITY.model_copy(update={"alpha": 1.0})}
            )
        },
    ],
)
def test_what_changes_a_response_changes_the_fingerprint(changes: dict[str, Any]) -> None:
    assert describe(**changes).fingerprint("content") != describe().fingerprint("content")


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ({}, "8c7926f05ce44042a410e70629e96a543fb051d70cdfcda59195f5006052e819"),
        (
            {"bypass_jury": True, "temperature": None, "rob_checkpoint": None},
            "aa0c5987154c8ea434373891e9a8c92300219547f6bc21aa01a222990c3eaeaa",
        ),
        (
            {"beta": 0.125, "needs_uncertainty": True},
            "8a0558f08c9f3b6c0b0ddbaf2137aa18b3d759ea9fc1b39494b417d31c3f1f2d",
        ),
    ],
)
def test_stored_responses_are_still_found(changes: dict[str, Any], known: str) -> None:
    assert describe(**changes).fingerprint("0" * 64) == known


def test_other_words_for_the_uncertainty_head_change_the_fingerprint() -> None:
    asked = UNCERTAINTY.model_copy(update={"correctness_prompt": "{prompt} {response} A or B?"})
    other = describe(needs_uncertainty=True, hydra=HEADS.model_copy(update={"uncertainty": asked}))
    assert other.fingerprint("c") != describe(needs_uncertainty=True).fingerprint("c")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"hydra": HydraHeads(n_heads=3, security=SECURITY)},
            "rob_checkpoint is -1 and hydra.robustness is not given",
        ),
        (
            {"hydra": HydraHeads(security=SECURITY, robustness=SECURITY), "rob_checkpoint": 5},
            r"step 5 and hydra.robustness.checkpoint_files is None; expected a name with {step}",
        ),
        (
            {
                "hydra": HydraHeads(security=SECURITY, robustness=ROBUSTNESS),
                "needs_uncertainty": True,
            },
            "needs_uncertainty is true and hydra.uncertainty is not given",
        ),
        ({"bypass_jury": True, "beta": 0.5}, "bypass_jury is true with beta 0.5"),
        (
            {"hydra": HydraHeads(n_heads=1, security=SECURITY, robustness=ROBUSTNESS)},
            "n_heads is 1 and bypass_jury is false",
        ),
        ({"rob_checkpoint": -2}, "rob_checkpoint"),
    ],
)
def test_what_cannot_be_decoded_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        describe(**changes)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("shard_{number}.pt", r"asks for number; expected only {head} and {step}"),
        ("shard_{head.pt", "cannot be read"),
        ("../shard_{head}.pt", "leads out of its folder"),
        ("/weights/shard_{head}.pt", "leads out of its folder"),
    ],
)
def test_a_pattern_names_files_inside_its_folder(pattern: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ShardFiles(folder=HERE, rank=1, files=pattern)


def test_a_pattern_without_the_head_would_give_all_heads_the_same_shard() -> None:
    same = ShardFiles(folder=HERE, rank=1, files="shard.pt")
    with pytest.raises(ValidationError, match=r"'shard\.pt'.* 9 "):
        HydraHeads(security=same)
    assert HydraHeads(n_heads=1, security=same).security.files == "shard.pt"


@pytest.mark.parametrize("template", ["{prompt}", "{prompt} {response} {response}", "right?"])
def test_the_correctness_prompt_holds_the_prompt_and_the_response_once(template: str) -> None:
    with pytest.raises(ValidationError, match=r"correctness_prompt\n"):
        UncertaintyFiles(folder=HERE, rank=1, correctness_prompt=template)


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
    template = '{"right": "A"} {}: {prompt} / {response} {other}'
    assert fill_in(template, prompt="p", response="r") == '{"right": "A"} {}: p / r {other}'
