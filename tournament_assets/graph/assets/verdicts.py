"""From what the judge wrote to settled pairs, at no cost."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import pandas as pd

from tournament_assets.audits.missingness import mostly_same_text, same_text_sentence
from tournament_assets.foundation.formatting import format_share
from tournament_assets.graph.outputs import Check, Made, Metadata, Shown, report_table
from tournament_assets.graph.rows import Options, Step
from tournament_assets.judging.requests.verdict_parsing import settle_panel
from tournament_assets.reports.jury_tables import judges_table
from tournament_assets.storage.tables import (
    StoredTable,
    WrittenTable,
    pair_key,
    rows_of,
    write_table,
)
from tournament_assets.tournament.asset_rows import JudgeReplyRow, MeasureRow, VerdictRow
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.verdicts import Outcome, Verdict
from tournament_assets.verdicts.juries import jury_rows, weights_of
from tournament_assets.verdicts.rounds import RoundsOutcome, outcome_of
from tournament_assets.verdicts.table_rows import UNREAD, settled_rows

_SHOWN_COLUMNS = ("prompt_id", "entrant_a", "entrant_b", "verdict_ab", "verdict_ba", "winner")
_MISSING = (Verdict.REFUSED, Verdict.UNREADABLE, Verdict.PERMANENT, Verdict.PENDING)


def jury(step: Step, judge_replies: StoredTable) -> Made[list[MeasureRow]]:
    """Each judge's discrimination, slot odds and weight.

    Discrimination is how strongly a judge's verdicts depend on the entrants, where the judges' mean
    is 1; slot odds are its odds of preferring the response shown first between equals. Both are
    estimated from the judges' verdicts alone. A mode with one judge has no rows.
    """
    config = step.plan.config
    if not config.has_jury(step.mode):
        return Made([], metadata={})
    by_judge = settled_rows(
        rows_of(JudgeReplyRow, judge_replies), reply_format=config.judging.reply_format
    )
    rows = jury_rows(by_judge, config=config, mode=step.mode, dimension=step.name)
    return Made(
        rows,
        metadata={
            "judges": report_table(judges_table(rows, config.families)),
            "aggregate": config.aggregation(step.mode),
        },
    )


@dataclass(frozen=True)
class VerdictOptions:
    """Options of one run.

    Attributes:
        allow_partial: Rate although some presentations have no reply yet; every result says so.
    """

    allow_partial: bool = False


def judge_verdicts(
    step: Step,
    judge_replies: StoredTable,
    options: Options[VerdictOptions],
    jury: pd.DataFrame | None = None,
    judging_decisions: pd.DataFrame | None = None,
) -> Made[WrittenTable[VerdictRow]]:
    """Every pair settled from its replies, at no cost.

    Both replies name the same entrant: it wins. Both say tie: a tie. They disagree: inconsistent.
    One says nothing readable: unjudged, which is never counted as a tie. Both responses are the
    same text: the judge was not asked, and nobody won. Several judges first settle a pair
    separately, then together, by the mean of their shares weighted as in `jury`: an entrant with
    more than half wins. Where pairs stop early, a verdict may stand for several prompts: its weight
    says how many.
    """
    config, rounds = step.plan.config, outcome_of(judging_decisions)
    counts, readings, outcomes = Counter[str](), Counter[str](), Counter[str]()
    replies = _count_presentations(rows_of(JudgeReplyRow, judge_replies), counts)
    settled = settled_rows(replies, reply_format=config.judging.reply_format)
    weighed = _weighed(_together(_count_readings(settled, readings), step, jury), rounds)
    shown = Shown(_count_outcomes(weighed, outcomes), _SHOWN_COLUMNS)
    written = write_table(VerdictRow, shown)
    return Made(
        written,
        metadata={
            "pairs": len(written),
            **_counts(outcomes, readings),
            "first_rows": shown.markdown,
        },
        checks=[
            _accounting_check(
                counts,
                readings,
                allows_partial=options.allow_partial,
                where=step.where,
                rounds=rounds,
            ),
            *_verdict_checks(outcomes, config.checks, where=step.where),
        ],
    )


def _together(
    by_judge: Iterable[VerdictRow], step: Step, jury: pd.DataFrame | None
) -> Iterator[VerdictRow]:
    """Yield one row per pair: the judge's, or the one that several judges settle together."""
    config = step.plan.config
    if not config.settles_together(step.mode) or jury is None:
        yield from by_judge
        return

    weights = weights_of(jury)
    names = ", ".join(each.model for each in config.judges_of(step.mode))
    for _, of_pair in groupby(by_judge, key=pair_key):
        yield settle_panel(list(of_pair), weights, settled_by=names)


def _weighed(rows: Iterable[VerdictRow], rounds: RoundsOutcome | None) -> Iterator[VerdictRow]:
    for row in rows:
        yield row if rounds is None else replace(row, weight=rounds.weight_of(pair_key(row)))


def _count_presentations(
    rows: Iterable[JudgeReplyRow], counts: Counter[str]
) -> Iterator[JudgeReplyRow]:
    """Count the presentations as rows of the table `judge_replies` pass; those of one are adjacent.

    Of them, `identical` were not asked about, because both responses are the same text, and
    `unread` wait for a reply that was paid for and could not be read.
    """
    last = None
    for row in rows:
        presentation = (pair_key(row), row.judge_model, row.presentation)
        counts["presentations"] += presentation != last
        counts["identical"] += row.result_type == "identical"
        counts["unread"] += row.result_type == "pending" and row.error_type == UNREAD
        last = presentation
        yield row


