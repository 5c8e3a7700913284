"""Whether the leader depends on the denominator, on all prompts and by stratum.

A rating over whatever happens to be judged compares entrants on different questions as soon as
something is missing for one of them. On the common support, the prompts on which every entrant met
every other one and was judged, nothing is missing for anybody. Ratings are Bradley-Terry with ties
as half wins, so their order does not depend on the order of the judgments; gaps are claimed
by `ratings.standings`, as on the leaderboard.

A judge tends to favour text of its own family of models, so shared families are reported:
Panickssery, Bowman and Feng, "LLM evaluators recognize and favor their own generations",
https://arxiv.org/abs/2404.13076.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import PurePosixPath

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
from tournament_assets.tournament import judge_services
from tournament_assets.tournament.asset_rows import PromptRow, RatingRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.entrants import AnyEntrant, ApiEntrant, LocalEntrant
from tournament_assets.tournament.errors import Problems
from tournament_assets.tournament.estimates import Rating
from tournament_assets.tournament.places import Location
from tournament_assets.tournament.prompts import AnswerKey, answer_key
from tournament_assets.tournament.verdicts import Judgment, Outcome

LOOPBACK = judge_services.LOOPBACK.model_prefix
"""The family of the loopback server, which is not a language model."""

_FAMILIES = {
    "claude": ("claude",),
    "gpt": ("gpt", "chatgpt", "o1", "o3", "o4"),
    "gemini": ("gemini", "gemma"),
    "llama": ("llama", "vicuna", "alpaca"),
    "mistral": ("mistral", "mixtral", "ministral", "magistral", "codestral"),
    "qwen": ("qwen", "qwq"),
    "deepseek": ("deepseek",),
    "olmo": ("olmo", "tulu"),
    "phi": ("phi",),
    "command": ("command", "cohere", "aya"),
    "yi": ("yi",),
    "glm": ("glm", "chatglm"),
    "kimi": ("kimi", "moonshot"),
    "grok": ("grok",),
    "falcon": ("falcon",),
    "granite": ("granite",),
    "nova": ("nova",),
    "smollm": ("smollm",),
    LOOPBACK: (LOOPBACK,),
}
"""Prefixes of parts of model names, by family; a distilled model's name matches two families."""

_PARTS = re.compile(r"[a-z]+\d*")


def model_family(name: str) -> str | None:
    """Return the family that a model's name indicates; None if it indicates none or several.

    Args:
        name: A model's name at a provider or of a folder, such as `OLMo-2-1124-7B-Instruct`.
    """
    parts = _PARTS.findall(name.lower())
    found = {
        family
        for family, words in _FAMILIES.items()
        if any(_begins(part, word) for part in parts for word in words)
    }
    return found.pop() if len(found) == 1 else None


def _begins(part: str, word: str) -> bool:
    # Short words occur in too many others.
    return (
        part == word
        or (len(word) > 3 and part.startswith(word))
        or part.rstrip("0123456789") == word
    )


def entrant_family(entrant: AnyEntrant, *, named: Mapping[str, str]) -> str | None:
    """Return the family of an entrant's model, or None if it is not known.

    Args:
        entrant: The entrant's entry in the config.
        named: Families that the config names, by entrant; they take precedence.
    """
    if entrant.entrant_id in named:
        return named[entrant.entrant_id]
    for name in _names_of(entrant):
        family = model_family(name)
        if family is not None:
            return family
    return None


_AND = " and "


def judge_family(judge_model: str, *, named: Mapping[str, str]) -> str | None:
    """Return the family of a judge, or those of all judges; None if any is unknown.

    Args:
        judge_model: The model that judged, or several with commas between.
        named: Families that the config names, by model; they take precedence.
    """
    # Several judges are named together.
    found = (named.get(each) or model_family(each) for each in judge_model.split(", "))
    families = list(dict.fromkeys(found))
    known = [each for each in families if each is not None]
    return _AND.join(known) if len(known) == len(families) else None


def _names_of(entrant: AnyEntrant) -> list[str]:
    if isinstance(entrant, LocalEntrant):
        return _names_of_place(entrant.weights)
    # A file of responses, say, identifies its model only by name.
    return [entrant.model if isinstance(entrant, ApiEntrant) else entrant.entrant_id]


def _names_of_place(weights: Location) -> list[str]:
    given = (weights.path, weights.builtin, weights.env, weights.source)
    return [PurePosixPath(name).name for name in given if name]


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
    for each in judgments:
        weights[each.entrant_a, each.entrant_b] += each.weight
    factors = {
        (a, b): len(prompts & answered[a] & answered[b]) / weight
        for (a, b), weight in weights.items()
    }
    return [
        replace(each, weight=each.weight * factors[each.entrant_a, each.entrant_b])
        for each in judgments
    ]


def _not_needed(
    judgments: Sequence[Judgment],
    prompts: AbstractSet[AnswerKey],
    answered: Mapping[str, AbstractSet[AnswerKey]],
) -> Counter[str]:
    """Count, by entrant, the pairs on these prompts that were not put to the judge."""
    asked = {frozenset((each.entrant_a, each.entrant_b)) for each in judgments}
    found: Counter[str] = Counter()
    for a, b in combinations(answered, 2):
        if frozenset((a, b)) not in asked:
            found.update(dict.fromkeys((a, b), len(prompts & answered[a] & answered[b])))
    return found


