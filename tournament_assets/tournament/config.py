"""The one configuration of a tournament: every number that changes a result, validated once.

Among them: the modes and when they run again, where checks turn red, and families of models. Extras
add keys of their own, to modes too. `yaml_files.py` reads YAML and finds a problem's line.
"""

import zoneinfo
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, create_model, field_validator, model_validator

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.formatting import expect_one_of, hint_at
from tournament_assets.tournament.entrants import AnyEntrant
from tournament_assets.tournament.judges import (
    Aggregation,
    BudgetConfig,
    ChannelChoice,
    Judge,
    JudgingConfig,
    jury_problem,
    label_judges,
)
from tournament_assets.tournament.places import FROM_LIST, FilePlace, Frozen

_OWNER = r"^(team:.+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7})$"
"""The names that Dagster accepts as an owner."""


class RerunSchedule(Frozen):
    """A schedule on which a mode is run again.

    Attributes:
        cron: The moments, five fields: minute, hour, day of the month, month, day of the week.
        time_zone: The IANA time zone that they are in.
    """

    cron: str
    time_zone: str = "UTC"

    @field_validator("cron")
    @classmethod
    def _has_five_fields(cls, cron: str) -> str:
        # Dagster, which fires the schedule, validates the fields.
        n_fields = len(cron.split())
        if n_fields != 5:
            raise ValueError(
                f"{cron!r} has {n_fields} fields; expected minute, hour, day of the month, month "
                "and day of the week, such as '0 6 * * 1' for Mondays at six"
            )
        return cron

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            zoneinfo.ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            hint = hint_at(name, zoneinfo.available_timezones())
            raise ValueError(
                f"{name!r} is not a time zone; expected an IANA name such as 'Europe/Berlin'{hint}"
            ) from None
        return name


class CheckThresholds(Frozen):
    """Where an asset check turns red.

    Attributes:
        max_unjudged_rate: Share of pairs without two readable replies.
        max_inconsistency_rate: Share of judged pairs whose two presentations disagree.
        max_drift_rate: Share of anchor pairs settled differently than in the tournament; the check
            turns red when the whole interval lies above it.
        max_missing_spread: Difference between the shares of verdicts, or of answers, that two
            entrants lack; a larger one is red unless chance explains it.
        max_position_bias: Largest distance from one half of the share of replies that prefer the
            first slot. Here and in all thresholds below, None reports the number without a check.
        max_flip_bias: Largest distance from one half of the share of flipped pairs that went to the
            first slot.
        min_retest_agreement: Share of pairs settled as before when they are judged again.
        min_judge_kappa: Cohen's kappa with another judge.
        max_length_effect: Largest effect of a typical difference in length, in Elo points, up or
            down.
        max_self_preference: Largest gain of the judge's own responses, in Elo points, up or down.
        max_longer_wins: Share of decided pairs that the response with more words wins.
        min_identical_ties: Share of responses that tie with their own copy.
        min_corrupted_wins: Share of responses that win against an answer to another prompt.
        max_injection_gain: Share of pairs in which an injected text moves the verdict towards its
            response.
        max_marked_responses: Share of an entrant's judged responses that hold marks of
            thoughts or chat templates.
        min_transitivity_p: P-value of the number of cycles if outcomes were independent on one
            scale.
    """

    max_unjudged_rate: float = Field(default=0.02, ge=0, le=1)
    max_inconsistency_rate: float = Field(default=0.35, ge=0, le=1)
    max_drift_rate: float = Field(default=0.10, ge=0, le=1)
    max_missing_spread: float = Field(default=0.02, ge=0, le=1)
    max_position_bias: float | None = Field(default=0.1, ge=0, le=0.5)
    max_flip_bias: float | None = Field(default=0.4, ge=0, le=0.5)
    min_retest_agreement: float | None = Field(default=None, ge=0, le=1)
    min_judge_kappa: float | None = Field(default=None, ge=-1, le=1)
    max_length_effect: float | None = Field(default=100.0, ge=0)
    max_self_preference: float | None = Field(default=50.0, ge=0)
    max_longer_wins: float | None = Field(default=0.9, ge=0, le=1)
    min_identical_ties: float | None = Field(default=None, ge=0, le=1)
    min_corrupted_wins: float | None = Field(default=None, ge=0, le=1)
    max_injection_gain: float | None = Field(default=None, ge=0, le=1)
    max_marked_responses: float | None = Field(default=0.02, ge=0, le=1)
    min_transitivity_p: float | None = Field(default=None, ge=0, le=1)


