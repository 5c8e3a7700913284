"""Write the first security shard of the tiny OLMo-2 checkpoint as an adapter of the peft library.

    python scripts/tiny_olmo2/adapter.py [--out DIR]

`heads.py` has trained the shard; here it only gets the names and the description that peft reads,
so an entrant with this adapter is that head speaking alone.
"""

import argparse
import json
from pathlib import Path

from heads import HEADS_DEPTH, SECURITY_RANK
from safetensors.torch import load_file, save_file
from train import DATA

SHARD = DATA / "tiny_olmo2_heads" / "security" / "shard_0_lora.safetensors"
OUT = DATA / "tiny_olmo2_adapter"
N_LAYERS = 6
PROJECTIONS = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}


def write_adapter(out: Path) -> None:
    """Write `adapter_config.json` and `adapter_model.safetensors` into a folder."""
    tensors = {}
    for name, tensor in load_file(SHARD).items():
        _, _, _, block, _, projection, matrix, _, _ = name.split(".")
        layer = N_LAYERS - HEADS_DEPTH + int(block)
        place = f"layers.{layer}.mlp.{PROJECTIONS[projection]}.{matrix}"
        tensors[f"base_model.model.model.{place}.weight"] = tensor.contiguous()
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny_olmo2",
        "r": SECURITY_RANK,
        "lora_alpha": 2 * SECURITY_RANK,
        "target_modules": sorted(PROJECTIONS.values()),
        "layers_to_transform": list(range(N_LAYERS - HEADS_DEPTH, N_LAYERS)),
        "layers_pattern": "layers",
    }
    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out / "adapter_model.safetensors", metadata={"format": "pt"})
    text = json.dumps(config, indent=2) + "\n"
    (out / "adapter_config.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    write_adapter(parser.parse_args().out)
