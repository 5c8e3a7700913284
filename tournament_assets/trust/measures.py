"""The measures of the judge: what each means, where its limits are, and what to do beyond them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType

from tournament_assets.audits.agreement import wilson_interval
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.storage.tables import AnyTable, rows_of
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.trust import panel
from tournament_assets.trust.lights import Bias, Measure, TrustState
from tournament_assets.trust.panel import Found, JudgeEvidence

UNJUDGED, CIRCLES, LENGTH_EFFECT = "unjudged", "circular_share", "length_effect"
SELF_PREFERENCE = "self_preference"
ALL_DIMENSIONS = "all dimensions"
"""Stands for the dimension where one light is of all of them."""
_SLOTS = ("prefers the second slot", "prefers the first slot")

_IN_ORDER = (
    Measure(
        "position_bias",
        "position bias",
        "Of the replies that prefer a response, this share prefers the one shown first; for a "
        "judge that ignores the order it is near one half.",
        "Every pair is judged in both orders, which takes the bias out of who wins but turns close "
        "pairs into inconsistent ones: read narrow leads with care, and try another judge or a "
        "rubric that asks to compare before deciding.",
        "share",
        "request",
        find=panel.first_slot,
        threshold=lambda checks: checks.max_position_bias,
        expected="near",
        neutral=0.5,
        leans=_SLOTS,
        bias=Bias.NONE,
    ),
    Measure(
        "flip_direction",
        "direction of flips",
        "Of the pairs whose two replies both prefer the same slot, this share prefers the first "
        "slot; near one half the flips are indecision, near 0 or 1 they are position bias.",
        "The judge decides close pairs by position, and they come out inconsistent: read narrow "
        "leads with care, and try another judge or a rubric that asks to compare before deciding.",
        "share",
        "flip",
        find=panel.flips,
        threshold=lambda checks: checks.max_flip_bias,
        expected="near",
        neutral=0.5,
        red_by="lean",
        is_pooled=True,
        leans=_SLOTS,
        bias=Bias.NONE,
    ),
    Measure(
        "swap_consistency",
        "swap consistency",
        "Of the pairs that were asked and judged, this share comes out the same when the two "
        "responses change places.",
        "The judge cannot tell many pairs apart: make the rubric more concrete, ask a stronger "
        "judge, and do not read anything into single pairs.",
        "share",
        find=panel.consistency,
        threshold=lambda checks: 1 - checks.max_inconsistency_rate,
        red_by="number",
        bias=Bias.NONE,
    ),
    Measure(
        LENGTH_EFFECT,
        "length",
        "What a typically longer response gains between equal entrants, in Elo points.",
        "Compare with the ratings at equal style, tell the judge in the rubric that length is "
        "neither merit nor fault, or limit all entrants to the same length.",
        "points",
        find=attrgetter("length"),
        threshold=lambda checks: checks.max_length_effect,
        expected="near",
        neutral=0.0,
        leans=("penalises length", "rewards length"),
        bias=Bias.LENGTH,
    ),
    Measure(
        "longer_wins",
        "longer wins",
        "Of the decided pairs whose responses differ in length, this share goes to the response "
        "with more words, whoever wrote it.",
        "Either longer responses are better here or the judge goes by length, and these pairs "
        "cannot tell: tell the judge in the rubric that length is no merit, plant controls, or "
        "limit all entrants to the same length.",
        "share",
        find=panel.longer_wins,
        threshold=lambda checks: checks.max_longer_wins,
        expected="at most",
        neutral=0.5,
        red_by="lean",
        bias=Bias.LENGTH,
    ),
    Measure(
        "marked_responses",
        "marks in responses",
        "Of the entrant's judged responses, this share holds marks of thoughts or chat templates, "
        "such as <think> or <|im_end|>.",
        "What the model thought aloud, or turns that nobody took, may have been judged as its "
        "answer: set `strip: think` for the entrant, which generates nothing again; where it is "
        "set, look at the marks that are left.",
        "share",
        "response",
        find=panel.marked,
        threshold=lambda checks: checks.max_marked_responses,
        expected="at most",
        is_exact=True,
    ),
    Measure(
        "transitivity_within_prompts",
        "cycles within prompts",
        "A p-value: the probability that independent judgments on one scale make at least as many "
        "cycles (a over b over c over a) on one prompt; small where the judge contradicts itself.",
        "The judge weighs different things in different pairs: no single rating can tell the "
        "entrants' order; let the rubric say what counts more, or split the dimension.",
        "p",
        find=panel.cycles_within_prompts,
        threshold=lambda checks: checks.min_transitivity_p,
        is_exact=True,
        bias=Bias.NONE,
    ),
    Measure(
        "transitivity_of_majorities",
        "cycles of majorities",
        "A p-value: the probability that independent outcomes on one scale make at least as many "
        "cycles among entrants, by who won more of their pairs.",
        "The entrants have no single order: read the table of win rates instead of the ranks.",
        "p",
        find=panel.cycles_of_majorities,
        threshold=lambda checks: checks.min_transitivity_p,
        is_exact=True,
    ),
    Measure(
        CIRCLES,
        "circles",
        "Of the variance between entrants, without what noise adds, this share runs in circles "
        "that no single order can show.",
        "Where it is much, no rating tells who beats whom: read the table of win rates instead.",
        "share",
        "prompt",
        find=panel.circles,
    ),
    Measure(
        SELF_PREFERENCE,
        "self-preference",
        "What being the judge's own gains a response between equals, in Elo points, by what others "
        "say of the same entrants.",
        "Leave the judge's own model out, or let another judge or people decide on its pairs.",
        "points",
        threshold=lambda checks: checks.max_self_preference,
        expected="near",
        neutral=0.0,
        leans=("penalises its own responses", "prefers its own responses"),
    ),
    Measure(
        "unjudged",
        "unjudged pairs",
        "Of the entrant's pairs that were asked, this share is unjudged, and counts as nothing.",
        "Its rating rests on other prompts than the others' do: ask again (tournament rejudge), "
        "and until then go by the common support of the fair comparison.",
        "share",
        find=panel.unjudged,
        threshold=lambda checks: checks.max_unjudged_rate,
        expected="at most",
        is_exact=True,
    ),
    Measure(
        "not_needed",
        "pairs not needed",
        "The judge was not asked about this share of the planned pairs, because it was known by "
        "then who of the two is ahead; they are not missing, and a hashed sample stands for them.",
        "There is nothing to do: to have every pair judged, judge the mode in one round.",
        "share",
        find=panel.not_needed,
        bias=Bias.NONE,
    ),
    Measure(
        "sampling_luck",
        "sampling luck",
        "If the entrants answered the same prompts again, with other random numbers, the rating "
        "would vary by this standard error; it is a part of the error that the interval is made "
        "of.",
        "Where luck is most of the error, more samples of a prompt narrow the intervals "
        "(generation.n_samples); where it is little, only more prompts do.",
        "points",
        find=panel.luck,
        bias=Bias.NONE,
    ),
)
MEASURES: Mapping[str, Measure] = {
    row.name: row for row in (*_IN_ORDER, *added_rows("measures", _IN_ORDER))
}
"""By name, in the order of the panel."""
LIGHT_TABLES = tuple(dict.fromkeys(each.asset for each in MEASURES.values()))
"""The tables that hold lights."""
EVIDENCE_TABLES = tuple(dict.fromkeys(name for each in MEASURES.values() for name in each.reads))
"""The tables that measures read where they were made."""


def measure_judge(
    evidence: JudgeEvidence,
    checks: CheckThresholds,
    *,
    dimension: str,
    others: Mapping[str, Estimate | Found] = MappingProxyType({}),
) -> Iterator[MeasureRow]:
    """Yield every measure for which there is evidence, in the order of the panel.

    Args:
        evidence: What is known of the judge.
        checks: The thresholds of the lights.
        others: Numbers that were found otherwise, by measure.
    """
    for measure in MEASURES.values():
        found, threshold = others.get(measure.name), measure.threshold(checks)
        if found is None and measure.find is not None:
            found = measure.find(evidence)
        if found is None:
            continue
        for subject, each in ({None: found} if isinstance(found, Estimate) else found).items():
            yield measure.light(each, threshold, dimension=dimension, subject=subject)


def lights_of(tables: Iterable[AnyTable]) -> list[MeasureRow]:
    """Return the rows of measures that are in the panel and have a light, in its order.

    Args:
        tables: Tables of measures, of any dimensions.
    """
    rows = [row for table in tables for row in rows_of(MeasureRow, table) if row.state is not None]
    lights = []
    for measure in MEASURES.values():
        own = [row for row in rows if row.measure == measure.name]
        lights += pool(measure, own) if measure.is_pooled else own
    return lights


def pool(measure: Measure, rows: Sequence[MeasureRow]) -> list[MeasureRow]:
    """Return the rows of a share with one light over all dimensions, if it is of several.

    The dimensions are taken as independent, so the variances of their shares add up. A dimension
    that tells by itself, and otherwise than all together, leaves every dimension its own light.

    Args:
        measure: What they measure.
        rows: A row per dimension.
    """
    # An end at 0 is where shares end, whatever the sample: the other end tells it.
    parts = {
        row.dimension: (row.value, row.n, measure.precision(row.value, row.low or row.high))
        for row in rows
        if row.value is not None and row.low is not None and row.high is not None
    }
    if len(parts) < 2:
        return [*rows]
    n = sum(n for _, n, _ in parts.values())
    share = sum(value * n for value, n, _ in parts.values()) / n
    precision = n**2 / sum(n**2 / each for _, n, each in parts.values())
    low, high = wilson_interval(share, precision, 1.0)
    note = f"{round(share * n)} of {n} {measure.counted}s over {len(parts)} dimensions"
    found, threshold = Estimate(share, low, high, n, note), rows[0].threshold
    state = measure.state_of(found, threshold)
    told = {row.state for row in rows} & {TrustState.GREEN, TrustState.RED}
    if told - {state}:
        return [*rows]
    return [
        *(
            replace(row, state=TrustState.POOLED.value) if row.dimension in parts else row
            for row in rows
        ),
        MeasureRow.of(
            found,
            dimension=ALL_DIMENSIONS,
            measure=measure.name,
            unit=measure.unit,
            threshold=threshold,
            state=state.value,
        ),
    ]
