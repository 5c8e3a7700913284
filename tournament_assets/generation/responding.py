"""Lets a loaded entrant answer prompts, in batches that fit into memory.

A response must not depend on the prompts that happen to share its batch. It has its own random
numbers, and the shapes of all tensors depend on its own length and the batch size alone: only
prompts of the same padded length begin together, and a batch that is not full is filled up. With
equal shapes torch runs the same kernels, whose rows do not affect each other. Where rounds are
played, the next prompt takes the row of a response that has ended; `generate` cannot do that. The
batch size that fits into memory is measured, since few configs name it.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from math import ceil
from typing import Any

import psutil
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tournament_assets.foundation.errors import GenerationError, InputError, TournamentError
from tournament_assets.generation.hydra.decoded import (
    DecodingMode,
    DecodingSettings,
    describe_decoding,
)
from tournament_assets.generation.hydra.decoding import CapturedRounds, DecodingQueue, Finished
from tournament_assets.generation.hydra.hydra_model import (
    HydraModel,
    answer_ids,
    estimate_p_correct,
)
from tournament_assets.generation.loading import LoadedEntrant
from tournament_assets.generation.models.chat_prompts import (
    AskedPrompt,
    encode_chat,
    encode_prompts,
    padded_length,
)
from tournament_assets.generation.vanilla_responding import as_base_model, respond_with_generate
from tournament_assets.tournament.entrants import LocalEntrant
from tournament_assets.tournament.hydra_entrants import CustomPoeEntrant, fill_in
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt, answer_key

LARGEST = 64
"""The largest batch: more rows gained nothing on any device that was measured."""
_LARGEST_ON_CPU = 16
SHARE = 0.7
"""Share of the free memory used; the rest is for what one row does not show, e.g. fragmentation."""
_SIGNS_OF_NO_MEMORY = (
    "out of memory",
    "cublas_status_alloc_failed",
    # What cuBLAS says when there is no room for its own workspace.
    "cublas_status_not_initialized",
    "cudnn_status_alloc_failed",
    "cudnn_status_internal_error_host_allocation_failed",
    "defaultcpuallocator",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that a smaller batch may fit.

    Torch, cuBLAS and cuDNN each word it differently; while a CUDA graph is recorded, the error is
    about the recording and only its cause is about memory.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, torch.OutOfMemoryError | MemoryError):
            return True
        message = str(cause).lower()
        if isinstance(cause, RuntimeError) and any(sign in message for sign in _SIGNS_OF_NO_MEMORY):
            return True
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return False


def choose_batch_size(
    answer_alone: Callable[[], object], *, device: torch.device, share: float = SHARE
) -> int:
    """Return the largest batch size, a power of two, that fits into the free memory.

    Args:
        answer_alone: Takes one step with one row, as long as the longest will become.
        share: Share of the free memory that a batch may fill.

    Returns:
        1 to 64, or to 16 on a CPU. If that proves too many, generation halves it.
    """
    room = share * free_bytes(device)
    try:
        with measure_peak(device) as peak:
            answer_alone()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return 1
    rows = LARGEST if device.type == "cuda" else _LARGEST_ON_CPU
    while rows > 1 and rows * peak.n_bytes > room:
        rows //= 2
    return rows


def free_bytes(device: torch.device) -> int:
    """Return the free memory of a device, in bytes."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    return int(psutil.virtual_memory().available)


@dataclass(slots=True)
class Peak:
    """The measured peak.

    Attributes:
        n_bytes: The most memory that new tensors held at once; known after the `with` block.
    """

    n_bytes: int = 0


@contextmanager
def measure_peak(device: torch.device) -> Iterator[Peak]:
    """Measure the peak memory of the tensors made inside the `with` block."""
    peak = Peak()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield peak
        peak.n_bytes = torch.cuda.max_memory_allocated(device) - before
        return
    with _NewTensors() as new:
        yield peak
    peak.n_bytes = new.peak


