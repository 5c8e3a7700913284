"""The trust panel: what is known of the judge, with a light for every measure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from tournament_assets.audits.judge_consistency import JudgedPair
from tournament_assets.audits.self_preference import measure_self_preference
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import join_names
from tournament_assets.graph.outputs import Check, Made, Metadata, report_table
from tournament_assets.graph.rows import Inputs, Step, Tables
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.playing_judges import playing_judges
from tournament_assets.reports.jury_tables import agreement_table
from tournament_assets.reports.trust_tables import light_sentence, trust_table
from tournament_assets.storage.tables import (
    LoadedTable,
    PairKey,
    StoredTable,
    pair_key,
    rows_of,
)
from tournament_assets.tournament.asset_rows import JudgeReplyRow, MeasureRow, VerdictRow
from tournament_assets.tournament.verdicts import Judgment, Outcome
from tournament_assets.trust.evidence import (
    length_of,
    longer_responses,
    marked_responses,
)
from tournament_assets.trust.lights import TrustState
from tournament_assets.trust.measures import MEASURES, SELF_PREFERENCE, measure_judge
from tournament_assets.trust.panel import JudgeEvidence
from tournament_assets.verdicts.juries import agreement_rows
from tournament_assets.verdicts.rounds import outcome_of
from tournament_assets.verdicts.table_rows import settled_rows


@dataclass(frozen=True, slots=True)
class MeasureInputs:
    """What is known about the judge on one dimension."""

    judge_replies: StoredTable
    judge_verdicts: StoredTable
    match_list: StoredTable
    ratings: pd.DataFrame
    judging_decisions: pd.DataFrame | None = None


def trust_checks(plan: TournamentPlan) -> Mapping[str, str]:
    """Return the checks of a tournament's panel: the measures that have a threshold."""
    config = plan.config
    return {
        each.name: f"{each.title}: {each.meaning}"
        for each in MEASURES.values()
        if each.find is not None and each.threshold(config.checks) is not None
    }


def measures(step: Step, inputs: Inputs[MeasureInputs], tables: Tables) -> Made[list[MeasureRow]]:
    """Whether the judge can be trusted on one dimension: a light for every measure.

    With several judges of the same pairs, their agreement (of every two, and of all) has no light:
    agreement among judges is not agreement with people.

    Tests of the judge cost money and run on request. Until they have run for exactly these requests
    and this rubric, their lights say "not measured", which is never green.
    """
    config = step.plan.config
    by_judge, mode = [*_by_judge(step, inputs.judge_replies)], step.mode
    is_in_turn = config.has_jury(mode) and not by_judge
    alone = [*rows_of(VerdictRow, inputs.judge_verdicts)] if is_in_turn else by_judge
    lights = [
        *measure_judge(
            _evidence(step, inputs, tables),
            config.checks,
            dimension=step.name,
            others={SELF_PREFERENCE: self_preferences(step, alone)} if alone else {},
        )
    ]
    agreement = [*agreement_rows(by_judge, config=config, mode=mode, dimension=step.name)]
    shown = {"agreement": report_table(agreement_table(agreement, config.families))}
    rows = [*lights, *agreement]
    return Made(
        rows,
        metadata={
            **_lights(lights),
            "panel": report_table(trust_table(lights)),
            **(shown if agreement else {}),
            "judge": config.label_of(step.mode),
        },
        checks=[check_light(name, rows, where=step.where) for name in trust_checks(step.plan)],
    )


def _evidence(
    step: Step, inputs: MeasureInputs, tables: Mapping[str, LoadedTable]
) -> JudgeEvidence:
    lengths, config = longer_responses(inputs.match_list), step.plan.config
    verdicts, by_judge = inputs.judge_verdicts, _by_judge(step, inputs.judge_replies)
    pairs = _judged_pairs(rows_of(VerdictRow, verdicts), lengths)
    rounds = outcome_of(inputs.judging_decisions)
    n_judged = sum(pair.judgment.outcome.is_judged for pair in pairs)
    return JudgeEvidence(
        pairs=pairs,
        entrants=config.entrant_ids,
        resampling=config.ratings.resampling,
        length=length_of(inputs.ratings, n_judged=n_judged),
        verdicts=verdicts,
        replies=inputs.judge_replies,
        tables=tables,
        name_job=step.plan.job,
        marked=marked_responses(inputs.match_list),
        by_judge=_judged_pairs(by_judge, {}) or None,
        not_needed=None if rounds is None else (rounds.pairs_not_needed, rounds.pairs),
    )


def self_preferences(
    step: Step, judged: Sequence[VerdictRow], people: Sequence[Judgment] = ()
) -> dict[str | None, Estimate]:
    """Return what its own judges give each entrant that is one, by what others say of it.

    Args:
        judged: How each judge settles its pairs by itself.
        people: What people say, who then stand for the other judges.
    """
    config = step.plan.config
    authors: dict[str | None, set[str]] = {}
    models = {row.settled_by for row in judged}
    for each in playing_judges(step.plan, step.mode, models=models):
        authors.setdefault(each.entrant_id, set()).add(each.judge)
    return {
        name: measure_self_preference(
            [Judgment.of(row) for row in judged if row.settled_by in judges],
            people or [Judgment.of(row) for row in judged if row.settled_by not in judges],
            str(name),
            entrants=config.entrant_ids,
            confidence=config.ratings.confidence,
        )
        for name, judges in authors.items()
    }


def _judged_pairs(
    rows: Iterable[VerdictRow], lengths: Mapping[PairKey, Outcome]
) -> list[JudgedPair]:
    return [
        JudgedPair(
            Judgment.of(row),
            (row.verdict_ab, row.verdict_ba),
            (row.request_key_ab, row.request_key_ba),
            lengths.get(pair_key(row)),
        )
        for row in rows
    ]


def _by_judge(step: Step, replies: StoredTable) -> Iterable[VerdictRow]:
    """Return how each judge settles every pair; nothing where one judge settles it alone."""
    if not step.plan.config.settles_together(step.mode):
        return ()
    reply_format = step.plan.config.judging.reply_format
    return settled_rows(rows_of(JudgeReplyRow, replies), reply_format=reply_format)


def _lights(rows: Sequence[MeasureRow]) -> Metadata:
    return {
        f"lights_{state.replace(' ', '_')}": sum(row.state == state for row in rows)
        for state in TrustState
    }


def check_light(measure: str, rows: Sequence[MeasureRow], *, where: str) -> Check:
    """Return a measure's light as a check, which fails if it is red or has a remedy."""
    own = [row for row in rows if row.measure == measure]
    bad = [
        row
        for row in own
        if row.state == TrustState.RED or (row.state == TrustState.NOT_MEASURED and row.remedy)
    ]
    values = {row.subject or "value": row.value for row in own if row.value is not None}
    only_red = bool(bad) and all(row.state == TrustState.RED for row in bad)
    return Check(
        measure,
        passed=not bad,
        description=f"{where}: {' '.join(map(light_sentence, bad or own))}",
        metadata={
            "threshold": own[0].threshold,
            "light": _shown(own),
            "only_red": only_red,
            **values,
        }
        if own
        else {},
    )


def _shown(rows: Sequence[MeasureRow]) -> str:
    states = join_names(list(dict.fromkeys(str(row.state) for row in rows)))
    return states.replace(TrustState.AMBER, f"{TrustState.AMBER} (too few to tell)")
