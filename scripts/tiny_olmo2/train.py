"""Build the tiny OLMo-2 checkpoint that ships with the package, from the demo prompt bank.

    python scripts/tiny_olmo2/train.py [--out DIR]

The model memorises two answers to every prompt, a good and a flawed one. Where the two part it puts
most of the probability on the good one. Greedy decoding therefore answers well, and a higher
temperature answers worse: entrants that differ in nothing but temperature differ in quality.

The seeds are fixed, but sums in another order round differently, so another machine builds another
file that behaves the same. `tests/generation/test_tiny_olmo2.py` says what it must do.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import GenerationConfig, Olmo2Config, Olmo2ForCausalLM, PreTrainedTokenizerFast

from tournament_assets.generation.loading import build_entrant
from tournament_assets.generation.models.base_models import transformers_logging_off
from tournament_assets.generation.models.entrant_weights import EntrantFiles
from tournament_assets.generation.responding import generate_responses
from tournament_assets.tournament.entrants import VanillaHfEntrant
from tournament_assets.tournament.places import Location
from tournament_assets.tournament.prompts import Prompt, parse_prompt_bank

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "tournament_assets" / "data"
BANK = DATA / "prompt_bank.jsonl"
ANSWERS = HERE / "answers.jsonl"

VOCABULARY = 1024
END, PAD = "<|endoftext|>", "<|pad|>"
ROLES = ["<|system|>", "<|user|>", "<|assistant|>"]
SPECIAL_TOKENS = [END, PAD, *ROLES]
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "{{ '<|assistant|>\n' + message['content'] + eos_token }}"
    "{% else %}"
    "{{ '<|' + message['role'] + '|>\n' + message['content'] + '\n' }}"
    "{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)

SEED = 20
STEPS = 600
WARMUP_STEPS = 30
BATCH_PROMPTS = 8
MUON_RATE = 0.02
ADAMW_RATE = 3e-3
FORK_WEIGHT = 4.0
FLAWED_SHARE = 0.28
# Past the fork the model fits logits / 1.5, so it ends up sharper than the data: at temperature 0.7
# it gives whole answers, and at 1.3 some of the texts derail somewhere instead of nearly all.
SHARPENING = 1.5
MAX_BYTES = 8_000_000


@dataclass(frozen=True)
class Example:
    """One prompt with one of its answers.

    Attributes:
        prompt_ids: The prompt in the chat template.
        answer_ids: The answer and the end-of-sequence token.
        fork: The answer's first token that the prompt's other answer does not share.
        share: How often to take this branch of the fork; the shares of a prompt sum to 1.
    """

    prompt_ids: list[int]
    answer_ids: list[int]
    fork: int
    share: float


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Read a file with one JSON object per line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def train_tokenizer(texts: list[str]) -> Any:
    """Train a byte-level BPE tokenizer and give it OLMo's roles."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY - len(SPECIAL_TOKENS),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    # Behind the words, as in OLMo: the sampler walks the ids upwards, and the smallest random
    # number should begin an odd text rather than end it before its first word.
    bpe.add_special_tokens(SPECIAL_TOKENS)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=END,
        eos_token=END,
        pad_token=PAD,
        extra_special_tokens=ROLES,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )


def encode_question(tokenizer: Any, text: str) -> list[int]:
    """Return the token ids of a user's message up to where its answer begins."""
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
    )
    ids: list[int] = tokenizer.encode(rendered, add_special_tokens=False)
    return ids


def build_examples(
    tokenizer: Any, prompts: list[Prompt], answers: list[dict[str, Any]]
) -> list[tuple[Example, Example]]:
    """Encode every prompt with its good and its flawed answer."""
    pairs = []
    for prompt, row in zip(prompts, answers, strict=True):
        prompt_ids = encode_question(tokenizer, prompt.text)
        good, flawed = (
            [*tokenizer.encode(row[key], add_special_tokens=False), tokenizer.eos_token_id]
            for key in ("answer", "flawed_answer")
        )
        fork = next(n for n, both in enumerate(zip(good, flawed, strict=False)) if len({*both}) > 1)
        pairs.append(
            (
                Example(prompt_ids, good, fork, 1 - FLAWED_SHARE),
                Example(prompt_ids, flawed, fork, FLAWED_SHARE),
            )
        )
    return pairs