def _points(judgments: Iterable[Judgment]) -> defaultdict[str, float]:
    """Return the pairs that each entrant won, with half of those without a winner."""
    # Halves are exact, so the order of the judgments leaves no trace in the sums.
    points: defaultdict[str, float] = defaultdict(float)
    for each in judgments:
        if each.share is not None:
            points[each.entrant_a] += each.share * each.weight
            points[each.entrant_b] += (1 - each.share) * each.weight
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
    wanted = {frozenset(pair) for pair in combinations(entrants, 2)}
    judged: defaultdict[AnswerKey, set[frozenset[str]]] = defaultdict(set)
    for judgment in judgments:
        if judgment.outcome is not Outcome.UNJUDGED:
            judged[answer_key(judgment)].add(frozenset((judgment.entrant_a, judgment.entrant_b)))
    return tuple(
        sorted(
            key
            for key, pairs in judged.items()
            if wanted <= pairs and all(key in answered.get(each, ()) for each in entrants)
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

    Raises:
        InputError: If an excluded entrant does not take part, or fewer than two are left.
    """
    problems = Problems()
    problems.extend(
        f"{name!r} is to be excluded and is not an entrant; expected some of {', '.join(entrants)}"
        for name in dict.fromkeys(excluded)
        if name not in entrants
    )
    left = tuple(name for name in entrants if name not in excluded)
    if len(left) < 2:
        problems.add(
            f"{', '.join(left) or 'no entrant'} would be left; expected at least two entrants to "
            "compare; exclude fewer"
        )
    problems.raise_if_any()
    kept = [each for each in judgments if each.entrant_a in left and each.entrant_b in left]
    return kept, left


COMMON, ALL, PLANNED = "common", "all", "planned"
"""Prompts that everyone answered and was judged on; all judged pairs; all planned pairs."""
WHOLE = "all"
"""Names the whole bank in place of a stratum."""
COMPARED = (WIN_SHARE, BRADLEY_TERRY, GAP)
"""The methods that are compared."""


@dataclass(frozen=True, slots=True)
class Families:
    """The families of the judge and the entrants; None where not known.

    Attributes:
        judge: Its family.
        entrants: Every entrant's family.
    """

    judge_model: str
    judge: str | None
    entrants: Mapping[str, str | None]

    def is_shared_with(self, entrant: str) -> bool | None:
        """Whether an entrant is of the judge's family; None where that is not known."""
        own = self.entrants.get(entrant)
        if self.judge == LOOPBACK:
            # The loopback is not a language model, so no other entrant is of its family.
            return own == LOOPBACK
        return None if own is None or self.judge is None else own in self.judge.split(_AND)


def fair_comparison_rows(
    judgments: Sequence[Judgment],
    *,
    dimension: str,
    entrants: Sequence[str],
    prompts: Sequence[PromptRow],
    answered: Mapping[str, AbstractSet[AnswerKey]],
    settings: RatingSettings,
    ratings: Iterable[RatingRow] = (),
) -> list[RatingRow]:
    """Return the comparison of one dimension, with the rows that table "ratings" holds.

    Args:
        judgments: Settled pairs of the dimension, unjudged ones among them.
        prompts: Every prompt that was planned for the dimension.
        answered: The prompts that each entrant answered.
        ratings: Rows of table "ratings" by the same judgments; made anew if there are none.

    Returns:
        By stratum, the whole first, then by basis and method, then best first.

    Raises:
        RatingError: If a likelihood could not be maximised.
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
        own = [each for each in judgments if answer_key(each) in planned]
        if not is_whole and planned <= common:
            # Nothing is missing here, so verdicts need no reweighing.
            own = [replace(each, weight=1.0) for each in own]
        samples = code_samples(own, entrants=entrants)
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
            for basis, own in by_basis.items()
            for row in own
        ]
    return rows


def is_in_ratings(row: RatingRow) -> bool:
    """Whether table "ratings" holds a row of the comparison, so that "fair_comparison" does not."""
    return (row.basis, row.stratum) == (ALL, WHOLE)


def _strata(prompts: Sequence[PromptRow]) -> list[tuple[str, set[AnswerKey]]]:
    """Return the whole bank, then every smaller stratum, with their prompts."""
    whole = set(map(answer_key, prompts))
    labels: dict[str, list[tuple[str | None, PromptRow]]] = {
        "source": [(prompt.source, prompt) for prompt in prompts],
        "category": [(prompt.category, prompt) for prompt in prompts],
        "tag": [(tag, prompt) for prompt in prompts for tag in prompt.tags],
    }
    found = [(WHOLE, whole)]
    for stratum_by, labelled in labels.items():
        for label in sorted({label for label, _ in labelled if label is not None}):
            members = {answer_key(prompt) for each, prompt in labelled if each == label}
            if members != whole:
                found.append((f"{stratum_by}: {label}", members))
    return found
