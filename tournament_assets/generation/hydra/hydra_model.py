"""A shared trunk and many heads over one loaded OLMo-2 model.

A head is the last `heads_depth` layers. Heads differ only in the low-rank changes of their MLPs
(see `shards`), so the trunk, all base weights, the final norm and the vocabulary's projection exist
once. The attention of the first head layer precedes all changes: it is the same for all heads and
belongs to the trunk. From there on the heads are on the batch axis, each head's prompts side by
side.

The uncertainty head estimates the probability that a response is correct: a correctness prompt
after the response is answered by A or B. The trunk reads it; at its last token the *witness* is
added, the speaking head's residual stream at the end of the first prompt; the uncertainty head
reads on from there.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.olmo2.modeling_olmo2 import apply_rotary_pos_emb

from tournament_assets.foundation.errors import GenerationError, InputError
from tournament_assets.generation.hydra.shards import (
    HeadSelection,
    HeadShards,
    LoraStack,
    check_adapters,
    head_shape,
)
from tournament_assets.generation.hydra.slot_cache import HydraCaches, SlotCache, TokenPositions
from tournament_assets.generation.models.base_models import decoding_threads
from tournament_assets.generation.models.chat_prompts import pad_right

_PART = 2048
"""Tokens that a CPU scores at once, so that their part of the projection fits into its cache.

Scoring 32,768 tokens for 9 or 72 rows at once took 1.2 to 1.3 times as long.
"""


Compiler = str | Callable[..., Any]
"""A backend of `torch.compile`."""


def normalise_and_rotate(
    queries: Tensor,
    keys: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    eps: float,
    head_dim: int,
) -> tuple[Tensor, Tensor]:
    """Compute what `Olmo2Attention` does between its projections and its cache.

    Args:
        queries: Shape (n_rows, n_tokens, n_heads * head_dim).
        keys: Shape (n_rows, n_tokens, n_kv_heads * head_dim).
        query_weight: Weight of the queries' norm.
        key_weight: Weight of the keys' norm.
        cos: Cosines of the rotary embedding, shape (n_rows, n_tokens, head_dim).
        sin: Its sines, the same shape.
        eps: Epsilon of both norms.
        head_dim: Size of an attention head.

    Returns:
        Queries and keys, each (n_rows, its heads, n_tokens, head_dim).
    """
    shaped = (
        _normalise(rows, weight, eps).view(*rows.shape[:2], -1, head_dim).transpose(1, 2)
        for rows, weight in ((queries, query_weight), (keys, key_weight))
    )
    rotated: tuple[Tensor, Tensor] = apply_rotary_pos_emb(*shaped, cos, sin)
    return rotated


def add_normalised(hidden: Tensor, new: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """Normalise the output of half a layer and add it to the residual stream."""
    return hidden + _normalise(new, weight, eps)


def gate(act: Callable[[Tensor], Tensor], gates: Tensor, up: Tensor) -> Tensor:
    """Compute what an MLP does between its projections."""
    return act(gates) * up


def _normalise(rows: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Normalise as `Olmo2RMSNorm` does: in float32, rounded once."""
    wide = rows.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (weight * wide).to(rows.dtype)


@dataclass(frozen=True, slots=True)
class Regions:
    """What layers compute between matrix products: when eager, forty small kernels a layer.

    Attributes:
        normalise_and_rotate: See the function of this name.
        add_normalised: The same.
        gate: The same.
    """

    normalise_and_rotate: Callable[..., tuple[Tensor, Tensor]] = normalise_and_rotate
    add_normalised: Callable[..., Tensor] = add_normalised
    gate: Callable[..., Tensor] = gate


@cache
def compile_regions(compiler: Compiler) -> Regions:
    """Fuse each region into one or two kernels, when it first meets a shape.

    Weights are arguments, so that all layers of a shape share the compiled code. Matrix products
    stay outside: nothing computes them faster than the libraries used eagerly.
    """
    fuse = partial(torch.compile, fullgraph=True, dynamic=False, backend=compiler)
    return Regions(fuse(normalise_and_rotate), fuse(add_normalised), fuse(gate))


