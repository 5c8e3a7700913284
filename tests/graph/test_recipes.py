"""What is out of date, against a program that makes everything anew and compares the bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from random import Random

import pytest

from tests.projects import make_project
from tournament_assets.graph.partitions import edge_between
from tournament_assets.graph.recipes import (
    Place,
    Recipe,
    find_out_of_date,
    join_partition,
    places_read,
    recipe_of,
)
from tournament_assets.graph.rows import AssetRow, axis_names
from tournament_assets.graph.table import jobs_of, rows_of
from tournament_assets.project.plan import TournamentPlan, load_plan

HISTORIES = 50
EDITS = 4


@dataclass
class Model:
    """A tournament whose assets hold what they were made from, and nothing else.

    Attributes:
        n_values: How many values a partition can have; None for as many as it can be made from.
    """

    plan: TournamentPlan
    n_values: int | None = None
    rows: Mapping[str, AssetRow] = field(default_factory=dict)
    inputs: dict[Place, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    contents: dict[Place, str] = field(default_factory=dict)
    recipes: dict[Place, Recipe] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = {name: row for name, row in rows_of(self.plan).items() if not row.on_request}
        for place in self.places(*(name for name, row in self.rows.items() if is_read(row))):
            self.inputs[place] = "as it was"

    def places(self, *names: str) -> list[Place]:
        return [
            Place(name, join_partition(dict(zip(axes, values, strict=True))))
            for name in names
            for axes in [self.rows[name].axes]
            for values in product(*(axis_names(self.plan.config, axis) for axis in axes))
        ]

    @property
    def stages(self) -> list[list[str]]:
        names = [
            [name for name, row in self.rows.items() if row.job == job.name and not is_read(row)]
            for job in jobs_of(self.plan)
        ]
        return [each for each in names if each]

    def reads(self, place: Place) -> tuple[Place, ...]:
        return places_read(self.plan, self.rows, place)

    def made(self, place: Place, contents: Mapping[Place, str]) -> str:
        """What a partition holds, made of what is stored."""
        read = [self.inputs.get(each) or contents[each] for each in self.reads(place)]
        text = sha256(repr([place, self.settings.get(place.asset), read]).encode()).hexdigest()
        return text if self.n_values is None else str(int(text, 16) % self.n_values)

    def recipe(self, place: Place) -> Recipe:
        versions = {
            each: self.inputs.get(each) or self.contents.get(each) for each in self.reads(place)
        }
        return recipe_of(self.settings.get(place.asset), versions)

    def rerun(self) -> set[Place]:
        """Make what is out of date, stage after stage, and return it."""
        remade: set[Place] = set()
        for names in self.stages:
            found = find_out_of_date(
                self.places(*names), reads=self.reads, recipe=self.recipe, kept=self.recipes.get
            )
            for place in found:
                self.recipes[place] = self.recipe(place)
                self.contents[place] = self.made(place, self.contents)
            remade.update(found)
        return remade

    def naive(self) -> dict[Place, str]:
        """Make everything anew."""
        contents: dict[Place, str] = {}
        for place in self.places(*(name for names in self.stages for name in names)):
            contents[place] = self.made(place, contents)
        return contents

    def edit(self, random: Random) -> None:
        kind = random.choice(["input", "input", "settings", "lost"])
        if kind == "input":
            self.inputs[random.choice([*self.inputs])] = random.choice(["as it was", "a", "b"])
        elif kind == "settings":
            made = [name for names in self.stages for name in names]
            self.settings[random.choice(made)] = random.choice(["default", "other"])
        elif self.contents:
            lost = random.choice([*self.contents])
            del self.contents[lost], self.recipes[lost]


def is_read(row: AssetRow) -> bool:
    return row.stored_as == "file"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> TournamentPlan:
    folder: Path = tmp_path_factory.mktemp("recipes") / "project"
    return load_plan(make_project(folder).config_path, {})


def hold_history(plan: TournamentPlan, seed: int, n_values: int | None) -> None:
    """Edit at random, rerun, and compare with everything made anew."""
    random, model = Random(seed), Model(plan, n_values)
    assert model.rerun() == {*model.naive()}
    assert model.rerun() == set()
    for _ in range(EDITS):
        before = {**model.contents}
        for _ in range(random.randint(1, 3)):
            model.edit(random)
        lost = before.keys() - model.contents.keys()
        naive = model.naive()
        differs = {place for place, content in naive.items() if before[place] != content}
        remade = model.rerun()
        assert model.contents == naive, seed
        if n_values is None:
            follow_lost = {
                place for place in remade - differs - lost if follows(model, place, lost)
            }
            assert remade == differs | lost | follow_lost, seed
        else:
            assert remade >= differs | lost, seed


def follows(model: Model, place: Place, lost: set[Place]) -> bool:
    """Whether a lost partition of the same stage leads to one: it is made with what it reads."""
    stage = model.rows[place.asset].job
    return any(
        each in lost or follows(model, each, lost)
        for each in model.reads(place)
        if each.asset in model.rows and model.rows[each.asset].job == stage
    )


@pytest.mark.parametrize("n_values", [None, 2])
def test_what_is_rerun_is_what_a_program_that_makes_everything_finds_different(
    plan: TournamentPlan, n_values: int | None
) -> None:
    for seed in range(HISTORIES):
        hold_history(plan, seed, n_values)


@pytest.mark.e2e
@pytest.mark.parametrize("n_values", [None, 2])
def test_a_thousand_histories_agree(plan: TournamentPlan, n_values: int | None) -> None:
    for seed in range(1000):
        hold_history(plan, seed, n_values)


def test_what_a_partition_reads_is_what_dagster_loads_for_it(plan: TournamentPlan) -> None:
    rows = rows_of(plan)
    assert set(places_read(plan, rows, Place("judge_replies", "factuality|pilot"))) == {
        Place("match_list", "factuality|pilot"),
        Place("rubrics", "factuality"),
        Place("judging_estimate", "pilot"),
        Place("judge_requests", "pilot"),
    }
    read = partial(places_read, plan, rows)
    for row in rows.values():
        for name, source in row.inputs_among(rows).items():
            over = edge_between(rows[name].axes, row.axes, over=source.over).over
            names = axis_names(plan.config, over) if over else ("",)
            values = {axis: axis_names(plan.config, axis)[0] for axis in row.axes}
            found = [p for p in read(Place(row.name, join_partition(values))) if p.asset == name]
            assert len(found) == len(names), (row.name, name)
