"""What a Hydra entrant wrote, and what its jury made of every token."""

from dataclasses import dataclass
from typing import Literal

from tournament_assets.generation.stability import (
    stability_radius,
    validity_radius,
    vote_margin,
)


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """One position of a response that a jury verified.

    Attributes:
        draft: What the drawn head drafted.
        token: What stands there.
        resampled: Whether the draft was rejected and replaced.
        entropy: Of the verifiers' product P, in nats.
        overlap: Probability that a draft is accepted there: the sum of min(P, q).
        suppression: Probability that this very draft is rejected: 1 - min(1, P / q).
        votes: Each head's most probable token, the drawn head's among them.
    """

    draft: int
    token: int
    resampled: bool
    entropy: float
    overlap: float
    suppression: float
    votes: tuple[int, ...]

    @property
    def margin(self) -> int:
        """Votes of the winner minus those of the runner-up."""
        return vote_margin(self.votes)

    @property
    def stability_radius(self) -> int:
        """How many heads can change their vote without the winner losing."""
        return stability_radius(self.votes)

    @property
    def validity_radius(self) -> int:
        """How many heads must change their vote for the token that stands to win."""
        return validity_radius(self.votes, self.token)


@dataclass(frozen=True, slots=True)
class Decoded:
    """The response to one prompt.

    Attributes:
        token_ids: What was written, the token that ended it included.
        finish_reason: `stop` if a token ended it, `length` if the cap did.
        head: The drawn head, from 0; None for the base model.
        verified: One entry per token; None where no jury verified.
        p_correct: What the uncertainty head thinks of it, from 0 to 1; None if it was not asked.
    """

    token_ids: tuple[int, ...]
    finish_reason: Literal["stop", "length"]
    head: int | None
    verified: tuple[VerifiedToken, ...] | None = None
    p_correct: float | None = None

    @property
    def resampled_positions(self) -> tuple[int, ...]:
        """Where drafts were replaced, counted from the first token of the response."""
        return tuple(n for n, token in enumerate(self.verified or ()) if token.resampled)

    @property
    def replacements(self) -> tuple[tuple[int, int], ...]:
        """Each rejected draft with its replacement, in order."""
        return tuple((token.draft, token.token) for token in self.verified or () if token.resampled)

    @property
    def mean_entropy(self) -> float | None:
        """Mean entropy of the verifiers' product, in nats per token; None without a jury."""
        if self.verified is None:
            return None
        return sum(token.entropy for token in self.verified) / len(self.verified)