class HydraModel:
    """One resident model that speaks as the base model, as any head, or as all heads at once.

    Attributes:
        shape: The sizes that adapters must fit.
        n_tokens: Tokens the tokenizer knows; later rows of the vocabulary are ghosts.
        n_heads: Language heads; 0 without adapters.
        n_adapters: Adapters of each head, e.g. 2 for security and robustness.
        parts: The known tokens, split into parts that are scored in turn.
    """

    def __init__(
        self,
        model: Any,
        *,
        n_tokens: int,
        heads_depth: int,
        adapters: Sequence[HeadShards] = (),
        uncertainty: HeadShards | None = None,
    ) -> None:
        """Put heads on a loaded model, whose weights are not copied.

        Args:
            model: An `Olmo2ForCausalLM` in evaluation mode.
            heads_depth: Layers of a head, counted from the last.
            adapters: The changes of the language heads, in training order.
            uncertainty: The change of the uncertainty head, one shard.

        Raises:
            InputError: With everything that does not fit.
        """
        self.shape = head_shape(model, heads_depth=heads_depth)
        check_adapters(self.shape, adapters)
        if uncertainty is not None:
            check_adapters(self.shape, [uncertainty])
            if uncertainty.n_heads != 1:
                raise InputError(
                    f"the uncertainty head has {uncertainty.n_heads} shards; "
                    "expected one, for all heads"
                )
        if not 1 <= n_tokens <= model.config.vocab_size:
            raise InputError(
                f"the tokenizer knows {n_tokens} tokens and the model {model.config.vocab_size}; "
                "expected a model that knows every token; use the tokenizer it was trained with"
            )
        self.config = model.config
        self.n_tokens = n_tokens
        self.n_heads = adapters[0].n_heads if adapters else 0
        self.n_adapters = len(adapters)
        self.n_parameters: int = model.num_parameters()
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.parts = _cut(n_tokens, into=_PART if self.device.type == "cpu" else n_tokens)
        self._model = model
        self._regions = Regions()
        # One activation for all layers, although each layer has its own.
        is_silu = model.config.hidden_act == "silu"
        self._act = torch.nn.functional.silu if is_silu else model.model.layers[0].mlp.act_fn
        self._n_trunk = model.config.num_hidden_layers - heads_depth
        self._language = _stack(model, adapters)
        self._uncertainty = _stack(model, [] if uncertainty is None else [uncertainty])

    def with_regions(self, regions: Regions) -> "HydraModel":
        """Return the same model, sharing its weights, with other code for the regions."""
        other = copy.copy(self)
        other._regions = regions
        return other

    def jury(self, n_adapters: int) -> HeadSelection:
        """All heads, each with its first `n_adapters` adapters."""
        return _spoken(self._language, "adapters").jury(n_adapters)

    def drawn(self, heads: Tensor, n_adapters: int) -> HeadSelection:
        """One head per prompt, with its first `n_adapters` adapters; `heads`: (n_prompts,)."""
        return _spoken(self._language, "adapters").drawn(heads, n_adapters)

    def uncertainty(self) -> HeadSelection:
        """The uncertainty head, for all prompts."""
        return _spoken(self._uncertainty, "an uncertainty head").jury(1)

    def new_caches(self, *, n_prompts: int, copies: int, n_slots: int) -> HydraCaches:
        """Make empty caches for a batch whose prompts are read by `copies` heads each."""
        config = self.config
        head_dim = self._model.model.layers[0].self_attn.head_dim

        def zeros(layers: range, n_rows: int) -> SlotCache:
            return SlotCache.zeros(
                layers,
                shape=(n_rows, config.num_key_value_heads, n_slots, head_dim),
                dtype=self.dtype,
                device=self.device,
            )

        # One table for all forward passes: torch computes the last cosines of a tensor by other
        # instructions than the rest, so a token's could depend on its place in the batch.
        slots = torch.arange(n_slots, device=self.device)[None]
        cos, sin = self._model.model.rotary_emb(slots, position_ids=slots)
        return HydraCaches(
            trunk=zeros(range(self._n_trunk + 1), n_prompts),
            heads=zeros(range(self._n_trunk + 1, config.num_hidden_layers), copies * n_prompts),
            rotary=(cos[0], sin[0]),
        )

    def trunk(self, ids: Tensor, places: TokenPositions, cache: SlotCache) -> Tensor:
        """Read tokens with the trunk's whole layers.

        Args:
            ids: Token ids, shape (n_prompts, n_tokens).
            cache: The trunk's cache, which is updated.

        Returns:
            The residual stream, shape (n_prompts, n_tokens, hidden_size).
        """
        hidden: Tensor = self._model.model.embed_tokens(ids)
        for layer in self._model.model.layers[: self._n_trunk]:
            hidden = self._attend(layer, hidden, places, cache)
            mlp = layer.mlp
            inner = self._regions.gate(self._act, mlp.gate_proj(hidden), mlp.up_proj(hidden))
            hidden = self._add(hidden, mlp.down_proj(inner), layer.post_feedforward_layernorm)
        return hidden

    def enter_heads(self, hidden: Tensor, places: TokenPositions, cache: SlotCache) -> Tensor:
        """Apply the heads' common first attention to the trunk's output; shapes as in `trunk`."""
        return self._attend(self._model.model.layers[self._n_trunk], hidden, places, cache)

    def remember(
        self, ids: Tensor, places: TokenPositions, caches: HydraCaches, selection: HeadSelection
    ) -> None:
        """Read tokens into the caches only, without computing the last layer's output.

        Args:
            ids: Token ids, shape (n_prompts, n_tokens).
            caches: The caches, which are updated.
        """
        if self._regions != Regions():
            # Prompts have many lengths, and each would be compiled for a single use.
            self.with_regions(Regions()).remember(ids, places, caches, selection)
            return
        last = self._model.model.layers[-1]
        hidden = self.trunk(ids, places, caches.trunk)
        if self.shape.heads_depth == 1:
            _keep(last, hidden, places, caches.trunk)
            return
        entered = self.enter_heads(hidden, places, caches.trunk)
        n_layers = self.shape.heads_depth - 1
        read = self.heads(entered, places, caches.heads, selection, n_layers=n_layers)
        _keep(last, read.flatten(0, 1), places.repeat(selection.copies), caches.heads)

    def heads(
        self,
        hidden: Tensor,
        places: TokenPositions,
        cache: SlotCache,
        selection: HeadSelection,
        *,
        n_layers: int | None = None,
    ) -> Tensor:
        """Read on with the heads, or with their first layers.

        Args:
            hidden: The output of `enter_heads`, shape (n_prompts, n_tokens, hidden_size).
            cache: The heads' cache, which is updated.
            n_layers: Layers of a head to read with; None for all.

        Returns:
            The residual stream, with all layers that before the final norm,
            shape (copies, n_prompts, n_tokens, hidden_size).
        """
        repeated = places.repeat(selection.copies)
        grouped = selection.group(hidden)
        layers = self._model.model.layers[self._n_trunk :][:n_layers]
        for depth, layer in enumerate(layers):
            if depth:
                rows = self._attend(layer, grouped.flatten(0, 1), repeated, cache)
                grouped = rows.reshape(grouped.shape)
            changed = self._change_mlp(layer.mlp, grouped, selection, depth=depth)
            # (n_groups, rows_per_group, n_tokens, hidden_size)
            grouped = self._add(grouped, changed, layer.post_feedforward_layernorm)
        return grouped.reshape(selection.copies, *hidden.shape)

    def _attend(
        self, layer: Any, hidden: Tensor, places: TokenPositions, cache: SlotCache
    ) -> Tensor:
        """Compute the first half of a layer as `Olmo2DecoderLayer.forward` does."""
        attention = layer.self_attn
        queries, keys = self._regions.normalise_and_rotate(
            attention.q_proj(hidden),
            attention.k_proj(hidden),
            attention.q_norm.weight,
            attention.k_norm.weight,
            *places.rotary,
            eps=attention.q_norm.variance_epsilon,
            head_dim=attention.head_dim,
        )
        values = attention.v_proj(hidden)
        values = values.view(*hidden.shape[:2], -1, attention.head_dim).transpose(1, 2)
        seen = cache.at(places.positions, n_seen=places.n_slots).update(
            keys, values, attention.layer_idx
        )
        attended, _ = sdpa_attention_forward(
            attention, queries, *seen, places.mask, scaling=attention.scaling
        )  # (n_rows, n_tokens, n_heads, head_dim)
        read = attention.o_proj(attended.flatten(2))
        return self._add(hidden, read, layer.post_attention_layernorm)

    def _change_mlp(
        self, mlp: Any, hidden: Tensor, selection: HeadSelection, *, depth: int
    ) -> Tensor:
        """Compute a layer's MLP as `Olmo2MLP.forward` does, with each head's own changes."""
        gates = selection.project(mlp.gate_proj, hidden, layer=depth, projection="gate_proj")
        up = selection.project(mlp.up_proj, hidden, layer=depth, projection="up_proj")
        inner = self._regions.gate(self._act, gates, up)
        return selection.project(mlp.down_proj, inner, layer=depth, projection="down_proj")

    def _add(self, hidden: Tensor, new: Tensor, norm: Any) -> Tensor:
        return self._regions.add_normalised(hidden, new, norm.weight, eps=norm.variance_epsilon)

    def normalise(self, hidden: Tensor) -> Tensor:
        """Apply the final norm to the residual stream, shape (..., hidden_size)."""
        normed: Tensor = self._model.model.norm(hidden)
        return normed

    def score(self, normed: Tensor, tokens: slice) -> Tensor:
        """Score some tokens for all rows in one matrix product.

        Logits are float32 whatever the precision of the weights. In bfloat16, logits near 20 are
        multiples of 0.125: heads would vote for the first of several equals, and a product of eight
        heads would accumulate eight roundings.

        Args:
            normed: The output of `normalise`, shape (..., hidden_size).
            tokens: One of `parts`.

        Returns:
            Logits, float32, shape (..., tokens of the part).
        """
        return _project_exactly(normed, self._model.lm_head.weight[tokens])

    def logits(self, hidden: Tensor) -> Tensor:
        """Score the known tokens as heads do, without the vocabulary's ghost rows.

        Args:
            hidden: The residual stream before the final norm, shape (..., hidden_size).

        Returns:
            Logits, float32, shape (..., n_tokens).
        """
        normed = self.normalise(hidden)
        return join([self.score(normed, part) for part in self.parts])

    def plain_logits(self, hidden: Tensor) -> Tensor:
        """Score the known tokens as the base model and `generate` do, in the weights' precision.

        Args:
            hidden: The residual stream before the final norm, shape (..., hidden_size).

        Returns:
            Logits, shape (..., n_tokens).
        """
        normed = self.normalise(hidden)
        weight = self._model.lm_head.weight
        return join([torch.nn.functional.linear(normed, weight[part]) for part in self.parts])


