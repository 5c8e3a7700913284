"""One batch of prompts, decoded to its end, for benchmarks and tests."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tournament_assets.generation.hydra.decoded import Decoded, DecodingSettings
from tournament_assets.generation.hydra.decoding import CapturedRounds, DecodingQueue, Finished
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.models.chat_prompts import EncodedPrompt


@dataclass(frozen=True, slots=True, eq=False)
class DecodedBatch:
    """The responses to a batch of prompts.

    Attributes:
        responses: One per prompt, in the order of the prompts.
        witnesses: The speaking heads' input to the final norm at the last token of each prompt,
            shape (n_prompts, hidden_size), for the uncertainty head.
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
    captured: CapturedRounds | None = None,
) -> DecodedBatch:
    """Write one response to each prompt of a batch.

    Args:
        prompts: One to `n_rows` prompts.
        n_rows: Rows of the batch. Equal `n_rows` and `prompt_length` give equal responses.
        prompt_length: Tokens that prompts are padded to.
        captured: Records rounds, and holds them from one batch of an entrant to the next; None
            executes them eagerly. Results are the same but for rounding.
    """
    queue = DecodingQueue(
        model,
        prompts,
        settings,
        n_rows=n_rows,
        lengths=[prompt_length] * len(prompts),
        captured=captured,
    )
    done: list[Finished] = []
    while new := queue.advance():
        done += new
    done.sort(key=lambda each: each.index)
    return DecodedBatch(
        responses=tuple(each.response for each in done),
        witnesses=torch.stack([each.witness for each in done]),
    )
