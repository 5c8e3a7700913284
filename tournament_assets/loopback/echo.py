"""What the loopback service answers to what is no judge request: an echo that says what it is."""

from tournament_assets.loopback.traits import list_content_words, list_words

_LABEL = "This is the loopback service, which is no language model."
_MOST_WORDS = 12


def respond_lexically(prompt: str) -> str:
    """Repeat the words of a prompt that carry meaning; the same prompt gives the same response."""
    words = list(dict.fromkeys(word for word in list_words(prompt) if list_content_words(word)))
    if not words:
        return f"{_LABEL} Nothing in the prompt carries meaning."
    return f"{_LABEL} The prompt is about: {', '.join(words[:_MOST_WORDS])}."
