"""Finds, checks and hashes the files that an entrant is loaded from, without torch.

Models that cannot play are recognised before loading: encoder-decoder models, models that need code
from their folder, quantised weights without the packages that read them, and truncated weights.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.formatting import list_first
from tournament_assets.tournament.entrant_settings import TEMPLATE_DATE
from tournament_assets.tournament.hydra_entrants import NeededShards

LFS_PREFIX = b"version https://git-lfs"
"""The beginning of a Git-LFS pointer, a file whose content was not downloaded."""
LFS_PROBLEM = "a Git-LFS pointer; expected the content itself; run 'git lfs pull' in that checkout"

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tekken.json",
    "spiece.model",
    "vocab.json",
    "vocab.txt",
)
_HASHED_SUFFIXES = {".json", ".safetensors", ".jinja", ".model", ".txt"}
_TEMPLATE_FOLDER = "additional_chat_templates"
_INDEX = "model.safetensors.index.json"
_READ_FILES = ("config.json", "tokenizer_config.json", _INDEX)
_ONE_FILE = "model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
_GGUF_MAGIC = b"GGUF"
_ADAPTER_FILES = (ADAPTER_CONFIG, ADAPTER_WEIGHTS, "adapter_model.bin")


def check_weights(folder: Path, *, name: str, needs_template: bool = True) -> list[str]:
    """Find what keeps a folder, or a GGUF file, from being loaded as a model that can chat.

    Args:
        folder: The folder with `config.json`, the tokenizer and safetensors weights; or the file.
        name: Begins every message, e.g. `entrant 'base'`.
        needs_template: Whether the folder must hold a chat template.

    Returns:
        One sentence per problem; none if the folder can be loaded.
    """
    if not folder.exists():
        return [
            f"{name}: there is no folder {str(folder)!r}; expected the model's weights there; "
            "download them or correct the entrant's 'weights'"
        ]
    if is_gguf(folder):
        return [f"{name}: {problem}" for problem in _gguf_problems(folder)]
    if not folder.is_dir():
        return [
            f"{name}: {str(folder)!r} is a file; expected the folder that holds config.json, "
            "the tokenizer and *.safetensors, or a GGUF file; name that"
        ]
    pointers = [path.name for path in _files(folder) if is_lfs_pointer(path)]
    if pointers:
        return [_pointer_problem(pointers, folder, name=name)]
    broken = [
        f"{name}: {str(folder / file)!r} is not a JSON object; expected the file as the model's "
        "authors wrote it; download it again"
        for file in _READ_FILES
        if (folder / file).is_file() and _read_json(folder / file) is None
    ]
    if broken:
        return broken
    problems = []
    if not (folder / "config.json").is_file():
        problems.append(
            f"{name}: {str(folder)!r} has no config.json; expected a folder written by "
            "'save_pretrained' or downloaded whole from a model hub"
        )
    else:
        config = _read_json(folder / "config.json") or {}
        file_problems = kind_problems(config, folder=folder)
        if not config.get("quantization_config"):
            file_problems += integer_problems(sorted(folder.glob("*.safetensors")))
        problems.extend(f"{name}: {problem}" for problem in file_problems)
    file_problems = [*_adapter_problems(folder), *_safetensors_problems(folder)]
    problems.extend(f"{name}: {problem}" for problem in file_problems)
    if not any((folder / file).is_file() for file in TOKENIZER_FILES):
        problems.append(
            f"{name}: {str(folder)!r} has no tokenizer; expected tokenizer.json "
            "beside config.json; save the model's tokenizer into the same folder"
        )
    elif needs_template and not has_chat_template(folder):
        problems.append(
            f"{name}: the tokenizer in {str(folder)!r} has no chat template; expected "
            "chat_template.jinja, or 'chat_template' in tokenizer_config.json; "
            "use the instruction-tuned model, name the template it was tuned with by the entrant's "
            "'chat_template', or say 'chat_template: none', which lets a base model go on with it"
        )
    return problems


def check_base(folder: Path, *, heads_depth: int, name: str) -> list[str]:
    """Find what keeps heads from being put on a model, from its `config.json` alone.

    Args:
        folder: The model's folder, or its GGUF file.
        heads_depth: Layers of a head, counted from the last.
        name: Begins every message, e.g. `entrant 'base'`.

    Returns:
        One sentence per problem; none where the file itself cannot be read.
    """
    expected = "expected an Olmo2ForCausalLM (model_type 'olmo2'), the only one for heads"
    if is_gguf(folder):
        return [f"{name}: {str(folder)!r} is a GGUF file; {expected}, in a folder"]
    path = folder / "config.json"
    config = _read_json(path) if path.is_file() else None
    if config is None:
        return []
    model_type, n_layers = config.get("model_type"), config.get("num_hidden_layers")
    if model_type != "olmo2":
        return [f"{name}: {str(path)!r} has model_type {model_type!r}; {expected}"]
    if isinstance(n_layers, int) and heads_depth > n_layers:
        return [
            f"{name}: heads_depth is {heads_depth}; expected 1 to {n_layers}, the layers that "
            f"{str(path)!r} names"
        ]
    return []


def is_gguf(path: Path) -> bool:
    """Whether a path is a file in llama.cpp's format, which holds a model and its tokenizer."""
    return path.suffix == ".gguf" and path.is_file()


