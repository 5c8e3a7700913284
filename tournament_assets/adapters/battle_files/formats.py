"""What every battle format can do: tell its files, read one, write one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from tournament_assets.adapters.battle_files.files import FileSample
from tournament_assets.tournament.battles import BattleSource
from tournament_assets.tournament.rating_settings import RatingSettings


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """What a file may not say itself.

    Attributes:
        source: Who decided; None takes the format's word for it.
        baseline: The model that every other one was compared with.
        prompt_column: The column, or key, that names the prompt; None for those of the format.
    """

    source: BattleSource | None = None
    baseline: str | None = None
    prompt_column: str | None = None

    def prompt_names(self, usual: Sequence[str]) -> Sequence[str]:
        """Return the columns that may name the prompt.

        Args:
            usual: Those of the format, where nobody says which.
        """
        return usual if self.prompt_column is None else (self.prompt_column,)


@dataclass(frozen=True, slots=True, eq=False)
class BattleFile:
    """What a file of battles holds.

    Attributes:
        format: The format's name.
        table: The battles, with the columns of `BATTLE_SCHEMA`.
        left_out: Comparisons that are no battles, counted by the reason.
        settings: How the battles were rated; None where the file does not say.
    """

    format: str
    table: pa.Table
    left_out: Mapping[str, int]
    settings: RatingSettings | None = None


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What became of battles on the way into a file.

    Attributes:
        n_written: Battles in the file.
        left_out: Battles that the format cannot hold, counted by the reason.
        lost: Battles of which one value could not be written, counted by the value's name.
    """

    n_written: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)


class BattleFormat(Protocol):
    """A way to write battles down."""

    @property
    def name(self) -> str:
        """What the format is called on the command line."""
        ...

    @property
    def title(self) -> str:
        """Whose files they are, for messages."""
        ...

    def recognises(self, sample: FileSample) -> bool:
        """Say whether a file that begins like this is of the format."""
        ...

    def read(self, path: Path, options: FormatOptions) -> BattleFile:
        """Read a file.

        Raises:
            InputError: With everything that is wrong with it, the first 50 spelled out.
        """
        ...

    def write(
        self, path: Path, table: pa.Table, options: FormatOptions, settings: RatingSettings | None
    ) -> WriteReport:
        """Write a new file.

        Raises:
            InputError: If the file is there already, or the format cannot hold such battles.
        """
        ...
