"""The occasions on which the judge was asked about the same pairs: this one, and the one before.

The ledger knows them: the purpose of a batch names the occasion.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tournament_assets.judging.requests.controls import drift_check_of, repeat_for_drift_check
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import JudgeRequest
from tournament_assets.storage.tables import PairKey, pair_key
from tournament_assets.tournament.asset_rows import VerdictRow
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.rubrics import Rubric
from tournament_assets.workflows.plan import TournamentPlan, mode_of
from tournament_assets.workflows.table_rows import reply_rows, settled_rows

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger

# A batch ends within a day; what was begun longer ago than this is another time of asking.
_STILL_THE_SAME = timedelta(days=7)
Rows = Mapping[PairKey, VerdictRow]
"""Settled pairs by name."""


def choose_drift_check(
    given: str | None,
    *,
    tournament_id: str,
    values: Mapping[str, str],
    ledger: "Ledger",
    now: datetime,
) -> str:
    """Return the occasion: the given one, or that which waits for a batch, or else today's date.

    Raises:
        InputError: If the given one is blank.
    """
    if given is not None:
        if not given.strip():
            raise InputError(
                f"occasion is {given!r}; expected a name, such as a rerun's id; leave it out to "
                "take today's date"
            )
        return given.strip()
    waiting = [
        occasion
        for scope, batches in ledger.open_scopes(tournament_id).items()
        if (scope.mode, scope.dimension) == (values["mode"], values["dimension"])
        and now - batches[0].begun_at < _STILL_THE_SAME
        and (occasion := drift_check_of(scope.purpose)) is not None
    ]
    return waiting[-1] if waiting else now.astimezone(UTC).date().isoformat()


def settle_earlier(
    plan: TournamentPlan,
    values: Mapping[str, str],
    asked: Sequence[JudgeRequest],
    pairs: Sequence[PairToJudge],
    rubric: Rubric,
    *,
    occasion: str,
    ledger: "Ledger",
) -> tuple[str | None, Rows]:
    """Return the last occasion before on which a pair was asked the same, and what came of it.

    Only pairs whose both presentations were answered then are among the rows.
    """
    purposes = ledger.purposes_begun(plan.tournament_id, mode_of(values), values["dimension"])
    begun = [name for purpose in purposes if (name := drift_check_of(purpose)) is not None]
    before = begun[: begun.index(occasion)] if occasion in begun else begun
    for earlier in reversed(before):
        requests = [repeat_for_drift_check(request, earlier) for request in asked]
        rows = list(reply_rows(requests, pairs, ledger.iterate_replies, rubric))
        if all(row.result_type == "pending" for row in rows):
            continue
        not_answered = {pair_key(row) for row in rows if row.result_type == "pending"}
        settled = settled_rows(rows, judge=plan.config.judge)
        return earlier, {pair_key(row): row for row in settled if pair_key(row) not in not_answered}
    return None, {}
