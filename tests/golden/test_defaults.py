"""Fingerprints leave out what has its default, so a default may not change its meaning silently.

`python -m tests.golden.test_defaults` writes the defaults down: for keys that are added or go.
"""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic_core import to_jsonable_python

from tournament_assets.foundation.extensions import installed_extras
from tournament_assets.tournament import config
from tournament_assets.tournament.places import Frozen

TESTS = Path(__file__).parents[1]
FROZEN = {
    (config.__package__ or ""): TESTS / "golden" / "defaults.json",
    **{
        f"tournament_assets.extras.{extra}": path
        for extra in installed_extras()
        if (path := TESTS / "extras" / extra / "defaults.json").exists()
    },
}
"""Where the defaults of the keys that a package defines are, by the package."""


def _models(base: type[Frozen]) -> Iterator[type[Frozen]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def _defaults(package: str) -> dict[str, object]:
    """Return the default of every optional key that a package defines, by class and key."""
    return {
        f"{model.__name__}.{name}": to_jsonable_python(field.get_default(call_default_factory=True))
        for model in sorted(_models(Frozen), key=lambda model: model.__name__)
        if model.__module__.startswith(package)
        for name, field in sorted(model.model_fields.items())
        if not field.is_required() and _definer(model, name).startswith(package)
    }


def _definer(model: type[Frozen], name: str) -> str:
    """Return the module of the class that a key of a model comes from."""
    return next(each.__module__ for each in model.__mro__ if name in inspect.get_annotations(each))


@pytest.mark.parametrize("package", FROZEN)
def test_a_default_changes_only_where_somebody_says_what_becomes_of_old_results(
    package: str,
) -> None:
    frozen = json.loads(FROZEN[package].read_text())
    found = json.loads(json.dumps(_defaults(package), default=str))
    changed = {key: found[key] for key in frozen if key in found and found[key] != frozen[key]}
    assert not changed, (
        "results made by the old default would pass for results of the new one: give the new "
        "behaviour a key or value of its own, or raise the version of what it decides"
    )
    assert set(frozen) == set(found), "run python -m tests.golden.test_defaults"


if __name__ == "__main__":
    for each, path in FROZEN.items():
        path.write_text(json.dumps(_defaults(each), indent=1, sort_keys=True, default=str) + "\n")
