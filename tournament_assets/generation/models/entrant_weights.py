"""The files that an entrant is loaded from, what is missing, and their hash; all without torch."""

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tournament_assets.generation.models.model_kinds import cut_problems, kind_problems
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.tournament.hydra_entrants import NeededShards

LFS_PREFIX = b"version https://git-lfs"
"""What a file begins with when Git-LFS has not replaced it by its content."""

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
_ADAPTER_FILES = (ADAPTER_CONFIG, ADAPTER_WEIGHTS, "adapter_model.bin")


def check_weights(folder: Path, *, name: str, needs_template: bool = True) -> list[str]:
    """Find what keeps a folder from being loaded as a model that can chat.

    Args:
        folder: The folder with `config.json`, the tokenizer and safetensors weights.
        name: Who needs it, to begin every message with, e.g. `entrant 'base'`.
        needs_template: Whether the chat template is looked for here.

    Returns:
        One sentence per problem; none if the folder can be loaded.
    """
    if not folder.exists():
        return [
            f"{name}: there is no folder {str(folder)!r}; expected the model's weights there; "
            "download them or correct the entrant's 'weights'"
        ]
    if not folder.is_dir():
        return [
            f"{name}: {str(folder)!r} is a file; expected the folder that holds config.json, "
            "the tokenizer and *.safetensors; name that folder"
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
        problems.extend(f"{name}: {found}" for found in kind_problems(config, folder=folder))
    found = [*_adapter_problems(folder), *_safetensors_problems(folder)]
    problems.extend(f"{name}: {problem}" for problem in found)
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


def check_adapter(folder: Path, *, name: str) -> list[str]:
    """Find what keeps a folder from being loaded as a LoRA adapter, as peft writes one.

    Args:
        folder: The folder with `adapter_config.json` and `adapter_model.safetensors`.
        name: Who needs it, to begin every message with.

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
    config = folder / ADAPTER_CONFIG
    content = _read_json(config) if config.is_file() else None
    kind = None if content is None else content.get("peft_type")
    if kind != "LORA":
        found = "no such file" if not config.is_file() else f"peft_type {kind!r}"
        problems.append(
            f"{name}: {str(config)!r}: {found}; expected the description of a LoRA adapter, with "
            "peft_type 'LORA'; merge an adapter of another kind into a model of its own"
        )
    if find_spec("peft") is None:
        problems.append(
            f"{name}: the peft library is not installed; expected it for an entrant with an "
            "adapter; pip install 'tournament-assets[peft]'"
        )
    return problems


def _pointer_problem(pointers: list[str], folder: Path, *, name: str) -> str:
    return (
        f"{name}: in {str(folder)!r} {_listed(pointers)} a Git-LFS pointer; "
        "expected the content itself; run 'git lfs pull' in that checkout"
    )


def fingerprint_weights(folder: Path) -> str:
    """Return the SHA-256 of everything in a folder that a response depends on.

    Counted are the names and the whole contents of configuration, tokenizer, chat template and
    weights; where the folder lies, its model card and its files' dates do not count.

    Raises:
        InputError: If the folder holds no such file.
    """
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
    """Return the SHA-256 of a file; one that has not changed since is not read again."""
    status = path.stat()
    return _digest(path.resolve(), status.st_ino, status.st_size, status.st_mtime_ns)


@cache
def _digest(path: Path, inode: int, size: int, modified_ns: int) -> str:  # noqa: ARG001
    # All but the path are there to tell one state of the file from the next: gigabytes of weights
    # are asked for several times in a run.
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_lfs_pointer(path: Path) -> bool:
    """Whether Git-LFS has left a pointer where the content should be."""
    with path.open("rb") as file:
        return file.read(len(LFS_PREFIX)) == LFS_PREFIX


def _files(folder: Path) -> list[Path]:
    """The files that count, by name; subfolders may hold other checkpoints and are left out."""
    found = [*folder.glob("*"), *folder.glob(f"{_TEMPLATE_FOLDER}/*.jinja")]
    return sorted(
        (path for path in found if path.suffix in _HASHED_SUFFIXES and path.is_file()),
        key=lambda path: path.relative_to(folder).as_posix(),
    )


def _safetensors_problems(folder: Path) -> list[str]:
    present = {path.name for path in folder.glob("*.safetensors")}
    if not present:
        others = sorted(
            path.name for path in folder.iterdir() if path.suffix in {".bin", ".pt", ".pth"}
        )
        found = f"only {', '.join(others)}" if others else "no weights"
        return [
            f"{str(folder)!r} has {found}; expected *.safetensors, which cannot hide code; "
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
    """Weights that end too early, and such that nothing would read, as of another model."""
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
    found = [name for name in _ADAPTER_FILES if (folder / name).is_file()]
    if not found:
        return []
    return [
        f"{str(folder)!r} holds an adapter ({', '.join(found)}); expected a whole model, which "
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


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _listed(names: list[str]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"each of {', '.join(names)} is"


_WILDCARDS = frozenset("*?[")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class EntrantFiles:
    """What an entrant is loaded from.

    Attributes:
        weights: The folder of the model, or of the base model.
        shards: The LoRA shards of each adapter by its name, one file per head, in order.
        adapter: The folder of an adapter for the whole model, as peft writes one.
        chat_template: A chat template that comes before the model's own.
    """

    weights: Path
    shards: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    adapter: Path | None = None
    chat_template: Path | None = None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything in them that a response depends on, heads in their order.

        Raises:
            InputError: If the folder holds nothing to load.
        """
        if self.chat_template is None:
            return self._without_template
        template = fingerprint_file(self.chat_template)
        return fingerprint({"model": self._without_template, "chat_template": template})

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
        needed: What they are called.
        folder: Where they lie.
        what: What they are, to begin a message with.

    Raises:
        InputError: With every file that is missing, is there twice, or is a Git-LFS pointer.
    """
    found: list[Path] = []
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
            problems.append(
                f"{what}: {str(present[0])!r} is a Git-LFS pointer; expected the content itself; "
                "run 'git lfs pull' in that checkout"
            )
        else:
            found.append(present[0])
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
        source = f"; get them from {needed.folder.source}" if needed.folder.source else ""
        problems.append(
            f"{what}: {str(folder)!r} lacks {len(missing)} of {len(needed.names)} files, {shown}; "
            f"expected one a head{source}, or correct 'files'"
        )
    if problems:
        raise InputError(problems)
    return found
