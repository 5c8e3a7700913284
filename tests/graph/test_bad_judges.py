"""Judges that no rating may rest on, on a tournament most of whose responses are copies."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.projects import ENTRANTS, make_project, write_json_lines
from tournament_assets.cli import main

from .changed_judge import BadJudge, always_first, coin, longest
from .paid_projects import SECRET, PaidProject, paid_project

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
        project.draw(recall=N_PROMPTS)
        return PaidProject(project, server)

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ANTHROPIC_API_KEY", SECRET)
        yield judge
    for server in servers:
        server.__exit__(None, None, None)


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
    summary = paid.run()
    lights, copies = summary.cautions
    assert f" calibration: {len(red)} of " in lights
    assert "84 of 120 " in copies
    options = ["audit", "--config", str(paid.project.config_path), "--mode", "pilot"]
    audit = CliRunner().invoke(main, options, env=paid.environment, catch_exceptions=False)
    assert audit.exit_code == 1
    printed = " ".join(audit.stdout.split())
    assert printed.startswith(lights)
    assert "84 of 120 " in printed
    rows = paid.rows("measures", "calibration")
    panel = {row["measure"]: row for row in rows if row["subject"] is None}
    assert {name for name, row in panel.items() if row["state"] == "red"} == red
    # What was never asked is in no measure of the judge.
    assert panel["swap_consistency"]["n"] == ASKED
    if rule is always_first:
        assert (panel["swap_consistency"]["value"], panel["position_bias"]["value"]) == (0.0, 1.0)
        assert panel["position_bias"]["n"] == 2 * ASKED
    first_screen, _ = (summary.directory / "report.md").read_text().split("\n## ", 1)
    assert lights.split(":")[0] in first_screen
    assert "84 of 120 " in first_screen
    outcomes = [row["outcome"] for row in paid.rows("judge_verdicts", "calibration")]
    assert outcomes.count("same_text") == 3 * (N_PROMPTS - N_DIFFERING)
    for row in paid.rows("win_rates", "calibration"):
        assert (row["judged"], row["same_text"]) == (N_DIFFERING, N_PROMPTS - N_DIFFERING)


def test_a_judge_without_verdicts_ends_the_run_with_1_and_is_not_asked_twice(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path, "verdict_abstain:always") as paid:
        options = ["run", "--config", str(paid.project.config_path), "--mode", "pilot"]
        run = CliRunner().invoke(main, options, env=paid.environment, catch_exceptions=False)
        assert run.exit_code == 1
        assert "not one pair has two replies" in " ".join(run.output.split())
        assert paid.n_asked == 24
