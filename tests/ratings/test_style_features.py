import numpy as np
import pytest

from tournament_assets.ratings.style_control import StyleFeatures, count_style, style_differences
from tournament_assets.tournament.errors import InputError

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
    words = "Plan Don't do two things at once state-of-the-art care is 2 3 and a_b__c_ first nested"
    assert found.words == len((words + " 1 one 2 two Done").split())


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


def test_length_is_words_and_visible_characters() -> None:
    found = count_style("Zwei  Wörter,\n你好 `code` 42.")
    assert (found.words, found.characters) == (4, len("ZweiWörter,你好42."))


def test_differences_are_relative_and_change_sign_with_the_sides() -> None:
    long = StyleFeatures(words=299, characters=0, list_items=3, bold_spans=0, headings=0)
    short = StyleFeatures(words=100, characters=0, list_items=0, bold_spans=0, headings=1)
    expected = [[199 / 400, 3 / 4, 0.0, -1 / 2]]
    np.testing.assert_allclose(style_differences([long], [short]), expected)
    np.testing.assert_allclose(style_differences([short], [long]), -np.array(expected))
    one = style_differences([long], [short], names=["headings"])
    np.testing.assert_allclose(one, [[-1 / 2]])
    assert style_differences([], []).shape == (0, 4)


def test_unknown_features_and_uneven_lists_are_refused() -> None:
    features = count_style("a")
    with pytest.raises(InputError, match="'emoji' is not a style feature"):
        style_differences([features], [features], names=["emoji"])
    with pytest.raises(InputError, match="1 first and 0 second"):
        style_differences([features], [])
