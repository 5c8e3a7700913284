"""The requests about many pairs as they are counted where none was asked before.

Keys say nothing then, and the requests about one question differ in the lengths of two responses
alone: no pair, no request and no key is made for any of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.fingerprints import canonical_json
from tournament_assets.judging.requests.columns import CountedRequests
from tournament_assets.judging.requests.pairs import EveryPair, PairToJudge, draw_share
from tournament_assets.judging.requests.requests import (
    JudgeRequests,
    RequestSettings,
    printable,
    question_of,
)
from tournament_assets.tournament.completions import break_marks
from tournament_assets.tournament.judges import Rubric
from tournament_assets.tournament.prompts import answer_key


def count_new_requests(
    pairs: EveryPair,
    rubric: Rubric,
    settings: RequestSettings,
    *,
    share: float,
    ties_identical: bool,
) -> Iterator[CountedRequests]:
    """Yield the distinct requests about a dimension's pairs, one question at a time.

    Args:
        pairs: The pairs of the dimension.
        rubric: The dimension's rubric.
        settings: The settings of the judge's requests.
        share: The share of the pairs that the judge judges.
        ties_identical: Whether nobody is asked about two responses that are the same text.
    """
    n_meetings = len(pairs.meetings)
    by_question: dict[tuple[str, ...], list[int]] = {}
    for start in range(0, len(pairs), n_meetings or 1):
        question = question_of(pairs[start], settings)
        words = (_broken(word, settings) for part in question for word in part)
        by_question.setdefault(tuple(words), []).append(start)
    entrants = np.stack(np.triu_indices(len(pairs.entrants), 1))  # (2, n_meetings)
    for starts in by_question.values():
        texts: dict[str, int] = {}
        shown = []
        for start in starts:
            key = answer_key(pairs.prompts[start // n_meetings])
            answers = (pairs.responses[entrant, key] for entrant in pairs.entrants)
            numbers = np.array([texts.setdefault(text, len(texts)) for text in answers])
            chosen: Sequence[PairToJudge] = pairs[start : start + n_meetings] if share < 1 else ()
            is_drawn = [
                bool(draw_share([pair], judge_model=settings.judge_model, share=share))
                for pair in chosen
            ]
            shown.append(numbers[entrants[:, is_drawn] if share < 1 else entrants])
        both = np.concatenate(shown, axis=1)
        asked = both[:, both[0] != both[1]] if ties_identical else both
        sample = JudgeRequests([pairs[starts[0]]], rubric, settings)
        requests = _count_distinct(asked, [*texts], sample, settings)
        identical = both.shape[1] - asked.shape[1]
        yield replace(requests, presentations=2 * both.shape[1], identical=2 * identical)


def _count_distinct(
    shown: NDArray[np.int64], texts: Sequence[str], sample: JudgeRequests, settings: RequestSettings
) -> CountedRequests:
    """Return the distinct requests about one question.

    Args:
        shown: The numbers of the two responses of each pair, (2, n_pairs).
        texts: The responses.
        sample: The requests about the first two of them.
        settings: The settings of the judge's requests.
    """
    broken = [_broken(text, settings) for text in texts]
    alike = {text: number for number, text in enumerate(dict.fromkeys(broken))}
    numbers = np.array([alike[text] for text in broken])
    # Characters and bytes of each, as it is sent inside of JSON.
    lengths = np.array(
        [(len(text), len(canonical_json(text).encode()) - 2) for text in map(printable, broken)]
    )
    low, high = np.sort(numbers[shown], axis=0)
    _, first = np.unique(low * len(alike) + high, return_index=True)
    # Two that look the same are one request in both orders.
    n_orders = np.where(low == high, 1, 2)[first]
    characters, n_bytes = lengths[shown[:, first]].sum(axis=0).repeat(n_orders, axis=0).T
    columns = sample.columns.take(np.zeros(len(characters), dtype=np.int64))
    pair = sample.pair_of(0)
    sampled = lengths[[texts.index(pair.response_a), texts.index(pair.response_b)]].sum(axis=0)
    none = np.zeros(len(characters), dtype=bool)
    return CountedRequests(
        replace(
            columns,
            characters=columns.characters + (characters - sampled[0]).astype(np.int32),
            sizes=columns.sizes + (n_bytes - sampled[1]).astype(np.int32),
            message_sizes=columns.message_sizes + (n_bytes - sampled[1]).astype(np.int32),
        ),
        answered=none,
        under_way=none,
        presentations=0,
        identical=0,
    )


def _broken(text: str, settings: RequestSettings) -> str:
    return break_marks(text, of_templates=settings.breaks_templates)
