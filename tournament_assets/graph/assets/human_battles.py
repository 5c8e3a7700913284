"""Battles that people decided, and what they say beside the judge's, where a config names them.

A judge's ratings and people's stand side by side here and never mix in `elo_ratings`.
"""

import dagster as dg
import pandas as pd
import pyarrow as pa

from tournament_assets.battles.columns import battles_of, complete_battle_table, make_battle_table
from tournament_assets.battles.human import battles_that_count, on_prompts
from tournament_assets.graph.outputs import Table, markdown_table, table_asset, table_result
from tournament_assets.graph.partitions import asset_key, by_mode_and_dimension, partition_values
from tournament_assets.storage.table_schemas import SCHEMAS
from tournament_assets.storage.tables import StoredTable, encode_parquet, to_arrow
from tournament_assets.tournament.battles import battles_from_judgments, settings_of_run
from tournament_assets.tournament.fingerprints import fingerprint_bytes, short
from tournament_assets.tournament.verdicts import Outcome
from tournament_assets.workflows.plan import TournamentPlan, mode_of
from tournament_assets.workflows.preflight import load_human_battles
from tournament_assets.workflows.table_rows import judgments_of

_STAGE = "4_ratings"
_MOST_LISTED = 100


def human_assets(plan: TournamentPlan) -> tuple[str, ...]:
    """Name what is rated with human battles, in order; nothing where a config names no file."""
    return () if plan.config.human_battles is None else ("arena_ratings", "human_agreement")


