"""Like for like: the prompts on which every entrant met every other one and was judged.

A rating over whatever happens to be judged compares entrants on different questions as soon as
something is missing for one of them. On the common support nothing is missing for anybody.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations

from tournament_assets.tournament.errors import Problems
from tournament_assets.tournament.verdicts import Judgment, Outcome


def common_support(
    judgments: Iterable[Judgment],
    *,
    entrants: Sequence[str],
    answered: Mapping[str, AbstractSet[str]],
) -> tuple[str, ...]:
    """Return the prompts that everyone answered and on which every pair was judged, sorted.

    Args:
        judgments: Settled pairs of one dimension; those with somebody else are passed over.
        entrants: Who has to have answered and met everyone else.
        answered: The prompts that each entrant answered.
    """
    wanted = {frozenset(pair) for pair in combinations(entrants, 2)}
    judged: defaultdict[str, set[frozenset[str]]] = defaultdict(set)
    for judgment in judgments:
        if judgment.outcome is not Outcome.UNJUDGED:
            judged[judgment.prompt_id].add(frozenset((judgment.entrant_a, judgment.entrant_b)))
    return tuple(
        sorted(
            prompt_id
            for prompt_id, pairs in judged.items()
            if wanted <= pairs and all(prompt_id in answered.get(each, ()) for each in entrants)
        )
    )


def without_entrants(
    judgments: Iterable[Judgment], *, entrants: Sequence[str], excluded: Sequence[str]
) -> tuple[list[Judgment], tuple[str, ...]]:
    """Return the judgments and the entrants of the tournament as if some had not taken part.

    Args:
        judgments: Settled pairs.
        entrants: Everyone, in the order of the tables.
        excluded: Who is to be left out.

    Raises:
        InputError: If somebody is to be left out who does not take part, or fewer than two are
            left.
    """
    problems = Problems()
    problems.extend(
        f"there is no entrant {name!r} to exclude; expected some of {', '.join(entrants)}"
        for name in dict.fromkeys(excluded)
        if name not in entrants
    )
    left = tuple(name for name in entrants if name not in excluded)
    if len(left) < 2:
        problems.add(
            f"only {', '.join(left) or 'nobody'} would be left; expected at least two entrants to "
            "compare; exclude fewer"
        )
    problems.raise_if_any()
    kept = [each for each in judgments if each.entrant_a in left and each.entrant_b in left]
    return kept, left
