"""The interface of readers: a harness's files, its runs, and its scoring rule.

A harness is a class that extends `Reader`; `clawbench` is one. Only `read` must be written.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from tournament_assets.extras.archives.documents import Edit

JUDGE = "judge"
"""What weights call the judge."""


@dataclass(frozen=True, slots=True)
class Weighting:
    """The weights that some runs are scored by: the score is their weighted mean.

    Attributes:
        name: What it is called.
        when: Which runs are scored so, in words that follow each other in a list.
        weights: The weights, by component; `judge` is the judge. What is not named has none.
    """

    name: str
    when: str
    weights: Mapping[str, float]

    @property
    def judge_share(self) -> float:
        """The judge's share of the score."""
        return self.weights.get(JUDGE, 0.0) / fsum(self.weights.values())


class JudgeState(StrEnum):
    """What became of asking the judge about a run."""

    OFF = "off"
    """The judge was not asked."""
    SCORED = "scored"
    """The judge gave a score."""
    REJUDGED = "rejudged"
    """The judge gave a score when it was asked again."""
    FAILED = "failed"
    """Something on the way to the judge failed; there is no score."""


@dataclass(frozen=True, slots=True)
class JudgeOutcome:
    """What a run's file says of the judge.

    Attributes:
        state: What became of asking it.
        score: Its score; None unless there is one.
        reason: What it, or what failed, said.
        rejudged_by: The model that judged again; None where the file does not say.
        recorded: What the file has in place of the score, valid or not.
    """

    state: JudgeState = JudgeState.OFF
    score: float | None = None
    reason: str = ""
    rejudged_by: str | None = None
    recorded: float | None = None


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """What a run's file says.

    Attributes:
        run_score: The run's score.
        components: The components' scores, by name; None where the file has none.
        with_judge: How the harness scores the run where the judge gave a score.
        without_judge: How it scores the run where the judge gave none.
        is_at_ceiling: Whether the deciding component is as high as it can be.
        judge: What became of asking the judge.
        is_empty: Whether the model did nothing; None where the file does not tell.
        failure: What the harness says went wrong; empty if nothing.
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
        """The score that the rule gives; None where a component is missing."""
        return self.score_with(self.judge.score)

    def score_with(self, judge_score: float | None) -> float | None:
        """Return the score that the rule would give; None where a component is missing.

        Args:
            judge_score: The judge's score; None where there is none.
        """
        weights = (self.without_judge if judge_score is None else self.with_judge).weights
        scores = {**self.components, JUDGE: judge_score}
        parts = [(weight, scores.get(name)) for name, weight in weights.items()]
        known = [weight * score for weight, score in parts if score is not None]
        if len(known) < len(parts):
            return None
        # Summed exactly, so that weights that make up a whole do.
        return fsum(known) / fsum(weights.values())


class RunFile(NamedTuple):
    """A file that should hold a run.

    Attributes:
        run: The run's name.
    """

    task: str
    run: str
    path: Path


class LogLine(NamedTuple):
    """A line of a log that tells of a failure.

    Attributes:
        kind: The kind of failure, in a few words.
        task: The task; None where the line does not say.
        run: The run's name, as its file has it; None where the line does not say.
        model: A model's id, label or folder; None where the log is of one model.
    """

    kind: str
    task: str | None = None
    run: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class NewScore:
    """What the judge said when it was asked again.

    Attributes:
        model: The model that answered; None where the service did not say.
        received_at: When, in ISO 8601.
        usage: The tokens of the call; None where the service did not say.
        threshold: The score from which on a run passes; None where nobody says.
    """

    score: float
    reason: str
    model: str | None
    received_at: str
    usage: Mapping[str, Any] | None = None
    threshold: float | None = None


@runtime_checkable
class Reader(Protocol):
    """What one harness writes, and how it scores.

    Attributes:
        weightings: Every weighting, in the order in which they are tried.
        deciding: The component that must be at its ceiling for a run to pass.
        ceiling: The highest score there is; the lowest is 0.
        zero_below: A run that scores less is not clean: most such runs never came to anything.
        decimals: To how many decimals the harness rounds a run's score.
    """

    weightings: tuple[Weighting, ...]
    deciding: str
    ceiling: float = 1.0
    zero_below: float = 0.01
    decimals: int = 4

    @abstractmethod
    def read(self, document: Mapping[str, Any]) -> ScoredRun:
        """Take a run from the JSON object that its file holds.

        Raises:
            ValueError: If a score is missing or makes no sense. The file is then listed with this
                reason, and the run counts as missing.
        """

    def files(self, folder: Path) -> Iterator[RunFile]:
        """Yield the files of a model's folder: here `<task>/run*.json`."""
        for task in sorted(path for path in folder.iterdir() if path.is_dir()):
            for path in sorted(task.glob("run*.json")):
                yield RunFile(task.name, path.stem, path)

    def run_names(self, count: int) -> tuple[str, ...]:
        """Return the names of a task's runs, if there are so many of them: here from run1 on."""
        return tuple(f"run{number}" for number in range(1, count + 1))

    def tier(self, task: str) -> str:  # noqa: ARG002 (readers extend it)
        """Return a task's tier; all tasks are of one where there are none."""
        return "all tasks"

    def log_line(self, line: str) -> LogLine | None:  # noqa: ARG002 (readers extend it)
        """Return the failure that a line of a log tells of; None if it tells of none."""
        return None


@runtime_checkable
class RewritingReader(Reader, Protocol):
    """A reader of files into which a new score can be written."""

    @abstractmethod
    def rewrite(
        self, document: Mapping[str, Any], new: NewScore, run_score: float
    ) -> Sequence[Edit]:
        """Return what of a run's file is replaced after its judging was repeated.

        What only the failed call can have said must not stand beside the new score.

        Args:
            document: What the file holds.
            new: What the judge says now.
            run_score: The run's score by the rule.
        """
