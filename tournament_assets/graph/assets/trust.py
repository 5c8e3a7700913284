"""The trust panel: what is known of the judge, with a light for every measure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg
import pandas as pd

from tournament_assets.graph.assets.verdicts import judge_models_of
from tournament_assets.graph.outputs import Table, report_table, table_asset, table_result
from tournament_assets.graph.partitions import (
    asset_key,
    by_mode_and_dimension,
    if_there_is_one,
    partition_values,
)
from tournament_assets.storage.tables import PAIR_COLUMNS, StoredTable, iterate_rows, pair_key
from tournament_assets.tournament.verdicts import Verdict
from tournament_assets.trust.evidence import (
    RETESTED_COLUMNS,
    controls_of,
    judges_of,
    length_of,
    longer_responses,
    people_of,
    retest_of,
)
from tournament_assets.trust.measures import HUMANS, WORDS, threshold_of
from tournament_assets.workflows.plan import TournamentPlan, partition_label
from tournament_assets.workflows.table_rows import judgments_of

if TYPE_CHECKING:
    from tournament_assets.trust.panel import TrustLine


def build_trust_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `trust_panel` for one tournament."""
    tournament = plan.config
    has_people = tournament.human_battles is not None
    checks = {
        measure: f"{words.title}: {words.meaning}"
        for measure, words in WORDS.items()
        if threshold_of(measure, tournament.checks) is not None
        and (measure != HUMANS or has_people)
    }
    people_in = {"people": dg.AssetIn(key=asset_key(plan, "human_agreement"))} if has_people else {}

    @table_asset(
        plan,
        "trust_panel",
        stage="4_ratings",
        ins={
            "replies": dg.AssetIn(key=asset_key(plan, "judge_replies")),
            "verdicts": dg.AssetIn(key=asset_key(plan, "judge_verdicts")),
            "matches": dg.AssetIn(key=asset_key(plan, "match_list")),
            "style": dg.AssetIn(key=asset_key(plan, "style_control")),
            "retest": if_there_is_one(asset_key(plan, "judge_retest")),
            "controls": if_there_is_one(asset_key(plan, "judge_controls")),
            "judges": if_there_is_one(asset_key(plan, "judge_agreement")),
            **people_in,
        },
        partitions_def=by_mode_and_dimension(plan),
        checks=checks,
    )
    def trust_panel(
        context: dg.AssetExecutionContext,
        replies: StoredTable,
        verdicts: StoredTable,
        matches: StoredTable,
        style: pd.DataFrame,
        retest: pd.DataFrame | None,
        controls: pd.DataFrame | None,
        judges: pd.DataFrame | None,
        **people: pd.DataFrame,
    ) -> Table:
        """Whether the judge can be trusted on one dimension: a light for every measure.

        Tests of the judge cost money and run on request. Until they have, for these very requests
        and this rubric, their lights say "not measured", which is never green.
        """
        from tournament_assets.audits.judge_consistency import JudgedPair
        from tournament_assets.reports.trust_tables import trust_rows, trust_table
        from tournament_assets.trust.panel import TrustEvidence, trust_lines

        values = partition_values(context)
        ratings = tournament.ratings
        lengths = longer_responses(
            iterate_rows("match_list", matches, (*PAIR_COLUMNS, "response_a", "response_b"))
        )
        columns = (*PAIR_COLUMNS, *RETESTED_COLUMNS)
        pairs = [
            JudgedPair(
                judgment,
                (Verdict(row["verdict_ab"]), Verdict(row["verdict_ba"])),
                (row["request_key_ab"], row["request_key_ba"]),
                lengths.get(pair_key(row)),
            )
            for judgment, row in zip(
                judgments_of(verdicts),
                iterate_rows("judge_verdicts", verdicts, columns),
                strict=True,
            )
        ]
        job = f"{plan.tournament_id}_test_judge"
        lines = trust_lines(
            TrustEvidence(
                pairs=pairs,
                length=length_of(
                    style, n_judged=sum(pair.judgment.outcome.is_judged for pair in pairs)
                ),
                retest=retest_of(
                    retest, iterate_rows("judge_verdicts", verdicts, RETESTED_COLUMNS), job=job
                ),
                controls=controls_of(
                    controls,
                    iterate_rows("judge_replies", replies, ("judge_model", "rubric_hash")),
                    job=job,
                ),
                people=people_of(people.get("people")),
                judges=judges_of(judges, judge_models=judge_models_of(verdicts), job=job),
            ),
            entrants=tournament.entrant_ids,
            thresholds=tournament.checks,
            n_bootstraps=ratings.n_bootstraps,
            seed=ratings.bootstrap_seed,
            confidence=ratings.confidence,
        )
        table = trust_rows(lines, dimension=values["dimension"])
        return table_result(
            "trust_panel",
            table,
            metadata={
                **{
                    f"lights_{state.replace(' ', '_')}": sum(row["state"] == state for row in table)
                    for state in ("green", "red", "not measured", "no threshold")
                },
                "panel": report_table(trust_table(table)),
                "judge": tournament.judge_label,
            },
            checks=[_check(name, lines, where=partition_label(values)) for name in checks],
        )

    return [trust_panel]


def _check(measure: str, lines: Sequence["TrustLine"], *, where: str) -> dg.AssetCheckResult:
    from tournament_assets.reports.trust_tables import light_sentence
    from tournament_assets.trust.panel import TrustState

    own = [line for line in lines if line.measure == measure]
    bad = [line for line in own if line.state is not TrustState.GREEN]
    values = {
        line.subject or "value": line.estimate.value
        for line in own
        if line.estimate.value is not None
    }
    return dg.AssetCheckResult(
        check_name=measure,
        passed=not bad,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{where}: {' '.join(light_sentence(line) for line in bad or own)}",
        metadata={"threshold": own[0].threshold, **values} if own else {},
    )
