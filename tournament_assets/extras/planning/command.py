"""`tournament plan`."""

from dataclasses import asdict
from pathlib import Path

import click

from tournament_assets.cli.options import config_option, json_option, show_report
from tournament_assets.extras.planning.planner import plan_prompts
from tournament_assets.extras.planning.tables import plan_document, plan_files
from tournament_assets.preparing.estimates import estimate_tournament
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.run_comparison.run_reading import read_finished_runs
from tournament_assets.storage.atomic_files import write_bytes_atomically


@click.command("plan")
@config_option
@click.option("--mode", metavar="MODE", default="headline", show_default=True, help="What to plan.")
@click.option(
    "--from-pilot",
    "pilot",
    metavar="RUN_DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A finished run that shows how prompts differ and how many pairs are ties.",
)
@click.option("--judge-model", metavar="ID", help="Price this model instead of the configured one.")
@click.option(
    "--picture",
    metavar="OUT.svg",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw dollars against the smallest visible gap, as PNG or SVG; one file per dimension.",
)
@json_option
def plan_command(
    plan: TournamentPlan,
    mode: str,
    pilot: Path | None,
    judge_model: str | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Compute how many prompts it takes to separate entrants 10, 20 and 50 Elo points apart.

    Two entrants are separated if one is better by the leaderboard's rule for all pairs of a
    dimension together, with a probability of 80 %. The plan also gives the cost of judging
    everything or adaptively, in both orders or in one. It sends nothing.
    """
    (run,) = read_finished_runs([pilot]) if pilot else (None,)
    estimate = estimate_tournament(plan, mode, judge_model=judge_model)
    plans = plan_prompts(estimate, plan, pilot=run)
    if picture is not None:
        for path, content in plan_files(plans, picture).items():
            write_bytes_atomically(path, content)
    show_report(
        plan_document(plans, run.at("first_screen", "next_steps") or () if run else ()),
        lambda: [asdict(dimension) for dimension in plans],
        as_json=as_json,
        width=100,
    )
