"""Writes a new project: config, prompt bank, rubrics and recorded responses.

It is made from a table of answers: the user's own or the packaged sample.
"""

import json
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template

import yaml
from pydantic import ValidationError

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.project.config_schema import SCHEMA_FILE, write_schema
from tournament_assets.recorded.answer_tables import AnswerTable, read_answers
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.judge_services import (
    KNOWN_SERVERS,
    OPENAI_API,
    SERVICES,
    service_for,
)
from tournament_assets.tournament.judges import Judge

_SAMPLES = resources.files("tournament_assets") / "data" / "project"
_SAMPLE_RUBRICS = ("correctness", "usefulness")
GENERAL_DIMENSION = "helpfulness"
"""The dimension of the rubric that fits any kind of answer."""
_PILOT_PROMPTS = 24
LOOPBACK_MODEL = "loopback-lexical"
"""The judge of a project that names none: free, but it only compares words."""


@dataclass(frozen=True, slots=True)
class NewTournament:
    """What a new project is made from.

    Attributes:
        answers: The prompts, the entrants and their answers.
        rubrics: The text of each dimension's rubric.
        judge: Who judges, as `named_judge` reads it.
        budget_usd: What judging may cost; None for no limit, in which case a judge that costs money
            judges only the pilot.
        price: What a million tokens cost that the judge reads, and that it writes; None for what
            the price list says.
        domain: What the judge is told the prompts are.
        about: The config's first comment.
        description: The tournament's description in the report.
        notes: Descriptions by entrant; by default the entrants' names in the table.
        gold_dimensions: The dimensions whose judge is shown any gold answers; all by default.
    """

    answers: AnswerTable
    rubrics: Mapping[str, str]
    judge: str = LOOPBACK_MODEL
    budget_usd: float | None = None
    price: tuple[float, float] | None = None
    domain: str = ""
    about: str = "A tournament of answers that were given already."
    description: str = "Answers that were given already."
    notes: Mapping[str, str] | None = None
    gold_dimensions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class NewProject:
    """A project that was just written.

    Attributes:
        config: Its config file.
        files: All files that were written, including the config.
    """

    config: Path
    files: tuple[Path, ...]


def sample_tournament() -> NewTournament:
    """Return the sample: two reviewers of small code changes.

    The loopback judge, which compares words, separates them on correctness but not on usefulness.
    """
    with resources.as_file(_SAMPLES / "answers.csv") as path:
        answers = read_answers(path)
    return NewTournament(
        answers=answers,
        rubrics={name: packaged_rubric(name) for name in _SAMPLE_RUBRICS},
        domain="code review",
        about=(
            "A tournament that runs as it stands: two reviewers of small changes to code, whose "
            "reviews are recorded, judged by a lexical stand-in for a judge. It needs no key and "
            "costs nothing, and what it says of quality means nothing: put your own prompts, "
            "entrants, rubrics and judge in its place."
        ),
        description="Two reviewers of small changes to code.",
        notes={
            "plain": "Reviews in one sentence.",
            "with_checklist": "Names the fault first, and then a fix.",
        },
        gold_dimensions=("correctness",),
    )


def packaged_rubric(name: str) -> str:
    """Return the text of a packaged rubric."""
    return (_SAMPLES / "rubrics" / f"{name}.txt").read_text(encoding="utf-8")


def write_new_project(
    folder: Path, tournament: NewTournament | None = None, *, replaces: str = ""
) -> NewProject:
    """Write a tournament named after its folder: config, bank, rubrics and responses.

    Args:
        folder: May be missing or hold other files. Its own `.gitignore` and schema are kept.
        tournament: What it is made from; the sample by default.
        replaces: Existing files are overwritten if the first comment of their config contains this.
    """
    content = sample_tournament() if tournament is None else tournament
    tournament_id = as_identifier(folder.resolve().name)
    config = folder / "configs" / f"{tournament_id}.yaml"
    contents = {config: _config_text(content, tournament_id)}
    contents[folder / "prompts.jsonl"] = _json_lines(
        {
            "prompt_id": prompt.prompt_id,
            "text": prompt.text,
            "source": prompt.source,
            **({} if prompt.gold_answer is None else {"gold_answer": prompt.gold_answer}),
        }
        for prompt in content.answers.prompts
    )
    for name, text in content.rubrics.items():
        contents[folder / "rubrics" / f"{name}.txt"] = text
    for entrant, answers in content.answers.answers.items():
        contents[folder / "responses" / f"{entrant}.jsonl"] = _json_lines(
            {"prompt_id": name, "response": text} for name, text in answers.items()
        )
    once = {
        config.parent / SCHEMA_FILE: write_schema(),
        folder / ".gitignore": (_SAMPLES / "gitignore").read_text(encoding="utf-8"),
    }
    contents |= {path: text for path, text in once.items() if not path.exists()}
    problems = Problems()
    is_ours = bool(replaces) and config.exists() and replaces in _first_lines(config)
    for path in contents:
        if path.exists() and not is_ours:
            problems.add(
                f"{path}: the file is there already; expected none, so that nothing of yours is "
                "lost; name another folder"
            )
    problems.raise_if_any()
    for path, text in contents.items():
        try:
            write_bytes_atomically(path, text.encode())
        except OSError as error:
            raise InputError(
                f"{path}: cannot be written ({type(error).__name__}); expected a folder to write "
                "a project to; name another one"
            ) from None
    return NewProject(config=config, files=tuple(contents))


