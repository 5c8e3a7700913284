"""Battles that people decided, from a file of an arena."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tournament_assets.adapters.battle_files.coding import of_dimension
from tournament_assets.adapters.battle_files.columns import (
    BATTLE_SCHEMA,
    battles_per_model,
    encode_battle_table,
)
from tournament_assets.adapters.battle_files.formats import FormatOptions
from tournament_assets.adapters.battle_files.registry import read_battles
from tournament_assets.tournament.errors import InputError

NOT_HUMAN = "decided by a model"


@dataclass(frozen=True, slots=True, eq=False)
class HumanBattles:
    """The human battles of a file among the entrants that fought enough of them.

    Attributes:
        table: The battles, with the columns of `BATTLE_SCHEMA`.
        entrants: Battles of each entrant among those kept, by name.
        too_few: Entrants that were left out, with the battles they had in the file.
        n_with_too_few: Battles that were left out with them.
        left_out: Other comparisons of the file that are not here, counted by the reason.
    """

    table: pa.Table
    entrants: Mapping[str, int]
    too_few: Mapping[str, int]
    n_with_too_few: int
    left_out: Mapping[str, int]


def read_human_battles(
    path: Path, *, format_name: str | None = None, min_battles: int = 1
) -> HumanBattles:
    """Read the battles of an arena file that people decided.

    Entrants with few battles are left out, one round after another: with them go battles of the
    others, who may have too few then. Everyone who stays has enough battles among those who stay.

    Args:
        path: The file, in any format of the registry.
        format_name: Its format; found out from the file if None.
        min_battles: The least number of battles of an entrant.

    Raises:
        InputError: If `min_battles` is less than 1, the file cannot be used, or nobody fought that
            many battles.
    """
    if min_battles < 1:
        raise InputError(f"min_battles is {min_battles!r}; expected a whole number of at least 1")
    file = read_battles(path, format_name=format_name, options=FormatOptions(source="human"))
    is_human = pc.equal(file.table.column("source").cast(pa.string()), "human")
    human = file.table.filter(is_human)
    left_out = dict(file.left_out)
    if n_others := file.table.num_rows - human.num_rows:
        left_out[NOT_HUMAN] = n_others
    in_file = battles_per_model(human)
    kept, entrants = human, in_file
    while too_few := {name for name, count in entrants.items() if count < min_battles}:
        kept = without_models(kept, too_few)
        entrants = battles_per_model(kept)
        # Whoever has no battle left is not in the table any more.
    if not kept.num_rows:
        raise InputError(
            f"{path}: no entrant has {min_battles} human battles with entrants that have as many; "
            f"expected some among {len(in_file)} entrants and {human.num_rows} human battles; "
            "lower the minimum"
        )
    return HumanBattles(
        table=kept,
        entrants=entrants,
        too_few={name: count for name, count in in_file.items() if name not in entrants},
        n_with_too_few=human.num_rows - kept.num_rows,
        left_out=left_out,
    )


def without_models(table: pa.Table, models: Collection[str]) -> pa.Table:
    """Return the battles in which none of some models took part."""
    names = pa.array(sorted(models), pa.string())
    takes_part = pc.or_(
        *(pc.is_in(table.column(side).cast(pa.string()), names) for side in ("model_a", "model_b"))
    )
    return table.filter(pc.invert(takes_part))


def on_prompts(table: pa.Table, question_ids: Collection[str]) -> pa.Table:
    """Return the battles on some prompts, so that only those become objects."""
    wanted = pa.array(sorted(question_ids), pa.string())
    return table.filter(pc.is_in(table.column("question_id"), wanted))


def join_battles(judged: pa.Table, human: pa.Table, *, dimension: str | None) -> pa.Table:
    """Return the judged battles on one dimension and after them all human ones, as if on it.

    Rated together they place the judged models among those of the arena; each battle still says
    who decided it.

    Args:
        judged: Battles of a tournament.
        human: Battles that people decided, who were asked for no dimension in particular.
        dimension: The judged quality.
    """
    place = BATTLE_SCHEMA.get_field_index("dimension")
    of_people = human.set_column(
        place,
        BATTLE_SCHEMA.field(place),
        pa.repeat(pa.scalar(dimension, pa.string()), human.num_rows).dictionary_encode(),
    )
    return encode_battle_table([of_dimension(judged, dimension), of_people])
