"""What a decoder noticed while it wrote a response, as JSON values for a table.

Numbers are rounded to four decimals: they describe, and nothing is computed from them again.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tournament_assets.generation.decoded import Decoded, VerifiedToken

_DECIMALS = 4

Read = Callable[[Sequence[int]], str]
"""Turns token ids into text."""


def describe_decoding(decoded: Decoded, *, read: Read, text: str) -> dict[str, Any]:
    """Describe how a response was written.

    Args:
        decoded: The response as the decoder gave it.
        read: Turns its token ids into text.
        text: The whole response as text.

    Returns:
        `head`: the drawn head, from 0. Where a jury verified, `jury` holds for every token
        `entropy` of the verifiers' product in nats, `overlap` (the probability that a draft is
        accepted there), `suppression` (that this draft is rejected), `margin`, `stability_radius`
        and `validity_radius` in votes; and `resampled`, which lists every rejected draft with its
        `position`, the text of the `draft` and of its `replacement`, and where the replacement
        begins and ends in the response's characters, `start` and `end`.
    """
    described: dict[str, Any] = {"head": decoded.head}
    if decoded.verified is None:
        return described
    tokens = decoded.verified
    described["jury"] = {
        "entropy": [_rounded(token.entropy) for token in tokens],
        "overlap": [_rounded(token.overlap) for token in tokens],
        "suppression": [_rounded(token.suppression) for token in tokens],
        "margin": [token.margin for token in tokens],
        "stability_radius": [token.stability_radius for token in tokens],
        "validity_radius": [token.validity_radius for token in tokens],
        "resampled": [
            _describe_replacement(decoded, position, tokens[position], read=read, text=text)
            for position in decoded.resampled_positions
        ],
    }
    return described


def _describe_replacement(
    decoded: Decoded, position: int, token: VerifiedToken, *, read: Read, text: str
) -> dict[str, Any]:
    # White space at the ends is cut off a response, and a character may end in a later token, so
    # the places are found by reading what stands before, and kept inside the text.
    start = min(len(read(decoded.token_ids[:position])), len(text))
    end = min(max(len(read(decoded.token_ids[: position + 1])), start), len(text))
    return {
        "position": position,
        "draft": read([token.draft]),
        "replacement": read([token.token]),
        "start": start,
        "end": end,
    }


def _rounded(value: float) -> float:
    return round(value, _DECIMALS)