def _gguf_problems(path: Path) -> list[str]:
    with path.open("rb") as file:
        if file.read(len(_GGUF_MAGIC)) != _GGUF_MAGIC:
            return [
                f"{str(path)!r} does not begin as a GGUF file does; expected the whole file; "
                "download it again ('git lfs pull' in a checkout)"
            ]
    missing = [name for name in ("gguf", "accelerate") if find_spec(name) is None]
    if not missing:
        return []
    return [
        f"{str(path)!r} is a GGUF file, and {_are(missing)} not installed; expected what reads "
        f"it; pip install {' '.join(missing)}"
    ]


def check_adapter(folder: Path, *, name: str) -> list[str]:
    """Find what keeps a folder from being loaded as a LoRA adapter in peft's format.

    Args:
        folder: The folder with `adapter_config.json` and `adapter_model.safetensors`.
        name: Begins every message, e.g. `entrant 'base'`.

    Returns:
        One sentence per problem; none if the folder can be loaded.
    """
    if not folder.is_dir():
        return [
            f"{name}: there is no folder {str(folder)!r}; expected the one that holds "
            f"{ADAPTER_CONFIG} and {ADAPTER_WEIGHTS}; correct the entrant's 'adapter'"
        ]
    pointers = [path.name for path in _files(folder) if is_lfs_pointer(path)]
    if pointers:
        return [_pointer_problem(pointers, folder, name=name)]
    problems = []
    if not (folder / ADAPTER_WEIGHTS).is_file():
        problems.append(
            f"{name}: {str(folder)!r} has no {ADAPTER_WEIGHTS}; expected an adapter's weights in "
            "this format, which cannot hide code; save it again with peft's save_pretrained"
        )
    else:
        coded = integer_problems([folder / ADAPTER_WEIGHTS])
        problems += [f"{name}: {problem}" for problem in coded]
    config = folder / ADAPTER_CONFIG
    content = _read_json(config) if config.is_file() else None
    kind = None if content is None else content.get("peft_type")
    if kind != "LORA":
        state = "no such file" if not config.is_file() else f"peft_type {kind!r}"
        problems.append(
            f"{name}: {str(config)!r}: {state}; expected the description of a LoRA adapter, with "
            "peft_type 'LORA'; merge an adapter of another kind into a model of its own"
        )
    if find_spec("peft") is None:
        problems.append(
            f"{name}: the peft library is not installed; expected it for an entrant with an "
            "adapter; pip install 'tournament-assets[peft]'"
        )
    return problems


def _pointer_problem(pointers: list[str], folder: Path, *, name: str) -> str:
    return f"{name}: in {str(folder)!r} {_listed(pointers)} {LFS_PROBLEM}"


def fingerprint_weights(folder: Path) -> str:
    """Return the SHA-256 of everything in a folder, or GGUF file, that a response depends on.

    It covers the names and contents of configuration, tokenizer, chat template and weights, but not
    the folder's location, its model card or its files' dates.
    """
    if is_gguf(folder):
        return fingerprint_file(folder)
    hashes = [
        [path.relative_to(folder).as_posix(), fingerprint_file(path)] for path in _files(folder)
    ]
    if not hashes:
        raise InputError(
            f"{str(folder)!r} holds nothing to load; expected a folder with config.json, "
            "the tokenizer and *.safetensors"
        )
    return fingerprint(hashes)


def fingerprint_file(path: Path) -> str:
    """Return the SHA-256 of a file, which is read again only if it has changed."""
    status = path.stat()
    return _digest(path.resolve(), status.st_ino, status.st_size, status.st_mtime_ns)


@cache
def _digest(path: Path, inode: int, size: int, modified_ns: int) -> str:  # noqa: ARG001
    # The other arguments make the cache notice a changed file; a run asks several times for the
    # hash of the same gigabytes.
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_lfs_pointer(path: Path) -> bool:
    """Whether Git-LFS has left a pointer where the content should be."""
    with path.open("rb") as file:
        return file.read(len(LFS_PREFIX)) == LFS_PREFIX