def _project_exactly(rows: Tensor, weight: Tensor) -> Tensor:
    """Multiply rows by a weight matrix, summing in float32 without rounding the result.

    Products of two bfloat16 or float16 numbers are exact in float32. A GPU reads the weights as
    they are and writes float32, without a float32 copy, which would take 1.6 GB more for OLMo-2-7B
    and twice as much reading.
    """
    if weight.dtype == torch.float32:
        return torch.nn.functional.linear(rows, weight)
    if weight.device.type == "cuda":
        scores = torch.mm(rows.flatten(0, -2), weight.mT, out_dtype=torch.float32)
        return scores.view(*rows.shape[:-1], weight.shape[0])
    # Other devices have no such product: they convert one part of the vocabulary at a time.
    return torch.nn.functional.linear(rows.to(torch.float32), weight.to(torch.float32))


def join(scores: Sequence[Tensor]) -> Tensor:
    """Put the scores of all parts of the vocabulary together; a single one is not copied."""
    return scores[0] if len(scores) == 1 else torch.cat(list(scores), dim=-1)


def _cut(n_tokens: int, *, into: int) -> tuple[slice, ...]:
    return tuple(slice(start, min(start + into, n_tokens)) for start in range(0, n_tokens, into))


def _stack(model: Any, adapters: Sequence[HeadShards]) -> LoraStack | None:
    return LoraStack(adapters, dtype=model.dtype, device=model.device) if adapters else None


