"""A gate for continuous integration: whether a run lets a candidate pass.

The candidate passes if every dimension shows that it is not worse than the baseline by the margin;
since all must, each is held to the level of one.
What can bias that difference leaves the gate undecided, never open: missing verdicts, a red light
that says so of itself (`Measure.bias`), a judge that is one of the two, or is not a language model.
What only costs power is named and blocks nothing: flips are what equal entrants cause.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tournament_assets.audits.non_inferiority import (
    DifferenceTest,
    bet,
    compare_with_margin,
    holm,
    prompt_scores,
)
from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.fingerprints import fingerprint_text
from tournament_assets.foundation.formatting import (
    expect_one_of,
    expected_share,
    format_confidence,
    format_share,
    join_names,
)
from tournament_assets.foundation.json_lines import numbered_lines, parse_rows
from tournament_assets.project.playing_judges import PlayingJudge
from tournament_assets.reports.report_tables import Document, ReportSection, ReportTable
from tournament_assets.run_comparison.run_reading import FinishedRun
from tournament_assets.tournament.judge_services import SERVICES
from tournament_assets.trust.lights import OF, Bias, TrustState
from tournament_assets.trust.measures import ALL_DIMENSIONS, MEASURES

HISTORY = "gate_history.jsonl"
"""File of earlier looks, beside the runs."""


class Passage(StrEnum):
    """The gate's decision."""

    NOT_WORSE = "not worse"
    WORSE = "worse"
    UNDECIDED = "undecided"

    @property
    def exit_code(self) -> int:
        """0 not worse, 1 worse, 3 undecided."""
        return {Passage.NOT_WORSE: 0, Passage.WORSE: 1, Passage.UNDECIDED: 3}[self]


@dataclass(frozen=True, slots=True)
class GateSettings:
    """The settings of a gate.

    Attributes:
        candidate: The entrant to test.
        baseline: The entrant it is compared with.
        dimensions: The dimensions on which it must not be worse; empty for all of the run.
        margin: The largest difference that would not matter, in Elo points.
        confidence: 1 minus the probability of passing a candidate that is worse by the margin.
        min_coverage: Share of the two entrants' planned pairs that must be settled.
        sequential: Whether to use evidence that stays valid however often one looks.
    """

    candidate: str
    baseline: str
    dimensions: tuple[str, ...] = ()
    margin: float = 20.0
    confidence: float = 0.95
    min_coverage: float = 0.98
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class GateLook:
    """One look at a candidate, with its points on the prompts bet on.

    Attributes:
        run: The name of the run's directory.
        candidate: The candidate's name and content, as `identity` gives them.
        baseline: The baseline's.
        passage: The gate's decision on the whole run.
        points: The candidate's share of the points on each prompt new in this look, in the order of
            the bets.
    """

    run: str
    candidate: str
    baseline: str
    dimension: str
    passage: str
    points: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class GatedDimension:
    """A dimension at the gate.

    Attributes:
        test: The test against the baseline.
        p_not_worse: The test's; from the wealth if the gate is sequential.
        p_worse: Holm's adjusted p-value over all dimensions, since one that is worse closes it.
        passage: The decision on this dimension alone.
        doubts: Why it cannot be decided, whatever the numbers.
        amber: Lights on the judge that are too few to tell; they block nothing.
        harmless: What cannot bias this difference, and why, red lights among it; it blocks nothing.
    """

    test: DifferenceTest
    p_not_worse: float
    p_worse: float
    passage: Passage
    doubts: tuple[str, ...]
    amber: tuple[str, ...]
    harmless: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate's decision on a run, and the reasons.

    Attributes:
        run: The name of the run's directory.
        settings: What was asked.
        passage: What it says.
        dimensions: Each dimension.
        looks_before: Number of earlier looks at this candidate, in other runs.
        looks: This look's records.
    """

    run: str
    settings: GateSettings
    passage: Passage
    dimensions: tuple[GatedDimension, ...]
    looks_before: int
    looks: tuple[GateLook, ...]


def identity(run: FinishedRun, entrant: str) -> str:
    """Return an entrant's name and the hash of its responses, which identify a model."""
    responses = run.at("inputs", "responses", entrant)
    return entrant if responses is None else f"{entrant}@{str(responses)[:16]}"


