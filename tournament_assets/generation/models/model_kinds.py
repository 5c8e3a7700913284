"""Models that cannot play here, told by their files before any of them is loaded; without torch.

Encoder-decoder models, code that a folder brings, quantised weights without the packages that read
them, and weights that end too early.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

_READERS: Mapping[str, tuple[str, ...]] = {
    "awq": ("gptqmodel", "accelerate"),
    "gptq": ("gptqmodel", "optimum"),
    "bitsandbytes": ("bitsandbytes", "accelerate"),
    "compressed-tensors": ("compressed_tensors",),
    "hqq": ("hqq", "accelerate"),
    "quanto": ("optimum", "accelerate"),
    "torchao": ("torchao",),
    "aqlm": ("aqlm", "accelerate"),
    "vptq": ("vptq", "accelerate"),
    "eetq": ("eetq", "accelerate"),
    "auto-round": ("auto_round",),
}
"""The packages by which transformers reads quantised weights, by their `quant_method`."""
_LENGTH_BYTES = 8
_LONGEST_HEADER = 100_000_000
"""In bytes; safetensors itself reads no longer one."""


def kind_problems(config: Mapping[str, Any], *, folder: Path) -> list[str]:
    """Find what in a model's `config.json` keeps it from playing.

    Args:
        config: The file's content.
        folder: Where it lies, for messages.

    Returns:
        One sentence per problem.
    """
    problems = []
    model_type = config.get("model_type")
    if config.get("is_encoder_decoder"):
        problems.append(
            f"{str(folder)!r} holds an encoder-decoder model ({model_type}); expected a causal "
            "language model, which goes on with a text; let a server answer with it (openai_api), "
            "or record its responses elsewhere (recorded)"
        )
    elif config.get("auto_map") and not _is_known(model_type):
        problems.append(
            f"{str(folder)!r} needs code of its own ({_files_of(config['auto_map'])}), which is "
            "refused: code from a folder of weights would run with all your rights; expected an "
            f"architecture that transformers has itself, which {model_type!r} is not in this "
            "version; use a newer one, or let a server answer with the model (openai_api)"
        )
    quantised = config.get("quantization_config")
    method = quantised.get("quant_method") if isinstance(quantised, Mapping) else None
    missing = [name for name in _READERS.get(str(method), ()) if find_spec(name) is None]
    if missing:
        problems.append(
            f"{str(folder)!r} holds weights quantised by {method}, and {_are(missing)} not "
            f"installed; expected what reads them; pip install {' '.join(missing)}, or use the "
            "model's weights without quantisation"
        )
    return problems


def _is_known(model_type: object) -> bool:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return model_type in CONFIG_MAPPING_NAMES


def _files_of(auto_map: object) -> str:
    named = auto_map.values() if isinstance(auto_map, Mapping) else [auto_map]
    return ", ".join(sorted({f"{str(each).split('.')[0]}.py" for each in named}))


def _are(names: Sequence[str]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"{' and '.join(names)} are"


def cut_problems(paths: Sequence[Path]) -> list[str]:
    """Find safetensors files that are not as long as their own header says.

    The header is the length of a JSON object, 8 bytes, little-endian, and that object, which says
    where each tensor ends (https://huggingface.co/docs/safetensors).

    Returns:
        One sentence for each such file.
    """
    problems = []
    for path in paths:
        found = path.stat().st_size
        expected = _whole_length(path)
        if expected is None:
            problems.append(
                f"{str(path)!r} ({found} bytes) does not begin as a safetensors file does; "
                "expected the whole file; download it again"
            )
        elif found != expected:
            problems.append(
                f"{str(path)!r} has {found} bytes, and its header says {expected}; expected the "
                "whole file; download it again"
            )
    return problems


def count_parameters(folder: Path) -> int:
    """Return how many numbers the weights of a folder hold, by their files' headers."""
    shapes = [
        each["shape"]
        for path in sorted(folder.glob("*.safetensors"))
        for each in (_read_header(path) or {}).values()
    ]
    return sum(prod(shape) for shape in shapes)


def _whole_length(path: Path) -> int | None:
    tensors = _read_header(path)
    if tensors is None:
        return None
    with path.open("rb") as file:
        n_header = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    ends = [each["data_offsets"][1] for each in tensors.values()]
    return _LENGTH_BYTES + n_header + max(ends, default=0)


def _read_header(path: Path) -> Mapping[str, Any] | None:
    """Return what a safetensors file says of each tensor; None if it does not begin as one."""
    with path.open("rb") as file:
        n_header = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if not 2 <= n_header <= _LONGEST_HEADER:
            return None
        content = file.read(n_header)
    try:
        said = json.loads(content)
        tensors = {name: each for name, each in said.items() if name != "__metadata__"}
        is_whole = all(
            each["data_offsets"][1] >= 0 <= prod(each["shape"]) for each in tensors.values()
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return tensors if is_whole else None
