import json
from itertools import combinations
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.graph.bills import make_priced_project, plan_of
from tests.projects import ENTRANTS
from tournament_assets.cli import main
from tournament_assets.extras.planning.planner import plan_prompts
from tournament_assets.extras.planning.tables import DimensionPlan
from tournament_assets.foundation.errors import InputError
from tournament_assets.preparing.estimates import estimate_tournament
from tournament_assets.project.plan import load_plan
from tournament_assets.run_comparison.differences import SettledPair
from tournament_assets.run_comparison.run_reading import FinishedRun
from tournament_assets.tournament.verdicts import Outcome


def judged_pilot(folder: Path, *, n_prompts: int, n_samples: int = 1) -> FinishedRun:
    """A pilot in which the first of every two wins half of the prompts and a quarter are ties.

    Further samples of a prompt come out as the first one of further prompts.
    """
    kinds = [Outcome.A_WINS, Outcome.TIE, Outcome.A_WINS, Outcome.B_WINS]
    pairs = tuple(
        SettledPair(
            *(f"prompt_{index}", "factuality", one, other),
            kinds[(index + shift + sample) % 4],
            sample=1 + sample,
        )
        for index in range(n_prompts)
        for sample in range(n_samples)
        for shift, (one, other) in enumerate(combinations(sorted(ENTRANTS), 2))
    )
    return FinishedRun(folder, {}, {"factuality": pairs}, {}, {})


def test_a_plan_prices_every_way_to_judge_and_learns_from_a_pilot(tmp_path: Path) -> None:
    project = make_priced_project(tmp_path / "project")
    estimate = estimate_tournament(load_plan(project.config_path, project.environment), "pilot")
    (assumed,) = plan_prompts(estimate, plan_of(project), gaps=(50,))
    pilot = judged_pilot(tmp_path, n_prompts=60)
    (learnt,) = plan_prompts(estimate, plan_of(project), pilot=pilot, gaps=(50,))
    assert assumed.noise.n_prompts is None
    assert learnt.noise.n_prompts == 60
    assert learnt.noise.tied == pytest.approx(0.25)
    assert learnt.noise.gaps == pytest.approx((0.125,) * 3)
    both, population, bank = learnt.choices
    assert both.prompts is not None
    assert both.requests == both.prompts * 3 * 2
    # 24 presentations of the pilot cost what the estimate says without a single hit.
    assert estimate.planned_usd is not None
    assert both.usd == pytest.approx(both.requests * estimate.planned_usd / 24)
    assert bank.prompts == both.prompts
    assert bank.judged < both.judged == 1
    assert population.batches == bank.batches == 5
    by_gap = [prompts for _, prompts, _, _ in learnt.curve]
    assert by_gap == sorted(by_gap, reverse=True)


def test_a_plan_learns_from_as_many_samples_of_a_prompt_as_it_has_and_pays_for_them(
    tmp_path: Path,
) -> None:
    project = make_priced_project(tmp_path / "project")
    pilots = {
        n_samples: judged_pilot(tmp_path, n_prompts=60, n_samples=n_samples) for n_samples in (1, 4)
    }

    def plan(n_samples: int, pilot: FinishedRun) -> DimensionPlan:
        project.edit_config(generation={"n_samples": n_samples})
        estimate = estimate_tournament(load_plan(project.config_path, project.environment), "pilot")
        (found,) = plan_prompts(estimate, plan_of(project), pilot=pilot, gaps=(50,))
        return found

    one, four = plan(1, pilots[1]), plan(4, pilots[4])
    assert plan(1, pilots[4]).choices == one.choices
    # Of four samples each pair has two wins, a tie and a loss on every prompt: nothing varies.
    assert (four.noise.spread, four.noise.tied) == pytest.approx((1 / 61, 0.25))
    before, after = one.choices[0], four.choices[0]
    assert before.prompts is not None
    assert after.prompts is not None
    assert after.prompts < before.prompts / 4
    assert (before.requests, after.requests) == (before.prompts * 6, after.prompts * 24)
    assert four.n_prompts == one.n_prompts == 4


def test_a_pilot_of_few_prompts_is_refused_with_its_dimension(tmp_path: Path) -> None:
    project = make_priced_project(tmp_path / "project")
    estimate = estimate_tournament(load_plan(project.config_path, project.environment), "pilot")
    with pytest.raises(InputError, match=r"factuality: .* 4 prompts"):
        plan_prompts(estimate, plan_of(project), pilot=judged_pilot(tmp_path, n_prompts=4))


def test_the_command_plans_prints_and_draws(tmp_path: Path) -> None:
    project = make_priced_project(tmp_path / "project")
    base = ["plan", "--config", str(project.config_path), "--mode", "pilot"]
    picture = tmp_path / "plan.svg"
    result = CliRunner().invoke(
        main, [*base, "--picture", str(picture), "--json"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    (plan,) = json.loads(result.output)
    assert [each["elo"] for each in plan["choices"][::3]] == [10, 20, 50]
    assert b"everything" in picture.read_bytes()
    printed = CliRunner().invoke(main, base, catch_exceptions=False)
    assert "adaptive, population" in printed.output
    refused = CliRunner().invoke(main, [*base, "--picture", str(tmp_path / "plan.gif")])
    assert refused.exit_code == 2
    assert ".svg" in refused.output
