"""Agreement between judge models: the same pairs, judged in another mode by another model."""

from collections.abc import Mapping

import dagster as dg

from tournament_assets.adapters.tables import StoredTable, iterate_rows
from tournament_assets.assets.outputs import Table, markdown_table, table_asset, table_result
from tournament_assets.assets.partitions import (
    asset_key,
    by_mode_and_dimension,
    if_there_is_one,
    partition_values,
    same_dimension_all_modes,
)
from tournament_assets.assets.plan import TournamentPlan, mode_of
from tournament_assets.assets.reply_rows import PairName
from tournament_assets.judging.reconciliation import stored_outcome
from tournament_assets.tournament.config import MODES
from tournament_assets.tournament.fingerprints import fingerprint

ByMode = Mapping[str, StoredTable]


def build_judge_agreement_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `judge_agreement` for one tournament."""
    ratings = plan.config.ratings

    def of_every_mode(name: str) -> dg.AssetIn:
        return if_there_is_one(asset_key(plan, name), same_dimension_all_modes())

    @table_asset(
        plan,
        "judge_agreement",
        stage="3_judging_tests",
        ins={
            "pairs_to_judge": of_every_mode("match_list"),
            "replies": of_every_mode("judge_replies"),
            "verdicts": of_every_mode("judge_verdicts"),
        },
        partitions_def=by_mode_and_dimension(plan),
    )
    def judge_agreement(
        context: dg.AssetExecutionContext,
        pairs_to_judge: ByMode,
        replies: ByMode,
        verdicts: ByMode,
    ) -> Table:
        """How far the judges of two modes agree on pairs that both were shown, word for word.

        Nothing is asked. A mode that the same model judged, or by another rubric, says nothing
        here; run the other mode with another judge model to have something to compare.
        """
        from tournament_assets.audits.agreement import align_labels, measure_agreement

        values = partition_values(context)
        own = mode_of(values)
        tables = {
            mode: _Judged(
                pairs_to_judge.get(f"{values['dimension']}|{mode}"),
                replies.get(f"{values['dimension']}|{mode}"),
                verdicts.get(f"{values['dimension']}|{mode}"),
            )
            for mode in MODES
        }
        rows = []
        for mode, other in tables.items():
            mine = tables[own]
            if mode == own or not mine.models or not other.models or mine.models == other.models:
                continue
            if mine.rubrics != other.rubrics:
                context.log.info(f"{mode} was judged by another rubric")
                continue
            shared = mine.shown.items() & other.shown.items()
            found = measure_agreement(
                align_labels(
                    {name: mine.outcomes.get(name) for name, _ in shared},
                    {name: other.outcomes.get(name) for name, _ in shared},
                    prompt_of=lambda name: name[0],
                ),
                n_bootstraps=ratings.n_bootstraps,
                seed=ratings.bootstrap_seed,
                confidence=ratings.confidence,
            )
            rows.append(
                {
                    "dimension": values["dimension"],
                    "judge_model": ", ".join(sorted(mine.models)),
                    "other_judge_model": ", ".join(sorted(other.models)),
                    "other_mode": mode,
                    "n": found.n,
                    "n_left_out": found.n_left_out,
                    "agreement": found.agreement,
                    "agreement_low": found.agreement_low,
                    "agreement_high": found.agreement_high,
                    "kappa": found.kappa,
                    "kappa_low": found.kappa_low,
                    "kappa_high": found.kappa_high,
                    "note": found.note,
                }
            )
        return table_result(
            "judge_agreement",
            rows,
            metadata={
                "other_judges": len(rows),
                "agreement": markdown_table(
                    rows, ("other_judge_model", "n", "agreement", "kappa", "kappa_low", "note")
                ),
            },
        )

    return [judge_agreement]


_SHOWN_COLUMNS = (
    "prompt_text",
    "response_a",
    "response_b",
    "gold_answer",
    "expected_behavior",
)


class _Judged:
    """What one mode's judge was shown and what came of it; empty if the mode was not judged."""

    def __init__(
        self,
        pairs: StoredTable | None,
        replies: StoredTable | None,
        verdicts: StoredTable | None,
    ) -> None:
        self.models: set[str] = set()
        self.rubrics: set[str] = set()
        self.shown: dict[PairName, str] = {}
        self.outcomes: dict[PairName, str | None] = {}
        if pairs is None or replies is None or verdicts is None:
            return
        for row in iterate_rows("judge_replies", replies, ("rubric_hash",)):
            self.rubrics.add(row["rubric_hash"])
        for row in iterate_rows("match_list", pairs):
            name = (row["prompt_id"], row["entrant_a"], row["entrant_b"])
            self.shown[name] = fingerprint([row[field] for field in _SHOWN_COLUMNS])
        for row in iterate_rows("judge_verdicts", verdicts):
            self.models.add(row["judge_model"])
            name = (row["prompt_id"], row["entrant_a"], row["entrant_b"])
            outcome = stored_outcome(row["outcome"], row["reason_ab"])
            self.outcomes[name] = outcome.value if outcome.is_judged else None
