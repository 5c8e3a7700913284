"""`tournament init`, `configuration`, `ui` and `dagster-home`: what a run begins with.

For `configuration`, types, defaults and limits come from the pydantic models, and meanings from
their docstrings, so that nothing is documented twice. The documentation's site has what it prints.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import click
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaValue

from tournament_assets.cli import echo
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.extensions import added_rows_by_name
from tournament_assets.foundation.formatting import hint_at
from tournament_assets.judging.costs.prices import load_newest_prices
from tournament_assets.project.config_schema import models_below, write_schema
from tournament_assets.project.new_projects import (
    NewTournament,
    named_judge,
    sample_tournament,
    write_new_project,
    written_rubrics,
)
from tournament_assets.project.project_files import prepare_dagster_home
from tournament_assets.recorded.answer_tables import (
    ROLES,
    describe_answers,
    parse_columns,
    read_answers,
)
from tournament_assets.serving.ui_server import (
    TOKEN_VARIABLE,
    refuse_place,
    serve,
    server_start,
    with_pages_beside,
)
from tournament_assets.serving.web_access import address_of
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.judges import Judge

_INTRODUCTION = """\
# Configuration

Every key of a config, as `tournament configuration` prints it from the code. An unknown key, a
text where a number is expected, or a value outside its limits is refused with its line before
anything is spent. Keys in **bold** have no default. [`configs/demo.yaml`](../configs/demo.yaml) is
a config that runs; [entrants](entrants.md), [judging](judging.md), [operations](operations.md) and
[archives](archives.md) say when to change what.
"""
_LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "date": "date",
}


@click.command("init")
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "answers_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare the answers of this file: CSV, JSON lines or Parquet, a column for each entrant "
    "or a row for each answer.",
)
@click.option(
    "--columns",
    "columns",
    multiple=True,
    metavar="ROLE=COLUMN",
    help=f"What a column of the file holds, where its name does not say it: {', '.join(ROLES)}. "
    "Several columns hold responses where each entrant has its own. May be repeated.",
)
@click.option(
    "--judge",
    metavar="MODEL",
    help="Who judges: claude-…, gpt-…, gemini-…, ollama:MODEL, a server's URL with the model after "
    "it, as in http://HOST:PORT/v1#MODEL, or SERVICE:MODEL. By default the loopback judge, which "
    "costs nothing and compares words alone.",
)
@click.option(
    "--price",
    nargs=2,
    type=click.FloatRange(min=0),
    metavar="INPUT OUTPUT",
    help="What a million of the judge's tokens cost in US dollars, where the price list does not "
    "name it, or the server asks for something else.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    metavar="USD",
    help="The most that judging may cost.",
)
def init_command(
    folder: Path,
    answers_path: Path | None,
    columns: tuple[str, ...],
    judge: str | None,
    price: tuple[float, float] | None,
    budget: float | None,
) -> None:
    """Write a tournament that runs as it is to DIR, by default this folder.

    It is named after its folder. Its entrants' responses are recorded: those of the file, or a
    sample. Comments in its config say what to replace. No file is overwritten.
    """
    if answers_path is None:
        if columns:
            raise InputError("--columns is given and no file; expected --from FILE with it")
        tournament = sample_tournament()
    else:
        answers = read_answers(answers_path, columns=parse_columns(columns) or None)
        for line in describe_answers(answers, title=str(answers_path)):
            echo(line)
        tournament = NewTournament(answers, written_rubrics(None))
    name = judge or tournament.judge
    tournament = replace(tournament, judge=name, budget_usd=budget, price=price)
    asked = named_judge(name)
    if price is None and (budget is not None or asked.row.needs_price):
        _check_price(asked)
    project = write_new_project(folder, tournament)
    for path in project.files[: None if answers_path is None else 1]:
        echo(f"wrote {path}")
    if len(project.files) > 1 and answers_path is not None:
        echo(f"wrote {len(project.files) - 1} more files to {folder}")
    if answers_path is not None and not asked.row.is_language_model:
        echo(
            "judge: a stand-in that compares words, for trying it out; "
            "--judge claude-… --budget USD names a real one"
        )
    mode = "headline" if asked.is_free or budget is not None else "pilot"
    echo(f"next: tournament run --config {shlex.quote(str(project.config))} --mode {mode}")


def _check_price(judge: Judge) -> None:
    """Refuse a judge whose runs would be refused because nobody knows what it costs."""
    prices = load_newest_prices()
    if not judge.is_free and judge.model not in prices.models:
        raise InputError(
            f"the judge is {judge.model!r}, and the price list of {prices.date} does not name it; "
            "expected what a million of its tokens cost; add --price INPUT OUTPUT in US dollars, "
            f"such as --price 2.0 8.0{hint_at(judge.model, prices.models, cutoff=0.8)}"
        )


@click.command("configuration")
@click.option(
    "--json-schema",
    "prints_schema",
    is_flag=True,
    help="Print the JSON Schema of a config instead, by which editors complete and check its keys.",
)
def configuration_command(prints_schema: bool) -> None:
    """Print every key of a config with its type, its default and its meaning, as Markdown."""
    click.echo(write_schema() if prints_schema else render_page(), nl=False)


def render_page() -> str:
    """Return the page as Markdown."""
    parts = [_INTRODUCTION]
    seen: set[str] = set()
    roots: dict[str, type[BaseModel]] = {"A tournament": TournamentConfig}
    for title, root in {**roots, **added_rows_by_name("configs", roots)}.items():
        parts.append(f"## {title}\n")
        models = models_below(root)
        for name in _names_below(root.__name__, models):
            if name not in seen:
                seen.add(name)
                head = "" if name == root.__name__ else f"### {name}\n\n"
                parts.append(head + _section(name, models[name]))
    return "\n".join(parts)


def _names_below(name: str, models: Mapping[str, JsonSchemaValue]) -> Iterator[str]:
    """Yield a model's name and those of all models in its keys, parents first, some twice."""
    yield name
    for inner in re.findall(r"#/\$defs/(\w+)", str(models[name]["properties"])):
        if inner in models:
            yield from _names_below(inner, models)


