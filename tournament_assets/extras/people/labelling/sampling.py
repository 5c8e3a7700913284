"""The sample of pairs that people label: its order, and the chance of each pair.

Pairs are drawn in the order of their hashes, so an extended sample begins with the pairs it had,
and stopping early still leaves a random sample.
"""

from collections import Counter
from collections.abc import (
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from datetime import UTC, datetime
from itertools import zip_longest

import numpy as np

from tournament_assets.extras.people.label_records import (
    DrawMethod,
    LabelSample,
    SampledPair,
    pair_identity,
    sample_id_of,
)
from tournament_assets.extras.people.prediction_powered import draw_by_worth
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.judging.requests.pairs import PairToJudge, split_identical
from tournament_assets.ledger import Ledger
from tournament_assets.preparing.existing_work import existing_responses, pairs_of_dimension
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.storage.tables import PairKey, pair_key
from tournament_assets.tournament.config import Mode


def pairs_to_label(
    plan: TournamentPlan, mode: Mode, dimension: str | None, *, ledger: Ledger
) -> list[PairToJudge]:
    """Return the pairs of a mode whose responses exist, as they are judged on a dimension."""
    names = plan.config.dimension_names
    if dimension is not None and dimension not in names:
        raise InputError(f"the dimension is {dimension!r}; expected one of {', '.join(names)}")
    prompts, responses = existing_responses(plan, mode, ledger=ledger)
    by_key: dict[PairKey, PairToJudge] = {}
    for name in names if dimension is None else (dimension,):
        for pair in pairs_of_dimension(plan, name, prompts, responses):
            by_key.setdefault(pair_key(pair), pair)
    if not by_key:
        raise InputError(
            f"no prompt of mode {mode!r} has a response of every entrant yet; expected some; run "
            f"tournament run --config {plan.config_path} --mode {mode} --skip-judging first"
        )
    return list(by_key.values())


def draw_label_sample(
    pairs: Iterable[PairToJudge],
    *,
    tournament_id: str,
    mode: Mode,
    dimension: str | None,
    size: int,
    seed: int = 0,
    overlap: float = 0.2,
    strata: Mapping[PairKey, str] | None = None,
    before: LabelSample | None = None,
) -> LabelSample:
    """Draw the pairs that people are asked about, or extend an earlier draw.

    The pairs of a stratum are sorted by a hash of their names and the seed, and the first ones are
    drawn, equally many from each stratum while they last. So a pair's chance is exactly the drawn
    share of its stratum, the first n pairs of a sample are the sample of size n, and pairs whose
    responses have changed keep their place. Pairs of identical responses are left out.

    Args:
        dimension: The quality people are asked about; None for which is better in general.
        size: How many pairs; all of them if there are fewer.
        seed: Seeds the order and the sides.
        overlap: Share of the pairs that every rater is asked about, from 0 to 1.
        strata: The stratum of each pair, by prompt and entrants; None draws from all alike.
        before: The latest draw of the same scope. All of its pairs that still exist are kept,
            whatever the size.
    """
    different, same = split_identical(pairs)
    by_stratum: dict[str, list[tuple[str, PairToJudge]]] = {}
    for pair in different:
        stratum = "" if strata is None else strata.get(pair_key(pair), "not judged")
        by_stratum.setdefault(stratum, []).append((_place(seed, pair), pair))
    for members in by_stratum.values():
        members.sort(key=lambda member: member[0])
    method: DrawMethod = "random" if strata is None else "judge"
    order = list(_in_turn(by_stratum, seed=seed))
    if before is not None:
        size = max(size, _least_size(order, before, seed=seed, method=method))
    drawn = order[:size]
    n_drawn = Counter(stratum for stratum, _ in drawn)
    n_there = {stratum: len(members) for stratum, members in by_stratum.items()}
    return LabelSample(
        sample_id=sample_id_of(tournament_id, mode, dimension),
        draw=1 if before is None else before.draw + 1,
        tournament_id=tournament_id,
        mode=mode,
        dimension=dimension,
        method=method,
        seed=seed,
        frame_size=len(different),
        same_text=len(same),
        overlap=overlap,
        pairs=tuple(
            SampledPair(
                **pair_identity(pair, tournament_id, mode, dimension),
                position=position,
                chance=n_drawn[stratum] / n_there[stratum],
                stratum=stratum,
                shared=int((position + 1) * overlap) > int(position * overlap),
            )
            for position, (stratum, pair) in enumerate(drawn)
        ),
        drawn_at=datetime.now(UTC),
    )


def extend_by_worth(
    pairs: Iterable[PairToJudge],
    before: LabelSample,
    worth: Mapping[PairKey, float],
    *,
    n_new: int,
) -> LabelSample:
    """Extend a sample by the pairs whose labels would narrow the intervals most.

    Each pair is drawn with a known chance that grows with the worth of its label, by a number that
    its hash fixes; the chance of a pair that was drawn before never falls. The chances hold for all
    new pairs together, so label all of them.

    Args:
        before: The latest draw.
        worth: What a label of each pair is worth; missing pairs get the smallest worth.
        n_new: How many more; all that are left if there are fewer.
    """
    different, same = split_identical(pairs)
    drawn_before = {pair_key(each): each for each in before.pairs}
    names = [pair_key(pair) for pair in different]
    least = min(worth.values(), default=1.0)
    shares = np.array([worth.get(each, least) for each in names])
    drawn = draw_by_worth(
        shares / shares.sum(),
        np.array([int(_place(before.seed, pair)[:13], 16) / 16**13 for pair in different]),
        np.array([drawn_before[key].chance if key in drawn_before else 0.0 for key in names]),
        n_new,
    )
    earlier = [index for index, each in enumerate(names) if each in drawn_before]
    earlier.sort(key=lambda index: drawn_before[names[index]].position)
    scope = (before.tournament_id, before.mode, before.dimension)
    return replace(
        before,
        draw=before.draw + 1,
        method="active",
        frame_size=len(different),
        same_text=len(same),
        pairs=tuple(
            SampledPair(
                **pair_identity(different[index], *scope),
                position=position,
                chance=float(drawn.chances[index]),
                stratum=drawn_before[names[index]].stratum if names[index] in drawn_before else "",
                shared=int((position + 1) * before.overlap) > int(position * before.overlap),
            )
            for position, index in enumerate([*earlier, *drawn.chosen.tolist()])
        ),
        drawn_at=datetime.now(UTC),
    )


def _place(seed: int, pair: PairToJudge, *, of: str = "draw") -> str:
    return fingerprint([of, seed, pair.name, *sorted((pair.entrant_a, pair.entrant_b))])


def _in_turn(
    by_stratum: Mapping[str, Sequence[tuple[str, PairToJudge]]], *, seed: int
) -> Iterator[tuple[str, PairToJudge]]:
    """Yield all pairs, taking one from each stratum in turn while they last.

    Within a turn the order is random, so that the shared ones are of all strata.
    """
    named = [[(name, pair) for _, pair in by_stratum[name]] for name in sorted(by_stratum)]
    for turn in zip_longest(*named):
        members = (each for each in turn if each is not None)
        yield from sorted(members, key=lambda member: _place(seed, member[1], of="turn"))


def _least_size(
    order: Sequence[tuple[str, PairToJudge]],
    before: LabelSample,
    *,
    seed: int,
    method: DrawMethod,
) -> int:
    """Return how many pairs must be drawn to keep all of an earlier draw."""
    if (before.method, before.seed) != (method, seed):
        raise InputError(
            f"the sample was drawn with seed {before.seed}, {_DRAWN[before.method]}, and not with "
            f"seed {seed}, {_DRAWN[method]}; a sample can only be extended as it was drawn, since "
            "no chance would be known otherwise; give the same options"
        )
    names = {pair_key(each): each for each in before.pairs}
    last = -1
    for place, (stratum, pair) in enumerate(order):
        sampled = names.get(pair_key(pair))
        if sampled is not None:
            last = place
            if sampled.stratum != stratum:
                raise InputError(
                    f"the pair of {sampled.entrant_a} and {sampled.entrant_b} on "
                    f"{sampled.prompt_id!r} was drawn where the judge said {sampled.stratum!r} and "
                    f"now says {stratum!r}; expected the verdicts it was drawn with; label "
                    "what was drawn, without a larger --sample"
                )
    return last + 1


_DRAWN: dict[DrawMethod, str] = {
    "random": "at random",
    "judge": "by the judge's verdicts",
    "active": "where a label is worth most",
    "given": "by another tool",
}
