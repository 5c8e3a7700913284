"""Trains the uncertainty head: it tells the good answers from the flawed ones.

It reads the correctness prompt about an answer and, at its last token, the witness: what the head
that answered had in its residual stream when it began. Any speaker may have answered, so a witness
is drawn from all of them.
"""

from collections.abc import Sequence
from typing import Any

import torch
from low_rank import changed, new_shards, pick_head, train_shards
from torch import Tensor
from train import Example, encode_question, shuffled_batches

from tournament_assets.generation.hydra.hydra_model import answer_ids
from tournament_assets.generation.hydra.shards import HeadShards
from tournament_assets.generation.models.chat_prompts import pad_right
from tournament_assets.tournament.hydra_entrants import CORRECTNESS_PROMPT, fill_in
from tournament_assets.tournament.prompts import Prompt

RANK = 16
SEED = 23
STEPS = 300
RATE = 0.01


def collect_witnesses(
    model: Any, adapters: Sequence[HeadShards], prompts: Sequence[Sequence[int]]
) -> Tensor:
    """Read the prompts as the base model, and as every head with its first or with all adapters.

    Returns:
        What goes into the final norm at each prompt's last token,
        shape (n_speakers, n_prompts, hidden_size).
    """
    speakers: list[list[HeadShards]] = [[]]
    for n_adapters in range(1, len(adapters) + 1):
        speakers += [
            [pick_head(shards, head) for shards in adapters[:n_adapters]]
            for head in range(adapters[0].n_heads)
        ]
    ids = pad_right(prompts, max(map(len, prompts)))
    rows, last = torch.arange(len(prompts)), torch.tensor([len(prompt) - 1 for prompt in prompts])
    kept: list[Tensor] = []
    hook = model.model.norm.register_forward_pre_hook(
        lambda _module, args: kept.append(args[0][rows, last])
    )
    with torch.no_grad():
        for speaker in speakers:
            with changed(model, speaker):
                model.model(input_ids=ids)
    hook.remove()
    return torch.stack(kept)


def train_uncertainty(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    answers: Sequence[dict[str, Any]],
    *,
    adapters: Sequence[HeadShards],
) -> HeadShards:
    """Train the uncertainty head on every prompt's good answer and on its flawed one.

    Args:
        model: The base model.
        tokenizer: Its tokenizer.
        prompts: The bank.
        answers: `answer` and `flawed_answer` of each prompt.
        adapters: The language heads.
    """
    shape = adapters[0].shape
    generator = torch.Generator().manual_seed(SEED)
    asked = [encode_question(tokenizer, prompt.text) for prompt in prompts]
    witnesses = collect_witnesses(model, adapters, asked)
    pairs = []
    for prompt, row in zip(prompts, answers, strict=True):
        good, flawed = (
            encode_question(
                tokenizer, fill_in(CORRECTNESS_PROMPT, prompt=prompt.text, response=row[key])
            )
            for key in ("answer", "flawed_answer")
        )
        pairs.append((_question(good), _question(flawed)))
    trunk = len(model.model.layers) - shape.heads_depth
    # The trunk is not trained, so it reads every correctness prompt once.
    with torch.no_grad():
        passed_on = [[_read(model, _embed(model, ids), range(trunk)) for ids in p] for p in pairs]
    yes, no = answer_ids(tokenizer)
    queue: list[list[int]] = []

    def compute_loss() -> Tensor:
        if not queue:
            queue.extend(shuffled_batches(pairs, generator))
        chosen = queue.pop()
        rows = [hidden for index in chosen for hidden in passed_on[index]]
        hidden = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        places = torch.arange(len(rows)), torch.tensor([len(row) - 1 for row in rows])
        speakers = torch.randint(len(witnesses), (len(rows),), generator=generator)
        hidden[places] += witnesses[speakers, torch.tensor(chosen).repeat_interleave(2)]
        read = _read(model, hidden, range(trunk, len(model.model.layers)))
        logits = model.lm_head(model.model.norm(read[places]))  # (n_rows, vocabulary)
        return torch.nn.functional.binary_cross_entropy_with_logits(
            logits[:, yes] - logits[:, no], torch.tensor([1.0, 0.0]).repeat(len(chosen))
        )

    shards = new_shards(shape, n_heads=1, rank=RANK, seed=SEED)
    return train_shards(model, shards, compute_loss, n_steps=STEPS, rate=RATE, with_muon=True)


def _question(ids: list[int]) -> Example:
    return Example(prompt_ids=ids, answer_ids=[], fork=0, share=1.0)


def _embed(model: Any, example: Example) -> Tensor:
    embedded: Tensor = model.model.embed_tokens(torch.tensor(example.prompt_ids))
    return embedded


def _read(model: Any, hidden: Tensor, layers: Sequence[int]) -> Tensor:
    """Read on from the residual stream, shape (…, n_tokens, hidden_size), with some layers."""
    rows = hidden.reshape(-1, *hidden.shape[-2:])
    positions = torch.arange(rows.shape[1])[None]
    rotary = model.model.rotary_emb(rows, position_ids=positions)
    for number in layers:
        layer = model.model.layers[number]
        # Without a mask a token sees what stands before it, and rows are padded behind.
        rows = layer(rows, attention_mask=None, position_embeddings=rotary)
    return rows.reshape(hidden.shape)
