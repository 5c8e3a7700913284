"""Loads base models, one at a time, and shares each between all entrants that use it."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
)
from transformers.utils import logging

from tournament_assets.foundation.errors import GenerationError, InputError
from tournament_assets.foundation.formatting import list_first
from tournament_assets.generation.models.batch_probe import is_batchable
from tournament_assets.generation.models.entrant_weights import (
    check_weights,
    fingerprint_weights,
    is_gguf,
)


@dataclass(frozen=True, slots=True)
class PickedDevice:
    """A device and why it was taken.

    Attributes:
        device: Its name for torch: `cuda` or `cpu`.
        sentence: Which device it is and why, for people.
    """

    device: str
    sentence: str


def pick_device(dtype: str = "auto") -> PickedDevice:
    """Take the first CUDA device, or the CPU where there is none.

    Args:
        dtype: One of `DTYPES`, or `auto` to choose by device.
    """
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        gigabytes = properties.total_memory / 1e9
        precision = name_of(precision_on("cuda", dtype))
        return PickedDevice(
            device="cuda",
            sentence=f"on {properties.name} ({gigabytes:.0f} GB) in {precision}: CUDA is available",
        )
    reason = (
        "torch sees no CUDA device" if torch.version.cuda else "this torch is built without CUDA"
    )
    return PickedDevice(
        device="cpu",
        sentence=f"on the CPU ({torch.get_num_threads()} threads) in "
        f"{name_of(precision_on('cpu', dtype))}: {reason}",
    )


DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
"""The precisions that weights may be loaded in, by name."""
_FIRST_WITH_BFLOAT16 = (8, 0)
"""The lowest CUDA compute capability that computes in bfloat16 rather than emulating it."""


def _capability(device: str) -> tuple[int, int] | None:
    """A card's compute capability; None without an NVIDIA card."""
    if torch.version.cuda is None or not torch.cuda.is_available():
        return None
    return torch.cuda.get_device_capability(device)


def dtype_for(
    device: str, *, capability: Callable[[str], tuple[int, int] | None] = _capability
) -> torch.dtype:
    """The precision of weights on a device: float32 on the CPU, bfloat16 on CUDA.

    Cards that cannot compute in bfloat16 (V100, T4 and older) get float16.

    Args:
        capability: Returns a card's compute capability.
    """
    if torch.device(device).type != "cuda":
        return torch.float32
    version = capability(device)
    return torch.bfloat16 if version is None or version >= _FIRST_WITH_BFLOAT16 else torch.float16


def precision_on(device: str, dtype: str) -> torch.dtype:
    """The precision of weights on a device, `dtype` being one of `DTYPES` or `auto`."""
    return DTYPES.get(dtype) or dtype_for(device)


def name_of(dtype: torch.dtype) -> str:
    """Return a precision's name, such as `bfloat16`."""
    return str(dtype).removeprefix("torch.")


@contextmanager
def transformers_logging_off() -> Iterator[None]:
    """Silence transformers' progress bars and warnings inside the `with` block."""
    verbosity = logging.get_verbosity()
    had_progress_bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_progress_bar:
            logging.enable_progress_bar()


@dataclass(frozen=True, slots=True)
class LoadedBase:
    """A model and its tokenizer.

    Attributes:
        tokenizer: It always has a padding token.
        model: The causal language model, in evaluation mode.
        is_spread: Whether its layers are on several cards.
        is_batchable: Whether batching leaves a row unchanged; a few models read padding or other
            rows.
    """

    tokenizer: Any
    model: Any
    device: str
    dtype: torch.dtype
    folder: str = ""
    is_spread: bool = False
    is_batchable: bool = True


class Residence:
    """Keeps one model loaded, so that the next entrant on the same one need not load it again.

    Another model is loaded only after the previous one has left the memory.
    """

    def __init__(self) -> None:
        self._key: tuple[object, ...] | None = None
        self._base: LoadedBase | None = None

    def load(
        self,
        folder: Path,
        *,
        device: str,
        name: str,
        dtype: str = "auto",
        max_memory: Mapping[int | str, int] | None = None,
        needs_template: bool = True,
    ) -> LoadedBase:
        """Return the model of a folder, loading it unless it is still there.

        Arguments as for `check_weights` and `load_base`.
        """
        if problems := check_weights(folder, name=name, needs_template=needs_template):
            raise InputError(problems)
        shared = None if max_memory is None else tuple(max_memory.items())
        key = (fingerprint_weights(folder), device, dtype, shared)
        if self._base is None or self._key != key:
            self.clear()
            self._base = load_base(
                folder, device=device, name=name, dtype=dtype, max_memory=max_memory
            )
            self._key = key
        return self._base

    def clear(self) -> None:
        """Drop the model and free its memory on the device."""
        if self._base is None:
            return
        self._key = self._base = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


RESIDENCE = Residence()
"""This process's only residence, because a device has room for one large model."""


