"""Reads LoRA shards, one small file per head, and picks which of them speak for which rows.

A shard is a state dict as the training code writes it; code in its file is never run. Its block j
stands for layer n_layers - heads_depth + j of the model; its w1, w3 and w2 are the gate, up and
down projection. Only exact matches are accepted: otherwise a file with another prefix on its keys
would change nothing, and the head would answer like the base model.

The heads differ from the base model only in low-rank changes of the MLP projections, so one copy of
the base weights serves all of them: W x is computed by the shared projection, and B (A x) is added
by one batched multiplication over the heads (LoRA: Hu et al., https://arxiv.org/abs/2106.09685).
Adapters trained on top of one another, each merged before the next, add up to one change of the
summed rank.
"""

import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import Olmo2ForCausalLM

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.generation.models.entrant_weights import LFS_PROBLEM, is_lfs_pointer

_GLOBAL = re.compile(r"GLOBAL (\S+)")


def load_shard_file(path: Path) -> Mapping[Any, Any]:
    """Return a file's contents on the CPU, by keys that are not checked.

    Args:
        path: A safetensors file, which is preferred, or a `.pt` file written by `torch.save`.
    """
    name = f"LoRA shard {str(path)!r}"
    if not path.is_file():
        raise InputError(f"{name} is not a file; expected one; download it or correct the path")
    if is_lfs_pointer(path):
        raise InputError(f"{name} is {LFS_PROBLEM}")
    if path.suffix == ".safetensors":
        return _load_safetensors(path, name=name)
    if path.suffix == ".pt":
        return _load_pickle(path, name=name)
    raise InputError(
        f"{name} ends in {path.suffix!r}; expected '.safetensors' or '.pt'; "
        "save the adapter's tensors as safetensors"
    )


def _load_safetensors(path: Path, *, name: str) -> Mapping[Any, Any]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise InputError(
            f"{name} cannot be read: {error}; expected a safetensors file; download it again"
        ) from error


def _load_pickle(path: Path, *, name: str) -> Mapping[Any, Any]:
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # torch's own message is not passed on: it recommends switching the check off.
        named = _GLOBAL.search(str(error))
        detail = f", {named[1]} among them" if named else ""
        raise InputError(
            f"{name} holds pickled objects that are not tensors{detail}; they could run code, and "
            "none was loaded; expected a state dict of tensors alone; "
            "save the adapter's tensors as safetensors"
        ) from error
    # torch raises almost anything for a damaged file: KeyError, EOFError, RuntimeError.
    except Exception as error:
        raise InputError(
            f"{name} cannot be read: {type(error).__name__}; "
            "expected a state dict written by torch.save; download it again"
        ) from error
    if not isinstance(loaded, dict):
        raise InputError(
            f"{name} holds a {type(loaded).__name__}; expected a state dict of tensors; "
            "save the adapter's tensors as safetensors"
        )
    return loaded


@dataclass(frozen=True, slots=True)
class HeadShape:
    """The sizes that a shard has to fit.

    Attributes:
        hidden_size: Width of the residual stream.
        intermediate_size: Width inside the MLP.
        heads_depth: Layers of a head.
    """

    hidden_size: int
    intermediate_size: int
    heads_depth: int

    def features(self, projection: str) -> tuple[int, int]:
        """Return how many features a projection reads and how many it writes."""
        if projection == "down_proj":
            return self.intermediate_size, self.hidden_size
        return self.hidden_size, self.intermediate_size


def head_shape(model: Any, *, heads_depth: int) -> HeadShape:
    """Return the sizes of the shards of a model's heads.

    Args:
        model: An `Olmo2ForCausalLM`.
        heads_depth: Layers of a head, counted from the last.
    """
    problems = Problems()
    if not isinstance(model, Olmo2ForCausalLM):
        raise InputError(
            f"the model is a {type(model).__name__}; expected an Olmo2ForCausalLM, "
            "the only one that heads can be put on"
        )
    config = model.config
    if config._attn_implementation != "sdpa":
        problems.add(
            f"the model's attention is {config._attn_implementation!r}; expected 'sdpa', which "
            "takes the cache's mask; load it with attn_implementation='sdpa'"
        )
    if not 1 <= heads_depth <= config.num_hidden_layers:
        problems.add(
            f"heads_depth is {heads_depth}; "
            f"expected 1 to {config.num_hidden_layers}, the model's layers"
        )
    problems.raise_if_any()
    return HeadShape(
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        heads_depth=heads_depth,
    )


