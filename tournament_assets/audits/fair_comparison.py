"""Whether the leader depends on the denominator, on all prompts and by stratum.

A rating over whatever happens to be judged compares entrants on different questions as soon as
something is missing for one of them. On the common support, the prompts on which every entrant met
every other one and was judged, nothing is missing for anybody. Ratings are Bradley-Terry with ties
as half wins, so their order does not depend on the order of the judgments; gaps are claimed
by `ratings.standings`, as on the leaderboard.

A judge tends to favour text of its own model, and of its family of models, so both are reported:
the first by what the config shows (`project.playing_judges`), the other where the config names
families. A name tells neither: models are renamed, distilled and tuned.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

from tournament_assets.foundation.errors import Problems
from tournament_assets.foundation.estimates import Rating
from tournament_assets.ratings.matches import code_samples
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    GAP,
    WIN_SHARE,
    rating_rows,
    share_rows,
)
from tournament_assets.ratings.rating_tables import rows_of_ratings
from tournament_assets.tournament.asset_rows import RatingRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.prompts import AnswerKey, Prompt, answer_key
from tournament_assets.tournament.verdicts import Judgment, Outcome


def _rank_by_planned_share(
    judgments: Iterable[Judgment],
    *,
    entrants: Sequence[str],
    planned_prompts: int,
    not_needed: Counter[str],
) -> list[RatingRow]:
    """Rank everyone by points over planned pairs, so that missing pairs earn no points."""
    points = _points(judgments)
    planned = [planned_prompts * (len(entrants) - 1) - not_needed[each] for each in entrants]
    note = "a missing pair has no winner, so there is no rating"
    return [
        *share_rows(entrants, [points[each] for each in entrants], planned),
        *rows_of_ratings((Rating(note=note, entrant=name) for name in entrants), BRADLEY_TERRY),
    ]


def _standing_for_all(
    judgments: Sequence[Judgment],
    prompts: AbstractSet[AnswerKey],
    answered: Mapping[str, AbstractSet[AnswerKey]],
) -> list[Judgment]:
    """Reweigh two entrants' verdicts to represent all prompts that both answered.

    Where pairs stop early, the tail's weights add up to that number only on average, and the random
    deviation would look like missing pairs. A failed verdict keeps its share and counts as missing.
    """
    weights: defaultdict[tuple[str, str], float] = defaultdict(float)
    for judgment in judgments:
        weights[judgment.entrant_a, judgment.entrant_b] += judgment.weight
    factors = {
        (a, b): len(prompts & answered[a] & answered[b]) / weight
        for (a, b), weight in weights.items()
    }
    return [
        replace(judgment, weight=judgment.weight * factors[judgment.entrant_a, judgment.entrant_b])
        for judgment in judgments
    ]


def _not_needed(
    judgments: Sequence[Judgment],
    prompts: AbstractSet[AnswerKey],
    answered: Mapping[str, AbstractSet[AnswerKey]],
) -> Counter[str]:
    """Count, by entrant, the pairs on these prompts that were not put to the judge."""
    compared = {frozenset((judgment.entrant_a, judgment.entrant_b)) for judgment in judgments}
    counts: Counter[str] = Counter()
    for a, b in combinations(answered, 2):
        if frozenset((a, b)) not in compared:
            counts.update(dict.fromkeys((a, b), len(prompts & answered[a] & answered[b])))
    return counts


def _points(judgments: Iterable[Judgment]) -> defaultdict[str, float]:
    """Return the pairs that each entrant won, with half of those without a winner."""
    # Halves are exact, so the order of the judgments leaves no trace in the sums.
    points: defaultdict[str, float] = defaultdict(float)
    for judgment in judgments:
        if judgment.share is not None:
            points[judgment.entrant_a] += judgment.share * judgment.weight
            points[judgment.entrant_b] += (1 - judgment.share) * judgment.weight
    return points


def common_support(
    judgments: Iterable[Judgment],
    *,
    entrants: Sequence[str],
    answered: Mapping[str, AbstractSet[AnswerKey]],
) -> tuple[AnswerKey, ...]:
    """Return the prompts that everyone answered and on which every pair was judged, sorted.

    Args:
        judgments: Settled pairs of one dimension; those with other entrants are ignored.
        entrants: The entrants that must have answered and met each other.
        answered: The prompts that each entrant answered.
    """
    needed = {frozenset(pair) for pair in combinations(entrants, 2)}
    judged: defaultdict[AnswerKey, set[frozenset[str]]] = defaultdict(set)
    for judgment in judgments:
        if judgment.outcome is not Outcome.UNJUDGED:
            judged[answer_key(judgment)].add(frozenset((judgment.entrant_a, judgment.entrant_b)))
    return tuple(
        sorted(
            key
            for key, pairs in judged.items()
            if needed <= pairs and all(key in answered.get(name, ()) for name in entrants)
        )
    )


def without_entrants(
    judgments: Iterable[Judgment], *, entrants: Sequence[str], excluded: Sequence[str]
) -> tuple[list[Judgment], tuple[str, ...]]:
    """Return the tournament's judgments and entrants without some of them.

    Args:
        judgments: Settled pairs.
        entrants: Everyone, in the order of the tables.
        excluded: The entrants to leave out.
    """
    problems = Problems()
    problems.extend(
        f"{name!r} is not an entrant and cannot be excluded; expected some of {', '.join(entrants)}"
        for name in dict.fromkeys(excluded)
        if name not in entrants
    )
    remaining = tuple(name for name in entrants if name not in excluded)
    if len(remaining) < 2:
        problems.add(
            f"{', '.join(remaining) or 'no entrant'} would remain; expected at least two entrants; "
            "exclude fewer"
        )
    problems.raise_if_any()
    among = [pair for pair in judgments if {pair.entrant_a, pair.entrant_b} <= {*remaining}]
    return among, remaining


COMMON, ALL, PLANNED = "common", "all", "planned"
"""Prompts that everyone answered and was judged on; all judged pairs; all planned pairs."""
WHOLE = "all"
"""Names the whole bank in place of a stratum."""
COMPARED = (WIN_SHARE, BRADLEY_TERRY, GAP)
"""The methods that are compared."""


@dataclass(frozen=True, slots=True)
class Families:
    """Who belongs to the judge's family.

    Attributes:
        judge_model: The judge, or several with commas between.
        shared: What entrants have in common with a judge: the model, or a family.
    """

    judge_model: str
    shared: Mapping[str, str]


def fair_comparison_rows(
    judgments: Sequence[Judgment],
    *,
    dimension: str,
    entrants: Sequence[str],
    prompts: Sequence[Prompt],
    answered: Mapping[str, AbstractSet[AnswerKey]],
    settings: RatingSettings,
    ratings: Iterable[RatingRow] = (),
) -> list[RatingRow]:
    """Return the comparison of one dimension, with the rows that table "ratings" holds.

    Args:
        judgments: Settled pairs of the dimension, unjudged ones among them.
        prompts: Every prompt that was planned for the dimension.
        answered: The prompts that each entrant answered.
        ratings: Rows of table "ratings" by the same judgments; computed again if there are none.

    Returns:
        By stratum, the whole first, then by basis and method, then best first.
    """
    common = set(common_support(judgments, entrants=entrants, answered=answered))
    is_whole = all(each.weight == 1 for each in judgments)
    everything = frozenset(map(answer_key, judgments))
    rated = sorted(
        (row for row in ratings if row.method in COMPARED),
        key=lambda row: COMPARED.index(row.method),
    )

    # Where nothing is missing all pairs are the common ones, and tags often hold the same prompts.
    @cache
    def ranked_on(planned: frozenset[AnswerKey]) -> list[RatingRow]:
        if is_whole and planned == everything and rated:
            return rated
        on_planned = [judgment for judgment in judgments if answer_key(judgment) in planned]
        if not is_whole and planned <= common:
            # Nothing is missing here, so verdicts need no reweighing.
            on_planned = [replace(judgment, weight=1.0) for judgment in on_planned]
        samples = code_samples(on_planned, entrants=entrants)
        evidence = Evidence(
            matches=samples.averaged_over_samples(),
            samples=samples,
            settings=settings,
            # Resamples ignore early stopping, so there no difference has an interval.
            tells_apart=is_whole,
            decided=None if is_whole else (),
        )
        return rating_rows(evidence, COMPARED, dimension=dimension)

    rows: list[RatingRow] = []
    for stratum, members in _strata(prompts):
        inside = [each for each in judgments if answer_key(each) in members]
        with_pairs = frozenset(map(answer_key, inside))
        by_basis = {
            COMMON: ranked_on(with_pairs & common),
            ALL: rated if stratum == WHOLE and rated else ranked_on(with_pairs),
            PLANNED: _rank_by_planned_share(
                inside if is_whole else _standing_for_all(inside, members, answered),
                entrants=entrants,
                planned_prompts=len(members),
                not_needed=Counter()
                if is_whole
                else _not_needed(inside, members, {name: answered[name] for name in entrants}),
            ),
        }
        judged = {answer_key(each) for each in inside if each.outcome is not Outcome.UNJUDGED}
        counts = {COMMON: len(common & members), ALL: len(judged), PLANNED: len(members)}
        rows += [
            replace(
                row,
                dimension=dimension,
                basis=basis,
                stratum=stratum,
                n=row.n if row.method == WIN_SHARE else counts[basis],
            )
            for basis, of_basis in by_basis.items()
            for row in of_basis
        ]
    return rows


def is_in_ratings(row: RatingRow) -> bool:
    """Whether table "ratings" holds a row of the comparison, so that "fair_comparison" does not."""
    return (row.basis, row.stratum) == (ALL, WHOLE)


def _strata(prompts: Sequence[Prompt]) -> list[tuple[str, set[AnswerKey]]]:
    """Return the whole bank, then every smaller stratum, with their prompts."""
    whole = set(map(answer_key, prompts))
    labels: dict[str, list[tuple[str | None, Prompt]]] = {
        "source": [(prompt.source, prompt) for prompt in prompts],
        "category": [(prompt.category, prompt) for prompt in prompts],
        "tag": [(tag, prompt) for prompt in prompts for tag in prompt.tags],
    }
    strata = [(WHOLE, whole)]
    for stratum_by, labelled in labels.items():
        for label in sorted({label for label, _ in labelled if label is not None}):
            members = {answer_key(prompt) for each, prompt in labelled if each == label}
            if members != whole:
                strata.append((f"{stratum_by}: {label}", members))
    return strata