class GateConfig(Frozen):
    """The gate: an asset check on a finished run; nothing here changes a result.

    Attributes:
        candidate: The entrant that is to pass.
        baseline: The entrant that it must not be worse than.
        dimensions: The qualities it must not be worse on; all of them if empty.
        margin: The largest difference that does not matter, in Elo points.
        confidence: One minus the probability that a candidate that is worse by the margin passes.
        min_coverage: Share of the planned pairs of these two entrants that must be settled.
    """

    candidate: str
    baseline: str
    dimensions: Annotated[tuple[str, ...], FROM_LIST] = ()
    margin: float = Field(default=20.0, gt=0)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    min_coverage: float = Field(default=0.98, ge=0, le=1)


Mode = str
"""The name of a mode."""
EVERY_TOURNAMENT_HAS: tuple[Mode, ...] = ("pilot", "headline")


# A type checker does not know which extras are installed; each reads its own keys by its own model.
if TYPE_CHECKING:
    _ModeKeysOfExtras = Frozen
    _KeysOfExtras = Frozen
else:
    _ModeKeysOfExtras = create_model(
        "_ModeKeysOfExtras", __base__=(*added_rows("mode_keys"), Frozen)
    )
    _KeysOfExtras = create_model("_KeysOfExtras", __base__=(*added_rows("config_keys"), Frozen))


class ModeConfig(_ModeKeysOfExtras):
    """A mode: which prompts, who judges, how far, and when.

    Every tournament has a `pilot`, the cheap sanity gate, and a `headline`, the table that is
    published.

    Attributes:
        judges: The names of those who judge; all judges unless given.
        strata: How many prompts to draw from each source; the whole bank unless it or `share` is
            given.
        share: The share of each source to draw instead, rounded up.
        draw_seed: Seeds the draw.
        channel: How judges are asked whose service takes both; as `judging` says unless given.
        prewarm: Send a few requests directly before batches, which fill the prompt cache. Replies
            without a verdict stop the others with it or without.
        schedule: When it is run again; None builds no schedule. Does not affect results.
        rerun_after_edits: Rerun what an edit has made out of date, at the full price of the mode.
            Does not affect results.
    """

    judges: Annotated[tuple[str, ...], FROM_LIST] = ()
    strata: dict[str, Annotated[int, Field(ge=0)]] | None = Field(default=None, min_length=1)
    share: float | None = Field(default=None, gt=0, le=1)
    draw_seed: int = Field(default=0, ge=0)
    channel: ChannelChoice | None = None
    prewarm: bool = True
    schedule: RerunSchedule | None = None
    rerun_after_edits: bool = False

    @model_validator(mode="after")
    def _is_drawn_in_one_way(self) -> "ModeConfig":
        if self.strata is not None and self.share is not None:
            raise ValueError("strata and share are given; expected one of them; remove the other")
        return self


class DimensionConfig(Frozen):
    """One quality to judge.

    Attributes:
        rubric: The rubric file, relative to the project folder.
        needs_gold_answer: Leave out prompts that have no gold answer.
        shows_gold_answer: Show the gold answer, where there is one, to the judge.
        shows_expected_behavior: Show a prompt's expected behaviour, where it has one, to the judge;
            beside a gold answer only with source `curated`.
    """

    rubric: str = Field(min_length=1)
    needs_gold_answer: bool = False
    shows_gold_answer: bool = False
    shows_expected_behavior: bool = False

    @model_validator(mode="after")
    def _needs_implies_shows(self) -> "DimensionConfig":
        if self.needs_gold_answer and not self.shows_gold_answer:
            raise ValueError(
                "needs_gold_answer is true and shows_gold_answer is not; "
                "expected a dimension that needs the gold answer to show it to the judge"
            )
        return self


