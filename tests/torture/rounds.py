"""Killing an adaptive run between its rounds and inside them.

A process asks the judge as the step `judge_requests` does, through the real SDK, and is killed with
SIGKILL at random times; the next one goes on. What it may not do is ask a question twice, or decide
anything else than a process that nobody killed.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, cast

from tests.loopback.faults.accounts import Accounts, read_accounts
from tests.projects import ENTRANTS, SmallProject, make_project, write_json_lines
from tests.torture.forking import Nursery
from tests.torture.judges import Judge

N_PROMPTS = 60
ADAPTIVE = {"goal": "bank", "rounds": 5, "tail": 0.2, "min_prompts": 10}
_GOOD = "The tray shows the {gold} for this sample number, because it was labelled."
_BAD = "Certainly a zebra without any doubt at all"


def make_larger(project: SmallProject, *, adaptive: Any = None) -> None:
    """Give a project 60 prompts, on which `careful` is far ahead and the others are close."""
    bank = [
        {
            "prompt_id": f"recall-{number}",
            "text": f"Which colour has the marker of sample number {number} in the tray?",
            "source": "recall",
            "gold_answer": f"colour{number} marker",
        }
        for number in range(N_PROMPTS)
    ]
    write_json_lines(project.folder / "bank.jsonl", bank)
    for entrant in ENTRANTS:
        rows = []
        for number, prompt in enumerate(bank):
            is_good = {"careful": True, "sloppy": number % 4 == 0, "mixed": number % 3 == 0}
            text = (_GOOD if is_good[entrant] else _BAD).format(gold=prompt["gold_answer"])
            end = "" if number % 12 == 0 else f" {entrant}."
            rows.append({"prompt_id": prompt["prompt_id"], "response": text + end})
        write_json_lines(project.folder / f"responses_{entrant}.jsonl", rows)
    project.draw(recall=6)
    if adaptive:
        project.merge_config(modes={"headline": {"adaptive": adaptive}})


def ask_in_rounds(*, config: str, ledger_url: str, judge_url: str) -> int:
    """Ask the judge about the headline as the step `judge_requests` does; the killed process."""
    from tournament_assets.graph.assets.judging import judge_requests
    from tournament_assets.graph.rows import Log, Step
    from tournament_assets.project.plan import load_plan
    from tournament_assets.providers.openers import JudgeConnection
    from tournament_assets.verdicts.judge_requests import AskingOptions

    variables = {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": judge_url}
    plan = load_plan(Path(config), variables)
    step = Step(plan, "headline", "", cast("Log", _Silent()), cast("Any", None))
    judge_requests(
        step,
        {"factuality": _match_list(plan)},
        AskingOptions(wait_seconds=60),
        _Ledger(ledger_url),
        JudgeConnection(Path(), variables),
    )
    return 0


class _Silent:
    def info(self, message: str) -> None:
        """Say it in the log of the process."""
        sys.stdout.write(f"{message}\n")


@dataclass(frozen=True)
class _Ledger:
    url: str

    def open(self) -> closing[Any]:
        from tournament_assets.ledger import Ledger

        return closing(Ledger(self.url))


def _match_list(plan: Any) -> Any:
    from tournament_assets.preparing.existing_work import (
        known_responses,
        load_bank_and_selection,
        pairs_of_dimension,
    )
    from tournament_assets.storage.tables import make_table
    from tournament_assets.tournament.asset_rows import MatchRow

    with _Ledger("sqlite://").open() as ledger:
        bank, prompts = load_bank_and_selection(plan, "headline")
        responses = {
            (entrant.entrant_id, name): text
            for entrant in plan.config.entrants
            for name, text in known_responses(plan, entrant, bank, prompts, ledger=ledger).items()
        }
    return make_table(
        MatchRow,
        [
            MatchRow(
                dimension="factuality", **{name: getattr(pair, name) for name in pair.__slots__}
            )
            for pair in pairs_of_dimension(plan, "factuality", prompts, responses)
        ],
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run came to.

    Attributes:
        billed: How often each question is billed.
        asked: How often each was accepted, in a batch or directly.
        kills: How many processes were killed.
        rounds: How many batches there were.
    """

    billed: Mapping[str, int]
    asked: Mapping[str, int]
    kills: int
    rounds: int


def run_killed(nursery: Nursery, folder: Path, *, lives: Iterator[float | None]) -> Asked:
    """Ask about a headline in as many processes as it takes.

    Args:
        nursery: Who runs them.
        folder: An empty folder.
        lives: How many seconds each process lives; None lets it end.
    """
    project = make_project(folder / "project", service="anthropic", dimensions=("factuality",))
    make_larger(project, adaptive=ADAPTIVE)
    project.edit_judges(waiting={"adopt_grace_seconds": 0.3})
    project.merge_config(modes={"headline": {"prewarm": False}})
    judge = Judge(nursery, folder)
    kills = 0
    try:
        for life in lives:
            pid = nursery.start(
                "rounds",
                folder / "run.log",
                config=str(project.config_path),
                ledger_url=f"sqlite:///{folder}/ledger.sqlite",
                judge_url=judge.url,
            )
            end = nursery.wait(pid, seconds=200, kill_after=life)
            kills += end.was_killed
            if not end.was_killed:
                assert end.status == 0, (folder / "run.log").read_text()[-3000:]
                break
        accounts: Accounts = read_accounts(judge.directory)
    finally:
        judge.kill()
    asked = dict(accounts.in_batches)
    for question, times in accounts.in_messages.items():
        asked[question] = asked.get(question, 0) + times
    return Asked(accounts.billed, asked, kills, len(accounts.batches))


def random_lives(rng: Random, *, longest: float, kills: int) -> Iterator[float | None]:
    """Yield so many random lives, and then one that nobody ends."""
    yield from (rng.uniform(0.05, longest) for _ in range(kills))
    yield None
