"""What stands in place of a tournament whose config cannot be loaded.

A broken config affects no other. Its tournament is missing until it is repaired; in its place is an
asset whose failed check names the file and line.
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
        name: Its asset's name: the file's name in characters that Dagster accepts.
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
        return next((int(match[1]) for text in self.problems if (match := place.match(text))), 1)

    def describe(self) -> str:
        """Describe in Markdown what is wrong and what to do; what the file holds stays literal."""
        # Four spaces make text of any content literal; a fence could be closed by it.
        quoted = "\n".join(
            f"    {line}" for problem in self.problems for line in problem.splitlines()
        )
        return (
            f"{self.path.name} cannot be loaded: its tournament is missing here, with its "
            f"schedules and sensors.\n\n{quoted}\n\n"
            "Correct the file, then reload the code location."
        )

    def check_result(self) -> dg.AssetCheckResult:
        """Return the check that fails for it."""
        return dg.AssetCheckResult(
            passed=False,
            asset_key=self.key,
            check_name=_CHECK,
            description=self.describe(),
            metadata={"file": str(self.path), "line": str(self.line)},
        )


def name_broken_config(path: Path, taken: Collection[str]) -> str:
    """Return a name for a config that no other broken config has."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", path.stem)
    return name if name not in taken else name_broken_config(path.with_stem(f"{name}_2"), taken)


def build_problem_asset(broken: BrokenConfig) -> dg.AssetSpec:
    """Build the placeholder asset for a config that cannot be loaded; it cannot be run."""
    reference = dg.LocalFileCodeReference(
        file_path=str(broken.path), line_number=broken.line, label=broken.path.name
    )
    return dg.AssetSpec(
        broken.key,
        description=broken.describe(),
        group_name=f"{broken.name}_0_config_problem",
        metadata={
            "file": str(broken.path),
            "line": str(broken.line),
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
                _CHECK, asset=config.key, description="Whether the config can be loaded."
            )
            for config in broken
        ],
    )
    def configs_can_be_loaded() -> Iterator[dg.AssetCheckResult]:
        for config in broken:
            yield config.check_result()

    return [configs_can_be_loaded]


def build_problem_sensor(broken: Sequence[BrokenConfig]) -> list[dg.SensorDefinition]:
    """Build the sensor that reports that check's failure automatically, if there is one."""
    if not broken:
        return []

    @dg.sensor(
        name="tell_config_problems",
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports once what is wrong with a config that cannot be loaded; runs nothing.",
    )
    def tell_config_problems(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        said_before = json.loads(context.cursor) if context.cursor else {}
        problems = {str(config.path): list(config.problems) for config in broken}
        new = [each for each in broken if said_before.get(str(each.path)) != list(each.problems)]
        return dg.SensorResult(
            asset_events=[dg.AssetCheckEvaluation(**each.check_result()._asdict()) for each in new],
            skip_reason=f"{len(broken)} configs cannot be loaded: {', '.join(sorted(problems))}",
            cursor=json.dumps(problems, sort_keys=True),
        )

    return [tell_config_problems]
