"""Drawing pairs for people to label, dealing them out, and the page on which they are labelled."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.extras.people.builders import SCOPE, pairs
from tournament_assets.extras.people.label_records import LabelSample
from tournament_assets.extras.people.labelling.sampling import draw_label_sample
from tournament_assets.foundation.errors import InputError
from tournament_assets.storage.tables import PairKey, pair_key

ENTRANTS = ("ada", "bob", "cy")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def names(sample: LabelSample) -> list[PairKey]:
    return [pair_key(each) for each in sample.pairs]


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 5), st.booleans())
def test_an_extended_sample_begins_with_what_was_drawn(
    size: int, larger: int, seed: int, by_judge: bool
) -> None:
    of = {
        pair_key(pair): "tie" if place % 5 == 0 else "one side"
        for place, pair in enumerate(pairs())
    }
    strata = of if by_judge else None
    first = draw_label_sample(pairs(), **SCOPE, size=size, seed=seed, strata=strata)
    again = draw_label_sample(pairs(), **SCOPE, size=larger, seed=seed, strata=strata, before=first)
    assert len(again.pairs) == min(max(size, larger), 30)
    assert again.draw == 2
    assert names(again)[: len(first.pairs)] == names(first)
    assert [each.shared for each in again.pairs][:size] == [each.shared for each in first.pairs]
    # Drawn at once or in two steps, it is the same sample, with the same chances.
    at_once = draw_label_sample(pairs(), **SCOPE, size=max(size, larger), seed=seed, strata=strata)
    assert at_once.pairs == again.pairs
    sizes = Counter(of.values()) if by_judge else Counter({"": 30})
    drawn = Counter(each.stratum for each in again.pairs)
    for each in again.pairs:
        assert each.chance == drawn[each.stratum] / sizes[each.stratum]
    # As many of each stratum as long as they last, and the chances add up to all there are.
    if by_judge:
        assert abs(drawn["tie"] - drawn["one side"]) <= 1 or drawn["tie"] == 6
    assert sum(1 / each.chance for each in again.pairs) == pytest.approx(
        sum(sizes[stratum] for stratum in drawn)
    )


def test_every_pair_has_the_chance_that_is_written_down() -> None:
    drawn: Counter[PairKey] = Counter()
    for seed in range(600):
        sample = draw_label_sample(pairs(4), **SCOPE, size=3, seed=seed)
        drawn.update(names(sample))
        assert {each.chance for each in sample.pairs} == {0.25}
    # 600 draws of a quarter: a standard deviation is 10.6.
    assert len(drawn) == 12
    assert all(abs(count - 150) < 45 for count in drawn.values())


def test_the_same_text_is_left_out_and_counted() -> None:
    sample = draw_label_sample(pairs(same=4), **SCOPE, size=100)
    assert (sample.frame_size, sample.same_text, len(sample.pairs)) == (26, 4, 26)
    assert all(each.chance == 1 for each in sample.pairs)


def test_a_pair_whose_response_has_changed_keeps_its_place_and_is_another_pair() -> None:
    first = draw_label_sample(pairs(), **SCOPE, size=9)
    place = 4
    changed = [
        replace(pair, response_b="another") if pair_key(pair) == names(first)[place] else pair
        for pair in pairs()
    ]
    again = draw_label_sample(changed, **SCOPE, size=9, before=first)
    assert names(again) == names(first)
    new = [
        one.pair_id != other.pair_id for one, other in zip(first.pairs, again.pairs, strict=True)
    ]
    assert [number for number, is_new in enumerate(new) if is_new] == [place]


def test_a_sample_over_more_prompts_holds_what_was_drawn_with_chances_of_today() -> None:
    first = draw_label_sample(pairs(10), **SCOPE, size=15)
    more = draw_label_sample(pairs(20), **SCOPE, size=15, before=first)
    assert set(names(first)) < set(names(more))
    assert {each.chance for each in more.pairs} == {len(more.pairs) / 60}


@pytest.mark.parametrize("changed", [{"seed": 1}, {"strata": {}}])
def test_a_sample_is_extended_only_as_it_was_drawn(changed: dict[str, Any]) -> None:
    first = draw_label_sample(pairs(), **SCOPE, size=5)
    with pytest.raises(InputError, match="extended"):
        draw_label_sample(pairs(), **SCOPE, size=9, before=first, **changed)


def test_a_changed_verdict_of_a_drawn_pair_is_refused() -> None:
    strata = {pair_key(each): "tie" for each in pairs()}
    first = draw_label_sample(pairs(), **SCOPE, size=5, strata=strata)
    strata[names(first)[2]] = "one side"
    with pytest.raises(InputError, match="'tie'"):
        draw_label_sample(pairs(), **SCOPE, size=9, strata=strata, before=first)
