"""`tournament init`, `configuration`, `ui` and `dagster-home`: what a run begins with.

For `configuration`, types, defaults and limits come from the pydantic models, and meanings from
their docstrings, so that nothing is documented twice. The documentation's site has what it prints.
"""

import inspect
import os
import shlex
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tournament_assets.cli import echo
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.extensions import added_rows, added_rows_by_name
from tournament_assets.foundation.formatting import hint_at
from tournament_assets.judging.costs.prices import load_newest_prices
from tournament_assets.project.config_schema import meanings_of, summary_of, write_schema
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
)
from tournament_assets.serving.web_access import address_of
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.judge_services import ServiceName
from tournament_assets.tournament.judges import Judge

_INTRODUCTION = """\
# Configuration

Every key of a config, as `tournament configuration` prints it from the code. An unknown key, a
text where a number is expected, or a value outside its limits is refused with its line before
anything is spent. Keys in **bold** have no default. [`configs/demo.yaml`](../configs/demo.yaml) is
a config that runs; [entrants](entrants.md), [judging](judging.md), [operations](operations.md) and
[archives](archives.md) say when to change what.
"""
_LIMITS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


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
    seen: set[type[BaseModel]] = set()
    roots: dict[str, type[BaseModel]] = {"A tournament": TournamentConfig}
    for title, root in {**roots, **added_rows_by_name("configs", roots)}.items():
        parts.append(f"## {title}\n")
        for model in _models_below(root):
            if model not in seen:
                seen.add(model)
                parts.append(_section(model, is_root=model is root))
    return "\n".join(parts)


def _models_below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield a model and all models in its fields, parents first, some of them twice."""
    yield model
    for _, field in _fields_of(model):
        for inner in _models_in(field.annotation):
            yield from _models_below(inner)


def _fields_of(model: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    """Return the keys of a model, those that extras add to it last."""
    rows = (*added_rows("config_keys"), *added_rows("mode_keys"))
    added = {key for keys in rows if issubclass(model, keys) for key in keys.model_fields}
    return sorted(model.model_fields.items(), key=lambda item: item[0] in added)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _section(model: type[BaseModel], *, is_root: bool) -> str:
    summary, meanings = summary_of(model), meanings_of(model)
    missing = [name for name in model.model_fields if name not in meanings]
    if missing:
        raise ValueError(
            f"{model.__name__} does not say what {', '.join(missing)} means; "
            "expected a line for each key under Attributes in its docstring"
        )
    rows = [
        f"| {_shown_key(name, field)} | {_escape(_shown_type(field.annotation, field.metadata))} | "
        f"{_escape(_shown_default(field))} | {_escape(meanings[name])} |"
        for name, field in _fields_of(model)
    ]
    head = "" if is_root else f"### {model.__name__}\n\n"
    return (
        "\n".join(
            [f"{head}{summary}\n", "| key | type | default | meaning |", "|---|---|---|---|", *rows]
        )
        + "\n"
    )


def _shown_key(name: str, field: FieldInfo) -> str:
    key = f"`{field.alias or name}`"
    return f"**{key}**" if field.is_required() else key


def _shown_default(field: FieldInfo) -> str:
    if field.is_required():
        return ""
    default = field.default
    if default is PydanticUndefined:
        default = field.default_factory() if field.default_factory is not None else None  # type: ignore[call-arg]
    if isinstance(default, BaseModel):
        return "its own defaults"
    if default is None or default == "":
        return "none"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, str) and (len(default) > 40 or "\n" in default):
        return "a built-in text"
    if isinstance(default, Mapping) and not default:
        return "none"
    if isinstance(default, Sequence) and not isinstance(default, str):
        return ", ".join(f"`{value}`" for value in default) or "none"
    return f"`{default}`"


def _shown_type(annotation: Any, metadata: Sequence[Any]) -> str:
    service_name = next((str(each) for each in metadata if isinstance(each, ServiceName)), None)
    type_name = service_name or _type_name(annotation)
    limits = [
        f"{sign} {getattr(limit, name)}"
        for limit in metadata
        for name, sign in _LIMITS.items()
        if getattr(limit, name, None) is not None
    ]
    return ", ".join([type_name, *limits])


def _type_name(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        # The limits of pydantic's fields are inside them.
        limits = [each for item in arguments[1:] for each in getattr(item, "metadata", [item])]
        return _shown_type(arguments[0], limits)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type_name(part) for part in arguments if part is not type(None))
    if origin in (dict, Mapping):
        return f"mapping to {_type_name(arguments[1])}"
    if origin in (tuple, list):
        return f"list of {_type_name(arguments[0])}"
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    names = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true or false",
        JsonValue: "any value",
    }
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


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

    It is Dagster's own UI, with the runs of `tournament run`. In a Dagster project that has the
    tournament as a component, it serves all of that project. No other site's page can use it.
    Ctrl-C ends it.
    """
    start = server_start(config_path, os.environ)
    if daemon:
        echo("the daemon, without pages; Ctrl-C ends it")
    else:
        refuse_place(host, port, start.environment)
        echo(f"{address_of(host, port)}, in a few seconds; Ctrl-C ends it")
        if start.environment.get(TOKEN_VARIABLE):
            echo(f"add /?token= and the secret in {TOKEN_VARIABLE} to it, once per browser")
    sys.stdout.flush()
    click.get_current_context().exit(serve(start, None if daemon else (host, port)))


@click.command("dagster-home")
def dagster_home_command() -> None:
    """Print the folder in which Dagster keeps its runs, and create it if necessary."""
    project = Path(os.environ.get("TOURNAMENT_PROJECT") or Path.cwd())
    echo(str(prepare_dagster_home(project, os.environ.get("DAGSTER_HOME"))))
