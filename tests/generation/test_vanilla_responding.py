"""What an entrant's settings do, held against `generate` with the same settings."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import chi2_contingency
from torch import Tensor

from tournament_assets.foundation.errors import GenerationError, InputError
from tournament_assets.foundation.fingerprints import prompt_seed
from tournament_assets.generation import responding
from tournament_assets.generation.hydra.decoding import draw_uniforms
from tournament_assets.generation.loading import LoadedEntrant, build_entrant
from tournament_assets.generation.models.chat_prompts import encode_chat
from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.generation.responding import generate_responses
from tournament_assets.generation.vanilla_responding import (
    ResponseEnd,
    TokenPicker,
    draw_tokens,
)
from tournament_assets.tournament.entrants import VanillaHfEntrant
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

from .architectures import ARCHITECTURES, Architecture
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


def same_law(one: Counter[str], other: Counter[str]) -> float:
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
    assert same_law(ours, drawn_by_generate(small, settings)) > 0.001
    warmer = {**settings, "temperature": 1.6 * settings["temperature"]}
    assert same_law(ours, drawn_by_generate(small, warmer)) < 0.001


def test_a_penalty_for_repetition_is_generates_whatever_the_padding(
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
    with pytest.raises(InputError, match=f"template_arguments .*'{name}'"):
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
    with pytest.raises(ValueError, match=r"\btop_p\b.*\btop_k\b"):
        with_settings(top_k=3, top_p=0.5)


LOGITS = torch.tensor([0.0, 1.0, -1.0, 2.0, 0.5, -3.0])
CHI_SQUARE_999_OF_5 = 20.515  # the 99.9 % quantile with five degrees of freedom


def chi_square(tokens: Tensor, probabilities: Tensor) -> float:
    observed = torch.bincount(tokens, minlength=probabilities.numel())
    expected = probabilities * tokens.numel()
    return float(((observed - expected) ** 2 / expected).sum())


def draw_many(temperature: float, n_draws: int = 200_000) -> Tensor:
    uniforms = draw_uniforms([20261122], n_positions=n_draws)[0]
    logits = LOGITS.expand(n_draws, -1)
    return draw_tokens(logits, uniforms=uniforms, temperature=temperature)


def picker(
    logits_shape: tuple[int, int], *, n_tokens: int, temperature: float | None
) -> TokenPicker:
    uniforms = None
    if temperature is not None:
        uniforms = draw_uniforms(range(logits_shape[0]), n_positions=8)
    return TokenPicker(
        n_tokens=n_tokens, prompt_length=4, temperature=temperature, uniforms=uniforms
    )


def test_tokens_are_drawn_with_the_probabilities_of_the_softmax() -> None:
    expected = (LOGITS.double() / 1.3).softmax(dim=0)
    assert chi_square(draw_many(1.3), expected) < CHI_SQUARE_999_OF_5


def test_the_same_check_rejects_a_slightly_different_temperature() -> None:
    expected = (LOGITS.double() / 1.27).softmax(dim=0)
    assert chi_square(draw_many(1.3), expected) > CHI_SQUARE_999_OF_5


def test_a_token_is_the_inverse_of_the_cumulative_distribution() -> None:
    logits = torch.tensor([0.5, 0.3, 0.2]).log().expand(6, -1)
    uniforms = torch.tensor([0.0, 0.49, 0.51, 0.79, 0.81, 0.99], dtype=torch.float64)
    tokens = draw_tokens(logits, uniforms=uniforms, temperature=1.0)
    assert tokens.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_masked_token_is_not_drawn_even_by_the_extreme_numbers() -> None:
    masked = float("-inf")
    logits = torch.tensor([[masked, 0.1, 0.7, masked], [masked, 0.1, 0.7, masked]])
    extremes = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    assert draw_tokens(logits, uniforms=extremes, temperature=1.0).tolist() == [1, 2]


def test_a_vanishing_temperature_draws_the_most_probable_token() -> None:
    for temperature in (1e-2, 1e-308):  # the least that a division survives
        assert set(draw_many(temperature, n_draws=1000).tolist()) == {3}


def test_a_seed_always_gives_the_same_numbers_and_another_gives_others() -> None:
    torch.rand(3)  # what happened to the global generator before must not matter
    first = draw_uniforms([1, 2], n_positions=20)
    again = draw_uniforms([2, 1], n_positions=20)
    assert torch.equal(first, again.flip(0))
    assert not torch.equal(first[0], first[1])
    assert first.dtype == torch.float64


def test_a_longer_response_begins_with_the_numbers_of_a_shorter_one() -> None:
    longest = draw_uniforms([1], n_positions=300)
    for n_positions in (1, 7, 16, 33, 256):
        shorter = draw_uniforms([1], n_positions=n_positions)
        assert torch.equal(shorter, longest[:, :n_positions])


def test_drawing_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    draw_uniforms([1], n_positions=20)
    draw_many(0.7, n_draws=10)
    assert torch.equal(torch.get_rng_state(), before)


def test_ghost_rows_of_the_vocabulary_are_never_picked() -> None:
    scores = torch.zeros(200, 6)
    scores[:, 4:] = 50.0  # the ghosts are by far the most probable
    prompt = torch.zeros(200, 4, dtype=torch.long)
    for temperature in (None, 1.0, 5.0):
        picked = picker((200, 6), n_tokens=4, temperature=temperature)(prompt, scores)
        assert picked.argmax(dim=-1).max() < 4
        assert torch.isneginf(picked[:, 4:]).all()


def test_greedy_decoding_keeps_the_logits_of_real_tokens() -> None:
    scores = LOGITS.expand(2, -1)
    picked = picker((2, 6), n_tokens=5, temperature=None)(torch.zeros(2, 4), scores)
    assert torch.equal(picked[:, :5], scores[:, :5])


def test_each_position_uses_its_own_number() -> None:
    sampler = picker((1, 6), n_tokens=6, temperature=1.0)
    assert sampler.uniforms is not None
    for position in range(8):
        so_far = torch.zeros(1, 4 + position, dtype=torch.long)
        expected = draw_tokens(
            LOGITS[None], uniforms=sampler.uniforms[:, position], temperature=1.0
        )
        picked = sampler(so_far, LOGITS[None])
        assert picked.argmax(dim=-1).tolist() == expected.tolist()
        assert int(picked.isfinite().sum()) == 1


def test_logits_that_are_no_numbers_are_refused() -> None:
    for broken in (float("nan"), float("inf")):
        scores = LOGITS.clone()[None]
        scores[0, 2] = broken
        for temperature in (None, 1.0):
            with pytest.raises(GenerationError, match="NaN"):
                picker((1, 6), n_tokens=6, temperature=temperature)(torch.zeros(1, 4), scores)


def test_sampling_needs_numbers_to_sample_with() -> None:
    with pytest.raises(ValueError, match="None"):
        TokenPicker(n_tokens=4, prompt_length=4, temperature=1.0, uniforms=None)


def test_a_stop_string_that_is_a_special_tokens_name_ends_a_response_however_it_is_written(
    tiny: LoadedEntrant,
) -> None:
    name = "<|user|>"
    said, special = tiny.tokenizer.encode("Well"), tiny.tokenizer.convert_tokens_to_ids(name)
    spelled = [each for part in ("<|us", "er|>") for each in tiny.tokenizer.encode(part)]
    for end in ([special], spelled):
        stop = ResponseEnd(tiny.tokenizer, [name], prompt_length=1)
        for n_tokens in range(1, len(said) + len(end) + 3):
            written = [0, *said, *end, *said][: n_tokens + 1]
            over = stop(torch.tensor([written]), None)
            assert bool(over) == (n_tokens == len(said) + len(end))
        assert stop.n_written is not None
        assert stop.n_written.tolist() == [len(said) + len(end)]
        assert tiny.read([*said, *end], stop=[name]) == "Well"


def test_a_part_of_a_special_tokens_name_ends_a_response_only_where_it_is_said(
    tiny: LoadedEntrant,
) -> None:
    tokens = tiny.tokenizer.added_tokens_decoder
    special = {str(token): number for number, token in tokens.items() if token.special}
    parts = {
        (name, name[start:end])
        for name in special
        for start in range(len(name))
        for end in range(start + 1, len(name) + 1)
        if end - start < len(name) and name[start:end] not in "Well"
    }
    assert len(parts) > 200
    for name, part in parts:
        stop = ResponseEnd(tiny.tokenizer, [part], prompt_length=1)
        unsaid = [0, *tiny.tokenizer.encode("Well"), special[name]]
        assert not stop(torch.tensor([unsaid]), None)
        for written in (unsaid, unsaid[:-1]):
            spelled = [*written, *tiny.tokenizer.encode(part)]
            assert any(
                stop(torch.tensor([spelled[:n]]), None)
                for n in range(len(written), len(spelled) + 1)
            )


PROMPTS = [
    Prompt(prompt_id=f"p{length}", text="Which vitamin? " * length, source="test")
    for length in (1, 2, 6)
]
READ_PADDING_OR_OTHER_ROWS = {"rwkv", "bart"}


def write_alone(entrant: LoadedEntrant, prompt: Prompt) -> str:
    ids = encode_chat(entrant.tokenizer, prompt.text, system_prompt=None, name="")
    tokens = torch.tensor([ids])
    written = entrant.model.generate(
        tokens,
        attention_mask=torch.ones_like(tokens),
        do_sample=False,
        max_new_tokens=entrant.spec.max_new_tokens,
        pad_token_id=entrant.tokenizer.pad_token_id,
    )
    return entrant.read(written[0, len(ids) :].tolist())


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=repr)
def test_every_architecture_answers_as_generate_does_in_batches_of_a_measured_size(
    architecture: Architecture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responding, "free_bytes", lambda device: 10**10)
    architecture.write(tmp_path)
    assert architecture.sharded == (tmp_path / "model.safetensors.index.json").is_file()
    entrant = build_entrant(describe(max_new_tokens=6), files=EntrantFiles(tmp_path), device="cpu")
    assert entrant.base.is_batchable == (architecture.model_type not in READ_PADDING_OR_OTHER_ROWS)
    batches = generate_responses(entrant, PROMPTS, batch_size=None)
    responses = {response.prompt_id: response for batch in batches for response in batch}
    for prompt in PROMPTS:
        response = responses[prompt.prompt_id]
        assert response.text == write_alone(entrant, prompt)
        assert response.diagnostics["batch_size"] == (4 if entrant.base.is_batchable else 1)