class _NewTensors(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it so
    """Adds up the live tensors; memory that kernels use internally is not seen."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it so
        self.peak = 0
        self._alive = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        storages = {
            leaf.untyped_storage().data_ptr()
            for leaf in tree_leaves((args, kwargs))
            if isinstance(leaf, Tensor)
        }
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            # Views and in-place changes take no memory of their own.
            if isinstance(leaf, Tensor) and leaf.untyped_storage().data_ptr() not in storages:
                self._add(leaf.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        n_bytes = storage.nbytes()
        self._alive += n_bytes
        self.peak = max(self.peak, self._alive)
        weakref.finalize(storage, self._forget, n_bytes)

    def _forget(self, n_bytes: int) -> None:
        self._alive -= n_bytes


Respond = Callable[[Sequence[AskedPrompt], int], Iterator[list[GeneratedResponse]]]
"""Answers prompts, the longest first, given a batch's row count; yields responses when done."""

Warn = Callable[[str], object]
"""Takes a sentence on what a person should look at."""


def respond_in_batches(
    prompts: Sequence[AskedPrompt],
    respond: Respond,
    *,
    batch_size: int,
    where: str,
    instead: Respond | None = None,
    warn: Warn = lambda _: None,
) -> Iterator[list[GeneratedResponse]]:
    """Answer prompts, the longest first, yielding responses as soon as they are done.

    When memory runs out the batch size is halved for the rest; as the longest come first, that
    happens early.

    Args:
        where: The entrant and its device, to begin messages with.
        instead: Answers this batch and the rest once `respond` fails for another reason than
            memory or the model's own; what it raises itself is raised.
        warn: Is told of that.
    """
    waiting = sorted(prompts, key=lambda prompt: prompt.padded_length, reverse=True)
    while waiting:
        try:
            for responses in respond(waiting, batch_size):
                yield responses
                answered = set(map(answer_key, responses))
                waiting = [prompt for prompt in waiting if answer_key(prompt) not in answered]
        except Exception as error:
            if not is_out_of_memory(error):
                if instead is None or isinstance(error, TournamentError):
                    raise
                warn(_not_captured(error))
                respond, instead = instead, None
            elif batch_size == 1:
                raise GenerationError(
                    f"{where} has not enough memory to answer prompt "
                    f"{waiting[0].prompt_id!r} alone; expected room for one; "
                    "lower max_new_tokens, or use a larger device"
                ) from error
            else:
                batch_size //= 2
        else:
            continue
        # Outside the handler, so that the error no longer keeps the failed batch's tensors.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _in_batches(
    respond: Callable[[Sequence[AskedPrompt], int], list[GeneratedResponse]],
    prompts: Sequence[AskedPrompt],
    batch_size: int,
) -> Iterator[list[GeneratedResponse]]:
    """Answer prompts of one padded length at a time, as many together as a batch has rows."""
    for _, group in groupby(prompts, key=lambda prompt: prompt.padded_length):
        same = list(group)
        for start in range(0, len(same), batch_size):
            yield respond(same[start : start + batch_size], batch_size)


def _not_captured(error: Exception) -> str:
    reason = (str(error).splitlines() or [""])[0]
    return (
        f"rounds could not be captured ({type(error).__name__}: {reason}); the rest was decoded "
        "eagerly, which takes longer; correct that, or set generation.execution to 'eager'"
    )


