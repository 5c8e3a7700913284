"""A shared trunk and many heads over one loaded OLMo-2 model.

The last `heads_depth` layers are a head. Heads differ in the low-rank changes of their MLPs alone
(see `lora`), so the trunk, all base weights, the final norm and the vocabulary's projection exist
once. The attention of the first head layer comes before any of its changes: it is the same for all
heads and belongs to the trunk. From there on the heads stand on the batch axis, a head's prompts
next to one another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tournament_assets.generation.head_shapes import head_shape
from tournament_assets.generation.lora import LoraStack, Voices
from tournament_assets.generation.shards import HeadShards, check_adapters
from tournament_assets.generation.slot_cache import SlotCache, visible_slots
from tournament_assets.tournament.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Where the tokens of one forward pass stand.

    Attributes:
        positions: Absolute position of each token, shape (n_rows, n_tokens).
        rotary: Cosine and sine of the rotary embedding, each (n_rows, n_tokens, head_dim).
        mask: True where a slot is seen, shape (n_rows, 1, n_tokens, n_slots).
    """

    positions: Tensor
    rotary: tuple[Tensor, Tensor]
    mask: Tensor

    def repeat(self, copies: int) -> "Frame":
        """The same tokens once more for each further copy of the rows."""
        if copies == 1:
            return self
        cos, sin = self.rotary
        return Frame(
            positions=self.positions.repeat(copies, 1),
            rotary=(cos.repeat(copies, 1, 1), sin.repeat(copies, 1, 1)),
            mask=self.mask.repeat(copies, 1, 1, 1),
        )


@dataclass(frozen=True, slots=True, eq=False)
class HydraCaches:
    """What has been read of a batch.

    Attributes:
        trunk: Of the trunk, one row per prompt.
        heads: Of the heads, one row per copy and prompt: row copy * n_prompts + prompt.
        rotary: Cosine and sine of the rotary embedding of each slot, each (n_slots, head_dim).
    """

    trunk: SlotCache
    heads: SlotCache
    rotary: tuple[Tensor, Tensor]

    def frame(self, positions: Tensor) -> Frame:
        """Prepare one forward pass over tokens at these positions, shape (n_prompts, n_tokens)."""
        cos, sin = self.rotary
        return Frame(
            positions=positions,
            rotary=(cos[positions], sin[positions]),
            mask=visible_slots(positions, n_slots=cos.shape[0]),
        )