def _files(folder: Path) -> list[Path]:
    """The relevant files by name; subfolders may hold other checkpoints and are left out."""
    paths = [*folder.glob("*"), *folder.glob(f"{_TEMPLATE_FOLDER}/*.jinja")]
    return sorted(
        (path for path in paths if path.suffix in _HASHED_SUFFIXES and path.is_file()),
        key=lambda path: path.relative_to(folder).as_posix(),
    )


def _safetensors_problems(folder: Path) -> list[str]:
    present = {path.name for path in folder.glob("*.safetensors")}
    if not present:
        others = sorted(
            path.name for path in folder.iterdir() if path.suffix in {".bin", ".pt", ".pth"}
        )
        contents = f"only {', '.join(others)}" if others else "no weights"
        return [
            f"{str(folder)!r} has {contents}; expected *.safetensors, which cannot hide code; "
            "download or convert the weights in that format"
        ]
    index = folder / _INDEX
    if not index.is_file():
        return _file_problems(folder, present, {_ONE_FILE})
    shards = set((_read_json(index) or {}).get("weight_map", {}).values())
    missing = sorted(shards - present)
    if missing:
        return [
            f"{str(folder)!r} lacks {', '.join(missing)}; expected every file that {_INDEX} "
            "names; finish the download"
        ]
    return _file_problems(folder, present, shards)


def _file_problems(folder: Path, present: Set[str], read: Set[str]) -> list[str]:
    """Find truncated weights, and weights that nothing would read, such as another model's."""
    cut = cut_problems([folder / name for name in sorted(present & read)])
    unread = sorted(present - read - {*_ADAPTER_FILES})
    if not unread:
        return cut
    return [
        *cut,
        f"{str(folder)!r} holds {', '.join(unread)}, which would not be loaded; expected "
        f"{_ONE_FILE} alone, or the files that {_INDEX} names; move the others out of the folder, "
        "or name the folder that they belong to",
    ]


def _adapter_problems(folder: Path) -> list[str]:
    names = [name for name in _ADAPTER_FILES if (folder / name).is_file()]
    if not names:
        return []
    return [
        f"{str(folder)!r} holds an adapter ({', '.join(names)}); expected a whole model, which "
        "would be loaded without it; move the adapter to a folder of its own, and name that as "
        "the entrant's 'adapter'"
    ]


def has_chat_template(folder: Path) -> bool:
    """Whether a folder holds a chat template, in a file of its own or in the tokenizer's."""
    if (folder / "chat_template.jinja").is_file():
        return True
    if any(folder.glob(f"{_TEMPLATE_FOLDER}/*.jinja")):
        return True
    config = folder / "tokenizer_config.json"
    return config.is_file() and bool((_read_json(config) or {}).get("chat_template"))


DATE_FUNCTION = "strftime_now"
"""What a chat template calls for the date of today."""
_TEMPLATE_BYTES = 1 << 26
"""How far into a GGUF file its chat template is looked for: beyond the largest vocabulary."""


