"""From what the judge wrote to settled pairs, at no cost."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import dagster as dg

from tournament_assets.audits.outages import mostly_same_text, same_text_sentence
from tournament_assets.graph.outputs import Shown, Table, table_asset, written_result
from tournament_assets.graph.partitions import asset_key, by_mode_and_dimension, partition_values
from tournament_assets.storage.tables import (
    AnyTable,
    StoredTable,
    pair_key,
    rows_of,
    write_table,
)
from tournament_assets.tournament.asset_rows import VerdictRow
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.verdicts import Outcome, Verdict
from tournament_assets.workflows.plan import TournamentPlan, partition_label
from tournament_assets.workflows.table_rows import UNREAD, SettledReply, settled_rows, verdicts_of


@dataclass(frozen=True, slots=True)
class _Judge:
    judge_model: str


class JudgeVerdictsConfig(dg.Config):
    """Options of one run."""

    allow_partial: bool = False
    """Rate although some presentations have no reply yet; every result says so."""


def judge_models_of(verdicts: AnyTable) -> set[str]:
    """Return the models that gave the verdicts of the table `judge_verdicts`."""
    return {row.judge_model for row in rows_of(_Judge, verdicts)}


class _Counted:
    """Counts the presentations among rows of the table `judge_replies` as they pass.

    Attributes:
        presentations: How many there are; several replies to one follow one another.
        unread: How many wait for a reply that was paid for and could not be read.
    """

    def __init__(self, rows: Iterable[SettledReply]) -> None:
        self._rows = rows
        self.presentations = 0
        self.unread = 0

    def __iter__(self) -> Iterator[SettledReply]:
        last = None
        for row in self._rows:
            presentation = (pair_key(row), row.presentation)
            self.presentations += presentation != last
            self.unread += row.result_type == "pending" and row.error_type == UNREAD
            last = presentation
            yield row


class _Settled:
    """Counts rows of the table `judge_verdicts` as they pass.

    Attributes:
        outcomes: How many pairs were settled in each way.
        readings: How many replies say what; pairs of the same text have none.
    """

    def __init__(self, rows: Iterable[VerdictRow]) -> None:
        self._rows = rows
        self.outcomes: Counter[str] = Counter()
        self.readings: Counter[Verdict] = Counter()

    def __iter__(self) -> Iterator[VerdictRow]:
        for row in self._rows:
            self.outcomes[row.outcome] += 1
            if row.outcome != Outcome.SAME_TEXT:
                self.readings.update(verdicts_of(row))
            yield row


def _verdict_checks(
    outcomes: Counter[str], thresholds: CheckThresholds, *, where: str
) -> list[dg.AssetCheckResult]:
    same_text = outcomes[Outcome.SAME_TEXT]
    pairs = outcomes.total()
    asked = pairs - same_text
    unjudged = outcomes[Outcome.UNJUDGED]
    judged = asked - unjudged
    inconsistent = outcomes[Outcome.INCONSISTENT]
    unjudged_rate = unjudged / asked if asked else 0.0
    inconsistency_rate = inconsistent / judged if judged else 0.0
    return [
        dg.AssetCheckResult(
            check_name="unjudged_rate",
            passed=unjudged_rate <= thresholds.max_unjudged_rate,
            severity=dg.AssetCheckSeverity.WARN,
            description=(
                f"{where}: {unjudged} of {asked} pairs asked have no two readable replies "
                f"({unjudged_rate:.1%}; at most {thresholds.max_unjudged_rate:.1%} expected); "
                "run again to ask for what is pending"
            ),
            metadata={"unjudged": unjudged, "asked": asked, "unjudged_rate": unjudged_rate},
        ),
        dg.AssetCheckResult(
            check_name="inconsistency_rate",
            passed=inconsistency_rate <= thresholds.max_inconsistency_rate,
            severity=dg.AssetCheckSeverity.WARN,
            description=(
                f"{where}: {inconsistent} of {judged} judged pairs changed with the position of "
                f"the responses ({inconsistency_rate:.1%}; at most "
                f"{thresholds.max_inconsistency_rate:.1%} expected)"
            ),
            metadata={
                "inconsistent": inconsistent,
                "judged": judged,
                "inconsistency_rate": inconsistency_rate,
            },
        ),
        dg.AssetCheckResult(
            check_name="same_text_rate",
            passed=not mostly_same_text(same_text, pairs),
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{where}: {same_text_sentence(same_text, pairs)}",
            metadata={"same_text": same_text, "pairs": pairs, "same_text_rate": same_text / pairs},
        ),
    ]


def _accounting_check(
    readings: Counter[Verdict],
    *,
    planned: int,
    not_asked: int,
    unread: int,
    allows_partial: bool,
    where: str,
) -> dg.AssetCheckResult:
    """Check that every planned presentation is accounted for, and none of them is pending."""
    verdicts = sum(readings[verdict] for verdict in Verdict if verdict.is_decided)
    missing = {
        verdict.value: readings[verdict]
        for verdict in (Verdict.REFUSED, Verdict.UNREADABLE, Verdict.PERMANENT, Verdict.PENDING)
    }
    pending = missing[Verdict.PENDING]
    adds_up = planned == verdicts + not_asked + sum(missing.values())
    parts = {"verdicts": verdicts, "of one text, not asked": not_asked, **missing}
    sentence = f"{where}: {planned} presentations planned = " + " + ".join(
        f"{count} {name}" for name, count in parts.items()
    )
    if not adds_up:
        sentence += "; this does not add up: a presentation was lost on the way, please report it"
    elif pending and allows_partial:
        sentence += "; the ratings are PARTIAL: they were asked for without what is pending"
    elif pending and unread:
        sentence += (
            f"; the results of {unread} that are pending were paid and could not be read, and are "
            "not asked again: run again later to read them, with --pay-again to pay for them "
            "again, or with --partial to rate without them (pay_again, allow_partial in the UI)"
        )
    elif pending:
        sentence += (
            "; nothing is rated before every presentation has an answer: run again to ask for "
            "what is pending, or rate without it by --partial (allow_partial in the UI)"
        )
    return dg.AssetCheckResult(
        check_name="accounting",
        passed=adds_up and not pending,
        severity=(
            dg.AssetCheckSeverity.WARN
            if adds_up and allows_partial
            else dg.AssetCheckSeverity.ERROR
        ),
        description=sentence,
        metadata={
            "planned": planned,
            "verdicts": verdicts,
            "same_text": not_asked,
            **missing,
            "unread": unread,
        },
    )


def _nothing_to_judge(where: str) -> list[dg.AssetCheckResult]:
    return [
        dg.AssetCheckResult(
            check_name=name,
            passed=False,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{where}: there is no pair to judge",
        )
        for name in ("unjudged_rate", "inconsistency_rate", "same_text_rate")
    ]


def build_verdict_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `judge_verdicts` for one tournament."""
    tournament = plan.config

    @table_asset(
        plan,
        "judge_verdicts",
        stage="3_judging",
        ins={"replies": dg.AssetIn(key=asset_key(plan, "judge_replies"))},
        partitions_def=by_mode_and_dimension(plan),
        checks={
            "unjudged_rate": "Few pairs lack two readable replies.",
            "inconsistency_rate": "Few pairs change their winner when the responses swap places.",
            "same_text_rate": "At least half of the pairs have two different responses.",
        },
        blocking_checks={
            "accounting": (
                "Every planned presentation has a verdict or a reason why there is none, and "
                "none is still pending."
            )
        },
    )
    def judge_verdicts(
        context: dg.AssetExecutionContext, config: JudgeVerdictsConfig, replies: StoredTable
    ) -> Table:
        """Every pair settled from its two replies, at no cost.

        Both replies mean the same entrant: it wins. Both say tie: a tie. They disagree:
        inconsistent. One says nothing readable: unjudged, which is never counted as a tie. Both
        responses are the same text: the judge was not asked, and nobody won.
        """
        where = partition_label(partition_values(context))
        counted = _Counted(rows_of(SettledReply, replies))
        settled = _Settled(settled_rows(counted, reply_format=tournament.judge.reply_format))
        shown = Shown(
            settled, ("prompt_id", "entrant_a", "entrant_b", "verdict_ab", "verdict_ba", "winner")
        )
        written = write_table("judge_verdicts", shown)
        outcomes, readings = settled.outcomes, settled.readings
        first_slot = readings[Verdict.A]
        decided = first_slot + readings[Verdict.B]
        return written_result(
            written,
            metadata={
                "pairs": len(written),
                "is_partial": bool(readings[Verdict.PENDING]),
                **{f"pairs_{outcome.value}": outcomes[outcome] for outcome in Outcome},
                **{f"replies_{verdict.value}": readings[verdict] for verdict in Verdict},
                "first_slot_rate": first_slot / decided if decided else 0.0,
                "first_rows": shown.markdown,
            },
            checks=[
                _accounting_check(
                    readings,
                    planned=counted.presentations,
                    unread=counted.unread,
                    not_asked=2 * outcomes[Outcome.SAME_TEXT],
                    allows_partial=config.allow_partial,
                    where=where,
                ),
                *(
                    _verdict_checks(outcomes, tournament.checks, where=where)
                    if len(written)
                    else _nothing_to_judge(where)
                ),
            ],
        )

    return [judge_verdicts]
