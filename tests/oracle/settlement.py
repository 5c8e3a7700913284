"""Settles the pairs of a drawn run from what its judges were drawn to say, reading no reply."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from tournament_assets.tournament.asset_rows import JudgeReplyRow, MatchRow
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict

Said = Mapping[tuple[str, str, str, str], Verdict]
"""What a judge said, by the judge's model, the prompt, and the first and second response."""
PairKey = tuple[str, int, str, str]
_AGREEING = {
    (Verdict.A, Verdict.B): Outcome.A_WINS,
    (Verdict.B, Verdict.A): Outcome.B_WINS,
    (Verdict.TIE, Verdict.TIE): Outcome.TIE,
}
"""Outcomes by the verdicts of both orders; the letter is the place of the better response."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A pair, who settled it, and from which verdicts and requests: `ab`, then `ba`."""

    judgment: Judgment
    judge: str
    verdicts: tuple[Verdict, Verdict]
    requests: tuple[str, str]
    texts: tuple[str, str]


def key_of(row: MatchRow | JudgeReplyRow) -> PairKey:
    """Return what tells a pair from others."""
    return row.prompt_id, row.sample, row.entrant_a, row.entrant_b


def settle_each(
    matches: Iterable[MatchRow], replies: Iterable[JudgeReplyRow], said: Said
) -> list[Settled]:
    """Settle every pair by each judge that was asked, in the order of the replies."""
    shown = {key_of(match): match for match in matches}
    keys = {(*key_of(row), row.judge_model, row.presentation): row.request_key for row in replies}
    asked = dict.fromkeys((key_of(row), row.judge_model) for row in replies)
    return [_settle(shown[pair], judge, keys, said) for pair, judge in asked]


def _settle(
    match: MatchRow, judge: str, keys: Mapping[tuple[str, int, str, str, str, str], str], said: Said
) -> Settled:
    a, b = texts = match.response_a, match.response_b
    outcome = Outcome.SAME_TEXT
    verdicts = Verdict.PENDING, Verdict.PENDING
    if a != b:
        verdicts = said[judge, match.prompt_text, a, b], said[judge, match.prompt_text, b, a]
        is_judged = {*verdicts} <= {Verdict.A, Verdict.B, Verdict.TIE}
        outcome = Outcome.INCONSISTENT if is_judged else Outcome.UNJUDGED
        outcome = _AGREEING.get(verdicts, outcome)
    judgment = Judgment(
        match.prompt_id,
        match.dimension,
        match.entrant_a,
        match.entrant_b,
        outcome,
        sample=match.sample,
    )
    requests = keys[(*key_of(match), judge, "ab")], keys[(*key_of(match), judge, "ba")]
    return Settled(judgment, judge, verdicts, requests, texts)


def settle_together(
    by_judge: Iterable[Settled], weights: Mapping[str, float]
) -> Iterator[Judgment]:
    """Settle every pair by the weighted mean of what its judges said, if most of them spoke."""
    for _, panel in groupby(by_judge, key=lambda settled: _pair_of(settled.judgment)):
        judges = [settled for settled in panel if weights[settled.judge] > 0]
        spoken = [settled for settled in judges if settled.judgment.share is not None]
        share, outcome = _share_of(spoken, weights) if 2 * len(spoken) > len(judges) else _UNJUDGED
        yield replace(judges[0].judgment, share=share, outcome=outcome)


_UNJUDGED = None, Outcome.UNJUDGED


def _share_of(spoken: Sequence[Settled], weights: Mapping[str, float]) -> tuple[float, Outcome]:
    if spoken[0].judgment.outcome is Outcome.SAME_TEXT:
        return 0.5, Outcome.SAME_TEXT
    total = sum(weights[settled.judge] for settled in spoken)
    share = (
        sum(weights[settled.judge] * (settled.judgment.share or 0.0) for settled in spoken) / total
    )
    if abs(share - 0.5) > 1e-12:  # a rounding: the weights of a balance are equal
        return share, Outcome.A_WINS if share > 0.5 else Outcome.B_WINS
    ties = sum(
        weights[settled.judge] for settled in spoken if settled.judgment.outcome is Outcome.TIE
    )
    return 0.5, Outcome.TIE if 2 * ties > total else Outcome.INCONSISTENT


def _pair_of(judgment: Judgment) -> PairKey:
    return judgment.prompt_id, judgment.sample, judgment.entrant_a, judgment.entrant_b


def weigh(judgments: Iterable[Judgment], decisions: Iterable[Any]) -> Iterator[Judgment]:
    """Let a verdict of a stopped pair's tail stand for the prompts that were not judged."""
    last = {(row.entrant_a, row.entrant_b): row for row in decisions}
    for judgment in judgments:
        row = last[judgment.entrant_a, judgment.entrant_b]
        is_of_tail = judgment.prompt_id in row.tail
        yield replace(judgment, weight=row.weight) if is_of_tail else judgment