def hold_gate(
    run: FinishedRun, settings: GateSettings, *, history: Sequence[GateLook] = ()
) -> Gate:
    """Test a run's candidate against its baseline.

    Args:
        settings: What is asked of it.
        history: Earlier looks at any candidate; those of this run are ignored.

    Raises:
        InputError: If the run has no such entrant or dimension, or a setting is out of range.
    """
    dimensions = settings.dimensions or tuple(run.verdicts)
    problems = Problems()
    problems.extend(
        f"{run.folder}: has no dimension {name!r}; {expect_one_of(name, run.verdicts)}"
        for name in dimensions
        if name not in run.verdicts
    )
    if not 0 <= settings.min_coverage <= 1:
        problems.add(f"min_coverage is {settings.min_coverage!r}; expected a share from 0 to 1")
    problems.raise_if_any()
    who = (identity(run, settings.candidate), identity(run, settings.baseline))
    before = [
        look
        for look in history
        if (look.candidate, look.baseline) == who and look.run != run.folder.name
    ]
    entrants = [str(each) for each in run.manifest.get("entrants", [])]
    tests = [_look_at(run, name, settings, entrants, before) for name in dimensions]
    decided = _decide(run, settings, [(test, chances) for test, chances, _ in tests])
    passages = {each.passage for each in decided}
    worst_first = (Passage.WORSE, Passage.UNDECIDED, Passage.NOT_WORSE)
    whole = next((each for each in worst_first if each in passages), Passage.NOT_WORSE)
    looks = tuple(
        GateLook(run.folder.name, *who, name, whole.value, points)
        for name, (_, _, points) in zip(dimensions, tests, strict=True)
    )
    return Gate(
        run=run.folder.name,
        settings=settings,
        passage=whole,
        dimensions=tuple(decided),
        looks_before=len({look.run for look in before}),
        looks=looks,
    )


def _look_at(
    run: FinishedRun,
    dimension: str,
    settings: GateSettings,
    entrants: Sequence[str],
    before: Sequence[GateLook],
) -> tuple[DifferenceTest, tuple[float, float], dict[str, float]]:
    """Return a dimension's test, its p-values of not worse and of worse, and the new points."""
    judgments = run.verdicts[dimension]
    test = compare_with_margin(
        judgments,
        dimension=dimension,
        entrants=entrants,
        candidate=settings.candidate,
        baseline=settings.baseline,
        margin=settings.margin,
        confidence=settings.confidence,
    )
    pair = {settings.candidate, settings.baseline}
    points = prompt_scores(
        (
            each
            for each in judgments
            if {each.entrant_a, each.entrant_b} == pair and each.share is not None
        ),
        candidate=settings.candidate,
    )
    earlier: dict[str, float] = {}
    for look in before:
        if look.dimension == dimension:
            earlier |= {name: each for name, each in look.points.items() if name not in earlier}
    new = {
        name: points[name] for name in sorted(points, key=fingerprint_text) if name not in earlier
    }
    chances = (test.p_not_worse, test.p_worse)
    if settings.sequential:
        wealth = bet([*earlier.values(), *new.values()], margin=settings.margin)
        chances = (min(1.0, 1 / wealth.not_worse), min(1.0, 1 / wealth.worse))
    return test, chances, new


def _decide(
    run: FinishedRun,
    settings: GateSettings,
    tests: Sequence[tuple[DifferenceTest, tuple[float, float]]],
) -> list[GatedDimension]:
    worse = holm({test.dimension: chance for test, (_, chance) in tests})
    level = 1 - settings.confidence
    decided = []
    for test, (not_worse, _) in tests:
        name = test.dimension
        doubts, harmless = _doubts(run, test, settings)
        passage = Passage.UNDECIDED
        if not doubts and not_worse <= level:
            passage = Passage.NOT_WORSE
        elif not doubts and worse[name] <= level:
            passage = Passage.WORSE
        amber = tuple(_lights(run, name, TrustState.AMBER))
        decided.append(
            GatedDimension(test, not_worse, worse[name], passage, doubts, amber, harmless)
        )
    return decided