def _spoken(stack: LoraStack | None, what: str) -> LoraStack:
    if stack is None:
        raise InputError(f"the model was given no LoRA shards; expected {what}; name the files")
    return stack


def _keep(layer: Any, hidden: Tensor, places: TokenPositions, cache: SlotCache) -> None:
    """Cache a layer's keys and values, computed as in `Olmo2Attention.forward`."""
    attention = layer.self_attn
    shape = (*hidden.shape[:-1], -1, attention.head_dim)
    keys = attention.k_norm(attention.k_proj(hidden)).view(shape).transpose(1, 2)
    values = attention.v_proj(hidden).view(shape).transpose(1, 2)
    _, rotated = apply_rotary_pos_emb(keys, keys, *places.rotary)
    cache.at(places.positions).update(rotated, values, attention.layer_idx)


def answer_ids(tokenizer: Any) -> tuple[int, int]:
    """Return the tokens of the answers `A` (correct) and `B` (not), without a space before them."""
    a, b = (tokenizer.encode(letter, add_special_tokens=False) for letter in "AB")
    if len(a) != 1 or len(b) != 1:
        raise InputError(
            f"the tokenizer writes 'A' as {len(a)} tokens and 'B' as {len(b)}; expected one each, "
            "for the uncertainty head answers with one token; use the tokenizer it was trained with"
        )
    return a[0], b[0]


