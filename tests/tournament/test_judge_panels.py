from typing import Any

import pytest
from pydantic import ValidationError

from tournament_assets.tournament.judges import JudgeConfig


def judge(*panel: dict[str, Any], **changes: Any) -> JudgeConfig:
    return JudgeConfig.model_validate({"service": "loopback", "panel": list(panel), **changes})


ONE, TWO, THREE = ({"model": f"loopback-{name}"} for name in ("one", "two", "three"))


def test_members_are_reached_as_the_judge_is_unless_they_say_otherwise() -> None:
    claude = {"model": "claude-opus", "service": "anthropic", "revision": "2"}
    found = judge(ONE, claude)
    assert [each.service for each in found.panel] == ["loopback", "anthropic"]
    assert [each.row.is_free for each in found.accesses] == [True, False]
    assert judge().accesses == (judge(),)


def test_three_judges_are_weighed_and_two_vote_unless_told_otherwise() -> None:
    assert judge(ONE, TWO, THREE).aggregation == "judge_aware"
    assert judge(ONE, TWO).aggregation == "plurality"
    assert judge(ONE, TWO, aggregate="single").aggregation == "single"
    assert judge(ONE, TWO, presentations="one").aggregation == "judge_aware"
    assert judge().aggregation == "single"


@pytest.mark.parametrize(
    ("panel", "changes", "words"),
    [
        ((ONE,), {}, "expected two or more"),
        ((ONE, ONE), {}, "twice"),
        (({**ONE, "share": 0.5}, {**TWO, "share": 0.5}), {}, "judges all pairs"),
        ((ONE, {"model": "claude-opus"}), {}, "expected a name that begins with 'loopback'"),
        ((), {"aggregate": "plurality"}, "panel is missing"),
        ((ONE, TWO), {"aggregate": "plurality", "presentations": "one"}, "'judge_aware'"),
        ((ONE, TWO), {"aggregate": "single", "presentations": "one"}, "'judge_aware'"),
    ],
)
def test_panels_that_cannot_judge_together_are_refused(
    panel: tuple[dict[str, Any], ...], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        judge(*panel, **changes)
