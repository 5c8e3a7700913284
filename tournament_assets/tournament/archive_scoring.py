"""How the runs of an archive are scored: components, the judge, and when the judge counts."""

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from tournament_assets.tournament.frozen import Frozen

FromList = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
"""Lets a list, which is all that YAML has, stand for a tuple, which is what is frozen."""
DEFAULT_PHRASES = (
    "gateway is restarting",
    "gateway timeout",
    "bad gateway",
    "service unavailable",
    "judge execution failed",
    "judge failed to run",
    "judge call failed",
    "judge timed out",
    "judge unavailable",
)
"""What a harness writes, in any case, where the judge's reason should stand."""


class ScoredComponent(Frozen):
    """A part of a run's score.

    Attributes:
        name: What it is called.
        key: Where its score stands in the file; dots lead into objects.
        weight: Its share of the run's score.
        weight_key: Where the file records the weight that its harness used, if it does.
    """

    name: str = Field(min_length=1)
    key: str = Field(min_length=1)
    weight: float = Field(gt=0)
    weight_key: str | None = None


class JudgeFields(Frozen):
    """Where a file holds what the judge said, and how a judge that failed is told.

    Attributes:
        key: The object that holds it; dots lead into objects.
        weight: The judge's share of a run's score, where it counts.
        enabled: In that object: whether the judge was asked.
        score: In that object: its score.
        reason: In that object: its reason.
        error: In that object: what went wrong.
        rejudged_at: In that object: when it was asked again.
        phrases: What stands, in any case, in the reason's place where something on the way failed.
        failure_score: The score that is written then: a phrase beside another one is the judge's
            own words. None believes the phrase beside any score.
    """

    key: str = "judge_result"
    weight: float = Field(gt=0)
    enabled: str = "enabled"
    score: str = "score"
    reason: str = "reason"
    error: str = "error"
    rejudged_at: str = "rejudged_at"
    phrases: Annotated[tuple[str, ...], FromList] = DEFAULT_PHRASES
    failure_score: float | None = None


class ScoreRules(Frozen):
    """How a run's score is made: the judge counts only where the deciding component is at its top.

    Attributes:
        run_score: Where the run's score stands in the file.
        components: What it is made of, besides the judge.
        deciding: The component that must be at its ceiling for the judge to count.
        judge: The judge's part.
        ceiling: The highest score there is.
        tolerance: How far below the ceiling still is at it.
        zero_below: A run that scores less is not clean: most such runs never came to anything.
    """

    run_score: str = "run_score"
    components: Annotated[tuple[ScoredComponent, ...], FromList] = Field(min_length=1)
    deciding: str
    judge: JudgeFields
    ceiling: float = Field(default=1.0, gt=0)
    tolerance: float = Field(default=1e-4, ge=0)
    zero_below: float = Field(default=0.01, ge=0)

    @model_validator(mode="after")
    def _deciding_is_one_of_them(self) -> "ScoreRules":
        names = [component.name for component in self.components]
        if len(set(names)) < len(names):
            raise ValueError("two components have the same name; expected each once")
        if self.deciding not in names:
            raise ValueError(f"deciding is {self.deciding!r}; expected one of {', '.join(names)}")
        return self
