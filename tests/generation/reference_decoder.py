"""Product-of-experts decoding written to be obvious: one prompt, whole models, no cache, no batch.

Every head is a whole model with its changes merged into its weights. Every token of every prefix
is read again by every head. Probabilities are Python floats, one token after the other.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from transformers import Olmo2ForCausalLM

from tournament_assets.generation.hydra.shards import HeadShards
from tournament_assets.generation.models.chat_prompts import EncodedPrompt

Distribution = list[float]


@dataclass
class SlowResponse:
    """What the slow decoder wrote, one entry per token."""

    head: int
    tokens: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    resampled: list[bool] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    overlaps: list[float] = field(default_factory=list)
    votes: list[tuple[int, ...]] = field(default_factory=list)


def merge_heads(model: Olmo2ForCausalLM, adapters: Sequence[HeadShards]) -> list[Olmo2ForCausalLM]:
    """Copy the model once per head and add that head's changes to its weights."""
    heads = []
    for head in range(adapters[0].n_heads):
        merged = copy.deepcopy(model)
        for adapter in adapters:
            first = len(merged.model.layers) - len(adapter.layers)
            for number, changes in enumerate(adapter.layers):
                mlp = merged.model.layers[first + number].mlp
                for projection in ("gate_proj", "up_proj", "down_proj"):
                    b, a = changes[projection].b[head], changes[projection].a[head]
                    getattr(mlp, projection).weight.data += adapter.scale * b @ a
        heads.append(merged)
    return heads


def softmax(logits: Sequence[float], temperature: float | None) -> Distribution:
    largest = max(logits)
    if temperature is None:
        winner = list(logits).index(largest)
        return [1.0 if token == winner else 0.0 for token in range(len(logits))]
    weights = [math.exp((logit - largest) / temperature) for logit in logits]
    return normalise(weights)


def normalise(weights: Sequence[float]) -> Distribution:
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def multiply(experts: Sequence[Distribution], beta: float) -> Distribution:
    """The product of the experts' distributions, each raised to beta, from their logarithms."""
    logs = [
        math.fsum(beta * math.log(p) if p > 0 else -math.inf for p in token)
        for token in zip(*experts, strict=True)
    ]
    return softmax(logs, 1.0)


def invert(distribution: Distribution, uniform: float) -> int:
    """The first token at which the running sum exceeds the number."""
    total = 0.0
    for token, probability in enumerate(distribution):
        total += probability
        if uniform < total:
            return token
    return max(token for token, probability in enumerate(distribution) if probability > 0)


def next_logits(model: Olmo2ForCausalLM, ids: Sequence[int], n_tokens: int) -> list[float]:
    logits: list[float] = model(torch.tensor([ids])).logits[0, -1, :n_tokens].double().tolist()
    return logits


def jury_distribution(
    logits: Sequence[Sequence[float]], *, drawn: int, beta: float, temperature: float | None
) -> Distribution:
    """What all heads but the drawn one define together."""
    others = [scores for head, scores in enumerate(logits) if head != drawn]
    if temperature is None:
        return softmax([math.fsum(scores) for scores in zip(*others, strict=True)], None)
    return multiply([softmax(scores, temperature) for scores in others], beta)


def draw_slowly(prompt: EncodedPrompt) -> Callable[[], float]:
    """Return a function that gives the prompt's random numbers, one after the other."""
    generator = torch.Generator().manual_seed(prompt.seed)
    return lambda: torch.rand((), generator=generator, dtype=torch.float64).item()


def speak_slowly(
    model: Olmo2ForCausalLM,
    prompt: EncodedPrompt,
    *,
    n_tokens: int,
    max_new_tokens: int,
    temperature: float | None,
    is_head: bool = True,
) -> list[int]:
    """Sample from one model; of a head the numbers that a jury would use are drawn, not used."""
    uniform = draw_slowly(prompt)
    tokens: list[int] = []
    if is_head:
        uniform()
    while len(tokens) < max_new_tokens:
        to_draft, *_ = (uniform() for _ in range(3 if is_head else 1))
        logits = next_logits(model, [*prompt.ids, *tokens], n_tokens)
        tokens.append(invert(softmax(logits, temperature), to_draft))
    return tokens


def decode_slowly(
    heads: Sequence[Olmo2ForCausalLM],
    prompt: EncodedPrompt,
    *,
    n_tokens: int,
    max_new_tokens: int,
    temperature: float | None,
    beta: float = 1.0,
    eos_ids: Sequence[int] = (),
) -> SlowResponse:
    """Let the drawn head draft each token and the others accept or replace it."""
    uniform = draw_slowly(prompt)
    response = SlowResponse(head=int(uniform() * len(heads)))
    while len(response.tokens) < max_new_tokens:
        to_draft, to_accept, to_replace = uniform(), uniform(), uniform()
        ids = [*prompt.ids, *response.tokens]
        logits = [next_logits(head, ids, n_tokens) for head in heads]
        q = softmax(logits[response.head], temperature)
        p = jury_distribution(logits, drawn=response.head, beta=beta, temperature=temperature)
        draft = invert(q, to_draft)
        accepted = to_accept < min(1.0, p[draft] / q[draft])
        token = draft
        if not accepted:
            residual = [max(p_token - q_token, 0.0) for p_token, q_token in zip(p, q, strict=True)]
            token = invert(normalise(residual), to_replace)
        response.tokens.append(token)
        response.drafts.append(draft)
        response.resampled.append(not accepted)
        response.entropies.append(-math.fsum(x * math.log(x) for x in p if x > 0))
        response.overlaps.append(math.fsum(min(pair) for pair in zip(p, q, strict=True)))
        response.votes.append(tuple(scores.index(max(scores)) for scores in logits))
        if token in eos_ids:
            break
    return response
