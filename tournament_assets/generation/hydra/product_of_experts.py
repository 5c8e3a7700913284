"""The mathematics of letting a jury verify what one head drafts, on plain tensors.

The drawn head drafts from q; the other heads define P, which is proportional to the product of
their distributions, each raised to beta. A draft is accepted with probability min(1, P / q), else
replaced by a draw from max(P - q, 0), normalised: whatever q is, the final token is a draw from P.
Speculative sampling: Leviathan et al., https://arxiv.org/abs/2211.17192, and Chen et al.,
https://arxiv.org/abs/2302.01318. Product of experts: Hinton, 2002.

P is formed from sums of logits and normalised once, in float64. Multiplying probabilities and
dividing by their sum would lose all precision where the heads are unsure: 0.02 ** 8 is 3e-14.

Below, p holds the verifiers' probabilities and q the drafting head's, shape (..., n_tokens) each;
drafts are draws from q, shape (...).

If its logits are not numbers, a distribution is NaN everywhere. Nothing here waits for the device:
whoever reads the results checks for NaN.
"""

import torch
from torch import Tensor


def draft_probabilities(logits: Tensor, *, temperature: float | None) -> Tensor:
    """Return the distribution that a head drafts from: softmax(logits / temperature).

    Args:
        logits: Scores, shape (..., n_tokens).
        temperature: Sampling temperature; None puts everything on the most probable token.

    Returns:
        Probabilities, float64, the shape of `logits`.
    """
    return _normalise(logits.to(torch.float64, copy=True), temperature=temperature)


def sum_verifiers(logits: Tensor, *, heads: Tensor) -> Tensor:
    """Sum the verifiers' logits: those of all heads but each prompt's drafting head.

    Args:
        logits: Scores by all heads, shape (n_heads, n_prompts, ..., n_tokens).
        heads: The drafting head of each prompt, which does not verify, shape (n_prompts,).

    Returns:
        Sums, float64, shape (n_prompts, ..., n_tokens).
    """
    # In float64 a sum of a few float32 is exact enough to subtract the drafting head again.
    return logits.sum(dim=0, dtype=torch.float64) - pick_heads(logits, heads)


def jury_probabilities(verifiers: Tensor, *, beta: float, temperature: float | None) -> Tensor:
    """Return the verifiers' distribution: the product of softmax(logits / temperature) ** beta.

    A head's normaliser is the same for all tokens, so normalising the sum of the logits gives the
    normalised sum of the log-probabilities.

    Args:
        verifiers: Sums of the verifiers' logits, float64, shape (..., n_tokens).
        beta: Weight of each verifier.
        temperature: Sampling temperature; None puts everything on the most probable token.

    Returns:
        Probabilities, float64, the shape of `verifiers`.
    """
    return _normalise(verifiers * beta, temperature=temperature)


def pick_heads(by_head: Tensor, heads: Tensor) -> Tensor:
    """Take one head's entry for each prompt.

    Args:
        by_head: Shape (n_heads, n_prompts, ...).
        heads: Shape (n_prompts,).

    Returns:
        Shape (n_prompts, ...).
    """
    return by_head[heads, torch.arange(heads.numel(), device=heads.device)]


def _normalise(scores: Tensor, *, temperature: float | None) -> Tensor:
    """Turn float64 scores, which are overwritten, into probabilities."""
    largest = scores.amax(dim=-1, keepdim=True)
    if temperature is None:
        nothing = largest - largest  # 0, or NaN if the scores are not numbers
        alone = nothing.expand_as(scores).clone()
        return alone.scatter_(-1, scores.argmax(dim=-1, keepdim=True), nothing + 1)
    # Dividing by a tiny temperature could overflow; differences from the largest do no harm.
    return scores.sub_(largest).div_(temperature).softmax(dim=-1)


def draw(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Draw tokens by inverse CDF: the first at which the running sum exceeds the number.

    Args:
        weights: Probabilities, up to a factor, float64, shape (..., n_tokens).
        uniforms: Numbers in [0, 1), float64, shape (...).

    Returns:
        Token ids, shape (...). If all weights are 0 or any is NaN, they are meaningless.
    """
    cumulative = weights.cumsum(dim=-1)
    # A float64 below 1 times the total is below the total even when rounded, so a token is found.
    targets = uniforms[..., None] * cumulative[..., -1:]
    tokens = torch.searchsorted(cumulative, targets, right=True)[..., 0]
    return tokens.clamp(max=weights.shape[-1] - 1)


def accept_drafts(p: Tensor, q: Tensor, *, drafts: Tensor, uniforms: Tensor) -> Tensor:
    """Decide which drafts are kept: each with probability min(1, P / q).

    Args:
        uniforms: Numbers in [0, 1), shape (...).

    Returns:
        True where the draft is kept, shape (...).
    """
    return uniforms < _ratios(p, q, drafts)


def surplus(p: Tensor, q: Tensor) -> Tensor:
    """Return max(P - q, 0), from which replacements are drawn.

    Returns:
        Shape (..., n_tokens); 0 everywhere where P equals q, and then no draft is ever rejected.
    """
    return (p - q).clamp_(min=0.0)


def entropies(p: Tensor) -> Tensor:
    """Return the entropy of distributions, in nats: from 0 to log(n_tokens), shape (...)."""
    surprises: Tensor = torch.special.entr(p)
    return surprises.sum(dim=-1)


def overlaps(excess: Tensor) -> Tensor:
    """Return the overlap of q with the verifiers' distribution: the sum of min(P, q).

    It is the probability that a draft is accepted, before the drafted token is known. It equals 1
    minus the sum of the surplus, since P sums to 1 and min(P, q) = P - max(P - q, 0).

    Args:
        excess: The `surplus` of P over q, shape (..., n_tokens).

    Returns:
        From 0 to 1, shape (...).
    """
    return (1 - excess.sum(dim=-1)).clamp(min=0.0)


def suppressions(p: Tensor, q: Tensor, *, drafts: Tensor) -> Tensor:
    """Return the probability that each draft is rejected: 1 - min(1, P / q), shape (...)."""
    return 1 - _ratios(p, q, drafts).clamp(max=1.0)


def _ratios(p: Tensor, q: Tensor, drafts: Tensor) -> Tensor:
    """P / q of each draft; q is never 0, as drafts are drawn from it."""
    chosen = drafts[..., None]
    return (p.gather(-1, chosen) / q.gather(-1, chosen))[..., 0]
