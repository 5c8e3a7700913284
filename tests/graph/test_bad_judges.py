"""Judges that no rating may rest on, on a tournament most of whose responses are copies."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.projects import ENTRANTS, make_project, write_json_lines
from tournament_assets.cli import main

from .changed_judge import BadJudge, always_first, coin, longest
from .paid_projects import SECRET, PaidProject

N_PROMPTS, N_DIFFERING = 40, 12
ASKED = 3 * N_DIFFERING


def words(entrant: int, prompt: int) -> str:
    """Write a response whose length says nothing about who wrote it."""
    length = 5 + (7 * prompt + 11 * entrant * (prompt % 3 + 1)) % 23
    return " ".join(f"word{(prompt + entrant + place) % 9}" for place in range(length)) + "."


@pytest.fixture
def judged_by(tmp_path: Path) -> Iterator[Callable[[Callable[[str], str]], PaidProject]]:
    servers = []

    def judge(rule: Callable[[str], str]) -> PaidProject:
        server = BadJudge(rule)
        server.__enter__()
        servers.append(server)
        project = make_project(tmp_path / "p", service="anthropic", dimensions=("calibration",))
        prompts = [f"p{number}" for number in range(N_PROMPTS)]
        write_json_lines(
            project.folder / "bank.jsonl",
            [
                {"prompt_id": p, "text": f"What is {p}?", "source": "recall", "gold_answer": p}
                for p in prompts
            ],
        )
        for place, entrant in enumerate(ENTRANTS):
            write_json_lines(
                project.folder / f"responses_{entrant}.jsonl",
                [
                    {"prompt_id": p, "response": words(place if n < N_DIFFERING else 0, n)}
                    for n, p in enumerate(prompts)
                ],
            )
        project.edit_config(
            pilot={
                "judge_model": "claude-pilot",
                "strata": {"recall": N_PROMPTS},
                "pilot_seed": 3,
            }
        )
        return PaidProject(project, server)

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ANTHROPIC_API_KEY", SECRET)
        yield judge
    for server in servers:
        server.__exit__(None, None, None)


def invoke(paid: PaidProject, command: str, *arguments: str) -> Any:
    options = ["--config", str(paid.project.config_path), "--mode", "pilot", *arguments]
    return CliRunner().invoke(
        main, [command, *options], env=paid.environment, catch_exceptions=False
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "red"),
    [
        (always_first, {"position_bias", "flip_direction", "swap_consistency"}),
        (coin, {"swap_consistency"}),
        (longest, {"longer_wins"}),
    ],
)
def test_a_bad_judge_is_red_on_the_first_screen_and_the_audit_exits_1(
    judged_by: Callable[[Callable[[str], str]], PaidProject],
    rule: Callable[[str], str],
    red: set[str],
) -> None:
    paid = judged_by(rule)
    done = invoke(paid, "run")
    assert done.exit_code == 0, done.output
    printed = done.stdout.strip()
    first = " ".join(printed.split("\n\n")[0].split())
    assert first.startswith(f"The judge on calibration: {len(red)} of ")
    audit = invoke(paid, "audit")
    assert audit.exit_code == 1
    assert " ".join(audit.stdout.split()).startswith(first)
    assert "84 of 120 pairs (70.0 %) have the same text on both sides" in audit.stdout.replace(
        "\n", " "
    )
    rows = paid.rows("trust_panel", "calibration")
    panel = {row["measure"]: row for row in rows if row["subject"] is None}
    assert {name for name, row in panel.items() if row["state"] == "red"} == red
    # What was never asked is in no measure of the judge.
    assert panel["swap_consistency"]["n"] == ASKED
    if rule is always_first:
        assert (panel["swap_consistency"]["value"], panel["position_bias"]["value"]) == (0.0, 1.0)
        assert panel["position_bias"]["n"] == 2 * ASKED
    (report,) = paid.project.folder.glob("runs/*/report.md")
    first_screen, _ = report.read_text().split("\n## ", 1)
    assert "The judge on calibration" in first_screen
    assert "the same text" in first_screen
    outcomes = [row["outcome"] for row in paid.rows("judge_verdicts", "calibration")]
    assert outcomes.count("same_text") == 3 * (N_PROMPTS - N_DIFFERING)
    for row in paid.rows("win_rates", "calibration"):
        assert (row["judged"], row["same_text"]) == (N_DIFFERING, N_PROMPTS - N_DIFFERING)