def _section(name: str, model: JsonSchemaValue) -> str:
    keys: Mapping[str, JsonSchemaValue] = model["properties"]
    missing = [key for key, rules in keys.items() if "description" not in rules]
    if missing:
        raise ValueError(
            f"{name} does not say what {', '.join(missing)} means; "
            "expected a line for each key under Attributes in its docstring"
        )
    lines = [f"{model['description']}\n", "| key | type | default | meaning |", "|---|---|---|---|"]
    for key, rules in keys.items():
        is_required = key in model.get("required", ())
        shown = f"**`{key}`**" if is_required else f"`{key}`"
        default = "" if is_required else _shown_default(rules)
        cells = (_escape(cell) for cell in (_shown_type(rules), default, rules["description"]))
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _shown_default(rules: JsonSchemaValue) -> str:
    default = rules.get("default")
    if "$ref" in rules:
        return "its own defaults"
    if default is None or default in ("", {}):
        return "none"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, str) and (len(default) > 40 or "\n" in default):
        return "a built-in text"
    if isinstance(default, list):
        return ", ".join(f"`{value}`" for value in default) or "none"
    return f"`{default}`"


def _shown_type(rules: JsonSchemaValue) -> str:
    """Say which values a part of the JSON Schema takes."""
    if "$ref" in rules:
        name = rules["$ref"].rpartition("/")[2]
        return "any value" if name == "JsonValue" else f"[{name}](#{name.lower()})"
    if parts := rules.get("anyOf", [each["then"] for each in rules.get("allOf", ())]):
        return " or ".join(_shown_type(part) for part in parts if part != {"type": "null"})
    if values := rules.get("enum", [rules["const"]] if "const" in rules else []):
        return " or ".join(f"`{value}`" for value in values)
    if "items" in rules:
        return f"list of {_shown_type(rules['items'])}"
    if rules["type"] == "object":
        values = [*rules.get("patternProperties", {}).values(), rules["additionalProperties"]]
        return f"mapping to {_shown_type(values[0])}"
    name = _TYPES[str(rules.get("format", rules["type"]))]
    limits = [f"{sign} {rules[limit]}" for limit, sign in _LIMITS.items() if limit in rules]
    return ", ".join([name, *limits])


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


@click.command("ui")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="A config of the project to serve; by default the project in this folder.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help=f"The address to serve on; any but this machine's needs a secret in {TOKEN_VARIABLE}.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=3000,
    show_default=True,
    help="The port to serve on.",
)
@click.option(
    "--daemon",
    is_flag=True,
    help="Serve no pages: only fire schedules and sensors, and start what they and others queue.",
)
def ui_command(config_path: Path | None, host: str, port: int, daemon: bool) -> None:
    """Serve the graph and its runs in the browser, and fire schedules and sensors.

    It is Dagster's own UI, with the runs of `tournament run`, and on the next free port the site of
    all reports. In a Dagster project that has the tournament as a component, it serves all of that
    project. No other site's page can use it. Ctrl-C ends it.
    """
    start = server_start(config_path, os.environ)
    if daemon:
        echo("the daemon, without pages; Ctrl-C ends it")
    else:
        refuse_place(host, port, start.environment)
        start = with_pages_beside(start, port)
        echo(f"{address_of(host, port)}, in a few seconds; Ctrl-C ends it")
        for number, (_, words) in start.beside.items():
            echo(f"{address_of('127.0.0.1', number)}: {words}")
        if start.environment.get(TOKEN_VARIABLE):
            echo(f"add /?token= and the secret in {TOKEN_VARIABLE} to it, once per browser")
    sys.stdout.flush()
    click.get_current_context().exit(serve(start, None if daemon else (host, port)))


@click.command("dagster-home")
def dagster_home_command() -> None:
    """Print the folder in which Dagster keeps its runs, and create it if necessary."""
    project = Path(os.environ.get("TOURNAMENT_PROJECT") or Path.cwd())
    echo(str(prepare_dagster_home(project, os.environ.get("DAGSTER_HOME"))))
