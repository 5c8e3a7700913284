"""Reads LoRA shards: one small file per head, holding low-rank changes to its MLP projections.

A shard is a state dict as the training code writes it. Its block j stands for layer
n_layers - heads_depth + j of the model; its w1, w3 and w2 are the gate, up and down projection.
LoRA: Hu et al., https://arxiv.org/abs/2106.09685.

Only what is exactly right is accepted: a file whose keys have another prefix would otherwise change
nothing, and leave a head that answers like the base model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tournament_assets.generation.head_shapes import HeadShape
from tournament_assets.generation.shard_files import load_shard_file
from tournament_assets.tournament.errors import InputError, Problems

PROJECTIONS = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}
"""What the training code calls each projection, and what transformers calls it."""

_SHOWN_KEYS = 2


@dataclass(frozen=True, slots=True, eq=False)
class LoraFactors:
    """Low-rank changes of one projection, one per head: its weight gains b @ a.

    Attributes:
        a: From the features that are read to the ranks, shape (n_heads, rank, n_in).
        b: From the ranks to the features that are written, shape (n_heads, n_out, rank).
    """

    a: Tensor
    b: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class HeadShards:
    """The shards of one adapter, stacked over the heads.

    Attributes:
        shape: What they fit.
        n_heads: How many heads they are for.
        rank: Rank of every change.
        scale: What b @ a is multiplied with: alpha divided by the rank.
        layers: For each layer of a head, in order, the changes of `gate_proj`, `up_proj` and
            `down_proj`, in float32 on the CPU, not yet scaled.
    """

    shape: HeadShape
    n_heads: int
    rank: int
    scale: float
    layers: tuple[Mapping[str, LoraFactors], ...]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What one tensor of a shard has to be; its two axes are the rank and some features."""

    shape: tuple[int, int]
    rank_axis: int

    def rank_of(self, tensor: Tensor) -> int | None:
        """The rank of a tensor whose features are right; None if they are not."""
        other = 1 - self.rank_axis
        if tensor.ndim != 2 or tensor.shape[other] != self.shape[other]:
            return None
        return tensor.shape[self.rank_axis]


def read_shards(paths: Sequence[Path], *, shape: HeadShape, rank: int, scale: float) -> HeadShards:
    """Read one adapter's shards, the first file for the first head.

    No code inside a file is ever run.

    Args:
        paths: Safetensors files, which are preferred, or `.pt` state dicts.
        shape: The sizes of the model's heads.
        rank: The rank the adapter was trained with.
        scale: Its alpha divided by its rank: 2 where alpha is twice the rank.

    Raises:
        InputError: With everything that is wrong with any of the files.
    """
    problems = Problems()
    if not paths:
        problems.add("there is no LoRA shard; expected one file per head; name them")
    wanted = _wanted(shape, rank)
    shards: list[dict[str, Tensor]] = []
    for path in paths:
        try:
            loaded = load_shard_file(path)
        except InputError as error:
            problems.extend(error.problems)
            continue
        found = _find_problems(loaded, wanted, rank=rank)
        problems.extend(f"LoRA shard {str(path)!r}: {problem}" for problem in found)
        if not found:
            shards.append({key: loaded[key].detach().to(torch.float32) for key in wanted})
    problems.raise_if_any()
    layers = tuple(
        {
            projection: LoraFactors(
                a=torch.stack([shard[_key(layer, name, "A")] for shard in shards]),
                b=torch.stack([shard[_key(layer, name, "B")] for shard in shards]),
            )
            for name, projection in PROJECTIONS.items()
        }
        for layer in range(shape.heads_depth)
    )
    return HeadShards(shape=shape, n_heads=len(shards), rank=rank, scale=scale, layers=layers)


def check_adapters(shape: HeadShape, adapters: Sequence[HeadShards]) -> None:
    """Refuse adapters that do not belong to the same heads of a model.

    Args:
        shape: The sizes of the model's heads; see `head_shape`.
        adapters: The changes of the heads.

    Raises:
        InputError: With everything that does not fit.
    """
    problems = Problems()
    for shards in adapters:
        if shards.shape != shape:
            problems.add(f"LoRA shards are for {shards.shape}; expected {shape}")
    counts = [shards.n_heads for shards in adapters]
    if len(set(counts)) > 1:
        problems.add(
            f"the adapters have {' and '.join(map(str, counts))} shards; "
            "expected equally many, one per head"
        )
    problems.raise_if_any()


def _key(layer: int, name: str, side: str) -> str:
    return f"base_model.model.blocks.{layer}.feed_forward.{name}.lora_{side}.default.weight"


def _wanted(shape: HeadShape, rank: int) -> dict[str, _Wanted]:
    wanted = {}
    for layer in range(shape.heads_depth):
        for name, projection in PROJECTIONS.items():
            n_in, n_out = shape.features(projection)
            wanted[_key(layer, name, "A")] = _Wanted(shape=(rank, n_in), rank_axis=0)
            wanted[_key(layer, name, "B")] = _Wanted(shape=(n_out, rank), rank_axis=1)
    return wanted


def _find_problems(
    loaded: Mapping[Any, Any], wanted: Mapping[str, _Wanted], *, rank: int
) -> list[str]:
    found = []
    missing = [key for key in wanted if key not in loaded]
    extra = [key for key in loaded if key not in wanted]
    if missing:
        found.append(
            f"lacks {len(missing)} of {len(wanted)} tensors, {_listed(missing)}; expected all of "
            "them; use an adapter of the MLP projections of exactly these layers"
        )
    if extra:
        found.append(
            f"holds {len(extra)} keys that mean nothing here, {_listed(extra)}; expected keys like "
            f"{next(iter(wanted))!r}; use the adapter as its training wrote it"
        )
    ranks = set()
    for key, want in wanted.items():
        if key not in loaded:
            continue
        tensor = loaded[key]
        if not _holds_numbers(tensor):
            found.append(
                f"{key!r} is {_describe(tensor)}; expected floating-point numbers; "
                "save the adapter again"
            )
            continue
        own_rank = want.rank_of(tensor)
        if own_rank is None:
            found.append(
                f"{key!r} has shape {tuple(tensor.shape)}; expected {want.shape}; "
                "use an adapter that was trained on this model"
            )
        else:
            ranks.add(own_rank)
        if not bool(tensor.to(torch.float32).isfinite().all()):
            found.append(
                f"{key!r} holds NaN or infinity; expected numbers; "
                "its training diverged or the file is damaged: use another checkpoint"
            )
    if ranks - {rank}:
        found.append(
            f"its rank is {' and '.join(map(str, sorted(ranks)))}; expected {rank}; "
            "correct the rank or use the adapter that was trained with it"
        )
    return found


def _holds_numbers(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and value.is_floating_point()
        and value.layout == torch.strided
        # A tensor on the meta device has a shape and no content.
        and value.device.type == "cpu"
    )


def _describe(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    return f"a {value.layout} tensor of {value.dtype} on {value.device}"


def _listed(keys: Sequence[Any]) -> str:
    shown = ", ".join(repr(key) for key in keys[:_SHOWN_KEYS])
    return shown if len(keys) <= _SHOWN_KEYS else f"{shown}, …"
