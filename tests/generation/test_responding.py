import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tournament_assets.generation.loading import LoadedEntrant, build_entrant
from tournament_assets.generation.models.chat_prompts import LENGTH_STEP
from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.generation.responding import generate_responses
from tournament_assets.tournament.entrants import LocalEntrant
from tournament_assets.tournament.errors import GenerationError, InputError
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt, prompt_seed

from .builders import Settle, describe


def respond(
    entrant: LoadedEntrant, prompts: Sequence[Prompt], *, batch_size: int = 4
) -> dict[str, GeneratedResponse]:
    batches = generate_responses(entrant, prompts, batch_size=batch_size)
    return {response.prompt_id: response for batch in batches for response in batch}


class RecordingModel:
    """Passes everything on to a model and remembers what it was asked; may run out of memory."""

    def __init__(self, model: Any, *, rows_in_memory: int = 1000) -> None:
        self.model = model
        self.config = model.config
        self.generation_config = model.generation_config
        self.rows_in_memory = rows_in_memory
        self.masks: list[torch.Tensor] = []

    def num_parameters(self) -> int:
        n_parameters: int = self.model.num_parameters()
        return n_parameters

    def generate(self, **arguments: Any) -> torch.Tensor:
        mask: torch.Tensor = arguments["attention_mask"]
        self.masks.append(mask)
        if mask.shape[0] > self.rows_in_memory:
            raise torch.OutOfMemoryError("CUDA out of memory")
        sequences: torch.Tensor = self.model.generate(**arguments)
        return sequences


def with_model(entrant: LoadedEntrant, model: Any, *, spec: LocalEntrant) -> LoadedEntrant:
    return replace(entrant, base=replace(entrant.base, model=model), spec=spec)


def test_a_response_does_not_depend_on_its_batch_companions(
    settle: Settle, bank: list[Prompt]
) -> None:
    entrant = settle(describe(temperature=1.3, max_new_tokens=24))
    prompts = bank[::8]
    together = respond(entrant, prompts)
    for seed in (1, 2):
        shuffled = random.Random(seed).sample(prompts, len(prompts))
        assert respond(entrant, shuffled) == together
    for prompt in prompts[::3]:
        assert respond(entrant, [prompt]) == {prompt.prompt_id: together[prompt.prompt_id]}


def test_tensor_shapes_depend_on_the_prompt_and_the_batch_size_only(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    model = RecordingModel(tiny.model)
    entrant = with_model(tiny, model, spec=describe(max_new_tokens=1))
    respond(entrant, bank, batch_size=5)
    for mask in model.masks:
        assert mask.shape[0] == 5
        assert mask.shape[1] % LENGTH_STEP == 0
        # A batch without padding would lose its mask and be computed by another kernel.
        assert mask.sum(dim=1).max() < mask.shape[1]
        assert mask.sum(dim=1).min() >= mask.shape[1] - LENGTH_STEP
    lengths = [mask.shape[1] for mask in model.masks]
    assert lengths == sorted(lengths, reverse=True)
    assert len(set(lengths)) > 2


def test_a_prompt_that_fills_its_step_exactly_still_gets_padding(tiny: LoadedEntrant) -> None:
    model = RecordingModel(tiny.model)
    entrant = with_model(tiny, model, spec=describe(max_new_tokens=1))
    texts = ["a" + " a" * n for n in range(2 * LENGTH_STEP)]
    prompts = [Prompt(prompt_id=text, text=text, source="test") for text in texts]
    counted = respond(entrant, prompts, batch_size=1)
    assert LENGTH_STEP in {response.prompt_tokens for response in counted.values()}
    assert all(int(mask.sum()) < mask.shape[1] for mask in model.masks)


def test_greedy_responses_equal_transformers_own_generate(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    ours = respond(tiny, bank[:4])
    for prompt in bank[:4]:
        rendered = tiny.tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt.text}],
            add_generation_prompt=True,
            return_dict=True,
            return_tensors="pt",
        )
        sequence = tiny.model.generate(**rendered, do_sample=False, max_new_tokens=96)[0]
        new_ids = sequence[rendered["input_ids"].shape[1] :]
        assert ours[prompt.prompt_id].text == tiny.tokenizer.decode(
            new_ids, skip_special_tokens=True
        )
        assert ours[prompt.prompt_id].response_tokens == len(new_ids)
        assert ours[prompt.prompt_id].prompt_tokens == rendered["input_ids"].shape[1]


def test_a_vanishing_temperature_answers_as_greedy_decoding_does(
    settle: Settle, bank: list[Prompt]
) -> None:
    cold = respond(settle(describe(temperature=1e-4, max_new_tokens=24)), bank[:4])
    assert cold == respond(settle(describe(max_new_tokens=24)), bank[:4])


def test_the_same_text_under_another_prompt_id_is_drawn_differently(
    settle: Settle, bank: list[Prompt]
) -> None:
    entrant = settle(describe(temperature=1.3, max_new_tokens=24))
    copies = [replace(bank[0], prompt_id=f"copy-{n}") for n in range(8)]
    responses = respond(entrant, copies, batch_size=8)
    assert len({response.text for response in responses.values()}) > 1
    assert responses == respond(entrant, copies, batch_size=8)


