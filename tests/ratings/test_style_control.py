import re

import numpy as np
import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.ratings.covariates import ControlledFit, fit_controlled
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.ratings.style_control import (
    NOBODY,
    NOTHING_CONTROLLED,
    StyleControl,
    StyleFeatures,
    control_style,
    count_style,
    judged_differences,
    style_differences,
)

from .builders import ENTRANTS, simulate_judgments, wins

NAMES = ("words", "list_items", "bold_spans", "headings")


def battles(*, seed: int = 0) -> tuple[Matches, np.ndarray]:
    preferences = code_judgments(
        simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=60, seed=seed), entrants=ENTRANTS
    )
    x = np.random.default_rng(seed).uniform(-0.5, 0.5, size=(preferences.n_matches, 4))
    return preferences, x


def numbers(fit: ControlledFit | StyleControl) -> list[float | None]:
    return [
        *(each.value for each in fit.effects),
        *(value for each in fit.ratings for value in (each.value, each.low, each.high)),
    ]


def test_features_that_can_all_be_controlled_give_the_plain_fit() -> None:
    preferences, x = battles()
    found = control_style(preferences, x, confidence=0.9)
    expected = fit_controlled(preferences, x, names=NAMES, confidence=0.9)
    assert numbers(found) == pytest.approx(numbers(expected))
    assert found.refused == ()


def test_refused_features_are_named_and_the_others_stay() -> None:
    preferences, x = battles()
    x[:, 1] = 0.0
    strengths = np.array([0.1, 0.2, 0.4, 0.8])
    x[:, 2] = strengths[preferences.first] - strengths[preferences.second]
    x[:, 3] = -2 * x[:, 0]
    found = control_style(preferences, x, confidence=0.95)
    expected = fit_controlled(preferences, x[:, [0]], names=("words",), confidence=0.95)
    assert numbers(found) == pytest.approx(numbers(expected))
    reasons = {each.name: each.reason for each in found.refused}
    assert list(reasons) == ["list_items", "bold_spans", "headings"]
    assert "never differs" in reasons["list_items"]
    assert "who answered" in reasons["bold_spans"]
    assert "the others" in reasons["headings"]


def test_a_feature_that_tells_every_winner_is_refused() -> None:
    preferences, x = battles()
    x[:, 1] = preferences.preference - 0.5
    found = control_style(preferences, x, confidence=0.95)
    assert [each.name for each in found.effects] == ["words", "bold_spans", "headings"]
    assert "some responses win against it" in found.refused[0].reason


def test_without_any_feature_there_is_no_rating_at_equal_style() -> None:
    preferences, x = battles()
    found = control_style(preferences, np.zeros_like(x), confidence=0.95)
    assert {each.value for each in found.ratings} == {None}
    assert {each.low for each in found.ratings} == {None}
    assert {each.note for each in found.ratings} == {NOTHING_CONTROLLED}
    assert len(found.refused) == 4


def test_where_nobody_can_be_rated_no_feature_is_blamed() -> None:
    preferences = code_judgments(wins({("ada", "bob"): 3}), entrants=ENTRANTS)
    x = np.ones((3, 4))
    found = control_style(preferences, x, confidence=0.95)
    assert {each.value for each in found.ratings} == {None}
    assert {each.reason for each in found.refused} == {NOBODY}
    assert "judged" in str(found.ratings[3].note)


def test_missing_differences_are_errors_not_refusals() -> None:
    preferences, x = battles()
    with pytest.raises(InputError, match="expected"):
        control_style(preferences, x[:-1], confidence=0.95)
    x[0, 0] = np.nan
    with pytest.raises(InputError, match="are missing"):
        control_style(preferences, x, confidence=0.95)


def test_differences_are_the_first_responses_less_the_seconds() -> None:
    preferences = code_judgments(wins({("ada", "bob"): 1, ("bob", "ada"): 1}), entrants=ENTRANTS)
    responses = {
        ("ada", ("p0", 1)): "one two three",
        ("bob", ("p0", 1)): "one",
        ("ada", ("p1", 1)): "one",
        ("bob", ("p1", 1)): "**one**",
    }
    # (3 - 1) / (3 + 1 + 1) words; on p1 bob stands first and has one bold span more.
    np.testing.assert_allclose(
        judged_differences(preferences, responses),
        [[0.4, 0, 0, 0], [0, 0, 0.5, 0]],
    )


def test_every_judged_response_that_is_not_there_is_named() -> None:
    preferences = code_judgments(wins({("ada", "bob"): 2}), entrants=ENTRANTS)
    with pytest.raises(InputError) as caught:
        judged_differences(preferences, {("ada", ("p0", 1)): "x", ("bob", ("p1", 1)): "y"})
    found = [re.findall(r"'(\w+)'", each) for each in caught.value.problems]
    assert found == [["ada", "p1"], ["bob", "p0"]]


RESPONSE = """# Plan

Don't do **two things** at once: state-of-the-art __care__ is 2**3 and a_b__c_.

- first
  * nested `**not bold**`
1. one
2) two
---

```python
# not a heading
- not a list item
x = "**not bold**"
```
~~~~
# nor this
```
~~~~
## Done
"""


def test_a_response_is_counted_without_its_code() -> None:
    found = count_style(RESPONSE)
    assert (found.headings, found.list_items, found.bold_spans) == (2, 4, 2)
    assert found.words == 16 + 5


@pytest.mark.parametrize(
    ("text", "headings", "list_items", "bold_spans"),
    [
        ("", 0, 0, 0),
        ("#hashtag", 0, 0, 0),
        ("####### seven", 0, 0, 0),
        ("-dash", 0, 0, 0),
        ("***", 0, 0, 0),
        ("* * *", 0, 0, 0),
        ("2024. was a year", 0, 1, 0),
        ("** no **", 0, 0, 0),
        ("**a** and **b**", 0, 0, 2),
        ("**a\nb**", 0, 0, 1),
        ("**a\n\nb**", 0, 0, 0),
        ("snake__case__name", 0, 0, 0),
        ("***both***", 0, 0, 1),
        ("``a ` **b**`` **c**", 0, 0, 1),
        ("````\n```\n- still code\n````\n# heading", 1, 0, 0),
        ("```\n**never closed**\n- a", 0, 0, 0),
    ],
)
def test_marks(text: str, headings: int, list_items: int, bold_spans: int) -> None:
    found = count_style(text)
    assert (found.headings, found.list_items, found.bold_spans) == (
        headings,
        list_items,
        bold_spans,
    )


def test_length_is_words() -> None:
    found = count_style("Zwei  Wörter,\n你好 `code` 42.")
    assert found.words == 4


def test_differences_are_relative_and_change_sign_with_the_sides() -> None:
    long = StyleFeatures(words=299, list_items=3, bold_spans=0, headings=0)
    short = StyleFeatures(words=100, list_items=0, bold_spans=0, headings=1)
    expected = [[199 / 400, 3 / 4, 0.0, -1 / 2]]
    np.testing.assert_allclose(style_differences([long], [short]), expected)
    np.testing.assert_allclose(style_differences([short], [long]), -np.array(expected))
    one = style_differences([long], [short], names=["headings"])
    np.testing.assert_allclose(one, [[-1 / 2]])
    assert style_differences([], []).shape == (0, 4)


def test_unknown_features_and_uneven_lists_are_refused() -> None:
    features = count_style("a")
    with pytest.raises(InputError, match="'emoji'"):
        style_differences([features], [features], names=["emoji"])
    with pytest.raises(InputError, match=r"1 first.* 0 second"):
        style_differences([features], [])
