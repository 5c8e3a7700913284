"""Which sizes the heads of a model have."""

from dataclasses import dataclass
from typing import Any

from transformers import Olmo2ForCausalLM

from tournament_assets.tournament.errors import InputError, Problems


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
    """Tell which sizes the shards of a model's heads have.

    Args:
        model: An `Olmo2ForCausalLM`.
        heads_depth: Layers of a head, counted from the last.

    Raises:
        InputError: If heads cannot be put on this model.
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
