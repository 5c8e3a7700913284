"""Random heads for the bundled checkpoint, as files, and entrants that use them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.tournament.hydra_entrants import (
    CustomPoeEntrant,
    HydraHeads,
    ShardFiles,
    UncertaintyFiles,
)
from tournament_assets.tournament.places import Location

from .builders import TINY

N_HEADS = 3
RANKS = {"security": 2, "robustness": 3, "uncertainty": 2}
SHARD_NAME = "shard_{head}.safetensors"
HEADS = HydraHeads(
    heads_depth=3,
    n_heads=N_HEADS,
    security=ShardFiles(folder=Location(path="security"), rank=2, files=SHARD_NAME),
    robustness=ShardFiles(folder=Location(path="robustness"), rank=3, files=SHARD_NAME),
    uncertainty=UncertaintyFiles(folder=Location(path="uncertainty"), rank=2, files=SHARD_NAME),
)


def write_heads(folder: Path, *, size: float = 0.05) -> EntrantFiles:
    """Write small random shards of every adapter."""
    # Only here, so that tests that name heads need not load torch.
    from tournament_assets.generation.hydra.shards import HeadShape

    from .hydra_builders import state_dict_of, write_shard

    shape = HeadShape(hidden_size=128, intermediate_size=352, heads_depth=3)
    shards: Mapping[str, list[Path]] = {
        adapter: [
            folder / adapter / SHARD_NAME.format(head=head)
            for head in range(1 if adapter == "uncertainty" else N_HEADS)
        ]
        for adapter in RANKS
    }
    for adapter, paths in shards.items():
        (folder / adapter).mkdir(parents=True)
        for seed, path in enumerate(paths):
            state = state_dict_of(shape, rank=RANKS[adapter], seed=seed)
            write_shard({key: size * tensor for key, tensor in state.items()}, path)
    return EntrantFiles(weights=TINY, shards=shards)


def describe_hydra(**changes: Any) -> CustomPoeEntrant:
    fields: dict[str, Any] = {
        "entrant_id": "poe",
        "loader": "custom_poe",
        "weights": Location(builtin="tiny_olmo2"),
        "hydra": HEADS,
        "rob_checkpoint": -1,
        "temperature": 0.98,
        "max_new_tokens": 12,
    }
    return CustomPoeEntrant(**{**fields, **changes})
