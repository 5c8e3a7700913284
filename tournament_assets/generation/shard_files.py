"""Loads the tensors in a file of LoRA weights, and never runs code that the file may hold."""

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from tournament_assets.generation.weights import is_lfs_pointer
from tournament_assets.tournament.errors import InputError

_GLOBAL = re.compile(r"GLOBAL (\S+)")


def load_shard_file(path: Path) -> Mapping[Any, Any]:
    """Return what a file holds by its keys, which are not checked, on the CPU.

    Args:
        path: A safetensors file, which is preferred, or a `.pt` file written by `torch.save`.

    Raises:
        InputError: If the file is missing, damaged, a Git-LFS pointer, or holds pickled objects.
    """
    name = f"LoRA shard {str(path)!r}"
    if not path.is_file():
        raise InputError(f"{name} is no file; expected one; download it or correct the path")
    if is_lfs_pointer(path):
        raise InputError(
            f"{name} is a Git-LFS pointer; expected the content itself; "
            "run 'git lfs pull' in that checkout"
        )
    if path.suffix == ".safetensors":
        return _load_safetensors(path, name=name)
    if path.suffix == ".pt":
        return _load_pickle(path, name=name)
    raise InputError(
        f"{name} ends in {path.suffix!r}; expected '.safetensors' or '.pt'; "
        "save the adapter's tensors as safetensors"
    )


def _load_safetensors(path: Path, *, name: str) -> Mapping[Any, Any]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise InputError(
            f"{name} cannot be read: {error}; expected a safetensors file; download it again"
        ) from error


def _load_pickle(path: Path, *, name: str) -> Mapping[Any, Any]:
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # torch's own message recommends loading with the check switched off: it is not passed on.
        named = _GLOBAL.search(str(error))
        found = f", {named[1]} among them" if named else ""
        raise InputError(
            f"{name} holds pickled objects that are no tensors{found}; they could run code, and "
            "none was loaded; expected a state dict of tensors alone; "
            "save the adapter's tensors as safetensors"
        ) from error
    # A damaged file makes torch raise almost anything: KeyError, EOFError, RuntimeError.
    except Exception as error:
        raise InputError(
            f"{name} cannot be read: {type(error).__name__}; "
            "expected a state dict written by torch.save; download it again"
        ) from error
    if not isinstance(loaded, dict):
        raise InputError(
            f"{name} holds a {type(loaded).__name__}; expected a state dict of tensors; "
            "save the adapter's tensors as safetensors"
        )
    return loaded
