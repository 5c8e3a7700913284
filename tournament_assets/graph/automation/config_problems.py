"""What the UI shows of a config that cannot be loaded: an asset, with a check that has failed.

A broken config takes down itself alone. The tournament that it describes is missing until it is
repaired; in its place stands an asset that says in which line of which file the trouble is.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

_CHECK = "config_can_be_loaded"
_INTERVAL_SECONDS = 30


@dataclass(frozen=True, slots=True)
class BrokenConfig:
    """A config that cannot be loaded.

    Attributes:
        path: The file.
        name: What it is called among assets: its file's name, of letters that Dagster takes.
        problems: What is wrong with it, one sentence each: file, line, found, expected.
    """

    path: Path
    name: str
    problems: tuple[str, ...]

    @property
    def key(self) -> dg.AssetKey:
        """The key of its asset."""
        return dg.AssetKey([self.name, "config_problem"])

    @property
    def line(self) -> int:
        """The first line with a problem; the first of the file, if none is known."""
        place = re.compile(re.escape(str(self.path)) + r":(\d+):")
        return next((int(found[1]) for each in self.problems if (found := place.match(each))), 1)

    def describe(self) -> str:
        """Say in Markdown what is wrong and what to do; what the file holds stays literal."""
        # Four spaces make text of any content literal; a fence could be closed by it.
        quoted = "\n".join(
            f"    {line}" for problem in self.problems for line in problem.splitlines()
        )
        return (
            f"{self.path.name} cannot be loaded: its tournament is missing here, with its "
            f"schedules and sensors.\n\n{quoted}\n\n"
            "Correct the file, then reload the code location."
        )


def name_broken_config(path: Path, taken: Collection[str]) -> str:
    """Return a name for a config that no other broken config has."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", path.stem)
    return name if name not in taken else name_broken_config(path.with_stem(f"{name}_2"), taken)


def build_problem_asset(broken: BrokenConfig) -> dg.AssetSpec:
    """Build the asset that stands for a config that cannot be loaded; nothing can run it."""
    reference = dg.LocalFileCodeReference(
        file_path=str(broken.path), line_number=broken.line, label=broken.path.name
    )
    return dg.AssetSpec(
        broken.key,
        description=broken.describe(),
        group_name=f"{broken.name}_0_config_problem",
        metadata={
            "file": str(broken.path),
            "line": broken.line,
            "problems": dg.MetadataValue.json(list(broken.problems)),
            "dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[reference]),
        },
    )


def build_problem_checks(broken: Sequence[BrokenConfig]) -> list[dg.AssetChecksDefinition]:
    """Build the check that fails for every config that cannot be loaded, if there are any."""
    if not broken:
        return []

    @dg.multi_asset_check(
        name="configs_can_be_loaded",
        specs=[
            dg.AssetCheckSpec(
                _CHECK, asset=each.key, description="Whether the config can be loaded."
            )
            for each in broken
        ],
    )
    def configs_can_be_loaded() -> Iterator[dg.AssetCheckResult]:
        for each in broken:
            yield dg.AssetCheckResult(
                passed=False,
                asset_key=each.key,
                check_name=_CHECK,
                description=each.describe(),
                metadata={"file": str(each.path), "line": each.line},
            )

    return [configs_can_be_loaded]


def build_problem_sensor(broken: Sequence[BrokenConfig]) -> list[dg.SensorDefinition]:
    """Build the sensor that lets that check fail without anybody's help, if there is one."""
    if not broken:
        return []

    @dg.sensor(
        name="tell_config_problems",
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Says once of each config that cannot be loaded what is wrong; runs nothing.",
    )
    def tell_config_problems(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        said_before = json.loads(context.cursor) if context.cursor else {}
        said = {str(each.path): list(each.problems) for each in broken}
        new = [each for each in broken if said_before.get(str(each.path)) != list(each.problems)]
        return dg.SensorResult(
            asset_events=[
                dg.AssetCheckEvaluation(
                    asset_key=each.key,
                    check_name=_CHECK,
                    passed=False,
                    severity=dg.AssetCheckSeverity.ERROR,
                    description=each.describe(),
                    metadata={"file": str(each.path), "line": each.line},
                )
                for each in new
            ],
            skip_reason=f"{len(broken)} configs cannot be loaded: {', '.join(sorted(said))}",
            cursor=json.dumps(said, sort_keys=True),
        )

    return [tell_config_problems]
