"""Decodes batches of prompts with a Hydra model: as the base model, as one head, or by its jury.

Speculative sampling (https://arxiv.org/abs/2211.17192, https://arxiv.org/abs/2302.01318) with a
product of experts as the target; see `product_of_experts`. By default all heads read every token
in lockstep. Drafting several tokens ahead (`gamma`) is possible and changes nothing but the speed:
whether a draft is accepted depends on what stands before it and on the numbers of its position.

A response does not depend on its companions. Its random numbers are drawn from its prompt's own
generator before it is decoded: one for the head that speaks, then three for each position, to
draft, to accept and to replace. The shapes of all tensors depend on `n_rows`, `prompt_length` and
the settings alone: rows not used are filled with copies of the last prompt. On a CPU it does not
depend on its row either, to the last bit, if the width inside the MLP is a multiple of 32, as in
the published OLMo-2 models: torch computes the last few values of a tensor by other instructions.

A round is some thousand small kernels, which Python starts more slowly than a fast GPU runs them,
so a CUDA graph records it once and replays it: the kernels, not the code (see `rounds`). Recording
has not been run on a GPU yet; on a CPU, tests replay traced rounds to the same bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tournament_assets.generation.hydra.decoded import (
    Decoded,
    DecodingMode,
    DecodingSettings,
    Progress,
)
from tournament_assets.generation.hydra.drafts import (
    AheadDrafter,
    Drafter,
    LockstepDrafter,
    SoloDrafter,
)
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.hydra.rounds import Rounds, round_up
from tournament_assets.generation.hydra.shards import HeadSelection
from tournament_assets.generation.models.base_models import decoding_threads
from tournament_assets.generation.models.chat_prompts import EncodedPrompt, pad_right
from tournament_assets.tournament.errors import Problems


class GraphedRounds:
    """Plays rounds like the function it is given, from the third of each size on by replaying."""

    def __init__(self, play: Callable[[int], None], *, device: torch.device) -> None:
        """Prepare to record.

        Args:
            play: Plays one round over a number of slots; rounds over equally many are alike.
            device: A CUDA device, on which all tensors are.
        """
        self._play = play
        self._device = device
        self._warm: set[int] = set()
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # Nothing that one graph computes on the way is needed by another: they share the memory.
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, n_slots: int) -> None:
        """Play one round over this many slots."""
        with torch.cuda.device(self._device):
            if n_slots not in self._warm:
                # Libraries set themselves up in their first calls, which cannot be recorded.
                self._play_aside(n_slots)
                self._warm.add(n_slots)
                return
            if n_slots not in self._graphs:
                # Recording runs nothing: the round is played by the replay below.
                self._graphs[n_slots] = self._record(n_slots)
            self._graphs[n_slots].replay()

    def _play_aside(self, n_slots: int) -> None:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._play(n_slots)
        torch.cuda.current_stream().wait_stream(self._stream)

    def _record(self, n_slots: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            self._play(n_slots)
        return graph


@dataclass(frozen=True, slots=True, eq=False)
class RandomNumbers:
    """Uniform numbers in [0, 1) of some prompts.

    Attributes:
        heads: For the drawn head, shape (n_prompts,).
        positions: To draft, to accept and to replace, shape (n_prompts, n_positions, 3).
    """

    heads: Tensor
    positions: Tensor

    def pick_heads(self, n_heads: int) -> Tensor:
        """Draw one head per prompt, each as probable as any; shape (n_prompts,)."""
        return (self.heads * n_heads).long()


def draw_numbers(seeds: Sequence[int], *, n_positions: int) -> RandomNumbers:
    """Draw the numbers of some prompts, each from a generator of its own.

    A longer response begins with the same numbers as a shorter one.

    Args:
        seeds: One per prompt, e.g. `prompt_seed(prompt_id)`.
        n_positions: Positions of a response, at most.

    Returns:
        Numbers in float64 on the CPU.
    """
    rows = [
        torch.rand(
            1 + 3 * n_positions,
            generator=torch.Generator().manual_seed(seed),
            dtype=torch.float64,
        )
        for seed in seeds
    ]
    numbers = torch.stack(rows)
    return RandomNumbers(heads=numbers[:, 0], positions=numbers[:, 1:].reshape(-1, n_positions, 3))


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
    random_numbers = draw_numbers(
        [row.seed for row in prompts], n_positions=settings.max_new_tokens
    )
    heads = random_numbers.pick_heads(max(model.n_heads, 1)).to(model.device)
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
        numbers=random_numbers.positions.to(model.device),
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
        HeadSelection() if base else model.drawn(heads, settings.n_adapters),
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
