"""Simulates the gate: how often who is worse by the margin passes, and who is better.

A second simulation has judges that favour a slot and that agree with themselves more or less, and
looks at the lights of their panels as well. Leads are those of settled pairs, which the gate tests.

Run it with `python -m benchmarks.gate`; `--tournaments N` draws N of each kind.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from tournament_assets.audits.judge_consistency import JudgedPair
from tournament_assets.audits.non_inferiority import compare_with_margin
from tournament_assets.foundation.estimates import Estimate, Resampling
from tournament_assets.judging.requests.verdict_parsing import reconcile_swap
from tournament_assets.run_comparison.differences import SettledPair
from tournament_assets.run_comparison.gate import GateSettings, Passage, hold_gate
from tournament_assets.run_comparison.run_reading import FinishedRun
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict
from tournament_assets.trust.lights import OF, TrustState
from tournament_assets.trust.measures import MEASURES
from tournament_assets.trust.panel import JudgeEvidence

ENTRANTS = ("new", "old", "third", "fourth")


def power(*, difference: float, margin: float, standard_error: float, confidence: float) -> float:
    """Return the chance that a candidate passes, by the normal approximation.

    Args:
        difference: The candidate's true lead over the baseline, Elo points.
        margin: The largest difference that would not matter, Elo points.
        standard_error: Of the estimated difference, Elo points.
        confidence: Of the one-sided bound.
    """
    return float(ndtr((difference + margin) / standard_error - ndtri(confidence)))


def simulate(
    generator: np.random.Generator, *, prompts: int, lead: float, tie_rate: float = 0.2
) -> list[Judgment]:
    """Draw judgments that follow Bradley-Terry exactly and depend on one another in a prompt."""
    ratings = (lead, 0.0, 30.0, -30.0)
    quality = generator.standard_normal((prompts, 4))
    drawn = []
    for prompt, (a, b) in product(range(prompts), combinations(range(4), 2)):
        share = 1 / (1 + 10 ** ((ratings[b] - ratings[a]) / 400))
        place = ndtr((quality[prompt, b] - quality[prompt, a]) / math.sqrt(2))  # uniform
        outcome = (
            Outcome.A_WINS
            if place < share - tie_rate / 2
            else Outcome.TIE
            if place < share + tie_rate / 2
            else Outcome.B_WINS
        )
        drawn.append(Judgment(f"p{prompt}", "facts", ENTRANTS[a], ENTRANTS[b], outcome))
    return drawn


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of simulated tournaments.

    Attributes:
        passed: Share in which the candidate passed.
        formula: What `power` expects of it.
    """

    passed: float
    formula: float