def _doubts(
    run: FinishedRun, test: DifferenceTest, settings: GateSettings
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what can bias the difference, and what looks as if it could."""
    pair, harmless = {settings.candidate, settings.baseline}, []
    broken = run.at("broken_entrants") or {}
    doubts = [
        f"{name} {broken[name]}"
        for name in (settings.candidate, settings.baseline)
        if name in broken
    ]
    if any(
        run.at("judge") == service.label
        for service in SERVICES.values()
        if not service.is_language_model
    ):
        doubts.append("the judge is not a language model")
    playing = [PlayingJudge(**each) for each in run.at("judges_that_play") or ()]
    for judge in dict.fromkeys(each.judge for each in playing):
        played = [each for each in playing if each.judge == judge and each.entrant_id in pair]
        if len(played) == 1:
            doubts.append(played[0].sentence)
        elif played:
            harmless.append(f"judge {judge!r} is both of them, and favours neither")
    if run.at("missing") is None:  # nobody says whom they concern
        doubts += [str(each).removesuffix(".") for each in run.at("outages") or ()]
    doubts += [
        each["short"]
        for each in run.at("missing") or ()
        if each["dimension"] in (None, test.dimension)
        and (not each["entrants"] or pair.intersection(each["entrants"]) - {*broken})
    ]
    if run.at("is_partial"):
        doubts.append("the run is partial: replies were still missing")
    # Unanswered prompts are not among the run's pairs, but were planned. Where pairs stopped early,
    # the plan is what was still needed.
    planned = run.at("prompts_planned", test.dimension)
    is_whole = not run.at("pairs_not_needed", test.dimension)
    n_planned = planned if isinstance(planned, int) and is_whole else test.pairs
    if test.settled < settings.min_coverage * max(n_planned, 1):
        doubts.append(
            f"{test.settled} of {n_planned} pairs of the two are settled; "
            f"expected at least {format_confidence(settings.min_coverage)}"
        )
    if not isinstance(run.at("trust", test.dimension), Mapping):
        doubts.append("the run does not say whether its judge can be trusted; run it again")
    for light in _lights(run, test.dimension, TrustState.RED):
        why = _why_harmless(run, test, settings, light.removesuffix(_OVER_ALL))
        if why:
            harmless.append(f"{light} is red ({why})")
        else:
            doubts.append(f"the trust panel is red: {light}")
    return tuple(doubts), tuple(harmless)


def _why_harmless(
    run: FinishedRun, test: DifferenceTest, settings: GateSettings, light: str
) -> str:
    """Return why a red light cannot bias the difference; empty if it can.

    An effect of length cannot where the two do not differ in length, or where the difference is
    beyond the margin without the most that length gains.
    """
    measure, _, subject = light.partition(OF)
    # A light that is not known here may say anything.
    bias = MEASURES[measure].bias if measure in MEASURES else Bias.DIFFERENCE
    if bias is Bias.NONE:
        return "costs power only"
    pair = (settings.candidate, settings.baseline)
    if subject in {*run.at("entrants")}.difference(pair):
        return "about neither of the two"
    if bias is Bias.DIFFERENCE or run.at("length_gains", test.dimension) is None:
        return ""
    gains, loses = (run.at("length_gains", test.dimension, *two) for two in (pair, pair[::-1]))
    if gains is None and loses is None:
        return "the two do not differ in length"
    gained = gains if gains is not None else -loses
    low, high = test.difference.low, test.difference.high
    is_decided = (low is not None and low - max(gained, 0.0) > -settings.margin) or (
        high is not None and high - min(gained, 0.0) < -settings.margin
    )
    reason = f"the decision stands without the {gained:+.0f} Elo that length gains at most"
    return reason if is_decided else ""


_OVER_ALL = f" over {ALL_DIMENSIONS}"


def _lights(run: FinishedRun, dimension: str, state: TrustState) -> list[str]:
    """Return the lights on the judge of a dimension, and of all together, that show a state."""
    alone, pooled = (run.at("trust", name) or {} for name in (dimension, ALL_DIMENSIONS))
    return [
        *(measure for measure, shown in alone.items() if shown == state),
        *(f"{measure}{_OVER_ALL}" for measure, shown in pooled.items() if shown == state),
    ]


def read_looks(path: Path) -> list[GateLook]:
    """Read earlier looks; none if the file does not exist.

    Raises:
        InputError: If a line is not a look; all such lines are named.
    """
    if not path.exists():
        return []
    return list(parse_rows(numbered_lines(path), _look))


def _look(_where: str, row: Mapping[str, Any]) -> GateLook:
    points = row.get("points")
    if not isinstance(points, dict) or not all(
        isinstance(each, int | float) and 0 <= each <= 1 for each in points.values()
    ):
        raise InputError(f"points is {points!r}; expected shares by prompt")
    names = ("run", "candidate", "baseline", "dimension", "passage")
    missing = [name for name in names if not isinstance(row.get(name), str)]
    if missing:
        raise InputError(f"has no {missing!r}; expected a line that the gate wrote")
    return GateLook(**{name: row[name] for name in names}, points=points)


def remember(path: Path, gate: Gate, history: Sequence[GateLook]) -> None:
    """Add this look to the file of looks, unless it is there already.

    Raises:
        OSError: If the file cannot be written.
    """
    recorded = {(each.run, each.candidate, each.baseline, each.dimension) for each in history}
    lines = [
        json.dumps(asdict(look), ensure_ascii=False) + "\n"
        for look in gate.looks
        if (look.run, look.candidate, look.baseline, look.dimension) not in recorded
    ]
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(lines))


def gate_table(gate: Gate) -> ReportTable:
    """Return the dimensions of a gate as a table."""
    return ReportTable.of(
        gate.dimensions,
        {
            "dimension": lambda each: each.test.dimension,
            "difference": lambda each: _if_any(each.test.difference, "{0.value:+.0f} Elo"),
            "bounds": lambda each: _if_any(each.test.difference, "{0.low:+.0f} to {0.high:+.0f}"),
            "prompts": lambda each: each.test.difference.n,
            "p not worse": lambda each: f"{each.p_not_worse:.3f}",
            "p worse": lambda each: f"{each.p_worse:.3f}",
            "says": lambda each: each.passage.value,
        },
    )


def _if_any(difference: Estimate, words: str) -> str | None:
    return None if difference.value is None else words.format(difference)


def gate_sentences(gate: Gate) -> list[str]:
    """Describe the gate's decision, what leaves it undecided, and the number of earlier looks."""
    settings = gate.settings
    level = format_confidence(settings.confidence)
    share = format_share(expected_share(-settings.margin))
    margin = f"{settings.margin:g} Elo points (an expected win share of {share})"
    words = {
        Passage.NOT_WORSE: f"{settings.candidate} is not worse than {settings.baseline} by "
        f"{margin} or more, at {level} confidence",
        Passage.WORSE: f"{settings.candidate} is worse than {settings.baseline} by more than "
        f"{margin}, at {level} confidence",
        Passage.UNDECIDED: f"Undecided whether {settings.candidate} is worse than "
        f"{settings.baseline} by {margin}",
    }
    sentences = [f"{words[gate.passage]} (exit code {gate.passage.exit_code})."]
    doubted: dict[str, list[str]] = {}
    for dimension in gate.dimensions:
        for doubt in dimension.doubts:
            doubted.setdefault(doubt, []).append(dimension.test.dimension)
    sentences += [f"{join_names(names)}: {doubt}." for doubt, names in doubted.items()]
    for dimension in gate.dimensions:
        name = dimension.test.dimension
        if dimension.amber:
            sentences.append(
                f"{name}: too few to tell about the judge (amber, blocks nothing): "
                f"{join_names(dimension.amber)}."
            )
        if dimension.harmless:
            sentences.append(
                f"{name}: cannot bias the difference (blocks nothing): "
                f"{'; '.join(dimension.harmless)}."
            )
        if (note := dimension.test.difference.note) is not None:
            sentences.append(
                f"{name}: no rating ({note}); the probabilities are of the pairs of the two alone."
            )
    if gate.looks_before:
        times = "once" if gate.looks_before == 1 else f"{gate.looks_before} times"
        stands = (
            "the evidence stands however often one looks"
            if settings.sequential
            else "the chance of a wrong pass grows with every look; use --sequential"
        )
        sentences.append(f"This candidate was looked at {times} before: {stands}.")
    return sentences


def gate_values(gate: Gate) -> dict[str, Any]:
    """Return every number of a gate, for JSON."""
    return {
        "run": gate.run,
        "settings": asdict(gate.settings),
        "passage": gate.passage.value,
        "exit_code": gate.passage.exit_code,
        "looks_before": gate.looks_before,
        "dimensions": [
            {**asdict(each), "test": {**asdict(each.test), "coverage": each.test.coverage}}
            for each in gate.dimensions
        ],
    }


def gate_document(gate: Gate) -> Document:
    """Return a gate as a document: its sentences and the table of its dimensions."""
    settings = gate.settings
    section = ReportSection("", tuple(gate_sentences(gate)), (("", gate_table(gate)),))
    return Document(
        f"Gate: {settings.candidate} against {settings.baseline} ({gate.run})", [section]
    )
