"""Finds out whether a model answers a row of a batch as it answers the row alone."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from tournament_assets.foundation.errors import GenerationError

COMPARED_FAMILIES = frozenset(
    """
    afmoe apertus arcee aria_text beam bert bert-generation big_bird biogpt bitnet bloom codegen
    cohere cohere2 cohere2_moe ctrl cwm diffllama doge electra emu3 ernie ernie4_5 ernie4_5_moe
    exaone4 exaone_moe falcon falcon_mamba flex_olmo flint fuyu gemma gemma2 gemma3 gemma3_text
    gemma4 gemma4_text gemma4_unified gemma4_unified_text glm glm4 glm4_moe gpt-sw3 gpt2 gpt_bigcode
    gpt_neox gpt_neox_japanese gpt_oss gptj granite granite_swa granitemoe granitemoe_swa
    granitemoeshared helium hrm_text hy_v3 hyperclovax inkling2_text inkling_text internlm3
    iquestcoder jais2 jetmoe kolibri1 laguna lfm2 lfm3 llama llama4 llama4_text mamba mamba2
    megatron-bert mellum mimo_v2_flash minimax minimax_m2 minimax_m3_vl_text ministral3 mistral
    mixtral mllama modernbert-decoder moshi mpt nanochat olmo olmo2 olmo3 olmo_hybrid olmoe
    openai-gpt opt persimmon phi phi3 phimoe qwen2 qwen2_moe qwen3 qwen3_5 qwen3_5_moe
    qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next rembert roformer seed_oss smollm3 solar_open
    stablelm starcoder2 vaultgemma zamba2
    """.split()  # noqa: SIM905  # a list of one name a line would be longer than this module
)
"""The values of `model_type` whose batches a test compares with rows alone, token by token."""
_SHORT = 8
_PADDING = 56
_N_WRITTEN = 8
_LONGER = _SHORT + _PADDING + _N_WRITTEN
"""Tokens by which the longest row goes beyond a window."""
_TIE = {torch.float32: 1e-3}
_COARSE_TIE = 0.05
"""Two tokens tie if they differ by this share of the logits' standard deviation, by precision."""
_WORK = {"cuda": 1e14}
_WORK_ON_CPU = 1e12
"""Parameters times tokens that are read at once: seconds."""
_ALONE = re.compile(r"index_topk|compress_\w+")
_WINDOW = re.compile(
    r"sliding_window(_size)?|attention_chunk_size|(attention_)?window_size|local_attention"
)


class _Replay(LogitsProcessor):  # type: ignore[misc]  # transformers is untyped
    """Writes given tokens, so that noise cannot lead two readings to different texts."""

    def __init__(self, tokens: Sequence[int], *, prompt_length: int) -> None:
        self._tokens, self._prompt_length = tokens, prompt_length

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        forced = torch.full_like(scores, float("-inf"))
        forced[:, self._tokens[input_ids.shape[1] - self._prompt_length]] = 0
        return forced


def is_batchable(model: Any, tokenizer: Any, *, name: str) -> bool:
    """Return whether a padded row beside a longer one gets the greedy tokens that it gets alone.

    A short text is read, and texts up to and beyond each window that the configuration names, where
    seconds suffice. Models whose attention is indexed or compressed are not batchable; nor are
    those that cannot read padding or several rows, nor a family outside `COMPARED_FAMILIES` with a
    window that is too wide to be read here.

    Args:
        name: Begins every message, e.g. `entrant 'base'`.

    Raises:
        GenerationError: If the model cannot write a token.
    """
    fields = list(_fields_of(model.config.to_dict()))
    context = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    windows = {value for key, value in fields if type(value) is int and _WINDOW.fullmatch(key)}
    reached = {size for size in windows if size > 0 and size + _LONGER <= (context or size + 99)}
    room = _WORK.get(torch.device(model.device).type, _WORK_ON_CPU) / model.num_parameters()
    read = {size for size in reached if size + _LONGER <= room}
    lengths = {_SHORT, *(max(1, size + n) for size in read for n in (-_SHORT // 2, _SHORT))}
    try:
        _read_on(model, tokenizer, _SHORT)
    # Whatever a model's code raises at its first token, the entrant cannot play.
    except Exception as error:
        raise GenerationError(
            f"{name}: the model is loaded and cannot write a token: {error}; "
            "expected a causal language model that transformers' generate can decode"
        ) from error
    if any(value and _ALONE.fullmatch(key) for key, value in fields):
        return False
    if read != reached and model.config.model_type not in COMPARED_FAMILIES:
        return False
    try:
        return all(_is_equal(model, tokenizer, length) for length in sorted(lengths))
    except Exception:  # noqa: BLE001  # whatever it raises: it has just written tokens alone
        return False


def _fields_of(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return every field of a configuration, with those of the ones that it nests."""
    for key, value in config.items():
        yield key, value
        if isinstance(value, Mapping):
            yield from _fields_of({str(inner): each for inner, each in value.items()})


def _is_equal(model: Any, tokenizer: Any, length: int) -> bool:
    alone = _read_on(model, tokenizer, length)
    tokens = alone.argmax(-1)
    batched = _read_on(model, tokenizer, length, tokens=tokens.tolist())
    # Where two tokens tie, rounding decides.
    lost = alone.amax(-1) - alone.gather(1, batched.argmax(-1)[:, None])[:, 0]
    return bool((lost <= _TIE.get(model.dtype, _COARSE_TIE) * alone.std(-1)).all())


@torch.inference_mode()
def _read_on(
    model: Any, tokenizer: Any, length: int, *, tokens: Sequence[int] | None = None
) -> Tensor:
    """Return the first row's logits of tokens that `generate` writes with its cache.

    Args:
        tokens: Writes these, beside a row that is longer; None writes greedily, and alone.

    Returns:
        Shape (n_tokens, vocabulary), float32.
    """
    ids = torch.arange(length)[None] * 7 % len(tokenizer)
    mask = torch.ones_like(ids)
    if tokens is not None:
        companion = torch.arange(length + _PADDING).flip(0)[None] % len(tokenizer)
        ids = torch.cat([pad(ids, (_PADDING, 0), value=tokenizer.pad_token_id), companion])
        mask = torch.cat([pad(mask, (_PADDING, 0)), torch.ones_like(companion)])
    replay = [] if tokens is None else [_Replay(tokens, prompt_length=ids.shape[1])]
    written = model.generate(
        input_ids=ids.to(model.device),
        attention_mask=mask.to(model.device),
        logits_processor=LogitsProcessorList(replay),
        generation_config=GenerationConfig(
            max_new_tokens=_N_WRITTEN,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            eos_token_id=len(tokenizer) + 1_000_000_000,  # None would be the model's own
            pad_token_id=tokenizer.pad_token_id,
        ),
    )
    return torch.stack([logits[0].float() for logits in written.logits])
