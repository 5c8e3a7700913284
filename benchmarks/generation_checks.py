"""Whether a device writes what it should: the law of the CPU, and the same tokens either way."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
from scipy.stats import chisquare
from torch import Tensor

from benchmarks.decoded_batches import decode
from benchmarks.generation_models import N_HEADS, PRESETS, build_models, put_heads_on
from tournament_assets.generation.hydra.decoded import Decoded, DecodingMode, DecodingSettings
from tournament_assets.generation.hydra.decoding import CapturedRounds
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.hydra.product_of_experts import jury_probabilities
from tournament_assets.generation.models.chat_prompts import EncodedPrompt

N_DRAWS = 20_000
TEMPERATURE = 0.98
_PROMPT = (2, 0, 3)
_LENGTH = 2
_N_TOKENS = 4


def speak(n_tokens: int, *, eos_ids: Sequence[int] = ()) -> DecodingSettings:
    """The jury, for so many tokens at most."""
    return DecodingSettings(
        mode=DecodingMode.FULL_POE,
        max_new_tokens=n_tokens,
        temperature=TEMPERATURE,
        n_adapters=2,
        eos_ids=tuple(eos_ids),
    )


def law_p_value(device: torch.device, *, n_draws: int = N_DRAWS) -> float:
    """Compare what a device draws with the jury's law as a CPU computes it.

    Returns:
        The probability of a chi-square as large, of the drawn head and two tokens together; where
        the device is right, any number from 0 to 1 is as probable as any other.
    """
    tiny = PRESETS["tiny"]
    preset = replace(tiny, config={**tiny.config, "vocab_size": _N_TOKENS}, n_tokens=_N_TOKENS)
    model, hydra = build_models(preset)
    model.lm_head.weight.mul_(1.5)  # so that the product is neither flat nor all but certain
    law = _law(hydra)
    there = put_heads_on(copy.deepcopy(model).to(device), n_tokens=_N_TOKENS)
    prompts = [EncodedPrompt(ids=_PROMPT, seed=seed) for seed in range(n_draws)]
    written = decode(
        there, prompts, speak(_LENGTH), n_rows=n_draws, prompt_length=len(_PROMPT)
    ).responses
    counts = torch.zeros_like(law)
    cells = torch.tensor([[each.head or 0, *each.token_ids] for each in written])
    counts.index_put_(tuple(cells.T), torch.ones(n_draws, dtype=law.dtype), accumulate=True)
    return float(chisquare(counts.flatten(), n_draws * law.flatten()).pvalue)


def _law(hydra: HydraModel) -> Tensor:
    """The joint law of the drawn head and two tokens, (n_heads, n_tokens, n_tokens)."""
    law = torch.full((N_HEADS, *[_N_TOKENS] * _LENGTH), 1 / N_HEADS, dtype=torch.float64)
    with torch.inference_mode():
        for length in range(_LENGTH):
            for prefix in product(range(_N_TOKENS), repeat=length):
                logits = _next_logits(hydra, [*_PROMPT, *prefix])  # (n_heads, n_tokens)
                for drawn in range(N_HEADS):
                    verifiers = logits.sum(dim=0) - logits[drawn]
                    p = jury_probabilities(verifiers, beta=1.0, temperature=TEMPERATURE)
                    for token in range(_N_TOKENS):
                        law[(drawn, *prefix, token)] *= p[token]
    return law / law.sum()


def _next_logits(hydra: HydraModel, ids: Sequence[int]) -> Tensor:
    """Return every head's scores of the token after these, (n_heads, n_tokens)."""
    caches = hydra.new_caches(n_prompts=1, copies=N_HEADS, n_slots=len(ids))
    places = caches.locate(torch.arange(len(ids), device=hydra.device)[None])
    trunk = hydra.trunk(torch.tensor([ids], device=hydra.device), places, caches.trunk)
    entered = hydra.enter_heads(trunk, places, caches.trunk)
    read = hydra.heads(entered, places, caches.heads, hydra.jury(2))
    return hydra.logits(read[:, 0, -1]).double()


