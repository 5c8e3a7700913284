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

from tournament_assets.generation.decoded import Decoded, VerifiedToken
from tournament_assets.generation.decoding_settings import DecodingMode, DecodingSettings
from tournament_assets.generation.drafting import (
    AheadDrafter,
    Drafter,
    Drafts,
    LockstepDrafter,
    SoloDrafter,
)
from tournament_assets.generation.draws import draw_numbers
from tournament_assets.generation.encoded_prompts import EncodedPrompt, pad_right
from tournament_assets.generation.hydra import HydraModel
from tournament_assets.generation.lora import Voices
from tournament_assets.generation.progress import Progress
from tournament_assets.generation.threads import decoding_threads
from tournament_assets.generation.verifying import verify
from tournament_assets.tournament.errors import Problems


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
) -> DecodedBatch:
    """Write one response to each prompt of a batch.

    Args:
        model: Who answers.
        prompts: What is asked; one to `n_rows` prompts.
        settings: How to decode.
        n_rows: Rows of the batch. Equal `n_rows` and `prompt_length` give equal responses.
        prompt_length: Tokens that prompts are padded to.

    Raises:
        InputError: Before anything is computed, with everything that does not fit.
        GenerationError: If the model's logits are not numbers.
    """
    _check(model, prompts, settings, n_rows=n_rows, prompt_length=prompt_length)
    rows = [*prompts, *[prompts[-1]] * (n_rows - len(prompts))]
    draws = draw_numbers([row.seed for row in rows], n_positions=settings.max_new_tokens)
    drawn = draws.pick_heads(max(model.n_heads, 1))
    rounds: list[_Round] = []
    witnesses = torch.empty(0)
    with torch.inference_mode(), decoding_threads(model.n_parameters):
        heads, numbers = drawn.to(model.device), draws.positions.to(model.device)
        drafter = _start(model, settings, heads=heads, prompt_length=prompt_length)
        drafter.prefill(pad_right([row.ids for row in rows], prompt_length).to(model.device))
        progress = Progress(
            [row.ids for row in rows],
            max_new_tokens=settings.max_new_tokens,
            eos_ids=settings.eos_ids,
            device=model.device,
        )
        while progress.is_open:
            uniforms = _numbers_at(progress.n_written, numbers, n_drafts=settings.gamma)
            drafts = drafter.draft(progress.tokens, progress.positions, uniforms[..., 0])
            if not rounds:
                witnesses = drafts.witnesses[: len(prompts)]
            rounds.append(_settle(drafts, progress, settings, heads=heads, uniforms=uniforms))
    base = settings.mode is DecodingMode.BASE
    responses = tuple(
        _collect(rounds, row, settings, head=None if base else head)
        for row, head in enumerate(drawn.tolist()[: len(prompts)])
    )
    return DecodedBatch(responses=responses, witnesses=witnesses)


@dataclass(frozen=True, slots=True)
class _Round:
    """What one round has added to each response."""

    tokens: list[list[int]]
    verified: list[list[VerifiedToken]] | None


def _start(
    model: HydraModel, settings: DecodingSettings, *, heads: Tensor, prompt_length: int
) -> Drafter:
    # Drafts beyond the cap are never kept, but the last round may read them.
    n_slots = prompt_length + settings.max_new_tokens + settings.gamma - 1
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


def _numbers_at(n_written: Tensor, numbers: Tensor, *, n_drafts: int) -> Tensor:
    """Pick the random numbers of the next positions, shape (n_rows, n_drafts, 3)."""
    ahead = torch.arange(n_drafts, device=numbers.device)
    # Nothing is kept beyond the last position, so any number does there.
    positions = (n_written[:, None] + ahead).clamp(max=numbers.shape[1] - 1)
    rows = torch.arange(numbers.shape[0], device=numbers.device)[:, None]
    return numbers[rows, positions]


def _settle(
    drafts: Drafts,
    progress: Progress,
    settings: DecodingSettings,
    *,
    heads: Tensor,
    uniforms: Tensor,
) -> _Round:
    if drafts.jury_logits is None:
        tokens, verdict = drafts.tokens, None
        n_standing = torch.ones_like(heads)
    else:
        verdict = verify(
            drafts.tokens,
            drafts.q,
            drafts.jury_logits,
            heads=heads,
            beta=settings.beta,
            temperature=settings.temperature,
            uniforms=uniforms[..., 1:],
        )
        tokens, n_standing = verdict.tokens, verdict.n_standing
    n_kept = progress.keep(tokens, n_standing).tolist()
    return _Round(
        tokens=[row[:n] for row, n in zip(tokens.tolist(), n_kept, strict=True)],
        verified=None if verdict is None else verdict.read(n_kept),
    )


def _collect(
    rounds: Sequence[_Round], row: int, settings: DecodingSettings, *, head: int | None
) -> Decoded:
    token_ids = tuple(token for played in rounds for token in played.tokens[row])
    verified = None
    if settings.mode is DecodingMode.FULL_POE:
        verified = tuple(token for played in rounds for token in (played.verified or [[]])[row])
    return Decoded(
        token_ids=token_ids,
        finish_reason="stop" if token_ids[-1] in settings.eos_ids else "length",
        head=head,
        verified=verified,
    )


def _check(
    model: HydraModel,
    prompts: Sequence[EncodedPrompt],
    settings: DecodingSettings,
    *,
    n_rows: int,
    prompt_length: int,
) -> None:
    problems = Problems()
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