def _asks_for_date(place: Path) -> bool:
    """Whether the chat template of a folder or GGUF file, or in a file, asks for the date."""
    paths = [place]
    if place.is_dir():
        paths = [place / "chat_template.jinja", *place.glob(f"{_TEMPLATE_FOLDER}/*.jinja")]
        paths = [path for path in paths if path.is_file()] or [place / "tokenizer_config.json"]
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                if DATE_FUNCTION.encode() in file.read(_TEMPLATE_BYTES):
                    return True
    return False


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _listed(names: list[str]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"each of {', '.join(names)} is"


_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class EntrantFiles:
    """The files that an entrant is loaded from.

    Attributes:
        weights: The folder of the model, or of the base model; or its GGUF file.
        shards: Each adapter's LoRA shards by its name, one file per head, in order.
        adapter: The folder of an adapter for the whole model, in peft's format.
        chat_template: A chat template that replaces the model's own.
        has_template: Whether a chat template is used at all.
    """

    weights: Path
    shards: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    adapter: Path | None = None
    chat_template: Path | None = None
    has_template: bool = True

    @property
    def asks_for_date(self) -> bool:
        """Whether the chat template that is used asks for the date."""
        template = self.chat_template or self.weights
        if self.chat_template is None and self.adapter and has_chat_template(self.adapter):
            template = self.adapter
        return self.has_template and _asks_for_date(template)

    @property
    def paths(self) -> Iterator[Path]:
        """Every file, and every folder with what is in it."""
        shards = (path for paths in self.shards.values() for path in paths)
        for place in (self.weights, self.adapter, self.chat_template, *shards):
            if place is not None:
                yield place
                yield from sorted(place.rglob("*"))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything in them that a response depends on, heads in their order."""
        files = self._without_template
        if self.chat_template is not None:
            template = fingerprint_file(self.chat_template)
            files = fingerprint({"model": files, "chat_template": template})
        if self.asks_for_date:
            # A date of the entrant's own is among its settings.
            return fingerprint({"files": files, "date": TEMPLATE_DATE.isoformat()})
        return files

    @property
    def _without_template(self) -> str:
        base = fingerprint_weights(self.weights)
        if self.adapter is not None:
            return fingerprint({"base": base, "adapter": fingerprint_weights(self.adapter)})
        if not self.shards:
            return base
        shards = {
            adapter: [fingerprint_file(path) for path in paths]
            for adapter, paths in self.shards.items()
        }
        return fingerprint({"base": base, "shards": shards})


def find_shards(needed: NeededShards, folder: Path, *, what: str) -> list[Path]:
    """Find the files of one adapter.

    Args:
        what: Begins every message.
    """
    shards: list[Path] = []
    missing: list[str] = []
    problems: list[str] = []
    for name in needed.names:
        named = sorted(folder.glob(name)) if _WILDCARDS & {*name} else [folder / name]
        present = [path for path in named if path.is_file()]
        if not present:
            missing.append(name)
        elif len(present) > 1:
            problems.append(
                f"{what}: {len(present)} files in {str(folder)!r} are called {name!r}; "
                "expected one; write a narrower pattern"
            )
        elif is_lfs_pointer(present[0]):
            problems.append(f"{what}: {str(present[0])!r} is {LFS_PROBLEM}")
        else:
            shards.append(present[0])
    if missing:
        source = f"; get them from {needed.folder.source}" if needed.folder.source else ""
        problems.append(
            f"{what}: {str(folder)!r} lacks {len(missing)} of {len(needed.names)} files, "
            f"{list_first(missing)}; expected one a head{source}, or correct 'files'"
        )
    if problems:
        raise InputError(problems)
    return shards


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
    """Find what in a model's `config.json` shows that it cannot play.

    Args:
        folder: The model's folder, for messages.

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
    if quantised and method not in _READERS and not _reads_quantised(method):
        problems.append(
            f"{str(folder)!r} holds weights quantised by {method!r}, which this version of "
            "transformers does not know, and would read as they stand; expected a method that it "
            "knows; use the model's weights without quantisation, or let a server answer with it "
            "(openai_api)"
        )
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


def _reads_quantised(method: object) -> bool:
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    return method in AUTO_QUANTIZATION_CONFIG_MAPPING


def integer_problems(paths: Sequence[Path]) -> list[str]:
    """Find weights that are integers, which would be read as if they were the numbers they code.

    Returns:
        One sentence for each file that holds some.
    """
    problems = []
    for path in paths:
        integers = {
            tensor: str(each.get("dtype"))
            for tensor, each in (_read_header(path) or {}).items()
            if tensor.endswith(".weight") and str(each.get("dtype"))[:1] in ("I", "U")
        }
        if integers:
            first = min(integers)
            problems.append(
                f"{str(path)!r} holds {len(integers)} weights that are integers, the first is "
                f"{first!r} ({integers[first]}), and nothing says how they are quantised; expected "
                "floating-point numbers, or config.json with its quantization_config"
            )
    return problems


def _files_of(auto_map: object) -> str:
    named = auto_map.values() if isinstance(auto_map, Mapping) else [auto_map]
    return ", ".join(sorted({f"{str(each).split('.')[0]}.py" for each in named}))


def _are(names: Sequence[str]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"{' and '.join(names)} are"


def cut_problems(paths: Sequence[Path]) -> list[str]:
    """Find safetensors files whose length differs from what their header says.

    The header is the length of a JSON object (8 bytes, little-endian), then the object, which says
    where each tensor ends (https://huggingface.co/docs/safetensors).

    Returns:
        One sentence for each such file.
    """
    problems = []
    for path in paths:
        size, expected = path.stat().st_size, _whole_length(path)
        if expected is None:
            problems.append(
                f"{str(path)!r} ({size} bytes) does not begin as a safetensors file does; "
                "expected the whole file; download it again"
            )
        elif size != expected:
            problems.append(
                f"{str(path)!r} has {size} bytes, and its header says {expected}; expected the "
                "whole file; download it again"
            )
    return problems


def count_parameters(folder: Path) -> int:
    """Return the number of parameters in a folder's weights, from the files' headers."""
    if is_gguf(folder):
        from gguf import GGUFReader

        return sum(int(tensor.n_elements) for tensor in GGUFReader(folder).tensors)
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
    """Return a safetensors file's header, by tensor; None if it is not such a file."""
    with path.open("rb") as file:
        n_header = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        if not 2 <= n_header <= _LONGEST_HEADER:
            return None
        content = file.read(n_header)
    try:
        fields = json.loads(content)
        tensors = {name: each for name, each in fields.items() if name != "__metadata__"}
        is_whole = all(
            each["data_offsets"][1] >= 0 <= prod(each["shape"]) for each in tensors.values()
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return tensors if is_whole else None
