"""Whether a device writes what it should: the law of the CPU, and the same tokens either way."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import torch
from scipy.stats import chisquare
from torch import Tensor

from benchmarks.generation_models import N_HEADS, PRESETS, build_models, put_heads_on
from tournament_assets.generation.hydra.decoded import Decoded, DecodingMode, DecodingSettings
from tournament_assets.generation.hydra.decoding import decode
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.hydra.product_of_experts import jury_probabilities
from tournament_assets.generation.models.chat_prompts import EncodedPrompt
from tournament_assets.tournament.config import Execution

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
    """The joint law of the drawn head and two tokens, (n_heads, n_tokens, n_tokens), on the CPU."""
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
    caches = hydra.new_caches(n_prompts=1, copies=N_HEADS, n_slots=len(ids))
    places = caches.locate(torch.arange(len(ids))[None])
    trunk = hydra.trunk(torch.tensor([ids]), places, caches.trunk)
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


def share_as_eager(
    hydra: HydraModel, execution: Execution, *, n_tokens: int, batch: int, length: int
) -> float:
    """Let the jury answer by one way to execute rounds and eagerly; every 16th token ends."""
    prompts = random_prompts(batch, n_tokens=hydra.n_tokens, length=length)
    settings = speak(n_tokens, eos_ids=range(0, hydra.n_tokens, 16))

    def written(execution: Execution) -> Sequence[Decoded]:
        return decode(
            hydra, prompts, settings, n_rows=batch, prompt_length=length, execution=execution
        ).responses

    return same_tokens(written(execution), written("eager"))


def random_prompts(batch: int, *, n_tokens: int, length: int) -> list[EncodedPrompt]:
    """Ask so many prompts of random tokens."""
    generator = torch.Generator().manual_seed(batch)
    ids = torch.randint(n_tokens, (batch, length), generator=generator)
    return [EncodedPrompt(ids=tuple(row), seed=n) for n, row in enumerate(ids.tolist())]