def generate_responses(
    entrant: LoadedEntrant,
    prompts: Sequence[Prompt],
    *,
    batch_size: int | None,
    captured: CapturedRounds | None = None,
    memory_share: float = SHARE,
    too_long: dict[str, str] | None = None,
    warn: Warn = lambda _: None,
) -> Iterator[list[GeneratedResponse]]:
    """Answer prompts, the longest first, yielding every batch as soon as it is done.

    Only the entrant's own settings decide how it decodes, not those that the model's files suggest.
    When memory runs out the batch size is halved for the rest; each response's diagnostics hold the
    batch size it was generated with.

    Args:
        batch_size: Prompts decoded together; None measures one step and takes as many as fit.
        captured: Records the rounds of heads and of plain OLMo-2; None executes them eagerly, and
            so does the first failure to record them that is not for lack of memory.
        memory_share: Share of the free memory that a batch may fill, if its size is measured.
        too_long: Takes the reason of each prompt that is left out because it does not fit into the
            model's context, by id; None refuses all prompts.
        warn: Is told if rounds could not be captured.
    """
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size is {batch_size}; expected at least 1")
    spec = entrant.spec
    encoded = encode_prompts(
        entrant.tokenizer,
        prompts,
        system_prompt=spec.system_prompt,
        max_new_tokens=spec.max_new_tokens,
        context=entrant.context,
        chat_template=entrant.chat_template,
        arguments=spec.template_arguments,
        today=spec.template_date,
        seed=spec.seed,
        is_padded=entrant.base.is_batchable,
        too_long=too_long,
        name=entrant.name,
    )
    if not (encoded and entrant.base.is_batchable):
        batch_size = 1
    elif batch_size is None:
        try:
            batch_size = _measure_batch_size(entrant, encoded, captured, share=memory_share)
        except Exception as error:
            if captured is None or isinstance(error, TournamentError):
                raise
            warn(_not_captured(error))
            captured = None
            batch_size = _measure_batch_size(entrant, encoded, captured, share=memory_share)
    return respond_in_batches(
        encoded,
        _respond_as(entrant, captured),
        batch_size=batch_size,
        where=f"{entrant.name}: {entrant.device}",
        instead=None if captured is None else _respond_as(entrant, None),
        warn=warn,
    )


def _respond_as(entrant: LoadedEntrant, captured: CapturedRounds | None) -> Respond:
    model = entrant.hydra or (as_base_model(entrant) if captured else None)
    if model is None:
        return partial(_in_batches, partial(respond_with_generate, entrant))
    return partial(respond_in_rounds, entrant, model, captured=captured)


def _measure_batch_size(
    entrant: LoadedEntrant,
    prompts: Sequence[AskedPrompt],
    captured: CapturedRounds | None,
    *,
    share: float,
) -> int:
    # The first round of a size sets up what the second one records and replays.
    brief, longest = _longest_step(entrant, prompts, n_rounds=1 if captured is None else 2)
    answer = _respond_as(brief, captured)
    device = torch.device(entrant.device)
    rows = choose_batch_size(lambda: [*answer([longest], 1)], device=device, share=share)
    if captured is not None:
        captured.forget()
    return fit_batch_size([prompt.padded_length for prompt in prompts], at_most=rows, device=device)


_STEP_COST = {"cuda": 64}
_STEP_COST_ON_CPU = 8


def fit_batch_size(lengths: Sequence[int], *, at_most: int, device: torch.device) -> int:
    """Return the batch size that takes the least time: few batches, and few rows that are copies.

    Reading the weights takes as long as computing some rows: on a GPU far more than on a CPU.

    Args:
        lengths: The padded length of each prompt.
        at_most: The largest batch size, a power of two.
    """
    cost = _STEP_COST.get(device.type, _STEP_COST_ON_CPU)
    sizes = [1 << power for power in reversed(range(at_most.bit_length()))]
    groups = Counter(lengths).values()
    return min(sizes, key=lambda rows: sum(ceil(n / rows) * (cost + rows) for n in groups))


