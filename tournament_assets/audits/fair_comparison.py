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
from itertools import combinations, pairwise
from pathlib import PurePosixPath

from tournament_assets.ratings.matches import code_judgments
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    rows_of_ratings,
    rows_of_standings,
    stand,
)
from tournament_assets.ratings.standings import Claim, PairClaim
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


WIN_SHARE, GAP = "win_share", "gap"
"""Points over pairs; Elo points above the next below."""


def rank_by_rating(
    judgments: Sequence[Judgment],
    *,
    entrants: Sequence[str],
    settings: RatingSettings,
    tells_apart: bool = True,
) -> list[RatingRow]:
    """Rate and rank everyone on some judgments, ignoring unjudged pairs.

    Args:
        judgments: Settled pairs of one dimension.
        settings: How the resamples are drawn and how wide the intervals are.
        tells_apart: Whether entrants are separated by resamples; resamples ignore early stopping,
            so there no difference has an interval.

    Returns:
        Win shares (inconsistent pairs are ties), ratings, and the gap of every entrant rated above
        another, with an interval simultaneous with those of all other pairs.

    Raises:
        InputError: If a judgment names an unknown entrant.
        RatingError: If a likelihood could not be maximised.
    """
    points, pairs = _count(judgments)
    matches = code_judgments(judgments, entrants=entrants)
    found = stand(matches, settings, decided=None if tells_apart else ())
    rated = (
        rows_of_standings(found.entrants)
        if tells_apart
        else rows_of_ratings(found.entrants, BRADLEY_TERRY)
    )
    return [*_share_rows(points, pairs, entrants), *rated, *_gap_rows(found.claims, rated)]


def _share_rows(
    points: Mapping[str, float], pairs: Mapping[str, int], entrants: Sequence[str]
) -> list[RatingRow]:
    return rows_of_ratings(
        (
            Rating(points[name] / pairs[name] if pairs[name] else None, n=pairs[name], entrant=name)
            for name in entrants
        ),
        WIN_SHARE,
    )


def _rank_by_planned_share(
    judgments: Iterable[Judgment],
    *,
    entrants: Sequence[str],
    planned_prompts: int,
    not_needed: Counter[str],
) -> list[RatingRow]:
    """Rank everyone by points over planned pairs, so that missing pairs earn no points."""
    points, _ = _count(judgments)
    planned = {each: planned_prompts * (len(entrants) - 1) - not_needed[each] for each in entrants}
    note = "a missing pair has no winner, so there is no rating"
    return [
        *_share_rows(points, planned, entrants),
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


def _count(
    judgments: Iterable[Judgment],
) -> tuple[defaultdict[str, float], defaultdict[str, int]]:
    # Halves are exact, so the order of the judgments leaves no trace in the sums.
    points: defaultdict[str, float] = defaultdict(float)
    pairs: defaultdict[str, float] = defaultdict(float)
    for judgment in judgments:
        if judgment.share is None:
            continue
        for entrant, gained in (
            (judgment.entrant_a, judgment.share),
            (judgment.entrant_b, 1 - judgment.share),
        ):
            points[entrant] += gained * judgment.weight
            pairs[entrant] += judgment.weight
    return points, defaultdict(int, {name: round(each) for name, each in pairs.items()})


def neighbours(rows: Iterable[RatingRow]) -> list[tuple[str, str]]:
    """Return each rated entrant with the one rated next below it, best first."""
    rated = sorted(
        (-row.rating, row.entrant_id)
        for row in rows
        if row.method == BRADLEY_TERRY and row.rating is not None
    )
    return [(name, below) for (_, name), (_, below) in pairwise(rated)]


def _gap_rows(claims: Iterable[PairClaim], rated: Sequence[RatingRow]) -> list[RatingRow]:
    claim_of = {
        (each.first, each.second): each for claim in claims for each in (claim, claim.turned)
    }
    rows = []
    for name, below in neighbours(rated):
        claim = claim_of[name, below]
        found = claim.difference
        gap = Rating(found.value, found.low, found.high, entrant=name)
        (row,) = rows_of_ratings([gap], GAP)
        shown_above = (below,) if claim.claim is Claim.FIRST_BETTER else ()
        rows.append(replace(row, rank=None, shown_above=shown_above))
    return rows


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
) -> list[RatingRow]:
    """Return the rows of table "fair_comparison" for one dimension.

    Args:
        judgments: Settled pairs of the dimension, unjudged ones among them.
        prompts: Every prompt that was planned for the dimension.
        answered: The prompts that each entrant answered.

    Returns:
        By stratum, the whole first, then by basis and method, then best first.

    Raises:
        RatingError: If a likelihood could not be maximised.
    """
    common = set(common_support(judgments, entrants=entrants, answered=answered))
    is_whole = all(each.weight == 1 for each in judgments)

    # Where nothing is missing all pairs are the common ones, and tags often hold the same prompts.
    @cache
    def ranked_on(planned: frozenset[AnswerKey]) -> list[RatingRow]:
        own = [each for each in judgments if answer_key(each) in planned]
        if not is_whole and planned <= common:
            # Nothing is missing here, so verdicts need no reweighing.
            own = [replace(each, weight=1.0) for each in own]
        return rank_by_rating(own, entrants=entrants, settings=settings, tells_apart=is_whole)

    rows: list[RatingRow] = []
    for stratum, members in _strata(prompts):
        inside = [each for each in judgments if answer_key(each) in members]
        with_pairs = frozenset(map(answer_key, inside))
        by_basis = {
            COMMON: ranked_on(with_pairs & common),
            ALL: ranked_on(with_pairs),
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
