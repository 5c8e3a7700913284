"""From ratings to the tables people read: battles, leaderboard, audits and the fair comparison."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tournament_assets.audits.fair_comparison import (
    fair_comparison_rows,
    is_in_ratings,
    without_entrants,
)
from tournament_assets.audits.first_place import NOT_FIRST, FirstPlaceSupport, support_first_place
from tournament_assets.audits.missingness import (
    MissingnessCheck,
    Outage,
    PairReading,
    check_missingness,
    find_outages,
    measure_coverage,
)
from tournament_assets.audits.prompt_audit import audit_prompts
from tournament_assets.audits.prompt_findings import FindingKind
from tournament_assets.foundation.errors import JudgeError
from tournament_assets.graph.outputs import (
    Check,
    Made,
    Markdown,
    Shown,
    markdown_list,
    markdown_table,
    report_table,
)
from tournament_assets.graph.rows import Inputs, Step, ThisMode
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.playing_judges import playing_judges
from tournament_assets.provenance.origins import Frames, LargeTables, name_models
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.ratings.rating_methods import BRADLEY_TERRY
from tournament_assets.reports.audit_tables import choose_findings, fold_findings
from tournament_assets.reports.economies import entrant_economies
from tournament_assets.reports.fair_tables import (
    Compared,
    fair_sentences,
    fair_table,
    families_of,
)
from tournament_assets.reports.figures.figures import figure_markdown
from tournament_assets.reports.figures.ladder import draw_ladder
from tournament_assets.reports.leaderboard import build_leaderboard, leaderboard_cells
from tournament_assets.reports.statements import verdict_sentence
from tournament_assets.storage.tables import (
    AnyTable,
    WrittenTable,
    columns_of,
    judge_models_of,
    rows_of,
    texts_of,
    write_table,
)
from tournament_assets.tournament.asset_rows import (
    BattleRow,
    CoverageRow,
    LeaderboardRow,
    PromptFindingRow,
    RatingRow,
    ResponseRow,
    WinRateRow,
)
from tournament_assets.tournament.battles import battles_from_judgments, settings_of_run
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt, answer_key
from tournament_assets.verdicts.rounds import goal_of_rounds
from tournament_assets.verdicts.table_rows import (
    judgments_of,
    pair_readings,
)

_PLOTTED_ENTRANTS = 12
"""More lines than these are no plot."""
_SHOWN_FINDINGS = 12
_COVERAGE_COLUMNS = (
    "dimension",
    "entrant_id",
    "responses",
    "pairs_planned",
    "pairs_same_text",
    "pairs_judged",
    "pairs_clean",
    "score_present",
    "score_clean",
    "score_normalised",
)


def battles(judge_verdicts: LargeTables) -> Made[WrittenTable[BattleRow]]:
    """Every settled pair in other tools' terms; the ratings can be recomputed from it alone.

    Unjudged pairs are not battles. An inconsistent pair is a tie, marked as such.
    """
    columns = [each.name for each in columns_of(BattleRow)]
    rows = (
        BattleRow(**{name: getattr(battle, name) for name in columns})
        for table in judge_verdicts.values()
        for judgment, judge_model in zip(
            judgments_of(table), texts_of(table, "settled_by"), strict=True
        )
        for battle in battles_from_judgments([judgment], judge_model=judge_model)
    )
    shown = Shown(rows, ("question_id", "dimension", "model_a", "model_b", "winner"))
    written = write_table(BattleRow, shown)
    return Made(written, metadata={"battles": len(written), "first_rows": shown.markdown})


@dataclass(frozen=True, slots=True)
class LeaderboardInputs:
    """What a leaderboard is made from: tables by dimension, but for the table `audit`."""

    elo_ratings: Frames
    ratings: Frames
    win_rates: Frames
    judge_verdicts: LargeTables
    audit: pd.DataFrame


def leaderboard(step: Step, inputs: Inputs[LeaderboardInputs]) -> Made[list[LeaderboardRow]]:
    """Who is better on which dimension: ranks, ratings and both intervals.

    Losses that a reader must know about come first.
    """
    config = step.plan.config
    judge_model = name_models(
        model for table in inputs.judge_verdicts.values() for model in judge_models_of(table)
    )
    ranked = {
        dimension: _ranked(step, dimension, inputs, judge_model) for dimension in inputs.elo_ratings
    }
    rows = [row for each in ranked.values() for row in each]
    return Made(
        rows,
        metadata={
            **outage_metadata(
                find_outages(list(rows_of(CoverageRow, inputs.audit)), config.checks)
            ),
            **_findings(config, ranked, inputs.win_rates),
            "judge": config.label_of(step.mode),
            "judge_model": judge_model,
            **_plotted_ratings(rows),
            **_ladders(ranked),
        },
    )


def _ranked(
    step: Step, dimension: str, inputs: LeaderboardInputs, judge_model: str
) -> list[LeaderboardRow]:
    config = step.plan.config
    goal = goal_of_rounds(config.mode(step.mode))
    ratings = inputs.ratings[dimension]
    return build_leaderboard(
        elo_ratings=inputs.elo_ratings[dimension],
        ratings=ratings,
        win_rates=inputs.win_rates[dimension],
        judge_model=judge_model,
        judge_label=config.label_of(step.mode),
        stops=goal,
        # Where pairs stop early, places follow decisions, which no prompt can be taken out of.
        support=(
            _support(config, ratings, inputs.judge_verdicts[dimension])
            if goal is None
            else NOT_FIRST
        ),
    )


def _support(
    config: TournamentConfig, ratings: pd.DataFrame, verdicts: AnyTable
) -> FirstPlaceSupport:
    """Return what the first place rests on; nothing where nobody is better than everybody else."""
    matches = code_judgments(judgments_of(verdicts), entrants=config.entrant_ids)
    rows = rows_of(RatingRow, ratings)
    best = [row.entrant_id for row in rows if (row.method, row.rank_worst) == (BRADLEY_TERRY, 1)]
    return support_first_place(matches, best[0]) if best else NOT_FIRST


def _findings(
    config: TournamentConfig, ranked: Mapping[str, Sequence[LeaderboardRow]], win_rates: Frames
) -> dict[str, Any]:
    findings: dict[str, Any] = {}
    for dimension, rows in ranked.items():
        findings[f"verdict_{dimension}"] = verdict_sentence(
            rows,
            list(rows_of(WinRateRow, win_rates[dimension])),
            dimension=dimension,
            equivalent_within=config.ratings.equivalent_within,
        )
        findings[f"leaderboard_{dimension}"] = report_table(leaderboard_cells(rows))
    return findings


def _plotted_ratings(rows: Sequence[LeaderboardRow]) -> dict[str, float]:
    """Return ratings under the same names in every mode, which the UI plots side by side."""
    if len({row.entrant_id for row in rows}) > _PLOTTED_ENTRANTS:
        return {}
    return {
        f"elo_{row.dimension}_{row.entrant_id}": round(row.rating, 1)
        for row in sorted(rows, key=lambda row: (row.dimension, row.entrant_id))
        if row.rating is not None
    }


def _ladders(ranked: Mapping[str, Sequence[LeaderboardRow]]) -> dict[str, Markdown]:
    return {
        f"ladder_{dimension}": Markdown(
            figure_markdown(
                draw_ladder(rows, dimension), f"Elo ratings on {dimension} with intervals"
            )
        )
        for dimension, rows in ranked.items()
    }


def outage_metadata(outages: Sequence[Outage]) -> dict[str, Markdown]:
    """Return the notices that a materialisation shows first, if any."""
    return {"outages": markdown_list(each.sentence for each in outages)} if outages else {}


def audit(
    step: Step,
    selected_prompts: pd.DataFrame,
    entrant_responses: Frames,
    judge_verdicts: LargeTables,
    judge_replies: LargeTables,
) -> Made[list[CoverageRow]]:
    """Each entrant's planned pairs on each dimension, their outcomes, and its score.

    Missing pairs are counted by reason, never as a tie or a zero; only the coverage-normalised
    score, which divides by the planned pairs, penalises them.
    """
    config = step.plan.config
    answers = {entrant: _answers(frame) for entrant, frame in entrant_responses.items()}
    unanswered = _unanswered(selected_prompts, answers)
    rows = [
        row
        for dimension, pairs in _readings(config, judge_verdicts, judge_replies)
        for row in measure_coverage(
            dimension,
            entrants=config.entrant_ids,
            prompts_selected=len(selected_prompts),
            responses=answers,
            pairs=pairs,
            prompts_unanswered=len(_on_dimension(config, dimension, unanswered)),
        )
    ]
    _refuse_silence(rows, where=step.where)
    missingness = check_missingness(rows, max_spread=config.checks.max_missing_spread)
    return Made(
        rows,
        metadata={
            **_audit_metadata(config, rows, missingness),
            **_other_models(config, entrant_responses),
        },
        checks=[_missingness_check(missingness, where=step.where)],
    )


def _other_models(config: TournamentConfig, responses: Frames) -> dict[str, str]:
    """Say which served entrants were answered for by another model; empty if none was."""
    problems = [
        f"{each.entrant_id}: {each.other_model}"
        for each in entrant_economies(config, responses)
        if each.other_model is not None
    ]
    return {"answered_by": "; ".join(problems)} if problems else {}


def _refuse_silence(rows: Sequence[CoverageRow], *, where: str) -> None:
    if any(row.pairs_asked for row in rows) and not any(row.pairs_judged for row in rows):
        raise JudgeError(
            f"{where}: not one pair has two replies with a verdict; expected some; nothing is "
            "published; see `tournament rejudge --dry-run` for what the replies lack, and correct "
            "the rubric or the judge"
        )


def _answers(responses: pd.DataFrame) -> list[GeneratedResponse]:
    return [
        GeneratedResponse(row.prompt_id, row.response, row.finish_reason, sample=row.sample)
        for row in rows_of(ResponseRow, responses)
    ]


def _unanswered(
    selected: pd.DataFrame, answers: Mapping[str, Sequence[GeneratedResponse]]
) -> list[Prompt]:
    """Return the prompts that not every entrant answered."""
    answered = set.intersection(*(set(map(answer_key, given)) for given in answers.values()))
    return [row for row in rows_of(Prompt, selected) if answer_key(row) not in answered]


def _on_dimension(
    config: TournamentConfig, dimension: str, prompts: Sequence[Prompt]
) -> list[Prompt]:
    needs_gold_answer = config.dimensions[dimension].needs_gold_answer
    return [row for row in prompts if row.gold_answer is not None or not needs_gold_answer]


def _readings(
    config: TournamentConfig, verdicts: LargeTables, replies: LargeTables
) -> Iterator[tuple[str, list[PairReading]]]:
    for dimension, settled in verdicts.items():
        yield (
            dimension,
            pair_readings(
                settled,
                replies[dimension],
                reply_format=config.judging.reply_format,
                in_batches=[
                    each.model
                    for each in config.judges
                    if all(config.channel_of(mode, each) == "batch" for mode in config.mode_names)
                ],
            ),
        )


def _audit_metadata(
    config: TournamentConfig, rows: Sequence[CoverageRow], missingness: MissingnessCheck
) -> dict[str, Any]:
    return {
        **outage_metadata(find_outages(rows, config.checks)),
        "pairs_not_judged": sum(row.pairs_asked - row.pairs_judged for row in rows) // 2,
        "pairs_same_text": sum(row.pairs_same_text for row in rows) // 2,
        "largest_missing_spread": missingness.largest_spread,
        "infra_failures_remaining": sum(row.infra_remaining for row in rows) // 2,
        "infra_failures_rejudged": sum(row.infra_rejudged for row in rows) // 2,
        "coverage": markdown_table(rows, _COVERAGE_COLUMNS, limit=20),
    }


def _missingness_check(missingness: MissingnessCheck, *, where: str) -> Check:
    p_values = {
        f"{dimension}_p_value": each.p_value for dimension, each in missingness.verdicts.items()
    }
    return Check(
        "even_missingness",
        passed=missingness.passed,
        description=f"{where}: {missingness.sentence}",
        metadata={
            "largest_spread": missingness.largest_spread,
            "answers_p_value": missingness.answers.p_value,
            **p_values,
        },
    )


def prompt_audit(
    config: TournamentConfig, judge_verdicts: LargeTables, judge_replies: LargeTables
) -> Made[list[PromptFindingRow]]:
    """Every prompt across all entrants: broken ones, noisy ones, and those that decide.

    It finds prompts where nobody wins, every judgment is inconsistent or the judge failed, and
    strata in which one entrant fails; and shows how well each prompt separates the entrants, and
    the ratings without it.
    """
    rows = [
        found
        for dimension, pairs in _readings(config, judge_verdicts, judge_replies)
        for found in audit_prompts(pairs, dimension=dimension, entrants=config.entrant_ids)
    ]
    # The sort is stable: within a kind and a dimension the worst stays first.
    kinds = [kind.value for kind in FindingKind]
    rows.sort(key=lambda row: (not row.is_finding, kinds.index(row.kind)))
    folded = fold_findings(rows)
    worst = choose_findings(folded, _SHOWN_FINDINGS)
    return Made(
        rows,
        metadata={
            "findings": sum(len(finding.prompts) for finding in folded),
            "worst_first": markdown_list(f"{each.dimension}: {each.sentence}" for each in worst),
        },
    )


def fair_comparison(
    plan: TournamentPlan,
    mode: ThisMode,
    selected_prompts: pd.DataFrame,
    entrant_responses: Frames,
    judge_verdicts: LargeTables,
    ratings: Frames,
) -> Made[list[RatingRow]]:
    """The entrants on the prompts that all share, on all planned ones, and on strata of them.

    Where these and `ratings`, on all judged pairs, disagree on who is ahead, missing data decides,
    not quality.
    """
    rows = fair_rows(
        plan,
        mode,
        selected=selected_prompts,
        responses=entrant_responses,
        verdicts=judge_verdicts,
        ratings=ratings,
    )
    metadata: dict[str, Any] = {}
    models = {each for table in judge_verdicts.values() for each in judge_models_of(table)}
    playing = playing_judges(plan, mode, models=models)
    kin = families_of(plan.config, mode, judge_verdicts, playing=playing)
    for dimension, families in kin.items():
        own = Compared.of([row for row in rows if row.dimension == dimension], families)
        metadata[f"finding_{dimension}"] = " ".join(fair_sentences(own, dimension=dimension))
        metadata[f"comparison_{dimension}"] = report_table(fair_table(own))
    return Made(
        [row for row in rows if not is_in_ratings(row)],
        metadata={**metadata, "judge": plan.config.label_of(mode)},
    )


def fair_rows(
    plan: TournamentPlan,
    mode: ThisMode,
    *,
    selected: pd.DataFrame,
    responses: Frames,
    verdicts: Mapping[str, AnyTable],
    ratings: Frames | None = None,
    excluded: Sequence[str] = (),
) -> list[RatingRow]:
    """Return the rows of tables "fair_comparison" and "ratings" that compare a mode's entrants.

    Args:
        selected: The table `selected_prompts`.
        responses: The table `entrant_responses` of every entrant.
        verdicts: The table `judge_verdicts` of every dimension.
        ratings: The table `ratings` of every dimension, if nobody is left out.
        excluded: Entrants to leave out, as if they had not taken part.
    """
    config = plan.config
    prompts = list(rows_of(Prompt, selected))
    answered = {
        entrant: set(map(answer_key, rows_of(ResponseRow, frame)))
        for entrant, frame in responses.items()
    }
    rows: list[RatingRow] = []
    for dimension, frame in verdicts.items():
        judgments, entrants = without_entrants(
            judgments_of(frame), entrants=config.entrant_ids, excluded=excluded
        )
        rows += fair_comparison_rows(
            judgments,
            dimension=dimension,
            entrants=entrants,
            prompts=_on_dimension(config, dimension, prompts),
            answered=answered,
            settings=settings_of_run(config, mode=mode),
            ratings=() if ratings is None else rows_of(RatingRow, ratings[dimension]),
        )
    return rows
