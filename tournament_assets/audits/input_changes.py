"""What two runs rest on, compared by their manifests: settings, and the hash of every input."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tournament_assets.tournament.fingerprints import canonical_json

_NO_INPUTS = frozenset(
    {
        "started_at",
        "finished_at",
        "cost",
        "command",
        "pairs",
        "replies_pending",
        "project_commit",
    }
)
"""What a manifest says of the run itself and of what came of it; hashes tell a commit's content."""


@dataclass(frozen=True, slots=True)
class InputChange:
    """Something that differs between two runs.

    Attributes:
        name: Where the manifest says it, such as `inputs.rubrics.factuality.hash`.
        then: What the first run says; None if it has no such thing.
        now: What the second run says; None if it has no such thing.
    """

    name: str
    then: Any
    now: Any


@dataclass(frozen=True, slots=True)
class InputComparison:
    """What differs between the inputs of two runs.

    Attributes:
        changes: What differs, in the order of the manifests.
        known_to_one: What the manifest of only one run records, as another version of this program
            would: nobody knows whether it differs.
    """

    changes: tuple[InputChange, ...]
    known_to_one: tuple[str, ...]

    def names(self, beginning: str) -> list[str]:
        """Return what follows some beginning in the names of the changes, up to the next dot."""
        return list(
            dict.fromkeys(
                change.name.removeprefix(beginning).split(".")[0]
                for change in self.changes
                if change.name.startswith(beginning)
            )
        )


def compare_inputs(then: Mapping[str, Any], now: Mapping[str, Any]) -> InputComparison:
    """Compare the manifests of two runs, but for times, costs and results.

    Args:
        then: The first run's manifest.
        now: The second run's manifest.
    """
    first, second = (
        {name: value for name, value in manifest.items() if name not in _NO_INPUTS}
        for manifest in (then, now)
    )
    known_to_one = [name for name in {**first, **second} if (name in first) != (name in second)]
    old, new = first.get("inputs"), second.get("inputs")
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        known_to_one += [
            f"inputs.{name}" for name in {**old, **new} if (name in old) != (name in new)
        ]
    flat_first, flat_second = _flatten(first), _flatten(second)
    return InputComparison(
        changes=tuple(
            InputChange(name, flat_first.get(name), flat_second.get(name))
            for name in {**flat_first, **flat_second}
            if canonical_json(flat_first.get(name)) != canonical_json(flat_second.get(name))
            and not any(name == each or name.startswith(f"{each}.") for each in known_to_one)
        ),
        known_to_one=tuple(known_to_one),
    )


def _flatten(values: Mapping[str, Any], beginning: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{beginning}{name}.")
        else:
            flat[f"{beginning}{name}"] = value
    return flat