class RatingsConfig(Frozen):
    """How judgments become ratings.

    Attributes:
        initial_rating: Every entrant's Elo rating before its first match.
        k_factor: The most one match can change a rating by, in Elo points.
        k_sweep: K-factors to repeat the rating with.
        n_permutations: Random orderings of the decisive matches.
        shuffle_seed: Seeds the orderings.
        n_bootstraps: Resamples of whole prompts behind the sampling intervals.
        bootstrap_seed: Seeds the resampling.
        confidence: Coverage of the intervals.
        equivalent_within: The largest difference that does not matter, in Elo points: two entrants
            whose difference is shown to be smaller are equivalent.
    """

    initial_rating: float = 1400.0
    k_factor: float = Field(default=16.0, gt=0)
    k_sweep: Annotated[tuple[Annotated[float, Field(gt=0)], ...], FROM_LIST] = (
        1.0,
        4.0,
        8.0,
        16.0,
        32.0,
    )
    n_permutations: int = Field(default=500, ge=1)
    shuffle_seed: int = Field(default=0, ge=0)
    n_bootstraps: int = Field(default=1000, ge=100)
    bootstrap_seed: int = Field(default=0, ge=0)
    confidence: float = Field(default=0.95, gt=0, lt=1)
    equivalent_within: float = Field(default=20.0, gt=0)

    @property
    def resampling(self) -> Resampling:
        """How whole prompts are resampled."""
        return Resampling(self.n_bootstraps, self.bootstrap_seed, self.confidence)


class GenerationConfig(Frozen):
    """How responses are generated; nothing here is part of what an entrant is.

    Attributes:
        batch_size: Prompts decoded together, or `auto`: as many as the free memory has room for.
            Batch sizes differ in rounding now and then; with a fixed one, another machine of the
            same kind can reproduce responses to the bit.
        execution: How `custom_poe` and plain OLMo-2 entrants decode. `captured`, the default,
            fuses small kernels, which needs Triton and a C compiler, and replays all as CUDA
            graphs; fused kernels round differently now and then, and diagnostics say `compiled`.
            Where that fails, for another reason than memory, the entrant decodes with a warning as
            on any device but CUDA: by torch's own kernels, one after the other, which `eager`
            asks for. It has not been run on a GPU: let `benchmarks/generation.py` show on yours
            what it gains and changes.
        n_samples: How often every entrant answers each prompt, with random numbers of its own each
            time. The first answer of one entrant meets the first of another, and so on; ratings
            average over the answers to a prompt, and intervals are of prompts.
        budget: What responses of entrants behind an API may cost, `openai_api` unless its server is
            free included.
    """

    batch_size: Annotated[int, Field(ge=1)] | Literal["auto"] = 16
    execution: Literal["eager", "captured"] = "captured"
    n_samples: int = Field(default=1, ge=1, le=1000)
    budget: BudgetConfig = BudgetConfig()

    @property
    def rows_per_batch(self) -> int | None:
        """The fixed number; None for `auto`."""
        return None if self.batch_size == "auto" else self.batch_size


MOST_LETTERS = 24
"""Of a name that fits a line."""


class ReportConfig(Frozen):
    """What stands at the top of reports; part of no result.

    Attributes:
        title: A short title; the tournament's id unless given.
        question: The question that the tournament answers, in a sentence.
        labels: Short names of entrants, by id, for the first screen and the ladder; where ids are
            long, others are made. Tables and files keep the ids.
    """

    title: Annotated[str, Field(max_length=80)] = ""
    question: Annotated[str, Field(max_length=300)] = ""
    labels: dict[str, Annotated[str, Field(pattern=rf"^\S(.{{0,{MOST_LETTERS - 2}}}\S)?$")]] = (
        Field(default_factory=dict)
    )


