"""The JSON Schema of a config: it accepts what loading accepts, and refuses what a key shows."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tournament_assets.cli import main
from tournament_assets.project.config_files import config_problems
from tournament_assets.project.config_schema import SCHEMA_FILE, write_schema
from tournament_assets.project.new_projects import write_new_project
from tournament_assets.tournament.config import TournamentConfig

from .test_config_files import GOOD

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml")) + sorted(ROOT.glob("configs/examples/*.yaml"))
COMPONENT = ROOT / "tournament_assets" / "data" / "component" / "defs.yaml"
EVERY_KEY = """\
tournament_id: every
prompt_bank: {env: BANK}
modes:
  pilot: {share: 0.1, judges: [a], schedule: {cron: 0 6 * * 1, time_zone: Europe/Berlin}}
  headline: {strata: {recall: 3}, channel: direct, prewarm: false}
  our_own: {}
dimensions: {safety: {rubric: r.txt, needs_gold_answer: true, shows_gold_answer: true}}
judges:
  - {service: loopback, model: loopback-a, name: a}
  - {service: anthropic, model: claude-b, max_tokens: 4096, thinking: {budget: 1024}}
  - {service: openai_batch, model: gpt-c, effort: low, query: {api-version: '2024'}}
  - {service: openai_api, model: d, share: 0.5, base_url: 'http://d/v1', headers: {x-a: b}}
judging:
  budget: {usd: unlimited}
  aggregate: equal
  prices: {gpt-c: {input: 1, output: 2.5}}
  experts: Köche & Ärzte
entrants:
  - {entrant_id: größe, loader: openai_api, base_url: 'http://e/v1', model: e, stop: [END]}
  - {entrant_id: f-2, loader: openai_api, base_url: {env: F}, model: f, extra_body: {k: [1]}}
  - {entrant_id: g, loader: anthropic_api, model: claude-g, temperature: 1, strip: think}
  - {entrant_id: h, loader: recorded, responses: {asset: a/h}, columns: {prompt: q, response: a}}
  - {entrant_id: i, loader: vanilla_hf, weights: {path: w, env: null}, template_date: 2026-01-31}
  - entrant_id: j
    loader: custom_poe
    weights: {builtin: w}
    hydra: {heads_depth: 1, n_heads: 2, security: {folder: {path: s}, rank: 8}}
