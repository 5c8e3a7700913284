"""Decodes batches of prompts with a Hydra model: as the base model, as one head, or by its jury.

Speculative sampling (https://arxiv.org/abs/2211.17192, https://arxiv.org/abs/2302.01318) with a
product of experts as the target; see `product_of_experts`. By default all heads read every token
in lockstep. Drafting several tokens ahead (`gamma`) is possible and changes nothing but the speed:
whether a draft is accepted depends on what stands before it and on the numbers of its position.

A response does not depend on its companions. Its random numbers are its own (see `draws`), and the
shapes of all tensors depend on `n_rows`, `prompt_length` and the settings alone: rows that are not
used are filled with copies of the last prompt. On a CPU it does not depend on its row either, to
the last bit, if the width inside the MLP is a multiple of 32, as in the published OLMo-2 models:
torch computes the last few values of a tensor by other instructions than the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tournament_assets.generation.cuda_graphs import GraphedRounds
from tournament_assets.generation.decoded import Decoded
from tournament_assets.generation.decoding_settings import DecodingMode, DecodingSettings
from tournament_assets.generation.drafting import (
    AheadDrafter,
    Drafter,
    LockstepDrafter,
    SoloDrafter,
)
from tournament_assets.generation.draws import draw_numbers
from tournament_assets.generation.encoded_prompts import EncodedPrompt, pad_right
from tournament_assets.generation.hydra import HydraModel
from tournament_assets.generation.lora import Voices
from tournament_assets.generation.progress import Progress
from tournament_assets.generation.rounds import Rounds, round_up
from tournament_assets.generation.threads import decoding_threads
from tournament_assets.tournament.errors import Problems

_UNSEEN_ON_CUDA = 16
"""Rounds after which a GPU is waited for, to see whether all responses are complete."""


@dataclass(frozen=True, slots=True, eq=False)
class DecodedBatch:
    """The responses to a batch of prompts.

    Attributes:
        responses: One per prompt, in the order of the prompts.
        witnesses: What the speaking heads passed to the final norm at the last token of each
            prompt, shape (n_prompts, hidden_size); `uncertainty` reads it.
    """

    responses: tuple[Decoded, ...]
    witnesses: Tensor


def decode(
    model: HydraModel,
    prompts: Sequence[EncodedPrompt],
    settings: DecodingSettings,
    *,
    n_rows: int,
    prompt_length: int,
    captured: bool = False,
) -> DecodedBatch:
    """Write one response to each prompt of a batch.

    Args:
        model: Who answers.
        prompts: What is asked; one to `n_rows` prompts.
        settings: How to decode.
        n_rows: Rows of the batch. Equal `n_rows` and `prompt_length` give equal responses.
        prompt_length: Tokens that prompts are padded to.
        captured: Whether to record rounds as CUDA graphs and replay them, on a CUDA device. What is
            computed is the same.

    Raises:
        InputError: Before anything is computed, with everything that does not fit.
        GenerationError: If the model's logits are not numbers.
    """
    _check(model, prompts, settings, n_rows=n_rows, prompt_length=prompt_length, captured=captured)
    rows = [*prompts, *[prompts[-1]] * (n_rows - len(prompts))]
    on_cuda = model.device.type == "cuda"
    n_unseen = _UNSEEN_ON_CUDA if on_cuda else 1
    with torch.inference_mode(), decoding_threads(model.n_parameters):
        rounds = start_rounds(model, rows, settings, prompt_length=prompt_length)
        play = GraphedRounds(rounds.play, device=model.device) if captured else rounds.play
        for number in range(settings.max_new_tokens):
            play(rounds.n_slots(number))
            # Where all responses are complete, further rounds add nothing.
            is_last = number + 1 == settings.max_new_tokens
            if (is_last or (number + 1) % n_unseen == 0) and not rounds.is_open():
                break
        written = rounds.read()[: len(prompts)]
    base = settings.mode is DecodingMode.BASE
    responses = tuple(
        Decoded(
            token_ids=token_ids,
            finish_reason="stop" if token_ids[-1] in settings.eos_ids else "length",
            head=None if base else head,
            verified=verified,
        )
        for head, (token_ids, verified) in zip(rounds.heads.tolist(), written, strict=False)
    )
    return DecodedBatch(responses=responses, witnesses=rounds.witnesses[: len(prompts)])


def start_rounds(
    model: HydraModel,
    prompts: Sequence[EncodedPrompt],
    settings: DecodingSettings,
    *,
    prompt_length: int,
) -> Rounds:
    """Read prompts, and prepare all that the rounds to come need; arguments as for `decode`."""
    draws = draw_numbers([row.seed for row in prompts], n_positions=settings.max_new_tokens)
    heads = draws.pick_heads(max(model.n_heads, 1)).to(model.device)
    # Drafts beyond the cap are never kept, but the last round may read them.
    n_slots = prompt_length + settings.max_new_tokens + settings.gamma - 1
    n_slots = round_up(n_slots, device=model.device)
    drafter = _choose_drafter(model, settings, heads=heads, n_slots=n_slots)
    drafter.prefill(pad_right([row.ids for row in prompts], prompt_length).to(model.device))
    progress = Progress(
        [row.ids for row in prompts],
        max_new_tokens=settings.max_new_tokens,
        eos_ids=settings.eos_ids,
        device=model.device,
    )
    return Rounds(
        model,
        drafter,
        settings,
        progress=progress,
        heads=heads,
        numbers=draws.positions.to(model.device),
        prompt_length=prompt_length,
    )


def _choose_drafter(
    model: HydraModel, settings: DecodingSettings, *, heads: Tensor, n_slots: int
) -> Drafter:
    if settings.mode is DecodingMode.FULL_POE:
        drafter = LockstepDrafter if settings.gamma == 1 else AheadDrafter
        return drafter(
            model,
            heads,
            n_adapters=settings.n_adapters,
            temperature=settings.temperature,
            n_slots=n_slots,
        )
    base = settings.mode is DecodingMode.BASE
    return SoloDrafter(
        model,
        Voices() if base else model.drawn(heads, settings.n_adapters),
        temperature=settings.temperature,
        n_prompts=heads.numel(),
        n_slots=n_slots,
    )


def _check(
    model: HydraModel,
    prompts: Sequence[EncodedPrompt],
    settings: DecodingSettings,
    *,
    n_rows: int,
    prompt_length: int,
    captured: bool,
) -> None:
    problems = Problems()
    if captured and model.device.type != "cuda":
        problems.add(
            f"captured is True and the model is on {str(model.device)!r}; expected a CUDA device; "
            "leave captured out"
        )
    if not 1 <= len(prompts) <= n_rows:
        problems.add(f"there are {len(prompts)} prompts for {n_rows} rows; expected 1 to {n_rows}")
    if settings.n_adapters > model.n_adapters:
        problems.add(
            f"n_adapters is {settings.n_adapters} and the model has {model.n_adapters}; "
            "expected no more than it has; name the shards of the others"
        )
    elif settings.mode is DecodingMode.FULL_POE and model.n_heads < 2:
        problems.add(
            f"mode 'full_poe' needs verifiers and the model has {model.n_heads} head; "
            "expected at least 2; name more shards or use mode 'bypass_jury'"
        )
    limit = model.config.max_position_embeddings
    for index, prompt in enumerate(prompts):
        if not 1 <= len(prompt.ids) <= prompt_length:
            problems.add(
                f"prompt {index} takes {len(prompt.ids)} tokens; expected 1 to {prompt_length}"
            )
        elif len(prompt.ids) + settings.max_new_tokens > limit:
            problems.add(
                f"prompt {index} takes {len(prompt.ids)} tokens, with max_new_tokens "
                f"{len(prompt.ids) + settings.max_new_tokens}; expected at most {limit}, the "
                "model's context; shorten the prompt or lower max_new_tokens"
            )
        unknown = [token for token in prompt.ids if not 0 <= token < model.n_tokens]
        if unknown:
            problems.add(
                f"prompt {index} holds token {unknown[0]}; expected 0 to {model.n_tokens - 1}, "
                "the tokens that the tokenizer knows"
            )
    problems.raise_if_any()
