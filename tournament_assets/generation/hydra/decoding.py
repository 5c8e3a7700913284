"""Decodes batches of prompts with a Hydra model: as the base model, as one head, or by its jury.

Speculative sampling (https://arxiv.org/abs/2211.17192, https://arxiv.org/abs/2302.01318) with a
product of experts as the target; see `product_of_experts`. All heads read every token in lockstep,
and the jury verifies one next token a round.

A response does not depend on the others in its batch. Its random numbers are drawn from its
prompt's own generator before decoding: one to pick the head, then three for each position, to
draft, to accept and to replace; for the base model one for each position, which is what `generate`
is given. The shapes of all tensors depend on `n_rows`, `prompt_length` and the settings alone:
unused rows are filled with copies of the last prompt. When a response ends, another prompt takes
its row (`DecodingQueue`), read alone; attention then looks at as many slots as the row that needs
most of them, which hides the rest, so that companions can change a response's rounding and nothing
else. On a CPU a response does
not depend on its row either, to the last bit, if the MLP's inner width is a multiple of 32, as in
the published OLMo-2 models: torch computes the last few values of a tensor by other instructions.

A round consists of about a thousand small kernels, which Python launches more slowly than a fast
GPU runs them. Captured rounds compile the operations between matrix products into few kernels,
record all kernels as a CUDA graph once, and replay it (see `rounds`). That has not been run on a
GPU yet; tests on a CPU replay traced rounds to the same bits, and check that compiled rounds write
the same tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tournament_assets.foundation.errors import Problems
from tournament_assets.generation.hydra.decoded import (
    Decoded,
    DecodingMode,
    DecodingSettings,
    Progress,
)
from tournament_assets.generation.hydra.drafts import Drafter, LockstepDrafter, SoloDrafter
from tournament_assets.generation.hydra.hydra_model import Compiler, HydraModel, compile_regions
from tournament_assets.generation.hydra.rounds import Rounds, round_up
from tournament_assets.generation.hydra.shards import HeadSelection
from tournament_assets.generation.models.base_models import decoding_threads
from tournament_assets.generation.models.chat_prompts import EncodedPrompt, pad_right

Replay = Callable[[], None]


class Recorder(Protocol):
    """Records the kernels that a function starts."""

    def play_aside(self, play: Callable[[], None]) -> None:
        """Call a function where its kernels cannot disturb a recording."""

    def record(self, play: Callable[[], None]) -> Replay:
        """Record a function's kernels without running them; return a function that replays them.

        Nothing may be set up or compiled while recording.
        """


class CudaRecorder:
    """Records CUDA graphs; all tensors are on its device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # Graphs share memory, since none needs another's intermediate results.
        self._pool = torch.cuda.graph_pool_handle()

    def play_aside(self, play: Callable[[], None]) -> None:
        """Call a function on the stream that is recorded later."""
        with torch.cuda.device(self._device):
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                play()
            torch.cuda.current_stream().wait_stream(self._stream)

    def record(self, play: Callable[[], None]) -> Replay:
        """Record one graph."""
        graph = torch.cuda.CUDAGraph()
        with (
            torch.cuda.device(self._device),
            torch.cuda.graph(
                graph,
                pool=self._pool,
                stream=self._stream,
                # What other threads do with the card, e.g. a progress bar's look at its memory,
                # does not break the recording.
                capture_error_mode="thread_local",
            ),
        ):
            play()

        def replay() -> None:
            with torch.cuda.device(self._device):
                graph.replay()

        return replay


class RecordedRounds:
    """Plays rounds by calling a function once for each size and replaying it from then on.

    Args:
        play: Plays one round over a number of slots; equal numbers run equal kernels.
    """

    def __init__(self, play: Callable[[int], None], recorder: Recorder) -> None:
        self._play = play
        self._recorder = recorder
        self._warm: set[int] = set()
        self._replays: dict[int, Replay] = {}

    def __call__(self, n_slots: int) -> None:
        """Play one round over this many slots."""

        def play() -> None:
            self._play(n_slots)

        if n_slots not in self._warm:
            # First calls set up libraries and compile regions, neither of which can be recorded.
            self._recorder.play_aside(play)
            self._warm.add(n_slots)
            return
        if n_slots not in self._replays:
            # Recording runs nothing: the replay below plays the round.
            self._replays[n_slots] = self._recorder.record(play)
        self._replays[n_slots]()