def same_tokens(one: Sequence[Decoded], other: Sequence[Decoded]) -> float:
    """Return which share of all tokens stands before the first that differs in its response."""
    same = total = 0
    for left, right in zip(one, other, strict=True):
        pairs = list(zip(left.token_ids, right.token_ids, strict=False))
        agree = [a == b for a, b in pairs]
        same += agree.index(False) if False in agree else len(agree)
        total += max(len(left.token_ids), len(right.token_ids))
    return same / total


def share_as_on_cpu(device: torch.device, *, n_tokens: int = 24, batch: int = 16) -> float:
    """Let a small float32 model answer by the same random numbers here and there."""
    model, hydra = build_models(PRESETS["tiny"])
    there = put_heads_on(copy.deepcopy(model).to(device), n_tokens=PRESETS["tiny"].n_tokens)
    prompts = random_prompts(batch, n_tokens=PRESETS["tiny"].n_tokens, length=8)
    written = [
        decode(each, prompts, speak(n_tokens), n_rows=batch, prompt_length=8).responses
        for each in (hydra, there)
    ]
    return same_tokens(*written)


STEPS = 6
"""A first difference is rounding where the two tokens' scores are within as many bfloat16 steps.

Kernels that a CPU's compiler fused came to 3.3 steps, of random models of 4 to 32 layers and 24
tokens of 64 prompts; a token that has nothing to do with it is about a hundred steps away.
"""


@dataclass(frozen=True, slots=True)
class Likeness:
    """How much what was written one way is like what was written another.

    Attributes:
        share: Of all tokens, how many stand before the first that differs in its response.
        steps: How many bfloat16 steps the two tokens of a first difference are apart in the jury's
            eyes, at most; 0 where nothing differs.
    """

    share: float
    steps: float

    @property
    def is_rounding(self) -> bool:
        """Whether rounding explains all differences."""
        return self.steps <= STEPS

    def __str__(self) -> str:
        bound = f"within {STEPS}" if self.is_rounding else f"MORE THAN {STEPS}"
        return f"{self.share:.2%}; differences of {self.steps:.1f} steps, {bound}"


def likeness(
    hydra: HydraModel,
    prompts: Sequence[EncodedPrompt],
    one: Sequence[Decoded],
    other: Sequence[Decoded],
) -> Likeness:
    """Compare what a greedy jury wrote in two ways; `one` is scored where they part."""
    steps = [0.0]
    for prompt, left, right in zip(prompts, one, other, strict=True):
        pairs = enumerate(zip(left.token_ids, right.token_ids, strict=False))
        place = next((n for n, (ours, theirs) in pairs if ours != theirs), None)
        if place is not None:
            with torch.inference_mode():
                logits = _next_logits(hydra, [*prompt.ids, *left.token_ids[:place]])
            drawn = left.head or 0
            scores = (logits.sum(dim=0) - logits[drawn]) / (len(logits) - 1)
            ours, theirs = (float(scores[each.token_ids[place]]) for each in (left, right))
            # bfloat16 has eight binary digits.
            step = 2.0 ** (math.frexp(max(abs(ours), abs(theirs)))[1] - 8)
            steps.append(abs(ours - theirs) / step)
    return Likeness(share=same_tokens(one, other), steps=max(steps))


def like_eager(
    hydra: HydraModel, captured: CapturedRounds, *, n_tokens: int, batch: int, length: int
) -> Likeness:
    """Let a greedy jury answer in captured rounds and in eager ones; every 16th token ends."""
    prompts = random_prompts(batch, n_tokens=hydra.n_tokens, length=length)
    settings = replace(speak(n_tokens, eos_ids=range(0, hydra.n_tokens, 16)), temperature=None)
    written = [
        decode(
            hydra, prompts, settings, n_rows=batch, prompt_length=length, captured=each
        ).responses
        for each in (None, captured)
    ]
    return likeness(hydra, prompts, *written)


def random_prompts(batch: int, *, n_tokens: int, length: int) -> list[EncodedPrompt]:
    """Ask so many prompts of random tokens."""
    generator = torch.Generator().manual_seed(batch)
    ids = torch.randint(n_tokens, (batch, length), generator=generator)
    return [EncodedPrompt(ids=tuple(row), seed=n) for n, row in enumerate(ids.tolist())]
