"""Draws small tournaments of every kind, and runs them on the plain engine.

The judges stand behind a service of this module, which notes what they say, so that a test knows it
without reading a reply. Responses name their strength.
"""

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args
from unittest.mock import patch

from tests.projects import make_project, recorded_entrants, write_json_lines
from tournament_assets.graph.plain_runs import PlainRun, run_plainly
from tournament_assets.graph.run_options import RunOptions
from tournament_assets.judging.batch_service import (
    BatchStatus,
    ReplyRow,
    SubmittedRequest,
    TokenUsage,
)
from tournament_assets.project.plan import load_plan
from tournament_assets.tournament.asset_rows import ResponseRow
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.judge_services import (
    SERVICES,
    JudgeService,
    ServiceConnection,
)
from tournament_assets.tournament.verdicts import Verdict

Kind = Literal[
    "one judge",
    "jury",
    "samples",
    "adaptive",
    "silent",
    "ties",
    "order",
    "winner",
    "circle",
    "copies",
    "gaps",
    "jury of samples",
    "adaptive jury",
    "many",
    "two",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
DIMENSION = "tone"
_MODEL = "drawn-"
Shown = tuple[str, str, str, str]
"""What a judge was shown: the judge's model, the prompt, and the first and second response."""
_MOST_PAIRS = 500
"""Pairs of responses in a run; what an adaptive run may need comes on top."""


@dataclass(frozen=True, slots=True)
class Taste:
    """How a judge judges: what it is shown moves it, and shares of its replies hold no verdict."""

    discrimination: float = 1.0
    slot: float = 0.0
    ties: float = 0.1
    silent: float = 0.0


@dataclass(frozen=True)
class DrawnRun:
    """A tournament that was drawn, and what a run of it stored."""

    seed: int
    kind: Kind
    config: TournamentConfig
    responses: dict[str, list[ResponseRow]]
    said: dict[Shown, Verdict]
    tables: PlainRun


_TASTES: dict[str, Taste] = {}
"""By the judge's model; models of different runs have different names."""
_SAID: dict[Shown, Verdict] = {}
"""What was said last, in the run under way."""


def _verdict_of(shown: Shown) -> Verdict:
    """Draw what a judge says."""
    model, _, first, second = shown
    taste, random = _TASTES[model], Random("\n".join(shown))
    lead = _strength(first) - _strength(second)
    # Three circle: each is ahead of the next.
    circle = (
        (_place(second) - _place(first)) % 3 if -1 not in (_place(first), _place(second)) else 0
    )
    lead += (0.0, 2.0, -2.0)[circle]
    if random.random() < 0.1 and shown not in _SAID:
        # Asked once more, it says something else.
        return Verdict.UNREADABLE
    if random.random() < taste.silent:
        return random.choice((Verdict.REFUSED, Verdict.UNREADABLE, Verdict.PERMANENT))
    if random.random() < taste.ties:
        return Verdict.TIE
    chance = 1 / (1 + math.exp(-max(-500.0, min(500.0, taste.discrimination * lead + taste.slot))))
    return Verdict.A if random.random() < chance else Verdict.B


def _strength(text: str) -> float:
    number = re.match(r"-?\d+\.\d+", text)
    return float(number[0]) if number else -5.0


def _place(text: str) -> int:
    place = re.search(r"circle (\d)", text)
    return int(place[1]) if place else -1


_BATCHES: dict[str, list[SubmittedRequest]] = {}
"""What the service keeps, whoever opens it."""
_NUMBERS = count()
"""Numbers of batches: judges of a jury make theirs at the same time."""


@dataclass
class DrawnJudges:
    """Answers everything at once."""

    batches: dict[str, list[SubmittedRequest]]

    def create_batch(self, requests: Iterable[SubmittedRequest]) -> BatchStatus:
        batch_id = f"drawn-{next(_NUMBERS)}"
        self.batches[batch_id] = list(requests)
        return self.get_batch(batch_id)

    def list_batches(self) -> Iterator[BatchStatus]:
        yield from map(self.get_batch, reversed(self.batches))

    def get_batch(self, batch_id: str) -> BatchStatus:
        return BatchStatus(batch_id, True, len(self.batches[batch_id]))

    def iterate_results(self, batch_id: str) -> Iterator[ReplyRow]:
        for request in self.batches[batch_id]:
            yield _reply(request)

    def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
        return _reply(request)

    def check_model(self, model: str) -> str | None:
        return None if model in _TASTES else f"{model} was not drawn"


def _reply(request: SubmittedRequest) -> ReplyRow:
    model, message = request.params["model"], request.params["messages"][0]["content"]
    (prompt,) = re.findall(r"Question \d+ of \d+\?", message)
    first, second = re.findall(r"<response_[ab] fence=.*?>\n(.*?)\n</response_", message, re.DOTALL)
    shown = model, prompt, first, second
    verdict = _SAID[shown] = _verdict_of(shown)
    if verdict is Verdict.PERMANENT:
        return ReplyRow(
            custom_id=request.custom_id, result_type="errored", error_type="invalid_request_error"
        )
    said = "I cannot say" if verdict is Verdict.UNREADABLE else f"VERDICT: {verdict}"
    return ReplyRow(
        custom_id=request.custom_id,
        result_type="succeeded",
        text="" if verdict is Verdict.REFUSED else f"Both were read.\n{said}",
        stop_reason="refusal" if verdict is Verdict.REFUSED else "end_turn",
        model=model,
        usage=TokenUsage(100, 10),
    )


@contextmanager
def open_drawn(connection: ServiceConnection) -> Iterator[DrawnJudges]:
    """Open the service."""
    yield DrawnJudges(_BATCHES)


_SERVICE = JudgeService(
    name="drawn",
    label="a judge that was drawn",
    opener=f"{__name__}:open_drawn",
    source="drawn",
    model_prefix=_MODEL,
    is_free=True,
    is_language_model=False,
    grace_seconds=1.0,
)


def draw_run(seed: int, folder: Path) -> DrawnRun:
    """Draw a tournament, run it in a folder, and return what it stored."""
    _SAID.clear()
    _BATCHES.clear()
    random = Random(seed)
    kind = KINDS[seed % len(KINDS)]
    n = {"many": random.randint(15, 40), "two": 2, "circle": random.randint(3, 6)}.get(
        kind, random.randint(2, 8)
    )
    is_adaptive, has_samples = "adaptive" in kind, "samples" in kind
    n_samples = random.randint(2, 3) if has_samples else 1
    n = min(n, 4) if is_adaptive else n
    most = 40 if is_adaptive else max(2, _MOST_PAIRS // (n * (n - 1) // 2 * n_samples))
    n_prompts = random.randint(min(most, 30) if is_adaptive else 1, min(most, 40))
    judges = [
        _seat(seed, number, kind, random)
        for number in range(random.randint(2, 4) if "jury" in kind else 1)
    ]
    names = [f"e{number:02}" for number in random.sample(range(n), n)]
    responses = _responses(names, n_prompts, n_samples, kind, random)
    project = make_project(folder, dimensions=("calibration",))
    (folder / "rubrics" / f"{DIMENSION}.txt").write_text(
        f"# version: 1\n# dimension: {DIMENSION}\n\nPrefer the better response.\n"
    )
    bank = [
        {"prompt_id": f"p{i:02}", "text": f"Question {i} of {seed}?", "source": "ab"[i % 2]}
        for i in range(n_prompts)
    ]
    write_json_lines(folder / "bank.jsonl", bank)
    for name, rows in responses.items():
        texts = ({"prompt_id": row.prompt_id, "response": row.response} for row in rows)
        write_json_lines(folder / f"responses_{name}.jsonl", list(texts))
    stops = {"goal": random.choice(("bank", "population")), "rounds": 3, "min_prompts": 4}
    mode = {"prewarm": False, **({"adaptive": {**stops, "tail": 0.3}} if is_adaptive else {})}
    project.edit_config(
        modes={"pilot": mode, "headline": {"prewarm": False}},
        dimensions={DIMENSION: {"rubric": f"rubrics/{DIMENSION}.txt"}},
        judges=judges,
        entrants=recorded_entrants(names),
        generation={"n_samples": n_samples},
        judging={
            "budget": {"usd": "unlimited"},
            **({"aggregate": "equal"} if len(judges) > 1 and random.random() < 0.3 else {}),
        },
        ratings={
            "n_permutations": random.choice((1, 20)),
            "n_bootstraps": random.choice((100, 150)),
            "k_sweep": [8.0, 16.0],
            "confidence": random.choice((0.8, 0.95)),
            "equivalent_within": random.choice((20.0, 150.0)),
        },
    )
    given: dict[tuple[str, str], Any] = {
        ("entrant_responses", name): rows for name, rows in responses.items()
    }
    with patch.dict(SERVICES, {_SERVICE.name: _SERVICE}):
        plan = load_plan(project.config_path, project.environment)
        tables = run_plainly(plan, RunOptions("pilot"), values=given, folder=folder / "storage")
    return DrawnRun(seed, kind, plan.config, responses, dict(_SAID), tables)


def _seat(seed: int, number: int, kind: Kind, random: Random) -> dict[str, Any]:
    model = f"{_MODEL}{seed}-{number}"
    _TASTES[model] = Taste(
        discrimination=1e6 if kind in ("order", "winner") else random.uniform(0.3, 2.0),
        slot=0.0 if kind in ("order", "winner") else random.choice((0.0, 0.0, 1.0, -2.0)),
        ties={"ties": 1.0, "order": 0.0, "winner": 0.0}.get(kind, random.choice((0.0, 0.1, 0.4))),
        silent={"silent": 0.3, "ties": 0.0}.get(kind, random.choice((0.0, 0.02))),
    )
    share = random.choice((0.5, 1.0)) if number > 1 else 1.0
    return {
        "name": f"judge{number}",
        "service": _SERVICE.name,
        "model": model,
        "max_tokens": 512,
        "waiting": {"poll_initial_seconds": 0.01, "poll_max_seconds": 0.02, "deadline_seconds": 30},
        **({"share": share} if share < 1 else {}),
    }


def _responses(
    names: list[str], n_prompts: int, n_samples: int, kind: Kind, random: Random
) -> dict[str, list[ResponseRow]]:
    spread = {"order": 3.0, "ties": 0.0, "circle": 0.0}.get(kind, random.choice((0.3, 1.0)))
    strengths = {name: random.gauss(0.0, spread) for name in names}
    if kind == "winner":
        strengths[names[-1]] = 1000.0
    responses: dict[str, list[ResponseRow]] = {name: [] for name in names}
    for prompt in range(n_prompts):
        for sample in range(1, n_samples + 1):
            for place, name in enumerate(names):
                noise = 0.0 if kind in ("order", "winner") else random.gauss(0.0, 0.3)
                text = f"{strengths[name] + noise:.4f} {name}{' word' * random.randint(0, 9)}"
                if kind == "circle" and place < 3:
                    text += f" circle {place}"
                if kind == "copies" and place and random.random() < (1.0 if place == 1 else 0.3):
                    text = responses[names[0]][-1].response
                if kind == "gaps" and random.random() < 0.2:
                    continue
                if kind == "silent" and random.random() < 0.1:
                    text = ""
                responses[name].append(
                    ResponseRow(
                        entrant_id=name,
                        prompt_id=f"p{prompt:02}",
                        sample=sample,
                        response=text,
                        finish_reason="recorded",
                        diagnostics="{}",
                    )
                )
    return responses
