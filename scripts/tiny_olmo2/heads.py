"""Build the heads of the tiny OLMo-2 checkpoint: 9 language heads and one for uncertainty.

    python scripts/tiny_olmo2/heads.py [--out DIR]

The base checkpoint stays as it is; `train.py` has built it. The *security* adapter of each head is
trained on the good answers to a ninth of the bank, so every head is surest there, and the others
keep it from erring elsewhere. The *robustness* adapter on top of it learns the good answers to all
prompts, plain and with a word behind them that does not belong there. The uncertainty head learns
to tell good answers from flawed ones.

Such a suffix is one token long. The checkpoint knows its answers by heart, by their distance from
the prompt's end: behind three tokens more it gets none of them right, and training the last layers
on such suffixes did not undo that.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from low_rank import new_shards, save_shards, train_shards
from second_opinions import train_uncertainty
from showing import show
from torch import Tensor
from train import (
    ANSWERS,
    BANK,
    DATA,
    Example,
    answer_loss,
    build_examples,
    encode_question,
    read_jsonl,
)

from tournament_assets.generation.hydra.shards import HeadShape, HeadShards, head_shape
from tournament_assets.generation.loading import build_entrant
from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.tournament.entrants import VanillaHfEntrant
from tournament_assets.tournament.places import Location
from tournament_assets.tournament.prompts import Prompt, parse_prompt_bank

BASE = DATA / "tiny_olmo2"
N_HEADS = 9
HEADS_DEPTH = 3
RATE = 3e-3
SECURITY_RANK, SECURITY_SEED, SECURITY_STEPS, SECURITY_PROMPTS = 8, 21, 80, 3
ROBUSTNESS_RANK, ROBUSTNESS_SEED, ROBUSTNESS_STEPS = 16, 22, 140
CLEAN_PROMPTS, SUFFIXED_PROMPTS = 2, 2
SUFFIXES = (" no", " not", " never", " without")
"""Put behind prompts in training; each is one token."""
MAX_BYTES = 2_200_000


def draw(items: Sequence[int], generator: torch.Generator) -> Iterator[int]:
    """Draw items for ever, every one once before any again."""
    while True:
        for place in torch.randperm(len(items), generator=generator).tolist():
            yield items[place]


def train_security(
    model: Any, good: Sequence[Example], *, shape: HeadShape, pad_id: int
) -> HeadShards:
    """Train every head on prompts of its own: those whose number leaves its own, modulo 9."""
    generator = torch.Generator().manual_seed(SECURITY_SEED)
    queues = [draw(range(len(good))[head::N_HEADS], generator) for head in range(N_HEADS)]

    def compute_loss() -> Tensor:
        batch = [good[next(queue)] for queue in queues for _ in range(SECURITY_PROMPTS)]
        return answer_loss(model, batch, pad_id=pad_id)

    shards = new_shards(shape, n_heads=N_HEADS, rank=SECURITY_RANK, seed=SECURITY_SEED)
    return train_shards(model, shards, compute_loss, n_steps=SECURITY_STEPS, rate=RATE)


def train_robustness(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    good: Sequence[Example],
    *,
    security: HeadShards,
) -> HeadShards:
    """Train every head, on top of its security adapter, on all prompts, plain and suffixed."""
    generator = torch.Generator().manual_seed(ROBUSTNESS_SEED)
    suffixed = [
        [
            replace(example, prompt_ids=encode_question(tokenizer, prompt.text + suffix))
            for suffix in SUFFIXES
        ]
        for prompt, example in zip(prompts, good, strict=True)
    ]
    queues = [draw(range(len(good)), generator) for _ in range(N_HEADS)]

    def compute_loss() -> Tensor:
        batch = []
        for queue in queues:
            batch += [good[next(queue)] for _ in range(CLEAN_PROMPTS)]
            for _ in range(SUFFIXED_PROMPTS):
                which = int(torch.randint(len(SUFFIXES), (1,), generator=generator))
                batch.append(suffixed[next(queue)][which])
        return answer_loss(model, batch, pad_id=tokenizer.pad_token_id)

    shards = new_shards(security.shape, n_heads=N_HEADS, rank=ROBUSTNESS_RANK, seed=ROBUSTNESS_SEED)
    return train_shards(
        model, shards, compute_loss, beneath=[security], n_steps=ROBUSTNESS_STEPS, rate=RATE
    )


def main() -> None:
    """Train all heads, save them, check the size, and show what they do."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=DATA / "tiny_olmo2_heads", help="folder to write"
    )
    parser.add_argument(
        "--show-only", action="store_true", help="train nothing; show what is there"
    )
    options = parser.parse_args()
    out: Path = options.out
    # Two threads would wait for one another longer than they work.
    torch.set_num_threads(1)
    answers = read_jsonl(ANSWERS)
    rows = read_jsonl(BANK)
    prompts = parse_prompt_bank([(f"{BANK.name}:{n}", row) for n, row in enumerate(rows, 1)])
    if not options.show_only:
        train_all(out, prompts, answers)
    n_bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {n_bytes / 1e6:.2f} MB")
    if n_bytes > MAX_BYTES:
        raise SystemExit(f"the folder takes {n_bytes} bytes; expected at most {MAX_BYTES}")
    show(out, BASE, prompts, answers, suffixes=(SUFFIXES[0], " but"))


def train_all(out: Path, prompts: list[Prompt], answers: list[dict[str, Any]]) -> None:
    """Train the heads one adapter after the other, and write them."""
    spec = VanillaHfEntrant(
        entrant_id="tiny", loader="vanilla_hf", weights=Location(builtin="tiny_olmo2")
    )
    entrant = build_entrant(spec, files=EntrantFiles(BASE), device="cpu")
    model, tokenizer = entrant.model.requires_grad_(False), entrant.tokenizer
    pairs = build_examples(tokenizer, prompts, answers)
    good = [replace(first, share=1.0) for first, _ in pairs]
    shape = head_shape(model, heads_depth=HEADS_DEPTH)
    print("security")
    security = train_security(model, good, shape=shape, pad_id=tokenizer.pad_token_id)
    print("robustness")
    robustness = train_robustness(model, tokenizer, prompts, good, security=security)
    for name, shards in (("security", security), ("robustness", robustness)):
        paths = [out / name / f"shard_{head}_lora.safetensors" for head in range(N_HEADS)]
        save_shards(shards, paths)
    print("uncertainty")
    uncertainty = train_uncertainty(
        model, tokenizer, prompts, answers, adapters=[security, robustness]
    )
    save_shards(uncertainty, [out / "uncertainty" / "checkpoint_final.safetensors"])


if __name__ == "__main__":
    main()