def measure(*, prompts: int, lead: float, n: int, margin: float = 20.0, seed: int = 20) -> Measured:
    """Return how often a candidate passes that is ahead by so many Elo points in truth."""
    generator = np.random.default_rng(seed)
    found = [
        compare_with_margin(
            simulate(generator, prompts=prompts, lead=lead),
            dimension="facts",
            entrants=ENTRANTS,
            candidate="new",
            baseline="old",
            margin=margin,
            confidence=0.95,
        )
        for _ in range(n)
    ]
    differences = [each.difference.value for each in found if each.difference.value is not None]
    return Measured(
        passed=float(np.mean([each.p_not_worse <= 0.05 for each in found])),
        formula=power(
            difference=lead,
            margin=margin,
            standard_error=float(np.std(differences)),
            confidence=0.95,
        ),
    )


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge of equal entrants.

    Attributes:
        slot: What it adds to the first response, in standard deviations of its preference.
        agreement: How often it prefers the same response again, in the same order.
    """

    slot: float
    agreement: float

    @property
    def noise(self) -> float:
        """The share of the variance of its preference that is new in every reply."""
        # Two normal variables of correlation r agree in sign with chance 1/2 + asin(r) / pi.
        return 1 - math.sin(math.pi * (self.agreement - 0.5))

    def preference(self, lead: float) -> float:
        """Return the mean preference that makes a lead, in Elo points, of settled pairs."""
        share = 1 / (1 + 10 ** (-lead / 400))
        low, high = -5.0, 5.0
        for _ in range(60):
            middle = (low + high) / 2
            # An inconsistent pair is half a win, so the share is the mean of both orders.
            settled = (ndtr(middle + self.slot) + ndtr(middle - self.slot)) / 2
            low, high = (middle, high) if settled < share else (low, middle)
        return low


def judge_pairs(
    generator: np.random.Generator, judge: Judge, *, prompts: int, lead: float
) -> list[JudgedPair]:
    """Draw pairs that a judge is asked about in both orders."""
    ratings = (lead, 0.0, 30.0, -30.0)
    quality = generator.standard_normal((prompts, 4)) * math.sqrt((1 - judge.noise) / 2)
    pairs = []
    for a, b in combinations(range(4), 2):
        mean = quality[:, a] - quality[:, b] + judge.preference(ratings[a] - ratings[b])
        spread = math.sqrt(judge.noise)
        ab = mean + judge.slot + spread * generator.standard_normal(prompts) > 0
        ba = mean - judge.slot + spread * generator.standard_normal(prompts) < 0
        for prompt, first_wins in enumerate(zip(ab.tolist(), ba.tolist(), strict=True)):
            verdicts = tuple(Verdict.A if each else Verdict.B for each in first_wins)
            outcome = reconcile_swap(verdicts[0], verdicts[1])
            name = f"p{prompt}"
            pair = SettledPair(name, "facts", ENTRANTS[a], ENTRANTS[b], outcome)
            keys = (f"{name} {a} {b}", f"{name} {b} {a}")
            pairs.append(JudgedPair(pair, (verdicts[0], verdicts[1]), keys))
    return pairs


def lights_of(pairs: Sequence[JudgedPair]) -> dict[str, str]:
    """Return the lights of the measures with a limit by default, as a manifest has them."""
    not_simulated = Estimate(note="not simulated")
    evidence = JudgeEvidence(
        pairs=pairs,
        entrants=ENTRANTS,
        resampling=Resampling(100, 0, 0.95),
        length=not_simulated,
        verdicts=pd.DataFrame(),
        replies=pd.DataFrame(),
    )
    lights = {}
    for measure in MEASURES.values():
        limit = measure.threshold(CheckThresholds())
        if measure.find is not None and limit is not None:
            numbers = measure.find(evidence)
            by_subject = {None: numbers} if isinstance(numbers, Estimate) else numbers
            for subject, number in by_subject.items():
                row = measure.light(number, limit, dimension="facts", subject=subject)
                lights[OF.join(filter(None, (row.measure, row.subject)))] = str(row.state)
    return lights


@dataclass(frozen=True, slots=True)
class Passes:
    """Shares of tournaments.

    Attributes:
        consistent: Pairs that come out the same in both orders.
        by_statistics: The candidate passes without lights.
        held: It passes the gate.
        without_red: It would pass if every red light blocked.
    """

    consistent: float
    by_statistics: float
    held: float
    without_red: float


def measure_passes(
    judge: Judge, *, prompts: int, lead: float, n: int, margin: float = 20.0, seed: int = 21
) -> Passes:
    """Return how often a candidate passes whose settled pairs have a lead in truth."""
    generator = np.random.default_rng(seed)
    settings = GateSettings(candidate="new", baseline="old", margin=margin)
    rows = []
    for _ in range(n):
        pairs = judge_pairs(generator, judge, prompts=prompts, lead=lead)
        settled = (each.judgment for each in pairs if isinstance(each.judgment, SettledPair))
        verdicts = {"facts": tuple(settled)}
        lights = lights_of(pairs)
        passed = []
        for trust in ({}, lights):
            manifest = {"entrants": ENTRANTS, "trust": {"facts": trust}}
            run = FinishedRun(Path("run"), manifest, verdicts, {}, {})
            passed.append(hold_gate(run, settings).passage is Passage.NOT_WORSE)
        consistent = sum(each.judgment.outcome is not Outcome.INCONSISTENT for each in pairs)
        rows.append(
            (consistent / len(pairs), *passed, passed[0] and TrustState.RED not in lights.values())
        )
    return Passes(*np.array(rows, dtype=float).mean(axis=0).tolist())


SLOTS, AGREEMENTS, LEADS = (0.0, 0.3, 0.6), (0.58, 0.65, 0.80, 0.95), (-20.0, 0.0)


def main(n: int) -> None:
    """Print both simulations."""
    print(f"prompts   lead    passed   formula   ({n:,} tournaments each; margin 20 Elo)")
    for prompts, lead in product((50, 143), (-20.0, 0.0, 60.0)):
        got = measure(prompts=prompts, lead=lead, n=n)
        print(f"{prompts:7d} {lead:+6.0f}   {got.passed:7.1%}  {got.formula:7.1%}")
    print(
        f"\n{n:,} tournaments of 500 prompts each; {math.sqrt(0.05 * 0.95 / n):.1%} is a standard "
        "error at 5 %\n"
        "  slot  agrees with itself  swap-consistent   lead  without lights    gate   all red block"
    )
    for lead, slot, agreement in product(LEADS, SLOTS, AGREEMENTS):
        passes = measure_passes(Judge(slot, agreement), prompts=500, lead=lead, n=n)
        print(
            f"{slot:6.1f} {agreement:19.0%} {passes.consistent:16.1%} {lead:+6.0f} "
            f"{passes.by_statistics:16.1%} {passes.held:8.1%} {passes.without_red:16.1%}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tournaments", type=int, default=1_000)
    main(parser.parse_args().tournaments)