def load_base(
    folder: Path,
    *,
    device: str,
    name: str,
    dtype: str = "auto",
    max_memory: Mapping[int | str, int] | None = None,
) -> LoadedBase:
    """Load a tokenizer and a model from a folder, using no network and running no code in it.

    Args:
        folder: A folder or GGUF file that passes `check_weights`.
        device: Where to put the model: `cpu`, `cuda` or `cuda:1`.
        name: Begins every message, e.g. `entrant 'base'`.
        dtype: One of `DTYPES`, or `auto` to choose by device.
        max_memory: Bytes to use on each of several devices that share the layers; None for `device`
            alone.
    """
    if dtype not in ("auto", *DTYPES):
        raise InputError(f"dtype is {dtype!r}; expected auto, {', '.join(DTYPES)}")
    if max_memory is not None and find_spec("accelerate") is None:
        raise InputError(
            f"{name}: the model is larger than one card, and accelerate is not installed; expected "
            "it to share the model between cards; pip install accelerate"
        )
    precision = precision_on(device, dtype)
    # The weights of a GGUF file are unpacked into the precision.
    place, packed = (folder.parent, {"gguf_file": folder.name}) if is_gguf(folder) else (folder, {})
    shared = {} if max_memory is None else {"device_map": "auto", "max_memory": {**max_memory}}
    try:
        if torch.device(device).index is not None:
            # CUDA graphs are recorded on the current card.
            torch.cuda.set_device(device)
        with transformers_logging_off():
            tokenizer = load_tokenizer(place, **packed)
            model, report = AutoModelForCausalLM.from_pretrained(
                place,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=precision,
                output_loading_info=True,
                # Wrong shapes are in the report, where their tensors are named.
                ignore_mismatched_sizes=True,
                **shared,
                **packed,
            )
            model = model.eval()
            if max_memory is None:
                model = model.to(device)
    # transformers and safetensors raise a dozen kinds of errors for a bad folder, some of them
    # plain Exception; in every case the entrant cannot play and the message must name its folder.
    except Exception as error:
        raise GenerationError(
            f"{name}: the model in {str(folder)!r} cannot be loaded onto {device!r}: {error}; "
            "expected a causal language model that this version of transformers knows"
        ) from error
    _refuse_gaps(report, name=name, folder=folder)
    refuse_mismatch(tokenizer, model, name=name)
    # generate() takes every setting we leave open from here: a repetition penalty suggested by the
    # model's authors would apply although the entrant's description does not name it.
    model.generation_config = GenerationConfig(eos_token_id=model.generation_config.eos_token_id)
    with transformers_logging_off(), decoding_threads(model.num_parameters()):
        can_share = is_batchable(model, tokenizer, name=name)
    return LoadedBase(
        tokenizer=tokenizer,
        model=model,
        device=device if max_memory is None else str(model.device),
        dtype=precision,
        folder=str(folder),
        is_spread=max_memory is not None,
        is_batchable=can_share,
    )


def load_tokenizer(folder: Path, **packed: str) -> Any:
    """Load a tokenizer that pads on the left, by its end token where it has no other.

    Args:
        packed: The GGUF file of the folder that holds it, if one does.
    """
    tokenizer = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False, padding_side="left", **packed
    )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _refuse_gaps(report: Any, *, name: str, folder: Path) -> None:
    """Refuse missing tensors, which would be random, and unexpected ones, which would be lost."""
    belongs = "config.json and *.safetensors belong to different models"
    problems = [
        f"{name}: the weights in {str(folder)!r} {verb} {len(tensors)} tensors{of_what}, the first "
        f"is {min(tensors)!r}; expected exactly the tensors of the model; {belongs}"
        for verb, tensors, of_what in (
            ("lack", report["missing_keys"], ""),
            ("hold", report["unexpected_keys"], " that the model of config.json has no place for"),
        )
        if tensors
    ]
    problems.extend(_shape_problems(report["mismatched_keys"], name=name, folder=folder))
    if problems:
        raise InputError(problems)


def _shape_problems(mismatched: Any, *, name: str, folder: Path) -> list[str]:
    """Name the tensors whose shapes differ from those in `config.json`."""
    if not mismatched:
        return []
    shapes = [
        f"{tensor!r} is {tuple(stored)} and should be {tuple(expected)}"
        for tensor, stored, expected in sorted(mismatched)
    ]
    return [
        f"{name}: {len(mismatched)} tensors in {str(folder)!r} have another shape than its "
        f"config.json says: {list_first(shapes, separator='; ')}; expected the config.json that "
        "these weights were saved with"
    ]


def refuse_mismatch(tokenizer: Any, model: Any, *, name: str) -> None:
    """Raise InputError if a tokenizer does not fit the model; `name` begins the message."""
    n_embedded = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > n_embedded:
        raise InputError(
            f"{name}: the tokenizer knows {len(tokenizer)} tokens and the model {n_embedded}; "
            "expected a model that knows every token; use the tokenizer it was trained with"
        )
    if tokenizer.eos_token_id is None:
        raise InputError(
            f"{name}: the tokenizer has no end-of-sequence token; expected one, "
            "or every response would run to its cap; set eos_token in tokenizer_config.json"
        )


_WORTH_SHARING = 50_000_000
"""Number of parameters from which a step is long enough to share between threads.

Below, threads wait for one another longer than they work: on 2 busy cores the bundled checkpoint
(1.5 million parameters) took 122 s with two threads for what one thread did in 4 s.
"""


@contextmanager
def decoding_threads(n_parameters: int) -> Iterator[None]:
    """Decode a small model on one thread inside the `with` block, a large one on all of them."""
    before = torch.get_num_threads()
    if n_parameters < _WORTH_SHARING:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