PROJECTIONS = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}
"""Each projection's name in the training code and in transformers."""

_SHOWN_KEYS = 2


@dataclass(frozen=True, slots=True, eq=False)
class LoraFactors:
    """Low-rank changes of one projection, one per head: its weight gains b @ a.

    Attributes:
        a: From the input features to the ranks, shape (n_heads, rank, n_in).
        b: From the ranks to the output features, shape (n_heads, n_out, rank).
    """

    a: Tensor
    b: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class HeadShards:
    """The shards of one adapter, stacked over the heads.

    Attributes:
        scale: Factor of b @ a: alpha divided by the rank.
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
    """The expected shape of one tensor of a shard; its two axes are the rank and some features."""

    shape: tuple[int, int]
    rank_axis: int

    def rank_of(self, tensor: Tensor) -> int | None:
        """The rank of a tensor with the right features; None if they are wrong."""
        other = 1 - self.rank_axis
        if tensor.ndim != 2 or tensor.shape[other] != self.shape[other]:
            return None
        return tensor.shape[self.rank_axis]


def read_shards(paths: Sequence[Path], *, shape: HeadShape, rank: int, scale: float) -> HeadShards:
    """Read one adapter's shards, the first file for the first head.

    No code inside a file is ever run.

    Args:
        paths: Safetensors files, which are preferred, or `.pt` state dicts.
        rank: The rank the adapter was trained with.
        scale: Its alpha divided by its rank: 2 where alpha is twice the rank.
    """
    problems = Problems()
    if not paths:
        problems.add("there is no LoRA shard; expected one file per head; name them")
    expected = _wanted(shape, rank)
    shards: list[dict[str, Tensor]] = []
    for path in paths:
        with problems.collected():
            loaded = load_shard_file(path)
            shard_problems = _find_problems(loaded, expected, rank=rank)
            problems.extend(f"LoRA shard {str(path)!r}: {problem}" for problem in shard_problems)
            if not shard_problems:
                shards.append({key: loaded[key].detach().to(torch.float32) for key in expected})
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
    """Refuse adapters that do not belong to the same heads of a model."""
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
    tensors = {}
    for layer in range(shape.heads_depth):
        for name, projection in PROJECTIONS.items():
            n_in, n_out = shape.features(projection)
            tensors[_key(layer, name, "A")] = _Wanted(shape=(rank, n_in), rank_axis=0)
            tensors[_key(layer, name, "B")] = _Wanted(shape=(n_out, rank), rank_axis=1)
    return tensors


def _find_problems(
    loaded: Mapping[Any, Any], expected: Mapping[str, _Wanted], *, rank: int
) -> list[str]:
    problems = []
    missing = [key for key in expected if key not in loaded]
    extra = [key for key in loaded if key not in expected]
    if missing:
        problems.append(
            f"lacks {len(missing)} of {len(expected)} tensors, {_listed(missing)}; expected all of "
            "them; use an adapter of the MLP projections of exactly these layers"
        )
    if extra:
        problems.append(
            f"holds {len(extra)} keys that mean nothing here, {_listed(extra)}; expected keys like "
            f"{next(iter(expected))!r}; use the adapter as its training wrote it"
        )
    ranks = set()
    for key, want in expected.items():
        if key not in loaded:
            continue
        tensor = loaded[key]
        if not _holds_numbers(tensor):
            problems.append(
                f"{key!r} is {_describe(tensor)}; expected floating-point numbers; "
                "save the adapter again"
            )
            continue
        own_rank = want.rank_of(tensor)
        if own_rank is None:
            problems.append(
                f"{key!r} has shape {tuple(tensor.shape)}; expected {want.shape}; "
                "use an adapter that was trained on this model"
            )
        else:
            ranks.add(own_rank)
        if not bool(tensor.to(torch.float32).isfinite().all()):
            problems.append(
                f"{key!r} holds NaN or infinity; expected numbers; "
                "its training diverged or the file is damaged: use another checkpoint"
            )
    if ranks - {rank}:
        problems.append(
            f"its rank is {' and '.join(map(str, sorted(ranks)))}; expected {rank}; "
            "correct the rank or use the adapter that was trained with it"
        )
    return problems


def _holds_numbers(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        and value.is_floating_point()
        and value.layout == torch.strided
        # A tensor on the meta device has a shape but no content.
        and value.device.type == "cpu"
    )


def _describe(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    return f"a {value.layout} tensor of {value.dtype} on {value.device}"


def _listed(keys: Sequence[Any]) -> str:
    names = ", ".join(repr(key) for key in keys[:_SHOWN_KEYS])
    return names if len(keys) <= _SHOWN_KEYS else f"{names}, …"


Changes = tuple[Mapping[str, LoraFactors], ...]
"""For each layer of a head, the changes of its projections, first axis: groups of rows."""


@dataclass(frozen=True, slots=True, eq=False)
class HeadSelection:
    """The speaking heads' changes to the base weights, for each group of rows.

    Attributes:
        copies: Rows per prompt; each prompt's rows see the same trunk.
        changes: The scaled changes of each group of rows; None for the base model itself. With
            several copies there is one group per copy, which holds that copy's row of every prompt;
            with one copy there is one group of all rows, or one per row.
    """

    copies: int = 1
    changes: Changes | None = None

    def restart(self, other: "HeadSelection") -> None:
        """Take over in place another selection's changes, of the same shapes."""
        for changes, new in zip(self.changes or (), other.changes or (), strict=True):
            for projection, factors in changes.items():
                factors.a.copy_(new[projection].a)
                factors.b.copy_(new[projection].b)

    def group(self, hidden: Tensor) -> Tensor:
        """Sort rows into groups; rows that all groups share are not copied.

        Args:
            hidden: The trunk's output, shape (n_prompts, n_tokens, hidden_size).

        Returns:
            Shape (n_groups, rows_per_group, n_tokens, hidden_size), or with several copies
            (1, n_prompts, n_tokens, hidden_size), which broadcasts over the groups.
        """
        n_groups = 1 if self.changes is None else self.changes[0]["gate_proj"].a.shape[0]
        return hidden.reshape(n_groups // self.copies, -1, *hidden.shape[1:])

    def project(self, linear: Any, hidden: Tensor, *, layer: int, projection: str) -> Tensor:
        """Apply one projection of a head's layer with each group's own change.

        Args:
            hidden: Shape (n_groups or 1, rows_per_group, n_tokens, n_in).
            layer: Which layer of the head, from 0.
            projection: `gate_proj`, `up_proj` or `down_proj`.

        Returns:
            Shape (n_groups, rows_per_group, n_tokens, n_out).
        """
        base: Tensor = linear(hidden)
        if self.changes is None:
            return base
        factors = self.changes[layer][projection]
        low = hidden.flatten(1, 2) @ factors.a.mT  # (n_groups, rows * tokens, rank)
        output = base.flatten(1, 2)  # not shared, so it can be changed in place
        if output.shape[0] == low.shape[0] == factors.b.shape[0]:
            return output.baddbmm_(low, factors.b.mT).reshape(base.shape)
        changed = torch.baddbmm(output, low, factors.b.mT)
        return changed.reshape(-1, *base.shape[1:])


class LoraStack:
    """All adapters of all heads, concatenated along the rank axis, ready for use.

    Attributes:
        ranks: Rank of each adapter, in order.
    """

    def __init__(
        self, adapters: Sequence[HeadShards], *, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        self.n_heads = adapters[0].n_heads
        self.ranks = tuple(adapter.rank for adapter in adapters)
        # Scaled in float32, before rounding to the model's precision.
        self._changes: Changes = tuple(
            {
                projection: LoraFactors(
                    a=torch.cat([a.layers[layer][projection].a for a in adapters], dim=1).to(
                        device, dtype
                    ),
                    b=torch.cat(
                        [a.layers[layer][projection].b * a.scale for a in adapters], dim=2
                    ).to(device, dtype),
                )
                for projection in PROJECTIONS.values()
            }
            for layer in range(adapters[0].shape.heads_depth)
        )

    def jury(self, n_adapters: int) -> HeadSelection:
        """All heads, each with its first adapters: one row per head and prompt."""
        return HeadSelection(copies=self.n_heads, changes=self._pick(n_adapters))

    def drawn(self, heads: Tensor, n_adapters: int) -> HeadSelection:
        """One head per prompt with its first adapters; `heads` has shape (n_prompts,)."""
        return HeadSelection(changes=self._pick(n_adapters, heads))

    def _pick(self, n_adapters: int, heads: Tensor | None = None) -> Changes:
        rank = sum(self.ranks[:n_adapters])
        chosen = slice(None) if heads is None else heads
        return tuple(
            {
                projection: LoraFactors(a=factors.a[chosen, :rank], b=factors.b[chosen, :, :rank])
                for projection, factors in layer.items()
            }
            for layer in self._changes
        )
