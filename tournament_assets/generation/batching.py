"""Puts prompts into batches, and makes them smaller when they do not fit into memory."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import torch

from tournament_assets.generation.asked import AskedPrompt
from tournament_assets.tournament.errors import GenerationError
from tournament_assets.tournament.responses import GeneratedResponse

Respond = Callable[[Sequence[AskedPrompt], int], list[GeneratedResponse]]
"""Answers the prompts of one batch, all of one padded length; told the rows of the batch."""


def respond_in_batches(
    asked: Sequence[AskedPrompt], respond: Respond, *, batch_size: int, where: str
) -> Iterator[list[GeneratedResponse]]:
    """Answer prompts, the longest first, handing out every batch as soon as it is done.

    Prompts share a batch with prompts of the same padded length only. When memory runs out the
    batch size is halved for the rest; as the longest come first, that happens early.

    Args:
        asked: What is asked, in any order.
        respond: Who answers.
        batch_size: Rows of a batch.
        where: Who answers and on which device, to begin a message with.

    Raises:
        GenerationError: If not even one prompt fits into memory.
    """
    longest_first = sorted(asked, key=lambda prompt: prompt.padded_length, reverse=True)
    for _, group in groupby(longest_first, key=lambda prompt: prompt.padded_length):
        waiting = list(group)
        while waiting:
            try:
                responses = respond(waiting[:batch_size], batch_size)
            except torch.OutOfMemoryError as error:
                if batch_size == 1:
                    raise GenerationError(
                        f"{where} has not enough memory to answer prompt "
                        f"{waiting[0].prompt_id!r} alone; expected room for one; "
                        "lower max_new_tokens, or use a larger device"
                    ) from error
                batch_size //= 2
            else:
                yield responses
                waiting = waiting[batch_size:]
                continue
            # Outside the handler, where the error no longer holds on to the failed batch's tensors.
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