generation: {batch_size: auto}
ratings: {k_sweep: [1, 2.5]}
checks: {max_flip_bias: null}
gate: {candidate: g, baseline: h, dimensions: [safety]}
families: {g: claude}
owners: ['team:evaluation']
"""
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    7,
    0.25,
    1e9,
    "",
    "no",
    "Ünï 1",
    [],
    ["a"],
    [1],
    {},
    {"a": 1},
)


@cache
def validator() -> Any:
    schema = json.loads(write_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def as_json(values: Any) -> Any:
    """Return what an editor sees, which knows no dates."""
    return json.loads(json.dumps(values, default=str))


def refused_by_schema(values: Any) -> list[str]:
    return [f"{each.json_path}: {each.message}" for each in validator().iter_errors(values)]


def refused_by_a_key(values: Any) -> set[str]:
    """Return the kinds of problems that loading finds in single keys."""
    try:
        TournamentConfig.model_validate(values)
    except ValidationError as error:
        return {each["type"] for each in error.errors()} - {"value_error"}
    return set()


def is_refused(values: Any) -> bool:
    try:
        TournamentConfig.model_validate(values)
    except ValidationError:
        return True
    return bool(config_problems(values))


def places_in(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    if isinstance(value, (Mapping, list)):
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, inner in pairs:
            yield from places_in(inner, (*place, key))


def keys_of_models(schema: Any) -> list[str]:
    return sorted({key for each in schema["$defs"].values() for key in each.get("properties", ())})


@st.composite
def mutated_configs(draw: st.DrawFn) -> Any:
    """Draw a valid config in which one or two values, keys or items are changed."""
    values = yaml.safe_load(draw(st.sampled_from([GOOD, EVERY_KEY, *map(Path.read_text, CONFIGS)])))
    known = keys_of_models(validator().schema)
    for _ in range(draw(st.integers(1, 2))):
        *around, last = draw(st.sampled_from([*places_in(values)][1:]))
        parent = values
        for key in around:
            parent = parent[key]
        change = draw(st.sampled_from(("replace", "replace", "remove", "add", "nudge")))
        if change == "replace":
            parent[last] = deepcopy(draw(st.sampled_from(ODD)))
        elif change == "remove":
            del parent[last]
        elif change == "add" and isinstance(parent, dict):
            parent[draw(st.sampled_from(known))] = deepcopy(draw(st.sampled_from(ODD)))
        elif type(parent[last]) in (int, float):
            parent[last] *= draw(st.sampled_from((-1, 0, 0.5, 1_000)))
    return without_what_json_cannot_tell(values)


def without_what_json_cannot_tell(value: Any) -> Any:
    """Return values with every whole float as an integer, and without a date that is none."""
    if isinstance(value, list):
        return [without_what_json_cannot_tell(each) for each in value]
    if isinstance(value, dict):
        return {
            key: without_what_json_cannot_tell(each)
            for key, each in value.items()
            if key != "template_date" or isinstance(each, date)
        }
    return int(value) if type(value) is float and value.is_integer() else value


@given(mutated_configs())
def test_what_a_key_shows_loading_and_the_schema_refuse_alike(values: Any) -> None:
    problems = refused_by_schema(as_json(values))
    if kinds := refused_by_a_key(values):
        assert problems, kinds
    if problems:
        assert is_refused(values), problems


def test_every_config_of_the_project_is_accepted_by_another_tool(tmp_path: Path) -> None:
    component = yaml.safe_load(COMPONENT.read_text())["attributes"]["config"]
    texts = {"good": GOOD, "every": EVERY_KEY, "component": yaml.safe_dump(component)}
    new = write_new_project(tmp_path / "new").config
    for name, text in texts.items():
        values = {**yaml.safe_load(text), "tournament_id": name}
        assert not is_refused(values)
        (tmp_path / f"{name}.yaml").write_text(text.replace("$tournament_id", name))
    paths = [*CONFIGS, new, *sorted(tmp_path.glob("*.yaml"))]
    assert len(paths) == 10
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile"]
    done = subprocess.run(
        [*command, new.parent / SCHEMA_FILE, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


REFUSED_BY_SEVERAL_KEYS = {
    "a place named in two ways": ("prompt_bank: {env: BANK", "prompt_bank: {env: BANK, path: b"),
    "a place named in no way": ("prompt_bank: {env: BANK", "prompt_bank: {source: B"),
    "an address that is a variable and a URL": ("{env: F}", "{env: F, url: 'http://f/v1'}"),
    "a service that is unknown": ("service: openai_batch", "service: opanai"),
    "one entrant": (
        "entrants:\n",
        "entrants: [{entrant_id: g, loader: anthropic_api, model: claude-g}]\ndescription: |\n",
    ),
    "no pilot": ("  pilot: {share: 0.1, judges: [a], schedule", "  plot: {schedule"),
    "a mode of another form": ("our_own", "Our-Own"),
    "a setting that the service does not take": (
        "model: gpt-c, ",
        "model: gpt-c, thinking: disabled, ",
    ),
    "an address of a service on this machine": (
        "model: loopback-a",
        "model: loopback-a, base_url: 'http://a/v1'",
    ),
    "a model of another service": ("model: loopback-a", "model: gpt-a"),
    "a name of two words": ("entrant_id: größe", "entrant_id: sehr groß"),
}


@pytest.mark.parametrize(
    ("old", "new"), REFUSED_BY_SEVERAL_KEYS.values(), ids=REFUSED_BY_SEVERAL_KEYS
)
def test_the_schema_refuses_what_validators_refuse_of_a_place_a_mode_and_a_judge(
    old: str, new: str
) -> None:
    assert EVERY_KEY.count(old) == 1
    values = yaml.safe_load(EVERY_KEY.replace(old, new))
    assert is_refused(values)
    assert refused_by_schema(as_json(values))


def test_a_new_project_has_the_schema_that_its_config_names_first(tmp_path: Path) -> None:
    config = write_new_project(tmp_path).config
    first, *_ = config.read_text().splitlines()
    assert first == f"# yaml-language-server: $schema={SCHEMA_FILE}"
    assert (config.parent / SCHEMA_FILE).read_text() == write_schema()
    printed = CliRunner().invoke(main, ["configuration", "--json-schema"])
    assert printed.output == write_schema()


def test_every_key_of_the_schema_has_its_meaning() -> None:
    models = {"": validator().schema, **validator().schema["$defs"]}
    models |= {"ServerAddress": models["ServerAddress"]["anyOf"][1]}
    keys = {
        (name, key): rules
        for name, model in models.items()
        for key, rules in model.get("properties", {}).items()
    }
    assert [key for key, rules in keys.items() if not rules.get("description")] == []
    assert r"[\\w" not in json.dumps(models)
    assert "Köche" in EVERY_KEY
