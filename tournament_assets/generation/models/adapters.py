"""LoRA adapters in peft's format, put on a resident model temporarily.

peft replaces the modules that an adapter changes and reads its weights; the replacements are
recorded and undone at once. While the adapter is in use, the new modules stand in for the old ones.
The model itself never changes: with another adapter or none, it computes the same to the bit.
"""

import copy
import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from tournament_assets.foundation.errors import InputError
from tournament_assets.generation.models.base_models import (
    LoadedBase,
    load_tokenizer,
    transformers_logging_off,
)
from tournament_assets.generation.models.entrant_weights import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    TOKENIZER_FILES,
    check_adapter,
)

_ITS_NAME = "entrant"
_HARMLESS_STARTS = (True, False, "gaussian", "eva", "orthogonal")
"""Initialisations that leave the base's own weights alone."""
_UNDERSTOOD = frozenset(
    {
        "alpha_pattern",
        "auto_mapping",
        "base_model_name_or_path",
        "ensure_weight_tying",
        "eva_config",
        "exclude_modules",
        "fan_in_fan_out",
        "inference_mode",
        "init_lora_weights",
        "layers_pattern",
        "layers_to_transform",
        "lora_alpha",
        "lora_bias",
        "lora_dropout",
        "modules_to_save",
        "peft_type",
        "peft_version",
        "r",
        "rank_pattern",
        "revision",
        "runtime_config",
        "target_modules",
        "target_parameters",
        "task_type",
        "trainable_token_indices",
        "use_dora",
        "use_rslora",
    }
)
"""Settings that affect the changed modules only; any other may change the base itself."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in the model, and the modules there without and with the adapter."""

    parent: nn.Module
    attribute: str
    plain: nn.Module
    adapted: nn.Module


@dataclass(frozen=True, slots=True)
class LoadedAdapter:
    """An adapter, ready to be put on the model that it was loaded for.

    Attributes:
        places: The modules that it changes.
        warnings: What a person should look at, a sentence each.
    """

    places: Sequence[_Place]
    warnings: Sequence[str] = ()

    @contextmanager
    def put_on(self) -> Iterator[None]:
        """Put the adapter on the model inside the `with` block."""
        try:
            for place in self.places:
                place.parent.register_module(place.attribute, place.adapted)
            yield
        finally:
            for place in self.places:
                place.parent.register_module(place.attribute, place.plain)


def load_adapter(base: LoadedBase, folder: Path, *, name: str) -> LoadedAdapter:
    """Load an adapter for a resident model without changing the model.

    Args:
        folder: The adapter's folder, with `adapter_config.json` and `adapter_model.safetensors`.
        name: Begins every message, e.g. `entrant 'base'`.
    """
    if problems := check_adapter(folder, name=name):
        raise InputError(problems)
    config = _read_config(folder, name=name)
    model: nn.Module = base.model
    before = [
        (parent, attribute, child)
        for parent in model.modules()
        for attribute, child in parent.named_children()
    ]
    try:
        with transformers_logging_off(), warnings.catch_warnings():
            # The relevant warnings of peft are errors here; the rest concern training.
            warnings.simplefilter("ignore")
            problem = _inject(model, config, folder)
        places = [
            _Place(parent, attribute, plain=child, adapted=parent.get_submodule(attribute))
            for parent, attribute, child in before
            if parent.get_submodule(attribute) is not child
        ]
    except (ValueError, RuntimeError, TypeError, KeyError, SafetensorError) as error:
        problem = f"peft says: {error}"
    finally:
        for parent, attribute, child in before:
            parent.register_module(attribute, child)
        # peft leaves its notes on the model, and would mistake them for an active adapter.
        vars(model).pop("peft_config", None)
    if problem is not None:
        raise InputError(
            f"{name}: the adapter in {str(folder)!r} does not fit the model in {base.folder!r}: "
            f"{problem}; expected one that was trained on this model; name its own base"
        )
    return LoadedAdapter(tuple(places), _base_warnings(config.base_model_name_or_path, base))


