"""Every architecture answers as transformers' own `generate` does, alone and without padding."""

from pathlib import Path

import pytest
import torch

from tournament_assets.generation.loading import LoadedEntrant, build_entrant
from tournament_assets.generation.models.chat_prompts import encode_chat
from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.generation.responding import generate_responses
from tournament_assets.tournament.prompts import Prompt

from .architectures import ARCHITECTURES, Architecture
from .builders import describe

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
    architecture: Architecture, tmp_path: Path
) -> None:
    architecture.write(tmp_path)
    assert architecture.sharded == (tmp_path / "model.safetensors.index.json").is_file()
    entrant = build_entrant(describe(max_new_tokens=6), files=EntrantFiles(tmp_path), device="cpu")
    assert entrant.base.is_batchable == (architecture.model_type not in READ_PADDING_OR_OTHER_ROWS)
    batches = generate_responses(entrant, PROMPTS, batch_size=None)
    responses = {response.prompt_id: response for batch in batches for response in batch}
    for prompt in PROMPTS:
        response = responses[prompt.prompt_id]
        assert response.text == write_alone(entrant, prompt)
        assert response.diagnostics["batch_size"] == (16 if entrant.base.is_batchable else 1)
