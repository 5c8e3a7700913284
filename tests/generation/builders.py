"""Where the bundled checkpoint is, and descriptions of entrants that use it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import tournament_assets
from tournament_assets.tournament.entrants import VanillaHfEntrant
from tournament_assets.tournament.places import Location

if TYPE_CHECKING:
    from tournament_assets.generation.loading import LoadedEntrant

DATA = Path(tournament_assets.__file__).parent / "data"
TINY = DATA / "tiny_olmo2"


def describe(
    *,
    temperature: float | None = None,
    max_new_tokens: int = 96,
    system_prompt: str | None = None,
) -> VanillaHfEntrant:
    return VanillaHfEntrant(
        entrant_id="tiny",
        loader="vanilla_hf",
        weights=Location(builtin="tiny_olmo2"),
        temperature=temperature,
        max_new_tokens=max_new_tokens,
        system_prompt=system_prompt,
    )


Settle = Callable[[VanillaHfEntrant], "LoadedEntrant"]


def edit_json(path: Path, **changes: object) -> None:
    """Change keys of a JSON file; None takes one out."""
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))
