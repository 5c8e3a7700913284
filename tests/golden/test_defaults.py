"""Fingerprints leave out what has its default, so a default may not change its meaning silently.

`python -m tests.golden.test_defaults` writes the defaults down: for keys that are added or go.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic_core import to_jsonable_python

from tournament_assets.tournament import config
from tournament_assets.tournament.places import Frozen

FROZEN = Path(__file__).with_name("defaults.json")


def _models(base: type[Frozen]) -> Iterator[type[Frozen]]:
    for model in base.__subclasses__():
        yield model
        yield from _models(model)


def _defaults() -> dict[str, object]:
    """Return the default of every optional key of a tournament, by class and key."""
    return {
        f"{model.__name__}.{name}": to_jsonable_python(field.get_default(call_default_factory=True))
        for model in sorted(_models(Frozen), key=lambda model: model.__name__)
        if model.__module__.startswith(config.__package__ or config.__name__)
        for name, field in sorted(model.model_fields.items())
        if not field.is_required()
    }


def test_a_default_changes_only_where_somebody_says_what_becomes_of_old_results() -> None:
    frozen, found = json.loads(FROZEN.read_text()), json.loads(json.dumps(_defaults()))
    changed = {key: found[key] for key in frozen if key in found and found[key] != frozen[key]}
    assert not changed, (
        "results made by the old default would pass for results of the new one: give the new "
        "behaviour a key or value of its own, or raise the version of what it decides"
    )
    assert set(frozen) == set(found), "run python -m tests.golden.test_defaults"


if __name__ == "__main__":
    FROZEN.write_text(json.dumps(_defaults(), indent=1, sort_keys=True) + "\n")
