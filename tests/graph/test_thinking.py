from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.loopback.faults import fates
from tournament_assets.foundation.errors import WorkError
from tournament_assets.loopback import batches, messages, server

from .paid_projects import paid_project

REFUSED = '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".'


def test_every_request_says_how_to_think_and_a_refused_budget_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: list[Any] = []

    def look_at(params: Mapping[str, Any]) -> str | None:
        kinds.append(params.get("thinking"))
        is_budget = kinds[-1] is not None and kinds[-1]["type"] == "enabled"
        return REFUSED if is_budget else messages.find_invalid_parameter(params)

    for module in (server, batches, fates):
        monkeypatch.setattr(module, "find_invalid_parameter", look_at)
    with paid_project(tmp_path) as paid:
        for thinking in ("adaptive", "disabled", None):
            kinds.clear()
            n_asked = paid.n_asked
            paid.project.seat({"thinking": thinking})
            paid.run()
            assert paid.n_asked > n_asked
            assert kinds == [thinking and {"type": thinking}] * len(kinds)
        paid.project.seat({"thinking": {"budget": 1024}, "max_tokens": 4096})
        with pytest.raises(WorkError, match=r"thinking\.type\.enabled.* max_tokens, thinking or"):
            paid.run()