def as_identifier(name: str) -> str:
    """Return a valid tournament id as close as possible to a name."""
    words = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return words if words[:1].isalpha() else f"tournament_{words}".rstrip("_")


def written_rubrics(text: str | Mapping[str, str] | None) -> dict[str, str]:
    """Return the texts of rubric files: the general rubric, or the given text.

    Args:
        text: What makes an answer better, for one dimension (`quality`) or by dimension.
    """
    if text is None:
        return {GENERAL_DIMENSION: packaged_rubric(GENERAL_DIMENSION)}
    named = {"quality": text} if isinstance(text, str) else text
    return {
        name: f"# version: 1\n# dimension: {name}\n\n{words.strip()}\n"
        if not words.lstrip().startswith("# version:")
        else words
        for name, words in named.items()
    }


def _first_lines(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline() + file.readline()


def _json_lines(rows: Iterable[Mapping[str, str]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _config_text(tournament: NewTournament, tournament_id: str) -> str:
    template = Template((_SAMPLES / "config.yaml").read_text(encoding="utf-8"))
    share = min(0.5, math.ceil(100 * _PILOT_PROMPTS / len(tournament.answers.prompts)) / 100)
    judge, prices = named_judge(tournament.judge), ""
    if tournament.price is not None:
        read, written = tournament.price
        price = f"{{input: {read:g}, output: {written:g}}}"
        prices = f"\n  prices: {{{json.dumps(judge.model)}: {price}}}"
    budget = f"budget: {{usd: {20 if tournament.budget_usd is None else tournament.budget_usd:g}}}"
    return template.substitute(
        about="\n# ".join(textwrap.wrap(tournament.about, 98)),
        tournament_id=tournament_id,
        description=_scalar(tournament.description),
        share=f"{share:g}",
        dimensions="\n".join(_dimension_lines(tournament)),
        judges="\n".join(_judge_lines(judge)),
        domain=f"  domain: {_scalar(tournament.domain)}"
        + ("" if tournament.domain else "  # such as code review"),
        budget=f"  {'# ' if tournament.budget_usd is None else ''}{budget}{prices}",
        entrants="\n".join(_entrant_lines(tournament)),
    )


def _dimension_lines(tournament: NewTournament) -> Iterator[str]:
    has_gold = any(prompt.gold_answer is not None for prompt in tournament.answers.prompts)
    with_gold = (
        tournament.rubrics if tournament.gold_dimensions is None else tournament.gold_dimensions
    )
    for name in tournament.rubrics:
        yield f"  {name}:"
        yield f"    rubric: rubrics/{name}.txt"
        if has_gold and name in with_gold:
            yield "    shows_gold_answer: true"


def named_judge(text: str) -> Judge:
    """Return the judge that a short text names.

    Args:
        text: A model whose name tells its service, such as `claude-…`, `gpt-…` or `gemini-…`;
            `ollama:MODEL`; a server's base URL with the model as `#MODEL`; or `SERVICE:MODEL`.

    Raises:
        InputError: If it names none, or one that its service does not serve.
    """
    beginning, _, rest = text.partition(":")
    known = next((begins for begins in KNOWN_SERVERS if text.startswith(begins)), None)
    settings: dict[str, str] = {"service": OPENAI_API.name, "model": text}
    if is_url := beginning in ("http", "https"):
        settings["base_url"], _, settings["model"] = text.partition("#")
    elif known is not None:
        settings |= {**KNOWN_SERVERS[known], "model": rest if known.endswith(":") else text}
    elif beginning in SERVICES:
        settings = {"service": beginning, "model": rest}
    else:
        service = service_for(text)
        settings["service"] = "" if service is None else service.name
    try:
        return Judge.model_validate(settings)
    except ValidationError as error:
        reasons = "; ".join(each["msg"] for each in error.errors(include_input=False))
        raise InputError(
            f"the judge is {'a URL' if is_url else repr(text)}; expected a model whose name tells "
            "its service, such as claude-…, gpt-… or gemini-…, ollama:MODEL, a server's URL with "
            "the model after it, such as http://127.0.0.1:8000/v1#MODEL, or SERVICE:MODEL, with a "
            f"service of {', '.join(SERVICES)} ({reasons})"
        ) from None


def _judge_lines(judge: Judge) -> Iterator[str]:
    """Yield the config's lines for a judge."""
    yield f"  - service: {judge.service}"
    for name in ("model", "base_url", "api_key_env"):
        if (value := getattr(judge, name)) is not None:
            yield f"    {name}: {_scalar(value)}"
    if judge.row.is_free:
        yield "    waiting: {poll_initial_seconds: 0.1, poll_max_seconds: 2.0}"


def _entrant_lines(tournament: NewTournament) -> Iterator[str]:
    notes = tournament.notes or {}
    for entrant, name in tournament.answers.names.items():
        yield f"  - entrant_id: {_scalar(entrant)}"
        yield "    loader: recorded"
        if (note := notes.get(entrant, name)) != entrant:
            yield f"    description: {_scalar(note)}"
        yield f"    responses: {{path: {_scalar(f'responses/{entrant}.jsonl')}}}"


def _scalar(text: str) -> str:
    """Return a text as a one-line YAML scalar, unquoted if YAML reads that as the same text."""
    is_plain = re.fullmatch(r"[A-Za-z][\w ./-]*[\w./-]", text, flags=re.ASCII) is not None
    return text if is_plain and yaml.safe_load(text) == text else json.dumps(text)