@dataclass(frozen=True, slots=True, eq=False)
class RandomNumbers:
    """Uniform numbers in [0, 1) of some prompts.

    Attributes:
        heads: For the drawn head, shape (n_prompts,).
        positions: To draft, to accept and to replace, shape (n_prompts, n_positions, 3); for the
            base model to draft alone, shape (n_prompts, n_positions, 1).
    """

    heads: Tensor
    positions: Tensor

    def pick_heads(self, n_heads: int) -> Tensor:
        """Draw one head per prompt, all equally probable; shape (n_prompts,)."""
        return (self.heads * n_heads).long()


def draw_uniforms(seeds: Sequence[int], *, n_positions: int) -> Tensor:
    """Draw every prompt's random numbers from a generator of its own, one per position.

    A longer response begins with the same numbers as a shorter one.

    Args:
        seeds: One per prompt, e.g. `prompt_seed(prompt_id)`.
        n_positions: Tokens of the longest response.

    Returns:
        Numbers in [0, 1), float64 on the CPU, shape (n_prompts, n_positions).
    """
    rows = [
        torch.rand(n_positions, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        for seed in seeds
    ]
    return torch.stack(rows)


def draw_numbers(seeds: Sequence[int], *, n_positions: int, is_base: bool = False) -> RandomNumbers:
    """Draw each prompt's numbers; `is_base`: for the base model, which has no head to draw."""
    if is_base:
        uniforms = draw_uniforms(seeds, n_positions=n_positions)
        return RandomNumbers(heads=torch.zeros(len(seeds)), positions=uniforms[..., None])
    uniforms = draw_uniforms(seeds, n_positions=1 + 3 * n_positions)
    positions = uniforms[:, 1:].reshape(-1, n_positions, 3)
    return RandomNumbers(heads=uniforms[:, 0], positions=positions)


_UNSEEN_ON_CUDA = 16
"""Rounds between two waits for a GPU, which check whether all responses are complete."""


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A response that is complete.

    Attributes:
        index: Its prompt's place among all prompts.
        witness: Its head's input to the final norm at the last token of the prompt, for the
            uncertainty head, shape (hidden_size,).
    """

    index: int
    response: Decoded
    witness: Tensor


class DecodingQueue:
    """Prompts that wait for rows, and those that are being answered.

    A row whose response has ended is given to the next prompt as soon as it is looked at: after
    every round on a CPU, and every `_UNSEEN_ON_CUDA` on a GPU, which would have to be waited for.
    Only when no prompt waits are rows computed for nothing.

    Args:
        prompts: At least one; those of the first one's length begin together.
        n_rows: Rows of the batch; unused ones are filled with copies of the last prompt in it.
        lengths: Tokens that each prompt is padded to, the longest first.
        captured: Records rounds, and holds them from one batch of an entrant to the next; None
            executes them eagerly. Results are the same but for rounding.
        n_unseen: Rounds between two looks; as the device needs unless given.
    """

    def __init__(
        self,
        model: HydraModel,
        prompts: Sequence[EncodedPrompt],
        settings: DecodingSettings,
        *,
        n_rows: int,
        lengths: Sequence[int],
        captured: "CapturedRounds | None" = None,
        n_unseen: int | None = None,
    ) -> None:
        _check(model, prompts, settings, lengths=lengths)
        self._model, self._prompts, self._settings = model, prompts, settings
        self._lengths, self._captured = lengths, captured
        self._n_rows = n_rows
        self._n_unseen = n_unseen or (_UNSEEN_ON_CUDA if model.device.type == "cuda" else 1)
        n_first = sum(length == lengths[0] for length in lengths[:n_rows])
        # Each row's prompt, None where nothing is answered, and when it began, as the length that
        # it would have had before the first round.
        self._answered: list[int | None] = [
            index if index < n_first else None for index in range(n_rows)
        ]
        self._lead = [0] * n_rows
        self._next = n_first
        self._n_played = 0
        self._rounds: tuple[Rounds, Callable[[int], None]] | None = None

    def advance(self) -> list[Finished]:
        """Play until some responses are complete and return them; nothing where none is missing.

        A batch that fails keeps no recorded rounds.
        """
        with (
            torch.inference_mode(),
            decoding_threads(self._model.n_parameters),
            _room_for_shapes() if self._captured else nullcontext(),
        ):
            try:
                return self._advance()
            except BaseException:
                if self._captured is not None:
                    self._captured.forget()
                raise

    def _advance(self) -> list[Finished]:
        if self._rounds is None:
            self._rounds = self._begin()
            self._fill(self._rounds[0])
        rounds, play = self._rounds
        while any(index is not None for index in self._answered):
            leads = zip(self._lead, self._answered, strict=True)
            lead = max(lead for lead, index in leads if index is not None)
            play(rounds.n_slots(self._n_played + lead))
            self._n_played += 1
            if self._n_played % self._n_unseen and not self._reaches_its_end():
                continue
            are_open = rounds.open_rows()
            ended = [
                row
                for row, index in enumerate(self._answered)
                if index is not None and not are_open[row]
            ]
            if ended:
                done = self._take(rounds, ended)
                self._fill(rounds)
                return done
        return []

    def _begin(self) -> tuple[Rounds, Callable[[int], None]]:
        first = self._prompts[: self._next]
        rows = [*first, *[first[-1]] * (self._n_rows - len(first))]
        if self._captured is not None:
            return self._captured.start(
                self._model, rows, self._settings, prompt_length=self._lengths[0]
            )
        rounds = start_rounds(self._model, rows, self._settings, prompt_length=self._lengths[0])
        return rounds, rounds.play

    def _reaches_its_end(self) -> bool:
        """Return whether a response has as many tokens as it may have."""
        return any(
            self._n_played + self._lead[row] - self._lengths[index] + self._lengths[0]
            == self._settings.max_new_tokens
            for row, index in enumerate(self._answered)
            if index is not None
        )

    def _take(self, rounds: Rounds, rows: Sequence[int]) -> list[Finished]:
        heads = rounds.heads.tolist()
        is_base = self._settings.mode is DecodingMode.BASE
        done: list[Finished] = []
        for row, (token_ids, verified) in zip(rows, rounds.read(rows), strict=True):
            response = Decoded(
                token_ids=token_ids,
                finish_reason="stop" if token_ids[-1] in self._settings.eos_ids else "length",
                head=None if is_base else heads[row],
                verified=verified,
            )
            index = self._answered[row]
            if index is not None:
                done.append(Finished(index, response, rounds.witnesses[row].clone()))
            self._answered[row] = None
        return done

    def _fill(self, rounds: Rounds) -> None:
        """Give free rows to prompts that wait."""
        for row, index in enumerate(self._answered):
            if index is not None or self._next == len(self._prompts):
                continue
            length = self._lengths[self._next]
            prompt = self._prompts[self._next]
            ids, progress, heads, numbers = _inputs(self._model, [prompt], self._settings, length)
            rounds.admit(
                torch.tensor([row], device=self._model.device), ids, progress, heads, numbers
            )
            self._answered[row] = self._next
            self._lead[row] = length - self._lengths[0] - self._n_played
            self._next += 1


class CapturedRounds:
    """Compiles and records rounds, and keeps the last with the memory that they play in.

    A batch of as many rows and slots and the same settings plays in it, and nothing is recorded
    again; another batch takes its place. The longest prompts come first, so an entrant records
    each number of slots once for each number of slots that its caches have.

    Args:
        recorder: Makes what records on a device: one for each memory that rounds play in.
        compiler: The backend of `torch.compile` that fuses the operations between matrix products.
    """

    def __init__(
        self,
        recorder: Callable[[torch.device], Recorder] = CudaRecorder,
        *,
        compiler: Compiler = "inductor",
    ) -> None:
        self._recorder = recorder
        self._compiler = compiler
        self._key: tuple[object, ...] | None = None
        self._kept: tuple[Rounds, RecordedRounds] | None = None

    def forget(self) -> None:
        """Free the memory that rounds played in, and what was recorded there."""
        self._kept = None

    def start(
        self,
        model: HydraModel,
        prompts: Sequence[EncodedPrompt],
        settings: DecodingSettings,
        *,
        prompt_length: int,
    ) -> tuple[Rounds, RecordedRounds]:
        """Prepare the rounds of a batch; arguments as for `decode`."""
        n_slots = round_up(prompt_length + settings.max_new_tokens, device=model.device)
        key = (len(prompts), n_slots, settings)
        if self._kept is None or self._key != key:
            self.forget()  # its memory is free before the next is taken
            fused = model.with_regions(compile_regions(self._compiler))
            rounds = start_rounds(fused, prompts, settings, prompt_length=prompt_length)
            recorded = RecordedRounds(rounds.play, self._recorder(model.device))
            self._kept, self._key = (rounds, recorded), key
        else:
            rows = torch.arange(len(prompts), device=model.device)
            self._kept[0].admit(
                rows, *_inputs(model, prompts, settings, prompt_length), prompt_length=prompt_length
            )
        return self._kept


_SHAPES = 64
"""Shapes of one region, for trunk and heads in each batch size; torch's default limit is 8."""


@contextmanager
def _room_for_shapes() -> Iterator[None]:
    import torch._dynamo  # half a second, which eager decoding does not need

    with torch._dynamo.config.patch(recompile_limit=_SHAPES):
        yield


def start_rounds(
    model: HydraModel,
    prompts: Sequence[EncodedPrompt],
    settings: DecodingSettings,
    *,
    prompt_length: int,
) -> Rounds:
    """Read prompts and prepare the rounds; arguments as for `decode`."""
    ids, progress, heads, numbers = _inputs(model, prompts, settings, prompt_length)
    n_slots = round_up(prompt_length + settings.max_new_tokens, device=model.device)
    drafter = _choose_drafter(model, settings, heads=heads, n_slots=n_slots)
    drafter.prefill(ids)
    return Rounds(
        model,
        drafter,
        settings,
        progress=progress,
        heads=heads,
        numbers=numbers,
        prompt_length=prompt_length,
    )


def _inputs(
    model: HydraModel,
    prompts: Sequence[EncodedPrompt],
    settings: DecodingSettings,
    prompt_length: int,
) -> tuple[Tensor, Progress, Tensor, Tensor]:
    """Return the padded prompts, their progress, drawn heads and random numbers, on the device."""
    drawn = draw_numbers(
        [row.seed for row in prompts],
        n_positions=settings.max_new_tokens,
        is_base=settings.mode is DecodingMode.BASE,
    )
    progress = Progress(
        [row.ids for row in prompts],
        max_new_tokens=settings.max_new_tokens,
        eos_ids=settings.eos_ids,
        device=model.device,
    )
    return (
        pad_right([row.ids for row in prompts], prompt_length).to(model.device),
        progress,
        drawn.pick_heads(max(model.n_heads, 1)).to(model.device),
        drawn.positions.to(model.device),
    )


def _choose_drafter(
    model: HydraModel, settings: DecodingSettings, *, heads: Tensor, n_slots: int
) -> Drafter:
    if settings.mode is DecodingMode.FULL_POE:
        return LockstepDrafter(
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
        n_adapters=settings.n_adapters,
        temperature=settings.temperature,
        n_prompts=heads.numel(),
        n_slots=n_slots,
    )


def _check(
    model: HydraModel,
    prompts: Sequence[EncodedPrompt],
    settings: DecodingSettings,
    *,
    lengths: Sequence[int],
) -> None:
    problems = Problems()
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
    for index, (prompt, prompt_length) in enumerate(zip(prompts, lengths, strict=True)):
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
