"""What an entrant's settings do, held against `generate` with the same settings."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import chi2_contingency

from tournament_assets.generation.loading import LoadedEntrant, build_entrant
from tournament_assets.generation.models.chat_prompts import encode_chat
from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.generation.responding import generate_responses
from tournament_assets.tournament.entrants import VanillaHfEntrant
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt, prompt_seed

from .architectures import ARCHITECTURES
from .builders import Settle, describe

N_DRAWS = 3000
TEXT = "Which vitamin?"


def with_settings(**settings: Any) -> VanillaHfEntrant:
    return VanillaHfEntrant.model_validate({**describe().model_dump(), **settings})


def respond(
    entrant: LoadedEntrant, prompts: list[Prompt], *, batch_size: int = 4
) -> list[GeneratedResponse]:
    batches = generate_responses(entrant, prompts, batch_size=batch_size)
    found = {response.prompt_id: response for batch in batches for response in batch}
    return [found[prompt.prompt_id] for prompt in prompts]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> LoadedEntrant:
    """A model of random weights, whose distributions are wide."""
    folder = tmp_path_factory.mktemp("small")
    next(each for each in ARCHITECTURES if each.model_type == "qwen2").write(folder)
    return build_entrant(describe(), files=EntrantFiles(folder), device="cpu")


def drawn_by_us(small: LoadedEntrant, settings: dict[str, Any]) -> Counter[str]:
    spec = with_settings(max_new_tokens=2, **settings)
    entrant = LoadedEntrant(spec, base=small.base)
    prompts = [Prompt(prompt_id=str(n), text=TEXT, source="test") for n in range(N_DRAWS)]
    return Counter(response.text for response in respond(entrant, prompts, batch_size=500))


def drawn_by_generate(small: LoadedEntrant, settings: dict[str, Any]) -> Counter[str]:
    ids = torch.tensor([encode_chat(small.tokenizer, TEXT, system_prompt=None, name="")])
    with torch.random.fork_rng():
        torch.manual_seed(7)
        written = small.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            max_new_tokens=2,
            num_return_sequences=N_DRAWS,
            pad_token_id=small.tokenizer.pad_token_id,
            **{"top_k": 0, **settings},
        )
    return Counter(small.read(row[ids.shape[1] :].tolist()) for row in written)


def p_value(one: Counter[str], other: Counter[str]) -> float:
    """Of both being drawn from one law; what is rare is counted together."""
    common = [text for text in one | other if one[text] + other[text] >= 20]
    rows = [[counts[text] for text in common] for counts in (one, other)]
    for row, counts in zip(rows, (one, other), strict=True):
        row.append(counts.total() - sum(row) + 1)
    return float(chi2_contingency(rows).pvalue)


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.25},
        {"temperature": 0.4, "top_k": 6},
        {"temperature": 1.2, "top_p": 0.4},
        {"temperature": 1.5, "min_p": 0.3},
        {"temperature": 1.4, "repetition_penalty": 3.0, "top_k": 30, "top_p": 0.7, "min_p": 0.05},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_tokens_are_drawn_from_generates_law(
    small: LoadedEntrant, settings: dict[str, Any]
) -> None:
    ours = drawn_by_us(small, settings)
    assert p_value(ours, drawn_by_generate(small, settings)) > 0.001
    warmer = {**settings, "temperature": 1.6 * settings["temperature"]}
    assert p_value(ours, drawn_by_generate(small, warmer)) < 0.001


def test_a_penalty_for_repetition_is_generates_to_the_bit_whatever_the_padding(
    small: LoadedEntrant, bank: list[Prompt]
) -> None:
    spec = with_settings(max_new_tokens=12, repetition_penalty=1.7)
    prompts = bank[:6]
    for prompt, response in zip(
        prompts, respond(LoadedEntrant(spec, base=small.base), prompts), strict=True
    ):
        ids = torch.tensor([encode_chat(small.tokenizer, prompt.text, system_prompt=None, name="")])
        written = small.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=12,
            repetition_penalty=1.7,
            pad_token_id=small.tokenizer.pad_token_id,
        )
        assert response.text == small.read(written[0, ids.shape[1] :].tolist())


def test_a_penalty_changes_what_is_said(small: LoadedEntrant, bank: list[Prompt]) -> None:
    plain, penalised = (
        respond(LoadedEntrant(with_settings(max_new_tokens=12, **given), base=small.base), bank[:6])
        for given in ({}, {"repetition_penalty": 1.7})
    )
    assert [each.text for each in plain] != [each.text for each in penalised]


def test_a_response_ends_before_a_stop_string_where_generate_ends(
    settle: Settle, tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    prompts = bank[:4]
    whole = respond(tiny, prompts)
    stop = whole[1].text[8:15]
    assert stop not in whole[0].text
    stopped = respond(settle(with_settings(stop=["@@", stop])), prompts)
    assert stopped[0] == whole[0]
    assert stopped[1].text == whole[1].text.partition(stop)[0].strip()
    assert stopped[1].finish_reason == "stop"
    ids = torch.tensor([encode_chat(tiny.tokenizer, prompts[1].text, system_prompt=None, name="")])
    written = tiny.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=96,
        stop_strings=[stop],
        tokenizer=tiny.tokenizer,
    )
    assert stopped[1].response_tokens == written.shape[1] - ids.shape[1]


def test_a_stop_string_that_the_prompt_ends_with_stops_nothing(
    settle: Settle, tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    ids = encode_chat(tiny.tokenizer, bank[0].text, system_prompt=None, name="")
    end = tiny.tokenizer.decode(ids)[-3:]
    (plain,) = respond(tiny, bank[:1])
    (stopped,) = respond(settle(with_settings(stop=[end + plain.text[0]])), bank[:1])
    assert stopped == plain


def test_another_seed_draws_other_responses_and_none_those_of_the_prompt_alone(
    settle: Settle, bank: list[Prompt]
) -> None:
    def draw(**given: Any) -> list[GeneratedResponse]:
        spec = with_settings(temperature=1.5, max_new_tokens=16, **given)
        return respond(settle(spec), bank[:4])

    plain, seeded, again = draw(), draw(seed=1), draw(seed=1)
    assert seeded == again
    assert [each.text for each in plain] != [each.text for each in seeded]
    assert plain[0].diagnostics["seed"] == prompt_seed(bank[0].prompt_id)
    assert seeded[0].diagnostics["seed"] == prompt_seed(bank[0].prompt_id, 1)


TEMPLATE = (
    "{{ messages[-1]['content'] }}{% if shout is defined and shout %}, LOUD{% endif %}"
    "{% if thinking %} <think>\n{% endif %}"
)


def test_the_chat_template_reads_the_arguments(folder: Path, bank: list[Prompt]) -> None:
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    quiet, loud = (
        respond(
            build_entrant(
                with_settings(max_new_tokens=1, template_arguments={"shout": shout}),
                files=EntrantFiles(folder),
                device="cpu",
            ),
            bank[:1],
        )[0].prompt_tokens
        for shout in (False, True)
    )
    assert quiet is not None
    assert loud is not None
    assert loud > quiet


@pytest.mark.parametrize("name", ["shuot", "messages", "tokenize"])
def test_an_argument_that_the_chat_template_does_not_read_is_refused(
    name: str, settle: Settle, bank: list[Prompt]
) -> None:
    entrant = settle(with_settings(template_arguments={name: True}))
    with pytest.raises(InputError, match=f"template_arguments has '{name}', which the model's"):
        respond(entrant, bank[:1])


def test_a_thought_that_the_template_began_is_kept_and_is_no_response(
    folder: Path, bank: list[Prompt]
) -> None:
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    spec = with_settings(max_new_tokens=4, template_arguments={"thinking": True}, strip="think")
    entrant = build_entrant(spec, files=EntrantFiles(folder), device="cpu")
    (response,) = respond(entrant, bank[:1])
    assert (response.text, response.finish_reason) == ("", "length")
    assert response.diagnostics["thought_words"] == len(response.diagnostics["thought"].split()) > 0


def test_what_narrows_the_draw_wants_a_temperature() -> None:
    with pytest.raises(ValueError, match="top_p and top_k without temperature"):
        with_settings(top_k=3, top_p=0.5)
