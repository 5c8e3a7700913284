"""Tiny models of random weights, of many architectures, that read with the bundled tokenizer."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from tournament_assets.generation.models.base_models import transformers_logging_off

from .builders import TINY

_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
_SIZES = {"hidden_size": 32, "num_hidden_layers": 2}
_OPT = {"ffn_dim": 48, "num_attention_heads": 4, "max_position_embeddings": 256}
_LLAMA = {
    **_SIZES,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
_WIDE = {**_LLAMA, "head_dim": 8}
_VISION = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}


@dataclass(frozen=True)
class Architecture:
    """What is special about one.

    Attributes:
        model_type: Its name in transformers.
        sizes: Fields of its configuration.
        tied: Whether the vocabulary's two ends share their weights; None leaves it to the default.
        sharded: Whether its weights are in several files.
        dtype: The precision of the weights in the files.
    """

    model_type: str
    sizes: dict[str, Any] = field(repr=False)
    tied: bool | None = None
    sharded: bool = False
    dtype: torch.dtype = torch.float32

    def write(self, folder: Path) -> None:
        tokenizer = AutoTokenizer.from_pretrained(TINY)
        end = tokenizer.eos_token_id
        tokens = {"vocab_size": len(tokenizer), "eos_token_id": end, "bos_token_id": end}
        sizes = dict(self.sizes)
        if "text_config" in sizes:
            sizes["text_config"] = {**sizes["text_config"], **tokens, "pad_token_id": end}
        if self.tied is not None:
            sizes["tie_word_embeddings"] = self.tied
        config = AutoConfig.for_model(
            self.model_type, **{**tokens, "pad_token_id": end, "initializer_range": 0.3}, **sizes
        )
        with transformers_logging_off(), torch.random.fork_rng():
            torch.manual_seed(0)
            model = AutoModelForCausalLM.from_config(config).to(self.dtype)
            model.save_pretrained(folder, max_shard_size="40KB" if self.sharded else "1GB")
        tokenizer.save_pretrained(folder)


ARCHITECTURES = (
    Architecture("gpt2", _GPT),
    Architecture("gpt2", _GPT, tied=False, sharded=True),
    Architecture("gptj", {**_GPT, "rotary_dim": 4}, dtype=torch.bfloat16),
    Architecture("gpt_neox", _LLAMA),
    Architecture("gpt_bigcode", _GPT),
    Architecture("bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4}, sharded=True),
    Architecture("falcon", {**_SIZES, "num_attention_heads": 4}),
    Architecture("mpt", {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 256}),
    Architecture("opt", {**_SIZES, **_OPT, "word_embed_proj_dim": 32}, dtype=torch.bfloat16),
    Architecture("mamba", {**_SIZES, "state_size": 8}),
    Architecture(
        "mamba2",
        {
            **_SIZES,
            "state_size": 8,
            "head_dim": 16,
            "num_heads": 4,
            "n_groups": 1,
            "chunk_size": 16,
        },
    ),
    Architecture("llama", _LLAMA, tied=True, sharded=True, dtype=torch.bfloat16),
    Architecture("mistral", _LLAMA, sharded=True),
    Architecture("qwen2", _LLAMA, tied=True),
    Architecture("qwen3", _WIDE, tied=False, dtype=torch.bfloat16),
    Architecture("gemma2", _WIDE),
    Architecture(
        "gemma3",
        {
            "text_config": _WIDE,
            "vision_config": _VISION,
            "image_token_index": 5,
            "boi_token_index": 6,
            "eoi_token_index": 7,
            "mm_tokens_per_image": 1,
        },
    ),
    Architecture("phi3", _LLAMA),
    Architecture("olmo2", _LLAMA, tied=True),
    Architecture("mixtral", {**_LLAMA, "num_local_experts": 4}, sharded=True),
    Architecture("olmoe", {**_LLAMA, "num_experts": 4, "num_experts_per_tok": 2}),
    Architecture("lfm2", _LLAMA),
    Architecture("rwkv", _SIZES),
    Architecture(
        "bart",
        {
            "d_model": 32,
            "decoder_layers": 2,
            "decoder_attention_heads": 4,
            "decoder_ffn_dim": 48,
            "is_decoder": True,
            "max_position_embeddings": 256,
        },
    ),
)
