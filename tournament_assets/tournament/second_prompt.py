"""What the uncertainty head is asked about a response."""

import re

SECOND_PROMPT = """\
Question:
{prompt}

Answer:
{response}

Is this answer correct? Reply A for yes or B for no."""
"""The words that the bundled uncertainty head was trained with."""

_MARKS = re.compile(r"\{(prompt|response)\}")


def fill_in(template: str, *, prompt: str, response: str) -> str:
    """Put a prompt and a response into the words around them.

    Both are put in as they are: braces in them mean nothing.

    Args:
        template: Holds {prompt} and {response}.
        prompt: What was asked.
        response: What was answered.
    """
    parts = {"prompt": prompt, "response": response}
    return _MARKS.sub(lambda mark: parts[mark[1]], template)
