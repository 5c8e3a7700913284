"""What something was made with, besides its inputs and the settings that Dagster compares.

The program, the options of the run, and for what people read also the whole config, the prices and
the versions that it names. Every materialisation carries it as a tag, so that a later run knows
whether it would make the same again.
"""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tournament_assets.graph.assets.observed_inputs import prices_version
from tournament_assets.graph.rows import AssetRow
from tournament_assets.tournament.fingerprints import fingerprint, fingerprint_bytes
from tournament_assets.workflows.plan import TournamentPlan
from tournament_assets.workflows.provenance import read_versions, version_values

RECIPE_TAG = "tournament/recipe"
# The moment, the patience, and another way to the same replies; the rubric is an observed input.
_OF_ONE_RUN = frozenset(
    {
        "run_began_at",
        "started_at",
        "wait_seconds",
        "rejudge",
        "pay_again",
        "rubric",
        "rubrics",
        "instructions",
    }
)
_REPORTING_JOB = "7_report"
_NAMES_VERSIONS = "report"
"""What is made of it follows; asking git is not for every step."""
_CODE_SUFFIXES = frozenset({".py", ".yaml", ".html", ".css", ".js", ".md", ".txt"})


def recipe(plan: TournamentPlan, row: AssetRow, options: Mapping[str, Any]) -> str:
    """Return a fingerprint of what an asset is made with, 40 hex characters.

    Args:
        plan: The tournament.
        row: The asset.
        options: The options of the run that differ from their defaults.
    """
    declared = fields(row.wanted["options"]) if "options" in row.wanted else ()
    chosen = {
        each.name: options.get(each.name, each.default)
        for each in declared
        if each.name not in _OF_ONE_RUN
    }
    named: list[Any] = []
    if row.job == _REPORTING_JOB:
        named += [plan.config.fingerprint, plan.config_path.as_posix(), prices_version(plan)]
    if row.name == _NAMES_VERSIONS:
        named.append(version_values(read_versions(plan.project.folder)))
    # A tag of Dagster holds 63 characters.
    return fingerprint([_program(), chosen, named])[:40]


@cache
def _program() -> str:
    """The package as it was when it was first asked for."""
    root = Path(str(resources.files("tournament_assets")))
    return fingerprint(
        [
            [path.relative_to(root).as_posix(), fingerprint_bytes(path.read_bytes())]
            for path in sorted(root.rglob("*"))
            if path.suffix in _CODE_SUFFIXES and path.is_file()
        ]
    )