def _count_readings(rows: Iterable[VerdictRow], counts: Counter[str]) -> Iterator[VerdictRow]:
    """Count what the replies say as their pairs pass; there are none to two equal texts."""
    for row in rows:
        if row.outcome != Outcome.SAME_TEXT:
            counts.update((row.verdict_ab, row.verdict_ba))
        yield row


def _count_outcomes(rows: Iterable[VerdictRow], counts: Counter[str]) -> Iterator[VerdictRow]:
    for row in rows:
        counts[row.outcome] += 1
        yield row


def _counts(outcomes: Counter[str], readings: Counter[str]) -> Metadata:
    first_slot = readings[Verdict.A]
    decided = first_slot + readings[Verdict.B]
    return {
        "is_partial": bool(readings[Verdict.PENDING]),
        **{f"pairs_{outcome.value}": outcomes[outcome] for outcome in Outcome},
        **{f"replies_{verdict.value}": readings[verdict] for verdict in Verdict},
        "first_slot_rate": first_slot / decided if decided else 0.0,
    }


def _verdict_checks(
    outcomes: Counter[str], thresholds: CheckThresholds, *, where: str
) -> list[Check]:
    pairs = outcomes.total()
    if not pairs:
        sentence = f"{where}: there is no pair to judge"
        names = ("unjudged_rate", "inconsistency_rate", "same_text_rate")
        return [Check(name, passed=False, description=sentence) for name in names]
    same_text = outcomes[Outcome.SAME_TEXT]
    asked = pairs - same_text
    unjudged = outcomes[Outcome.UNJUDGED]
    judged = asked - unjudged
    inconsistent = outcomes[Outcome.INCONSISTENT]
    unjudged_rate = unjudged / asked if asked else 0.0
    inconsistency_rate = inconsistent / judged if judged else 0.0
    return [
        Check(
            "unjudged_rate",
            passed=unjudged_rate <= thresholds.max_unjudged_rate,
            description=(
                f"{where}: {unjudged} of {asked} pairs asked are unjudged "
                f"({format_share(unjudged_rate)}; at most "
                f"{format_share(thresholds.max_unjudged_rate)} expected); "
                "run again to ask for what is pending"
            ),
            metadata={"unjudged": unjudged, "asked": asked, "unjudged_rate": unjudged_rate},
        ),
        Check(
            "inconsistency_rate",
            passed=inconsistency_rate <= thresholds.max_inconsistency_rate,
            description=(
                f"{where}: {inconsistent} of {judged} judged pairs changed with the position of "
                f"the responses ({format_share(inconsistency_rate)}; at most "
                f"{format_share(thresholds.max_inconsistency_rate)} expected)"
            ),
            metadata={
                "inconsistent": inconsistent,
                "judged": judged,
                "inconsistency_rate": inconsistency_rate,
            },
        ),
        Check(
            "same_text_rate",
            passed=not mostly_same_text(same_text, pairs),
            description=f"{where}: {same_text_sentence(same_text, pairs)}",
            metadata={"same_text": same_text, "pairs": pairs, "same_text_rate": same_text / pairs},
        ),
    ]


def _accounting_check(
    counts: Counter[str],
    readings: Counter[str],
    *,
    allows_partial: bool,
    where: str,
    rounds: RoundsOutcome | None,
) -> Check:
    """Check that every planned presentation is accounted for, and none of them is pending."""
    planned, not_asked = counts["presentations"], counts["identical"]
    verdicts = sum(readings[verdict] for verdict in Verdict if verdict.is_decided)
    missing = {verdict.value: readings[verdict] for verdict in _MISSING}
    parts = {"verdicts": verdicts, "identical, not asked": not_asked, **missing}
    if rounds is not None:
        planned = rounds.presentations
        missing[Verdict.PENDING.value] += rounds.presentations_undecided
        parts |= {**missing, "not needed": rounds.presentations_not_needed}
    pending = missing[Verdict.PENDING.value]
    adds_up = planned == sum(parts.values())
    sentence = f"{where}: {planned} presentations planned = " + " + ".join(
        f"{count} {name}" for name, count in parts.items()
    )
    if not adds_up:
        sentence += "; this does not add up: a presentation was lost on the way, please report it"
    elif pending:
        sentence += _pending_advice(counts["unread"], allows_partial=allows_partial)
    return Check(
        "accounting",
        passed=adds_up and not pending,
        description=sentence,
        metadata={
            "planned": planned,
            "verdicts": verdicts,
            "same_text": not_asked,
            **missing,
            **({} if rounds is None else {"not_needed": rounds.presentations_not_needed}),
            "unread": counts["unread"],
        },
        is_error=not (adds_up and allows_partial),
    )


def _pending_advice(unread: int, *, allows_partial: bool) -> str:
    if allows_partial:
        return "; the ratings are PARTIAL: they were asked for without what is pending"
    if unread:
        return (
            f"; the results of {unread} that are pending were paid and could not be read, and are "
            "not asked again: run again later to read them, with --pay-again to pay for them "
            "again, or with --partial to rate without them (pay_again, allow_partial in the UI)"
        )
    return (
        "; nothing is rated before every presentation has an answer: run again to ask for "
        "what is pending, or rate without it by --partial (allow_partial in the UI)"
    )
