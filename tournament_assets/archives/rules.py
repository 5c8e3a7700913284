"""How the runs of an archive are scored: components, the judge, and what has which weight when."""

import re
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from tournament_assets.tournament.places import Frozen

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
OF_THE_CALL = ("confidence", "duration_ms", "rubric_hits", "rubric_misses")
"""What a harness writes beside the judge's score that only the call that gave it can know."""
JUDGE = "judge"
"""What weights call the judge."""


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
        passed: In that object: whether its score is at least the threshold.
        threshold: In that object: the score from which on a run passes.
        usage: In that object: the tokens of the call.
        model: In that object: the model that was asked.
        of_the_call: In that object: what else belongs to the call that gave the score.
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
    passed: str = "passed"
    threshold: str = "passing_threshold"
    usage: str = "token_usage"
    model: str = "model"
    of_the_call: Annotated[tuple[str, ...], FromList] = OF_THE_CALL
    phrases: Annotated[tuple[str, ...], FromList] = DEFAULT_PHRASES
    failure_score: float | None = None


class When(Frozen):
    """Which runs a weighting is for; what is given must all hold.

    Attributes:
        key: Where a run's file says it; dots lead into objects.
        equals: What must stand there, or a list of what may; null is also what is absent.
        tasks: A regular expression, searched in the task's id.
    """

    key: str | None = Field(default=None, min_length=1)
    equals: Any = None
    tasks: str | None = None

    @field_validator("equals")
    @classmethod
    def _is_plain(cls, value: Any) -> Any:
        values = value if isinstance(value, list) else [value]
        plain = all(each is None or isinstance(each, str | int | float) for each in values)
        if not values or not plain:
            raise ValueError(f"it is {value!r}; expected a value, or a list of values")
        return tuple(values)

    @field_validator("tasks")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        return None if value is None else pattern_with(value)

    @model_validator(mode="after")
    def _says_something(self) -> "When":
        if self.key is None and self.tasks is None:
            raise ValueError("neither key nor tasks is given; expected one of them, or both")
        if (self.key is None) == ("equals" in self.model_fields_set):
            raise ValueError("expected key and equals together")
        return self

    def holds(self, task: str, found: Any) -> bool:
        """Whether it holds for a run.

        Args:
            task: The run's task.
            found: What stands under `key` in the run's file; None if nothing does.
        """
        if self.tasks is not None and re.search(self.tasks, task) is None:
            return False
        # To Python, but to nobody else, False is 0.
        return self.key is None or any(
            found == each and isinstance(found, bool) == isinstance(each, bool)
            for each in self.equals
        )


class Weighting(Frozen):
    """The weights that some runs are scored by.

    Attributes:
        name: What it is called.
        when: Which runs it is for; None is for all.
        at_ceiling: Whether it is only for runs whose deciding component is at its ceiling.
        weights: The weights, by component; `judge` is the judge. What is not named has none. A
            weighting in which the judge has a weight is only for runs that have the judge's score.
    """

    name: str = Field(min_length=1)
    when: When | None = None
    at_ceiling: bool = False
    weights: Mapping[str, Annotated[float, Field(gt=0)]] = Field(min_length=1)

    @property
    def has_judge(self) -> bool:
        """Whether the judge has a weight."""
        return JUDGE in self.weights


class ScoreRules(Frozen):
    """How a run's score is made: its components' weighted mean, by the first weighting that fits.

    After the `weightings`, if any, come two that the components' own weights make: with the judge
    where the deciding component is at its ceiling, and without it for all other runs.

    Attributes:
        run_score: Where the run's score stands in the file.
        components: What it is made of, besides the judge.
        deciding: The component that must be at its ceiling for the judge to count.
        judge: The judge's part.
        weightings: The weights of runs that are not scored like the others.
        ceiling: The highest score there is.
        tolerance: How far below the ceiling still is at it.
        zero_below: A run that scores less is not clean: most such runs never came to anything.
    """

    run_score: str = "run_score"
    components: Annotated[tuple[ScoredComponent, ...], FromList] = Field(min_length=1)
    deciding: str
    judge: JudgeFields
    weightings: Annotated[tuple[Weighting, ...], FromList] = ()
    ceiling: float = Field(default=1.0, gt=0)
    tolerance: float = Field(default=1e-4, ge=0)
    zero_below: float = Field(default=0.01, ge=0)

    @model_validator(mode="after")
    def _names_fit(self) -> "ScoreRules":
        names = [component.name for component in self.components]
        if len(set(names)) < len(names):
            raise ValueError("two components have the same name; expected each once")
        if JUDGE in names:
            raise ValueError(f"a component is named {JUDGE!r}, as weights call the judge")
        if self.deciding not in names:
            raise ValueError(f"deciding is {self.deciding!r}; expected one of {', '.join(names)}")
        called = [weighting.name for weighting in self.all_weightings]
        if len(set(called)) < len(called):
            raise ValueError("two weightings have the same name; expected each once")
        unknown = {name for each in self.weightings for name in each.weights} - {*names, JUDGE}
        if unknown:
            raise ValueError(
                f"weightings name {min(unknown)!r}; expected some of {', '.join([*names, JUDGE])}"
            )
        return self

    @cached_property
    def all_weightings(self) -> tuple[Weighting, ...]:
        """Every weighting, in the order in which they are tried; the last is for all runs."""
        weights = {component.name: component.weight for component in self.components}
        with_judge = {**weights, JUDGE: self.judge.weight}
        return (
            *self.weightings,
            Weighting(name="at the ceiling", at_ceiling=True, weights=with_judge),
            Weighting(name="without the judge", weights=weights),
        )

    def weighting_of(
        self, components: Mapping[str, float | None], *, has_judge: bool, fitting: Collection[str]
    ) -> Weighting:
        """Return the weighting by which a run is scored.

        Args:
            components: The components' scores, by name.
            has_judge: Whether the judge gave a score.
            fitting: The weightings among `weightings` whose `when` holds, by name.
        """
        return next(
            weighting
            for weighting in self.all_weightings
            if (weighting.when is None or weighting.name in fitting)
            and (has_judge or not weighting.has_judge)
            and (not weighting.at_ceiling or self.is_at_ceiling(components))
        )

    def is_at_ceiling(self, components: Mapping[str, float | None]) -> bool:
        """Whether the deciding component is as high as it can be."""
        score = components.get(self.deciding)
        return score is not None and score >= self.ceiling - self.tolerance


def pattern_with(value: str, *, required: tuple[str, ...] = ()) -> str:
    """Return a regular expression if it is one and has some groups.

    Raises:
        ValueError: If it does not compile, or lacks a group.
    """
    try:
        groups = re.compile(value).groupindex
    except re.error as error:
        raise ValueError(f"{value!r} is not a regular expression ({error})") from None
    for name in required:
        if name not in groups:
            raise ValueError(f"{value!r} has no group named {name}; expected (?P<{name}>…) in it")
    return value
