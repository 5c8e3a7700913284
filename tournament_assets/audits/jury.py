"""What juries made of an entrant's drafts, over all of its responses."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tournament_assets.tournament.prompts import GeneratedResponse


@dataclass(frozen=True, slots=True)
class JurySummary:
    """An entrant's diagnostics in a few numbers; a mean is over tokens, of all its responses.

    Attributes:
        verified_tokens: Tokens that a jury verified.
        resampled_tokens: How many of them it replaced.
        responses_resampled: Responses with at least one replaced token.
        mean_entropy: Of the verifiers' product, in nats.
        mean_suppression: Probability that the very draft was rejected.
        mean_margin: Votes of the winner minus those of the runner-up.
        mean_stability_radius: Heads that can change their vote without the winner losing.
        mean_validity_radius: Heads that must change their vote for the token that stands to win.
    """

    verified_tokens: int
    resampled_tokens: int
    responses_resampled: int
    mean_entropy: float
    mean_suppression: float
    mean_margin: float
    mean_stability_radius: float
    mean_validity_radius: float

    @property
    def acceptance_rate(self) -> float:
        """Share of the drafts that stood."""
        return 1 - self.resampled_tokens / self.verified_tokens


def summarise_juries(responses: Iterable[GeneratedResponse]) -> JurySummary | None:
    """Sum up what the juries did; None if no token was verified."""
    juries: list[Mapping[str, Sequence[Any]]] = [
        response.diagnostics["jury"]
        for response in responses
        if "jury" in response.diagnostics and response.diagnostics["jury"]["entropy"]
    ]
    if not juries:
        return None

    def mean(name: str) -> float:
        return fmean(value for jury in juries for value in jury[name])

    return JurySummary(
        verified_tokens=sum(len(jury["entropy"]) for jury in juries),
        resampled_tokens=sum(len(jury["resampled"]) for jury in juries),
        responses_resampled=sum(bool(jury["resampled"]) for jury in juries),
        mean_entropy=mean("entropy"),
        mean_suppression=mean("suppression"),
        mean_margin=mean("margin"),
        mean_stability_radius=mean("stability_radius"),
        mean_validity_radius=mean("validity_radius"),
    )


def count_heads(responses: Iterable[GeneratedResponse]) -> dict[int, int]:
    """Count how many responses each drawn head wrote, by its number."""
    drawn = Counter(
        response.diagnostics["head"]
        for response in responses
        if response.diagnostics.get("head") is not None
    )
    return dict(sorted(drawn.items()))


def mean_p_correct(responses: Iterable[GeneratedResponse]) -> float | None:
    """Mean of what the uncertainty head thinks; None if it was not asked about any response."""
    asked = [
        response.diagnostics["p_correct"]
        for response in responses
        if response.diagnostics.get("p_correct") is not None
    ]
    return fmean(asked) if asked else None
