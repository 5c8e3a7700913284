"""The requests about many pairs as they are counted where none was asked before.

Keys say nothing then, and the requests about one question differ in the lengths of two responses
alone: no pair, no request and no key is made for any of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.fingerprints import canonical_json
from tournament_assets.judging.requests.columns import CountedRequests, RequestColumns
from tournament_assets.judging.requests.pairs import EveryPair, draw_share
from tournament_assets.judging.requests.requests import (
    JudgeRequests,
    RequestSettings,
    printable,
    question_of,
)
from tournament_assets.tournament.completions import break_marks
from tournament_assets.tournament.judges import Judge, Rubric
from tournament_assets.tournament.prompts import answer_key


def count_new_requests(
    pairs: EveryPair,
    rubric: Rubric,
    settings: RequestSettings,
    *,
    judge: Judge,
    ties_identical: bool,
) -> Iterator[CountedRequests]:
    """Yield the distinct requests about a dimension's pairs, one question at a time.

    Args:
        judge: Who judges all of the pairs, a share of them, or those that fall to it in turn.
        ties_identical: Whether nobody is asked about two responses that are the same text.
    """
    n_meetings = len(pairs.meetings)
    by_question: dict[tuple[str, ...], list[int]] = {}
    for start in range(0, len(pairs), n_meetings or 1):
        parts = question_of(pairs[start], settings)
        words = (_broken(word, settings) for part in parts for word in part)
        by_question.setdefault(tuple(words), []).append(start)
    entrants = np.stack(np.triu_indices(len(pairs.entrants), 1))  # (2, n_meetings)
    for starts in by_question.values():
        texts: dict[str, int] = {}
        shown = []
        for start in starts:
            key = answer_key(pairs.prompts[start // n_meetings])
            answers = (pairs.responses[entrant, key] for entrant in pairs.entrants)
            numbers = np.array([texts.setdefault(text, len(texts)) for text in answers])
            is_drawn = [
                bool(draw_share([pair], judge))
                for pair in (pairs[start : start + n_meetings] if not judge.takes_all else ())
            ]
            shown.append(numbers[entrants if judge.takes_all else entrants[:, is_drawn]])
        pair = replace(pairs[starts[0]], response_a="", response_b="")
        empty = JudgeRequests([pair], rubric, settings).columns.take([0])
        broken = [_broken(text, settings) for text in texts]
        yield _count(np.concatenate(shown, axis=1), broken, empty, ties_identical=ties_identical)


def _count(
    shown: NDArray[np.int64], texts: Sequence[str], empty: RequestColumns, *, ties_identical: bool
) -> CountedRequests:
    """Return the distinct requests about one question.

    Args:
        shown: The numbers of the two responses of each pair, (2, n_pairs).
        texts: The responses as a judge sees them.
        empty: A request about two empty responses.
        ties_identical: See `count_new_requests`.
    """
    asked = shown[:, shown[0] != shown[1]] if ties_identical else shown
    alike = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    low, high = np.sort(np.array([alike[text] for text in texts])[asked], axis=0)
    _, first = np.unique(low * len(alike) + high, return_index=True)
    # Characters and bytes of each, as it is sent inside of JSON.
    lengths = np.array(
        [(len(text), len(canonical_json(text).encode()) - 2) for text in map(printable, texts)]
    )
    # Two that look the same are one request in both orders.
    n_orders = np.where(low == high, 1, 2)[first]
    sums = lengths[asked[:, first]].sum(axis=0).astype(np.int32).repeat(n_orders, axis=0)
    columns = empty.take(np.zeros(len(sums), dtype=np.int64))
    none = np.zeros(len(sums), dtype=bool)
    return CountedRequests(
        replace(
            columns,
            characters=columns.characters + sums[:, 0],
            sizes=columns.sizes + sums[:, 1],
            message_sizes=columns.message_sizes + sums[:, 1],
        ),
        answered=none,
        under_way=none,
        presentations=2 * shown.shape[1],
        identical=2 * (shown.shape[1] - asked.shape[1]),
    )


def _broken(text: str, settings: RequestSettings) -> str:
    return break_marks(text, of_templates=settings.breaks_templates)
