import pytest

from tournament_assets.tournament.prompts import cut_thought


@pytest.mark.parametrize(
    ("text", "is_open", "response", "thought"),
    [
        ("<think>\nHm. Two.\n</think>\n\nTwo.", False, "Two.", "Hm. Two."),
        ("Hm. Two.\n</think>\n\nTwo.", True, "Two.", "Hm. Two."),
        ("Hm. Two.</think>Two.", False, "Two.", "Hm. Two."),
        ("<think>\n\n</think>\n\nTwo.", False, "Two.", ""),
        ("<think>Hm. Two", False, "", "Hm. Two"),
        ("Hm. Two", True, "", "Hm. Two"),
        ("Two.", False, "Two.", None),
        ("Write <think> and </think> around it.", False, None, None),
        ("<think>a</think>b</think>c", False, "b</think>c", "a"),
        ("", False, "", None),
    ],
)
def test_a_thought_is_cut_from_the_beginning_and_kept(
    text: str, is_open: bool, response: str | None, thought: str | None
) -> None:
    told = cut_thought(text, is_open=is_open)
    assert told.response == (text if response is None else response)
    assert told.thought == thought


def test_what_was_cut_is_counted() -> None:
    told = cut_thought("<think>Hm. Two.</think>Two.", is_open=False)
    assert told.diagnostics == {"thought": "Hm. Two.", "thought_words": 2}
    assert cut_thought("Two.", is_open=False).diagnostics == {}
