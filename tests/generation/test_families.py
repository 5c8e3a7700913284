"""Every family of language models that can be made tiny answers in batches as it does alone."""

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from tournament_assets.generation.loading import LoadedEntrant
from tournament_assets.generation.models.base_models import LoadedBase, transformers_logging_off
from tournament_assets.generation.models.batch_probe import COMPARED_FAMILIES, is_batchable
from tournament_assets.generation.responding import generate_responses
from tournament_assets.tournament.prompts import Prompt

from .architectures import ARCHITECTURES
from .builders import TINY, describe
from .test_vanilla_responding import write_alone

_WINDOW = 16
_TEST_LENGTHS = (1, 6, 9)
"""In four tokens each; the last two share a padded length, and are beyond a window."""
_WIDTH = ("hidden_size", "n_embd", "d_model")
_MIDDLE = ("intermediate_size", "ffn_dim", "decoder_ffn_dim")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
_HEADS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "decoder_attention_heads",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "rotary_dim",
    "mamba_n_heads",
    "linear_num_value_heads",
)
_PAIRS = ("num_key_value_heads", "num_experts_per_tok", "index_n_heads", "linear_num_key_heads")
_EIGHTS = (
    "head_dim",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "v_head_dim",
    "state_size",
    "mamba_d_state",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "hidden_size_per_layer_input",
)
_WINDOWS = (
    "sliding_window",
    "attention_chunk_size",
    "attention_window_size",
    "index_topk",
    "index_head_dim",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "q_lora_rank",
    "kv_lora_rank",
    "mamba_d_head",
    "mamba_chunk_size",
)
_SIZES = {
    **dict.fromkeys(_WIDTH, 32),
    **dict.fromkeys(_MIDDLE, 48),
    **dict.fromkeys(_LAYERS, 2),
    **dict.fromkeys(_HEADS, 4),
    **dict.fromkeys(_PAIRS, 2),
    **dict.fromkeys(_EIGHTS, 8),
    **dict.fromkeys(_WINDOWS, _WINDOW),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 256),
    **dict.fromkeys(("n_group", "topk_group", "mamba_n_groups"), 1),
    "vocab_size_per_layer_input": 1024,
    "is_decoder": True,
}
_LISTS = ("layer_types", "layers_block_type", "block_types", "mlp_layer_types")
_MOST_PARAMETERS = 6_000_000


def _tiny_fields(config: Any, tokenizer: Any) -> dict[str, Any]:
    fields = config.to_dict()
    tiny: dict[str, Any] = {
        name: size for name, size in _SIZES.items() if fields.get(name) is not None
    }
    end = tokenizer.eos_token_id
    tiny |= {f"{name}_token_id": end for name in ("eos", "bos", "pad")}
    tiny |= {"vocab_size": len(tokenizer), "initializer_range": 0.3}
    for name in _LISTS:
        if isinstance(fields.get(name), list):  # one layer of each of the first two kinds
            kinds = list(dict.fromkeys(fields[name]))
            tiny[name] = (kinds * 2)[:2]
    return tiny


def build_tiny(model_type: str, tokenizer: Any) -> Any:
    """Return a random model of a family; None if these sizes do not make one."""
    try:
        whole = CONFIG_MAPPING[model_type]()
        fields = _tiny_fields(whole, tokenizer)
        if hasattr(text := getattr(whole, "text_config", None), "to_dict"):
            fields["text_config"] = _tiny_fields(text, tokenizer)
        config = CONFIG_MAPPING[model_type](**fields)
        with torch.device("meta"):
            n_parameters = AutoModelForCausalLM.from_config(config).num_parameters()
        if n_parameters > _MOST_PARAMETERS:
            return None
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return AutoModelForCausalLM.from_config(CONFIG_MAPPING[model_type](**fields)).eval()
    except Exception:  # noqa: BLE001  # each family refuses unfitting sizes in a way of its own
        return None


@pytest.mark.e2e
def test_every_family_answers_in_a_batch_as_it_does_alone_or_is_played_alone() -> None:
    tokenizer = AutoTokenizer.from_pretrained(TINY, padding_side="left")
    prompts = [Prompt(f"p{n}", "Which vitamin? " * n, "test") for n in _TEST_LENGTHS]
    batchable, alone = set[str](), set[str]()
    different: dict[str, object] = {}
    for model_type in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        with transformers_logging_off():
            model = build_tiny(model_type, tokenizer)
            if model is None:
                continue
            model.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id)
            try:
                can_share = is_batchable(model, tokenizer, name=model_type)
            except Exception:  # noqa: BLE001, S112  # it plays nowhere
                continue
            base = LoadedBase(tokenizer, model, "cpu", torch.float32, is_batchable=can_share)
            entrant = LoadedEntrant(describe(max_new_tokens=12), base)
            try:
                batches = generate_responses(entrant, prompts, batch_size=4)
                texts = {each.prompt_id: each.text for batch in batches for each in batch}
                expected = {each.prompt_id: write_alone(entrant, each) for each in prompts}
            except Exception as error:  # noqa: BLE001  # beyond the probe, as position tables end
                texts, expected = {}, {model_type: repr(error)[:90]}
            (batchable if can_share else alone).add(model_type)
            if texts != expected:
                different[model_type] = [texts, expected]
    assert len(batchable | alone) > 100
    assert not different
    others = {architecture.model_type for architecture in ARCHITECTURES}
    assert not COMPARED_FAMILIES - batchable - others
    assert not COMPARED_FAMILIES & alone
