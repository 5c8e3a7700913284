"""The interface of readers, which know a harness's files, runs and scoring rule.

A reader extends `Reader`, as `clawbench` does, and must implement only `read`.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

JUDGE = "judge"
"""The judge's name among the weights."""


@dataclass(frozen=True, slots=True)
class Weighting:
    """The weights of a run's components; the run's score is their weighted mean.

    Attributes:
        when: Which runs it applies to, as a phrase for a list.
        weights: The weights, by component or `judge`; unnamed components have none.
    """

    name: str
    when: str
    weights: Mapping[str, float]

    @property
    def judge_share(self) -> float:
        """The judge's share of the score."""
        return self.weights.get(JUDGE, 0.0) / fsum(self.weights.values())


class JudgeState(StrEnum):
    """The result of asking the judge about a run."""

    OFF = "off"
    """The judge was not asked."""
    SCORED = "scored"
    """The judge gave a score."""
    REJUDGED = "rejudged"
    """The judge gave a score when it was asked again."""
    FAILED = "failed"
    """There is no score, because the judge could not be reached or did not answer."""


@dataclass(frozen=True, slots=True)
class JudgeOutcome:
    """The judge's part of a run's file.

    Attributes:
        reason: The judge's reason, or the error message.
        rejudged_by: The model that judged again; None if the file does not name it.
        recorded: The number recorded as the score, valid or not; one above 0 is never replaced.
    """

    state: JudgeState = JudgeState.OFF
    score: float | None = None
    reason: str = ""
    rejudged_by: str | None = None
    recorded: float | None = None


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A run's scores, as recorded in its file.

    Attributes:
        components: The components' scores, by name; None if the file has none.
        with_judge: How the harness scores the run if the judge gave a score.
        without_judge: How it scores the run if the judge gave none.
        is_at_ceiling: Whether the deciding component has its highest possible score.
        is_empty: Whether the model did nothing; None if the file does not say.
        failure: The failure that the harness recorded; empty if there was none.
    """

    run_score: float
    components: Mapping[str, float | None]
    with_judge: Weighting
    without_judge: Weighting
    is_at_ceiling: bool
    judge: JudgeOutcome = JudgeOutcome()
    is_empty: bool | None = None
    failure: str = ""

    @property
    def weighting(self) -> Weighting:
        """How the harness scored it."""
        return self.without_judge if self.judge.score is None else self.with_judge

    @property
    def rule_score(self) -> float | None:
        """The score that the rule gives; None if a component is missing."""
        return self.score_with(self.judge.score)

    def score_with(self, judge_score: float | None) -> float | None:
        """Return the score that the rule would give; None if a component is missing."""
        weights = (self.without_judge if judge_score is None else self.with_judge).weights
        scores = {**self.components, JUDGE: judge_score}
        parts = [(weight, scores.get(name)) for name, weight in weights.items()]
        terms = [weight * score for weight, score in parts if score is not None]
        if len(terms) < len(parts):
            return None
        # Summed exactly, so that weights that should add up to 1 do.
        return fsum(terms) / fsum(weights.values())


class RunFile(NamedTuple):
    """A file that should hold a run, with the names of the task and the run."""

    task: str
    run: str
    path: Path


@dataclass(frozen=True, slots=True)
class LogLine:
    """A failure that a log line reports; fields that the line does not name are None.

    Attributes:
        kind: The kind of failure, in a few words.
        run: The run's name, as in its file.
        model: A model's id, label or folder; None in a log of one model.
    """

    kind: str
    task: str | None = None
    run: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class NewScore:
    """The judge's score after it was asked again.

    Attributes:
        model: The model that answered; None if the service did not say.
        received_at: The time of the reply, in ISO 8601.
        usage: The tokens of the call; None if the service did not say.
    """

    score: float
    reason: str
    model: str | None
    received_at: str
    usage: Mapping[str, Any] | None = None


@runtime_checkable
class Reader(Protocol):
    """The files that a harness writes, and how it scores runs.

    Attributes:
        weightings: Every weighting, in the order in which they are tried.
        deciding: The component that must be at its ceiling for a run to pass.
        ceiling: The highest possible score; the lowest is 0.
        zero_below: A run that scores less is not clean: most such runs never got started.
        decimals: The number of decimals to which the harness rounds a run's score.
    """

    weightings: tuple[Weighting, ...]
    deciding: str
    ceiling: float = 1.0
    zero_below: float = 0.01
    decimals: int = 4

    @abstractmethod
    def read(self, document: Mapping[str, Any]) -> ScoredRun:
        """Read a run from the JSON object in its file.

        Raises:
            InputError: If a score is missing or invalid. The file is then listed with this reason,
                and the run counts as missing.
        """

    def files(self, folder: Path) -> Iterator[RunFile]:
        """Yield the files in a model's folder: by default `<task>/run*.json`."""
        for task in sorted(path for path in folder.iterdir() if path.is_dir()):
            for path in sorted(task.glob("run*.json")):
                yield RunFile(task.name, path.stem, path)

    def run_names(self, count: int) -> tuple[str, ...]:
        """Return the names of a task's runs: by default run1, run2 and so on."""
        return tuple(f"run{number}" for number in range(1, count + 1))

    def tier(self, task: str) -> str:  # noqa: ARG002 (readers extend it)
        """Return a task's tier: by default all tasks are in one."""
        return "all tasks"

    def log_line(self, line: str) -> LogLine | None:  # noqa: ARG002 (readers extend it)
        """Return the failure that a line of a log reports; None if it reports none."""
        return None


@runtime_checkable
class RewritingReader(Reader, Protocol):
    """A reader that can also put a new score into a run's file."""

    @abstractmethod
    def rewrite(
        self, document: Mapping[str, Any], new: NewScore, run_score: float
    ) -> Mapping[str, Any]:
        """Return the new values in a run's file after its judging was repeated, by key.

        The old ones are kept beside them. No value that only the failed call can have given may
        remain beside the new score.

        Args:
            run_score: The run's score by the rule.
        """
