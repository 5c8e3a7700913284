"""Human battles from an arena's file, and the entrants' places among its models.

Entrants are rated from the judge's battles, from human battles, and from both together. Only
differences of Bradley-Terry ratings have a meaning, so all three are shifted to the arena's scale
by an entrant that all of them rate.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from tournament_assets.battles.columns import (
    BATTLE_SCHEMA,
    battles_per_model,
    encode_battle_table,
    of_dimension,
)
from tournament_assets.battles.files import FormatOptions
from tournament_assets.battles.rating import BattleRatings, anchor_ratings, rate_table
from tournament_assets.battles.registry import read_battles
from tournament_assets.extras.people.config_keys import HumanBattlesConfig, people_keys
from tournament_assets.extras.people.methods import ARENA
from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.formatting import hint_at
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.asset_rows import RatingRow
from tournament_assets.tournament.battles import RatingSettings

NOT_HUMAN = "decided by a model"


@dataclass(frozen=True, slots=True, eq=False)
class HumanBattles:
    """The human battles of a file among the entrants that have enough of them.

    Attributes:
        table: The battles, with the columns of `BATTLE_SCHEMA`.
        entrants: How many of these battles each entrant has, by name.
        too_few: Entrants that were left out, with their number of battles in the file.
        n_with_too_few: How many battles were left out with them.
        left_out: The file's other omitted comparisons, counted by reason.
        note: Which filled columns of the file are not used; empty without any.
    """

    table: pa.Table
    entrants: Mapping[str, int]
    too_few: Mapping[str, int]
    n_with_too_few: int
    left_out: Mapping[str, int]
    note: str = ""


def read_human_battles(path: Path, arena: HumanBattlesConfig) -> HumanBattles:
    """Read the battles of an arena file that people decided.

    Leaving out an entrant with too few battles can leave others with too few, so this is repeated
    until everyone kept has enough battles against the others kept.

    Args:
        path: Where `arena.file` is.
    """
    min_battles = arena.min_battles
    file = read_battles(path, format_name=arena.format, options=FormatOptions(source="human"))
    is_human = pc.equal(file.table.column("source").cast(pa.string()), "human")
    human = _renamed(file.table.filter(is_human), arena.names, path)
    left_out = dict(file.left_out)
    if n_others := file.table.num_rows - human.num_rows:
        left_out[NOT_HUMAN] = n_others
    in_file = battles_per_model(human)
    table, entrants = human, in_file
    while too_few := {name for name, count in entrants.items() if count < min_battles}:
        table = without_models(table, too_few)
        entrants = battles_per_model(table)
        # An entrant with no battle left is gone from the table.
    if not table.num_rows:
        raise InputError(
            f"{path}: no entrant has {min_battles} human battles with entrants that have as many; "
            f"expected some among {len(in_file)} entrants and {human.num_rows} human battles; "
            "lower the minimum"
        )
    return HumanBattles(
        table=table,
        entrants=entrants,
        too_few={name: count for name, count in in_file.items() if name not in entrants},
        n_with_too_few=human.num_rows - table.num_rows,
        left_out=left_out,
        note=file.note,
    )


def _renamed(table: pa.Table, names: Mapping[str, str], path: Path) -> pa.Table:
    """Rename some models; no two may end up with the same name."""
    if not names:
        return table
    in_file = battles_per_model(table)
    problems = Problems()
    for name, new_name in names.items():
        if name not in in_file:
            problems.add(
                f"{path}: {name!r}, the name of {new_name!r}, is in no human battle; expected "
                f"one of the file's {len(in_file)} entrants{hint_at(name, in_file)}"
            )
        elif new_name in in_file and new_name not in names:
            problems.add(
                f"{path}: {name!r} is the name of {new_name!r}, and another entrant of the file "
                f"has the name {new_name!r}; expected one name for each entrant; rename the "
                "entrant, or drop the name"
            )
    problems.raise_if_any()
    for side in ("model_a", "model_b"):
        renamed = [
            pa.DictionaryArray.from_arrays(
                chunk.indices,
                pa.array([names.get(each, each) for each in chunk.dictionary.to_pylist()]),
            ).cast(pa.string())
            for chunk in table.column(side).chunks
        ]
        # Encoded again: the dictionary may already hold the new name, from omitted battles.
        column = pa.chunked_array(renamed, pa.string()).dictionary_encode()
        place = BATTLE_SCHEMA.get_field_index(side)
        table = table.set_column(place, BATTLE_SCHEMA.field(side), column)
    return table


def without_models(table: pa.Table, models: Collection[str]) -> pa.Table:
    """Return the battles in which none of the given models took part."""
    names = pa.array(sorted(models), pa.string())
    takes_part = pc.or_(
        *(pc.is_in(table.column(side).cast(pa.string()), names) for side in ("model_a", "model_b"))
    )
    return table.filter(pc.invert(takes_part))


def on_prompts(table: pa.Table, question_ids: Collection[str]) -> pa.Table:
    """Return the battles on the given prompts, so that only those become objects."""
    ids = pa.array(sorted(question_ids), pa.string())
    return table.filter(pc.is_in(table.column("question_id"), ids))


def battles_that_count(human: pa.Table, dimension: str, *, dimensions: Collection[str]) -> pa.Table:
    """Return the human battles that count for one of a tournament's dimensions.

    Those on another of its dimensions do not; those on no dimension, or on one the tournament does
    not have, count for every dimension.
    """
    others = pa.array(sorted(set(dimensions) - {dimension}), pa.string())
    is_other = pc.is_in(human.column("dimension").cast(pa.string()), others)
    return human.filter(pc.invert(is_other))


def join_battles(judged: pa.Table, human: pa.Table, *, dimension: str | None) -> pa.Table:
    """Return the judged battles on one dimension, then all human ones as if they were on it.

    Rated together, they place the judged models among the arena's; each battle still says who
    decided it.
    """
    place = BATTLE_SCHEMA.get_field_index("dimension")
    of_people = human.set_column(
        place,
        BATTLE_SCHEMA.field(place),
        pa.repeat(pa.scalar(dimension, pa.string()), human.num_rows).dictionary_encode(),
    )
    return encode_battle_table([of_dimension(judged, dimension), of_people])


Basis = Literal["judge", "human", "both"]
BASES: tuple[Basis, ...] = ("judge", "human", "both")

OWN_SCALE = "on a scale of its own: compare within the basis alone"
_NO_BATTLE: Mapping[Basis, str] = {
    "judge": "no judged pair",
    "human": "no human battle among those kept",
    "both": "neither a judged pair nor a human battle",
}


@dataclass(frozen=True, slots=True)
class ArenaPlaces:
    """The ratings on every basis.

    Attributes:
        rows: Rows of table "people_ratings", by basis and then best first.
        anchors: The entrant by which a basis was shifted to the arena's scale; None if it shares no
            rated entrant with the human basis, so that it keeps a scale of its own.
        n_battles: How many battles each basis has.
        notes: What a reader of the ratings from human battles should know.
    """

    rows: tuple[RatingRow, ...]
    anchors: Mapping[Basis, str | None]
    n_battles: Mapping[Basis, int]
    notes: tuple[str, ...]


def place_in_arena(
    judged: pa.Table, human: pa.Table, *, dimension: str, settings: RatingSettings
) -> ArenaPlaces:
    """Rate everyone from the judge's battles, from the human ones and from both.

    Args:
        judged: The judge's battles on the dimension.
        human: The human battles that count for it.
        settings: How they are rated; its entrants are those under test, all others come from the
            human battles.
    """
    evaluated = settings.entrants
    arena = battles_per_model(human)
    everyone = (*evaluated, *(name for name in arena if name not in evaluated))
    tables: dict[Basis, tuple[pa.Table, tuple[str, ...]]] = {
        "judge": (judged, evaluated),
        "human": (join_battles(judged.slice(0, 0), human, dimension=dimension), everyone),
        "both": (join_battles(judged, human, dimension=dimension), everyone),
    }
    rated = {
        basis: rate_table(
            table,
            settings=replace(settings, entrants=entrants, dimensions=(dimension,)),
            dimensions=(dimension,),
            methods=("bradley-terry",),
        )[0]
        for basis, (table, entrants) in tables.items()
    }
    ratings = {basis: _ratings_of(fit) for basis, fit in rated.items()}
    anchors = _find_anchors(ratings, n_human=arena)
    rows: list[RatingRow] = []
    for basis in BASES:
        n_battles = battles_per_model(tables[basis][0])
        fit, anchor = rated[basis], anchors[basis]
        scale_note = None if basis == "human" or anchor is not None else OWN_SCALE
        if anchor is not None:
            fit = anchor_ratings(fit, model=anchor, rating=ratings["human"][anchor])
        rows.extend(
            replace(
                row,
                method=ARENA.name,
                basis=basis,
                n=n_battles.get(row.entrant_id, 0),
                note=(row.note or scale_note) if row.entrant_id in n_battles else _NO_BATTLE[basis],
            )
            for row in fit.ratings
        )
    return ArenaPlaces(
        rows=tuple(rows),
        anchors=anchors,
        n_battles={basis: table.num_rows for basis, (table, _) in tables.items()},
        notes=rated["human"].notes,
    )


def _find_anchors(
    ratings: Mapping[Basis, Mapping[str, float]], *, n_human: Mapping[str, int]
) -> dict[Basis, str | None]:
    """Choose the entrants by which the other bases are shifted to the scale of the human battles.

    An entrant that every basis rates is best, because it then has the same rating in all of them.
    Otherwise, a basis is anchored by an entrant it shares with the human one. Among several, the
    one with the most human battles is taken, then the first by name.
    """

    def best_known(entrants: Collection[str]) -> str | None:
        return min(entrants, key=lambda name: (-n_human.get(name, 0), name), default=None)

    shared = {basis: ratings["human"].keys() & ratings[basis].keys() for basis in BASES}
    by_all = best_known(shared["judge"] & shared["both"])
    return {
        "judge": by_all or best_known(shared["judge"]),
        "human": None,
        "both": by_all or best_known(shared["both"]),
    }


def _ratings_of(fit: BattleRatings) -> dict[str, float]:
    return {row.entrant_id: row.rating for row in fit.ratings if row.rating is not None}


def load_human_battles(plan: TournamentPlan) -> HumanBattles | None:
    """Read the human battles that a config names, if any."""
    arena = people_keys(plan.config).human_battles
    if arena is None:
        return None
    path = plan.project.resolve(arena.file, what="the file of human battles")
    return read_human_battles(path, arena)