def estimate_p_correct(
    model: HydraModel,
    prompts: Sequence[Sequence[int]],
    *,
    witnesses: Tensor,
    answer_ids: tuple[int, int],
    prompt_length: int,
) -> list[float]:
    """Ask the uncertainty head about some responses.

    Args:
        model: A model with an uncertainty head.
        prompts: Token ids of the correctness prompts, one per response.
        witnesses: From what was `Finished`, shape (n_prompts, hidden_size).
        answer_ids: The tokens for yes and no: `A` and `B` without a space before them.
        prompt_length: Tokens that prompts are padded to.

    Returns:
        The logistic function of logit A - logit B, one per response.
    """
    lengths = [len(ids) for ids in prompts]
    limit = min(prompt_length, model.config.max_position_embeddings)
    wrong = [length for length in lengths if not 1 <= length <= limit]
    if wrong or len(prompts) != len(witnesses):
        raise InputError(
            f"there are {len(prompts)} correctness prompts of {lengths} tokens for "
            f"{len(witnesses)} witnesses; expected one each, of 1 to {limit} tokens"
        )
    selection = model.uncertainty()
    with torch.inference_mode(), decoding_threads(model.n_parameters):
        ids = pad_right(prompts, prompt_length).to(model.device)
        rows = torch.arange(len(prompts), device=model.device)
        last = torch.tensor(lengths, device=model.device) - 1
        caches = model.new_caches(n_prompts=len(prompts), copies=1, n_slots=prompt_length)
        positions = torch.arange(prompt_length, device=model.device).expand_as(ids)
        places = caches.locate(positions)
        hidden = model.trunk(ids, places, caches.trunk).clone()
        hidden[rows, last] += witnesses
        entered = model.enter_heads(hidden, places, caches.trunk)
        read = model.heads(entered, places, caches.heads, selection)[0]
        logits = model.logits(read[rows, last])  # (n_prompts, n_tokens)
        yes, no = answer_ids
        p_correct = (logits[:, yes].double() - logits[:, no].double()).sigmoid()
    if not bool(p_correct.isfinite().all()):
        raise GenerationError(
            "the uncertainty head's logits hold NaN or infinity; expected numbers; "
            "its LoRA shard is broken, or too large for this precision"
        )
    return p_correct.tolist()