def build_human_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `human_battles`, `arena_ratings` and `human_agreement` where a config names a file."""
    tournament = plan.config
    arena = tournament.human_battles
    if arena is None:
        return []
    ins = {
        "verdicts": dg.AssetIn(key=asset_key(plan, "judge_verdicts")),
        "human": dg.AssetIn(key=asset_key(plan, "human_battles")),
    }

    @table_asset(plan, "human_battles", stage=_STAGE)
    def human_battles() -> Table:
        """The battles of an arena that people decided, among those who fought enough of them.

        Who has too few is left out and listed, and so is what else of the file is not here.
        """
        from tournament_assets.reports.human_battle_tables import left_out_sentence

        found = load_human_battles(plan, arena)
        frame = _frame_of(found.table)
        # Hashed as a file: rows as objects would be a gigabyte for the largest arenas.
        version = fingerprint_bytes(encode_parquet("human_battles", frame))
        entrants = [
            {
                "entrant_id": name,
                "battles": count,
                "source": "evaluated" if name in tournament.entrant_ids else "human",
            }
            for name, count in sorted(found.entrants.items(), key=lambda entry: -entry[1])
        ]
        return dg.MaterializeResult(
            value=frame,
            data_version=dg.DataVersion(version),
            metadata={
                "dagster/row_count": len(frame),
                "battles": len(frame),
                "entrants": len(found.entrants),
                "entrants_left_out": len(found.too_few),
                "battles_left_out": found.n_with_too_few + sum(found.left_out.values()),
                "too_few_battles": dict(found.too_few),
                "left_out_by_reason": dict(found.left_out),
                "what_it_means": left_out_sentence(
                    found.too_few, n_battles=found.n_with_too_few, min_battles=arena.min_battles
                ),
                "battles_by_entrant": markdown_table(
                    entrants, ("entrant_id", "source", "battles"), limit=_MOST_LISTED
                ),
                "content_hash": short(version),
            },
        )

    @table_asset(
        plan,
        "arena_ratings",
        stage=_STAGE,
        ins=ins,
        partitions_def=by_mode_and_dimension(plan),
    )
    def arena_ratings(
        context: dg.AssetExecutionContext, verdicts: StoredTable, human: pd.DataFrame
    ) -> Table:
        """Bradley-Terry ratings by the judge's battles, by people's, and by both joined.

        Joined they place the entrants inside the existing arena, each with its own interval from
        resampled prompts. All three are on the arena's scale where an entrant ties them to it.
        """
        from tournament_assets.battles.arena_places import BASES, place_in_arena
        from tournament_assets.reports.human_battle_tables import scale_sentence

        values = partition_values(context)
        dimension = values["dimension"]
        places = place_in_arena(
            _judged_battles(verdicts, judge_model=tournament.judge_model(mode_of(values))),
            battles_that_count(
                _battle_table(human), dimension, dimensions=tournament.dimension_names
            ),
            dimension=dimension,
            settings=settings_of_run(tournament, mode=mode_of(values)),
        )
        shown = ("entrant_id", "source", "rating", "sampling_low", "sampling_high", "n_battles")
        return table_result(
            "arena_ratings",
            places.rows,
            metadata={
                "scale": scale_sentence(judge=places.anchors["judge"], both=places.anchors["both"]),
                **{f"battles_{basis}": places.n_battles[basis] for basis in BASES},
                **{
                    f"ratings_{basis}": markdown_table(
                        [row for row in places.rows if row["basis"] == basis],
                        (*shown, "note"),
                        limit=_MOST_LISTED,
                    )
                    for basis in BASES
                },
                "notes": dg.MetadataValue.md(
                    "\n".join(f"- {note}" for note in places.notes) or "nothing to note"
                ),
                "judge": tournament.judge_label,
            },
        )

    @table_asset(
        plan,
        "human_agreement",
        stage=_STAGE,
        ins=ins,
        partitions_def=by_mode_and_dimension(plan),
    )
    def human_agreement(
        context: dg.AssetExecutionContext, verdicts: StoredTable, human: pd.DataFrame
    ) -> Table:
        """How far the judge agrees with people where both compared two entrants on one prompt.

        Cohen's kappa corrects for chance; its interval comes from resampled prompts. People were
        not given the rubric, so what they disagree on is not always the judge's mistake.
        """
        from tournament_assets.audits.agreement import measure_human_agreement
        from tournament_assets.reports.human_battle_tables import agreement_rows, agreement_sentence

        values = partition_values(context)
        dimension = values["dimension"]
        ratings = tournament.ratings
        counted = battles_that_count(
            _battle_table(human), dimension, dimensions=tournament.dimension_names
        )
        judgments = [
            judgment
            for judgment in judgments_of(verdicts)
            if judgment.outcome is not Outcome.SAME_TEXT
        ]
        on_judged = on_prompts(counted, {judgment.prompt_id for judgment in judgments})
        without_prompt = counted.column("question_id").null_count
        found = measure_human_agreement(
            battles_from_judgments(judgments, judge_model=tournament.judge_model(mode_of(values))),
            battles_of(on_judged),
            n_bootstraps=ratings.n_bootstraps,
            seed=ratings.bootstrap_seed,
            confidence=ratings.confidence,
        )
        rows = agreement_rows(found, dimension=dimension)
        measured = {"agreement": found.overall.agreement, "kappa": found.overall.kappa}
        return table_result(
            "human_agreement",
            rows,
            metadata={
                "what_it_means": agreement_sentence(
                    found, dimension=dimension, confidence=ratings.confidence
                ),
                "shared_comparisons": found.overall.n,
                **{name: value for name, value in measured.items() if value is not None},
                "only_judge": found.n_only_judge,
                "only_human": found.n_only_human,
                "human_battles_on_other_prompts": (
                    counted.num_rows - on_judged.num_rows - without_prompt
                ),
                "human_battles_without_prompt": without_prompt,
                "agreement_table": markdown_table(
                    rows,
                    ("verdicts", "comparisons", "agreement", "kappa", "kappa_low", "kappa_high"),
                ),
                "judge": tournament.judge_label,
            },
        )

    return [human_battles, arena_ratings, human_agreement]


def _frame_of(table: pa.Table) -> pd.DataFrame:
    schema = SCHEMAS["human_battles"]
    frame: pd.DataFrame = (
        table.select(schema.names).cast(schema).to_pandas(types_mapper=pd.ArrowDtype)
    )
    return frame


def _battle_table(frame: pd.DataFrame) -> pa.Table:
    return complete_battle_table(to_arrow("human_battles", frame))


def _judged_battles(verdicts: StoredTable, *, judge_model: str) -> pa.Table:
    # The name of the judge is in no rating, so the configured one does for all battles.
    return make_battle_table(
        battles_from_judgments(judgments_of(verdicts), judge_model=judge_model)
    )