def _base_warnings(trained_on: str | None, base: LoadedBase) -> list[str]:
    """Say that an adapter names another base; models of one shape take each other's adapters."""
    names = {_model_name(base.folder), _model_name(base.model.config.name_or_path)}
    if not trained_on or _model_name(trained_on) in names:
        return []
    return [
        f"its adapter was trained on {trained_on!r}, and is put on {base.folder!r}; if that is "
        "another model, name the adapter's own as 'weights'"
    ]


def _model_name(path: str) -> str:
    """Return a model's name without its owner and place; the hub's cache has it in a folder's."""
    cached = [part for part in Path(path).parts if part.startswith("models--")]
    return (cached[-1].split("--")[-1] if cached else Path(path).name).casefold()


def adapted_tokenizer(base: LoadedBase, folder: Path) -> Any:
    """Return the tokenizer in an adapter's folder, or the base's where there is none.

    If the folder has only one of tokenizer and chat template, the base supplies the other.
    """
    template = folder / "chat_template.jinja"
    if any((folder / file).is_file() for file in TOKENIZER_FILES):
        with transformers_logging_off():
            tokenizer = load_tokenizer(folder)
    elif template.is_file():
        tokenizer = copy.copy(base.tokenizer)
        tokenizer.chat_template = template.read_text(encoding="utf-8")
    else:
        return base.tokenizer
    if tokenizer.chat_template is None:
        tokenizer.chat_template = base.tokenizer.chat_template
    return tokenizer


def _read_config(folder: Path, *, name: str) -> Any:
    """Return peft's description of an adapter that changes only the modules it replaces."""
    from peft import LoraConfig, PeftConfig

    try:
        config = PeftConfig.from_pretrained(str(folder))
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{name}: {str(folder / ADAPTER_CONFIG)!r} cannot be read by this version of peft: "
            f"{error}; expected the description of a LoRA adapter"
        ) from error
    plain = LoraConfig().to_dict()
    unknown = [
        f"{key}: {value!r}"
        for key, value in sorted(config.to_dict().items())
        if key not in _UNDERSTOOD and value != plain.get(key)
    ]
    # peft drops what it does not know; a setting that says nothing has no effect there either.
    fields = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    unknown += [
        f"{key}: {value!r} (unknown to peft {version('peft')})"
        for key, value in sorted(fields.items())
        if key not in config.to_dict() and value not in (None, False, "", [], {})
    ]
    if config.init_lora_weights not in _HARMLESS_STARTS:
        unknown.append(f"init_lora_weights: {config.init_lora_weights!r}")
    if unknown:
        raise InputError(
            f"{name}: the adapter in {str(folder)!r} has {', '.join(unknown)}; expected settings "
            "that peft knows and that leave the base's weights as they are; merge it into a model "
            "of its own (merge_and_unload) and name that as 'weights'"
        )
    config.inference_mode = True
    config.init_lora_weights = True  # every number is read from the file right after
    return config


def _inject(model: nn.Module, config: Any, folder: Path) -> str | None:
    """Replace modules and read their weights; return what is missing or unexpected, if anything."""
    from peft import PeftModelForCausalLM, set_peft_model_state_dict

    adapted = PeftModelForCausalLM(model, config, adapter_name=_ITS_NAME)
    tensors = load_file(folder / ADAPTER_WEIGHTS)
    result = set_peft_model_state_dict(adapted, tensors, adapter_name=_ITS_NAME)
    adapted.eval()
    # The base's own tensors are not in the file, so they are reported missing too; and what tied
    # modules share is there once, under the name of the first.
    named = adapted.state_dict(keep_vars=True)
    read = {id(named[key]) for key in named.keys() - set(result.missing_keys)}
    missing = [
        key
        for key in result.missing_keys
        if _ITS_NAME in key.split(".") and id(named.get(key)) not in read
    ]
    problems = [
        f"{len(keys)} tensors {what}, the first is {min(keys)!r}"
        for keys, what in (
            (missing, "are missing from its file"),
            (result.unexpected_keys, "have no place in the model"),
        )
        if keys
    ]
    return " and ".join(problems) or None