def test_the_cap_on_new_tokens_is_exact(settle: Settle, bank: list[Prompt]) -> None:
    for cap in (1, 5):
        (response,) = respond(settle(describe(max_new_tokens=cap)), bank[:1]).values()
        assert response.response_tokens == cap
        assert response.finish_reason == "length"


def test_a_response_the_model_ended_counts_its_end_token_and_does_not_show_it(
    settle: Settle, tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    (whole,) = respond(tiny, bank[:1]).values()
    assert whole.finish_reason == "stop"
    assert whole.response_tokens == len(tiny.tokenizer.encode(whole.text)) + 1
    assert "<|" not in whole.text
    n_tokens = whole.response_tokens
    (fits,) = respond(settle(describe(max_new_tokens=n_tokens)), bank[:1]).values()
    assert fits == whole
    (cut,) = respond(settle(describe(max_new_tokens=n_tokens - 1)), bank[:1]).values()
    assert (cut.text, cut.finish_reason) == (whole.text, "length")


def test_diagnostics_tell_how_a_response_came_about(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    (response,) = respond(tiny, bank[:1], batch_size=2).values()
    assert response.diagnostics == {
        "device": "cpu",
        "dtype": "float32",
        "seed": prompt_seed(bank[0].prompt_id),
        "batch_size": 2,
    }


def test_a_batch_is_handed_out_before_the_next_one_is_begun(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    model = RecordingModel(tiny.model)
    entrant = with_model(tiny, model, spec=describe(max_new_tokens=1))
    batches = generate_responses(entrant, bank[:6], batch_size=2)
    assert model.masks == []
    next(batches)
    assert len(model.masks) == 1


def test_no_prompts_give_no_batches(tiny: LoadedEntrant) -> None:
    assert list(generate_responses(tiny, [], batch_size=2)) == []


def test_running_out_of_memory_halves_the_batches_for_the_rest(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    model = RecordingModel(tiny.model, rows_in_memory=3)
    entrant = with_model(tiny, model, spec=describe(max_new_tokens=2))
    responses = respond(entrant, bank[:9], batch_size=8)
    assert {response.diagnostics["batch_size"] for response in responses.values()} == {2}
    assert len(responses) == 9
    assert [mask.shape[0] for mask in model.masks[:3]] == [8, 4, 2]
    assert all(mask.shape[0] == 2 for mask in model.masks[2:])


def test_a_prompt_that_does_not_fit_into_memory_alone_is_an_error(
    tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    entrant = with_model(tiny, RecordingModel(tiny.model, rows_in_memory=0), spec=tiny.spec)
    with pytest.raises(GenerationError, match="cpu has not enough memory to answer prompt 'recall"):
        respond(entrant, bank[:1], batch_size=2)


def test_prompts_beyond_the_context_are_all_refused_before_anything_is_generated(
    settle: Settle,
) -> None:
    prompts = [Prompt(prompt_id=f"long-{n}", text="a " * 400, source="test") for n in range(2)]
    with pytest.raises(InputError) as raised:
        generate_responses(settle(describe(max_new_tokens=300)), prompts, batch_size=2)
    assert len(raised.value.problems) == 2
    assert "prompt 'long-0' takes" in raised.value.problems[0]
    assert "expected at most 512, the model's context" in raised.value.problems[0]


def test_a_batch_holds_at_least_one_prompt(tiny: LoadedEntrant, bank: list[Prompt]) -> None:
    with pytest.raises(InputError, match="batch_size is 0; expected at least 1"):
        generate_responses(tiny, bank, batch_size=0)


def test_the_system_prompt_is_read_before_the_prompt(settle: Settle, bank: list[Prompt]) -> None:
    (plain,) = respond(settle(describe(max_new_tokens=1)), bank[:1]).values()
    system = settle(describe(max_new_tokens=1, system_prompt="Be brief."))
    (instructed,) = respond(system, bank[:1]).values()
    assert plain.prompt_tokens is not None
    assert instructed.prompt_tokens is not None
    assert instructed.prompt_tokens > plain.prompt_tokens


def test_a_chat_template_that_refuses_a_role_is_explained(folder: Path, bank: list[Prompt]) -> None:
    template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    )
    (folder / "chat_template.jinja").write_text(template)
    spec = describe(system_prompt="Be brief.")
    entrant = build_entrant(spec, files=EntrantFiles(folder), device="cpu")
    with pytest.raises(InputError, match="refuses system and user: no system; expected a template"):
        generate_responses(entrant, bank[:1], batch_size=1)


def test_sampling_settings_in_the_models_files_are_not_used(
    folder: Path, tiny: LoadedEntrant, bank: list[Prompt]
) -> None:
    path = folder / "generation_config.json"
    suggested = {"do_sample": True, "temperature": 5.0, "repetition_penalty": 9.0, "top_k": 3}
    path.write_text(json.dumps({**json.loads(path.read_text()), **suggested}))
    entrant = build_entrant(tiny.spec, files=EntrantFiles(folder), device="cpu")
    assert respond(entrant, bank[:2]) == respond(tiny, bank[:2])