class HydraModel:
    """One resident model that speaks as the base model, as any head, or as all heads at once.

    Attributes:
        config: The configuration of the model.
        shape: What the adapters fit.
        n_tokens: Tokens the tokenizer knows; rows of the vocabulary from here on are ghosts.
        n_heads: Language heads; 0 without adapters.
        n_adapters: Adapters of each head, e.g. 2 for security and robustness.
        n_parameters: Size of the base model.
        device: Where the model is.
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
        """Put heads on a loaded model, whose weights are used and not copied.

        Args:
            model: An `Olmo2ForCausalLM` in evaluation mode.
            n_tokens: Tokens the tokenizer knows.
            heads_depth: Layers of a head, counted from the last.
            adapters: The changes of the language heads, in the order they were trained in.
            uncertainty: The change of the uncertainty head: one shard.

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
        self._model = model
        self._n_trunk = model.config.num_hidden_layers - heads_depth
        self._language = _stack(model, adapters)
        self._uncertainty = _stack(model, [] if uncertainty is None else [uncertainty])

    def jury(self, n_adapters: int) -> Voices:
        """All heads, each with its first `n_adapters` adapters."""
        return _spoken(self._language, "adapters").jury(n_adapters)

    def drawn(self, heads: Tensor, n_adapters: int) -> Voices:
        """For each prompt one head with its first `n_adapters` adapters; `heads`: (n_prompts,)."""
        return _spoken(self._language, "adapters").drawn(heads, n_adapters)

    def uncertainty(self) -> Voices:
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
                dtype=self._model.dtype,
                device=self.device,
            )

        # One table for all forward passes: torch computes the last cosines of a tensor by other
        # instructions than the rest, so a token's own could depend on its place in the batch.
        slots = torch.arange(n_slots, device=self.device)[None]
        cos, sin = self._model.model.rotary_emb(slots, position_ids=slots)
        return HydraCaches(
            trunk=zeros(range(self._n_trunk + 1), n_prompts),
            heads=zeros(range(self._n_trunk + 1, config.num_hidden_layers), copies * n_prompts),
            rotary=(cos[0], sin[0]),
        )

    def trunk(self, ids: Tensor, frame: Frame, cache: SlotCache) -> Tensor:
        """Read tokens with the trunk's whole layers.

        Args:
            ids: Token ids, shape (n_prompts, n_tokens).
            frame: Where they stand.
            cache: The trunk's cache, which is written.

        Returns:
            The residual stream, shape (n_prompts, n_tokens, hidden_size).
        """
        hidden: Tensor = self._model.model.embed_tokens(ids)
        writer = cache.at(frame.positions)
        for layer in self._model.model.layers[: self._n_trunk]:
            hidden = layer(
                hidden,
                attention_mask=frame.mask,
                position_embeddings=frame.rotary,
                past_key_values=writer,
            )
        return hidden

    def enter_heads(self, hidden: Tensor, frame: Frame, cache: SlotCache) -> Tensor:
        """Apply the attention that all heads begin with to the trunk's output; shapes as there."""
        return _attend(self._model.model.layers[self._n_trunk], hidden, frame, cache)

    def heads(self, hidden: Tensor, frame: Frame, cache: SlotCache, voices: Voices) -> Tensor:
        """Read on with the heads.

        Args:
            hidden: What `enter_heads` returned, shape (n_prompts, n_tokens, hidden_size).
            frame: Where the tokens stand.
            cache: The heads' cache, which is written.
            voices: Who reads.

        Returns:
            The residual stream before the final norm,
            shape (copies, n_prompts, n_tokens, hidden_size).
        """
        repeated = frame.repeat(voices.copies)
        grouped = voices.group(hidden)
        for depth, layer in enumerate(self._model.model.layers[self._n_trunk :]):
            if depth:
                rows = _attend(layer, grouped.flatten(0, 1), repeated, cache)
                grouped = rows.reshape(grouped.shape)
            grouped = grouped + layer.post_feedforward_layernorm(
                _change_mlp(layer.mlp, grouped, voices, depth=depth)
            )  # (n_groups, rows_per_group, n_tokens, hidden_size)
        return grouped.reshape(voices.copies, *hidden.shape)

    def logits(self, hidden: Tensor) -> Tensor:
        """Score the known tokens; ghost rows of the vocabulary are left out.

        Args:
            hidden: The residual stream before the final norm, shape (..., hidden_size).

        Returns:
            Logits, shape (..., n_tokens).
        """
        scores: Tensor = self._model.lm_head(self._model.model.norm(hidden))
        return scores[..., : self.n_tokens]


def _stack(model: Any, adapters: Sequence[HeadShards]) -> LoraStack | None:
    return LoraStack(adapters, dtype=model.dtype, device=model.device) if adapters else None


def _spoken(stack: LoraStack | None, what: str) -> LoraStack:
    if stack is None:
        raise InputError(f"the model was given no LoRA shards; expected {what}; name the files")
    return stack


def _attend(layer: Any, hidden: Tensor, frame: Frame, cache: SlotCache) -> Tensor:
    """The first half of a layer, as `Olmo2DecoderLayer.forward` computes it."""
    attended, _ = layer.self_attn(
        hidden,
        attention_mask=frame.mask,
        position_embeddings=frame.rotary,
        past_key_values=cache.at(frame.positions),
    )
    normed: Tensor = layer.post_attention_layernorm(attended)
    return hidden + normed


def _change_mlp(mlp: Any, hidden: Tensor, voices: Voices, *, depth: int) -> Tensor:
    """A layer's MLP, as `Olmo2MLP.forward` computes it, with everybody's own changes."""
    gate = voices.project(mlp.gate_proj, hidden, layer=depth, projection="gate_proj")
    up = voices.project(mlp.up_proj, hidden, layer=depth, projection="up_proj")
    return voices.project(mlp.down_proj, mlp.act_fn(gate) * up, layer=depth, projection="down_proj")
