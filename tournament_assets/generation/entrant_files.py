"""The files that an entrant is loaded from, what is missing, and their hash; all without torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tournament_assets.generation.weights import (
    fingerprint_file,
    fingerprint_weights,
    is_lfs_pointer,
)
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.tournament.hydra_entrants import NeededShards

_WILDCARDS = frozenset("*?[")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class EntrantFiles:
    """What an entrant is loaded from.

    Attributes:
        weights: The folder of the model, or of the base model.
        shards: The LoRA shards of each adapter by its name, one file per head, in order.
    """

    weights: Path
    shards: Mapping[str, Sequence[Path]] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything in them that a response depends on, heads in their order.

        Raises:
            InputError: If the folder holds nothing to load.
        """
        base = fingerprint_weights(self.weights)
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
