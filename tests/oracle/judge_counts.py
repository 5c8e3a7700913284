"""Counts what the replies to distinct requests say of who judged."""

import re
from collections.abc import Iterable, Sequence

from tests.oracle.settlement import Settled
from tournament_assets.tournament.verdicts import Outcome, Verdict

_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")
_READ = {Verdict.A, Verdict.B, Verdict.TIE}
_SAME = ({Verdict.A, Verdict.B}, {Verdict.TIE})
Units = list[tuple[str, bool]]


def distinct(pairs: Iterable[Settled], name: str = "") -> list[Settled]:
    """Return the pairs that were asked about, an entrant's or all; the same two requests once."""
    asked = [
        pair
        for pair in pairs
        if pair.judgment.outcome is not Outcome.SAME_TEXT
        and name in ("", pair.judgment.entrant_a, pair.judgment.entrant_b)
    ]
    return [*{frozenset(pair.requests): pair for pair in reversed(asked)}.values()]


def judge_units(
    by_judge: Sequence[Settled], together: Sequence[Settled], entrants: Sequence[str]
) -> dict[tuple[str, str | None], Units]:
    """Return the prompts of what was looked at, and whether it has the property, by measure.

    Args:
        by_judge: Every pair by each judge.
        together: Every pair as it was settled.
        entrants: About whom unjudged pairs are counted.
    """
    read = [
        (pair.judgment.prompt_id, *pair.verdicts)
        for pair in distinct(by_judge)
        if len({*pair.requests}) == 2 and {*pair.verdicts} <= _READ
    ]
    longer = ((pair.judgment, _longer(pair)) for pair in distinct(by_judge))
    return {
        ("position_bias", None): [
            (prompt, say is Verdict.A)
            for prompt, *both in read
            for say in both
            if say is not Verdict.TIE
        ],
        ("flip_direction", None): [
            (prompt, ab is Verdict.A) for prompt, ab, ba in read if ab is ba is not Verdict.TIE
        ],
        ("swap_consistency", None): [(prompt, {ab, ba} in _SAME) for prompt, ab, ba in read],
        ("longer_wins", None): [
            (judgment.prompt_id, judgment.outcome is side)
            for judgment, side in longer
            if side and judgment.outcome in (Outcome.A_WINS, Outcome.B_WINS)
        ],
        **{
            ("unjudged", name): [
                (pair.judgment.prompt_id, pair.judgment.outcome is Outcome.UNJUDGED)
                for pair in distinct(together, name)
            ]
            for name in entrants
        },
    }


def _longer(pair: Settled) -> Outcome | None:
    a, b = (len(_WORD.findall(text)) for text in pair.texts)
    return Outcome.A_WINS if a > b else Outcome.B_WINS if a < b else None
