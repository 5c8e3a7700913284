"""The scores in other tools' files: what identifies a format, and how a row becomes scores.

A score is a number, or a word for passed or failed. What is empty, NaN or a failed request is
missing, which is never 0.

Sources: inspect, https://inspect.aisi.org.uk/eval-logs.html; lm-eval,
https://github.com/EleutherAI/lm-evaluation-harness; Every Eval Ever,
https://github.com/evaleval/every_eval_ever; promptfoo, https://www.promptfoo.dev/docs.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tournament_assets.foundation.errors import InputError
from tournament_assets.storage.foreign_tables import Row, TableFormat

SCORE = "score"
"""The score that is taken where a row has several and nobody names one."""
_PASSED = dict.fromkeys(("true", "yes", "pass", "passed", "correct", "resolved"), 1.0)
_FAILED = dict.fromkeys(("false", "no", "fail", "failed", "incorrect", "unresolved"), 0.0)
_WORDS = _PASSED | _FAILED
_MISSING = frozenset(("", "nan", "na", "n/a", "none", "null", "-", "\N{EN DASH}"))
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Inspect's words for correct, incorrect, partially correct and no answer."""
_OF_TASK = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d{2}-\d{2}T.*")


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """The scores of one answer.

    Attributes:
        item: What was answered.
        system: Who answered; empty where the file does not say.
        scores: The scores by name, as the file writes them.
        repeat: Which of the system's answers to the item it is.
        row: The row as the file has it.
    """

    item: str
    system: str
    scores: Mapping[str, Any]
    repeat: str
    row: Row


@dataclass(frozen=True, slots=True)
class ResultFormat(TableFormat):
    """A format of scored answers.

    Attributes:
        parse: Reads one row, or a whole document, given its file.
    """

    parse: Callable[[Row, Path], Iterable[ScoredAnswer]]


def number_of(value: Any) -> float | None:
    """Return a score; None where it is missing.

    Raises:
        InputError: If it is neither a finite number nor a word for passed or failed.
    """
    if value is None or isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _MISSING:
            return None
        if word in _WORDS:
            return _WORDS[word]
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{value!r:.60}; expected a finite number, or true or false")
    return number


def _inside(value: Any) -> Row:
    return value if isinstance(value, Mapping) else {}


def _inspect(log: Row, _: Path) -> Iterator[ScoredAnswer]:
    of = _inside(log.get("eval"))
    for sample in log.get("samples") or ():
        scores = {}
        for name, score in _inside(sample.get("scores")).items():
            value = _inside(score).get("value")
            parts = value if isinstance(value, Mapping) else {"": value}
            scores |= {
                f"{name}.{part}".rstrip("."): _LETTERS.get(each, each)
                if isinstance(each, str)
                else each
                for part, each in parts.items()
            }
        item, epoch = f"{of.get('task')}/{sample.get('id')}", str(sample.get("epoch", 1))
        yield ScoredAnswer(item, str(of.get("model", "")), scores, epoch, sample)


def _lm_eval(row: Row, path: Path) -> Iterator[ScoredAnswer]:
    match, passed_by = _OF_TASK.fullmatch(path.stem), row.get("filter", "none")
    ending = "" if passed_by == "none" else f",{passed_by}"
    names = row.get("metrics") or [
        name for name, value in row.items() if name != "doc_id" and type(value) in (int, float)
    ]
    scores = {f"{name}{ending}": row.get(name) for name in names}
    task = f"{match['task']}/" if match else ""
    yield ScoredAnswer(f"{task}{row.get('doc_id')}", path.resolve().parent.name, scores, "", row)


def _every_eval_ever(row: Row, _: Path) -> Iterator[ScoredAnswer]:
    score = None if row.get("error") else _inside(row.get("evaluation")).get("score")
    item = f"{row.get('evaluation_name')}/{row.get('sample_id')}"
    repeat = str(row.get("evaluation_id"))
    yield ScoredAnswer(item, str(row.get("model_id", "")), {SCORE: score}, repeat, row)


_PROMPTFOO_ERROR = 2
"""The `failureReason` of a request that failed, against an answer that did."""


def _promptfoo(document: Row, _: Path) -> Iterator[ScoredAnswer]:
    rows = _inside(document["results"]).get("results") or []
    has_prompts = len({row.get("promptIdx") for row in rows}) > 1
    for row in rows:
        provider, prompt = row.get("provider"), _inside(row.get("prompt"))
        name = _inside(provider).get("label") or _inside(provider).get("id") or provider
        which = f" / {prompt.get('label') or row.get('promptIdx')}" if has_prompts else ""
        has_failed = row.get("failureReason") == _PROMPTFOO_ERROR
        scores = {SCORE: row.get("score"), **_inside(row.get("namedScores"))}
        if has_failed:
            scores = dict.fromkeys(scores)
        repeat = str(row.get("repeatIndex", ""))
        yield ScoredAnswer(str(row.get("testIdx")), f"{name}{which}", scores, repeat, row)


_ALL = (
    ResultFormat("inspect", "logs of inspect", (), ("eval", "samples"), _inspect),
    ResultFormat("lm-eval", "lm-eval's samples", (), ("doc_id", "doc", "resps"), _lm_eval),
    ResultFormat(
        "every-eval-ever",
        "Every Eval Ever's instances",
        (),
        ("evaluation_name", "sample_id", "model_id", "evaluation"),
        _every_eval_ever,
    ),
    ResultFormat(
        "promptfoo",
        "promptfoo's results",
        ("json object", "json lines"),
        ("results",),
        _promptfoo,
        tells=lambda sample: isinstance(_inside(sample.first["results"]).get("results"), list),
    ),
)
FORMATS: Mapping[str, ResultFormat] = {each.name: each for each in _ALL}
"""Every format by its name; a table of scores is recognised by its columns."""