def _longest_step(
    entrant: LoadedEntrant, prompts: Sequence[AskedPrompt], *, n_rounds: int
) -> tuple[LoadedEntrant, AskedPrompt]:
    """Return a task of few tokens that reads as much as the end of the longest response."""
    longest = max(prompts, key=lambda prompt: len(prompt.ids))
    n_tokens = longest.padded_length + entrant.spec.max_new_tokens - n_rounds
    if entrant.context is not None:
        n_tokens = min(n_tokens, entrant.context - n_rounds)
    repeated = (longest.ids * (n_tokens // len(longest.ids) + 1))[:n_tokens]
    brief = entrant.spec.model_copy(update={"max_new_tokens": n_rounds})
    return replace(entrant, spec=brief), replace(longest, ids=repeated, is_padded=False)


def respond_in_rounds(
    entrant: LoadedEntrant,
    model: HydraModel,
    prompts: Sequence[AskedPrompt],
    batch_size: int,
    *,
    captured: CapturedRounds | None = None,
) -> Iterator[list[GeneratedResponse]]:
    """Answer prompts, the longest first; see `DecodingQueue`.

    Args:
        model: The entrant's heads, or the base model of a plain entrant.
        batch_size: Rows of the batch; a batch that is not full is filled up.
        captured: Records its rounds, and keeps them from one batch to the next; None for neither.
    """
    queue = DecodingQueue(
        model,
        prompts,
        decoding_settings(entrant.spec, eos_ids=entrant.eos_ids),
        n_rows=batch_size,
        lengths=[prompt.padded_length for prompt in prompts],
        captured=captured,
    )
    while done := queue.advance():
        yield [
            _read_finished(
                entrant,
                model,
                prompts[each.index],
                each,
                circumstances=entrant.circumstances(
                    seed=prompts[each.index].seed,
                    batch_size=batch_size,
                    is_compiled=captured is not None,
                ),
            )
            for each in done
        ]


def _read_finished(
    entrant: LoadedEntrant,
    model: HydraModel,
    prompt: AskedPrompt,
    finished: Finished,
    *,
    circumstances: Mapping[str, Any],
) -> GeneratedResponse:
    spec, reply = entrant.spec, finished.response
    text = entrant.read(reply.token_ids)
    described = {} if reply.head is None else describe_decoding(reply, read=entrant.read, text=text)
    response = entrant.respond(
        prompt,
        reply.token_ids,
        end=reply.finish_reason,
        diagnostics={**circumstances, **described},
    )
    if not isinstance(spec, CustomPoeEntrant) or spec.uncertainty is None:
        return response
    correctness_prompt = fill_in(
        spec.uncertainty.correctness_prompt, prompt=prompt.text, response=response.text
    )
    p_correct = _p_correct(entrant, model, correctness_prompt, witness=finished.witness[None])
    return replace(response, diagnostics={**response.diagnostics, "p_correct": p_correct})


def decoding_settings(spec: LocalEntrant, *, eos_ids: Sequence[int]) -> DecodingSettings:
    """Return the decoder's settings for an entrant."""
    shared = DecodingSettings(
        mode=DecodingMode.BASE,
        max_new_tokens=spec.max_new_tokens,
        temperature=spec.temperature,
        eos_ids=tuple(eos_ids),
    )
    if not isinstance(spec, CustomPoeEntrant):
        return shared
    mode = DecodingMode.BYPASS_JURY if spec.bypass_jury else DecodingMode.FULL_POE
    return replace(shared, mode=mode, n_adapters=len(spec.adapters), beta=spec.beta)


def _p_correct(
    entrant: LoadedEntrant, heads: HydraModel, correctness_prompt: str, *, witness: Tensor
) -> float | None:
    """Ask about one response alone, so that others in its batch cannot matter.

    Returns:
        None if the correctness prompt does not fit into the model's context.
    """
    ids = encode_chat(
        entrant.tokenizer,
        correctness_prompt,
        system_prompt=None,
        today=entrant.spec.template_date,
        name=entrant.name,
    )
    length = min(padded_length(len(ids)), heads.config.max_position_embeddings)
    if len(ids) > length:
        return None
    return estimate_p_correct(
        heads,
        [ids],
        witnesses=witness,
        answer_ids=answer_ids(entrant.tokenizer),
        prompt_length=length,
    )[0]
