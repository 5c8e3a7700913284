from itertools import combinations

import numpy as np
import pytest

from tournament_assets.judging.requests.controls import (
    draw_anchors,
    drift_check_of,
    drift_check_purpose,
)
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.tournament.errors import InputError

ENTRANTS = ("ada", "bob", "cleo")


def make_pair(prompt: int, first: str, second: str, *, edition: str = "") -> PairToJudge:
    return PairToJudge(
        prompt_id=f"p{prompt}",
        source="recall",
        entrant_a=first,
        entrant_b=second,
        prompt_text=f"question {prompt}",
        response_a=f"{first} says {prompt}{edition}",
        response_b=f"{second} says {prompt}{edition}",
    )


def make_pairs(
    n_prompts: int, entrants: tuple[str, ...] = ENTRANTS, *, edition: str = ""
) -> list[PairToJudge]:
    return [
        make_pair(prompt, first, second, edition=edition)
        for prompt in range(n_prompts)
        for first, second in combinations(entrants, 2)
    ]


def draw(pairs: list[PairToJudge], sample: int, *, seed: int = 0) -> list[PairToJudge]:
    return draw_anchors(pairs, can_serve=lambda pair: True, sample=sample, seed=seed)


def names(pairs: list[PairToJudge]) -> set[tuple[str, frozenset[str]]]:
    return {(pair.prompt_id, frozenset((pair.entrant_a, pair.entrant_b))) for pair in pairs}


def test_anchors_do_not_depend_on_the_order_of_pairs_or_on_the_texts() -> None:
    pairs = make_pairs(50)
    drawn = draw(pairs, 20)
    shuffled = [pairs[index] for index in np.random.default_rng(1).permutation(len(pairs))]
    assert draw(shuffled, 20) == drawn
    assert names(draw(make_pairs(50, edition=", edited"), 20)) == names(drawn)
    assert names(draw(pairs, 20, seed=1)) != names(drawn)


def test_a_smaller_sample_is_the_beginning_of_a_larger_one() -> None:
    pairs = make_pairs(30)
    assert draw(pairs, 25) == draw(pairs, 80)[:25]
    assert len(draw(pairs, 1000)) == len(pairs)


def test_every_prompt_gives_one_pair_before_any_gives_a_second() -> None:
    drawn = draw(make_pairs(20), 30)
    assert len({pair.prompt_id for pair in drawn[:20]}) == 20
    assert len({pair.prompt_id for pair in drawn[20:]}) == 10


def test_new_prompts_replace_their_own_share_of_the_anchors() -> None:
    before = names(draw(make_pairs(200), 60))
    kept = len(before & names(draw(make_pairs(220), 60)))
    # 60 of the 220 best ranks, 20 of them new: about 5 anchors make room.
    assert 50 <= kept < 60


def test_a_new_entrant_replaces_its_own_share_of_the_anchors() -> None:
    entrants = tuple(f"e{number}" for number in range(10))
    before = names(draw(make_pairs(100, entrants[:9]), 60))
    kept = before & names(draw(make_pairs(100, entrants), 60))
    # Of a prompt's 45 pairs, 9 are new: about a fifth of the prompts change their pair.
    assert 40 <= len(kept) < 60


def test_what_cannot_serve_is_passed_over() -> None:
    pairs = make_pairs(10)
    drawn = draw_anchors(pairs, can_serve=lambda pair: pair.entrant_b != "cleo", sample=100, seed=0)
    assert names(drawn) == {(f"p{number}", frozenset(("ada", "bob"))) for number in range(10)}
    same = make_pair(1, "ada", "ada")
    turned = make_pair(2, "bob", "ada")
    assert draw([same, make_pair(2, "ada", "bob"), turned], 5) in (
        [turned],
        [make_pair(2, "ada", "bob")],
    )


def test_a_negative_sample_is_refused() -> None:
    with pytest.raises(InputError, match="sample is -1"):
        draw([], -1)


def test_only_purposes_of_occasions_name_one() -> None:
    assert drift_check_of(drift_check_purpose("rerun 7")) == "rerun 7"
    assert [drift_check_of(name) for name in ("verdicts", "retest", "controls")] == [None] * 3
