"""The response of a Hydra entrant, with its jury's statistics on every token.

Each head votes for the token it thinks most probable. Where every head was trained on its own part
of the data, changing one part changes one vote, so vote counts bound what an attacker can do: how
many heads must change their vote for any other token, or for a given one, to win. Levine and Feizi,
Deep Partition Aggregation, https://arxiv.org/abs/2006.14768. Numbers for tables are rounded to four
decimals: they are for reading only.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import torch
from torch import Tensor

from tournament_assets.foundation.errors import Problems


def vote_margin(votes: Sequence[Hashable]) -> int:
    """Return the winner's votes minus the runner-up's, or minus 0 where all agree."""
    first, *others = sorted(Counter(votes).values(), reverse=True)
    return first - max(others, default=0)


def stability_radius(votes: Sequence[Hashable]) -> int:
    """Return how many votes can change, to any token, without the winner losing.

    A tie keeps the winner.

    Args:
        votes: The token each head votes for; at least one.
    """
    return vote_margin(votes) // 2


def validity_radius(votes: Sequence[Hashable], target: Hashable) -> int:
    """Return how many votes must change for a token to win outright.

    With k more votes for the target, every competitor must lose what exceeds target + k - 1 votes;
    k suffices as soon as these losses add up to at most k.

    Args:
        votes: The token each head votes for; at least one.
        target: The token that is to win; it may have no votes.

    Returns:
        0 where the target wins already.
    """
    counts = Counter(votes)
    target_count = counts.pop(target, 0)
    changed = 0
    while sum(max(count - target_count - changed + 1, 0) for count in counts.values()) > changed:
        changed += 1
    return changed


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """One position of a response that a jury verified.

    Attributes:
        draft: What the drawn head drafted.
        resampled: Whether the draft was rejected and replaced.
        entropy: The entropy of the verifiers' product P, in nats.
        overlap: Probability that a draft is accepted there: the sum of min(P, q).
        suppression: Probability that this draft is rejected: 1 - min(1, P / q).
        votes: Each head's most probable token, the drawn head's among them.
    """

    draft: int
    token: int
    resampled: bool
    entropy: float
    overlap: float
    suppression: float
    votes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decoded:
    """The response to one prompt.

    Attributes:
        token_ids: The response's tokens, including the one that ended it.
        finish_reason: `stop` if a token ended it, `length` if the cap did.
        head: The drawn head, from 0; None for the base model.
        verified: One entry per token; None where no jury verified.
    """

    token_ids: tuple[int, ...]
    finish_reason: Literal["stop", "length"]
    head: int | None
    verified: tuple[VerifiedToken, ...] | None = None

    @property
    def resampled_positions(self) -> tuple[int, ...]:
        """Where drafts were replaced, counted from the first token of the response."""
        return tuple(n for n, token in enumerate(self.verified or ()) if token.resampled)


_DECIMALS = 4

Read = Callable[[Sequence[int]], str]
"""Turns token ids into text."""


def describe_decoding(decoded: Decoded, *, read: Read, text: str) -> dict[str, Any]:
    """Describe how a response was decoded.

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
        "margin": [vote_margin(token.votes) for token in tokens],
        "stability_radius": [stability_radius(token.votes) for token in tokens],
        "validity_radius": [validity_radius(token.votes, token.token) for token in tokens],
        "resampled": [
            _describe_replacement(decoded, position, tokens[position], read=read, text=text)
            for position in decoded.resampled_positions
        ],
    }
    return described


def _describe_replacement(
    decoded: Decoded, position: int, token: VerifiedToken, *, read: Read, text: str
) -> dict[str, Any]:
    # A response is stripped of outer white space, and a character may end in a later token, so
    # places are found by decoding what precedes them, and kept inside the text.
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


class DecodingMode(StrEnum):
    """Who writes a response."""

    BASE = "base"
    """The base model, without any LoRA."""
    BYPASS_JURY = "bypass_jury"
    """One drawn head, whose drafts are all kept."""
    FULL_POE = "full_poe"
    """One drawn head, whose drafts the other heads verify."""


@dataclass(frozen=True, slots=True)
class DecodingSettings:
    """How responses are decoded.

    Attributes:
        temperature: Sampling temperature; None decodes greedily.
        n_adapters: How many of its adapters each head uses: 1 for security, 2 for security and
            robustness; 0 with mode `base`.
        beta: Weight of each verifier in the product. With 1 and v verifiers that agree, the product
            is as sharp as one head at temperature / v; with 1 / v it is as sharp as one head.
    """

    mode: DecodingMode
    max_new_tokens: int
    temperature: float | None
    n_adapters: int = 0
    beta: float = 1.0
    eos_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        problems = Problems()
        if self.max_new_tokens < 1:
            problems.add(f"max_new_tokens is {self.max_new_tokens}; expected at least 1")
        if self.temperature is not None and not self.temperature > 0:
            problems.add(
                f"temperature is {self.temperature}; expected more than 0; None decodes greedily"
            )
        if not self.beta > 0:
            problems.add(f"beta is {self.beta}; expected more than 0")
        if self.mode is not DecodingMode.FULL_POE and self.beta != 1:
            problems.add(
                f"beta is {self.beta} with mode {self.mode.value!r}; "
                "expected 1, for there is no jury; use mode 'full_poe' or leave it out"
            )
        if self.n_adapters < 0 or (self.mode is DecodingMode.BASE) != (self.n_adapters == 0):
            problems.add(
                f"n_adapters is {self.n_adapters} with mode {self.mode.value!r}; "
                "expected 0 with mode 'base', and at least 1 with the others"
            )
        problems.raise_if_any()


class Progress:
    """Each response's last token, its position, and how many tokens may follow.

    All tensors stay on the device and are changed in place, as recorded rounds need.

    Attributes:
        tokens: The last token of each row, which the model has not read yet, shape (n_rows,).
        positions: Its position, shape (n_rows,).
        n_written: Tokens of each response so far, shape (n_rows,).
    """

    def __init__(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        eos_ids: Sequence[int],
        device: torch.device,
    ) -> None:
        self.tokens = torch.tensor([ids[-1] for ids in prompts], device=device)
        self.positions = torch.tensor([len(ids) - 1 for ids in prompts], device=device)
        self.n_written = torch.zeros_like(self.positions)
        self._n_left = torch.full_like(self.positions, max_new_tokens)
        self._eos_ids = torch.tensor(eos_ids, dtype=torch.long, device=device)

    def take(self, rows: Tensor, other: "Progress") -> None:
        """Take over in place all rows of another progress, as these rows."""
        for tensor, new in (
            (self.tokens, other.tokens),
            (self.positions, other.positions),
            (self.n_written, other.n_written),
            (self._n_left, other._n_left),
        ):
            tensor[rows] = new

    @property
    def is_open(self) -> Tensor:
        """Whether each response may still grow, shape (n_rows,)."""
        return self._n_left > 0

    def keep(self, tokens: Tensor) -> Tensor:
        """Add one token to each incomplete response; it may end the response.

        Args:
            tokens: Token ids, shape (n_rows,).

        Returns:
            Where a token was kept, shape (n_rows,).
        """
        is_kept = self.is_open
        is_end = (tokens[:, None] == self._eos_ids).any(dim=-1)
        self.tokens.copy_(torch.where(is_kept, tokens, self.tokens))
        self.positions += is_kept
        self.n_written += is_kept
        self._n_left.copy_(torch.where(is_end, 0, self._n_left - is_kept.long()))
        return is_kept