class TournamentConfig(_KeysOfExtras):
    """Everything that decides a tournament's result.

    Attributes:
        tournament_id: Names its assets and folders.
        description: What a reader should know about it.
        prompt_bank: The bank's JSONL file.
        modes: Its modes, by name: `pilot`, `headline` and your own.
        dimensions: The qualities to judge, by name.
        judges: Who judges: one judge, or several.
        judging: What all judges are told, and how their replies are used.
        entrants: Two or more of them, in the order of the tables.
        generation: How responses are generated.
        ratings: How judgments become ratings.
        checks: Where an asset check turns red.
        report: What stands at the top of reports. Does not affect results.
        gate: The gate that a finished run must pass; None for no gate. Does not affect results.
        families: Families of models, by entrant or judge model, where the names do not show them.
        owners: Whom Dagster's UI names as owners of its assets: e-mail addresses, or teams such as
            `team:evaluation`. Part of no result.
    """

    tournament_id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    description: str = ""
    prompt_bank: FilePlace
    modes: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], ModeConfig]
    dimensions: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], DimensionConfig] = Field(
        min_length=1
    )
    judges: Annotated[tuple[Judge, ...], FROM_LIST] = Field(min_length=1)
    judging: JudgingConfig = JudgingConfig()
    entrants: Annotated[tuple[Annotated[AnyEntrant, Field(discriminator="loader")], ...], FROM_LIST]
    generation: GenerationConfig = GenerationConfig()
    ratings: RatingsConfig = RatingsConfig()
    checks: CheckThresholds = CheckThresholds()
    report: ReportConfig = ReportConfig()
    gate: GateConfig | None = None
    families: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    owners: Annotated[tuple[Annotated[str, Field(pattern=_OWNER)], ...], FROM_LIST] = ()

    @property
    def entrant_ids(self) -> tuple[str, ...]:
        """The entrants' ids, in the order of the tables."""
        return tuple(entrant.entrant_id for entrant in self.entrants)

    @property
    def title(self) -> str:
        """The title of its reports."""
        return self.report.title or self.tournament_id

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """The dimensions' names, in the order of the tables."""
        return tuple(self.dimensions)

    @property
    def gold_dimensions(self) -> tuple[str, ...]:
        """The dimensions that compare with a gold answer."""
        return tuple(name for name, rule in self.dimensions.items() if rule.needs_gold_answer)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides a result, without the file's comments and layout.

        The judge's address and price do not count either: a reply is kept under its question.
        Defaults do not count, so that adding a key to the schema changes no fingerprint.
        """
        ways = ("base_url", "api_key_env", "headers", "query", "max_in_flight", "waiting")
        alike = self.by_default("gate", "owners", "report").model_copy(
            update={
                "judges": tuple(each.by_default(*ways) for each in self.judges),
                "judging": self.judging.by_default("budget", "channel", "prices"),
                "generation": self.generation.by_default("budget"),
                "modes": {
                    name: mode.by_default("channel", "schedule", "rerun_after_edits")
                    for name, mode in self.modes.items()
                },
            }
        )
        return fingerprint(alike.changed())

    @property
    def mode_names(self) -> tuple[Mode, ...]:
        """The modes' names, in the order of the file."""
        return tuple(self.modes)

    def mode(self, name: Mode) -> ModeConfig:
        """Return a mode's settings."""
        if name not in self.modes:
            raise InputError(
                f"the mode is {name!r}; {expect_one_of(name, self.mode_names)}; "
                "name one of them, or add it to modes in the config"
            )
        return self.modes[name]

    def judges_of(self, mode: Mode, *, model: str | None = None) -> tuple[Judge, ...]:
        """Return who judges in a mode, or another model in their place.

        The other model gets the settings of the judge with that model, or else of the mode's only
        judge.
        """
        names = self.mode(mode).judges
        judges = tuple(each for name in names for each in self.judges if each.name == name)
        judges = judges if names else self.judges
        if model is None:
            turn = [each.model for each in judges]
            in_turn = self.judging.assignment == "in_turn" and len(judges) > 1
            return tuple(each.in_turn(turn) for each in judges) if in_turn else judges
        of_model = [each for each in (*judges, *self.judges) if each.model == model]
        if not of_model and len(judges) > 1:
            raise InputError(
                f"the judge model is {model!r} and the judges of {mode} are "
                f"{', '.join(each.model for each in judges)}; expected one of these"
            )
        return (of_model[0] if of_model else judges[0].asking(model),)

    def lead(self, mode: Mode, *, model: str | None = None) -> Judge:
        """Return the first judge of a mode, or another model in its place; see `judges_of`."""
        return self.judges_of(mode, model=model)[0]

    def channel_of(self, mode: Mode, judge: Judge) -> ChannelChoice:
        """Return how a judge is asked in a mode; directly where its service takes no batches."""
        if judge.row.channel == "direct":
            return "direct"
        return self.mode(mode).channel or self.judging.channel

    def has_jury(self, mode: Mode) -> bool:
        """Return whether several judges judge in a mode."""
        return len(self.judges_of(mode)) > 1

    def settles_together(self, mode: Mode) -> bool:
        """Return whether several judges settle every pair of a mode together, not in turn."""
        return self.has_jury(mode) and self.judging.assignment == "all"

    def aggregation(self, mode: Mode) -> Aggregation:
        """Return how a mode's judges settle a pair."""
        if self.has_jury(mode) and not self.settles_together(mode):
            return "in_turn"
        if self.judging.aggregate is not None:
            return self.judging.aggregate
        return "judge_aware" if len(self.judges_of(mode)) > 2 else "equal"

    def label_of(self, mode: Mode) -> str:
        """Return what every artifact of a mode says about who judged."""
        return label_judges(self.judges_of(mode))

    @property
    def juries(self) -> tuple[Mode, ...]:
        """The modes in which several judges judge."""
        return tuple(name for name in self.modes if self.has_jury(name))

    @field_validator("modes")
    @classmethod
    def _has_both(cls, modes: dict[str, ModeConfig]) -> dict[str, ModeConfig]:
        missing = [name for name in EVERY_TOURNAMENT_HAS if name not in modes]
        if missing:
            raise ValueError(
                f"{' and '.join(missing)} is missing; expected pilot and headline, and your own"
            )
        return modes

    @model_validator(mode="after")
    def _labels_name_entrants(self) -> "TournamentConfig":
        labels, ids = self.report.labels, self.entrant_ids
        for name, label in labels.items():
            if name not in ids:
                raise ValueError(f"report.labels has {name!r}; {expect_one_of(name, ids)}")
            others = [labels.get(other, other) for other in ids if other != name]
            if label in others:
                raise ValueError(
                    f"report.labels.{name} is {label!r}, which another entrant is called; "
                    "expected a label of its own"
                )
        return self

    @model_validator(mode="after")
    def _judges_can_judge_together(self) -> "TournamentConfig":
        names = [each.name for each in self.judges]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(
                f"judges has {twice!r} twice; expected different names; give one of them a name"
            )
        for mode, rules in self.modes.items():
            unknown = next((name for name in rules.judges if name not in names), None)
            if unknown is not None:
                raise ValueError(
                    f"modes.{mode}.judges has {unknown!r}; expected some of "
                    f"{', '.join(names)}{hint_at(unknown, names)}"
                )
            problem = jury_problem(self.judges_of(mode))
            if problem is not None:
                raise ValueError(f"modes.{mode}: {problem}")
        if self.judging.assignment == "in_turn" and self.judging.aggregate is not None:
            raise ValueError(
                "judging has aggregate and assignment: in_turn; expected one of them, because in "
                "turn a judge settles a pair alone"
            )
        for name, default in (("aggregate", None), ("assignment", "all")):
            value = getattr(self.judging, name)
            if value != default and not self.juries:
                raise ValueError(
                    f"judging.{name} is {value!r} and every mode has one judge; "
                    f"expected several; name more, or leave {name} out"
                )
        return self