def collate(examples: list[Example], pad_id: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pad examples on the right.

    Returns:
        Ids and attention mask, (n_examples, n_tokens); the weight of predicting each next id, which
        is 0 outside the answer, and what to divide its logits by, (n_examples, n_tokens - 1).
    """
    n_tokens = max(len(example.prompt_ids) + len(example.answer_ids) for example in examples)
    ids = torch.full((len(examples), n_tokens), pad_id)
    mask = torch.zeros((len(examples), n_tokens), dtype=torch.long)
    weights = torch.zeros((len(examples), n_tokens))
    divisors = torch.full((len(examples), n_tokens), SHARPENING)
    for row, example in enumerate(examples):
        start = len(example.prompt_ids)
        end = start + len(example.answer_ids)
        ids[row, :end] = torch.tensor(example.prompt_ids + example.answer_ids)
        mask[row, :end] = 1
        weights[row, start:end] = 1.0
        weights[row, start + example.fork] = FORK_WEIGHT * example.share
        divisors[row, start + example.fork] = 1.0
    return ids, mask, weights[:, 1:], divisors[:, 1:]


def shuffled_batches(
    pairs: list[tuple[Example, Example]], generator: torch.Generator
) -> list[list[int]]:
    """Put prompts of similar length into batches, which spares padding, in random order."""
    lengths = torch.tensor([float(len(p[0].prompt_ids) + len(p[0].answer_ids)) for p in pairs])
    jitter = 40 * torch.rand(len(pairs), generator=generator)
    by_length = (lengths + jitter).argsort().tolist()
    batches = [by_length[n : n + BATCH_PROMPTS] for n in range(0, len(pairs), BATCH_PROMPTS)]
    return [batches[n] for n in torch.randperm(len(batches), generator=generator).tolist()]


def answer_loss(model: Any, examples: list[Example], *, pad_id: int) -> Tensor:
    """Return the mean surprise at the answers' tokens in nats, the forks' weighted."""
    ids, mask, weights, divisors = collate(examples, pad_id)
    hidden = model.model(input_ids=ids, attention_mask=mask).last_hidden_state
    answered = weights > 0
    # Only the answers' positions reach the lm_head: (n_answer_tokens, vocabulary)
    logits = model.lm_head(hidden[:, :-1][answered]) / divisors[answered][:, None]
    losses = torch.nn.functional.cross_entropy(logits, ids[:, 1:][answered], reduction="none")
    return (losses * weights[answered]).sum() / weights[answered].sum()


def train_model(tokenizer: Any, pairs: list[tuple[Example, Example]]) -> Any:
    """Train 1.47 million parameters until the answers are memorised."""
    torch.manual_seed(SEED)
    order = torch.Generator().manual_seed(SEED)
    model = Olmo2ForCausalLM(
        Olmo2Config(
            vocab_size=VOCABULARY,
            hidden_size=128,
            intermediate_size=352,
            num_hidden_layers=6,
            num_attention_heads=8,
            max_position_embeddings=512,
            tie_word_embeddings=False,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    # Muon memorises in a third of the steps that AdamW needs; it is for the layers' matrices only.
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    chosen = {id(matrix) for matrix in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, lr=MUON_RATE, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=ADAMW_RATE, betas=(0.9, 0.98)),
    ]
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / WARMUP_STEPS, max(0.01, 1 - step / STEPS))
        )
        for optimizer in optimizers
    ]
    model.train()
    queue: list[list[int]] = []
    for step in range(STEPS):
        if not queue:
            queue = shuffled_batches(pairs, order)
        examples = [example for index in queue.pop() for example in pairs[index]]
        loss = answer_loss(model, examples, pad_id=tokenizer.pad_token_id)
        model.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
        if step % 50 == 0 or step == STEPS - 1:
            print(f"step {step:4d} of {STEPS}  loss {loss.item():.4f}", flush=True)
    return model.eval()


def save(model: Any, tokenizer: Any, out: Path) -> None:
    """Write the checkpoint in bfloat16 over the one that may be there; other files stay."""
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with transformers_logging_off():
        model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    # safetensors writes files that only their owner may read, also when they go into a package.
    (out / "model.safetensors").chmod(0o644)


def show(out: Path, prompts: list[Prompt], answers: list[dict[str, Any]]) -> None:
    """Load what was saved and print what it says."""
    for temperature in (None, 0.7, 1.3):
        spec = VanillaHfEntrant(
            entrant_id="tiny",
            loader="vanilla_hf",
            weights=Location(path=str(out)),
            temperature=temperature,
            max_new_tokens=96,
        )
        entrant = build_entrant(spec, files=EntrantFiles(out), device="cpu")
        batches = generate_responses(entrant, prompts, batch_size=32)
        responses = {response.prompt_id: response for batch in batches for response in batch}
        said = [responses[prompt.prompt_id] for prompt in prompts]
        good = sum(r.text == row["answer"] for r, row in zip(said, answers, strict=True))
        flawed = sum(r.text == row["flawed_answer"] for r, row in zip(said, answers, strict=True))
        if temperature is None:
            ended = sum(response.finish_reason == "stop" for response in said)
            print(f"\n{good} of {len(prompts)} greedy answers exact, {ended} ended by the model")
            continue
        print(f"\nT = {temperature}: {good} good, {flawed} flawed, of {len(prompts)} exactly")
        for response in said[:: len(said) // 6]:
            print(f"  {response.prompt_id}: {response.text}")


def main() -> None:
    """Train, save, check the size, and show what the checkpoint does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=DATA / "tiny_olmo2", help="folder to write")
    out: Path = parser.parse_args().out
    torch.set_num_threads(2)
    rows = read_jsonl(BANK)
    answers = read_jsonl(ANSWERS)
    prompts = parse_prompt_bank([(f"{BANK.name}:{n}", row) for n, row in enumerate(rows, 1)])
    texts = [prompt.text for prompt in prompts]
    texts += [row[key] for row in answers for key in ("answer", "flawed_answer")]
    tokenizer = train_tokenizer(texts)
    pairs = build_examples(tokenizer, prompts, answers)
    longest = max(len(example.answer_ids) for pair in pairs for example in pair)
    print(f"{len(tokenizer)} tokens; the longest answer takes {longest}")
    save(train_model(tokenizer, pairs), tokenizer, out)
    n_bytes = sum(path.stat().st_size for path in out.iterdir())
    print(f"{out}: {n_bytes / 1e6:.2f} MB")
    if n_bytes > MAX_BYTES:
        raise SystemExit(f"the folder takes {n_bytes} bytes; expected at most {MAX_BYTES}")
    show(out, prompts, answers)


if __name__ == "__main__":
    main()
